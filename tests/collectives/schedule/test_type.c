/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "collectives/schedule/type.h"
#include "tests/says.h"

static void br_type_size__every_type(void **state)
{
    static const size_t sizes[BRAID_TYPES] = {4, 8, 2, 2, 1, 1, 4, 4, 8, 8};

    (void)state;
    for (unsigned i = 0; i < BRAID_TYPES; i++)
        assert_int_equal(br_type_size((enum braid_type)i), sizes[i]);
}

static void br_type_size__outside_the_enum(void **state)
{
    (void)state;
    assert_int_equal(br_type_size((enum braid_type)BRAID_TYPES), 0);
    assert_int_equal(br_type_size((enum braid_type) - 1), 0);
    assert_string_equal(br_type_name((enum braid_type)BRAID_TYPES), "?");
    assert_string_equal(br_reduction_name((enum braid_reduction)BRAID_REDUCTIONS), "?");
}

static void br_type_parse__inverts_the_name(void **state)
{
    (void)state;
    for (unsigned i = 0; i < BRAID_TYPES; i++) {
        enum braid_type type = (enum braid_type)(BRAID_TYPES - 1 - i);

        assert_int_equal(br_type_parse(br_type_name((enum braid_type)i), &type), 0);
        assert_int_equal(type, i);
    }
}

static void br_type_parse__aliases(void **state)
{
    enum braid_type type = BRAID_INT8;

    (void)state;
    assert_int_equal(br_type_parse("float", &type), 0);
    assert_int_equal(type, BRAID_FLOAT32);
    assert_int_equal(br_type_parse("double", &type), 0);
    assert_int_equal(type, BRAID_FLOAT64);
    assert_int_equal(br_type_parse("half", &type), 0);
    assert_int_equal(type, BRAID_FLOAT16);
}

static void br_type_parse__unknown(void **state)
{
    enum braid_type type = BRAID_INT32;

    (void)state;
    assert_int_equal(br_type_parse("quad", &type), -EINVAL);
    assert_int_equal(type, BRAID_INT32);
    assert_says(br_error_message(), "'quad'");
    assert_says(br_error_message(), "bfloat16");
}

static void br_reduction_parse__inverts_the_name(void **state)
{
    (void)state;
    for (unsigned i = 0; i < BRAID_REDUCTIONS; i++) {
        enum braid_reduction reduction = (enum braid_reduction)(BRAID_REDUCTIONS - 1 - i);

        assert_int_equal(br_reduction_parse(br_reduction_name((enum braid_reduction)i), &reduction),
                         0);
        assert_int_equal(reduction, i);
    }
}

static void br_reduction_parse__unknown(void **state)
{
    enum braid_reduction reduction = BRAID_MAX;

    (void)state;
    assert_int_equal(br_reduction_parse("SUM", &reduction), -EINVAL);
    assert_int_equal(reduction, BRAID_MAX);
    assert_says(br_error_message(), "'SUM'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_type_size__every_type),
        cmocka_unit_test(br_type_size__outside_the_enum),
        cmocka_unit_test(br_type_parse__inverts_the_name),
        cmocka_unit_test(br_type_parse__aliases),
        cmocka_unit_test(br_type_parse__unknown),
        cmocka_unit_test(br_reduction_parse__inverts_the_name),
        cmocka_unit_test(br_reduction_parse__unknown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
