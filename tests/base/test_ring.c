/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/ring.h"

#include <pthread.h>
#include <sched.h>

#define PRODUCERS 3
#define ITEMS     4000 /* through a ring of 16; when it is full, a busy machine takes 20 ms */

static void ring_pop__first_in_first_out(void **state)
{
    struct br_ring ring;
    int items[3];

    (void)state;
    assert_int_equal(br_ring_init(&ring, 4), 0);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 3; i++)
            assert_true(br_ring_push(&ring, &items[i]));
        assert_false(br_ring_empty(&ring));
        assert_false(br_ring_idle(&ring));
        for (int i = 0; i < 3; i++)
            assert_ptr_equal(br_ring_pop(&ring), &items[i]);
        assert_true(br_ring_empty(&ring));
        assert_true(br_ring_idle(&ring));
        assert_null(br_ring_pop(&ring));
    }
    br_ring_destroy(&ring);
}

/* Fills the ring and returns how many went in. */
static int fill(struct br_ring *ring, int *item)
{
    int n = 0;

    while (n < 1000 && br_ring_push(ring, item))
        n++;
    return n;
}

static void ring_push__full(void **state)
{
    static const struct {
        uint32_t asked;
        int holds;
    } cases[] = {{0, 2}, {1, 2}, {2, 2}, {3, 4}, {64, 64}};
    int item;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct br_ring ring;

        assert_int_equal(br_ring_init(&ring, cases[i].asked), 0);
        assert_int_equal(fill(&ring, &item), cases[i].holds);
        assert_ptr_equal(br_ring_pop(&ring), &item);
        assert_true(br_ring_push(&ring, &item));
        assert_false(br_ring_push(&ring, &item));
        br_ring_destroy(&ring);
    }
}

struct producer {
    struct br_ring *ring;
    uintptr_t id;
};

static void *produce(void *arg)
{
    struct producer *producer = arg;

    for (uintptr_t i = 0; i < ITEMS; i++)
        while (!br_ring_push(producer->ring, (void *)(producer->id << 32 | (i + 1))))
            sched_yield();
    return NULL;
}

/* Nothing is lost, nothing doubled, and each producer's items keep their order. */
static void ring_push__from_many_threads(void **state)
{
    struct producer producers[PRODUCERS];
    pthread_t threads[PRODUCERS];
    uintptr_t last[PRODUCERS] = {0};
    struct br_ring ring;

    (void)state;
    assert_int_equal(br_ring_init(&ring, 16), 0);
    for (uintptr_t i = 0; i < PRODUCERS; i++) {
        producers[i] = (struct producer){.ring = &ring, .id = i};
        assert_int_equal(pthread_create(&threads[i], NULL, produce, &producers[i]), 0);
    }
    for (int got = 0; got < PRODUCERS * ITEMS;) {
        uintptr_t item = (uintptr_t)br_ring_pop(&ring);

        if (!item) {
            sched_yield();
            continue;
        }
        assert_true(item >> 32 < PRODUCERS);
        assert_int_equal(item & UINT32_MAX, last[item >> 32] + 1);
        last[item >> 32]++;
        got++;
    }
    for (int i = 0; i < PRODUCERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_true(br_ring_empty(&ring));
    br_ring_destroy(&ring);
}

static void ring_destroy__twice(void **state)
{
    struct br_ring ring;

    (void)state;
    assert_int_equal(br_ring_init(&ring, 8), 0);
    br_ring_destroy(&ring);
    br_ring_destroy(&ring);
    assert_null(ring.cells);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_pop__first_in_first_out),
        cmocka_unit_test(ring_push__full),
        cmocka_unit_test(ring_push__from_many_threads),
        cmocka_unit_test(ring_destroy__twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
