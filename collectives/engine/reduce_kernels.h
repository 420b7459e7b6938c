/* SPDX-License-Identifier: BSD-3-Clause */
/* What collectives/engine/reduce.c and the kernels agree on. */
#ifndef BR_COLLECTIVES_ENGINE_REDUCE_KERNELS_H
#define BR_COLLECTIVES_ENGINE_REDUCE_KERNELS_H

#include <stddef.h>

#include "braid/types.h"

/*
 * Combines the bytes [begin, end) of the sources, whole elements; arguments otherwise as
 * br_reduce's, valid. divisor counts for BRAID_AVG only and is then > 0.
 */
typedef void br_reduce_kernel(char *dst, const char *const *src, int n_src, size_t begin,
                              size_t end, int divisor);

struct br_reduce_kernels {
    const char *name;
    /* NULL: the type does not have the reduction (br_type_reductions()), or only br_reduce_scalar
     * makes it: no instruction set divides integers, and some are not worth vectors (reduce.c, note
     * 5). */
    br_reduce_kernel *run[BRAID_TYPES][BRAID_REDUCTIONS];
};

/* The reductions of truth values, which are those of the truth of a type of one byte. */
#define BR_REDUCE_BOOL(type)                                                                       \
    {                                                                                              \
        [BRAID_SUM] = type##_lor, [BRAID_PROD] = type##_land, [BRAID_MIN] = type##_land,           \
        [BRAID_MAX] = type##_lor, [BRAID_BAND] = type##_land, [BRAID_BOR] = type##_lor,            \
        [BRAID_BXOR] = type##_lxor, [BRAID_LAND] = type##_land, [BRAID_LOR] = type##_lor,          \
        [BRAID_LXOR] = type##_lxor                                                                 \
    }

extern const struct br_reduce_kernels br_reduce_scalar;
#ifdef __x86_64__
extern const struct br_reduce_kernels br_reduce_avx2;   /* needs AVX2 and F16C */
extern const struct br_reduce_kernels br_reduce_avx512; /* needs AVX-512 F, BW, DQ, VL */
#endif

#endif
