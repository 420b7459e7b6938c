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
#include "base/clock.h"
#include "base/growing_pool.h"
#include "base/ring.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/completion.h"
#include "collectives/comm/context.h"
#include "collectives/comm/epochs.h"
#include "collectives/comm/handles.h"
#include "collectives/comm/operation_memory.h"
#include "collectives/comm/posted.h"
#include "collectives/comm/progress.h"
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

int br_comm_create_operations(struct br_context *context)
{
    int rc = br_growing_pool_init(&context->operations, sizeof(struct br_operation),
                                  BR_OPERATIONS_CHUNK, BR_OPERATION_CHUNKS);

    return rc ? rc : br_ring_init(&context->submissions, BR_SUBMISSIONS);
}

/* Under pool_lock. */
static void operation_init(struct br_operation *op, struct braid_comm *comm, uint32_t place)
{
    br_operation_init(op, comm, comm ? comm->group : NULL);
    op->place = place;
}

struct br_operation *br_comm_get_operation(struct braid_comm *comm)
{
    struct br_context *context = comm->context;
    struct br_operation *op;
    uint32_t place;
    uint64_t used;

    pthread_mutex_lock(&context->pool_lock);
    op = br_growing_pool_get(&context->operations, &place);
    if (op)
        operation_init(op, comm, place);
    used = context->operations.n_used;
    pthread_mutex_unlock(&context->pool_lock);
    if (!op)
        br_error(ENOMEM, "rank %d: %llu operations are outstanding, and there is no room for more",
                 context->rank, (unsigned long long)used);
    return op;
}

struct br_operation *br_comm_reserve_operation(struct br_context *context)
{
    struct br_operation *op;
    uint32_t place;

    pthread_mutex_lock(&context->pool_lock);
    op = br_growing_pool_get(&context->operations, &place);
    if (op)
        operation_init(op, NULL, place);
    pthread_mutex_unlock(&context->pool_lock);
    return op;
}

