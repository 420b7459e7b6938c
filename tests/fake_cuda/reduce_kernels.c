/* SPDX-License-Identifier: BSD-3-Clause */
/* The reduction kernels as kernels of the fake driver, known from the moment it is loaded. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/fake_cuda/inside.h"
#include "tests/fake_cuda/kernels_on_host.h"

/* The real one fails with ILLEGAL_ADDRESS, and the context with it. */
static void *reach(const void *address, const char *name)
{
    if (fake_is_foreign((uintptr_t)address)) {
        fprintf(stderr, "FAKE_CUDA: %s gets memory of another context\n", name);
        abort();
    }
    return fake_cuda_bytes((uintptr_t)address);
}

static void run(const struct fake_cuda_launch *launch, const char *name)
{
    struct br_gpu_reduction reduction = *(const struct br_gpu_reduction *)launch->arguments[0];
    br_host_kernel *kernel = br_host_kernel_find(name);
    uint64_t threads = (uint64_t)launch->grid[0] * launch->block[0];

    reduction.dst = reach(reduction.dst, name);
    for (int s = 0; s < reduction.n_src; s++)
        reduction.src[s] = reach(reduction.src[s], name);
    for (uint64_t thread = 0; thread < threads; thread++)
        kernel(&reduction, thread, threads);
}

#define FUNCTION(type, suffix, TYPE, REDUCTION)                                                    \
    static void type##_##suffix(const struct fake_cuda_launch *launch)                             \
    {                                                                                              \
        run(launch, "braid_reduce_" #type "_" #suffix);                                            \
    }
BR_GPU_KERNELS(FUNCTION)

__attribute__((constructor)) static void add_all(void)
{
    static const size_t size = sizeof(struct br_gpu_reduction);

#define ADD(type, suffix, TYPE, REDUCTION)                                                         \
    fake_cuda_kernel("braid_reduce_" #type "_" #suffix, type##_##suffix, &size, 1);
    BR_GPU_KERNELS(ADD)
}
