/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/random.h"
#include "base/float8.h"
#include "base/half.h"
#include "collectives/engine/reduce.h"
#include "collectives/schedule/type.h"

#define SOURCES 17
/* elements: several rounds of every loop, with the widest vectors and narrowest elements */
#define COUNT_MAX 1100
#define ROOM      (COUNT_MAX * BR_TYPE_BYTES_MAX + 256)
#define GUARD     0xa5

static const char *const kernels[] = {"scalar", "avx2", "avx512"};
#define KERNELS (sizeof kernels / sizeof kernels[0])

static unsigned char memory[SOURCES][ROOM];
static const void *sources[SOURCES];
static struct br_random numbers;

static bool is_float(enum braid_type type)
{
    return type <= BRAID_BFLOAT16 || type >= BRAID_FLOAT8_E4M3;
}

static bool is_complex(enum braid_type type)
{
    return type == BRAID_COMPLEX64 || type == BRAID_COMPLEX128;
}

/* For each type and reduction that go together. */
#define FOR_EACH_REDUCTION(type, reduction)                                                        \
    for (enum braid_type type = 0; type < BRAID_TYPES; type++)                                     \
        for (enum braid_reduction reduction = 0; reduction < BRAID_REDUCTIONS; reduction++)        \
            if (br_type_has_reduction(type, reduction))

/* Element i as a number, exact; of a complex type part i. */
static long double get(enum braid_type type, const void *array, size_t i)
{
    size_t size = br_type_size(type) / (is_complex(type) ? 2 : 1);
    const char *p = (const char *)array + i * size;
    union {
        float f32;
        double f64;
        uint16_t u16;
        int8_t i8;
        uint8_t u8;
        int16_t i16;
        int32_t i32;
        uint32_t u32;
        int64_t i64;
        uint64_t u64;
    } u;

    memcpy(&u, p, size);
    switch (type) {
    case BRAID_FLOAT32:
    case BRAID_COMPLEX64:
        return u.f32;
    case BRAID_FLOAT64:
    case BRAID_COMPLEX128:
        return u.f64;
    case BRAID_FLOAT8_E4M3:
        return br_float_of_e4m3(u.u8);
    case BRAID_FLOAT8_E5M2:
        return br_float_of_e5m2(u.u8);
    case BRAID_FLOAT16:
        return br_float_of_half(u.u16);
    case BRAID_BFLOAT16:
        return br_float_of_bfloat(u.u16);
    case BRAID_INT8:
        return u.i8;
    case BRAID_UINT8:
    case BRAID_BOOL:
        return u.u8;
    case BRAID_INT16:
        return u.i16;
    case BRAID_UINT16:
        return u.u16;
    case BRAID_INT32:
        return u.i32;
    case BRAID_UINT32:
        return u.u32;
    case BRAID_INT64:
        return u.i64;
    default:
        return u.u64;
    }
}

static void put_float(enum braid_type type, void *array, size_t i, double value)
{
    char *p = (char *)array + i * br_type_size(type);
    float f32 = (float)value;
    uint16_t half = type == BRAID_FLOAT16 ? br_half_of_float(f32) : br_bfloat_of_float(f32);
    uint8_t quarter = type == BRAID_FLOAT8_E4M3 ? br_e4m3_of_float(f32) : br_e5m2_of_float(f32);
    const void *from = type == BRAID_FLOAT64       ? (const void *)&value
                       : type == BRAID_FLOAT32     ? (const void *)&f32
                       : type >= BRAID_FLOAT8_E4M3 ? (const void *)&quarter
                                                   : (const void *)&half;

    memcpy(p, from, br_type_size(type));
}

/* Lets each source start at a random place and fills it with random bits: subnormals, NaNs and
 * all. */
static void fill_bits(int n_src, size_t bytes)
{
    for (int s = 0; s < n_src; s++) {
        unsigned char *p = memory[s] + br_random_below(&numbers, 128);

        for (size_t i = 0; i < bytes; i++)
            p[i] = (unsigned char)br_random_next(&numbers);
        sources[s] = p;
    }
}

/* The same with floats of moderate size in [1/2, 2), of either sign, some of them special
 * values. */
