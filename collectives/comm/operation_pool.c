/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of an operation between call and engine. */
#include "collectives/comm/operation_pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/pool.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/comm/epochs.h"
#include "collectives/comm/memory.h"
#include "collectives/comm/progress_lock.h"
#include "collectives/engine/engine.h"
#include "collectives/engine/executor.h"
#include "collectives/engine/operation.h"
#include "collectives/schedule/type.h"
#include "collectives/shm/executor.h"
#include "collectives/stats/algorithm_report.h"
#include "collectives/stats/tracing.h"
#include "collectives/tuning/algorithm_config.h"
#include "collectives/tuning/network.h"
#include "protocol/worker.h"

struct br_operation *br_comm_get_operation(struct braid_comm *comm)
{
    struct br_context *context = comm->context;
    struct br_operation *op;

    pthread_mutex_lock(&context->pool_lock);
    op = br_pool_get(&context->operations);
    if (op) {
        memset(op, 0, offsetof(struct br_operation, message));
        op->comm = comm;
        op->group = comm->group;
    }
    pthread_mutex_unlock(&context->pool_lock);
    if (!op)
        br_error(EAGAIN, "rank %d: %d operations are outstanding; wait for some of them",
                 context->rank, BR_MAX_OPERATIONS);
    return op;
}

int br_operation_arrays(struct br_operation *op, size_t n, size_t **arrays)
{
    if (n > op->arrays_room) {
        free(op->arrays);
        op->arrays = malloc(n * sizeof *op->arrays);
        op->arrays_room = op->arrays ? n : 0;
    }
    *arrays = op->arrays;
    return n && !op->arrays ? br_error(ENOMEM, "no memory for %zu counts and displacements", n) : 0;
}

void br_operation_arrays_free(struct br_context *context)
{
    for (uint32_t i = 0; i < br_pool_used(&context->operations); i++)
        free(((struct br_operation *)br_pool_at(&context->operations, i))->arrays);
}

void br_comm_put_operation(struct br_operation *op)
{
    struct br_context *context = op->comm->context;

    pthread_mutex_lock(&context->pool_lock);
    atomic_store(&op->handle, 0);
    atomic_store(&op->state, BR_OPERATION_IDLE);
    op->comm = NULL;
    br_pool_put(&context->operations, op);
    pthread_mutex_unlock(&context->pool_lock);
}

int br_comm_finish_operation(struct br_operation *op)
{
    int status = op->status;

    if (status)
        br_error(-status, "%s", op->message);
    if (op->persistent)
        atomic_store(&op->state, BR_OPERATION_IDLE);
    else
        br_comm_put_operation(op);
    return status;
}

void br_comm_put_operations(struct braid_comm *comm)
{
    struct br_context *context = comm->context;

    pthread_mutex_lock(&context->pool_lock);
    for (uint32_t i = 0; i < BR_MAX_OPERATIONS; i++) {
        struct br_operation *op = br_pool_at(&context->operations, i);

        if (op->comm == comm) {
            br_engine_unreserve(context->engine, op);
            atomic_store(&op->handle, 0);
            op->comm = NULL;
            br_pool_put(&context->operations, op);
        }
    }
    pthread_mutex_unlock(&context->pool_lock);
}

uint64_t br_comm_next_sequence(struct braid_comm *comm)
{
    /* long before one that is remembered comes again */
    if (comm->next_sequence % (BR_OPERATIONS / 4) == 0)
        br_worker_forget_before(comm->context->worker, comm->group->number, comm->next_sequence);
    return comm->next_sequence++;
}

void br_comm_start_operation(struct br_operation *op, uint64_t now)
{
    struct braid_comm *comm = op->comm;

    op->order = comm->context->next_order;
    /* the one behind it is for a round that it makes due (doc/design/epochs.md, 4) */
    comm->context->next_order += 2;
    op->deadline = now + op->timeout;
    op->status = 0;
    op->shm_role = BR_SHM_ROLE_COLLECTIVE;
    op->began = 0; /* of a persistent one: that of a start before */
    br_comm_use_memory(comm, op);
    if (op->kind == BR_OPERATION_COLLECTIVE)
        op->sequence = br_comm_next_sequence(comm);
    br_executor_submit(comm->executors, op, now);
}

/* ---- the engine as an executor --------------------------------------------------------------- */

static struct br_context *context_of(const struct br_executor *executor)
{
    return br_container_of(executor, struct br_context, engine_executor);
}

static int engine_executor_submit(struct br_executor *executor, struct br_operation *op,
                                  uint64_t now)
{
    struct br_context *context = context_of(executor);
    struct braid_comm *comm = op->comm;

    if (comm->shm && op->kind == BR_OPERATION_COLLECTIVE)
        br_shm_executor_report_last(comm->shm);
    br_epochs_assign(context, op, now);
    op->began = now;
    op->alone = comm->outstanding == 1;
    br_tracing_begin(context->trace, op, now);
    return br_engine_submit(context->engine, op, now);
}

static int engine_executor_step(struct br_executor *executor, uint64_t now)
{
    struct br_context *context = context_of(executor);
    uint64_t oldest = UINT64_MAX;

    br_list_for_each (node, &context->executors) {
        const struct br_executor *e = br_container_of(node, struct br_executor, node);
        uint64_t order = e->ops->oldest ? e->ops->oldest(e) : UINT64_MAX;

        if (order < oldest)
            oldest = order;
    }
    br_engine_set_oldest(context->engine, oldest);
    return br_engine_progress(context->engine, now);
}

