/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether memory is a GPU's, and which one's.
 *
 * 1. A process that uses no GPU pays one load and one branch. br_gpu_look() decides at braid_init()
 * whether this process can have GPU memory at all: there is an NVIDIA driver in the kernel, or
 *    BRAID_CUDA_LIBRARY names a library. Only then is libcuda loaded, and not initialised: a
 *    process that has not done so itself has no GPU memory, and the driver says "not initialised"
 *    for every address.
 * 2. Otherwise each address costs one call of the driver, of about 0.1 us. Rejected: a cache of
 *    answers. Addresses that were host memory come back as GPU memory when the allocators trade
 *    them, and a stale answer is a crash.
 * 3. Managed memory, and memory of another process's GPU that is mapped here, count as what the
 *    driver says: managed as host memory, since the CPU may touch it; the other as memory of the
 *    GPU.
 */
#ifndef BR_GPU_POINTER_H
#define BR_GPU_POINTER_H

#include <stdbool.h>

struct CUctx_st;

/* Whether there is anything to ask (note 1). At start; any thread; again: looks again. Negative
 * errno with a message, and a line in the log, where a driver should be and cannot be used: then
 * all memory counts as the host's. */
int br_gpu_look(void);

/* Has br_gpu_look() found a driver that can be used? Any thread. */
bool br_gpu_found(void);

/* 0: br_gpu_of() can tell. Else why not, with a message: those of br_cuda_library(); -ENODEV:
 * br_gpu_look() has not found what is there now. Any thread. */
int br_gpu_check(void);

/* The GPU that memory lies on: its ordinal + 1. 0: host memory, pinned and managed memory included,
 * NULL, or no address at all. Any thread, at any rate: never blocks. */
int br_gpu_of(const void *memory);

/* Can kernels that run in this context read it? Not memory that was allocated in another one; what
 * belongs to none (memory pools, cuMemMap()) is the whole GPU's. Copies go between contexts. Any
 * thread, at any rate: never blocks. */
bool br_gpu_is_in(const void *memory, const struct CUctx_st *context);

#endif
