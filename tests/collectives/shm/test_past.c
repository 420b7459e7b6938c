/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/shm/past.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BYTES ((size_t)32 << 10)
#define DEAR  (4 * BYTES) /* ns: four times the trip */
#define CHEAP (BYTES / 2)

static struct br_shm_past make(void)
{
    return (struct br_shm_past){.trip = 1};
}

static enum br_shm_past_way next_way(struct br_shm_past *past, size_t bytes)
{
    bool measured;

    return br_shm_past_next(past, bytes, &measured);
}

static bool next_is_measured(struct br_shm_past *past, size_t bytes)
{
    bool measured;

    br_shm_past_next(past, bytes, &measured);
    return measured;
}

/* Makes copies, of which the measured ones, into the caches, take `ns`, until one is measured.
 * Returns how many went past the caches before it. */
static uint32_t until_measured(struct br_shm_past *past, uint64_t ns)
{
    uint32_t n = 0;

    for (;;) {
        bool measured;
        enum br_shm_past_way way = br_shm_past_next(past, BYTES, &measured);

        if (measured) {
            assert_int_equal(way, BR_SHM_INTO_CACHES);
            br_shm_past_took(past, BYTES, way, ns);
            return n;
        }
        n += way == BR_SHM_PAST_CACHES;
    }
}

static void next__takes_the_caches_for_small_copies_and_where_no_trip_was_measured(void **state)
{
    struct br_shm_past past = make(), told = {.told = true}, none = {0};

    (void)state;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(next_way(&past, 4095), BR_SHM_INTO_CACHES);
        assert_false(next_is_measured(&told, 4095));
        assert_int_equal(next_way(&none, BYTES), BR_SHM_INTO_CACHES);
        assert_false(next_is_measured(&none, BYTES));
    }
    br_shm_past_took(&none, BYTES, BR_SHM_INTO_CACHES, DEAR);
    assert_int_equal(next_way(&none, BYTES), BR_SHM_INTO_CACHES);
}

static void next__goes_past_the_caches_where_they_are_dear_and_looks_ever_more_rarely(void **state)
{
    struct br_shm_past past = make();
    uint32_t expected = 4;

    (void)state;
    assert_int_equal(until_measured(&past, DEAR), 0);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(until_measured(&past, DEAR), expected);
        expected = expected < 256 ? expected * 2 : expected;
    }
}

static void next__returns_to_the_caches_as_soon_as_they_are_cheap(void **state)
{
    struct br_shm_past past = make();

    (void)state;
    for (int i = 0; i < 20; i++)
        until_measured(&past, DEAR);
    until_measured(&past, CHEAP);
    for (int i = 0; i < 20; i++)
        assert_int_equal(until_measured(&past, CHEAP), 0);
}

static void took__a_copy_that_was_interrupted_changes_nothing(void **state)
{
    struct br_shm_past past = make();
    uint32_t dear = 0;

    (void)state;
    until_measured(&past, CHEAP);
    until_measured(&past, 1000 * DEAR);
    assert_int_equal(until_measured(&past, CHEAP), 0);
    /* several are no accident */
    while (dear < 100 && !until_measured(&past, DEAR))
        dear++;
    assert_in_range(dear, 2, 10);
}

static void took__knows_lengths_apart(void **state)
{
    struct br_shm_past past = make();

    (void)state;
    until_measured(&past, DEAR);
    assert_int_equal(next_way(&past, BYTES), BR_SHM_PAST_CACHES);
    assert_true(next_is_measured(&past, BYTES / 2));
    br_shm_past_took(&past, BYTES / 2, BR_SHM_INTO_CACHES, CHEAP / 2);
    assert_int_equal(next_way(&past, BYTES / 2), BR_SHM_INTO_CACHES);
    /* longer than any class: as the longest */
    assert_true(next_is_measured(&past, (size_t)1 << 40));
}

/* `n` copies by whichever way is taken, where both take so many ns. Returns how many went past the
 * caches. */
static int told_past(struct br_shm_past *past, int n, uint64_t into, uint64_t past_them)
{
    int went = 0;

    for (int i = 0; i < n; i++) {
        bool measured;
        enum br_shm_past_way way = br_shm_past_next(past, BYTES, &measured);

        went += way == BR_SHM_PAST_CACHES;
        if (measured)
            br_shm_past_took(past, BYTES, way, way == BR_SHM_PAST_CACHES ? past_them : into);
    }
    return went;
}

static void took__both_ways_where_the_reader_tells(void **state)
{
    struct br_shm_past past = {.told = true};

    (void)state;
    told_past(&past, 100, DEAR, CHEAP);
    assert_in_range(told_past(&past, 1000, DEAR, CHEAP), 900, 999);
    told_past(&past, 5000, CHEAP, DEAR); /* it is another phase of the machine */
    assert_in_range(told_past(&past, 1000, CHEAP, DEAR), 1, 100);
}

static void copy__asks_one_reader_at_a_time(void **state)
{
    uint8_t *from = calloc(1, BYTES), *to = calloc(1, BYTES);
    struct br_shm_past past = {.told = true};

    (void)state;
    assert_true(from && to);
    br_shm_past_copy(&past, to, from, BYTES);
    assert_int_equal(past.asked.bytes, BYTES);
    assert_int_equal(past.asked.way, BR_SHM_INTO_CACHES);
    for (int i = 0; i < 100; i++)
        assert_false(next_is_measured(&past, BYTES));
    br_shm_past_hear(&past, BYTES);
    assert_int_equal(past.asked.bytes, 0);
    assert_true(past.classes[3].cost[BR_SHM_INTO_CACHES] > 1); /* with this rank's part */
    free(from);
    free(to);
}

static void measure_trip__says_what_a_byte_takes(void **state)
{
    uint8_t *memory = calloc(2, BYTES);
    struct br_shm_past past = {0};

    (void)state;
    assert_non_null(memory);
    br_shm_past_measure_trip(&past, memory, BYTES);
    assert_true(past.trip > 1e-4 && past.trip < 100);
    free(memory);
}

static void copy__copies_by_all_ways(void **state)
{
    uint8_t *from = malloc(2 * BYTES), *to = malloc(2 * BYTES);

    (void)state;
    assert_true(from && to);
    for (size_t i = 0; i < 2 * BYTES; i++)
        from[i] = (uint8_t)(i * 7 + i / 251);
    for (int dear = 0; dear < 2; dear++) {
        struct br_shm_past past = {.trip = dear ? 1e-9 : 1e9};

        for (size_t i = 0; i < 64; i++) {
            size_t bytes = 4096 + i * 331;

            memset(to, 0, 2 * BYTES);
            br_shm_past_copy(&past, to + i, from + 3 * i, bytes);
            assert_memory_equal(to + i, from + 3 * i, bytes);
            assert_true((!i || !to[i - 1]) && !to[i + bytes]);
        }
    }
    free(from);
    free(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(next__takes_the_caches_for_small_copies_and_where_no_trip_was_measured),
        cmocka_unit_test(next__goes_past_the_caches_where_they_are_dear_and_looks_ever_more_rarely),
        cmocka_unit_test(next__returns_to_the_caches_as_soon_as_they_are_cheap),
        cmocka_unit_test(took__a_copy_that_was_interrupted_changes_nothing),
        cmocka_unit_test(took__knows_lengths_apart),
        cmocka_unit_test(took__both_ways_where_the_reader_tells),
        cmocka_unit_test(copy__asks_one_reader_at_a_time),
        cmocka_unit_test(measure_trip__says_what_a_byte_takes),
        cmocka_unit_test(copy__copies_by_all_ways),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
