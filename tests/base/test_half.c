/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/half.h"

/* The value of a finite float16 from its definition. */
static double value_of_half(unsigned half)
{
    unsigned exponent = half >> 10 & 0x1f;
    double fraction = half & 0x3ff;
    double magnitude = exponent ? ldexp(1024 + fraction, (int)exponent - 25) : ldexp(fraction, -24);

    return half & 0x8000 ? -magnitude : magnitude;
}

static void br_float_of_half__every_value(void **state)
{
    (void)state;
    for (unsigned half = 0; half < 0x10000; half++) {
        float value = br_float_of_half((uint16_t)half);
        unsigned magnitude = half & 0x7fff;

        assert_int_equal(!!signbit(value), half >> 15);
        if (magnitude > 0x7c00)
            assert_true(isnan(value));
        else if (magnitude == 0x7c00)
            assert_true(isinf(value));
        else
            assert_true((double)value == value_of_half(half));
    }
}

static void br_half_of_float__inverts(void **state)
{
    (void)state;
    for (unsigned half = 0; half < 0x10000; half++) {
        unsigned quiet = (half & 0x7fff) > 0x7c00 ? 0x200 : 0;

        assert_int_equal(br_half_of_float(br_float_of_half((uint16_t)half)), half | quiet);
    }
}

/* The midpoint of each two neighbours goes to the even one, what is next to it to the nearer
 * one. */
static void br_half_of_float__rounds_to_nearest_even(void **state)
{
    (void)state;
    for (unsigned half = 0; half < 0x7bff; half++) {
        float middle = (float)((value_of_half(half) + value_of_half(half + 1)) / 2); /* exact */

        assert_int_equal(br_half_of_float(middle), half + (half & 1));
        assert_int_equal(br_half_of_float(nextafterf(middle, 0)), half);
        assert_int_equal(br_half_of_float(nextafterf(middle, INFINITY)), half + 1);
        assert_int_equal(br_half_of_float(-middle), 0x8000 | (half + (half & 1)));
    }
}

static void br_half_of_float__too_large(void **state)
{
    (void)state;
    assert_int_equal(br_half_of_float(65504), 0x7bff);
    assert_int_equal(br_half_of_float(nextafterf(65520, 0)), 0x7bff);
    assert_int_equal(br_half_of_float(65520), 0x7c00);
    assert_int_equal(br_half_of_float(1e30f), 0x7c00);
    assert_int_equal(br_half_of_float(-INFINITY), 0xfc00);
}

static void br_bfloat_of_float__inverts(void **state)
{
    (void)state;
    for (unsigned bfloat = 0; bfloat < 0x10000; bfloat++) {
        unsigned quiet = (bfloat & 0x7fff) > 0x7f80 ? 0x40 : 0;

        assert_int_equal(br_bits_of_float(br_float_of_bfloat((uint16_t)bfloat)), bfloat << 16);
        assert_int_equal(br_bfloat_of_float(br_float_of_bfloat((uint16_t)bfloat)), bfloat | quiet);
    }
}

static void br_bfloat_of_float__rounds_to_nearest_even(void **state)
{
    (void)state;
    for (unsigned bfloat = 0; bfloat < 0x7f80; bfloat++) { /* the last one becomes infinite */
        uint32_t middle = bfloat << 16 | 0x8000;

        assert_int_equal(br_bfloat_of_float(br_float_of_bits(middle)), bfloat + (bfloat & 1));
        assert_int_equal(br_bfloat_of_float(br_float_of_bits(middle - 1)), bfloat);
        assert_int_equal(br_bfloat_of_float(br_float_of_bits(middle + 1)), bfloat + 1);
    }
}

/* A NaN whose payload is cut off must neither become infinite nor carry into the sign. */
static void br_bfloat_of_float__keeps_nan(void **state)
{
    (void)state;
    assert_int_equal(br_bfloat_of_float(br_float_of_bits(0x7f800001)), 0x7fc0);
    assert_int_equal(br_bfloat_of_float(br_float_of_bits(0xffffffff)), 0xffff);
    assert_int_equal(br_half_of_float(br_float_of_bits(0x7f800001)), 0x7e00);
    assert_int_equal(br_half_of_float(br_float_of_bits(0xffffffff)), 0xffff);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_float_of_half__every_value),
        cmocka_unit_test(br_half_of_float__inverts),
        cmocka_unit_test(br_half_of_float__rounds_to_nearest_even),
        cmocka_unit_test(br_half_of_float__too_large),
        cmocka_unit_test(br_bfloat_of_float__inverts),
        cmocka_unit_test(br_bfloat_of_float__rounds_to_nearest_even),
        cmocka_unit_test(br_bfloat_of_float__keeps_nan),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