/* Those that it has refused, too. */
static struct br_operation *engine_executor_end(struct br_executor *executor)
{
    struct br_operation *op = br_engine_ended(context_of(executor)->engine);

    return op ? op : br_executor_ended(executor);
}

static uint64_t engine_executor_due(const struct br_executor *executor, uint64_t now)
{
    const struct br_context *context = context_of(executor);
    uint64_t timer = br_worker_next_timer(context->worker),
             deadline = br_engine_next_deadline(context->engine);

    if (!br_list_empty(&executor->ended))
        return now;
    return timer < deadline ? timer : deadline;
}

void br_engine_executor_init(struct br_context *context)
{
    static const struct br_executor_ops ops = {.submit = engine_executor_submit,
                                               .step = engine_executor_step,
                                               .end = engine_executor_end,
                                               .due = engine_executor_due};

    context->engine_executor.ops = &ops;
    br_list_init(&context->engine_executor.ended);
    br_list_init(&context->executors);
    br_list_push_back(&context->executors, &context->engine_executor.node);
}

/* ---- persistent operations, and the end ------------------------------------------------------ */

int br_comm_prepare_operation(struct br_operation *op)
{
    struct braid_comm *comm = op->comm;
    int rc = 0;

    br_progress_lock(comm->context);
    if (!comm->context->worker->failed && !(comm->shm && br_shm_executor_takes(comm->shm, op)))
        rc = br_engine_reserve(comm->context->engine, op);
    br_progress_unlock(comm->context);
    return rc;
}

void br_comm_release_operation(struct br_operation *op)
{
    struct br_worker *w = op->comm->context->worker;
    bool has_run = atomic_load(&op->state) != BR_OPERATION_IDLE;

    if (has_run && op->status && !op->done && !w->failed)
        br_worker_fail(w, -op->status, op->message);
    if (op->persistent)
        br_engine_unreserve(op->comm->context->engine, op);
    br_comm_put_operation(op);
}

int br_comm_take_results(struct braid_comm *comm, const char *name)
{
    struct br_context *context = comm->context;
    const struct br_operation *first = NULL, *failed = NULL;
    char text[200], error[BR_ERROR_BYTES / 2];
    int n = 0, rc;

    pthread_mutex_lock(&context->pool_lock);
    for (uint32_t i = 0; i < br_pool_used(&context->operations); i++) {
        const struct br_operation *op = br_pool_at(&context->operations, i);

        if (!op->comm || (op->comm != comm && comm != context->world) ||
            !atomic_load(&op->handle) || op->done || atomic_load(&op->state) != BR_OPERATION_ENDED)
            continue;
        n++;
        if (!first || op->order < first->order)
            first = op;
        if (op->status && (!failed || op->order < failed->order))
            failed = op;
    }
    pthread_mutex_unlock(&context->pool_lock);
    if (!n)
        return 0;
    br_operation_describe(first, text, sizeof text);
    if (!failed) {
        br_log_warn("%s: nobody has waited for %d operations, of which the first is %s; all ended "
                    "without error",
                    name, n, text);
        return 0;
    }
    rc = failed->status;
    snprintf(error, sizeof error, "%.*s", (int)sizeof error - 1, failed->message);
    return br_error(
        -rc,
        "%s: nobody has waited for %d operations, of which the first is %s; the first error: %s",
        name, n, text, error);
}

/* Only operations that had the engine for themselves can be held against a prediction. */
static void check_calibration_drift(struct br_context *context, const struct br_operation *op)
{
    double seconds = (double)(context->now - op->began) / 1e9,
           off = op->alone
                     ? br_calibration_drift_add(&context->calibration_drift, op->predicted, seconds)
                     : 0;
    char name[BR_ALGORITHM_TEXT];

    if (off > 0)
        br_log_warn("BRAID_CALIBRATION: %s is stale: the last %d collectives took %s than %.3g of "
                    "the predicted "
                    "time, waiting for other ranks included (%s by %s, %zu bytes a block: "
                    "predicted %.4g us, took "
                    "%.4g us); measure again with `braid calibrate`",
                    context->settings.calibration, BR_CALIBRATION_DRIFT_WINDOW,
                    off > 1 ? "more" : "less", off, br_collective_name(op->collective),
                    br_algorithm_config_name(op->algorithm_config, name),
                    op->count * br_type_size(op->type), op->predicted * 1e6, seconds * 1e6);
}

void br_comm_operation_ended(struct br_operation *op)
{
    if (op->span.row)
        br_tracing_end(op->comm->context->trace, op, op->comm->context->now);
    br_comm_unuse_memory(op->comm, op);
    if (op->parent) /* no call of the program's: neither counted nor reported */
        return;
    if (op->is_epoch_round) {
        br_epochs_round_ended(op->comm->context, op->comm->context->now);
        return;
    }
    if (op->status)
        op->comm->failed_operations++;
    else
        op->comm->operations++;
    if (op->kind == BR_OPERATION_COLLECTIVE && op->began && !op->status)
        check_calibration_drift(op->comm->context, op);
    if (op->comm->context->report && op->kind == BR_OPERATION_COLLECTIVE && op->began &&
        !op->status)
        br_algorithm_report_add(op->comm->context->report, op, (uint32_t)op->comm->size, op->began,
                                op->comm->context->now);
}
