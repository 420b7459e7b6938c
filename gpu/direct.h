/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of GPUs for NICs that read and write it themselves (GPUDirect RDMA): what CUDA says of it,
 * and wants before and after. A NIC is given a whole allocation, once, and only of the primary
 * context.
 *
 * The numbered notes are in doc/design/gpu_memory.md.
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
