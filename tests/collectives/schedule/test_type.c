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
    static const size_t sizes[BRAID_TYPES] = {4, 8, 2, 2, 1, 1, 4, 4, 8, 8, 2, 2, 1, 8, 16, 1, 1};

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

/* The table of braid/types.h. */
static void br_reduction_check__only_what_goes_together(void **state)
{
    (void)state;
    for (enum braid_type t = 0; t < BRAID_TYPES; t++)
        for (enum braid_reduction r = 0; r < BRAID_REDUCTIONS; r++) {
            bool integer = t >= BRAID_INT8 && t <= BRAID_UINT16;
            bool complex = t == BRAID_COMPLEX64 || t == BRAID_COMPLEX128;
            bool order = r == BRAID_MIN || r == BRAID_MAX, bits = r >= BRAID_BAND;
            bool good = t == BRAID_BOOL ? r != BRAID_AVG
                        : complex       ? !order && !bits
                                        : integer || !bits;

            assert_int_equal(br_reduction_check("call", t, r), good ? 0 : -EINVAL);
        }
    assert_int_equal(br_reduction_check("call", BRAID_FLOAT32, BRAID_BXOR), -EINVAL);
    assert_says(br_error_message(), "bxor|float32|avg");
    assert_int_equal(br_reduction_check("call", BRAID_TYPES, BRAID_SUM), -EINVAL);
    assert_int_equal(br_reduction_check("call", BRAID_INT8, BRAID_REDUCTIONS), -EINVAL);
    assert_int_equal(br_reduction_check("call", BRAID_INT8, (enum braid_reduction) - 1), -EINVAL);
}

static void br_type_parse__unknown(void **state)
{
    enum braid_type type = BRAID_INT32;

    (void)state;
    assert_int_equal(br_type_parse("quad", &type), -EINVAL);
    assert_int_equal(type, BRAID_INT32);
    assert_says(br_error_message(), "'quad'");
    assert_says(br_error_message(), "bfloat16|float8_e5m2"); /* all of them */
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
        cmocka_unit_test(br_reduction_check__only_what_goes_together),
        cmocka_unit_test(br_type_parse__unknown),
        cmocka_unit_test(br_reduction_parse__inverts_the_name),
        cmocka_unit_test(br_reduction_parse__unknown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
