/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/error.h"
#include "base/rate.h"

#include <errno.h>
#include <string.h>

static void rate_parse__and_back(void **state)
{
    static const struct {
        const char *text;
        uint64_t rate;
        const char *back;
    } good[] = {{"100mbit", 100000000, "100mbit"},
                {"2.5gbit", 2500000000, "2500mbit"},
                {"64KBit", 64000, "64kbit"},
                {"1bit", 1, "1bit"},
                {"40gbit", 40000000000, "40gbit"}};
    char text[BR_RATE_TEXT];
    uint64_t rate;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(br_rate_parse(good[i].text, &rate), 0);
        assert_true(rate == good[i].rate);
        assert_string_equal(br_rate_print(rate, text), good[i].back);
    }
}

static void rate_parse__bad(void **state)
{
    static const char *const bad[] = {"",          "mbit",     "100",      "-1mbit", "0bit",
                                      "1e300gbit", "100 mbit", "100mbits", "nanbit", "0x10mbit"};
    uint64_t rate = 7;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(br_rate_parse(bad[i], &rate), -EINVAL);
        assert_non_null(strstr(br_error_message(), "500mbit"));
    }
    assert_true(rate == 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rate_parse__and_back),
        cmocka_unit_test(rate_parse__bad),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
