/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernels of one vector instruction set, in the compiler's vector types: included once by its
 * file, which defines
 *
 *   TARGET                   attributes that allow the instructions
 *   BYTES                    bytes of a vector register; "half" below is a vector of half of them
 *   WIDEN_FLOAT16(half), NARROW_FLOAT16(whole)  between float16 and float, to nearest-even
 *   WIDEN_UINT16(half), NARROW_UINT32(whole)    between uint16 and uint32, whose upper bits are
 * zero LOAD_WHOLE(p, n), STORE_WHOLE(p, whole, n)  the first n < BYTES bytes of a vector; the rest
 * becomes zero LOAD_HALF(p, n), STORE_HALF(p, half, n)     the same of half a vector KERNELS,
 * KERNELS_NAME    the table that is made here, and its name
 */
#include <stdint.h>

#include "collectives/engine/reduce_kernels.h"

#define INLINE static inline __attribute__((always_inline)) TARGET

/* Names as the element types'; integer of the same width as a float: what its comparisons yield. */
typedef float vf32 __attribute__((vector_size(BYTES)));
typedef double vf64 __attribute__((vector_size(BYTES)));
typedef int8_t vi8 __attribute__((vector_size(BYTES)));
typedef uint8_t vu8 __attribute__((vector_size(BYTES)));
typedef int16_t vi16 __attribute__((vector_size(BYTES)));
typedef uint16_t vu16 __attribute__((vector_size(BYTES)));
typedef int32_t vi32 __attribute__((vector_size(BYTES)));
typedef uint32_t vu32 __attribute__((vector_size(BYTES)));
typedef int64_t vi64 __attribute__((vector_size(BYTES)));
typedef uint64_t vu64 __attribute__((vector_size(BYTES)));
typedef uint16_t half_u16 __attribute__((vector_size(BYTES / 2))); /* as many as a vf32 has */

#define BLEND(VECTOR, MASK, mask, a, b) ((VECTOR)(((MASK)(a) & (mask)) | ((MASK)(b) & ~(mask))))

/* A NaN wins (the first one), -0 < +0: where a == b, their bits differ in the sign of a zero at
 * most. */
#define FLOAT_ORDER(SUFFIX, VECTOR, MASK)                                                          \
    INLINE VECTOR smaller_##SUFFIX(VECTOR a, VECTOR b)                                             \
    {                                                                                              \
        VECTOR least = BLEND(VECTOR, MASK, a < b, a, b);                                           \
                                                                                                   \
        least = BLEND(VECTOR, MASK, a == b, (MASK)a | (MASK)b, least);                             \
        return BLEND(VECTOR, MASK, a != a, a, least);                                              \
    }                                                                                              \
                                                                                                   \
    INLINE VECTOR larger_##SUFFIX(VECTOR a, VECTOR b)                                              \
    {                                                                                              \
        VECTOR most = BLEND(VECTOR, MASK, a > b, a, b);                                            \
                                                                                                   \
        most = BLEND(VECTOR, MASK, a == b, (MASK)a & (MASK)b, most);                               \
        return BLEND(VECTOR, MASK, a != a, a, most);                                               \
    }

FLOAT_ORDER(f32, vf32, vi32)
FLOAT_ORDER(f64, vf64, vi64)

INLINE vf32 float32_of_bfloat16(half_u16 raw)
{
    return (vf32)((vu32)WIDEN_UINT16(raw) << 16);
}

INLINE half_u16 bfloat16_of_float32(vf32 v)
{
    vu32 bits = (vu32)v;
    /* to nearest-even; a carry raises the exponent */
    vu32 rounded = bits + 0x7fff + (bits >> 16 & 1);
    vu32 quiet = bits | 0x400000;

    return (half_u16)NARROW_UINT32(BLEND(vu32, vi32, v != v, quiet, rounded) >> 16);
}

/* Floating point. */
#define ADD(a, b)      ((a) + (b))
#define MULTIPLY(a, b) ((a) * (b))
#define DIVIDE(v, d)   ((v) / (float)(d))
#define MIN(a, b)      smaller_f32(a, b)
#define MAX(a, b)      larger_f32(a, b)

#define LOAD_PART(p, n)     ((RAW)LOAD_HALF(p, n))
#define STORE_PART(p, r, n) STORE_HALF(p, r, n)

#define WIDEN(raw) ((vf32)WIDEN_FLOAT16(raw))
#define NARROW(v)  ((half_u16)NARROW_FLOAT16(v))
#define TYPE       float16
#define RAW        half_u16
#define VECTOR     vf32
#include "collectives/engine/reduce_loop.h"
#undef WIDEN
#undef NARROW

#define WIDEN(raw) float32_of_bfloat16(raw)
#define NARROW(v)  bfloat16_of_float32(v)
#define TYPE       bfloat16
#define RAW        half_u16
#define VECTOR     vf32
#include "collectives/engine/reduce_loop.h"
#undef WIDEN
#undef NARROW
#undef LOAD_PART
#undef STORE_PART