static void fill_floats(enum braid_type type, int n_src, size_t count, bool special)
{
    static const double specials[] = {0.0,   -0.0,  INFINITY, -INFINITY, NAN,
                                      1e-40, -1e-7, 6e4,      -3e38};

    fill_bits(n_src, 0);
    for (int s = 0; s < n_src; s++)
        for (size_t i = 0; i < count; i++) {
            double value = 0.5 + 1.5 * br_random_unit(&numbers);

            if (br_random_below(&numbers, 2))
                value = -value;
            if (special && br_random_below(&numbers, 8) == 0)
                value = specials[br_random_below(&numbers, sizeof specials / sizeof specials[0])];
            put_float(type, (void *)(uintptr_t)sources[s], i, value);
        }
}

/* Bits are the same; where floats are added or multiplied, one NaN is as good as another. */
static void assert_same(enum braid_type type, enum braid_reduction reduction, const void *a,
                        const void *b, size_t count)
{
    size_t parts = is_complex(type) ? 2 : 1, size = br_type_size(type) / parts;
    bool any_nan =
        parts == 2 || (is_float(type) && reduction != BRAID_MIN && reduction != BRAID_MAX);

    for (size_t i = 0; i < count * parts; i++) {
        if (any_nan && isnan(get(type, a, i)) && isnan(get(type, b, i)))
            continue;
        if (memcmp((const char *)a + i * size, (const char *)b + i * size, size) != 0)
            fail_msg("%s %s: element %zu of %zu is %Lg, should be %Lg", br_type_name(type),
                     br_reduction_name(reduction), i / parts, count, get(type, a, i),
                     get(type, b, i));
    }
}

static void assert_guarded(const unsigned char *room, const unsigned char *from, size_t bytes)
{
    for (size_t i = 0; i < ROOM; i++)
        if ((room + i < from || room + i >= from + bytes) && room[i] != GUARD)
            fail_msg("byte %td before or after an array of %zu was written", room + i - from,
                     bytes);
}

/* All kernels this processor has give the scalar ones' bits, and write nothing else. */
static void compare_kernels(enum braid_type type, enum braid_reduction reduction, int n_src,
                            size_t count)
{
    static unsigned char expected[ROOM], room[ROOM];
    size_t bytes = count * br_type_size(type);
    int divisor = (int)br_random_below(&numbers, 3) * n_src;
    unsigned char *dst = room + br_random_below(&numbers, 128);

    assert_int_equal(br_reduce_select("scalar"), 0);
    assert_int_equal(br_reduce(type, reduction, expected, sources, n_src, count, divisor), 0);
    for (size_t k = 0; k < KERNELS; k++) {
        if (br_reduce_select(kernels[k]))
            continue;
        memset(room, GUARD, sizeof room);
        assert_int_equal(br_reduce(type, reduction, dst, sources, n_src, count, divisor), 0);
        assert_same(type, reduction, dst, expected, count);
        assert_guarded(room, dst, bytes);
    }
}

static void br_reduce__kernels_agree(void **state)
{
    static const size_t counts[] = {1,  2,  3,  7,  8,   9,   15,  16,  17, 31,
                                    33, 63, 64, 65, 127, 129, 255, 257, 300};

    (void)state;
    FOR_EACH_REDUCTION(type, reduction)
    for (int n_src = 1; n_src <= SOURCES; n_src += n_src < 3 ? 1 : 7)
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            fill_bits(n_src, counts[c] * br_type_size(type));
            compare_kernels(type, reduction, n_src, counts[c]);
        }
}

static void br_reduce__kernels_agree_on_special_values(void **state)
{
    (void)state;
    FOR_EACH_REDUCTION(type, reduction)
    for (int n_src = 1; n_src <= SOURCES && is_float(type); n_src += n_src < 3 ? 1 : 7) {
        fill_floats(type, n_src, COUNT_MAX, true);
        compare_kernels(type, reduction, n_src, COUNT_MAX);
    }
}

