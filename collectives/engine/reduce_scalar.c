/* SPDX-License-Identifier: BSD-3-Clause */
/* One element at a time, in plain C: runs everywhere, and is what the vector kernels are compared
 * with. */
#include "collectives/engine/reduce_kernels.h"

#include <float.h>

_Static_assert(FLT_EVAL_METHOD == 0,
               "float must be computed as float, or the kernels' results differ");

#define TARGET
#define INLINE static inline __attribute__((always_inline))

#define ELEMENT_LOOP "collectives/engine/reduce_loop.h"
#include "base/elements.h"

#define ROW(type)                                                                                  \
    {                                                                                              \
        type##_sum, type##_prod, type##_min, type##_max, type##_avg                                \
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
