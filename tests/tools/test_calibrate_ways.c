/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/calibrate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void is_short__goes_by_the_last_size(void **state)
{
    struct br_cost_measured measured = {0};

    (void)state;
    assert_true(br_calibrate_is_short(&measured));
    measured.seconds[measured.n_points++] = 0.062;
    assert_true(br_calibrate_is_short(&measured));
    measured.seconds[measured.n_points++] = 0.063;
    assert_false(br_calibrate_is_short(&measured));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_short__goes_by_the_last_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
