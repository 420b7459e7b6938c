/* SPDX-License-Identifier: BSD-3-Clause */
/* The reduction kernels as kernels of the fake driver, known from the moment it is loaded. */
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/kernels_on_host.h"

static void run(const struct fake_cuda_launch *launch, const char *name)
{
    struct br_gpu_reduction reduction = *(const struct br_gpu_reduction *)launch->arguments[0];
    br_host_kernel *kernel = br_host_kernel_find(name);
    uint64_t threads = (uint64_t)launch->grid[0] * launch->block[0];

    reduction.dst = fake_cuda_bytes((uintptr_t)reduction.dst);
    for (int s = 0; s < reduction.n_src; s++)
        reduction.src[s] = fake_cuda_bytes((uintptr_t)reduction.src[s]);
    for (uint64_t thread = 0; thread < threads; thread++)
        kernel(&reduction, thread, threads);
}

#define FUNCTION(type, suffix, TYPE, REDUCTION)                                                              \
    static void type##_##suffix(const struct fake_cuda_launch *launch)                                       \
    {                                                                                                        \
        run(launch, "braid_reduce_" #type "_" #suffix);                                                      \
    }
BR_GPU_KERNELS(FUNCTION)

__attribute__((constructor)) static void add_all(void)
{
    static const size_t size = sizeof(struct br_gpu_reduction);

#define ADD(type, suffix, TYPE, REDUCTION)                                                                   \
    fake_cuda_kernel("braid_reduce_" #type "_" #suffix, type##_##suffix, &size, 1);
    BR_GPU_KERNELS(ADD)
}
