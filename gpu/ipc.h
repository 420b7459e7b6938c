/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of GPUs that other processes of this host have allocated, mapped here (CUDA IPC). Mappings
 * are kept, found by the driver's handle of the allocation. Opening and closing, mapping and
 * unmapping may wait for all of the GPU's streams, so they never happen while an operation of ours
 * stands in one. There is one for each worker, under its lock.
 *
 * The numbered notes are in doc/design/gpu_memory.md.
 */
#ifndef BR_GPU_IPC_H
#define BR_GPU_IPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/extent.h"

struct br_ipc;

/* Both ends are the same build on the same host. The extents that it names stand beside it. */
struct br_ipc_note {
    struct CUipcMemHandle_st handle;
    /* of the allocation, or of all extents: the address in the process that made it */
    uint64_t base, bytes;
    uint64_t offset;  /* of the memory in it */
    uint32_t extents; /* how many, at most BR_EXTENTS; 0: `handle` names it */
    uint32_t unused;
};

/*
 * The note of `bytes` of memory of a GPU, as br_gpu_of() names it, in its primary context. extents:
 * room for BR_EXTENTS; ipc and extents NULL: as if only what has a handle could be shared. Errors
 * with a message: -EOPNOTSUPP: the driver has no IPC; the driver's: this memory has no handle;
 * those of br_exports_find(). Never blocks.
 */
int br_ipc_note(struct br_ipc *ipc, int gpu, const void *memory, size_t bytes,
                struct br_ipc_note *out, struct br_extent *extents);

int br_ipc_create(int ranks, struct br_ipc **out); /* of the job; -ENOMEM with a message */
/* Closes all; lost: a GPU does not answer any more, so all stays mapped. NULL allowed. */
void br_ipc_destroy(struct br_ipc *ipc, bool lost);

/* ---- descriptors ----------------------------------------------------------------------------- */

/* Ours: does `rank` lack it? Then it can be opened, and when it has been sent that is said here.
 * gpu: it lies there. Errors as br_exports_open(). */
bool br_ipc_must_send(const struct br_ipc *ipc, int rank, const struct br_extent *extent);
int br_ipc_open(const struct br_ipc *ipc, int gpu, const struct br_extent *extent);
void br_ipc_sent(struct br_ipc *ipc, int rank, const struct br_extent *extent);
/* As br_exports_freed(). */
uint32_t br_ipc_freed(struct br_ipc *ipc, const int *ranks, int n, struct br_extent *out);

/* Theirs: is it to come? It has; fd is closed, errors as br_imports_take(); what was in its slot is
 * gone. It is gone: what has it mapped is unmapped at the next br_ipc_clear(). */
bool br_ipc_must_receive(const struct br_ipc *ipc, int rank, const struct br_extent *extent);
int br_ipc_take(struct br_ipc *ipc, int gpu, int rank, const struct br_extent *extent, int fd);
void br_ipc_drop(struct br_ipc *ipc, int rank, const struct br_extent *extent);

/* ---- mappings -------------------------------------------------------------------------------- */

/* Is it mapped already, so that br_ipc_map() calls nothing of CUDA? */
bool br_ipc_has(const struct br_ipc *ipc, int gpu, int rank, const struct br_ipc_note *note,
                const struct br_extent *extents);

/* Is something mapped of which an extent is gone? Unmaps it, unless something is held. Blocks (note
 * 5). */
bool br_ipc_is_stale(const struct br_ipc *ipc);
void br_ipc_clear(struct br_ipc *ipc);

/* What is mapped stays, until it has been let go as often. */
void br_ipc_retain(struct br_ipc *ipc);
void br_ipc_release(struct br_ipc *ipc);

/*
 * Where kernels and copies of this GPU find what the note of a rank names, `bytes` of it. Who does
 * not hold it has it for LIMIT - 1 more calls. Errors with a message: -EPROTO: the allocation is
 * not that large, or a descriptor has not come; -ENOMEM; the driver's:
 * CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, where the two GPUs do not reach each other, and others.
 * Blocks (note 5).
 */
int br_ipc_map(struct br_ipc *ipc, int gpu, int rank, const struct br_ipc_note *note,
               const struct br_extent *extents, size_t bytes, void **out);

#endif
