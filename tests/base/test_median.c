/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/median.h"

static void median__is_in_the_middle(void **state)
{
    double odd[] = {9, -1, 1000}, even[] = {4, 1, 3, 2}, one[] = {7};

    (void)state;
    assert_true(br_median(odd, 3) == 9);
    assert_true(br_median(even, 4) == 2.5);
    assert_true(br_median(one, 1) == 7);
    assert_true(br_median(NULL, 0) == 0);
}

static void median__sorts(void **state)
{
    double values[] = {5, 3, 8, 1, 3};

    (void)state;
    br_median(values, 5);
    for (int i = 1; i < 5; i++)
        assert_true(values[i - 1] <= values[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(median__is_in_the_middle),
        cmocka_unit_test(median__sorts),
    };

    return cmocka_run_group_tests_name("base/median", tests, NULL, NULL);
}
