/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies between GPUs and host memory on streams of our own, asked for and looked at, never waited
 * for.
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

/* The third is the stream of reductions: to be marked and counted only. The last one counts what it
 * reads of other processes' memory. */
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

/* Copies that were asked for, up to a mark. Zeroed: none. */
struct br_copy {
    struct CUevent_st *event; /* NULL: nothing is under way */
    int gpu;
};

struct br_copier_counters {
    uint64_t to_host_bytes, to_gpu_bytes, reduced_bytes, shared_bytes;
};

int br_copier_create(struct br_copier **out); /* -ENOMEM with a message */
/* Waits for copies that are under way, but those of a lost GPU. NULL allowed. */
void br_copier_destroy(struct br_copier *copier);

/*
 * Streams, events and the trial (note 3) of a GPU, as br_gpu_of() names it. 1: this call has opened
 * it; 0: it was open, which costs a load to see. Any thread; blocks, the first time: the context of
 * the GPU is made if there is none. Errors with a message: those of br_cuda_driver() and of the
 * driver's calls, -EIO: what was read back is not what was written.
 */
int br_copier_open(struct br_copier *copier, int gpu);

/* Makes host memory known to the driver. false: it stays pageable (note 4); said and counted once.
 * Not on the data path. */
bool br_copier_pin(struct br_copier *copier, int gpu, void *memory, size_t bytes);
/* false: it stays pinned to the end of the process, as the GPU is lost, and the memory has to stay,
 * too. Waits for the GPU: never while an operation stands in a stream (stream_op.h, note 7). */
bool br_copier_unpin(struct br_copier *copier, int gpu, void *memory);

/* Asks for a copy; one of `to` and `from` is memory of that GPU, the other may be of any, and need
 * not be pinned. direction: by which stream, behind what was asked for there before, and how it
 * counts. Negative errno with a message. */
int br_copier_copy(struct br_copier *copier, int gpu, enum br_copy_direction direction, void *to,
                   const void *from, size_t bytes);
/* The same from one place of that GPU's memory to another, by the stream of BR_COPY_TO_GPU; not
 * counted. */
int br_copier_move(struct br_copier *copier, int gpu, void *to, const void *from, size_t bytes);
/* As br_copier_copy(), and waits for it, and for all that was asked for in this direction before:
 * for the program's own threads. Not under the lock. */
int br_copier_copy_now(struct br_copier *copier, int gpu, enum br_copy_direction direction,
                       void *to, const void *from, size_t bytes);
/* The same under the lock, where it is worth to wait for. Behind what was asked for in this
 * direction, and for `most` ns: then -ETIMEDOUT, and the GPU counts as lost. */
int br_copier_copy_within(struct br_copier *copier, int gpu, enum br_copy_direction direction,
                          void *to, const void *from, size_t bytes, uint64_t most);
/* A copy that was asked for in another stream (stream_op.h, offload.h) counts, too, and the result
 * of a reduction. */
void br_copier_count(struct br_copier *copier, enum br_copy_direction direction, size_t bytes);
/* The stream of reductions of a GPU that is open; any thread. */
struct CUstream_st *br_copier_reductions(const struct br_copier *copier, int gpu);
/* For work there: br_cuda_enter() for the GPU's context, and there is an event for the mark behind
 * the work. After 0 br_cuda_leave(). Errors with a message: -EIO: the GPU is lost; the driver's. */
int br_copier_enter(struct br_copier *copier, int gpu);
/* Marks what was asked for in this direction so far. After copies there is always an event for it:
 * br_copier_copy() has seen to that; recording it fails with an error of the context only, which
 * has ended the copies, too. */
int br_copier_mark(struct br_copier *copier, int gpu, enum br_copy_direction direction,
                   struct br_copy *copy);
/* 1: all up to the mark is done, *copy is empty again; 0: not yet; negative errno with a message:
 * it failed, and is empty again. */
int br_copier_done(struct br_copier *copier, struct br_copy *copy);

/* Gives up a copy that does not end (nothing without one); what it does to the memory is not known.
 * The GPU counts as lost: copies with it fail from now on with -EIO, nothing waits for it any more,
 * and host memory stays pinned to the end of the process: an unpinning would wait. */
void br_copier_forget(struct br_copier *copier, struct br_copy *copy);

/* The same of all GPUs: something other than a copy of ours does not end. */
void br_copier_set_all_lost(struct br_copier *copier);
bool br_copier_is_lost(const struct br_copier *copier, int gpu);
bool br_copier_has_lost(const struct br_copier *copier); /* any GPU */

struct br_copier_counters br_copier_counters(const struct br_copier *copier);

#endif
