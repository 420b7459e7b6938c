/* SPDX-License-Identifier: BSD-3-Clause */
/* What the reduction kernels (reduce.cu), those who launch them and the tests agree on. C and CUDA
 * C++ alike. */
#ifndef BR_GPU_KERNELS_H
#define BR_GPU_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "braid/types.h"

/* In one pass; the argument of a kernel has to stay below CUDA's 4,096 bytes. */
#define BR_GPU_SOURCES 256

/* The largest divisor of an average; see br_gpu_average(). */
#define BR_GPU_DIVISOR 65536

/*
 * The one argument of every kernel. dst[i] = (...(src[0][i] op src[1][i]) ...), i in [0, bytes /
 * element size). dst may be equal to one or more of the sources and must not overlap one in any
 * other way. No pointer needs alignment.
 */
struct br_gpu_reduction {
    char *dst;
    uint64_t bytes;  /* of each array: whole elements */
    int32_t n_src;   /* 1 to BR_GPU_SOURCES */
    int32_t divisor; /* of the average, 1 to BR_GPU_DIVISOR; the other kernels ignore it */
    const char *src[BR_GPU_SOURCES];
};

/*
 * Every kernel once, as X(type, reduction, enum braid_type, enum braid_reduction): it is called
 * braid_reduce_<type>_<reduction> in the image. The other combinations are the CPU's
 * (br_gpu_has_kernel()): bits, truth values and complex numbers are seldom a GPU's, each kernel
 * costs seconds of compiling and 16 KiB of the library, and those of float8 kept their elements in
 * memory instead of registers.
 */
#define BR_GPU_KERNELS_OF(X, type, TYPE)                                                           \
    X(type, sum, TYPE, BRAID_SUM)                                                                  \
    X(type, prod, TYPE, BRAID_PROD)                                                                \
    X(type, min, TYPE, BRAID_MIN)                                                                  \
    X(type, max, TYPE, BRAID_MAX)                                                                  \
    X(type, avg, TYPE, BRAID_AVG)
#define BR_GPU_KERNELS(X)                                                                          \
    BR_GPU_KERNELS_OF(X, float32, BRAID_FLOAT32)                                                   \
    BR_GPU_KERNELS_OF(X, float64, BRAID_FLOAT64)                                                   \
    BR_GPU_KERNELS_OF(X, float16, BRAID_FLOAT16)                                                   \
    BR_GPU_KERNELS_OF(X, bfloat16, BRAID_BFLOAT16)                                                 \
    BR_GPU_KERNELS_OF(X, int8, BRAID_INT8)                                                         \
    BR_GPU_KERNELS_OF(X, uint8, BRAID_UINT8)                                                       \
    BR_GPU_KERNELS_OF(X, int32, BRAID_INT32)                                                       \
    BR_GPU_KERNELS_OF(X, uint32, BRAID_UINT32)                                                     \
    BR_GPU_KERNELS_OF(X, int64, BRAID_INT64)                                                       \
    BR_GPU_KERNELS_OF(X, uint64, BRAID_UINT64)                                                     \
    BR_GPU_KERNELS_OF(X, int16, BRAID_INT16)                                                       \
    BR_GPU_KERNELS_OF(X, uint16, BRAID_UINT16)

/* Is there a kernel for this type and reduction? */
static inline bool br_gpu_has_kernel(enum braid_type type, enum braid_reduction reduction)
{
#define BR_GPU_IS(name, suffix, TYPE, REDUCTION) ((TYPE) == type && (REDUCTION) == reduction) ||
    return BR_GPU_KERNELS(BR_GPU_IS) false;
#undef BR_GPU_IS
}

#endif
