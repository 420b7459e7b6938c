/* SPDX-License-Identifier: BSD-3-Clause */
/* The order of the steps, against a list that is searched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "transport/sim/internal.h"

#define MOST 400 /* steps at a time */

static uint64_t pending[MOST]; /* when, and the number of its insertion: at << 32 | number */
static uint32_t n_pending;

static void push(struct br_sim_heap *heap, uint64_t at, uint32_t number)
{
    const struct br_sim_step step = {.at = at, .fault = number};

    assert_int_equal(br_sim_heap_push(heap, &step), 0);
    pending[n_pending++] = at << 32 | number;
}

/* Returns when the step was. */
static uint64_t pop(struct br_sim_heap *heap)
{
    struct br_sim_step step;
    uint32_t least = 0;

    for (uint32_t i = 1; i < n_pending; i++)
        if (pending[i] < pending[least])
            least = i;
    assert_true(br_sim_heap_pop(heap, &step));
    assert_int_equal(step.at << 32 | step.fault, pending[least]);
    pending[least] = pending[--n_pending];
    return step.at;
}

/* Steps are made for now and for later, often for the same moment, in bursts of more than stand in
 * the row of the next ones, and taken in bursts. */
static void br_sim_heap_pop__in_order_of_time_and_insertion(void **state)
{
    struct br_sim_heap heap = {.count = 0};
    struct br_sim_step none;
    unsigned short seed[3] = {1, 2, 3};
    uint64_t now = 0;
    uint32_t made = 0;

    (void)state;
    while (made < 20000) {
        uint32_t pushes = (uint32_t)nrand48(seed) % (2 * BR_SIM_FRONT + 2),
                 pops = (uint32_t)nrand48(seed) % (2 * BR_SIM_FRONT + 2);

        for (; pushes && n_pending < MOST; pushes--, made++)
            push(&heap, now + (uint64_t)nrand48(seed) % (made % 2 ? 3 : 100), made);
        for (; pops && n_pending; pops--)
            now = pop(&heap);
    }
    while (n_pending)
        pop(&heap);
    assert_false(br_sim_heap_pop(&heap, &none));
    free(heap.memory);
    free(heap.steps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_sim_heap_pop__in_order_of_time_and_insertion),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
