/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of GPUs that other processes of this host have allocated, mapped here (CUDA IPC). Mappings
 * are kept, found by the driver's handle of the allocation. Opening and closing, mapping and
 * unmapping may wait for all of the GPU's streams, so they never happen while an operation of braid
 * is in one. There is one struct br_ipc for each worker. Its functions are called under the
 * worker's lock and do not block unless said otherwise. A GPU is numbered as br_gpu_of() does, a
 * rank as in the job.
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

/* Describes memory to another process, which is of the same build and on the same host. The extents
 * are sent beside it. */
struct br_ipc_note {
    struct CUipcMemHandle_st handle; /* Of the allocation, when there are no extents. */
    /* The allocation, or all extents together: its address in the process that has made it. */
    uint64_t base, bytes;
    uint64_t offset;  /* Of the memory, from `base`. */
    uint32_t extents; /* The number of extents, at most BR_EXTENTS; 0 when `handle` is used. */
    uint32_t unused;
};

/*
 * Describes `bytes` of memory of a GPU, in the GPU's primary context, in *out. extents: room for
 * BR_EXTENTS entries. With ipc and extents NULL, only memory that has a handle can be described.
 * Returns 0, or a negative errno with a message: -EOPNOTSUPP when the driver has no IPC; an error
 * of the driver when the memory has no handle; or those of br_exports_find().
 */
int br_ipc_note(struct br_ipc *ipc, int gpu, const void *memory, size_t bytes,
                struct br_ipc_note *out, struct br_extent *extents);

/* Makes a struct br_ipc with nothing mapped. ranks: the size of the job. Returns 0, or -ENOMEM with
 * a message. */
int br_ipc_create(int ranks, struct br_ipc **out);
/* Unmaps everything, which blocks, and frees *ipc. lost: a GPU does not answer any more, so nothing
 * is unmapped. NULL is allowed. */
void br_ipc_destroy(struct br_ipc *ipc, bool lost);

/* ---- descriptors ----------------------------------------------------------------------------- */

/* Returns whether the descriptor of this extent, which this process has, still has to be sent to
 * `rank`. */
bool br_ipc_must_send(const struct br_ipc *ipc, int rank, const struct br_extent *extent);
/* Returns the descriptor of an extent on that GPU, which the caller closes, or the errors of
 * br_exports_open(). */
int br_ipc_open(const struct br_ipc *ipc, int gpu, const struct br_extent *extent);
/* Says that the descriptor has been sent to `rank`. */
void br_ipc_sent(struct br_ipc *ipc, int rank, const struct br_extent *extent);
/* Does what br_exports_freed() does. */
uint32_t br_ipc_freed(struct br_ipc *ipc, const int *ranks, int n, struct br_extent *out);

/* Returns whether the descriptor of this extent of `rank` has not been received yet. */
bool br_ipc_must_receive(const struct br_ipc *ipc, int rank, const struct br_extent *extent);
/* Takes the descriptor that `rank` has sent for an extent, and closes it in any case. An extent
 * that was in the same slot before does not exist any more and is dropped. Returns 0, or the errors
 * of br_imports_take(). */
int br_ipc_take(struct br_ipc *ipc, int gpu, int rank, const struct br_extent *extent, int fd);
/* Says that an extent of `rank` does not exist any more. Mappings of it stay until the next
 * br_ipc_clear(). */
void br_ipc_drop(struct br_ipc *ipc, int rank, const struct br_extent *extent);

/* ---- mappings -------------------------------------------------------------------------------- */

/* Returns whether this memory is mapped, so that br_ipc_map() makes no call of CUDA. */
bool br_ipc_has(const struct br_ipc *ipc, int gpu, int rank, const struct br_ipc_note *note,
                const struct br_extent *extents);

/* Returns whether a mapping has an extent that does not exist any more. */
bool br_ipc_is_stale(const struct br_ipc *ipc);
/* Unmaps such mappings, unless br_ipc_retain() is in force. Blocks (note 5). */
void br_ipc_clear(struct br_ipc *ipc);

/* Keeps all mappings until br_ipc_release() has been called as often as this function. */
void br_ipc_retain(struct br_ipc *ipc);
void br_ipc_release(struct br_ipc *ipc);

/*
 * Maps memory of another rank, unless it is mapped. *out is its address for kernels and copies of
 * this GPU.
 *
 * note, extents: what the rank has sent. bytes: how many bytes of it are needed.
 *
 * Without br_ipc_retain(), a later call that maps other memory may unmap it: the last LIMIT - 1
 * mappings (ipc.c) are kept. Returns 0, or a negative errno with a message: -EPROTO when the
 * allocation is not that large or a descriptor has not come; -ENOMEM; or an error of the driver,
 * such as CUDA_ERROR_PEER_ACCESS_UNSUPPORTED when the two GPUs do not reach each other. Blocks when
 * the memory is not mapped (note 5).
 */
int br_ipc_map(struct br_ipc *ipc, int gpu, int rank, const struct br_ipc_note *note,
               const struct br_extent *extents, size_t bytes, void **out);

#endif
