/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"

#include <time.h>

static void clock_now__never_goes_back(void **state)
{
    uint64_t before = br_clock_now();

    (void)state;
    for (int i = 0; i < 1000; i++) {
        uint64_t now = br_clock_now();

        assert_true(now >= before);
        before = now;
    }
}

static void clock_now__counts_nanoseconds(void **state)
{
    struct timespec pause = {.tv_nsec = 5000000};
    uint64_t before = br_clock_now();
    uint64_t passed;

    (void)state;
    assert_int_equal(nanosleep(&pause, NULL), 0);
    passed = br_clock_now() - before;
    assert_true(passed >= 5 * BR_MS);
    assert_true(passed < 60 * BR_SEC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clock_now__never_goes_back),
        cmocka_unit_test(clock_now__counts_nanoseconds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