void br_comm_use_reserved(struct br_operation *op, struct braid_comm *comm)
{
    pthread_mutex_lock(&comm->context->pool_lock);
    operation_init(op, comm, op->place);
    pthread_mutex_unlock(&comm->context->pool_lock);
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

static void free_arrays(void *object, void *context)
{
    struct br_operation *op = object;

    (void)context;
    free(op->arrays);
    op->arrays = NULL;
    op->arrays_room = 0;
}

void br_operation_arrays_free(struct br_context *context)
{
    br_growing_pool_visit(&context->operations, free_arrays, NULL);
}

/* Under pool_lock. The arrays stay where the operation's memory does, in the first chunk. */
static void operation_put(struct br_context *context, struct br_operation *op)
{
    atomic_store(&op->handle, 0);
    if (op->handle_place)
        br_handle_place_put(op->handle_place);
    atomic_store(&op->state, BR_OPERATION_IDLE);
    op->comm = NULL;
    if (op->place >= BR_OPERATIONS_CHUNK)
        free_arrays(op, NULL);
    br_growing_pool_put(&context->operations, op->place);
}

void br_comm_put_operation(struct br_operation *op)
{
    struct br_context *context = op->comm->context;

    pthread_mutex_lock(&context->pool_lock);
    operation_put(context, op);
    pthread_mutex_unlock(&context->pool_lock);
}

int br_comm_finish_operation(struct br_operation *op)
{
    int status = br_operation_result(op);

    if (op->persistent)
        atomic_store(&op->state, BR_OPERATION_IDLE);
    else
        br_comm_put_operation(op);
    return status;
}

static void put_if_of(void *object, void *context)
{
    struct br_operation *op = object;
    const struct braid_comm *comm = context;

    if (op->comm != comm)
        return;
    br_engine_unreserve(comm->context->engine, op);
    operation_put(comm->context, op);
}

void br_comm_put_operations(struct braid_comm *comm)
{
    struct br_context *context = comm->context;

    pthread_mutex_lock(&context->pool_lock);
    br_growing_pool_visit(&context->operations, put_if_of, comm);
    pthread_mutex_unlock(&context->pool_lock);
}

uint64_t br_comm_next_sequence(struct braid_comm *comm)
{
    /* long before one that is remembered comes again */
    if (comm->next_sequence % (BR_OPERATIONS / 4) == 0)
        br_worker_forget_before(comm->context->worker, comm->group->number, comm->next_sequence);
    return comm->next_sequence++;
}

static void operation_begin(struct br_operation *op, uint64_t now)
{
    if (op->kind == BR_OPERATION_COLLECTIVE)
        op->sequence = br_comm_next_sequence(op->comm);
    br_executor_submit(op->comm->executors, op, now);
}

void br_comm_give_order(struct br_operation *op)
{
    op->order = op->comm->context->next_order;
    /* the one behind it is for a round that it makes due (doc/design/epochs.md, 4) */
    op->comm->context->next_order += 2;
}

void br_comm_start_operation(struct br_operation *op, uint64_t now)
{
    struct braid_comm *comm = op->comm;

    if (op->kind == BR_OPERATION_FLUSH)
        br_posted_go_on(comm->context, now); /* it waits for operations */
    br_comm_give_order(op);
    op->deadline = now + op->timeout;
    op->status = 0;
    op->shm_role = BR_SHM_ROLE_COLLECTIVE;
    op->shm_round = 0;
    op->began = 0; /* of a persistent one: that of a start before */
    br_comm_use_memory(comm, op);
    op->backlog = op->kind == BR_OPERATION_COLLECTIVE            ? &comm->backlog
                  : op->kind >= BR_OPERATION_PUT && !op->awaited ? &comm->context->accesses
                                                                 : NULL;
    if (!op->backlog || br_backlog_enter(op->backlog, op))
        operation_begin(op, now);
    else if (br_list_empty(&op->backlog->node))
        br_list_push_back(&comm->context->backlogs, &op->backlog->node);
}

static void fail_overdue(struct br_worker *w, const struct br_backlog *backlog,
                         struct br_operation *late)
{
    char text[sizeof w->message];
    size_t used;

    late->sequence = late->comm->next_sequence;
    br_list_for_each (node, &backlog->waiting) {
        if (node == &late->node)
            break;
        late->sequence++;
    }
    used = br_operation_describe(late, text, sizeof text);
    snprintf(text + used, sizeof text - used,
             " missed its deadline of %llu ms: it waits for operations submitted before it",
             (unsigned long long)(late->timeout / BR_MS));
    br_worker_fail(w, ETIMEDOUT, text);
}

int br_comm_begin_waiting(struct br_context *context, uint64_t now)
{
    struct br_worker *w = context->worker;
    int n = 0;

    br_list_for_each_safe (node, &context->backlogs) {
        struct br_backlog *backlog = br_container_of(node, struct br_backlog, node);
        struct br_operation *late, *op;

        for (; (op = br_backlog_next(backlog)); n++)
            if (w->failed)
                br_executor_end(&context->engine_executor, op, w->failed, w->message);
            else
                operation_begin(op, now);
        if (br_backlog_is_empty(backlog))
            br_list_remove(&backlog->node);
        late = br_backlog_overdue(backlog, now);
        if (late)
            fail_overdue(w, backlog, late);
    }
    return n;
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
        br_shm_executor_report(comm->shm);
    if (context->epochs)
        br_epochs_assign(context, op, now);
    op->began = now;
    op->alone = comm->outstanding == 1;
    if (context->worker->config.trace)
        br_tracing_begin(context->worker->config.trace, op, now);
    return br_engine_submit(context->engine, op, now);
}

/* Of the operations that have not reached the engine. */
static void tell_oldest(struct br_context *context)
{
    uint64_t oldest = UINT64_MAX;

    br_list_for_each (node, &context->executors) {
        const struct br_executor *e = br_container_of(node, struct br_executor, node);
        uint64_t order = e->ops->oldest ? e->ops->oldest(e) : UINT64_MAX;

        if (order < oldest)
            oldest = order;
    }
    br_engine_set_oldest(context->engine, oldest);
}

void br_engine_executor_start(struct br_context *context, uint64_t now)
{
    tell_oldest(context);
    br_engine_start(context->engine, now);
}

static int engine_executor_step(struct br_executor *executor, uint64_t now)
{
    struct br_context *context = context_of(executor);

    tell_oldest(context);
    return br_engine_progress(context->engine, now);
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
    static const struct br_executor_ops ops = {
        .submit = engine_executor_submit, .step = engine_executor_step, .due = engine_executor_due};

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

    if (has_run && op->status && !op->done)
        br_worker_fail(w, -op->status, op->message);
    if (op->persistent)
        br_engine_unreserve(op->comm->context->engine, op);
    br_comm_put_operation(op);
}

/* What nobody has waited for. */
struct lost {
    const struct braid_comm *comm; /* NULL: any */
    int n;
    const struct br_operation *first, *failed; /* the first of all, of those with an error */
};

static void count_if_lost(void *object, void *context)
{
    const struct br_operation *op = object;
    struct lost *lost = context;

    if (!op->comm || (lost->comm && op->comm != lost->comm) || !atomic_load(&op->handle) ||
        op->done || atomic_load(&op->state) != BR_OPERATION_ENDED)
        return;
    lost->n++;
    if (!lost->first || op->order < lost->first->order)
        lost->first = op;
    if (op->status && (!lost->failed || op->order < lost->failed->order))
        lost->failed = op;
}

int br_comm_take_results(struct braid_comm *comm, const char *name)
{
    struct br_context *context = comm->context;
    struct lost lost = {.comm = comm == context->world ? NULL : comm};
    int within = br_handles_void_ended(context, lost.comm), used = 0, rc;
    char text[300], error[BR_ERROR_BYTES / 2];

    pthread_mutex_lock(&context->pool_lock);
    br_growing_pool_visit(&context->operations, count_if_lost, &lost);
    pthread_mutex_unlock(&context->pool_lock);
    if (lost.n) {
        used = snprintf(text, sizeof text, "%d operations, of which the first is ", lost.n);
        used += (int)br_operation_describe(lost.first, text + used, 200);
    }
    if (within)
        snprintf(text + used, sizeof text - (size_t)used,
                 "%s%d accesses or messages that ended within their calls",
                 used ? ", and for " : "", within);
    if (!lost.failed) {
        if (lost.n || within)
            br_log_warn("%s: nobody has waited for %s; all ended without error", name, text);
        return 0;
    }
    rc = lost.failed->status;
    snprintf(error, sizeof error, "%.*s", (int)sizeof error - 1, lost.failed->message);
    return br_error(-rc, "%s: nobody has waited for %s; the first error: %s", name, text, error);
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

/* What the program called for is counted and reported. */
static void operation_count(const struct br_operation *op)
{
    struct braid_comm *comm = op->comm;
    struct br_context *context = comm->context;
    bool timed = op->kind == BR_OPERATION_COLLECTIVE && op->began && !op->status;

    if (op->status)
        comm->failed_operations++;
    else
        comm->operations++;
    if (timed && context->calibration_drift.bound > 0)
        check_calibration_drift(context, op);
    if (timed && context->report)
        br_algorithm_report_add(context->report, op, (uint32_t)comm->size, op->began, context->now);
}

void br_comm_end_operation(struct br_operation *op)
{
    struct braid_comm *comm = op->comm;
    bool waited_for = !op->completed, told = op->done;

    if (op->backlog)
        br_backlog_left(op->backlog);
    if (op->span.row)
        br_tracing_end(comm->context->worker->config.trace, op, comm->context->now);
    br_comm_unuse_memory(comm, op);
    if (op->is_epoch_round)
        br_epochs_round_ended(comm->context, comm->context->now);
    else if (!op->parent)
        operation_count(op);
    if (!waited_for)
        op->completed(op);
    if (told)
        br_completion_add(op);
    else
        br_progress_let_go(comm, waited_for ? op : NULL);
}
