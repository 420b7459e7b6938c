/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Staging: operations on memory of a GPU that go through pinned host memory. A collective is staged
 * fragment by fragment, a message or an access part by part, a collective in shared memory as a
 * whole. Nothing waits for a GPU: each pass of the engine looks which copies are done. The notes
 * that are named here and in the .c files are those of doc/design/gpu_collectives.md, "Staging".
 *
 * All functions belong to the engine and follow its rules (engine.h): they are called under the
 * worker's lock and do not block. A GPU is numbered as br_gpu_of() does. Where a function fails the
 * worker, br_worker_fail() has been called when it returns.
 */
#ifndef BR_COLLECTIVES_ENGINE_STAGING_H
#define BR_COLLECTIVES_ENGINE_STAGING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "gpu/copier.h"
#include "gpu/offload.h"

/* While copies are under way, the engine looks at them again after so many ns. */
#define BR_STAGING_POLL_NS 20000ull
/* A copy is given up that has not ended so many ns after the worker has failed or, where it is
 * waited for (gpudirect.c), after it began. */
#define BR_STAGING_TIMEOUT_NS 1000000000ull
#define BR_STAGING_REDUCTIONS 64   /* The most reductions on GPUs that are under way at once. */
#define BR_STAGING_ALIGNMENT  256u /* Of what a GPU copies to or from, in host memory: bytes. */

struct br_engine;
struct br_operation;
struct br_region;
struct br_fragment;
struct br_fragment_step;
struct br_step;
struct br_target;
struct br_transfer;

/* Copies that are under way together. The struct belongs to what has started them. */
struct br_copy_batch {
    struct br_list node; /* In engine->copying while copies are under way. */
    struct br_copy copy; /* The mark behind them. */
    enum br_copy_direction direction;
    /* One of them is called when all copies have ended: `then`, or `given_up` when one has failed
     * or the worker has failed meanwhile. NULL: there is nothing to do. */
    void (*then)(struct br_engine *engine, struct br_copy_batch *batch);
    void (*given_up)(struct br_engine *engine, struct br_copy_batch *batch);
};

/* Host memory for a part of a message, for an operation on the shared segment, or for a peer's put
 * or get. */
struct br_staging_buffer {
    struct br_list node; /* In engine->free_buffers while it is free. */
    uint8_t *memory;
    size_t bytes;
    struct br_region *region; /* The region that the memory lies in. */
    int pinned;               /* What br_scratch_pin() has set. */
};

/* A part of a message or access, or an operation on the shared segment. */
struct br_staging {
    struct br_copy_batch batch;
    struct br_staging_buffer *buffer; /* NULL when it is not staged. */
    struct br_operation *owner;       /* Part: its operation. */
    /* Part: its memory on the GPU. Its transfer has the buffer instead. */
    void *user;
    int gpu; /* Part: the GPU of `user`. */
    /* Operation on the shared segment: the user's memory. The operation has the buffer instead. */
    const void *send;
    void *recv;
    bool has_ended; /* Operation on the shared segment: it has ended and waits for its copies. */
    /* Operation on the shared segment: its input was not copied, because the worker has failed. */
    bool lost;
};

/* A REDUCE step that is done on a GPU. */
struct br_staging_reduction {
    struct br_copy_batch batch; /* Its node is in engine->free_reductions while it is free. */
    struct br_fragment_step *step;
    int gpu;
    uint64_t mark; /* For br_offload_end(). */
    /* The GPU has refused a part of the step: the CPU does the step when the GPU has ended. */
    bool refused;
};

/* staging.c. Prepares an engine's lists. */
void br_staging_init(struct br_engine *engine);
/* Frees all buffers. No copy is under way. */
void br_staging_destroy(struct br_engine *engine);
/* Starts a copy in the stream of that GPU and direction. The copies up to the next
 * br_staging_submit() are one batch. Returns false when it fails the worker. */
bool br_staging_copy(struct br_engine *engine, int gpu, enum br_copy_direction direction, void *to,
                     const void *from, size_t bytes);
/* Ends a batch: `then` or `given_up` is called (br_copy_batch) when the copies that were started in
 * this direction are done. */
void br_staging_submit(struct br_engine *engine, struct br_copy_batch *batch, int gpu,
                       enum br_copy_direction direction,
                       void (*then)(struct br_engine *, struct br_copy_batch *),
                       void (*given_up)(struct br_engine *, struct br_copy_batch *));
/* Ends the batches that are done. now: ns. Returns how many. */
int br_staging_poll(struct br_engine *engine, uint64_t now);
/* Returns whether a batch is under way. */
bool br_staging_busy(const struct br_engine *engine);
/* Takes a buffer of at least `bytes`, pinned for the GPU where possible. Makes one when none is
 * free. Returns NULL, and fails the worker, when there is no memory. */
