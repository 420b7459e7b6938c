/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/library.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/says.h"

struct functions {
    size_t (*length)(const char *);
    size_t (*newer)(const char *);
};

static const struct br_library_symbol length[] = {{"strlen", offsetof(struct functions, length)},
                                                  {NULL, 0}};
static const struct br_library_symbol newer[] = {
    {"no_such_function", offsetof(struct functions, newer)}, {NULL, 0}};

static void open__fills_in_needed_and_optional_symbols(void **state)
{
    const struct br_library libc = {
        .name = "the C library", .path = "libc.so.6", .needed = length, .optional = newer};
    struct functions functions = {.newer = strlen};
    char text[BR_ERROR_BYTES] = "";

    (void)state;
    assert_int_equal(br_library_open(&libc, &functions, text), 0);
    assert_int_equal(functions.length("four"), 4);
    assert_null(functions.newer);
    assert_string_equal(text, "");
}

static void open__missing_library_says_how_to_get_it(void **state)
{
    const struct br_library missing = {.name = "libmissing",
                                       .path = "/nowhere/libmissing.so.1",
                                       .install = "apt-get install libmissing1",
                                       .needed = length};
    struct functions functions;
    char text[BR_ERROR_BYTES] = "";

    (void)state;
    assert_int_equal(br_library_open(&missing, &functions, text), -ENOENT);
    assert_says(text, "libmissing|/nowhere/libmissing.so.1|apt-get install libmissing1");
}

static void open__missing_needed_symbol_is_named(void **state)
{
    const struct br_library old = {
        .name = "the C library", .path = "libc.so.6", .version = "release 99", .needed = newer};
    struct functions functions;
    char text[BR_ERROR_BYTES] = "";

    (void)state;
    assert_int_equal(br_library_open(&old, &functions, text), -ENOSYS);
    assert_says(text, "the C library|libc.so.6|no_such_function|release 99");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open__fills_in_needed_and_optional_symbols),
        cmocka_unit_test(open__missing_library_says_how_to_get_it),
        cmocka_unit_test(open__missing_needed_symbol_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