/* Each float16 and bfloat16 to float and back, in every kernel. */
static void br_reduce__every_half(void **state)
{
    static uint16_t every[0x10000], result[0x10000];
    const void *source = every;

    (void)state;
    for (size_t i = 0; i < 0x10000; i++)
        every[i] = (uint16_t)i;
    for (size_t k = 0; k < KERNELS; k++) {
        if (br_reduce_select(kernels[k]))
            continue;
        assert_int_equal(br_reduce(BRAID_FLOAT16, BRAID_AVG, result, &source, 1, 0x10000, 1), 0);
        for (size_t i = 0; i < 0x10000; i++)
            assert_int_equal(result[i], br_half_of_float(br_float_of_half(every[i])));
        assert_int_equal(br_reduce(BRAID_BFLOAT16, BRAID_AVG, result, &source, 1, 0x10000, 1), 0);
        for (size_t i = 0; i < 0x10000; i++)
            assert_int_equal(result[i], br_bfloat_of_float(br_float_of_bfloat(every[i])));
    }
}

/* How far a float result may be from the exact value: each operation rounds once, by half a unit in
 * the last place of what it computes with, and a narrow type once more at the end, to a subnormal
 * perhaps. */
static long double tolerance(enum braid_type type, enum braid_reduction reduction, int n_src,
                             long double exact, long double sum_of_magnitudes)
{
    static const int last_place[BRAID_TYPES] = {
        [BRAID_FLOAT32] = -24, [BRAID_FLOAT64] = -53,    [BRAID_FLOAT16] = -11,
        [BRAID_BFLOAT16] = -8, [BRAID_FLOAT8_E4M3] = -4, [BRAID_FLOAT8_E5M2] = -3};
    static const long double subnormals[BRAID_TYPES] = {
        [BRAID_FLOAT16] = 0x1p-25L, [BRAID_FLOAT8_E4M3] = 0x1p-10L, [BRAID_FLOAT8_E5M2] = 0x1p-17L};
    long double subnormal = subnormals[type];
    long double working = type == BRAID_FLOAT64 ? 0x1p-53L : 0x1p-24L;
    long double scale = reduction == BRAID_PROD ? fabsl(exact) : sum_of_magnitudes;

    return 1.01L * (n_src * working * scale + ldexpl(fabsl(exact), last_place[type])) + subnormal;
}

static void compare_float(enum braid_type type, enum braid_reduction reduction, int n_src,
                          const void *result, size_t i)
{
    long double exact = get(type, sources[0], i), magnitudes = fabsl(exact), slack;

    for (int s = 1; s < n_src; s++) {
        long double x = get(type, sources[s], i);

        exact = reduction == BRAID_PROD  ? exact * x
                : reduction == BRAID_MIN ? fminl(exact, x)
                : reduction == BRAID_MAX ? fmaxl(exact, x)
                                         : exact + x;
        magnitudes += fabsl(x);
    }
    if (reduction == BRAID_AVG) {
        exact /= n_src;
        magnitudes /= n_src;
    }
    if (type == BRAID_FLOAT8_E4M3 && fabsl(exact) > 448) /* a large product */
        return;
    slack = reduction == BRAID_MIN || reduction == BRAID_MAX
                ? 0
                : tolerance(type, reduction, n_src, exact, magnitudes);
    if (!(fabsl(get(type, result, i) - exact) <= slack))
        fail_msg("%s %s of %d: %Lg, should be %Lg within %Lg", br_type_name(type),
                 br_reduction_name(reduction), n_src, get(type, result, i), exact, slack);
}

/* x as it is after storing it in the type. */
static __int128 wrap(enum braid_type type, __int128 x)
{
    uint64_t bits = (uint64_t)x;

    return (__int128)get(type, &bits, 0); /* the low bytes, on a little-endian machine */
}

