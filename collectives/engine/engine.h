/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine: runs operations. It turns collectives into schedules, these into fragments, these
 * into transfers of the worker and local work, and messages and one-sided accesses into transfers.
 *
 * Like the worker it reads no clock, takes no lock and knows no thread; everything is called under
 * the worker's lock. Nothing blocks. Memory is allocated only when an operation is larger than all
 * before it (late_allocations).
 */
#ifndef BR_COLLECTIVES_ENGINE_ENGINE_H
#define BR_COLLECTIVES_ENGINE_ENGINE_H

#include "collectives/engine/group.h"
#include "collectives/engine/operation.h"
#include "protocol/worker.h"

/* 0 stands for the default in brackets. What is marked * must be the same on all ranks. */
struct br_engine_config {
    int rank, size; /* of the job */
    /* fragments under way at once, over all operations [64], at least 2 */
    uint32_t max_fragments;
    /* of these, that are large and as urgent as the next one or more [3] */
    uint32_t window;
    /* * a large buffer is cut into chunks of about this size [512 KiB] */
    uint32_t chunk_bytes;
    uint32_t quantum_bytes; /* local work between two looks at what is more urgent [256 KiB] */
    /* * of the group of all ranks; n_levels 0: BR_COST_HOST's defaults */
    struct br_cost_model model;
    /* Memory that back ends know, for scratch. NULL: plain memory. -ENOMEM with a message. */
    int (*scratch_alloc)(void *context, size_t bytes, void **memory, struct br_region **region);
    void (*scratch_free)(void *context, void *memory, struct br_region *region);
    void *scratch_context;
    /* for operations on memory of GPUs; NULL: there are none. Borrowed */
    struct br_gpu_memory *gpu_memory;
};

struct br_gpu_memory;
struct br_engine;

/* The worker is borrowed. -ENOMEM, -EINVAL with a message. */
int br_engine_create(struct br_worker *worker, const struct br_engine_config *config,
                     struct br_engine **engine);
/* Operations not yet taken back are forgotten; the worker must be failed or gone by then. NULL
 * allowed. */
void br_engine_destroy(struct br_engine *engine);

/* The group of all ranks, the engine's. Other groups are their makers'; no operation may be under
 * way when one ends. */
struct br_group *br_engine_all(struct br_engine *engine);

/*
 * Takes an operation whose first block is filled in. Nothing has left when it returns. Otherwise a
 * negative errno with a message, and the operation stays the caller's: -EINVAL, -E2BIG (arguments;
 * all ranks find the same, and the communicator lives on); -ENOMEM (ends the worker, as the other
 * ranks count on us); the worker's own error once it has failed.
 */
int br_engine_submit(struct br_engine *engine, struct br_operation *operation, uint64_t now);

/* For a persistent operation, its first block filled in: plans it, and makes room for the fragments
 * of it that run at once, beside all that is reserved so far. Negative errno with a message:
 * -EINVAL, -E2BIG (arguments; all ranks find the same), -ENOMEM. */
int br_engine_reserve(struct br_engine *engine, struct br_operation *operation);
/* scratch.c */
void br_engine_unreserve(struct br_engine *engine, const struct br_operation *operation);

/*
 * One turn of the engine and its worker: what is to leave leaves, what has come is taken in, steps
 * that may start do, at most a quantum is reduced and copied, operations end, and the worker fails
 * when a deadline has passed. Returns how much was done; 0: nothing. When the worker has failed,
 * all operations end, but not before every link is closed.
 *
 * What is to leave goes before anybody is asked what has come: looking in vain takes as long as a
 * small send, and the other end waits. A back end may send at its next poll, so there is one behind
 * each time that something was posted. Deadlines are looked at last: who was not scheduled for a
 * while finds what has come meanwhile.
 */
int br_engine_progress(struct br_engine *engine, uint64_t now);

/* View group->known + 1 of a group: the same on all its ranks, though not at the same time. The
 * forest is borrowed until the group ends. Operations that have waited for the view begin. */
void br_engine_set_epoch(struct br_engine *engine, struct br_group *group,
                         const struct br_disjoint_trees *trees);

/* The oldest operation that is submitted and may come here later: its order; UINT64_MAX: there is
 * none. What is kept for the oldest operation is kept for it (admission.c, note 2). */
void br_engine_set_oldest(struct br_engine *engine, uint64_t order);

/* Status and message of the worker's failure, for an operation that ends with it. */
void br_operation_fail(const struct br_engine *engine, struct br_operation *op);
/* "all-reduce of 16 int32 (operation 3)"; returns its length. */
size_t br_operation_describe(const struct br_operation *op, char *text, size_t bytes);

/* The next ended operation, the caller's again; or NULL. */
struct br_operation *br_engine_ended(struct br_engine *engine);

/* No operation's deadline is earlier; UINT64_MAX: there is none. */
uint64_t br_engine_next_deadline(const struct br_engine *engine);

/* Allocations made for an operation that was larger than all before it: the engine's and those of
 * one group. */
uint64_t br_engine_late_allocations(const struct br_engine *engine, const struct br_group *group);

/* The name of the algorithm by which this collective is or would be run. NULL with a message: none
 * can. */
const char *br_engine_algorithm(struct br_engine *engine, const struct br_operation *operation);

#endif
