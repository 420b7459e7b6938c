/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tools/testbed/agent_echo.h"

static void echo_time__from_arrival_to_arrival(void **state)
{
    (void)state;
    assert_int_equal(br_echo_time(100, 130, 225, 231), 95);
    assert_int_equal(br_echo_time(100, 130, 181, 231), 51); /* large segments on a slow link */
}

/* A burst 1 ms behind the mark and nothing after it was 1,457 Mb/s on a link of 60. */
static void echo_time__a_burst_is_no_rate(void **state)
{
    (void)state;
    assert_int_equal(br_echo_time(100, 130, 131, 231), 101);
}

static void echo_time__nothing_came(void **state)
{
    (void)state;
    assert_int_equal(br_echo_time(100, 130, 0, 231), 131);
    assert_int_equal(br_echo_time(100, 0, 0, 231), 131);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(echo_time__from_arrival_to_arrival),
        cmocka_unit_test(echo_time__a_burst_is_no_rate),
        cmocka_unit_test(echo_time__nothing_came),
    };

    return cmocka_run_group_tests_name("tools/bcube/agent_echo", tests, NULL, NULL);
}
