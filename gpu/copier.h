/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies between GPUs and host memory on streams of braid's own. The caller starts a copy and looks
 * later whether it is done.
 *
 * 1. Two streams a GPU, one a direction: with two copy engines both run at once, and what comes
 *    back does not wait behind what leaves. A third one for reductions, with the copies that these
 *    need (offload.h). Non-blocking ones, so that they wait for no work of the application's
 *    default stream.
 * 2. A copy is not ordered behind work that the application has put on its own streams: as with
 *    MPI, memory belongs to braid from the call on, and whoever has written it on a stream
 *    synchronises that first.
 * 3. Verified before it is used: opening a GPU writes a pattern there and reads it back. The memory
 *    for that is kept to the end.
 * 4. Host memory should be pinned (br_copier_pin): copies of other memory work, but the driver
 *    makes them in a call that blocks.
 *
 * One copier a worker. All but open() and copy_now() under the worker's lock; the driver's calls
 * that are made on the data path neither block nor allocate: cuMemcpy*Async, cuEventRecord,
 * cuEventQuery, and those of br_cuda_enter().
 */
#ifndef BR_GPU_COPIER_H
#define BR_GPU_COPIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* BR_COPY_REDUCTION is the stream of reductions, for br_copier_mark() and br_copier_count() only.
 * BR_COPY_SHARED is for br_copier_count(): bytes read from memory of other processes. */
enum br_copy_direction {
    BR_COPY_TO_HOST,
    BR_COPY_TO_GPU,
    BR_COPY_REDUCTION,
    BR_COPY_DIRECTIONS,
    BR_COPY_SHARED = BR_COPY_DIRECTIONS,
    BR_COPY_COUNTERS
};

struct br_copier;
struct CUevent_st;
struct CUstream_st;

/* The copies that were started before a mark. All zero when there are none. */
struct br_copy {
    struct CUevent_st *event; /* NULL when nothing is under way. */
    int gpu;
};

struct br_copier_counters {
    uint64_t to_host_bytes, to_gpu_bytes, reduced_bytes, shared_bytes;
};

/* Makes a copier, with no GPU open. Returns 0, or -ENOMEM with a message. */
int br_copier_create(struct br_copier **out);

/* Waits for the copies that are under way, except those of a lost GPU, and frees the copier. NULL
 * allowed. */
void br_copier_destroy(struct br_copier *copier);

/*
 * Opens a GPU, as br_gpu_of() numbers it: makes its streams and events, and tries a copy (note 3).
 * Returns 1 when this call has opened it; 0 when it was open, which costs a load to see; or with a
 * message the errors of br_cuda_driver() and of the driver's calls, or -EIO: what was read back is
 * not what was written. From any thread. Blocks the first time, as the context of the GPU is made
 * if there is none.
 */
int br_copier_open(struct br_copier *copier, int gpu);

/* Pins host memory for the driver. Returns false when it stays pageable (note 4), which is logged
 * and counted once. Not on the data path. */
bool br_copier_pin(struct br_copier *copier, int gpu, void *memory, size_t bytes);
/* Unpins it. Returns false when it stays pinned until the process ends, because the GPU is lost;
 * then the memory has to stay, too. Waits for the GPU, so it is not called while an operation
 * is in a stream (stream_op.h, note 7). */
bool br_copier_unpin(struct br_copier *copier, int gpu, void *memory);

/* Starts a copy. One of `to` and `from` is memory of that GPU; the other may be any memory, and
 * need not be pinned. direction: the stream that is used, behind what was started there before, and
 * the counter. Returns 0, or a negative errno with a message. */
int br_copier_copy(struct br_copier *copier, int gpu, enum br_copy_direction direction, void *to,
                   const void *from, size_t bytes);
/* Starts a copy within that GPU's memory, in the stream of BR_COPY_TO_GPU; it is not counted. */
int br_copier_move(struct br_copier *copier, int gpu, void *to, const void *from, size_t bytes);
/* Copies and waits for the copy, and for all that was started in this direction before. For the
 * program's own threads, not under the worker's lock. */
int br_copier_copy_now(struct br_copier *copier, int gpu, enum br_copy_direction direction,
                       void *to, const void *from, size_t bytes);
/* The same under the worker's lock, where waiting is worth it, for at most `most` ns: then it
 * returns -ETIMEDOUT, and the GPU counts as lost. */
int br_copier_copy_within(struct br_copier *copier, int gpu, enum br_copy_direction direction,
                          void *to, const void *from, size_t bytes, uint64_t most);
/* Counts a copy that was started in another stream (stream_op.h, offload.h), or the result of a
 * reduction. */
void br_copier_count(struct br_copier *copier, enum br_copy_direction direction, size_t bytes);
/* Returns the stream of reductions of a GPU that is open. From any thread. */
struct CUstream_st *br_copier_reductions(const struct br_copier *copier, int gpu);
/* Begins work in that stream: does br_cuda_enter() for the GPU's context and keeps an event for the
 * mark behind the work. Returns 0, after which the caller calls br_cuda_leave(); or with a message
 * -EIO: the GPU is lost, or the driver's error. */
int br_copier_enter(struct br_copier *copier, int gpu);
/* Marks what was started in this direction so far. br_copier_copy() has kept an event for the mark.
 * Returns 0, or a negative errno with a message: recording fails only with an error of the context,
 * which has ended the copies, too. */
int br_copier_mark(struct br_copier *copier, int gpu, enum br_copy_direction direction,
                   struct br_copy *copy);
/* Returns 1 when all up to the mark is done, and *copy is empty again; 0 when not yet; a negative
 * errno with a message when it failed, and *copy is empty again. */
int br_copier_done(struct br_copier *copier, struct br_copy *copy);

/* Gives up a copy that does not end; an empty *copy is allowed. What the copy does to the memory is
 * not known. The GPU counts as lost: copies with it fail with -EIO from now on, nothing waits for
 * it any more, and host memory stays pinned until the process ends, because unpinning would wait.
 */
void br_copier_forget(struct br_copier *copier, struct br_copy *copy);

/* Counts all GPUs as lost, because something other than a copy of ours does not end. */
void br_copier_set_all_lost(struct br_copier *copier);
/* Returns whether a GPU counts as lost. */
bool br_copier_is_lost(const struct br_copier *copier, int gpu);
/* Returns whether any GPU counts as lost. */
bool br_copier_has_lost(const struct br_copier *copier);

/* Returns how many bytes were copied and reduced so far. */
struct br_copier_counters br_copier_counters(const struct br_copier *copier);

#endif
