/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of cuMemCreate(), as PyTorch's expandable segments and ncclMemAlloc() have it, between
 * processes of this host. It has no IPC handle: an allocation, here called an extent, becomes a
 * descriptor, which is sent to the other process, which maps it.
 *
 * There is one of each structure for a worker, under its lock. The primary context of the GPU is
 * current, and only br_imports_map() and br_imports_unmap() block (ipc.h, note 5).
 *
 * The numbered notes are in doc/design/gpu_memory.md.
 */
#ifndef BR_GPU_EXTENT_H
#define BR_GPU_EXTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/driver.h"

#define BR_EXTENTS       256u  /* of one buffer: 5 GiB of PyTorch's */
#define BR_EXTENTS_ALL   4096u /* of a process */
#define BR_EXTENTS_FREED 8u    /* told in one note */

/* In notes. */
struct br_extent {
    uint64_t serial; /* of its process; never used again */
    uint64_t bytes;
    /* below BR_EXTENTS_ALL; the descriptor is known by it and the serial on its way */
    uint32_t slot;
    uint32_t unused;
};

/* ---- ours, for others ------------------------------------------------------------------------ */

struct br_exports;

int br_exports_create(int ranks, struct br_exports **out); /* of the job; -ENOMEM with a message */
/* cuda NULL: nothing is released. NULL allowed. */
void br_exports_destroy(struct br_exports *exports, const struct br_cuda *cuda);

/* The extents that hold `bytes` at memory, *n of them, and the address of the first. Errors with
 * words: -E2BIG: more than BR_EXTENTS; -ENOSPC: more than BR_EXTENTS_ALL in all; the driver's, note
 * 5. */
int br_exports_find(struct br_exports *exports, const struct br_cuda *cuda, br_cuda_pointer memory,
                    size_t bytes, struct br_extent *out, uint32_t *n, br_cuda_pointer *first);

/* Has it the descriptor? */
bool br_exports_has(const struct br_exports *exports, int rank, const struct br_extent *extent);
/* The descriptor, the caller's to close. The driver's errors with a message. */
int br_exports_open(const struct br_exports *exports, const struct br_cuda *cuda,
                    const struct br_extent *extent);
/* it has now */
void br_exports_sent(struct br_exports *exports, int rank, const struct br_extent *extent);

/* What is gone and one of these ranks has got, BR_EXTENTS_FREED at most; they count as told.
 * Returns how many. */
uint32_t br_exports_freed(struct br_exports *exports, const int *ranks, int n,
                          struct br_extent *out);

/* ---- others', here --------------------------------------------------------------------------- */

struct br_imports;

/* -ENOMEM with a message */
int br_imports_create(struct br_imports **out);
/* as br_exports_destroy() */
void br_imports_destroy(struct br_imports *imports, const struct br_cuda *cuda);

/* A descriptor that a rank has sent for an extent; it is closed in any case. -EPROTO, -ENOMEM, the
 * driver's errors with a message. */
int br_imports_take(struct br_imports *imports, const struct br_cuda *cuda, int rank,
                    const struct br_extent *extent, int fd);
bool br_imports_has(const struct br_imports *imports, int rank, const struct br_extent *extent);
/* One that was in the slot of this one before, so it is gone, whether that has been heard or not.
 * false: none. */
bool br_imports_before(const struct br_imports *imports, int rank, const struct br_extent *extent,
                       struct br_extent *out);
void br_imports_drop(struct br_imports *imports, const struct br_cuda *cuda, int rank,
                     const struct br_extent *extent); /* where it is mapped it stays so */

/* Side by side, to be read by a GPU. Errors with a message: -EPROTO: one of them has not come; the
 * driver's. */
int br_imports_map(const struct br_imports *imports, const struct br_cuda *cuda, int device,
                   int rank, const struct br_extent *extents, uint32_t n, br_cuda_pointer *out);
void br_imports_unmap(const struct br_cuda *cuda, br_cuda_pointer at,
                      const struct br_extent *extents, uint32_t n);

#endif
