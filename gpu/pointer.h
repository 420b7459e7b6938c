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
 * 4. cudaMemcpy() from memory that is not pinned may return when the bytes stand in memory of the
 *    driver's, from which the GPU still copies them (the manual's "API synchronization behavior").
 *    Streams of ours wait for no work of the default stream: an all-reduce that came next read
 * stale bytes on an H100, each time. So an allocation gets CU_POINTER_ATTRIBUTE_SYNC_MEMOPS when it
 * is first seen, as Open MPI and UCX do. The call waits for such copies that are under way, and
 *    later ones wait by themselves. Rejected: to query the default stream, which breaks the graph
 *    that another thread captures in a stream that waits for it.
 */
#ifndef BR_GPU_POINTER_H
#define BR_GPU_POINTER_H

#include <stdbool.h>

struct CUctx_st;

/* Decides whether this process can have memory of GPUs (note 1); a later call decides anew. Returns
 * 0, or a negative errno with a message, and a line in the log, where a driver should be there and
 * cannot be used: then all memory counts as the host's. From any thread. */
int br_gpu_look(void);

/* Returns whether br_gpu_look() has found a driver that can be used. From any thread. */
bool br_gpu_found(void);

/* Returns 0 when br_gpu_of() can recognise memory of GPUs; otherwise why not, with a message: the
 * errors of br_cuda_library(), or -ENODEV: br_gpu_look() did not find what is there now. From any
 * thread. */
int br_gpu_check(void);

/* Returns the GPU that memory lies on, as its ordinal + 1; 0: host memory, pinned and managed
 * memory included, NULL, or no address at all. From any thread; never blocks. */
int br_gpu_of(const void *memory);

/* Memory of a GPU, before it is read or written: copies into its allocation that the program was
 * told to have ended have ended, and later ones end before it is told (note 4). One call of the
 * driver, and the first time of an allocation two more. Does nothing for allocations without that
 * attribute: of memory pools and cuMemCreate(). From any thread. */
void br_gpu_settle(const void *memory);

/* Returns whether kernels that run in this context can read the memory. They cannot read memory
 * that was allocated in another context, which copies can; memory that belongs to none (memory
 * pools, cuMemMap()) is the whole GPU's. From any thread; never blocks. */
bool br_gpu_is_in(const void *memory, const struct CUctx_st *context);

#endif