static void compare_integer(enum braid_type type, enum braid_reduction reduction, int n_src,
                            const void *result, size_t i)
{
    __int128 exact = (__int128)get(type, sources[0], i);

    for (int s = 1; s < n_src; s++) {
        __int128 x = (__int128)get(type, sources[s], i);

        if (reduction == BRAID_PROD)
            exact = wrap(type, (__int128)((unsigned __int128)exact * (unsigned __int128)x));
        else if (reduction == BRAID_MIN)
            exact = x < exact ? x : exact;
        else if (reduction == BRAID_MAX)
            exact = x > exact ? x : exact;
        else if (reduction == BRAID_BAND)
            exact &= x;
        else if (reduction == BRAID_BOR)
            exact |= x;
        else if (reduction == BRAID_BXOR)
            exact ^= x;
        else if (reduction == BRAID_LAND)
            exact = exact && x;
        else if (reduction == BRAID_LOR)
            exact = exact || x;
        else if (reduction == BRAID_LXOR)
            exact = !exact != !x;
        else
            exact = wrap(type, exact + x);
    }
    if (reduction == BRAID_AVG)
        exact /= n_src;
    if ((__int128)get(type, result, i) != exact)
        fail_msg("%s %s of %d: %Lg, should be %Lg", br_type_name(type),
                 br_reduction_name(reduction), n_src, get(type, result, i), (long double)exact);
}

/* Every other element of each source, in an order of its own, becomes zero. */
static void fill_zeros(enum braid_type type, int n_src)
{
    size_t size = br_type_size(type);

    for (int s = 0; s < n_src; s++)
        for (size_t i = 0; i < COUNT_MAX; i++)
            if (br_random_below(&numbers, 2))
                memset((char *)(uintptr_t)sources[s] + i * size, 0, size);
}

static void br_reduce__is_right(void **state)
{
    static unsigned char result[ROOM];

    (void)state;
    assert_int_equal(br_reduce_select("scalar"), 0); /* the others are compared with it */
    FOR_EACH_REDUCTION(type, reduction)
    for (int n_src = 1; n_src <= 9 && type != BRAID_BOOL && !is_complex(type);
         n_src += n_src < 3 ? 1 : 6) {
        if (is_float(type))
            fill_floats(type, n_src, COUNT_MAX, false);
        else
            fill_bits(n_src, COUNT_MAX * br_type_size(type));
        if (!is_float(type) && reduction >= BRAID_LAND)
            fill_zeros(type, n_src);
        assert_int_equal(br_reduce(type, reduction, result, sources, n_src, COUNT_MAX, n_src), 0);
        for (size_t i = 0; i < COUNT_MAX; i++)
            if (is_float(type))
                compare_float(type, reduction, n_src, result, i);
            else
                compare_integer(type, reduction, n_src, result, i);
    }
}

/* Any byte but 0 is true, and the result is 0 or 1. */
static void br_reduce__truth(void **state)
{
    static const uint8_t a[] = {0, 0, 1, 7, 0x80}, b[] = {0, 2, 0, 1, 0xff};
    static const uint8_t and[] = {0, 0, 0, 1, 1}, or [] = {0, 1, 1, 1, 1},
                         xor[] = {
                             0, 1, 1, 0, 0};
    static const uint8_t *const expected[BRAID_REDUCTIONS] = {
        [BRAID_SUM] = or,   [BRAID_PROD] = and, [BRAID_MIN] = and,  [BRAID_MAX] = or,
        [BRAID_BAND] = and, [BRAID_BOR] = or,   [BRAID_BXOR] = xor, [BRAID_LAND] = and,
        [BRAID_LOR] = or,   [BRAID_LXOR] = xor};
    uint8_t out[5];

    (void)state;
    for (size_t k = 0; k < KERNELS; k++)
        for (enum braid_reduction reduction = 0; reduction < BRAID_REDUCTIONS; reduction++) {
            if (br_reduce_select(kernels[k]) || !expected[reduction])
                continue;
            assert_int_equal(br_reduce(BRAID_BOOL, reduction, out, (const void *[]){a, b}, 2, 5, 0),
                             0);
            assert_memory_equal(out, expected[reduction], 5);
        }
}

