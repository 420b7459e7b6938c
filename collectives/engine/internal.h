/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the engine share. Not for others. */
#ifndef BR_COLLECTIVES_ENGINE_INTERNAL_H
#define BR_COLLECTIVES_ENGINE_INTERNAL_H

#include "collectives/engine/gpu_pipeline.h"
#include "collectives/engine/engine.h"
#include "collectives/engine/notifications.h"

struct br_fragment;

/* One step of a fragment. */
struct br_fragment_step {
    struct br_transfer transfer; /* SEND, RECV; its owner is this step */
    struct br_list node;         /* REDUCE, COPY: in the engine's ready list */
    struct br_fragment *fragment;
    uint32_t remaining; /* steps that must end first */
    uint32_t readers;   /* RECV: sources that will read it where it is mapped */
    /* RECV: reduces as bytes arrive, for the REDUCE step in `context` (fragment.c, note 5) */
    struct br_slot_reducer reducer;
    size_t done;                /* REDUCE, COPY: elements */
    struct br_copy_batch batch; /* in the pipeline: what is under way on the GPU */
    bool ended;
    struct br_trace_span span; /* in the timeline, from its start to its end */
};

/* One fragment under way. Fragments are created with the engine; their steps and scratch only grow.
 */
struct br_fragment {
    struct br_engine *engine;
    struct br_list node; /* in the engine's free fragments, or the active ones of its operation */
    struct br_operation *op;
    const struct br_schedule *schedule;
    uint32_t index;
    bool uneven;            /* blocks differ in size: br_block_range() has the range of each */
    size_t first, elements; /* of each block: its range; uneven: as br_blocks_most() says */
    size_t shorter, longer; /* elements of a short piece; how many pieces have one more */
    uint32_t steps_left;    /* steps that have not ended */
    struct br_fragment_step *steps;
    uint32_t max_steps;
    uint8_t *scratch;
    size_t scratch_bytes;
    struct br_region *scratch_region;
    size_t scratch_used;        /* by the schedule; behind it: what is staged (staging.h) */
    int scratch_pinned;         /* as br_scratch_pin() has it */
    struct br_copy_batch batch; /* of staging: what is under way */
    struct br_gpu_pipeline pipeline;
    /* the persistent operation that its memory is reserved for; NULL: none */
    const struct br_operation *reserved;
};

struct br_engine {
    struct br_worker *worker;
    struct br_engine_config config;
    struct br_group all;
    struct br_list collectives; /* operations under way, the oldest first */
    struct br_list messages;    /* messages and accesses under way */
    /* sends of this rank to itself, and its receives from itself, that wait for their other end */
    struct br_list to_self, from_self;
    /* receives that wait for a message to learn from, in the order of submission (receives.c) */
    struct br_list receives;
    uint64_t receives_seen; /* the worker's `p2p_messages` when they were last looked through */
    /* the last length of a message, and its digest (p2p.c); SIZE_MAX: none yet */
    size_t digested;
    uint16_t digest;
    /* by number: those that have had messages; NULL: no such group */
    struct br_group *groups[BR_MAX_GROUPS];
    /* operations of shared memory whose results are being copied to a GPU (staging_shm.c) */
    struct br_list storing;
    /* collectives with fragments to start, in order (priority, order) */
    struct br_list waiting;
    /* struct br_fragment_step: local work, in order (priority, order, fragment, step) */
    struct br_list ready;
    struct br_list free_fragments; /* the last used first */
    struct br_fragment *fragments; /* [max_fragments] */
    uint32_t n_free;
    /* struct br_copy_batch: work of GPUs under way */
    struct br_list copying;
    struct br_list free_buffers;          /* struct br_staging_buffer */
    struct br_list targets, free_targets; /* requests of peers that are staged (staging_target.c) */
    struct br_staging_reduction reductions[BR_STAGING_REDUCTIONS];
    struct br_list free_reductions; /* their batches */
    uint64_t expected;              /* as br_engine_set_oldest() said */
    /* how long to wait for them when the worker has failed; 0: not known yet */
    uint64_t copies_until;
    bool may_start;       /* a fragment or an operation has come: look for one to start */
    uint64_t path_bytes;  /* of fragments beyond the window (admission.c); 0: not asked yet in this
                             pass */
    const void **sources; /* [max_sources], for br_reduce() */
    uint32_t max_sources;
    uint64_t next_deadline;                /* no later than that of any operation */
    uint64_t onesided;                     /* counter for their tags */
    struct br_list flushes;                /* those that wait */
    struct br_notifications notifications; /* that peers have sent and the program not taken */
    uint64_t late_allocations;             /* of fragments */
    uint64_t grown_before;                 /* late_allocations when this pass began */
    const struct br_operation *late;       /* the one whose deadline ended the worker */
};

/* engine.c */
void br_operation_end(struct br_engine *engine, struct br_operation *op, int status);

/* ---- scratch.c: the memory of fragments ------------------------------------------------------ */

#define BR_NOT_PINNABLE (-1)

/* Allocates scratch, registered with the back ends where the engine was created so. 0, or a
 * negative errno with a message. */
int br_scratch_get(struct br_engine *engine, size_t bytes, uint8_t **memory,
                   struct br_region **region);
/* Frees it, at the end if it is pinned. What a lost GPU may still write to stays allocated. */
void br_scratch_release(struct br_engine *engine, uint8_t *memory, struct br_region *region,
                        int pinned);
/* Pins it for a GPU, once. *pinned: 0: not tried yet; the number of the GPU; BR_NOT_PINNABLE: it
 * cannot be, and is not tried again. */
