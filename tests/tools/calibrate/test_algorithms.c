/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/calibrate/calibrate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void is_short__goes_on_as_the_last_two_sizes(void **state)
{
    struct br_cost_measured measured = {.bytes = {1024, 4096, 16384}, .seconds = {0.1, 0.1, 0.129}};

    (void)state;
    assert_true(br_calibrate_is_short(&measured));
    for (int n = 1; n <= 3; n++) {
        measured.n_points++;
        assert_true(br_calibrate_is_short(&measured)); /* the last time 0.245 expected */
    }
    measured.seconds[2] = 0.131;
    assert_false(br_calibrate_is_short(&measured)); /* 0.255 */
    measured.seconds[2] = 0.09;                     /* noise */
    assert_true(br_calibrate_is_short(&measured));
    measured.n_points = 1;
    measured.seconds[0] = 0.25;
    assert_false(br_calibrate_is_short(&measured));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_short__goes_on_as_the_last_two_sizes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
