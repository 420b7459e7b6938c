/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of an operation between call and engine. */
#include "collectives/operation.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "collectives/comm.h"
#include "collectives/local.h"
#include "collectives/reach.h"
#include "collectives/share.h"
#include "collectives/type.h"
#include "collectives/views.h"
#include "collectives/way.h"

struct br_operation *br_comm_get_operation(struct braid_comm *comm)
{
    struct br_family *family = comm->family;
    struct br_operation *op;

    pthread_mutex_lock(&family->pool_lock);
    op = br_pool_get(&family->operations);
    if (op) {
        memset(op, 0, offsetof(struct br_operation, words));
        op->comm = comm;
        op->group = comm->group;
    }
    pthread_mutex_unlock(&family->pool_lock);
    if (!op)
        br_error(EAGAIN, "rank %d: %d operations are outstanding; wait for some of them", family->rank,
                 BR_MAX_OPERATIONS);
    return op;
}

void br_comm_put_operation(struct br_operation *op)
{
    struct br_family *family = op->comm->family;

    pthread_mutex_lock(&family->pool_lock);
    atomic_store(&op->handle, 0);
    op->comm = NULL;
    br_pool_put(&family->operations, op);
    pthread_mutex_unlock(&family->pool_lock);
}

int br_comm_finish_operation(struct br_operation *op)
{
    int status = op->status;

    if (status)
        br_error(-status, "%s", op->words);
    if (op->persistent)
        atomic_store(&op->state, BR_OPERATION_IDLE);
    else
        br_comm_put_operation(op);
    return status;
}

void br_comm_put_operations(struct braid_comm *comm)
{
    struct br_family *family = comm->family;

    pthread_mutex_lock(&family->pool_lock);
    for (uint32_t i = 0; i < BR_MAX_OPERATIONS; i++) {
        struct br_operation *op = br_pool_at(&family->operations, i);

        if (op->comm == comm) {
            br_engine_unreserve(family->engine, op);
            atomic_store(&op->handle, 0);
            op->comm = NULL;
            br_pool_put(&family->operations, op);
        }
    }
    pthread_mutex_unlock(&family->pool_lock);
}

void br_comm_use_memory(struct braid_comm *comm, struct br_operation *op)
{
    struct br_family *family = comm->family;

    op->send_region = op->send_gpu ? br_reach_use(family, op, op->send, op->send_bytes, op->send_gpu, false)
                                   : br_memory_use(family, op->send, op->send_bytes);
    op->recv_region = op->recv_gpu ? br_reach_use(family, op, op->recv, op->recv_bytes, op->recv_gpu, true)
                                   : br_memory_use(family, op->recv, op->recv_bytes);
}

void br_comm_unuse_memory(struct braid_comm *comm, struct br_operation *op)
{
    br_memory_unuse(comm->family, op->send_region);
    br_memory_unuse(comm->family, op->recv_region);
    op->send_region = op->recv_region = NULL;
}

uint64_t br_comm_next_sequence(struct braid_comm *comm)
{
    if (comm->next_sequence % (BR_OPERATIONS / 4) == 0) /* long before one that is remembered comes again */
        br_worker_forget_before(comm->family->worker, comm->group->number, comm->next_sequence);
    return comm->next_sequence++;
}

void br_comm_start_operation(struct br_operation *op, uint64_t now)
{
    struct braid_comm *comm = op->comm;

    op->order = comm->family->next_order;
    comm->family->next_order += 2; /* the one behind it is for a round that it makes due (views.h, note 4) */
    op->deadline = now + op->timeout;
    op->status = 0;
    br_comm_use_memory(comm, op);
    if (op->kind == BR_OPERATION_COLLECTIVE)
        op->sequence = br_comm_next_sequence(comm);
    if (!br_stream_holds(op))
        br_comm_begin_operation(op, now);
}

void br_comm_begin_operation(struct br_operation *op, uint64_t now)
{
    struct braid_comm *comm = op->comm;
    bool local = comm->local && !comm->family->worker->failed;
    struct br_local *shares = comm->family->worker->failed ? NULL : comm->local ? comm->local : comm->host;

    op->local_way = BR_LOCAL_BOARD;
    op->began = 0; /* of a persistent one: that of a start before */
    if (local && br_local_takes(comm->local, op)) {
        if (!br_operation_is_staged(op) || br_stage_board_begin(comm->family->engine, op))
            br_local_submit(comm->local, op);
        else
            br_progress_fail(op);
    } else if (shares && br_share_takes(shares, op)) {
        br_local_submit(shares, op);
    } else {
        br_comm_to_engine(op, now);
    }
}