void br_scratch_pin(struct br_engine *engine, void *memory, size_t bytes, int gpu, int *pinned);
/* Room in engine->sources for so many sources. 0 or -ENOMEM with a message. */
int br_fragment_grow_sources(struct br_engine *engine, uint32_t count);
/* Takes a fragment for op's next one off the free list, which is not empty, and sets how much it
 * holds. 0; -ENOMEM with a message: its memory is too small. */
int br_fragment_get(struct br_engine *engine, const struct br_operation *op,
                    struct br_fragment **fragment);
/* Reserves memory for the fragments of op, whose plan is known, that run at once. As get. */
int br_fragment_reserve(struct br_engine *engine, const struct br_operation *op);
void br_fragment_destroy(struct br_engine *engine, struct br_fragment *fragment);

/* ---- fragment.c: fragments and their steps --------------------------------------------------- */

/* The place of a step among the transfers of its operation (br_transfer.within). */
static inline uint64_t br_fragment_order(const struct br_fragment *fragment, uint32_t step)
{
    return fragment->schedule->follows ? (uint64_t)fragment->index << 32 | step
                                       : (uint64_t)step << 32 | fragment->index;
}

/* Of fragment number `fragment`: bytes of a rank's block, or of all that a message holds. */
size_t br_fragment_bytes(const struct br_operation *op, uint32_t fragment);
/* Starts op's next fragment; there is a free one. */
void br_fragment_start(struct br_engine *engine, struct br_operation *op);
/* The operation, which has a plan and is under way, is run without a fragment where this rank has
 * one small message to send, which leaves at once, and no more than local work besides. false: it
 * needs fragments. */
bool br_fragment_at_once(struct br_engine *engine, struct br_operation *op);
void br_fragment_transfer_ended(struct br_engine *engine, struct br_transfer *t);
/* Does some local work of the first ready step. Returns the bytes that were touched. */
size_t br_fragment_compute(struct br_engine *engine);
/* Bytes of each span of a step. */
size_t br_fragment_step_bytes(const struct br_fragment *fragment, const struct br_step *step);
/* Where a span lies for the steps: in the user's memory, in scratch, or in what is staged. */
uint8_t *br_fragment_address(const struct br_fragment *fragment, const struct br_span *span);
/* Where a span of INPUT or OUTPUT lies in the user's memory. */
uint8_t *br_fragment_user_address(const struct br_fragment *fragment, const struct br_span *span);
/* Puts local work into the ready list, for the CPU. */
void br_fragment_step_ready(struct br_engine *engine, struct br_fragment_step *rs);
/* Local work has ended, on the CPU or a GPU. */
void br_fragment_step_reduced(struct br_engine *engine, struct br_fragment_step *rs);
/* Frees a fragment in whatever state it is; the worker has failed. */
void br_fragment_forget(struct br_engine *engine, struct br_fragment *fragment);

/* ---- admission.c: which fragment starts next ------------------------------------------------- */

void br_admission_add(struct br_engine *engine, struct br_operation *op);
/* engine->may_start says that some may: starts all fragments that may start in this pass. Returns
 * how many. */
int br_admission_start(struct br_engine *engine);
/* How many large fragments run at once, of those that are at least as urgent as the next, which is
 * of op. */
uint32_t br_admission_window(const struct br_engine *engine, const struct br_operation *op);

/* ---- p2p.c: messages ------------------------------------------------------------------------- */

int br_p2p_submit(struct br_engine *engine, struct br_operation *op);
void br_p2p_transfer_ended(struct br_engine *engine, struct br_operation *op,
                           struct br_transfer *t);
/* A receive has its peer, tag and size: takes the numbers of its parts and posts them. 0, or
 * -ENOMEM with a message. */
int br_p2p_begin(struct br_engine *engine, struct br_operation *op);
/* A send of this rank to itself and a receive with its size meet. */
void br_p2p_match_self(struct br_engine *engine, struct br_operation *send,
                       struct br_operation *recv);
/* Parts of a message of so many bytes. */
uint32_t br_p2p_parts(size_t bytes);
/* Fails the worker with this thread's error, for an operation `what` with rank `peer`. */
void br_p2p_failed(struct br_engine *engine, int rc, const char *what, int peer);

/* ---- receives.c: receives that learn from their message -------------------------------------- */

void br_receives_init(struct br_engine *engine);
/* Does a receive have to wait behind others that the same message may be for? */
bool br_receives_before(const struct br_engine *engine, const struct br_operation *op);
void br_receives_submit(struct br_engine *engine, struct br_operation *op);
/* Gives messages that have come to receives that wait. Returns how many got one. */
int br_receives_match(struct br_engine *engine);

/* ---- onesided.c: one-sided access, the requester's side -------------------------------------- */

int br_onesided_submit(struct br_engine *engine, struct br_operation *op);
void br_onesided_transfer_ended(struct br_engine *engine, struct br_operation *op,
                                struct br_transfer *t);

int br_flush_submit(struct br_engine *engine, struct br_operation *op);
/* A one-sided operation has ended, well or not. */
void br_flush_ended(struct br_engine *engine, const struct br_operation *op);

/* ---- deadline.c: deadlines and their messages ------------------------------------------------ */

/* The operation has been submitted: engine->next_deadline is no later than its deadline. */
static inline void br_deadline_expect(struct br_engine *engine, const struct br_operation *op)
{
    if (op->deadline < engine->next_deadline)
        engine->next_deadline = op->deadline;
}

/* Fails the worker when a deadline has passed. */
void br_deadline_check(struct br_engine *engine, uint64_t now);

#endif
