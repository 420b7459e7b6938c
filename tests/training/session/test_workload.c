/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"
#include "training/session/workload.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static void workload_check__names_what_is_wrong(void **state)
{
    struct br_layer layers[2] = {{1, 2, 3}, {4, 5, 6}};
    struct br_workload work = {.layers = layers, .n = 2};

    (void)state;
    assert_int_equal(br_workload_check(&work), 0);
    layers[1].forward = -1;
    assert_int_equal(br_workload_check(&work), -EINVAL);
    assert_non_null(strstr(br_error_message(), "layer 2"));
    layers[1].forward = INFINITY;
    assert_int_equal(br_workload_check(&work), -EINVAL);
    layers[1].forward = 0;
    work.cost.a = NAN;
    assert_int_equal(br_workload_check(&work), -EINVAL);
    work.cost.a = 0;
    work.slice_bytes = -1;
    assert_int_equal(br_workload_check(&work), -EINVAL);
    work.slice_bytes = 0;
    work.n = 0;
    assert_int_equal(br_workload_check(&work), -EINVAL);
    work.n = BR_TRAINING_LAYERS + 1;
    assert_int_equal(br_workload_check(&work), -EINVAL);
    assert_non_null(strstr(br_error_message(), "8193 layers"));
}

static void workload_compute__both_passes(void **state)
{
    struct br_layer layers[2] = {{1, 2, 3}, {4, 5, 6}};
    struct br_workload work = {.layers = layers, .n = 2};

    (void)state;
    assert_true(br_workload_compute(&work) == 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workload_check__names_what_is_wrong),
        cmocka_unit_test(workload_compute__both_passes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
