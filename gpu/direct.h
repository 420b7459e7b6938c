/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of GPUs for NICs that read and write it themselves (GPUDirect RDMA): what CUDA says of it,
 * and wants before and after.
 *
 * 1. A NIC is given a whole allocation, once. Addresses come again when a program frees and
 *    allocates; the number of the allocation (CU_POINTER_ATTRIBUTE_BUFFER_ID) does not in the life
 *    of the process, so it tells whether what a NIC knows is still that memory.
 * 2. Before: CU_POINTER_ATTRIBUTE_SYNC_MEMOPS. Without it cuMemcpy() and cuMemset() may return
 *    before the bytes are there, and the NIC, which no stream orders, would send the old ones.
 *    Memory that does not take it (cudaMallocAsync(), cuMemMap()) is not given to NICs.
 * 3. After: what a NIC has written need not be what the GPU reads when the NIC says so. Where the
 *    device's attribute promises no order, cuFlushGPUDirectRDMAWrites() comes before the program
 *    hears of it, or work of ours on the GPU or another NIC reads it. It flushes for the GPU that
 *    the memory lies on: a program that reads it from a second GPU has to synchronise the two in
 *    any case.
 * 4. Memory of the primary context alone: that is the one which the flush is called in. What a
 *    program allocated in a context of its own is staged.
 */
#ifndef BR_GPU_DIRECT_H
#define BR_GPU_DIRECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An allocation. */
struct br_direct_memory {
    void *base; /* its address on the GPU */
    size_t bytes;
    uint64_t number; /* note 1 */
    int gpu;         /* as br_gpu_of() names it */
};

/* The allocation that all of [memory, +bytes) lies in. -EOPNOTSUPP with a message: it lies in none
 * that a NIC can be given. Any thread, at any rate: never blocks. */
int br_direct_find(const void *memory, size_t bytes, struct br_direct_memory *out);
/* Is it still the one that it was? */
bool br_direct_is_valid(const struct br_direct_memory *memory);

/* Notes 2 and 4, and a dma-buf of the pages that the allocation lies in: *dmabuf is the caller's to
 * close, *offset that of the allocation in it. -1 where the driver gives none, which is no error.
 * Negative errno with a message. Not on the data path. */
int br_direct_export(const struct br_direct_memory *memory, int *dmabuf, uint64_t *offset);

/* Memory of the primary context, for NICs. Negative errno with a message: there is none. free:
 * waits for all that the GPU does, so not of one that is lost (copier.h). Both not on the data
 * path. */
int br_direct_allocate(int gpu, size_t bytes, struct br_direct_memory *out);
void br_direct_free(const struct br_direct_memory *memory);

/* Note 3. can_flush: 0, or -EOPNOTSUPP with a message: NICs cannot write to this GPU. flush:
 * nothing where there is nothing to flush; negative errno with a message. Blocks for
 * microseconds. */
int br_direct_can_flush(int gpu);
int br_direct_flush(int gpu);

#endif
