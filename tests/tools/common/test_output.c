/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/common/output.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "tests/says.h"

static void may_write__leaves_all_as_it_is(void **state)
{
    char folder[] = "/tmp/braid-output-XXXXXX", path[80];
    struct stat found;
    FILE *file;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/file", folder);
    assert_int_equal(br_output_may_write(path), 0);
    assert_int_equal(access(path, F_OK), -1);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs("words", file);
    fclose(file);
    assert_int_equal(br_output_may_write(path), 0);
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_size, 5);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0); /* whose reader comes later */
    assert_int_equal(br_output_may_write(path), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(br_output_may_write("-"), 0);
}

static void may_write__says_why_not(void **state)
{
    (void)state;
    assert_int_equal(br_output_may_write("/tmp"), -EISDIR);
    assert_says(br_error_message(), "/tmp");
    assert_int_equal(br_output_may_write("/no/such/folder/file"), -ENOENT);
    assert_says(br_error_message(), "/no/such/folder/file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(may_write__leaves_all_as_it_is),
        cmocka_unit_test(may_write__says_why_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