#define LOAD_PART(p, n)     ((RAW)LOAD_WHOLE(p, n))
#define STORE_PART(p, r, n) STORE_WHOLE(p, r, n)
#define WIDEN(raw)          (raw)
#define NARROW(v)           (v)

#define TYPE   float32
#define RAW    vf32
#define VECTOR vf32
#include "collectives/engine/reduce_loop.h"
#undef DIVIDE
#undef MIN
#undef MAX

#define DIVIDE(v, d) ((v) / (double)(d))
#define MIN(a, b)    smaller_f64(a, b)
#define MAX(a, b)    larger_f64(a, b)
#define TYPE         float64
#define RAW          vf64
#define VECTOR       vf64
#include "collectives/engine/reduce_loop.h"
#undef ADD
#undef MULTIPLY
#undef DIVIDE
#undef MIN
#undef MAX

/* Integers: WRAP is the unsigned type in which sums and products may wrap, MASK what comparisons
 * yield. */
#define ADD(a, b)      ((VECTOR)((WRAP)(a) + (WRAP)(b)))
#define MULTIPLY(a, b) ((VECTOR)((WRAP)(a) * (WRAP)(b)))
#define MIN(a, b)      BLEND(VECTOR, MASK, (a) < (b), a, b)
#define MAX(a, b)      BLEND(VECTOR, MASK, (a) > (b), a, b)

#define WRAP vu8
#define MASK vi8

#define TYPE   int8
#define RAW    vi8
#define VECTOR vi8
#include "collectives/engine/reduce_loop.h"

#define TYPE   uint8
#define RAW    vu8
#define VECTOR vu8
#define BITS
#define TRUTH
#include "collectives/engine/reduce_loop.h"
#undef BITS
#undef TRUTH

#undef WRAP
#undef MASK

#define WRAP vu16
#define MASK vi16

#define TYPE   int16
#define RAW    vi16
#define VECTOR vi16
#include "collectives/engine/reduce_loop.h"

#define TYPE   uint16
#define RAW    vu16
#define VECTOR vu16
#define TRUTH
#include "collectives/engine/reduce_loop.h"
#undef TRUTH

#undef WRAP
#undef MASK

#define WRAP vu32
#define MASK vi32

#define TYPE   int32
#define RAW    vi32
#define VECTOR vi32
#include "collectives/engine/reduce_loop.h"

#define TYPE   uint32
#define RAW    vu32
#define VECTOR vu32
#define TRUTH
#include "collectives/engine/reduce_loop.h"
#undef TRUTH

#undef WRAP
#undef MASK

#define WRAP vu64
#define MASK vi64

#define TYPE   int64
#define RAW    vi64
#define VECTOR vi64
#include "collectives/engine/reduce_loop.h"

#define TYPE   uint64
#define RAW    vu64
#define VECTOR vu64
#define TRUTH
#include "collectives/engine/reduce_loop.h"
#undef TRUTH

#undef WRAP
#undef MASK

#define NUMBER(type)                                                                               \
    [BRAID_SUM] = type##_sum, [BRAID_PROD] = type##_prod, [BRAID_MIN] = type##_min,                \
    [BRAID_MAX] = type##_max
#define FLOAT(type)                                                                                \
    {                                                                                              \
        NUMBER(type), [BRAID_AVG] = type##_avg                                                     \
    }
/* Bits are the same in bytes, truth in the unsigned type. */
#define INTEGER(type, truth)                                                                       \
    {                                                                                              \
        NUMBER(type), [BRAID_BAND] = uint8_band, [BRAID_BOR] = uint8_bor,                          \
                      [BRAID_BXOR] = uint8_bxor, [BRAID_LAND] = truth##_land,                      \
                      [BRAID_LOR] = truth##_lor, [BRAID_LXOR] = truth##_lxor                       \
    }
#define COMPLEX(part)                                                                              \
    {                                                                                              \
        [BRAID_SUM] = part##_sum, [BRAID_AVG] = part##_avg                                         \
    }

const struct br_reduce_kernels KERNELS = {
    .name = KERNELS_NAME,
    .run =
        {
            [BRAID_FLOAT32] = FLOAT(float32),
            [BRAID_FLOAT64] = FLOAT(float64),
            [BRAID_FLOAT16] = FLOAT(float16),
            [BRAID_BFLOAT16] = FLOAT(bfloat16),
            [BRAID_INT8] = INTEGER(int8, uint8),
            [BRAID_UINT8] = INTEGER(uint8, uint8),
            [BRAID_INT32] = INTEGER(int32, uint32),
            [BRAID_UINT32] = INTEGER(uint32, uint32),
            [BRAID_INT64] = INTEGER(int64, uint64),
            [BRAID_UINT64] = INTEGER(uint64, uint64),
            [BRAID_INT16] = INTEGER(int16, uint16),
            [BRAID_UINT16] = INTEGER(uint16, uint16),
            [BRAID_BOOL] = BR_REDUCE_BOOL(uint8),
            [BRAID_COMPLEX64] = COMPLEX(float32),
            [BRAID_COMPLEX128] = COMPLEX(float64),
        },
};
