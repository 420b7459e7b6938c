/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/error.h"
#include "protocol/bootstrap/yaml_depth.h"
#include "tests/says.h"

#include <errno.h>
#include <string.h>

static int check(const char *unit, int times, const char *end)
{
    char text[8192] = "#\n";

    for (int i = 0; i < times; i++)
        strcat(text, unit);
    strcat(text, end);
    return br_yaml_check_depth(text, strlen(text), "x.yaml");
}

static void yaml_check_depth__limit(void **state)
{
    (void)state;
    assert_int_equal(check("[", 32, "]"), 0);
    assert_int_equal(check("[", 33, ""), -EINVAL);
    assert_says(br_error_message(), "x.yaml:2|lists");
    assert_int_equal(check("- ", 32, "a"), 0);
    assert_int_equal(check("- ", 33, "a"), -EINVAL);
    assert_int_equal(check("{a: ", 33, ""), -EINVAL);
}

/* What is beside each other, quoted or a comment is not deep. */
static void yaml_check_depth__only_what_is_nested(void **state)
{
    (void)state;
    assert_int_equal(check("- [a, {b: c}]\n", 200, ""), 0);
    assert_int_equal(check("# [[[[[[[[\n", 200, "a: b\n"), 0);
    assert_int_equal(check("- \"[[[[[[[[\"\n", 200, ""), 0);
    /* Closing brackets that only look like some do not make room. */
    assert_int_equal(check("[ #]\n", 33, ""), -EINVAL);
    assert_int_equal(check("", 0, ""), 0);
    assert_int_equal(check("@\t:", 3, ""), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(yaml_check_depth__limit),
        cmocka_unit_test(yaml_check_depth__only_what_is_nested),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
