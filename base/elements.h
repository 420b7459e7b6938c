/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arithmetic of one element, of every type: what all kernels on CPUs and GPUs must agree with.
 *
 * Includes ELEMENT_LOOP, a header in quotes, once for each element type, with these defined:
 *
 *   TYPE                    name of the element type ("float16")
 *   RAW                     the element as it lies in memory
 *   VECTOR                  the same as it is computed with
 *   WIDEN(raw), NARROW(v)   from RAW to VECTOR and back
 *   ADD(a, b), MULTIPLY(a, b), MIN(a, b), MAX(a, b)
 *   DIVIDE(v, divisor)      of the average
 *   HALF                    for the floats of 16 bits
 *   PAIRS                   for float16: GPUs compare two in a word
 *   TRUTH                   for the unsigned integers: their truth may be combined, too
 *   BITS                    for uint8: bits may be, of whatever type
 *
 * ELEMENT_LOOP undefines TYPE, RAW and VECTOR. Whoever includes this defines INLINE too, the
 * attributes of an inline function, and FLOAT8 where the 8-bit floats are wanted as well. C and
 * CUDA C++ alike.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/float8.h"
#include "base/half.h"

/* Minimum and maximum of IEEE 754-2019: a NaN wins (the first one), -0 < +0. TYPE is float or
 * double. */
#define SMALLER(TYPE)                                                                              \
    INLINE TYPE smaller_##TYPE(TYPE a, TYPE b)                                                     \
    {                                                                                              \
        if (isnan(a) || isnan(b))                                                                  \
            return isnan(a) ? a : b;                                                               \
        if (a == b)                                                                                \
            return signbit(a) ? a : b;                                                             \
        return a < b ? a : b;                                                                      \
    }

#define LARGER(TYPE)                                                                               \
    INLINE TYPE larger_##TYPE(TYPE a, TYPE b)                                                      \
    {                                                                                              \
        if (isnan(a) || isnan(b))                                                                  \
            return isnan(a) ? a : b;                                                               \
        if (a == b)                                                                                \
            return signbit(a) ? b : a;                                                             \
        return a > b ? a : b;                                                                      \
    }

SMALLER(float)
LARGER(float)
SMALLER(double)
LARGER(double)

/* Floating point. */
#define ADD(a, b)      ((a) + (b))
#define MULTIPLY(a, b) ((a) * (b))
#define DIVIDE(v, d)   ((v) / (VECTOR)(d))
#define MIN(a, b)      smaller_float(a, b)
#define MAX(a, b)      larger_float(a, b)

#define WIDEN(raw) br_float_of_half(raw)
#define NARROW(v)  br_half_of_float(v)
#define TYPE       float16
#define RAW        uint16_t
#define VECTOR     float
#define HALF
#define PAIRS
#include ELEMENT_LOOP
#undef PAIRS
#undef WIDEN
#undef NARROW

#define WIDEN(raw) br_float_of_bfloat(raw)
#define NARROW(v)  br_bfloat_of_float(v)
#define TYPE       bfloat16
#define RAW        uint16_t
#define VECTOR     float
#include ELEMENT_LOOP
#undef HALF
#undef WIDEN
#undef NARROW

#ifdef FLOAT8
#define WIDEN(raw) br_float_of_e4m3(raw)
#define NARROW(v)  br_e4m3_of_float(v)
#define TYPE       float8_e4m3
#define RAW        uint8_t
#define VECTOR     float
#include ELEMENT_LOOP
#undef WIDEN
#undef NARROW

#define WIDEN(raw) br_float_of_e5m2(raw)
#define NARROW(v)  br_e5m2_of_float(v)
#define TYPE       float8_e5m2
#define RAW        uint8_t
#define VECTOR     float
#include ELEMENT_LOOP
#undef WIDEN
#undef NARROW
#endif

#define WIDEN(raw) (raw)
#define NARROW(v)  (v)
#define TYPE       float32
#define RAW        float
#define VECTOR     float
#include ELEMENT_LOOP
#undef MIN
#undef MAX

#define MIN(a, b) smaller_double(a, b)
#define MAX(a, b) larger_double(a, b)
#define TYPE      float64
#define RAW       double
#define VECTOR    double
#include ELEMENT_LOOP
#undef ADD
#undef MULTIPLY
#undef DIVIDE
#undef MIN
#undef MAX

/* Integers: WRAP is the unsigned type in which sums and products may wrap, of 16 bits a wider one,
 * as C would multiply them as int; WIDE holds the quotients. */
#define ADD(a, b)      ((VECTOR)((WRAP)(a) + (WRAP)(b)))
#define MULTIPLY(a, b) ((VECTOR)((WRAP)(a) * (WRAP)(b)))
#define DIVIDE(v, d)   ((VECTOR)((v) / (WIDE)(d)))
#define MIN(a, b)      ((a) < (b) ? (a) : (b))
#define MAX(a, b)      ((a) > (b) ? (a) : (b))

#define TYPE   int8
#define RAW    int8_t
#define VECTOR int8_t
#define WRAP   uint8_t
#define WIDE   int32_t
#include ELEMENT_LOOP
#undef WRAP
#undef WIDE

#define TYPE   uint8
#define RAW    uint8_t
#define VECTOR uint8_t
#define WRAP   uint8_t
#define WIDE   int32_t
#define BITS
#define TRUTH
#include ELEMENT_LOOP
#undef BITS
#undef TRUTH
#undef WRAP
#undef WIDE

#define TYPE   int16
#define RAW    int16_t
#define VECTOR int16_t
#define WRAP   uint32_t
#define WIDE   int32_t
#include ELEMENT_LOOP
#undef WRAP
#undef WIDE

#define TYPE   uint16
#define RAW    uint16_t
#define VECTOR uint16_t
#define WRAP   uint32_t
#define WIDE   int32_t
#define TRUTH
#include ELEMENT_LOOP
#undef TRUTH
#undef WRAP
#undef WIDE

#define TYPE   int32
#define RAW    int32_t
#define VECTOR int32_t
#define WRAP   uint32_t
#define WIDE   int32_t
#include ELEMENT_LOOP
#undef WRAP
#undef WIDE

#define TYPE   uint32
#define RAW    uint32_t
#define VECTOR uint32_t
#define WRAP   uint32_t
#define WIDE   uint32_t
#define TRUTH
#include ELEMENT_LOOP
#undef TRUTH
#undef WRAP
#undef WIDE

#define TYPE   int64
#define RAW    int64_t
#define VECTOR int64_t
#define WRAP   uint64_t
#define WIDE   int64_t
#include ELEMENT_LOOP
#undef WRAP
#undef WIDE

#define TYPE   uint64
#define RAW    uint64_t
#define VECTOR uint64_t
#define WRAP   uint64_t
#define WIDE   uint64_t
#define TRUTH
#include ELEMENT_LOOP
#undef TRUTH
#undef WRAP
#undef WIDE
#undef ADD
#undef MULTIPLY
#undef DIVIDE
#undef MIN
#undef MAX
#undef WIDEN
#undef NARROW
