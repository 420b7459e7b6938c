/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 1. Values are exact in their type, so that filling does not round: fractions of 2^-10 for
 *    float16, 2^-7 for bfloat16, 2^-3 and 2^-2 for float8, 2^-23 and 2^-52 for the others, in [-1,
 *    1), or +-[0.75, 1.25) for products. An element of a complex type is two of its parts' type.
 * 2. Everything goes by blocks: one switch over the type a block, tight loops inside.
 */
#include "tools/common/data.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "collectives/schedule/type.h"

#define BLOCK 512 /* elements */

/* What is inlined into a loop for one type, so that nothing is decided for each element (note
 * 2). */
#define INLINED static inline __attribute__((always_inline))

INLINED uint64_t raw(uint64_t seed, int rank, size_t i)
{
    uint64_t x =
        seed + 0x9e3779b97f4a7c15ull * (i + 1) + 0xd1342543de82ef95ull * ((uint64_t)rank + 1);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

/* ---- floating point -------------------------------------------------------------------------- */

INLINED bool is_float(enum braid_type type)
{
    return type <= BRAID_BFLOAT16 || type >= BRAID_FLOAT8_E4M3;
}

INLINED bool is_complex(enum braid_type type)
{
    return type == BRAID_COMPLEX64 || type == BRAID_COMPLEX128;
}

/* Bits behind the binary point of the values of a type, and the weight of the last of them. */
static const uint8_t fraction_bits[BRAID_TYPES] = {
    [BRAID_FLOAT32] = 23, [BRAID_FLOAT64] = 52,    [BRAID_FLOAT16] = 10,
    [BRAID_BFLOAT16] = 7, [BRAID_FLOAT8_E4M3] = 3, [BRAID_FLOAT8_E5M2] = 2};
static const double fraction[BRAID_TYPES] = {
    [BRAID_FLOAT32] = 0x1p-23, [BRAID_FLOAT64] = 0x1p-52,    [BRAID_FLOAT16] = 0x1p-10,
    [BRAID_BFLOAT16] = 0x1p-7, [BRAID_FLOAT8_E4M3] = 0x1p-3, [BRAID_FLOAT8_E5M2] = 0x1p-2};
/* By how much rounding to a subnormal may be wrong; 0: what is tested is not that small. */
static const double subnormal[BRAID_TYPES] = {
    [BRAID_FLOAT16] = 0x1p-25, [BRAID_FLOAT8_E4M3] = 0x1p-10, [BRAID_FLOAT8_E5M2] = 0x1p-17};

INLINED double float_value(const struct br_data *data, int rank, size_t i)
{
    int bits = fraction_bits[data->type];
    uint64_t h = raw(data->seed, rank, i);
    if (data->reduction != BRAID_PROD)
        return (double)((int64_t)(h >> (63 - bits)) - (1ll << bits)) * fraction[data->type];
    double magnitude = 0.75 + (double)(h >> (65 - bits)) * fraction[data->type];
    return h & 1 ? -magnitude : magnitude;
}

INLINED uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Exact, and for the values of note 1 only: no subnormals, no rounding. */
INLINED uint16_t half_of(double value)
{
    uint32_t bits = float_bits((float)value);
    if (!(bits & 0x7fffffffu))
        return (uint16_t)(bits >> 16);
    return (uint16_t)((bits >> 16 & 0x8000u) | ((bits >> 23 & 0xff) - 112) << 10 |
                      (bits >> 13 & 0x3ffu));
}

INLINED double half_value(uint16_t half)
{
    /* as a float whose exponent is 112 too small */
    uint32_t bits = (uint32_t)(half & 0x7fff) << 13;
    float value;
    memcpy(&value, &bits, sizeof value);
    value = (half & 0x7c00) == 0x7c00 ? (half & 0x3ff ? NAN : INFINITY) : value * 0x1p112f;
    return half & 0x8000 ? -(double)value : (double)value;
}

INLINED double bfloat_value(uint16_t bfloat)
{
    uint32_t bits = (uint32_t)bfloat << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

/* As half_of(). */
INLINED uint8_t e4m3_of(double value)
{
    uint32_t bits = float_bits((float)value);
    uint8_t sign = (uint8_t)(bits >> 24 & 0x80);
    if (!(bits & 0x7fffffffu))
        return sign;
    return (uint8_t)(sign | ((bits >> 23 & 0xff) - 120) << 3 | (bits >> 20 & 7));
}

INLINED double e4m3_value(uint8_t raw)
{
    int exponent = raw >> 3 & 0xf, bits = raw & 7;
    double value = exponent ? (8 + bits) * ldexp(1, exponent - 10) : bits * 0x1p-9;
    value = (raw & 0x7f) == 0x7f ? NAN : value;
    return raw & 0x80 ? -value : value;
}

INLINED double load_float(enum braid_type type, const char *at)
{
    union {
        float f32;
        double f64;
        uint16_t u16;
        uint8_t u8;
    } u;
    memcpy(&u, at, br_type_size(type));
    switch (type) {
    case BRAID_FLOAT32:
        return (double)u.f32;
    case BRAID_FLOAT64:
        return u.f64;
    case BRAID_FLOAT16:
        return half_value(u.u16);
    case BRAID_FLOAT8_E4M3:
        return e4m3_value(u.u8);
    case BRAID_FLOAT8_E5M2:
        return half_value((uint16_t)(u.u8 << 8));
    default:
        return bfloat_value(u.u16);
    }
}

INLINED void store_float(enum braid_type type, char *at, double value)
{
    union {
        float f32;
        double f64;
        uint16_t u16;
        uint8_t u8;
    } u;
    switch (type) {
    case BRAID_FLOAT32:
        u.f32 = (float)value;
        break;
    case BRAID_FLOAT64:
        u.f64 = value;
        break;
    case BRAID_FLOAT16:
        u.u16 = half_of(value);
        break;
    case BRAID_FLOAT8_E4M3:
        u.u8 = e4m3_of(value);
        break;
    case BRAID_FLOAT8_E5M2:
        u.u8 = (uint8_t)(half_of(value) >> 8);
        break;
    default:
        u.u16 = (uint16_t)(float_bits((float)value) >> 16);
        break;
    }
    memcpy(at, &u, br_type_size(type));
}

/*
 * Is the element right? `wide` is the reference's type: its own rounding errors are far below the
 * bound, for which the thousandth on top pays.
 */
#define DEFINE_RIGHT(name, wide)                                                                   \
    INLINED bool name(const struct br_data *data, int ranks, size_t i, wide got)                   \
    {                                                                                              \
        wide result = (wide)float_value(data, 0, i), magnitude = result < 0 ? -result : result;    \
        for (int r = 1; r < ranks; r++) {                                                          \
            wide x = (wide)float_value(data, r, i);                                                \
            magnitude += x < 0 ? -x : x;                                                           \
            if (data->reduction == BRAID_PROD)                                                     \
                result *= x;                                                                       \
            else if (data->reduction == BRAID_MIN)                                                 \
                result = x < result ? x : result;                                                  \
            else if (data->reduction == BRAID_MAX)                                                 \
                result = x > result ? x : result;                                                  \
            else                                                                                   \
                result += x;                                                                       \
        }                                                                                          \
        wide unit = (wide)(0.5005 * fraction[data->type]) * (wide)(ranks - 1), bound = 0;          \
        wide smallest = (wide)subnormal[data->type]; /* products may leave the normal range */     \
        if (data->reduction == BRAID_AVG) {                                                        \
            result /= (wide)ranks;                                                                 \
            magnitude /= (wide)ranks;                                                              \
        }                                                                                          \
        wide size = result < 0 ? -result : result;                                                 \
        if (data->reduction == BRAID_SUM)                                                          \
            bound = unit * magnitude;                                                              \
        else if (data->reduction == BRAID_AVG)                                                     \
            bound = unit * (magnitude + size) + /* 0 for one rank: x / 1 is exact */               \
                    smallest * (wide)(ranks > 1);                                                  \
        else if (data->reduction == BRAID_PROD)                                                    \
            bound = unit * size + smallest * (wide)(ranks - 1);                                    \
        wide error = got - result;                                                                 \
        return error <= bound && -error <= bound; /* false for a NaN */                            \
    }
DEFINE_RIGHT(right, double)
DEFINE_RIGHT(right_long, long double)

INLINED bool float_right(const struct br_data *data, int ranks, size_t i, const char *at)
{
    double got = load_float(data->type, at);
    if (data->type == BRAID_FLOAT64)
        return right_long(data, ranks, i, (long double)got);
    return right(data, ranks, i, got);
}

/* ---- complex numbers ------------------------------------------------------------------------- */

INLINED enum braid_type part_of(enum braid_type type)
{
    return type == BRAID_COMPLEX64 ? BRAID_FLOAT32 : BRAID_FLOAT64;
}

/* A product in any order: each of ranks - 1 multiplications is wrong by sqrt(5) units at most. */
static bool product_right(const struct br_data *data, int ranks, size_t i, const char *at)
{
    const struct br_data part = {data->seed, part_of(data->type), data->reduction};
    const size_t size = br_type_size(part.type);
    long double re = float_value(&part, 0, 2 * i), im = float_value(&part, 0, 2 * i + 1), bound;

    for (int r = 1; r < ranks; r++) {
        long double x = float_value(&part, r, 2 * i), y = float_value(&part, r, 2 * i + 1);
        long double product = re * x - im * y;

        im = re * y + im * x;
        re = product;
    }
    bound = 1.2L * (long double)fraction[part.type] * (ranks - 1) * hypotl(re, im);
    return fabsl(load_float(part.type, at) - re) <= bound &&
           fabsl(load_float(part.type, at + size) - im) <= bound;
}

/* ---- integers -------------------------------------------------------------------------------- */

INLINED bool is_signed(enum braid_type type)
{
    return type == BRAID_INT8 || type == BRAID_INT16 || type == BRAID_INT32 || type == BRAID_INT64;
}

/* Cuts x to the type and extends it again, as the type's own arithmetic would leave it. */
INLINED uint64_t wrap(enum braid_type type, uint64_t x)
{
    int unused = 64 - 8 * (int)br_type_size(type);
    return is_signed(type) ? (uint64_t)((int64_t)(x << unused) >> unused) : x << unused >> unused;
}

/* Truth values that leave both results of their reduction likely; integers whose bits are. */
INLINED uint64_t integer_value(const struct br_data *data, int rank, size_t i)
{
    uint64_t h = raw(data->seed, rank, i), eighth = h >> 61;
    bool truth;

    switch (data->reduction) {
    case BRAID_LAND:
        truth = eighth > 0;
        break;
    case BRAID_LOR:
        truth = eighth == 0;
        break;
    case BRAID_LXOR:
        truth = eighth < 4;
        break;
    case BRAID_PROD:
        h |= 1; /* odd factors: a product never dies out */
        truth = eighth > 0;
        break;
    case BRAID_BAND:
    case BRAID_MIN:
        truth = eighth > 0 || data->type != BRAID_BOOL;
        break;
    default:
        truth = eighth == 0 || data->type != BRAID_BOOL;
        break;
    }
    if (data->type == BRAID_BOOL)
        return truth;
    if (data->reduction >= BRAID_LAND)
        return truth ? wrap(data->type, h | 1) : 0;
    return wrap(data->type, h);
}

INLINED uint64_t integer_step(const struct br_data *data, uint64_t a, uint64_t b)
{
    bool less = is_signed(data->type) ? (int64_t)b < (int64_t)a : b < a;
    switch (data->reduction) {
    case BRAID_PROD:
        return a * b;
    case BRAID_MIN:
        return less ? b : a;
    case BRAID_MAX:
        return less ? a : b;
    case BRAID_BAND:
        return a & b;
    case BRAID_BOR:
        return a | b;
    case BRAID_BXOR:
        return a ^ b;
    case BRAID_LAND:
        return a && b;
    case BRAID_LOR:
        return a || b;
    case BRAID_LXOR:
        return !a != !b;
    default:
        return data->type == BRAID_BOOL ? a | b : a + b;
    }
}

INLINED uint64_t integer_reference(const struct br_data *data, int ranks, size_t i)
{
    uint64_t result = integer_value(data, 0, i);
    for (int r = 1; r < ranks; r++)
        result = integer_step(data, result, integer_value(data, r, i));
    result = wrap(data->type, result);
    if (data->reduction == BRAID_AVG)
        result =
            is_signed(data->type) ? (uint64_t)((int64_t)result / ranks) : result / (uint64_t)ranks;
    return result;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Little-endian, as all hosts that braid runs on: the low bytes are the element. */
INLINED void store(const struct br_data *data, int rank, size_t i, char *at)
{
    if (is_float(data->type)) {
        store_float(data->type, at, float_value(data, rank, i));
        return;
    }
    uint64_t value = integer_value(data, rank, i);
    memcpy(at, &value, br_type_size(data->type));
}

INLINED void fill(const struct br_data *data, int rank, size_t first, char *buffer, size_t count)
{
    const size_t size = br_type_size(data->type);

    for (size_t i = 0; i < count; i++)
        store(data, rank, first + i, buffer + i * size);
}

INLINED size_t wrong_reduced(const struct br_data *data, int ranks, size_t first,
                             const char *buffer, size_t count)
{
    const size_t size = br_type_size(data->type);
    size_t wrong = 0;

    for (size_t i = 0; i < count; i++) {
        const char *at = buffer + i * size;

        if (is_float(data->type)) {
            wrong += !float_right(data, ranks, first + i, at);
        } else {
            const uint64_t expected = integer_reference(data, ranks, first + i);

            wrong += memcmp(&expected, at, size) != 0;
        }
    }
    return wrong;
}

/* `call` with `d`, which is *data, but its type a constant. */
#define FOR_TYPE(data, call)                                                                       \
    switch ((data)->type) {                                                                        \
        IS_TYPE(BRAID_FLOAT32, data, call)                                                         \
        IS_TYPE(BRAID_FLOAT64, data, call)                                                         \
        IS_TYPE(BRAID_FLOAT16, data, call)                                                         \
        IS_TYPE(BRAID_BFLOAT16, data, call)                                                        \
        IS_TYPE(BRAID_INT8, data, call)                                                            \
        IS_TYPE(BRAID_UINT8, data, call)                                                           \
        IS_TYPE(BRAID_INT32, data, call)                                                           \
        IS_TYPE(BRAID_UINT32, data, call)                                                          \
        IS_TYPE(BRAID_INT64, data, call)                                                           \
        IS_TYPE(BRAID_UINT64, data, call)                                                          \
        IS_TYPE(BRAID_INT16, data, call)                                                           \
        IS_TYPE(BRAID_UINT16, data, call)                                                          \
        IS_TYPE(BRAID_BOOL, data, call)                                                            \
        IS_TYPE(BRAID_FLOAT8_E4M3, data, call)                                                     \
        IS_TYPE(BRAID_FLOAT8_E5M2, data, call)                                                     \
    default: /* complex: by parts */                                                               \
        break;                                                                                     \
    }
#define IS_TYPE(constant, data, call)                                                              \
    case constant: {                                                                               \
        const struct br_data d = {                                                                 \
            .seed = (data)->seed, .type = constant, .reduction = (data)->reduction};               \
                                                                                                   \
        call;                                                                                      \
        break;                                                                                     \
    }

void br_data_fill(const struct br_data *data, int rank, size_t first, void *buffer, size_t count)
{
    if (is_complex(data->type)) {
        const struct br_data part = {data->seed, part_of(data->type), data->reduction};

        br_data_fill(&part, rank, 2 * first, buffer, 2 * count);
        return;
    }
    FOR_TYPE(data, fill(&d, rank, first, buffer, count))
}

size_t br_data_wrong_copy(const struct br_data *data, int rank, size_t first, const void *buffer,
                          size_t count)
{
    const size_t size = br_type_size(data->type);
    char expected[BLOCK * BR_TYPE_BYTES_MAX];
    size_t wrong = 0;

    for (size_t done = 0; done < count; done += BLOCK) {
        const size_t n = count - done < BLOCK ? count - done : BLOCK;
        const char *got = (const char *)buffer + done * size;

        br_data_fill(data, rank, first + done, expected, n);
        if (memcmp(expected, got, n * size))
            for (size_t i = 0; i < n; i++)
                wrong += memcmp(expected + i * size, got + i * size, size) != 0;
    }
    return wrong;
}

size_t br_data_wrong_reduced(const struct br_data *data, int ranks, size_t first,
                             const void *buffer, size_t count)
{
    const size_t size = br_type_size(data->type);
    size_t wrong = 0;

    for (size_t i = 0; i < count && is_complex(data->type); i++) {
        const struct br_data part = {data->seed, part_of(data->type), data->reduction};
        const char *at = (const char *)buffer + i * size;

        wrong += data->reduction == BRAID_PROD
                     ? !product_right(data, ranks, first + i, at)
                     : br_data_wrong_reduced(&part, ranks, 2 * (first + i), at, 2) > 0;
    }
    FOR_TYPE(data, wrong = wrong_reduced(&d, ranks, first, buffer, count))
    return wrong;
}
