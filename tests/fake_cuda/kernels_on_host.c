/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fake_cuda/kernels_on_host.h"

#include "gpu/halves.h"
#include "gpu/words.h"

#define INLINE static inline __attribute__((always_inline))

#define KERNEL(type, suffix, reduction) KERNEL_(type, suffix, reduction)
#define KERNEL_(type, suffix, reduction)                                                           \
    static void type##_##suffix(const struct br_gpu_reduction *r, uint64_t thread,                 \
                                uint64_t threads)                                                  \
    {                                                                                              \
        type##_thread(reduction, r, thread, threads);                                              \
    }

#define ELEMENT_LOOP "gpu/reduce_thread.h"
#include "base/elements.h"

#define ENTRY(type, suffix, TYPE, REDUCTION)                                                       \
    {"braid_reduce_" #type "_" #suffix, TYPE, REDUCTION, type##_##suffix},
const struct br_host_kernel_entry br_host_kernels[BR_HOST_KERNELS] = {BR_GPU_KERNELS(ENTRY)};

br_host_kernel *br_host_kernel_find(const char *name)
{
    for (int i = 0; i < BR_HOST_KERNELS; i++)
        if (!strcmp(name, br_host_kernels[i].name))
            return br_host_kernels[i].run;
    return NULL;
}
