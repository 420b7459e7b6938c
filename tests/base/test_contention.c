/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/contention.h"

#define START (1000 * BR_SEC)

static void contention__short_looks_are_none(void **state)
{
    struct br_contention contention = {0};

    (void)state;
    br_contention_note(&contention, BR_CONTENTION_SLICE - 1, START);
    assert_false(br_contention_is(&contention, START));
}

static void contention__ends_after_a_while(void **state)
{
    struct br_contention contention = {0};

    (void)state;
    br_contention_note(&contention, BR_CONTENTION_SLICE, START);
    assert_true(br_contention_is(&contention, START + BR_CONTENTION_LEAST - 1));
    assert_false(br_contention_is(&contention, START + BR_CONTENTION_LEAST));
}

/* Another thread's look that began before says nothing new. */
static void contention__is_noted_once(void **state)
{
    struct br_contention contention = {0};

    (void)state;
    br_contention_note(&contention, BR_MS, START);
    br_contention_note(&contention, BR_MS, START + BR_MS);
    assert_false(br_contention_is(&contention, START + BR_CONTENTION_LEAST));
}

static void contention__while_it_lasts_looks_become_rare(void **state)
{
    struct br_contention contention = {0};
    uint64_t now = START;

    (void)state;
    for (uint64_t period = BR_CONTENTION_LEAST; period < 4 * BR_CONTENTION_MOST; period *= 2) {
        uint64_t bounded = period < BR_CONTENTION_MOST ? period : BR_CONTENTION_MOST;

        br_contention_note(&contention, 3 * BR_MS, now);
        assert_int_equal(contention.until, now + bounded);
        now = contention.until + 3 * BR_MS; /* what the look took */
    }
}

static void contention__later_it_begins_anew(void **state)
{
    struct br_contention contention = {0};

    (void)state;
    br_contention_note(&contention, BR_MS, START);
    br_contention_note(&contention, BR_MS, START + 2 * BR_CONTENTION_LEAST);
    assert_int_equal(contention.period, BR_CONTENTION_LEAST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contention__short_looks_are_none),
        cmocka_unit_test(contention__ends_after_a_while),
        cmocka_unit_test(contention__is_noted_once),
        cmocka_unit_test(contention__while_it_lasts_looks_become_rare),
        cmocka_unit_test(contention__later_it_begins_anew),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
