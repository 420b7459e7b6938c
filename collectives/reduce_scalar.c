/* SPDX-License-Identifier: BSD-3-Clause */
/* One element at a time, in plain C: runs everywhere, and is what the vector kernels are compared with. */
#include "collectives/reduce_kernels.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "collectives/half.h"

_Static_assert(FLT_EVAL_METHOD == 0, "float must be computed as float, or the kernels' results differ");

#define TARGET
#define INLINE static inline __attribute__((always_inline))

/* Minimum and maximum of IEEE 754-2019: a NaN wins (the first one), -0 < +0. TYPE is float or double. */
#define SMALLER(TYPE)                                                                                        \
    INLINE TYPE smaller_##TYPE(TYPE a, TYPE b)                                                               \
    {                                                                                                        \
        if (isnan(a) || isnan(b))                                                                            \
            return isnan(a) ? a : b;                                                                         \
        if (a == b)                                                                                          \
            return signbit(a) ? a : b;                                                                       \
        return a < b ? a : b;                                                                                \
    }

#define LARGER(TYPE)                                                                                         \
    INLINE TYPE larger_##TYPE(TYPE a, TYPE b)                                                                \
    {                                                                                                        \
        if (isnan(a) || isnan(b))                                                                            \
            return isnan(a) ? a : b;                                                                         \
        if (a == b)                                                                                          \
            return signbit(a) ? b : a;                                                                       \
        return a > b ? a : b;                                                                                \
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
#include "collectives/reduce_loop.h"
#undef WIDEN
#undef NARROW

#define WIDEN(raw) br_float_of_bfloat(raw)
#define NARROW(v)  br_bfloat_of_float(v)
#define TYPE       bfloat16
#define RAW        uint16_t
#define VECTOR     float
#include "collectives/reduce_loop.h"
#undef WIDEN
#undef NARROW

#define WIDEN(raw) (raw)
#define NARROW(v)  (v)
#define TYPE       float32
#define RAW        float
#define VECTOR     float
#include "collectives/reduce_loop.h"
#undef MIN
#undef MAX

#define MIN(a, b) smaller_double(a, b)
#define MAX(a, b) larger_double(a, b)
#define TYPE      float64
#define RAW       double
#define VECTOR    double
#include "collectives/reduce_loop.h"
#undef ADD
#undef MULTIPLY
#undef DIVIDE
#undef MIN
#undef MAX

/* Integers: WRAP is the unsigned type in which sums and products may wrap, WIDE holds the quotients. */
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
#include "collectives/reduce_loop.h"
#undef WRAP
#undef WIDE

#define TYPE   uint8
#define RAW    uint8_t
#define VECTOR uint8_t
#define WRAP   uint8_t
#define WIDE   int32_t
#include "collectives/reduce_loop.h"
#undef WRAP
#undef WIDE

#define TYPE   int32
#define RAW    int32_t
#define VECTOR int32_t
#define WRAP   uint32_t
#define WIDE   int32_t
#include "collectives/reduce_loop.h"
#undef WRAP
#undef WIDE

#define TYPE   uint32
#define RAW    uint32_t
#define VECTOR uint32_t
#define WRAP   uint32_t
#define WIDE   uint32_t
#include "collectives/reduce_loop.h"
#undef WRAP
#undef WIDE

#define TYPE   int64
#define RAW    int64_t
#define VECTOR int64_t
#define WRAP   uint64_t
#define WIDE   int64_t
#include "collectives/reduce_loop.h"
#undef WRAP
#undef WIDE

#define TYPE   uint64
#define RAW    uint64_t
#define VECTOR uint64_t
#define WRAP   uint64_t
#define WIDE   uint64_t
#include "collectives/reduce_loop.h"
#undef WRAP
#undef WIDE

#define ROW(type)                                                                                            \
    {                                                                                                        \
        type##_sum, type##_prod, type##_min, type##_max, type##_avg                                          \
    } /* in the order of the enum */

const struct br_reduce_kernels br_reduce_scalar = {
    .name = "scalar",
    .run =
        {
            [BRAID_FLOAT32] = ROW(float32),
            [BRAID_FLOAT64] = ROW(float64),
            [BRAID_FLOAT16] = ROW(float16),
            [BRAID_BFLOAT16] = ROW(bfloat16),
            [BRAID_INT8] = ROW(int8),
            [BRAID_UINT8] = ROW(uint8),
            [BRAID_INT32] = ROW(int32),
            [BRAID_UINT32] = ROW(uint32),
            [BRAID_INT64] = ROW(int64),
            [BRAID_UINT64] = ROW(uint64),
        },
};
