/* SPDX-License-Identifier: BSD-3-Clause */
/* For gpu_local.c and gpu_local_note.c only. All functions are called under the context's lock. */
#ifndef BR_COLLECTIVES_GPU_GPU_LOCAL_INTERNAL_H
#define BR_COLLECTIVES_GPU_GPU_LOCAL_INTERNAL_H

#include "collectives/shm/executor.h"
#include "collectives/gpu/gpu_local.h"
#include "gpu/ipc.h"

/* What a rank publishes in the first round, without the unused end of `extents`. In the second
 * round it publishes `has` alone. */
struct br_gpu_local_note {
    uint64_t has; /* 1 when send and recv are set, else 0. */
    /* lacks_fd: 1 when a descriptor still has to be sent to another rank. n_gone: how many extents
     * at the start of `extents` do not exist any more. */
    uint32_t lacks_fd, n_gone;
    struct br_ipc_note send, recv;
    /* Those that do not exist any more, then those of send, then those of recv. */
    struct br_extent extents[BR_EXTENTS_FREED + 2 * BR_EXTENTS];
};
_Static_assert(offsetof(struct br_gpu_local_note, extents) > BR_SHM_COLL_SMALL &&
                   sizeof(struct br_gpu_local_note) <= BR_SHM_COLL_BYTES,
               "however much of it there is, it fits into one area of the shared segment");

struct br_gpu_local {
    struct br_executor executor;
    struct br_shm_executor *shm; /* The executor of the shared segment whose guest this is. */
    struct br_context *context;
    struct br_gpu_hosts *gpu_hosts; /* NULL when all ranks are on this host. */
    /* enum stage of gpu_local.c; of an operation that its stream carries out: the events that have
     * happened on all ranks, the last one at event_at (ns). */
    int phase;
    uint64_t event_at;
    bool refused;       /* A descriptor or a mapping has failed: this rank shares nothing. */
    bool has_mapped;    /* The operation holds mappings (br_ipc_retain()). */
    bool warned_handle; /* The warning that memory has no handle has been logged. */
    /* passes_fds: descriptors are passed in further rounds. sent: this rank has sent some of its
     * own before this round. */
    bool passes_fds, sent;
    struct br_gpu_local_note mine, theirs; /* The note of this rank, and one of another rank. */
    /* The memory of each rank of the shared segment, as mapped here. */
    const void *send[BR_SHM_COLL_RANKS];
    void *recv[BR_SHM_COLL_RANKS];
};

/* gpu_local_note.c: notes 2, 3 and 17. Writes the note of this rank about an operation to
 * gpu_local->mine. Its first br_gpu_local_note_bytes() are published. */
void br_gpu_local_write_note(struct br_gpu_local *gpu_local, const struct br_shm_executor *shm,
                             const struct br_operation *op);
/* Returns the bytes of a note without the unused end of `extents`. */
size_t br_gpu_local_note_bytes(const struct br_gpu_local_note *note);

/* Called when all ranks have published their notes: takes the descriptors that have been sent to
 * this rank. Returns whether a descriptor still has to be sent to any rank. */
bool br_gpu_local_take_fds(struct br_gpu_local *gpu_local, const struct br_shm_executor *shm,
                           const struct br_operation *op);
/* Returns whether all ranks have published a note with `has` in this round. bytes: of the shortest
 * one that may be published in this round. */
bool br_gpu_local_all_agree(const struct br_shm_executor *shm, size_t bytes);
/* Maps the memory of all ranks, into gpu_local->send and recv. Returns false when some of it cannot
 * be mapped, or cannot be mapped now. May block (gpu/ipc.h). */
bool br_gpu_local_map(struct br_gpu_local *gpu_local, const struct br_shm_executor *shm,
                      const struct br_operation *op);

#endif
