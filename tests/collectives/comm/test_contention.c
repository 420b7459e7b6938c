/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/comm/contention.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Waits that sleep until one yields again. */
static uint32_t sleeps(struct br_contention *contention)
{
    uint32_t n = 0;

    while (br_contention_sleeps(contention))
        n++;
    return n;
}

static void sleeps__not_after_quick_yields(void **state)
{
    struct br_contention contention = {0};

    (void)state;
    for (int i = 0; i < 1000; i++) {
        assert_false(br_contention_sleeps(&contention));
        br_contention_yielded(&contention, BR_CONTENTION_SLOW - 1);
    }
}

static void sleeps__not_after_turns_of_many_ranks(void **state)
{
    struct br_contention contention = {.ranks = 8};

    (void)state;
    br_contention_yielded(&contention, BR_CONTENTION_SLOW + 8 * BR_CONTENTION_TURN - 1);
    assert_false(br_contention_sleeps(&contention));
    br_contention_yielded(&contention, BR_CONTENTION_SLOW + 8 * BR_CONTENTION_TURN);
    assert_true(br_contention_sleeps(&contention));
}

static void yielded__slow_ones_are_followed_by_ever_more_sleeps(void **state)
{
    struct br_contention contention = {0};
    uint32_t expected = BR_CONTENTION_LEAST;

    (void)state;
    for (int i = 0; i < 10; i++) {
        br_contention_yielded(&contention, BR_CONTENTION_SLOW);
        assert_int_equal(sleeps(&contention), expected);
        expected = expected * 4 < BR_CONTENTION_MOST ? expected * 4 : BR_CONTENTION_MOST;
    }
}

static void yielded__slow_ones_are_forgotten_after_quick_ones(void **state)
{
    struct br_contention contention = {0};

    (void)state;
    for (int i = 0; i < 10; i++) {
        br_contention_yielded(&contention, BR_CONTENTION_SLOW);
        sleeps(&contention);
    }
    for (int i = 0; i < 100; i++)
        br_contention_yielded(&contention, 0);
    br_contention_yielded(&contention, BR_CONTENTION_SLOW);
    assert_int_equal(sleeps(&contention), BR_CONTENTION_LEAST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sleeps__not_after_quick_yields),
        cmocka_unit_test(sleeps__not_after_turns_of_many_ranks),
        cmocka_unit_test(yielded__slow_ones_are_followed_by_ever_more_sleeps),
        cmocka_unit_test(yielded__slow_ones_are_forgotten_after_quick_ones),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
