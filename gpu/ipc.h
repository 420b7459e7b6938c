/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of GPUs that other processes of this host have allocated, mapped here (CUDA IPC).
 *
 * 1. What crosses is a note: the driver's handle of the whole allocation, and where in it the memory begins. Notes are made anew for each
 *    operation, which the manual calls lightweight, so that they always name what is at the address now.
 * 2. Mapping takes the driver's time, so mappings are kept: found by the handle, which the driver gives to no other allocation, not even to a later one
 *    at the same address. A new handle whose allocation overlaps one that is kept, of the same process, shows that the old one has been freed: it is
 *    closed first. UCX does it so, too. LIMIT are kept; the one that was used longest ago goes, but not while somebody holds what is mapped: an
 *    operation keeps its addresses over several rounds, and those of other communicators map meanwhile.
 * 3. The manual leaves undefined what becomes of memory that is freed while another process has it mapped. It is not read here any more: no operation names
 *    it. Its pages stay taken until the mapping is closed (note 2).
 * 4. Not every memory has a handle: of cudaMallocAsync() and cuMemCreate() none. A process cannot map its own.
 * 5. Opening and closing may wait for all of the GPU's streams: never while an operation of ours stands in one (passage.h, note 7).
 *
 * One a worker, under its lock.
 */
#ifndef BR_GPU_IPC_H
#define BR_GPU_IPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/cuda.h"

struct br_ipc;

/* Of fixed size; both ends are the same build on the same host. */
struct br_ipc_note {
    struct CUipcMemHandle_st handle;
    uint64_t base, bytes; /* of the allocation: its address in the process that made it */
    uint64_t offset;      /* of the memory in it */
};

/* The note of `bytes` of memory of a GPU, as br_gpu_of() names it, in its primary context. Errors with words: -EOPNOTSUPP: the driver has no IPC; the
 * driver's: this memory has none (note 4). Never blocks. */
int br_ipc_note(int gpu, const void *memory, size_t bytes, struct br_ipc_note *out);

int br_ipc_create(struct br_ipc **out); /* -ENOMEM with words */
/* Closes all; lost: a GPU does not answer any more, so all stays mapped. NULL allowed. */
void br_ipc_destroy(struct br_ipc *ipc, bool lost);

/* Is it mapped already, so that br_ipc_map() calls nothing of CUDA? */
bool br_ipc_has(const struct br_ipc *ipc, int gpu, int rank, const struct br_ipc_note *note);

/* What is mapped stays, until it has been let go as often. */
void br_ipc_hold(struct br_ipc *ipc);
void br_ipc_let_go(struct br_ipc *ipc);

/* Where kernels and copies of this GPU find what the note of a rank names, `bytes` of it. Who does not hold it has it for LIMIT - 1 more calls. Errors
 * with words: -EPROTO: the allocation is not that large; -ENOMEM; the driver's: CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, where the two GPUs do not
 * reach each other, and others. Blocks (note 5). */
int br_ipc_map(struct br_ipc *ipc, int gpu, int rank, const struct br_ipc_note *note, size_t bytes,
               void **out);

#endif
