/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Executors: what runs operations. Each communicator has a chain of them, and an operation goes to
 * the first one that takes it (br_executor_submit()):
 *
 *     stream order -> shared memory -> GPUs of the host -> engine
 *
 * Stream order (gpu/stream.c) keeps a collective until its stream of a GPU has come to it, and
 * then gives it to the rest of the chain. Shared memory (shm/executor.h) runs small collectives of
 * ranks that share a host, gpu/gpu_local.h all-reduces of GPU memory of such ranks. The engine
 * (engine.h) runs everything, between any ranks, and so ends the chain.
 *
 * All functions are called under the context's lock, and none of them blocks.
 */
#ifndef BR_COLLECTIVES_ENGINE_EXECUTOR_H
#define BR_COLLECTIVES_ENGINE_EXECUTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "base/list.h"
#include "collectives/engine/operation.h"

struct br_executor;

/* A guest, whose operations stand in the queue of another executor (shm/executor.h), has takes,
 * submit, step and waits_for alone: that executor steps it, and ends its operations. */
struct br_executor_ops {
    /* Does this executor run the operation? All ranks of its communicator find the same. NULL: it
     * takes all. It may write into op what submit needs. */
    bool (*takes)(struct br_executor *executor, struct br_operation *op);
    /* The operation is the executor's from here on, until it is in `ended` or with the next one.
     * Negative errno with a message: it is not, and it ends with that error. */
    int (*submit)(struct br_executor *executor, struct br_operation *op, uint64_t now);
    /* Does what can be done now. Returns how much that was; 0: nothing. Errors fail the worker. */
    int (*step)(struct br_executor *executor, uint64_t now);
    /* The order of the oldest operation here that may go on to the next executor; UINT64_MAX:
     * there is none. NULL: none ever does. */
    uint64_t (*oldest)(const struct br_executor *executor);
    /* When to step again at the latest, if nothing arrives until then: ns; UINT64_MAX: need not
     * be. */
    uint64_t (*due)(const struct br_executor *executor, uint64_t now);
    /* Of a guest (shm/executor.h), whose operation is at the head of the queue: writes into text
     * what that keeps from going on, if it is not a rank of the host. op: the operation for whose
     * error the text is. false: it is a rank. */
    bool (*waits_for)(const struct br_executor *executor, const struct br_operation *op, char *text,
                      size_t bytes);
};

struct br_executor {
    const struct br_executor_ops *ops;
    struct br_executor *next; /* in the chain; NULL: this one takes all */
    struct br_list node;      /* in the context's list of those that are stepped */
    struct br_list ended;     /* struct br_operation: have ended, status and message are final */
};

/* For executors. The operation, which is in no list, has ended: its status and message. */
static inline void br_executor_end(struct br_executor *executor, struct br_operation *op,
                                   int status, const char *text)
{
    op->status = status;
    snprintf(op->message, sizeof op->message, "%s", text);
    br_list_init(&op->node);
    br_list_push_back(&executor->ended, &op->node);
}

/* Gives the operation to the first executor from this one on that takes it. If that refuses, the
 * operation ends there with the error. */
static inline void br_executor_submit(struct br_executor *executor, struct br_operation *op,
                                      uint64_t now)
{
    int rc;

    while (executor->ops->takes && !executor->ops->takes(executor, op))
        executor = executor->next;
    rc = executor->ops->submit(executor, op, now);
    if (rc)
        br_executor_end(executor, op, rc, br_error_message());
}

#endif