/* (1 + 2i)(3 - i) = 5 + 5i, times 2i: -10 + 10i. */
static void br_reduce__complex(void **state)
{
    static const float a[] = {1, 2}, b[] = {3, -1}, c[] = {0, 2};
    static const double wide_a[] = {1, 2}, wide_b[] = {3, -1}, wide_c[] = {0, 2};
    const void *from[] = {a, b, c}, *wide[] = {wide_a, wide_b, wide_c};
    static const float product[] = {-10, 10}, sum[] = {4, 3}, average[] = {2, 1.5f};
    double wide_out[2];
    float out[2];

    (void)state;
    for (size_t k = 0; k < KERNELS; k++) {
        if (br_reduce_select(kernels[k]))
            continue;
        br_reduce(BRAID_COMPLEX64, BRAID_PROD, out, from, 3, 1, 0);
        assert_memory_equal(out, product, sizeof out);
        br_reduce(BRAID_COMPLEX64, BRAID_SUM, out, from, 3, 1, 0);
        assert_memory_equal(out, sum, sizeof out);
        br_reduce(BRAID_COMPLEX64, BRAID_AVG, out, from, 3, 1, 2);
        assert_memory_equal(out, average, sizeof out);
        br_reduce(BRAID_COMPLEX128, BRAID_PROD, wide_out, wide, 3, 1, 0);
        assert_true(wide_out[0] == -10 && wide_out[1] == 10);
        br_reduce(BRAID_COMPLEX128, BRAID_AVG, wide_out, wide, 3, 1, 2);
        assert_true(wide_out[0] == 2 && wide_out[1] == 1.5);
    }
}

/* 16 + 1 would round to 16 in E4M3, and 8 + 1 to 8 in E5M2, each time. Nothing saturates. */
static void br_reduce__float8_rounds_once(void **state)
{
    const uint8_t big = br_e4m3_of_float(16), one = br_e4m3_of_float(1), most = 0x7e;
    const uint8_t wide_big = br_e5m2_of_float(8), wide_one = br_e5m2_of_float(1), wide_most = 0x7b;
    uint8_t out;

    (void)state;
    br_reduce(BRAID_FLOAT8_E4M3, BRAID_SUM, &out, (const void *[]){&big, &one, &one}, 3, 1, 0);
    assert_true(br_float_of_e4m3(out) == 18);
    br_reduce(BRAID_FLOAT8_E5M2, BRAID_SUM, &out, (const void *[]){&wide_big, &wide_one, &wide_one},
              3, 1, 0);
    assert_true(br_float_of_e5m2(out) == 10);
    br_reduce(BRAID_FLOAT8_E4M3, BRAID_AVG, &out, (const void *[]){&most, &most}, 2, 1, 2);
    assert_int_equal(out, most);
    br_reduce(BRAID_FLOAT8_E4M3, BRAID_SUM, &out, (const void *[]){&most, &most}, 2, 1, 0);
    assert_int_equal(out, 0x7f);
    br_reduce(BRAID_FLOAT8_E5M2, BRAID_SUM, &out, (const void *[]){&wide_most, &wide_most}, 2, 1,
              0);
    assert_int_equal(out, 0x7c);
}

/* (2^24 + 1) + 1 is 2^24 in float32, 1 + 1 + 2^24 is not: the order shows in the bits. */
static void br_reduce__order_is_left_to_right(void **state)
{
    const float big = 0x1p24f, one = 1;
    float sum;

    (void)state;
    for (size_t k = 0; k < KERNELS; k++) {
        if (br_reduce_select(kernels[k]))
            continue;
        assert_int_equal(
            br_reduce(BRAID_FLOAT32, BRAID_SUM, &sum, (const void *[]){&big, &one, &one}, 3, 1, 0),
            0);
        assert_true(sum == 0x1p24f);
        assert_int_equal(
            br_reduce(BRAID_FLOAT32, BRAID_SUM, &sum, (const void *[]){&one, &one, &big}, 3, 1, 0),
            0);
        assert_true(sum == 0x1p24f + 2);
    }
}

/* 2048 + 1 would round to 2048 in float16, and 256 + 1 to 256 in bfloat16, each time. The average
 * is divided before it is rounded: 65504 * 2 is no float16. */
