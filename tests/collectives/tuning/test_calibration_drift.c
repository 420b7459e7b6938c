/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "collectives/tuning/calibration_drift.h"

/* A window of operations that take `ratio` of the predicted time, but one in the middle of it. */
static double window(struct br_calibration_drift *drift, double ratio, double one)
{
    double off = 0;

    for (int i = 0; i < BR_CALIBRATION_DRIFT_WINDOW; i++) {
        assert_true(off == 0); /* only at its end */
        off = br_calibration_drift_add(drift, 1e-3, 1e-3 * (i == 7 ? one : ratio));
    }
    return off;
}

static void br_calibration_drift_add__tells_once(void **state)
{
    struct br_calibration_drift drift = {.bound = 3};

    (void)state;
    assert_true(window(&drift, 2.9, 2.9) == 0);
    assert_true(window(&drift, 5, 4) == 4);
    assert_true(window(&drift, 5, 4) == 0);
    drift = (struct br_calibration_drift){.bound = 3};
    assert_true(window(&drift, 0.1, 0.25) == 0.25);
}

static void br_calibration_drift_add__one_that_was_right_keeps_it_quiet(void **state)
{
    struct br_calibration_drift drift = {.bound = 3};

    (void)state;
    assert_true(window(&drift, 50, 1) == 0);
    assert_true(window(&drift, 0.01, 1) == 0);
    assert_true(window(&drift, 50, 0.01) == 0);
}

static void br_calibration_drift_add__counts_nothing_without_a_bound_or_a_prediction(void **state)
{
    struct br_calibration_drift drift = {.bound = 0};

    (void)state;
    assert_true(window(&drift, 50, 50) == 0);
    drift.bound = 3;
    for (int i = 0; i < 2 * BR_CALIBRATION_DRIFT_WINDOW; i++)
        assert_true(br_calibration_drift_add(&drift, 0, 1) == 0);
    assert_int_equal(drift.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_calibration_drift_add__tells_once),
        cmocka_unit_test(br_calibration_drift_add__one_that_was_right_keeps_it_quiet),
        cmocka_unit_test(br_calibration_drift_add__counts_nothing_without_a_bound_or_a_prediction),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
