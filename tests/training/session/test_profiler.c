/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "training/session/profiler.h"

#include <math.h>

#define NEAR(a, b) assert_true(fabs((double)(a) - (double)(b)) < 1e-12)

/* What a program does, second by second. */
struct program {
    struct br_profiler profiler;
    uint64_t now;
};

static void start(struct program *p, uint32_t n)
{
    assert_int_equal(br_profiler_open(&p->profiler, n), 0);
    p->now = 1000;
}

static void compute(struct program *p, uint64_t seconds)
{
    p->now += seconds * 1000000000;
}

static void call(struct program *p, enum br_profiler_call what, uint32_t layer, uint64_t seconds)
{
    br_profiler_enter(&p->profiler, what, layer, p->now);
    compute(p, seconds);
    br_profiler_leave(&p->profiler, p->now);
}

/* Two layers: forward 1 and 2, backward 3 and 4; 5 and 6 are waited for them, 7 in the step. */
static void iteration(struct program *p)
{
    call(p, BR_PROFILER_WAIT, 0, 5);
    compute(p, 1);
    call(p, BR_PROFILER_WAIT, 1, 6);
    compute(p, 2);
    call(p, BR_PROFILER_STEP, 0, 7);
    compute(p, 4);
    call(p, BR_PROFILER_READY, 1, 0);
    compute(p, 3);
    call(p, BR_PROFILER_READY, 0, 0);
    compute(p, 100); /* the program's own affair */
}

/* All layers are waited for at once, and again when their turn comes. */
static void pace__of_a_program_that_waits_for_several(void **state)
{
    struct br_layer layers[2];
    struct program p;

    (void)state;
    start(&p, 2);
    for (int i = 0; i < 3; i++) {
        call(&p, BR_PROFILER_WAIT, 1, 5);
        call(&p, BR_PROFILER_WAIT, 0, 0);
        compute(&p, 1);
        call(&p, BR_PROFILER_WAIT, 1, 0);
        compute(&p, 2);
        call(&p, BR_PROFILER_STEP, 0, 0);
        call(&p, BR_PROFILER_READY, 1, 0);
        call(&p, BR_PROFILER_READY, 0, 0);
    }
    br_profiler_times(&p.profiler, layers);
    NEAR(layers[0].forward, 1);
    NEAR(layers[1].forward, 2);
    br_profiler_close(&p.profiler);
}

static void pace__of_a_program_that_overlaps(void **state)
{
    struct br_layer layers[2];
    struct program p;
    double exposed;

    (void)state;
    start(&p, 2);
    NEAR(br_profiler_iteration(&p.profiler, &exposed), 0);
    for (int i = 0; i < 3; i++)
        iteration(&p);
    br_profiler_times(&p.profiler, layers);
    NEAR(layers[0].forward, 1);
    NEAR(layers[1].forward, 2);
    NEAR(layers[0].backward, 3);
    NEAR(layers[1].backward, 4);
    assert_int_equal(p.profiler.iterations, 2); /* from first ready to first ready */
    NEAR(br_profiler_iteration(&p.profiler, &exposed), 5 + 1 + 6 + 2 + 7 + 4 + 3 + 100);
    NEAR(exposed, 5 + 6 + 7);
    br_profiler_close(&p.profiler);
}

/* The step is behind the backward pass, nobody waits for a layer: forward times are not known. */
static void pace__of_a_program_that_does_not(void **state)
{
    struct br_layer layers[2];
    struct program p;
    double exposed;

    (void)state;
    start(&p, 2);
    for (int i = 0; i < 3; i++) {
        compute(&p, 4);
        call(&p, BR_PROFILER_READY, 1, 0);
        compute(&p, 3);
        call(&p, BR_PROFILER_READY, 0, 0);
        call(&p, BR_PROFILER_STEP, 0, 7);
        compute(&p, 10);
    }
    br_profiler_times(&p.profiler, layers);
    NEAR(layers[0].forward, 0);
    NEAR(layers[0].backward, 3);
    NEAR(layers[1].backward, 14); /* with all that comes before it; it delays nothing */
    NEAR(br_profiler_iteration(&p.profiler, &exposed), 24);
    NEAR(exposed, 7);
    br_profiler_close(&p.profiler);
}

/* Branches: layers wait and are ready in an order of their own, another one each time, and one of
 * them is not waited for. */
static void pace__of_layers_in_any_order(void **state)
{
    static const uint32_t orders[3][3] = {{0, 2, 1}, {1, 0, 2}, {2, 0, 1}};
    struct br_layer layers[3];
    struct program p;
    double exposed;

    (void)state;
    start(&p, 3);
    for (int i = 0; i < 3; i++) {
        for (uint32_t j = 0; j < 3; j++) {
            if (orders[i][j] == 1)
                continue;
            call(&p, BR_PROFILER_WAIT, orders[i][j], 5);
            compute(&p, orders[i][j] + 1);
        }
        call(&p, BR_PROFILER_STEP, 0, 7);
        for (uint32_t j = 0; j < 3; j++) {
            compute(&p, 10 + orders[i][j]);
            call(&p, BR_PROFILER_READY, orders[i][j], 0);
        }
        compute(&p, 100); /* the program's own affair */
    }
    br_profiler_times(&p.profiler, layers);
    for (uint32_t l = 0; l < 3; l++) {
        NEAR(layers[l].forward, l == 1 ? 0 : l + 1);
        NEAR(layers[l].backward, 10 + l);
    }
    assert_int_equal(p.profiler.iterations, 2);
    /* from step to step all iterations take as long; the first layer that is ready takes a second
     * more each time */
    NEAR(br_profiler_iteration(&p.profiler, &exposed), 5 + 1 + 5 + 3 + 7 + 10 + 11 + 12 + 100 + 1);
    NEAR(exposed, 5 + 5 + 7);
    br_profiler_close(&p.profiler);
}

static void pace_reset__forgets(void **state)
{
    struct br_layer layers[2];
    struct program p;
    double exposed;

    (void)state;
    start(&p, 2);
    iteration(&p);
    iteration(&p);
    br_profiler_reset(&p.profiler);
    compute(&p, 50);
    br_profiler_times(&p.profiler, layers);
    NEAR(layers[0].backward + layers[1].backward + layers[0].forward + layers[1].forward, 0);
    call(&p, BR_PROFILER_READY, 1, 0); /* what was before the reset is not its backward pass */
    br_profiler_times(&p.profiler, layers);
    NEAR(layers[1].backward, 0);
    NEAR(br_profiler_iteration(&p.profiler, &exposed), 0);
    br_profiler_close(&p.profiler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pace__of_a_program_that_overlaps),
        cmocka_unit_test(pace__of_a_program_that_waits_for_several),
        cmocka_unit_test(pace__of_a_program_that_does_not),
        cmocka_unit_test(pace__of_layers_in_any_order),
        cmocka_unit_test(pace_reset__forgets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
