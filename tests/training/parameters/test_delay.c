/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "training/parameters/delay.h"

static const struct br_delay_times balanced = {
    .forward = 1, .backward = 2, .local = 0.1, .communication = 8, .push = 3, .last_backward = 0.5};

static void iteration__is_the_formula(void **state)
{
    struct br_delay_times t = balanced;

    (void)state;
    for (int k = 1; k <= 5; k++) /* T_f+T_b+h_loc + (T_c+h_bL-T_f-2T_b-h_loc)/k */
        assert_true(fabs(br_delay_iteration(&t, k) - (3.1 + (8 + 0.5 - 1 - 4 - 0.1) / k)) < 1e-12);
    t.push = 4; /* longer than the computation: sum(h_s) + (T_c+h_bL-T_b-sum(h_s))/k */
    for (int k = 1; k <= 5; k++)
        assert_true(fabs(br_delay_iteration(&t, k) - (4 + (8 + 0.5 - 2 - 4) / k)) < 1e-12);
    assert_true(fabs(br_delay_ssgd(&t) - 9.5) < 1e-12);
}

static void iteration__is_never_less_than_its_computation(void **state)
{
    struct br_delay_times t = balanced;

    (void)state;
    t.communication = 0.1;
    t.push = 0.1;
    assert_true(fabs(br_delay_iteration(&t, 1) - 3.1) < 1e-12);
    assert_true(fabs(br_delay_iteration(&t, 4) - 3.1) < 1e-12);
    assert_true(fabs(br_delay_ssgd(&t) - 3) < 1e-12);
}

static void shared__carries_pulls_on_the_same_links(void **state)
{
    struct br_delay_times t = balanced;

    (void)state;
    assert_true(fabs(br_delay_shared(&t, 1) - 8) < 1e-12); /* pushes 3, pulls 5 */
    assert_true(fabs(br_delay_shared(&t, 4) - (3 + 5 / 4.)) < 1e-12);
    t.communication = 4; /* the computation is longer */
    assert_true(fabs(br_delay_shared(&t, 2) - 3.5) < 1e-12);
    assert_true(fabs(br_delay_shared(&t, 4) - br_delay_iteration(&t, 4)) > 0.1);
    t.push = 1;
    assert_true(fabs(br_delay_shared(&t, 4) - br_delay_iteration(&t, 4)) < 1e-12);
}

static void choose__stops_when_little_is_saved(void **state)
{
    struct br_delay_times t = balanced;

    (void)state;
    assert_int_equal(br_delay_choose(&t), BR_DELAY_MAX);
    t.communication = 0.1;
    t.push = 0.1;
    assert_int_equal(br_delay_choose(&t), 1);
    t.communication = 5; /* excess 0.4: the second saves 6 %, the third 2 % */
    assert_int_equal(br_delay_choose(&t), 2);
    t.push = 2; /* and 3 of pulls: 5, 3.5, 3.23, 3.2 */
    assert_int_equal(br_delay_choose(&t), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(iteration__is_the_formula),
        cmocka_unit_test(iteration__is_never_less_than_its_computation),
        cmocka_unit_test(shared__carries_pulls_on_the_same_links),
        cmocka_unit_test(choose__stops_when_little_is_saved),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