struct br_staging_buffer *br_staging_get(struct br_engine *engine, int gpu, size_t bytes);
/* Gives the buffer of *staged back; nothing when it has none. */
void br_staging_put(struct br_engine *engine, struct br_staging *staged);
/* Adds a free buffer, for which *memory is copied; its memory belongs to the engine from then on.
 * Returns 0, or -ENOMEM with a message. */
int br_staging_add_buffer(struct br_engine *engine, const struct br_staging_buffer *memory);

/* staging_fragment.c: fragments of collectives. */

/* Returns the bytes that a fragment of so many elements needs in addition to its scratch memory. */
size_t br_staging_fragment_bytes(const struct br_operation *op, size_t elements);
/* Returns the start of a block in the fragment's copy of a user buffer, or NULL when the buffer is
 * not staged. buffer: enum br_buffer. */
uint8_t *br_staging_fragment_block(const struct br_fragment *fragment, uint32_t buffer,
                                   size_t block);
/* Returns the GPU that a user buffer lies on, or 0 when it is not staged. */
int br_staging_fragment_gpu(const struct br_fragment *fragment, uint32_t buffer);
/* Starts to copy the fragment's input from the GPU to the host. Returns true when copies are under
 * way, after which `then` is called; false when there is nothing to copy. */
bool br_staging_fragment_load(struct br_engine *engine, struct br_fragment *fragment,
                              void (*then)(struct br_engine *, struct br_copy_batch *));
/* The same for the fragment's output, from the host to the GPU. */
bool br_staging_fragment_store(struct br_engine *engine, struct br_fragment *fragment,
                               void (*then)(struct br_engine *, struct br_copy_batch *));

/* staging_reduce.c. Returns whether a REDUCE step is to be done on a GPU. br_staging_reduce() may
 * still refuse it. */
bool br_staging_reduce_pays(const struct br_fragment *fragment, const struct br_step *step);
/* Starts a REDUCE step whose sources are there on a GPU. Returns true when it is under way, after
 * which br_fragment_step_reduced() is called; false when the CPU has to do it. */
bool br_staging_reduce(struct br_engine *engine, struct br_fragment_step *rs);

/* staging_part.c: part i of a message or an access, whose transfer is filled in. */

/* Replaces the memory of the part's transfer by a buffer, for bytes that arrive. Returns false when
 * the worker has failed. */
bool br_staging_part_get(struct br_engine *engine, struct br_operation *op, int i, int gpu);
/* The same for bytes that are sent, and starts to copy them into the buffer. `then` is called when
 * they are there, unless there was no buffer and the worker has failed. */
void br_staging_part_load(struct br_engine *engine, struct br_operation *op, int i, int gpu,
                          void (*then)(struct br_engine *, struct br_copy_batch *));
/* Starts to copy what has arrived to the user's memory, after which `then` is called. Returns false
 * when the part is not staged. */
bool br_staging_part_store(struct br_engine *engine, struct br_operation *op, int i,
                           void (*then)(struct br_engine *, struct br_copy_batch *));
/* Makes the GPU read the bytes that a NIC has written into its memory for transfer t; nothing when
 * t is not in a GPU's memory. Returns false when the worker has failed. */
bool br_staging_part_flush(struct br_engine *engine, const struct br_operation *op,
                           const struct br_transfer *t);
/* Gives back the buffers of all parts of an operation. */
void br_staging_parts_put(struct br_engine *engine, struct br_operation *op);

/* staging_target.c: puts and gets of peers in memory of a GPU, for the hooks of
 * protocol/target.h. */

/* Begins to serve a request: target->memory is a buffer from then on. Returns true when it is
 * ready; false when br_onesided_resume() is called after a copy, or the worker has failed. */
bool br_staging_target_begin(struct br_engine *engine, struct br_target *target);
/* Starts to copy what has arrived to the GPU, after which br_onesided_resume() is called. */
void br_staging_target_store(struct br_engine *engine, struct br_target *target);
/* Ends a request: its buffer is given back, after its copies if some are under way. */
void br_staging_target_done(struct br_engine *engine, struct br_target *target);
/* Frees all requests, for br_staging_destroy(). */
void br_staging_targets_destroy(struct br_engine *engine);

/* staging_shm.c: operations on the shared segment. */

/* Replaces the operation's memory by a buffer, and starts to copy its input there. Returns false
 * when the worker has failed. */
bool br_staging_shm_begin(struct br_engine *engine, struct br_operation *op);
/* Returns whether the input that the operation publishes is in host memory. */
bool br_staging_shm_ready(const struct br_operation *op);
/* Returns the GPU whose copies the operation waits for, or 0 for none. */
int br_staging_shm_gpu(const struct br_operation *op);
/* Called when an operation with a buffer has ended on the shared segment; gives its memory back to
 * the user. Returns false when that is done; true when copies are under way, after which the
 * operation ends. */
bool br_staging_shm_end(struct br_engine *engine, struct br_operation *op);

#endif
