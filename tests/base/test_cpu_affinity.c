/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/cpu_affinity.h"

#include <sched.h>
#include <unistd.h>

static cpu_set_t all;

static uint32_t cpus(void)
{
    return (uint32_t)CPU_COUNT(&all);
}

static int restore(void **state)
{
    (void)state;
    return sched_setaffinity(0, sizeof all, &all);
}

/* The test is about machines on which nobody has been bound, and which have cores to choose
 * from. */
static void need_whole_machine(void)
{
    if (cpus() < 2 || cpus() != sysconf(_SC_NPROCESSORS_ONLN))
        skip();
}

static void cpu_affinity_choose__spreads_ranks_evenly_and_seats_neighbours_together(void **state)
{
    uint32_t ranks[CPU_SETSIZE] = {0};
    struct br_cpu_affinity seat;
    int last = 0;

    (void)state;
    need_whole_machine();
    for (uint32_t i = 0; i < 3 * cpus(); i++) {
        br_cpu_affinity_choose(&seat, i, 3 * cpus());
        assert_true(seat.cpu >= last);
        last = seat.cpu;
        ranks[seat.cpu]++;
    }
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        assert_int_equal(ranks[cpu], CPU_ISSET((size_t)cpu, &all) ? 3 : 0);
}

/* A rank knows which ranks have chosen the same core, also where some cores have one more. */
static void cpu_affinity_choose__knows_who_shares_the_core(void **state)
{
    struct br_cpu_affinity seat, other;

    (void)state;
    need_whole_machine();
    for (uint32_t n = cpus(); n <= 3 * cpus(); n++)
        for (uint32_t i = 0; i < n; i++) {
            br_cpu_affinity_choose(&seat, i, n);
            for (uint32_t k = 0; k < n; k++) {
                br_cpu_affinity_choose(&other, k, n);
                assert_int_equal(k >= seat.first && k < seat.end, other.cpu == seat.cpu);
            }
        }
}

static void cpu_affinity_choose__none_where_cores_are_left(void **state)
{
    struct br_cpu_affinity seat;

    (void)state;
    need_whole_machine();
    br_cpu_affinity_choose(&seat, 0, cpus() - 1);
    assert_int_equal(seat.cpu, -1);
    assert_int_equal(seat.end, 0);
    br_cpu_affinity_choose(&seat, UINT32_MAX, 4 * cpus()); /* nobody knows which rank this is */
    assert_int_equal(seat.cpu, -1);
}

static void cpu_affinity_choose__none_for_a_process_that_was_bound(void **state)
{
    struct br_cpu_affinity seat;
    cpu_set_t one;

    (void)state;
    need_whole_machine();
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    br_cpu_affinity_choose(&seat, 0, 4 * cpus());
    assert_int_equal(seat.cpu, -1);
}

/* Where the kernel has this thread right now is not ours to say: the seat that it is not on. */
static void seat_elsewhere(struct br_cpu_affinity *seat)
{
    br_cpu_affinity_choose(seat, 0, cpus());
    if (sched_getcpu() == seat->cpu)
        br_cpu_affinity_choose(seat, cpus() - 1, cpus());
}

static void cpu_affinity_take__moves_and_leaves_the_affinity(void **state)
{
    bool moved = false;
    struct br_cpu_affinity seat;
    cpu_set_t now;

    (void)state;
    need_whole_machine();
    for (int i = 0; i < 100 && !moved; i++) { /* the kernel may move us between the two calls */
        seat_elsewhere(&seat);
        moved = br_cpu_affinity_take(&seat, BR_SEC);
    }
    assert_true(moved);
    assert_int_equal(sched_getaffinity(0, sizeof now, &now), 0);
    assert_true(CPU_EQUAL(&now, &all));
}

static void cpu_affinity_take__not_again_within_the_pause(void **state)
{
    struct br_cpu_affinity seat;

    (void)state;
    need_whole_machine();
    for (int i = 0; i < 100; i++) {
        seat_elsewhere(&seat);
        seat.taken = BR_SEC;
        seat.pause = 2 * BR_MS;
        assert_false(br_cpu_affinity_take(&seat, BR_SEC + BR_MS));
    }
}

/* The kernel may move the thread at any time, so more turns than moves may be needed. */
static void cpu_affinity_take__pauses_grow(void **state)
{
    struct br_cpu_affinity seat, elsewhere;
    uint64_t now = BR_SEC, wanted = BR_MS;
    int moves = 0;

    (void)state;
    need_whole_machine();
    br_cpu_affinity_choose(&seat, 0, cpus());
    for (int i = 0; i < 1000 && moves < 6; i++, now += BR_SEC) {
        seat_elsewhere(&elsewhere);
        seat.cpu = elsewhere.cpu;
        if (!br_cpu_affinity_take(&seat, now))
            continue;
        assert_int_equal(seat.pause, wanted);
        wanted = wanted * 2 < 10 * BR_MS ? wanted * 2 : 10 * BR_MS;
        moves++;
    }
    assert_int_equal(moves, 6);
}

static void cpu_affinity_take__does_not_touch_a_thread_that_was_bound_later(void **state)
{
    struct br_cpu_affinity seat;
    cpu_set_t one, now;

    (void)state;
    need_whole_machine();
    seat_elsewhere(&seat);
    CPU_ZERO(&one);
    for (int cpu = 0; !CPU_COUNT(&one); cpu++)
        if (CPU_ISSET((size_t)cpu, &all) && cpu != seat.cpu)
            CPU_SET((size_t)cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_false(br_cpu_affinity_take(&seat, BR_SEC));
    assert_int_equal(sched_getaffinity(0, sizeof now, &now), 0);
    assert_true(CPU_EQUAL(&now, &one));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cpu_affinity_choose__spreads_ranks_evenly_and_seats_neighbours_together),
        cmocka_unit_test(cpu_affinity_choose__knows_who_shares_the_core),
        cmocka_unit_test(cpu_affinity_choose__none_where_cores_are_left),
        cmocka_unit_test_teardown(cpu_affinity_choose__none_for_a_process_that_was_bound, restore),
        cmocka_unit_test(cpu_affinity_take__moves_and_leaves_the_affinity),
        cmocka_unit_test(cpu_affinity_take__not_again_within_the_pause),
        cmocka_unit_test(cpu_affinity_take__pauses_grow),
        cmocka_unit_test_teardown(cpu_affinity_take__does_not_touch_a_thread_that_was_bound_later,
                                  restore),
    };

    if (sched_getaffinity(0, sizeof all, &all))
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
