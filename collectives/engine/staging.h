/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Staging: operations on memory of a GPU that go through pinned host memory. A collective is staged
 * fragment by fragment, a message or an access part by part, a collective in shared memory as a
 * whole. Nothing waits for a GPU: copies under way are asked about in each pass. The notes that are
 * named here and in the .c files are those of doc/design/gpu_collectives.md, "Staging".
 *
 * All functions belong to the engine and follow its rules (engine.h).
 */
#ifndef BR_COLLECTIVES_ENGINE_STAGING_H
#define BR_COLLECTIVES_ENGINE_STAGING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "gpu/copier.h"
#include "gpu/offload.h"

#define BR_STAGING_POLL_NS    20000ull      /* ns */
#define BR_STAGING_TIMEOUT_NS 1000000000ull /* ns */
#define BR_STAGING_REDUCTIONS 64            /* on GPUs at once, over all runs */

struct br_engine;
struct br_operation;
struct br_region;
struct br_fragment;
struct br_fragment_step;
struct br_step;
struct br_target;
struct br_transfer;

/* Copies under way, and what to do when they are through. */
struct br_copy_batch {
    struct br_list node; /* in the engine's `copying`; alone: nothing is under way */
    struct br_copy copy;
    enum br_copy_direction direction;
    /* All has been copied. Not called with an error: that fails the worker, and is called with
     * worker->failed set. */
    void (*then)(struct br_engine *engine, struct br_copy_batch *batch);
};

/* Host memory of a message's part, or of an operation on the shared segment. */
struct br_staging_buffer {
    struct br_list node; /* in the engine's free buffers */
    uint8_t *memory;
    size_t bytes;
    struct br_region *region;
    int pinned; /* as br_scratch_pin() has it */
};

/* A part, or an operation on the shared segment, that is staged. buffer NULL: it is not. */
struct br_staging {
    struct br_copy_batch batch;
    struct br_staging_buffer *buffer;
    struct br_operation *owner;
    void *user;       /* a part's place in the user's memory; the transfer has the buffer instead */
    int gpu;          /* of it */
    const void *send; /* shared segment: the user's; the operation has the buffer instead */
    void *recv;       /* the same, of what is written */
    bool has_ended;   /* shared segment: it has ended, and waits for its copies */
    /* shared segment: what it was to publish has not come; the worker has failed */
    bool lost;
};

/* A step on a GPU. */
struct br_staging_reduction {
    struct br_copy_batch batch; /* its node is in the engine's free ones, too */
    struct br_fragment_step *step;
    int gpu;
    uint64_t mark;
    bool refused; /* in the middle of it: the CPU combines when what is under way has ended */
};

bool br_operation_is_staged(const struct br_operation *op);

/* staging.c */
void br_staging_init(struct br_engine *engine);
void br_staging_destroy(struct br_engine *engine);
/* Starts a copy; the first of a batch, and further ones, up to br_staging_submit(). false: the
 * worker has failed. */
bool br_staging_copy(struct br_engine *engine, int gpu, enum br_copy_direction direction, void *to,
                     const void *from, size_t bytes);
void br_staging_submit(struct br_engine *engine, struct br_copy_batch *batch, int gpu,
                       enum br_copy_direction direction,
                       void (*then)(struct br_engine *, struct br_copy_batch *));
int br_staging_poll(struct br_engine *engine, uint64_t now); /* batches that are through */
bool br_staging_busy(const struct br_engine *engine);
/* NULL: no memory, the worker has failed. */
struct br_staging_buffer *br_staging_get(struct br_engine *engine, int gpu, size_t bytes);
/* nothing without a buffer */
void br_staging_put(struct br_engine *engine, struct br_staging *staged);
/* Pinned memory becomes one more buffer that is free, the stage's. -ENOMEM with a message. */
int br_staging_add_buffer(struct br_engine *engine, const struct br_staging_buffer *memory);

/* staging_fragment.c: fragments of collectives. Bytes that a fragment of so many elements needs on
 * top of its scratch. */
size_t br_staging_fragment_bytes(const struct br_operation *op, size_t elements);
/* Where block `block` of a user buffer begins in the run's copy of it; NULL: it is not staged. */
uint8_t *br_staging_fragment_block(const struct br_fragment *fragment, uint32_t buffer,
                                   size_t block);
/* whose memory it is; 0: it is not staged */
int br_staging_fragment_gpu(const struct br_fragment *fragment, uint32_t buffer);
/* true: copies are under way, and `then` comes. */
bool br_staging_fragment_load(struct br_engine *engine, struct br_fragment *fragment,
                              void (*then)(struct br_engine *, struct br_copy_batch *));
bool br_staging_fragment_store(struct br_engine *engine, struct br_fragment *fragment,
                               void (*then)(struct br_engine *, struct br_copy_batch *));

/* staging_reduce.c: is the step done on a GPU? It may still go to the CPU. */
bool br_staging_reduce_pays(const struct br_fragment *fragment, const struct br_step *step);
/* A REDUCE that may start. true: it is under way, and br_fragment_step_reduced() comes. */
bool br_staging_reduce(struct br_engine *engine, struct br_fragment_step *rs);

/*
 * staging_part.c: part i of a message or an access, whose transfer is filled in. take: it gets a
 * buffer instead of the user's memory, for bytes that come; false: the worker has failed. load: a
 * buffer, and the bytes that leave in it. store: what has come back into the user's memory; false:
 * it is not staged.
 */
bool br_staging_part_get(struct br_engine *engine, struct br_operation *op, int i, int gpu);
void br_staging_part_load(struct br_engine *engine, struct br_operation *op, int i, int gpu,
                          void (*then)(struct br_engine *, struct br_copy_batch *));
bool br_staging_part_store(struct br_engine *engine, struct br_operation *op, int i,
                           void (*then)(struct br_engine *, struct br_copy_batch *));
/* flush: of bytes that a NIC has written into the GPU's memory itself, so that the GPU reads them;
 * nothing for others. false: the worker has failed. */
bool br_staging_part_flush(struct br_engine *engine, const struct br_operation *op,
                           const struct br_transfer *t);
/* gives all buffers back */
void br_staging_parts_put(struct br_engine *engine, struct br_operation *op);

/* staging_target.c: what a peer puts to or gets from in memory of a GPU, as the hooks of
 * protocol/target.h. */
bool br_staging_target_begin(struct br_engine *engine, struct br_target *target);
void br_staging_target_store(struct br_engine *engine,
                             struct br_target *target); /* br_onesided_resume() comes */
void br_staging_target_done(struct br_engine *engine, struct br_target *target);
void br_staging_targets_destroy(struct br_engine *engine);

/* staging_shm.c: operations on the shared segment. begin: the operation gets a buffer in place of
 * the user's memory; false: the worker has failed. */
bool br_staging_shm_begin(struct br_engine *engine, struct br_operation *op);
bool br_staging_shm_ready(const struct br_operation *op); /* what it publishes is there */
int br_staging_shm_gpu(
    /* whose copies it waits for, as br_gpu_of() names it; 0: none */
    const struct br_operation *op);
/* An operation with a buffer has ended on the shared segment, and its memory is the user's again
 * when it ends. true: that is when its copies are through, and it comes out of br_engine_ended();
 * false: now. */
bool br_staging_shm_end(struct br_engine *engine, struct br_operation *op);

#endif
