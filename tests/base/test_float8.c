/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/float8.h"

/* A format by its definition: bits of the fraction, bias, and the largest finite value. */
struct format {
    int fraction, bias;
    unsigned largest, special; /* special: what is rounded beyond becomes this */
    float (*to_float)(uint8_t raw);
    uint8_t (*of_float)(float value);
};

static const struct format formats[] = {
    {3, 7, 0x7e, 0x7f, br_float_of_e4m3, br_e4m3_of_float},
    {2, 15, 0x7b, 0x7c, br_float_of_e5m2, br_e5m2_of_float},
};

static double value_of(const struct format *f, unsigned raw)
{
    int exponent = (int)(raw & 0x7f) >> f->fraction, one = 1 << f->fraction;
    int fraction = (int)raw & (one - 1);
    double magnitude = exponent ? ldexp(one + fraction, exponent - f->bias - f->fraction)
                                : ldexp(fraction, 1 - f->bias - f->fraction);

    return raw & 0x80 ? -magnitude : magnitude;
}

static void float8__every_value(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++)
        for (unsigned raw = 0; raw < 0x100; raw++) {
            const struct format *f = &formats[k];
            float value = f->to_float((uint8_t)raw);
            unsigned magnitude = raw & 0x7f;

            assert_int_equal(!!signbit(value), raw >> 7);
            if (magnitude <= f->largest)
                assert_true((double)value == value_of(f, raw));
            else if (k == 1 && magnitude == 0x7c)
                assert_true(isinf(value));
            else
                assert_true(isnan(value));
            assert_int_equal(f->of_float(value),
                             raw | (k == 1 && magnitude == 0x7d ? 2 : 0)); /* NaNs become quiet */
        }
    assert_true(br_float_of_e4m3(0x7e) == 448);
    assert_true(br_float_of_e5m2(0x7b) == 57344);
    assert_true(br_float_of_e4m3(1) == 0x1p-9f && br_float_of_e5m2(1) == 0x1p-16f);
}

/* The midpoint of each two neighbours goes to the even one, what is next to it to the nearer one;
 * as do the largest value and what would be next. */
static void float8__rounds_to_nearest_even(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++)
        for (unsigned raw = 0; raw <= formats[k].largest; raw++) {
            const struct format *f = &formats[k];
            float middle = (float)((value_of(f, raw) + value_of(f, raw + 1)) / 2); /* exact */

            assert_int_equal(f->of_float(middle), raw + (raw & 1));
            assert_int_equal(f->of_float(nextafterf(middle, 0)), raw);
            assert_int_equal(f->of_float(nextafterf(middle, INFINITY)), raw + 1);
            assert_int_equal(f->of_float(-middle), 0x80 | (raw + (raw & 1)));
        }
}

static void float8__too_large_or_small(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        assert_int_equal(formats[k].of_float(1e30f), formats[k].special);
        assert_int_equal(formats[k].of_float(-INFINITY), 0x80 | formats[k].special);
        assert_int_equal(formats[k].of_float(1e-40f), 0);
        assert_int_equal(formats[k].of_float(-0.0f), 0x80);
        assert_true(isnan(formats[k].to_float(formats[k].of_float(NAN))));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(float8__every_value),
        cmocka_unit_test(float8__rounds_to_nearest_even),
        cmocka_unit_test(float8__too_large_or_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
