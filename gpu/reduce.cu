/* SPDX-License-Identifier: BSD-3-Clause */
/* The reduction kernels of kernels.h, for nvcc. All their arithmetic is in headers that the tests
 * compile for the CPU too. */
#include "gpu/kernels.h"
#include "gpu/halves.h"
#include "gpu/words.h"

#define INLINE static __forceinline__ __device__

#define KERNEL(type, suffix, reduction) KERNEL_(type, suffix, reduction)
#define KERNEL_(type, suffix, reduction)                                                           \
    extern "C" __global__ void braid_reduce_##type##_##suffix(                                     \
        const __grid_constant__ struct br_gpu_reduction r)                                         \
    {                                                                                              \
        type##_thread(reduction, &r, (uint64_t)blockIdx.x *blockDim.x + threadIdx.x,               \
                      (uint64_t)gridDim.x * blockDim.x);                                           \
    }

#define ELEMENT_LOOP "gpu/reduce_thread.h"
#include "base/elements.h"