static void br_reduce__halves_round_once(void **state)
{
    const uint16_t big = br_half_of_float(2048), one = br_half_of_float(1), most = 0x7bff;
    const uint16_t bbig = br_bfloat_of_float(256), bone = br_bfloat_of_float(1);
    uint16_t out;

    (void)state;
    for (size_t k = 0; k < KERNELS; k++) {
        if (br_reduce_select(kernels[k]))
            continue;
        br_reduce(BRAID_FLOAT16, BRAID_SUM, &out, (const void *[]){&big, &one, &one}, 3, 1, 0);
        assert_true(br_float_of_half(out) == 2050);
        br_reduce(BRAID_BFLOAT16, BRAID_SUM, &out, (const void *[]){&bbig, &bone, &bone}, 3, 1, 0);
        assert_true(br_float_of_bfloat(out) == 258);
        br_reduce(BRAID_FLOAT16, BRAID_AVG, &out, (const void *[]){&most, &most}, 2, 1, 2);
        assert_int_equal(out, most);
    }
}

static void br_reduce__destination_is_a_source(void **state)
{
    static unsigned char expected[ROOM];

    (void)state;
    for (size_t k = 0; k < KERNELS; k++)
        for (enum braid_type type = 0; type < BRAID_TYPES; type++)
            for (int n_src = 1; n_src <= 5; n_src++)
                for (int s = 0; s < n_src; s++) {
                    enum braid_reduction reduction = (enum braid_reduction)(s % BRAID_REDUCTIONS);
                    void *dst;

                    if (br_reduce_select(kernels[k]) || !br_type_has_reduction(type, reduction))
                        continue;
                    fill_bits(n_src, 333 * br_type_size(type));
                    br_reduce(type, reduction, expected, sources, n_src, 333, n_src);
                    dst = (void *)(uintptr_t)sources[s];
                    assert_int_equal(br_reduce(type, reduction, dst, sources, n_src, 333, n_src),
                                     0);
                    assert_same(type, reduction, dst, expected, 333);
                }
}

static void br_reduce__one_array_as_every_source(void **state)
{
    int32_t x[5] = {1, -2, 3, 1 << 30, 5};
    const void *same[] = {x, x, x, x};

    (void)state;
    assert_int_equal(br_reduce_select("auto"), 0);
    assert_int_equal(br_reduce(BRAID_INT32, BRAID_SUM, x, same, 4, 5, 0), 0);
    assert_memory_equal(x, ((int32_t[]){4, -8, 12, 0, 20}), sizeof x);
}

static void br_reduce__many_sources(void **state)
{
    static int32_t arrays[300][50];
    const void *from[300];
    int32_t sum[50];

    (void)state;
    for (int s = 0; s < 300; s++) {
        for (int i = 0; i < 50; i++)
            arrays[s][i] = s * i;
        from[s] = arrays[s];
    }
    assert_int_equal(br_reduce_select("auto"), 0);
    assert_int_equal(br_reduce(BRAID_INT32, BRAID_SUM, sum, from, 300, 50, 0), 0);
    for (int i = 0; i < 50; i++)
        assert_int_equal(sum[i], 299 * 300 / 2 * i);
}

/* Arrays that end where the mapped memory ends, and start where it starts. */
static void br_reduce__touches_nothing_outside(void **state)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *middle[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        char *map = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        assert_ptr_not_equal(map, MAP_FAILED);
        assert_int_equal(mprotect(map + page, page, PROT_READ | PROT_WRITE), 0);
        middle[i] = map + page;
    }
    for (size_t k = 0; k < KERNELS; k++)
        for (enum braid_type type = 0; type < BRAID_TYPES; type++)
            for (size_t count = 1; count < 256; count++) {
                size_t skip = page - count * br_type_size(type);

                if (br_reduce_select(kernels[k]))
                    continue;
                br_reduce(type, BRAID_PROD, middle[2] + skip,
                          (const void *[]){middle[0] + skip, middle[1] + skip}, 2, count, 0);
                br_reduce(type, BRAID_PROD, middle[2], (const void *[]){middle[0], middle[1]}, 2,
                          count, 0);
            }
    for (int i = 0; i < 3; i++)
        munmap(middle[i] - page, 3 * page);
}

