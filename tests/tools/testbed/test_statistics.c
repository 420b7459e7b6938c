/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/testbed/statistics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void spread__ignores_wild_values(void **state)
{
    double values[] = {10, 11, 9, 10.5, 9.5, 1000, 10};
    (void)state;
    struct br_spread spread = br_spread_of(values, 7);
    assert_true(fabs(spread.median - 10) < 1e-9);
    assert_true(fabs(spread.mad - 0.5) < 1e-9);
    assert_true(fabs(spread.max - 1000) < 1e-9);
    assert_true(br_spread_outlier(&spread, 1000, 0.1));
    assert_true(br_spread_outlier(&spread, 5, 0.1));
    assert_false(br_spread_outlier(&spread, 5, 0.6));
    assert_false(br_spread_outlier(&spread, 12, 0.1));
}

static void spread__of_nothing(void **state)
{
    double none[1];
    (void)state;
    struct br_spread spread = br_spread_of(none, 0);
    assert_int_equal(spread.count, 0);
    assert_false(br_spread_outlier(&spread, 1, 0.1));
}

static void line_fit__ignores_wild_values(void **state)
{
    double x[] = {0, 1, 2, 3, 4, 5, 6}, y[] = {3, 5, 7, 900, 11, 13, 15}, slope, intercept;
    (void)state;
    assert_true(br_cost_line_fit(x, y, 7, &slope, &intercept));
    assert_true(fabs(slope - 2) < 1e-9);
    assert_true(fabs(intercept - 3) < 1e-9);
}

static void line_fit__needs_two_x(void **state)
{
    double x[] = {1, 1, 1}, y[] = {1, 2, 3}, slope, intercept;
    (void)state;
    assert_false(br_cost_line_fit(x, y, 3, &slope, &intercept));
    assert_false(br_cost_line_fit(x, y, 0, &slope, &intercept));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spread__ignores_wild_values),
        cmocka_unit_test(spread__of_nothing),
        cmocka_unit_test(line_fit__ignores_wild_values),
        cmocka_unit_test(line_fit__needs_two_x),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
