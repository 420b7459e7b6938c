/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tools/measure.h"

static void br_measure_line__is_not_moved_by_an_outlier(void **state)
{
    const double x[] = {1, 2, 4, 8, 16}, y[] = {13, 16, 22, 900, 58};
    double slope, start;

    (void)state;
    br_measure_line(x, y, 5, &slope, &start);
    assert_true(fabs(slope - 3) < 1e-9);
    assert_true(fabs(start - 10) < 1e-9);
}

static void br_measure_line__gives_nothing_below_zero(void **state)
{
    const double x[] = {1, 2, 3}, falling[] = {9, 8, 7}, low[] = {1, 3, 5};
    double slope, start;

    (void)state;
    br_measure_line(x, falling, 3, &slope, &start);
    assert_true(slope == 0 && start == 8);
    br_measure_line(x, low, 3, &slope, &start);
    assert_true(slope == 2 && start == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_measure_line__is_not_moved_by_an_outlier),
        cmocka_unit_test(br_measure_line__gives_nothing_below_zero),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
