/* SPDX-License-Identifier: BSD-3-Clause */
/* Which kernels are taken, and what is refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/error.h"
#include "collectives/engine/reduce.h"
#include "tests/says.h"

static void br_reduce_select__first_use_takes_the_environment(void **state)
{
    float x = 1;
    const void *from = &x;

    (void)state; /* runs first: nothing has been selected */
    assert_string_equal(br_reduce_description(), "none");
    setenv("BRAID_SIMD", "mmx", 1);
    assert_int_equal(br_reduce(BRAID_FLOAT32, BRAID_SUM, &x, &from, 1, 1, 0), -EINVAL);
    assert_says(br_error_message(), "BRAID_SIMD");
    assert_says(br_error_message(), "'mmx'");
    assert_string_equal(br_reduce_description(), "none");
    setenv("BRAID_SIMD", "scalar", 1);
    assert_int_equal(br_reduce(BRAID_FLOAT32, BRAID_SUM, &x, &from, 1, 1, 0), 0);
    assert_string_equal(br_reduce_description(), "scalar");
    unsetenv("BRAID_SIMD");
}

static void br_reduce_select__unknown_name_changes_nothing(void **state)
{
    (void)state;
    assert_int_equal(br_reduce_select("scalar"), 0);
    assert_int_equal(br_reduce_select("sse"), -EINVAL);
    assert_says(br_error_message(), "'sse'");
    assert_says(br_error_message(), "avx512");
    assert_null(strstr(br_error_message(), "BRAID_SIMD"));
    assert_string_equal(br_reduce_description(), "scalar");
}

static void br_reduce_select__auto_takes_the_best(void **state)
{
    static const char *const kernels[] = {"scalar", "avx2", "avx512"};
    const char *best = "scalar";

    (void)state;
    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
        int rc = br_reduce_select(kernels[k]);

        assert_true(rc == 0 || rc == -ENOTSUP);
        if (!rc) {
            assert_string_equal(br_reduce_description(), kernels[k]);
            best = kernels[k];
        }
    }
    assert_int_equal(br_reduce_select("auto"), 0);
    assert_string_equal(br_reduce_description(), best);
    assert_int_equal(br_reduce_select(NULL), 0);
    assert_string_equal(br_reduce_description(), best);
}

static void br_reduce__zero_count(void **state)
{
    (void)state;
    assert_int_equal(br_reduce_select("auto"), 0);
    assert_int_equal(
        br_reduce(BRAID_FLOAT32, BRAID_SUM, NULL, (const void *[]){NULL, NULL}, 2, 0, 0), 0);
}

static void br_reduce__bad_arguments(void **state)
{
    float x = 1;
    const void *from = &x;

    (void)state;
    assert_int_equal(br_reduce((enum braid_type)99, BRAID_SUM, &x, &from, 1, 1, 0), -EINVAL);
    assert_says(br_error_message(), "99|data type");
    assert_int_equal(br_reduce(BRAID_FLOAT32, (enum braid_reduction) - 1, &x, &from, 1, 1, 0),
                     -EINVAL);
    assert_says(br_error_message(), "-1|reduction");
    assert_int_equal(br_reduce(BRAID_FLOAT32, BRAID_SUM, &x, &from, 0, 1, 0), -EINVAL);
    assert_says(br_error_message(), "0 sources");
    assert_int_equal(br_reduce(BRAID_FLOAT32, BRAID_AVG, &x, &from, 1, 1, -2), -EINVAL);
    assert_says(br_error_message(), "-2");
    assert_true(x == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_reduce_select__first_use_takes_the_environment),
        cmocka_unit_test(br_reduce_select__unknown_name_changes_nothing),
        cmocka_unit_test(br_reduce_select__auto_takes_the_best),
        cmocka_unit_test(br_reduce__zero_count),
        cmocka_unit_test(br_reduce__bad_arguments),
    };

    unsetenv("BRAID_SIMD");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
