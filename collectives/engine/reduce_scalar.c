/* SPDX-License-Identifier: BSD-3-Clause */
/* One element at a time, in plain C: runs everywhere, and is what the vector kernels are compared
 * with. */
#include "collectives/engine/reduce_kernels.h"

#include <float.h>

_Static_assert(FLT_EVAL_METHOD == 0,
               "float must be computed as float, or the kernels' results differ");

#define TARGET
#define INLINE static inline __attribute__((always_inline))

#define FLOAT8
#define ELEMENT_LOOP "collectives/engine/reduce_loop.h"
#include "base/elements.h"

/* Products of complex numbers, which are nobody else's (reduce.c, note 5). */
struct complex_float {
    float re, im;
};
struct complex_double {
    double re, im;
};

#define COMPLEX_PRODUCT(TYPE)                                                                      \
    INLINE struct complex_##TYPE multiply_##TYPE(struct complex_##TYPE a,                          \
                                                 struct complex_##TYPE b) {                        \
        return (struct complex_##TYPE){a.re * b.re - a.im * b.im, a.re *b.im + a.im *b.re};        \
    }

COMPLEX_PRODUCT(float)
COMPLEX_PRODUCT(double)

#define WIDEN(raw) (raw)
#define NARROW(v)  (v)

#define MULTIPLY(a, b) multiply_float(a, b)
#define TYPE           complex64
#define RAW            struct complex_float
#define VECTOR         struct complex_float
#include "collectives/engine/reduce_loop.h"
#undef MULTIPLY

#define MULTIPLY(a, b) multiply_double(a, b)
#define TYPE           complex128
#define RAW            struct complex_double
#define VECTOR         struct complex_double
#include "collectives/engine/reduce_loop.h"
#undef MULTIPLY

#define NUMBER(type)                                                                               \
    [BRAID_SUM] = type##_sum, [BRAID_PROD] = type##_prod, [BRAID_MIN] = type##_min,                \
    [BRAID_MAX] = type##_max, [BRAID_AVG] = type##_avg
#define TRUTH(type) [BRAID_LAND] = type##_land, [BRAID_LOR] = type##_lor, [BRAID_LXOR] = type##_lxor
/* Bits are the same in bytes. */
#define INTEGER(type, unsigned_type)                                                               \
    {                                                                                              \
        NUMBER(type), TRUTH(unsigned_type), [BRAID_BAND] = uint8_band, [BRAID_BOR] = uint8_bor,    \
                                            [BRAID_BXOR] = uint8_bxor                              \
    }
#define COMPLEX(type, part)                                                                        \
    {                                                                                              \
        [BRAID_SUM] = part##_sum, [BRAID_AVG] = part##_avg, [BRAID_PROD] = type##_prod             \
    }

const struct br_reduce_kernels br_reduce_scalar = {
    .name = "scalar",
    .run =
        {
            [BRAID_FLOAT32] = {NUMBER(float32)},
            [BRAID_FLOAT64] = {NUMBER(float64)},
            [BRAID_FLOAT16] = {NUMBER(float16)},
            [BRAID_BFLOAT16] = {NUMBER(bfloat16)},
            [BRAID_INT8] = INTEGER(int8, uint8),
            [BRAID_UINT8] = INTEGER(uint8, uint8),
            [BRAID_INT32] = INTEGER(int32, uint32),
            [BRAID_UINT32] = INTEGER(uint32, uint32),
            [BRAID_INT64] = INTEGER(int64, uint64),
            [BRAID_UINT64] = INTEGER(uint64, uint64),
            [BRAID_INT16] = INTEGER(int16, uint16),
            [BRAID_UINT16] = INTEGER(uint16, uint16),
            [BRAID_BOOL] = BR_REDUCE_BOOL(uint8),
            [BRAID_COMPLEX64] = COMPLEX(complex64, float32),
            [BRAID_COMPLEX128] = COMPLEX(complex128, float64),
            [BRAID_FLOAT8_E4M3] = {NUMBER(float8_e4m3)},
            [BRAID_FLOAT8_E5M2] = {NUMBER(float8_e5m2)},
        },
};
