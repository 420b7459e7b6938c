/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/comm/contention.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define SLOW (BR_CONTENTION_SLOW + 2 * BR_CONTENTION_TURN)

/* Yields of a rank that each take `took` ns, in which it has used `used`, for a second. */
static void yield(struct br_contention *contention, uint64_t took, uint64_t used)
{
    uint64_t now = BR_SEC, cpu = BR_SEC;

    for (; now < 2 * BR_SEC; now += took, cpu += used)
        if (br_contention_yielded(contention, now - took, now))
            br_contention_judge(contention, now - took, now, cpu);
}

/* 4 ranks on 2 cores: half a core is the share of each. */
static struct br_contention four_on_two(void)
{
    return (struct br_contention){.ranks = 4, .cores = 2};
}

static void judge__quick_yields_are_no_contention(void **state)
{
    struct br_contention contention = four_on_two();

    (void)state;
    yield(&contention, SLOW - 1, 0);
    assert_false(contention.contended);
}

static void judge__long_turns_of_ranks_are_no_contention(void **state)
{
    struct br_contention contention = four_on_two();

    (void)state;
    yield(&contention, 2 * SLOW, SLOW);
    assert_false(contention.contended);
}

static void judge__slow_yields_with_little_time_are_contention(void **state)
{
    struct br_contention contention = four_on_two();

    (void)state;
    yield(&contention, SLOW, SLOW / 2 / 4 - BR_US);
    assert_true(contention.contended);
}

static void judge__a_core_at_most_is_the_share(void **state)
{
    struct br_contention contention = {.ranks = 2, .cores = 64};

    (void)state;
    yield(&contention, SLOW, SLOW / 4 + BR_US);
    assert_false(contention.contended);
    yield(&contention, SLOW, SLOW / 4 - BR_US);
    assert_true(contention.contended);
}

static void judge__one_slow_yield_says_nothing(void **state)
{
    struct br_contention contention = four_on_two();

    (void)state;
    assert_true(br_contention_yielded(&contention, BR_SEC, BR_SEC + SLOW));
    br_contention_judge(&contention, BR_SEC, BR_SEC + SLOW, 0);
    assert_false(contention.contended);
    assert_false(br_contention_yielded(&contention, BR_SEC + SLOW, BR_SEC + 2 * SLOW));
}

/* With short slices yields are quick, and the rank has more than before, but not its share. */
static void judge__contention_lasts_until_a_rank_has_its_share(void **state)
{
    struct br_contention contention = four_on_two();

    (void)state;
    contention.contended = true;
    yield(&contention, BR_MS, BR_MS / 4);
    assert_true(contention.contended);
    yield(&contention, BR_MS, BR_MS / 2);
    assert_false(contention.contended);
}

/* A program that sleeps half a second between two calls, each with a slow yield. */
static void judge__time_elsewhere_says_nothing(void **state)
{
    struct br_contention contention = four_on_two();
    uint64_t now = BR_SEC;

    (void)state;
    for (int i = 0; i < 4; i++, now += BR_SEC / 2) {
        assert_true(br_contention_yielded(&contention, now - SLOW, now));
        br_contention_judge(&contention, now - SLOW, now, 0);
        assert_false(contention.contended);
    }
    contention.contended = true; /* what was found long ago holds no longer */
    assert_true(br_contention_yielded(&contention, now - BR_US, now));
    br_contention_judge(&contention, now - BR_US, now, 0);
    assert_false(contention.contended);
}

/* One yield that takes so long is evidence. */
static void judge__a_very_slow_yield_is_contention(void **state)
{
    struct br_contention contention = four_on_two();

    (void)state;
    yield(&contention, BR_SEC / 4, 0);
    assert_true(contention.contended);
}

static void slept__is_no_time_of_the_window(void **state)
{
    struct br_contention contention = four_on_two();

    (void)state;
    br_contention_judge(&contention, BR_SEC, BR_SEC, BR_SEC);
    br_contention_slept(&contention, BR_SEC + BR_MS, 2 * BR_SEC);
    assert_false(br_contention_yielded(&contention, 0, 2 * BR_SEC + BR_CONTENTION_WINDOW / 2));
    assert_true(br_contention_yielded(&contention, 0, 2 * BR_SEC + BR_CONTENTION_WINDOW));
    /* a window that began while the thread slept */
    br_contention_slept(&contention, 0, 3 * BR_SEC);
    assert_int_equal(contention.since, 3 * BR_SEC);
}

static void yielded__nothing_without_a_number_of_cores(void **state)
{
    struct br_contention contention = {0};

    (void)state;
    assert_false(br_contention_yielded(&contention, 0, BR_SEC));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(judge__quick_yields_are_no_contention),
        cmocka_unit_test(judge__long_turns_of_ranks_are_no_contention),
        cmocka_unit_test(judge__slow_yields_with_little_time_are_contention),
        cmocka_unit_test(judge__a_core_at_most_is_the_share),
        cmocka_unit_test(judge__one_slow_yield_says_nothing),
        cmocka_unit_test(judge__contention_lasts_until_a_rank_has_its_share),
        cmocka_unit_test(judge__time_elsewhere_says_nothing),
        cmocka_unit_test(judge__a_very_slow_yield_is_contention),
        cmocka_unit_test(slept__is_no_time_of_the_window),
        cmocka_unit_test(yielded__nothing_without_a_number_of_cores),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
