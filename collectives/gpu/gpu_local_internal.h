/* SPDX-License-Identifier: BSD-3-Clause */
/* What share.c and gpu_local_note.c share. Not for others. */
#ifndef BR_COLLECTIVES_GPU_GPU_LOCAL_INTERNAL_H
#define BR_COLLECTIVES_GPU_GPU_LOCAL_INTERNAL_H

#include "collectives/shm/executor.h"
#include "collectives/gpu/gpu_local.h"
#include "gpu/ipc.h"

/* What a rank publishes in the first round, as much of it as there is; in the second, `has`
 * alone. */
struct br_gpu_local_note {
    uint64_t has;              /* 1: send and recv are there */
    uint32_t lacks_fd, n_gone; /* another rank lacks a descriptor; extents that come first */
    struct br_ipc_note send, recv;
    /* those that are gone, of send, of recv */
    struct br_extent extents[BR_EXTENTS_FREED + 2 * BR_EXTENTS];
};
_Static_assert(offsetof(struct br_gpu_local_note, extents) > BR_SHM_COLL_SMALL &&
                   sizeof(struct br_gpu_local_note) <= BR_SHM_COLL_BYTES,
               "however much of it there is, it fits into one area of the shared segment");

struct br_gpu_local {
    struct br_executor executor;
    struct br_shm_executor *shm; /* whose guest it is */
    struct br_context *context;
    struct br_gpu_hosts *gpu_hosts; /* NULL: all ranks are of this host */
    int phase;                      /* enum stage (share.c) */
    bool refused;                   /* a mapping was, before */
    bool has_mapped;                /* what the operation has mapped */
    bool warned_handle;             /* that there is none */
    /* descriptors are handed over, in rounds more; some of ours before this one */
    bool passes_fds, sent;
    struct br_gpu_local_note mine, theirs;
    const void *send[BR_SHM_COLL_RANKS];
    void *recv[BR_SHM_COLL_RANKS];
};

/* gpu_local_note.c: notes 2, 3 and 17. Writes what this rank tells of the head of the queue into
 * share->mine; br_gpu_local_note_bytes() of it are published. */
void br_gpu_local_write_note(struct br_gpu_local *gpu_local, const struct br_shm_executor *shm,
                             const struct br_operation *op);
size_t br_gpu_local_note_bytes(const struct br_gpu_local_note *note);

/* All have told. Takes what has been handed over to us: does anybody lack a descriptor yet? */
bool br_gpu_local_take_fds(struct br_gpu_local *gpu_local, const struct br_shm_executor *shm,
                           const struct br_operation *op);
/* Have all said yes in this round, in which `bytes` were published? */
bool br_gpu_local_all_agree(const struct br_shm_executor *shm, size_t bytes);
/* Maps the memory of all. false: some of it cannot be mapped, or not now. */
bool br_gpu_local_map(struct br_gpu_local *gpu_local, const struct br_shm_executor *shm,
                      const struct br_operation *op);

#endif
