/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/common/format.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void format_bytes__units(void **state)
{
    (void)state;
    char out[BR_FORMAT_BYTES];
    assert_string_equal(br_format_bytes(out, 0), "0 B");
    assert_string_equal(br_format_bytes(out, 999), "999 B");
    assert_string_equal(br_format_bytes(out, 1000), "1.00 kB");
    assert_string_equal(br_format_bytes(out, 411058176), "411 MB");
    assert_string_equal(br_format_bytes(out, 67125248), "67.1 MB");
    assert_string_equal(br_format_bytes(out, 999999), "1.00 MB");
    assert_string_equal(br_format_bytes(out, 5e15), "5000 TB");
}

static void format_time__units(void **state)
{
    (void)state;
    char out[BR_FORMAT_BYTES];
    assert_string_equal(br_format_time(out, 0.3), "0.30 us");
    assert_string_equal(br_format_time(out, 12.34), "12.3 us");
    assert_string_equal(br_format_time(out, 1234), "1.23 ms");
    assert_string_equal(br_format_time(out, 2.5e6), "2.50 s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(format_bytes__units),
        cmocka_unit_test(format_time__units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
