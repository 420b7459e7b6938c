/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "training/session/autotune.h"

#define LAYERS 3

static void add(struct br_autotune *autotune, enum br_policy policy, uint8_t join, bool urgent)
{
    uint8_t joins[LAYERS] = {0, join, join};

    br_autotune_add(autotune, policy, &(struct br_policy_plan){joins, urgent, 10 + (double)policy},
                    1);
}

static void open_two(struct br_autotune *autotune)
{
    *autotune = (struct br_autotune){.layers = LAYERS};
    add(autotune, BR_POLICY_AUTO, 1, false);
    add(autotune, BR_POLICY_P3, 0, true);
}

/* ms of the plans' iterations, by turns. */
static void run(struct br_autotune *autotune, const int ms[BR_AUTOTUNE_SAMPLES][2])
{
    for (int turn = 0; turn < BR_AUTOTUNE_SAMPLES; turn++)
        for (int i = 0; i < 2; i++) {
            int p = (turn + i) % 2; /* each turn begins one plan later */

            assert_ptr_equal(br_autotune_next(autotune), &autotune->plans[p]);
            br_autotune_note(autotune, 1e-3 * ms[turn][p]);
        }
    assert_int_equal(br_autotune_left(autotune), 0);
}

static void autotune_add__a_plan_of_two_policies_is_tried_once(void **state)
{
    struct br_autotune autotune;

    (void)state;
    open_two(&autotune);
    add(&autotune, BR_POLICY_LAYERWISE, 0, false);
    add(&autotune, BR_POLICY_SINGLE, 1, false);
    assert_int_equal(autotune.n, 3);
    assert_int_equal(autotune.plans[0].policies, 1 << BR_POLICY_AUTO | 1 << BR_POLICY_SINGLE);
    assert_int_equal(autotune.plans[2].policies, 1 << BR_POLICY_LAYERWISE);
    assert_true(autotune.plans[1].urgent && autotune.plans[1].iteration == 10 + BR_POLICY_P3);
}

static void autotune_left__one_plan_is_not_tried(void **state)
{
    struct br_autotune autotune = {.layers = LAYERS};

    (void)state;
    assert_int_equal(br_autotune_left(&autotune), 0);
    add(&autotune, BR_POLICY_AUTO, 1, false);
    assert_int_equal(br_autotune_left(&autotune), 0);
    assert_int_equal(br_autotune_joins(&autotune, br_autotune_next(&autotune))[2], 1);
    add(&autotune, BR_POLICY_P3, 0, true);
    assert_int_equal(br_autotune_left(&autotune), 2 * BR_AUTOTUNE_SAMPLES);
}

/* The first turn does not count, nor does a hiccup, or a single good turn. */
static void autotune_fastest__by_the_median(void **state)
{
    static const int slower[BR_AUTOTUNE_SAMPLES][2] = {{9, 1}, {10, 12}, {50, 12}, {10, 5}},
                     faster[BR_AUTOTUNE_SAMPLES][2] = {{1, 9}, {12, 10}, {12, 10}, {12, 90}},
                     equal[BR_AUTOTUNE_SAMPLES][2] = {
                         {500, 500}, {500, 498}, {500, 498}, {500, 498}};
    struct br_autotune autotune;

    (void)state;
    open_two(&autotune);
    run(&autotune, slower);
    assert_true(br_autotune_seconds(&autotune, 0) == .01 &&
                br_autotune_seconds(&autotune, 1) == .012);
    assert_int_equal(br_autotune_fastest(&autotune), 0);
    open_two(&autotune);
    run(&autotune, faster);
    assert_int_equal(br_autotune_fastest(&autotune), 1);
    open_two(&autotune);
    run(&autotune, equal);
    assert_int_equal(br_autotune_fastest(&autotune), 0);
}

/* What a program does every third iteration falls on each of three plans once, and is no median. */
static void autotune_fastest__whatever_a_program_does_now_and_then(void **state)
{
    struct br_autotune autotune;

    (void)state;
    open_two(&autotune);
    add(&autotune, BR_POLICY_LAYERWISE, 0, false);
    for (int i = 0; br_autotune_left(&autotune); i++) {
        int p = (int)(br_autotune_next(&autotune) - autotune.plans);

        br_autotune_note(&autotune, 1e-3 * (p ? 12 : 10) + (i % 3 ? 0 : 1));
    }
    assert_true(br_autotune_seconds(&autotune, 0) == .01 &&
                br_autotune_seconds(&autotune, 2) == .012);
    assert_int_equal(br_autotune_fastest(&autotune), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(autotune_add__a_plan_of_two_policies_is_tried_once),
        cmocka_unit_test(autotune_left__one_plan_is_not_tried),
        cmocka_unit_test(autotune_fastest__by_the_median),
        cmocka_unit_test(autotune_fastest__whatever_a_program_does_now_and_then),
    };

    return cmocka_run_group_tests_name("autotune", tests, NULL, NULL);
}
