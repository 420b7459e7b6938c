/* SPDX-License-Identifier: BSD-3-Clause */
/* The reduction kernels of gpu/reduce.cu, compiled from the same headers for the CPU: what the
 * tests check their arithmetic with, and what the fake driver runs. */
#ifndef BR_TEST_KERNELS_ON_HOST_H
#define BR_TEST_KERNELS_ON_HOST_H

#include "gpu/kernels.h"

/* What thread `thread` of `threads` does. */
typedef void br_host_kernel(const struct br_gpu_reduction *r, uint64_t thread, uint64_t threads);

struct br_host_kernel_entry {
    const char *name; /* in the image */
    enum braid_type type;
    enum braid_reduction reduction;
    br_host_kernel *run;
};

#define BR_HOST_ONE(type, suffix, TYPE, REDUCTION) +1
#define BR_HOST_KERNELS                            (0 BR_GPU_KERNELS(BR_HOST_ONE))
extern const struct br_host_kernel_entry br_host_kernels[BR_HOST_KERNELS];

/* One by name; NULL: there is none. */
br_host_kernel *br_host_kernel_find(const char *name);

#endif
