/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/env.h"
#include "base/error.h"
#include "tests/says.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NAME "BRAID_TEST_VALUE"

static int number(const char *text, int64_t *out)
{
    setenv(NAME, text, 1);
    return br_env_number(NAME, -5, 100, 7, out);
}

static void env_number__unset_or_empty_is_the_fallback(void **state)
{
    int64_t out;

    (void)state;
    unsetenv(NAME);
    assert_int_equal(br_env_number(NAME, 0, 1, 7, &out), 0);
    assert_int_equal(out, 7);
    assert_int_equal(number("", &out), 0);
    assert_int_equal(out, 7);
}

static void env_number__in_range(void **state)
{
    static const char *const good[] = {"-5", "0", "100", "007"};
    static const int64_t values[] = {-5, 0, 100, 7};
    int64_t out;

    (void)state;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(number(good[i], &out), 0);
        assert_int_equal(out, values[i]);
    }
}

static void env_number__bad_value_is_named(void **state)
{
    static const char *const bad[] = {
        "-6", "101", "x", "1x", " 1", "1 ", "0x10", "1.5", "--1", "1e2", "99999999999999999999"};
    int64_t out;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(number(bad[i], &out), -EINVAL);
        assert_non_null(strstr(br_error_message(), NAME));
        assert_non_null(strstr(br_error_message(), bad[i]));
        assert_non_null(strstr(br_error_message(), "-5 to 100"));
    }
}

static void parse_bytes__suffixes(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"0", 0},
        {"17", 17},
        {"256K", 262144},
        {"256k", 262144},
        {"3M", 3145728},
        {"1g", 1073741824},
        {"17179869183G", 17179869183ull << 30},
        {"18446744073709551615", UINT64_MAX},
    };
    uint64_t out;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(br_parse_bytes(good[i].text, &out), 0);
        assert_true(out == good[i].bytes);
    }
}

static void parse_bytes__refuses(void **state)
{
    static const char *const bad[] = {"",
                                      "K",
                                      "-1",
                                      "1T",
                                      "1KB",
                                      " 1",
                                      "1 K",
                                      "+1",
                                      "1.5K",
                                      "17179869184G",
                                      "18446744073709551616"};
    uint64_t out = 5;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(br_parse_bytes(bad[i], &out), -EINVAL);
    assert_int_equal(out, 5);
}

static void env_bytes__range(void **state)
{
    uint64_t out;

    (void)state;
    unsetenv(NAME);
    assert_int_equal(br_env_bytes(NAME, 1, 9, 4, &out), 0);
    assert_int_equal(out, 4);
    setenv(NAME, "2K", 1);
    assert_int_equal(br_env_bytes(NAME, 1, 4096, 4, &out), 0);
    assert_int_equal(out, 2048);
    assert_int_equal(br_env_bytes(NAME, 1, 2047, 4, &out), -EINVAL);
    assert_non_null(strstr(br_error_message(), NAME "=2K"));
    assert_non_null(strstr(br_error_message(), "1 to 2047"));
}

static void env_choice__finds_or_lists(void **state)
{
    static const char *const choices[] = {"shm", "tcp", NULL};
    int out;

    (void)state;
    unsetenv(NAME);
    assert_int_equal(br_env_choice(NAME, choices, -1, &out), 0);
    assert_int_equal(out, -1);
    setenv(NAME, "tcp", 1);
    assert_int_equal(br_env_choice(NAME, choices, -1, &out), 0);
    assert_int_equal(out, 1);
    setenv(NAME, "verb", 1);
    assert_int_equal(br_env_choice(NAME, choices, -1, &out), -EINVAL);
    assert_says(br_error_message(), NAME "=verb|shm|tcp");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(env_number__unset_or_empty_is_the_fallback),
        cmocka_unit_test(env_number__in_range),
        cmocka_unit_test(env_number__bad_value_is_named),
        cmocka_unit_test(parse_bytes__suffixes),
        cmocka_unit_test(parse_bytes__refuses),
        cmocka_unit_test(env_bytes__range),
        cmocka_unit_test(env_choice__finds_or_lists),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