void br_comm_to_engine(struct br_operation *op, uint64_t now)
{
    struct braid_comm *comm = op->comm;
    int rc;

    if (comm->local && op->kind == BR_OPERATION_COLLECTIVE)
        br_local_tell_last(comm->local, comm->family->worker);
    br_views_pass(comm->family, op, now);
    op->began = now;
    op->alone = comm->outstanding == 1;
    br_tracing_begin(comm->family->trace, op, now);
    rc = br_engine_submit(comm->family->engine, op, now);
    if (rc) {
        op->status = rc;
        snprintf(op->words, sizeof op->words, "%s", br_error_words());
        br_progress_end(op);
    }
}

int br_comm_prepare_operation(struct br_operation *op)
{
    struct braid_comm *comm = op->comm;
    int rc = 0;

    br_gate_lock(comm->family);
    if (!comm->family->worker->failed && !(comm->local && br_local_takes(comm->local, op)))
        rc = br_engine_reserve(comm->family->engine, op);
    br_gate_unlock(comm->family);
    return rc;
}

void br_comm_release_operation(struct br_operation *op)
{
    struct br_worker *w = op->comm->family->worker;
    bool has_run = atomic_load(&op->state) != BR_OPERATION_IDLE;

    if (has_run && op->status && !w->failed)
        br_worker_fail(w, -op->status, op->words);
    if (op->persistent)
        br_engine_unreserve(op->comm->family->engine, op);
    br_comm_put_operation(op);
}

int br_comm_take_results(struct braid_comm *comm, const char *name)
{
    struct br_family *family = comm->family;
    const struct br_operation *first = NULL, *failed = NULL;
    char words[200], error[BR_ERROR_WORDS / 2];
    int n = 0, rc;

    pthread_mutex_lock(&family->pool_lock);
    for (uint32_t i = 0; i < br_pool_used(&family->operations); i++) {
        const struct br_operation *op = br_pool_at(&family->operations, i);

        if (!op->comm || (op->comm != comm && comm != family->first) || !atomic_load(&op->handle) ||
            atomic_load(&op->state) != BR_OPERATION_ENDED)
            continue;
        n++;
        if (!first || op->order < first->order)
            first = op;
        if (op->status && (!failed || op->order < failed->order))
            failed = op;
    }
    pthread_mutex_unlock(&family->pool_lock);
    if (!n)
        return 0;
    br_operation_describe(first, words, sizeof words);
    if (!failed) {
        br_log_warn(
            "%s: nobody has waited for %d operations, of which the first is %s; all ended without error",
            name, n, words);
        return 0;
    }
    rc = failed->status;
    snprintf(error, sizeof error, "%.*s", (int)sizeof error - 1, failed->words);
    return br_error(-rc,
                    "%s: nobody has waited for %d operations, of which the first is %s; the first error: %s",
                    name, n, words, error);
}

/* Only operations that had the engine for themselves can be held against a prediction. */
static void watch_calibration(struct br_family *family, const struct br_operation *op)
{
    double seconds = (double)(family->now - op->began) / 1e9,
           off = op->alone ? br_drift_add(&family->drift, op->predicted, seconds) : 0;
    char name[BR_WAY_TEXT];

    if (off > 0)
        br_log_warn(
            "BRAID_CALIBRATION: %s is stale: the last %d collectives took %s than %.3g of the predicted "
            "time, waiting for other ranks included (%s by %s, %zu bytes a block: predicted %.4g us, took "
            "%.4g us); measure again with `braid calibrate`",
            family->settings.calibration, BR_DRIFT_WINDOW, off > 1 ? "more" : "less", off,
            br_collective_name(op->collective), br_way_name(op->way, name),
            op->count * br_type_size(op->type), op->predicted * 1e6, seconds * 1e6);
}

void br_comm_operation_ended(struct br_operation *op)
{
    if (op->span.row)
        br_tracing_end(op->comm->family->trace, op, op->comm->family->now);
    br_comm_unuse_memory(op->comm, op);
    if (op->whole) /* no call of the program's: neither counted nor reported */
        return;
    if (op->surveys) {
        br_views_ended(op->comm->family, op->comm->family->now);
        return;
    }
    if (op->status)
        op->comm->failed_operations++;
    else
        op->comm->operations++;
    if (op->kind == BR_OPERATION_COLLECTIVE && op->began && !op->status)
        watch_calibration(op->comm->family, op);
    if (op->comm->family->usages && op->kind == BR_OPERATION_COLLECTIVE && op->began && !op->status)
        br_usages_add(op->comm->family->usages, op, (uint32_t)op->comm->size, op->began,
                      op->comm->family->now);
}
