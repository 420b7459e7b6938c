/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/library.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* Beside this program or one folder above, whatever the working folder is; else where the variable
 * says. */
static void find_module__beside_the_program_or_named(void **state)
{
    char path[PATH_MAX], expected[PATH_MAX], *end;
    ssize_t n = readlink("/proc/self/exe", expected, sizeof expected - 64);

    (void)state;
    assert_true(n > 0);
    expected[n] = 0;
    end = strrchr(expected, '/');
    assert_non_null(end);
    snprintf(end, 64, "/test_module_%d.so", (int)getpid());
    unsetenv("BRAID_TEST_MODULE");
    assert_false(br_library_find_module("BRAID_TEST_MODULE", end + 1, path));
    fclose(fopen(expected, "w"));
    assert_true(br_library_find_module("BRAID_TEST_MODULE", end + 1, path));
    assert_string_equal(path, expected);
    unlink(expected);
    setenv("BRAID_TEST_MODULE", "/a/file", 1);
    assert_true(br_library_find_module("BRAID_TEST_MODULE", end + 1, path));
    assert_string_equal(path, "/a/file");
    unsetenv("BRAID_TEST_MODULE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open__fills_in_needed_and_optional_symbols),
        cmocka_unit_test(open__missing_library_says_how_to_get_it),
        cmocka_unit_test(open__missing_needed_symbol_is_named),
        cmocka_unit_test(find_module__beside_the_program_or_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