static void br_reduce__min_and_max_of_nan_and_zero(void **state)
{
    const uint32_t a[] = {0x7fc00001, 0x3f800000, 0x7f800123, 0x80000000, 0x00000000, 0x80000000};
    const uint32_t b[] = {0x3f800000, 0xffc00002, 0xffc00002, 0x00000000, 0x80000000, 0x80000000};
    const uint32_t least[] = {0x7fc00001, 0xffc00002, 0x7f800123,
                              0x80000000, 0x80000000, 0x80000000};
    const uint32_t most[] = {0x7fc00001, 0xffc00002, 0x7f800123,
                             0x00000000, 0x00000000, 0x80000000};
    uint32_t out[6];

    (void)state;
    for (size_t k = 0; k < KERNELS; k++) {
        if (br_reduce_select(kernels[k]))
            continue;
        br_reduce(BRAID_FLOAT32, BRAID_MIN, out, (const void *[]){a, b}, 2, 6, 0);
        assert_memory_equal(out, least, sizeof out);
        br_reduce(BRAID_FLOAT32, BRAID_MAX, out, (const void *[]){a, b}, 2, 6, 0);
        assert_memory_equal(out, most, sizeof out);
    }
}

static void br_reduce__average_of_integers_truncates(void **state)
{
    const int8_t a[] = {-7, 7, 127, -128}, b[] = {0, 0, 1, -128}, half[] = {-3, 3, -64, 0};
    int8_t out[4];

    (void)state;
    assert_int_equal(br_reduce_select("auto"), 0);
    br_reduce(BRAID_INT8, BRAID_AVG, out, (const void *[]){a, b}, 2, 4, 2);
    assert_memory_equal(out, half, sizeof out);
    br_reduce(BRAID_INT8, BRAID_AVG, out, (const void *[]){a, b}, 2, 4,
              300); /* more ranks than an int8 counts */
    assert_memory_equal(out, ((int8_t[4]){0}), sizeof out);
}

static void br_reduce__average_of_many_integers(void **state)
{
    enum { COUNT = 20011 }; /* several blocks, the last one short */
    static uint32_t array[COUNT];

    (void)state;
    for (uint32_t i = 0; i < COUNT; i++)
        array[i] = i;
    assert_int_equal(br_reduce_select("auto"), 0);
    assert_int_equal(
        br_reduce(BRAID_UINT32, BRAID_AVG, array, (const void *[]){array, array}, 2, COUNT, 4), 0);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(array[i], i / 2);
}

static void br_reduce__average_divides_only_when_asked(void **state)
{
    const float a = 3, b = 5;
    float out;

    (void)state;
    assert_int_equal(br_reduce_select("auto"), 0);
    br_reduce(BRAID_FLOAT32, BRAID_AVG, &out, (const void *[]){&a, &b}, 2, 1, 0);
    assert_true(out == 8);
    br_reduce(BRAID_FLOAT32, BRAID_AVG, &out, (const void *[]){&a, &b}, 2, 1, 4);
    assert_true(out == 2);
    br_reduce(BRAID_FLOAT32, BRAID_SUM, &out, (const void *[]){&a, &b}, 2, 1, 4);
    assert_true(out == 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_reduce__kernels_agree),
        cmocka_unit_test(br_reduce__kernels_agree_on_special_values),
        cmocka_unit_test(br_reduce__every_half),
        cmocka_unit_test(br_reduce__is_right),
        cmocka_unit_test(br_reduce__truth),
        cmocka_unit_test(br_reduce__complex),
        cmocka_unit_test(br_reduce__float8_rounds_once),
        cmocka_unit_test(br_reduce__order_is_left_to_right),
        cmocka_unit_test(br_reduce__halves_round_once),
        cmocka_unit_test(br_reduce__destination_is_a_source),
        cmocka_unit_test(br_reduce__one_array_as_every_source),
        cmocka_unit_test(br_reduce__many_sources),
        cmocka_unit_test(br_reduce__touches_nothing_outside),
        cmocka_unit_test(br_reduce__min_and_max_of_nan_and_zero),
        cmocka_unit_test(br_reduce__average_of_integers_truncates),
        cmocka_unit_test(br_reduce__average_of_many_integers),
        cmocka_unit_test(br_reduce__average_divides_only_when_asked),
    };

    unsetenv("BRAID_SIMD");
    br_random_seed(&numbers, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
