/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of cuMemCreate(), as PyTorch's expandable segments and ncclMemAlloc() have it, between
 * processes of this host. It has no IPC handle: an allocation, here called an extent, becomes a
 * descriptor, which is sent to the other process, which maps it.
 *
 * There is one of each structure for a worker. The functions are called under the worker's lock
 * with the primary context of the GPU current, and only br_imports_map() and br_imports_unmap()
 * block (ipc.h, note 5). A rank is numbered as in the job.
 *
 * The numbered notes are in doc/design/gpu_memory.md.
 */
#ifndef BR_GPU_EXTENT_H
#define BR_GPU_EXTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/driver.h"

#define BR_EXTENTS       256u  /* The most extents of one buffer: 5 GiB of PyTorch's. */
#define BR_EXTENTS_ALL   4096u /* The most extents of a process. */
#define BR_EXTENTS_FREED 8u    /* The most freed extents that are reported at once. */

/* An extent, as it is sent to other processes. */
struct br_extent {
    uint64_t serial; /* Its number in its process, which is never used again. */
    uint64_t bytes;
    /* Its place in the table of its process, below BR_EXTENTS_ALL. With the serial number, it says
     * which extent a descriptor belongs to. */
    uint32_t slot;
    uint32_t unused;
};

/* ---- extents of this process, for others ----------------------------------------------------- */

struct br_exports;

/* Makes an empty table. ranks: the size of the job. Returns 0, or -ENOMEM with a message. */
int br_exports_create(int ranks, struct br_exports **out);
/* Frees the table, and releases its extents unless cuda is NULL. A NULL table is allowed. */
void br_exports_destroy(struct br_exports *exports, const struct br_cuda *cuda);

/* Finds the extents of memory[0..bytes), and puts new ones into the table. Writes *n of them to
 * `out`, which has room for BR_EXTENTS, and the address of the first to *first. Returns 0, or a
 * negative errno with a message: -E2BIG for more than BR_EXTENTS; -ENOSPC for more than
 * BR_EXTENTS_ALL in the table; -EOPNOTSUPP; -ENOMEM; or an error of the driver (note 5). */
int br_exports_find(struct br_exports *exports, const struct br_cuda *cuda, br_cuda_pointer memory,
                    size_t bytes, struct br_extent *out, uint32_t *n, br_cuda_pointer *first);

/* Returns whether the descriptor of an extent has been sent to `rank`. */
bool br_exports_has(const struct br_exports *exports, int rank, const struct br_extent *extent);
/* Returns a descriptor of an extent, which the caller closes; or with a message -ENOENT when the
 * extent does not exist any more, or an error of the driver. */
int br_exports_open(const struct br_exports *exports, const struct br_cuda *cuda,
                    const struct br_extent *extent);
/* Says that the descriptor of an extent has been sent to `rank`. */
void br_exports_sent(struct br_exports *exports, int rank, const struct br_extent *extent);

/* Writes extents that do not exist any more, and whose descriptors were sent to one of ranks[0..n),
 * to `out`, at most BR_EXTENTS_FREED. The caller tells all these ranks; the extents are not
 * reported for them again. Returns how many. */
uint32_t br_exports_freed(struct br_exports *exports, const int *ranks, int n,
                          struct br_extent *out);

/* ---- extents of other processes -------------------------------------------------------------- */

struct br_imports;

/* Makes an empty table. Returns 0, or -ENOMEM with a message. */
int br_imports_create(struct br_imports **out);
/* Frees the table, and releases its extents unless cuda is NULL. A NULL table is allowed. */
void br_imports_destroy(struct br_imports *imports, const struct br_cuda *cuda);

/* Puts an extent of `rank` into the table. fd: its descriptor, which is closed in any case. Returns
 * 0, or a negative errno with a message: -EPROTO when its slot is not free; -ENOMEM; -EOPNOTSUPP;
 * or an error of the driver. */
int br_imports_take(struct br_imports *imports, const struct br_cuda *cuda, int rank,
                    const struct br_extent *extent, int fd);
/* Returns whether an extent of `rank` is in the table. */
bool br_imports_has(const struct br_imports *imports, int rank, const struct br_extent *extent);
/* Writes the older extent that is in the slot of this one to *out. It does not exist any more, even
 * if its rank has not reported that yet. Returns false when there is none. */
bool br_imports_before(const struct br_imports *imports, int rank, const struct br_extent *extent,
                       struct br_extent *out);
/* Removes an extent from the table, if it is there. Mappings of it stay. */
void br_imports_drop(struct br_imports *imports, const struct br_cuda *cuda, int rank,
                     const struct br_extent *extent);

/* Maps n extents of `rank` side by side for a GPU, at *out. device: the GPU as CUDA numbers it.
 * Returns 0, or a negative errno with a message: -EPROTO when one of them is not in the table, or
 * an error of the driver. Blocks. */
int br_imports_map(const struct br_imports *imports, const struct br_cuda *cuda, int device,
                   int rank, const struct br_extent *extents, uint32_t n, br_cuda_pointer *out);
/* Undoes br_imports_map(), whose *out is `at`. Blocks. */
void br_imports_unmap(const struct br_cuda *cuda, br_cuda_pointer at,
                      const struct br_extent *extents, uint32_t n);

#endif
