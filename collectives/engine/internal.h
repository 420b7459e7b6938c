/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the engine share. Not for others. */
#ifndef BR_COLLECTIVES_ENGINE_INTERNAL_H
#define BR_COLLECTIVES_ENGINE_INTERNAL_H

#include "collectives/engine/gpu_pipeline.h"
#include "collectives/engine/engine.h"

struct br_fragment;

/* One step of a run. */
struct br_fragment_step {
    struct br_transfer transfer; /* SEND, RECV; its owner is this step */
    struct br_list node;         /* REDUCE, COPY: in the engine's ready list */
    struct br_fragment *fragment;
    uint32_t remaining; /* steps that must end first */
    uint32_t readers;   /* RECV: sources that will read it where it is mapped */
    /* RECV: does what the REDUCE in `context`, a step of the run, is for (run.c, note 5) */
    struct br_slot_reducer reducer;
    size_t done;                /* REDUCE, COPY: elements */
    struct br_copy_batch batch; /* of a direct run: that it is under way on the GPU */
    bool ended;
    struct br_trace_span span; /* in the timeline, from its start to its end */
};

/* One fragment under way. Runs are made with the engine; their steps and scratch only grow. */
struct br_fragment {
    struct br_engine *engine;
    struct br_list node; /* the engine's free runs, or its operation's runs */
    struct br_operation *op;
    const struct br_schedule *schedule;
    uint32_t index;
    size_t first, elements; /* of each block */
    size_t shorter, longer; /* elements of a short piece; how many pieces have one more */
    uint32_t steps_left;    /* steps that have not ended */
    /* the first of these whose message needs a credit; schedule->n_steps: none */
    uint32_t oldest_step;
    struct br_fragment_step *steps;
    uint32_t max_steps;
    uint8_t *scratch;
    size_t scratch_bytes;
    struct br_region *scratch_region;
    size_t scratch_used;        /* of it by the schedule; behind it: what is staged (staging.h) */
    int scratch_pinned;         /* as br_scratch_pin() has it */
    struct br_copy_batch batch; /* what is under way of that */
    struct br_gpu_pipeline pipeline;
    /* the persistent one that it was made large enough for; NULL: none */
    const struct br_operation *reserved;
};

struct br_engine {
    struct br_worker *worker;
    struct br_engine_config config;
    struct br_group all;
    struct br_list collectives; /* operations under way, the oldest first */
    struct br_list messages;    /* sends, receives, puts, gets under way */
    /* sends and receives of this rank with itself that wait for each other */
    struct br_list to_self;
    /* off the shared segment, while their results are copied to a GPU (staging_shm.c) */
    struct br_list storing;
    /* collectives with fragments to start, in order (priority, order) */
    struct br_list waiting;
    /* struct br_fragment_step: local work, in order (priority, order, fragment, step) */
    struct br_list ready;
    struct br_list free_fragments; /* the last used first */
    struct br_list ended;
    struct br_fragment *fragments; /* [max_fragments] */
    uint32_t n_free;
    /* struct br_copy_batch: copies of GPUs' memory under way */
    struct br_list copying;
    struct br_list free_buffers;          /* struct br_staging_buffer */
    struct br_list targets, free_targets; /* requests of peers that are staged (staging_target.c) */
    struct br_staging_reduction reductions[BR_STAGING_REDUCTIONS];
    struct br_list free_reductions; /* their batches */
    uint64_t expected;              /* as br_engine_set_oldest() said */
    /* how long to wait for them when the worker has failed; 0: not known yet */
    uint64_t copies_until;
    bool may_start;       /* a run has come free or an operation has come: look again */
    const void **sources; /* [max_sources], for br_reduce() */
    uint32_t max_sources;
    uint64_t next_deadline;          /* no later than that of any operation */
    uint64_t onesided;               /* counter for their tags */
    uint64_t late_allocations;       /* of runs */
    uint64_t grown_before;           /* late_allocations when this turn began */
    const struct br_operation *late; /* the one whose deadline ended the worker */
};

/* engine.c */
void br_operation_end(struct br_engine *engine, struct br_operation *op, int status);

/* scratch.c: memory of runs. take_memory: that back ends know. *pinned: for this GPU, as
 * br_gpu_of() names it; 0: nobody has tried; BR_NOT_PINNABLE: it cannot be, and is not tried
 * again. */
#define BR_NOT_PINNABLE (-1)
int br_scratch_get(struct br_engine *engine, size_t bytes, uint8_t **memory,
                   struct br_region **region);
/* At the end, if it is pinned; then it stays allocated where it has to stay pinned (copier.h). */
void br_scratch_release(struct br_engine *engine, uint8_t *memory, struct br_region *region,
                        int pinned);
void br_scratch_pin(struct br_engine *engine, void *memory, size_t bytes, int gpu, int *pinned);
int br_fragment_reserve_sources(struct br_engine *engine, uint32_t count); /* -ENOMEM */
/* A run for op's next fragment, off the free ones, of which there is one. -ENOMEM with a message:
 * what it has is too small. */
int br_fragment_get(struct br_engine *engine, const struct br_operation *op,
                    struct br_fragment **fragment);
int br_fragment_reserve(
    struct br_engine *engine,
    const struct br_operation *op); /* for all that run at once; its plan is known */
void br_fragment_destroy(struct br_engine *engine, struct br_fragment *fragment);

/* run.c: fragments and steps */
/* br_transfer.within */
static inline uint64_t br_fragment_order(const struct br_fragment *fragment, uint32_t step)
{
    return fragment->schedule->follows ? (uint64_t)fragment->index << 32 | step
                                       : (uint64_t)step << 32 | fragment->index;
}
size_t br_fragment_bytes(const struct br_operation *op,
                         uint32_t fragment); /* of a rank's block, or of all that a message holds */
size_t br_fragment_elements(const struct br_operation *op, uint32_t fragment); /* of each block */
/* its next fragment; a run is free */
void br_fragment_start(struct br_engine *engine, struct br_operation *op);
void br_fragment_transfer_ended(struct br_engine *engine, struct br_transfer *t);
size_t
/* some local work of the first ready step; returns bytes touched */
br_fragment_compute(struct br_engine *engine);
/* of each of its spans */
size_t br_fragment_step_bytes(const struct br_fragment *fragment, const struct br_step *step);
/* in host memory, or direct */
uint8_t *br_fragment_address(const struct br_fragment *fragment, const struct br_span *span);
uint8_t *br_fragment_user_address(const struct br_fragment *fragment,
                                  /* of INPUT or OUTPUT, in the caller's memory */
                                  const struct br_span *span);
/* local work, for the CPU */
void br_fragment_step_ready(struct br_engine *engine, struct br_fragment_step *rs);
/* a step, elsewhere */
void br_fragment_step_reduced(struct br_engine *engine, struct br_fragment_step *rs);
/* whatever state it is in */
void br_fragment_forget(struct br_engine *engine, struct br_fragment *fragment);

/* admission.c: which fragment is next */
void br_admission_add(struct br_engine *engine, struct br_operation *op);
/* starts all that may in this turn; returns how many */
int br_admission_start(struct br_engine *engine);
void br_admission_oldest(struct br_engine *engine); /* what is the oldest step may have changed */

/* p2p.c: messages */
int br_p2p_submit(struct br_engine *engine, struct br_operation *op);
void br_p2p_transfer_ended(struct br_engine *engine, struct br_operation *op,
                           struct br_transfer *t);
void br_p2p_failed(struct br_engine *engine, int rc, const char *what, int peer);

/* onesided.c: one-sided access, the requester's side */
int br_onesided_submit(struct br_engine *engine, struct br_operation *op);
void br_onesided_transfer_ended(struct br_engine *engine, struct br_operation *op,
                                struct br_transfer *t);

/* deadline.c: deadlines and their messages */
void br_deadline_expect(struct br_engine *engine, const struct br_operation *op);
/* fails the worker when one has passed */
void br_deadline_check(struct br_engine *engine, uint64_t now);

#endif
