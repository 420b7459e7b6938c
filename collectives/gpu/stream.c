/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations on streams of the program's GPUs (braid/gpu.h), and the executor that keeps the
 * collectives of a communicator in the order of their submission while one waits for its stream.
 * What stands in the stream: gpu/stream_op.h. The notes below are those of
 * doc/design/gpu_collectives.md, "Stream order". */
#include "collectives/gpu/stream.h"

#include <errno.h>
#include <stdio.h>

#include "base/error.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/comm/operation_pool.h"
#include "collectives/comm/progress.h"
#include "collectives/engine/engine.h"
#include "collectives/engine/operation.h"
#include "collectives/gpu/stream_local.h"
#include "protocol/worker.h"
#include "gpu/stream_op.h"
#include "gpu/pointer.h"

#define APART       64 /* input and result begin in cache lines of their own */
#define POLL_MIN_NS BR_STAGING_POLL_NS
#define POLL_MAX_NS (50 * BR_STAGING_POLL_NS)

/* ---- host memory ----------------------------------------------------------------------------- */

static void *gpu_stream_take(void *family, size_t bytes)
{
    return braid_alloc(((struct br_context *)family)->world, bytes);
}

static void gpu_stream_give_back(void *family, void *memory)
{
    braid_free(((struct br_context *)family)->world, memory);
}

int br_streams_create(struct br_context *context)
{
    pthread_mutex_init(&context->stream_lock, NULL);
    return br_stream_ops_create(
        &(struct br_stream_op_memory){gpu_stream_take, gpu_stream_give_back, context},
        &context->stream_ops);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Nobody asks for its result, so an error of it alone (an algorithm that does not exist) is the
 * communicator's, too. */
static void stream_op_completed(struct br_operation *op)
{
    struct br_context *context = op->comm->context;

    if (op->status)
        br_worker_fail(context->worker, -op->status, op->message);
    br_stream_op_release(op->stream_op);
    atomic_fetch_sub(&context->in_streams, 1);
    if (!op->done) /* else it is given back when that has been called */
        br_comm_put_operation(op);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void use_host_memory(struct br_operation *op, const struct br_stream_op_plan *plan)
{
    struct br_copier *copier = op->comm->context->copier;
    uint8_t *memory = br_stream_op_memory(op->stream_op);

    if (plan->send) {
        br_copier_count(copier, BR_COPY_TO_HOST, plan->send_bytes);
        op->send = memory;
    }
    if (plan->recv) {
        if (plan->recv_kept)
            br_copier_count(copier, BR_COPY_TO_HOST, plan->recv_bytes);
        br_copier_count(copier, BR_COPY_TO_GPU, plan->recv_bytes);
        op->recv = memory + plan->recv_at;
    }
    if (!op->send_bytes)
        op->send = op->recv; /* of a rank that has no input */
    op->send_gpu = op->recv_gpu = 0;
}

static int begin_copies(struct br_operation *op, void *stream)
{
    /* Sides of one size are in place, as any collective allows that. Between blocks whose places
     * the program says are elements of its own. */
    bool scattered = op->blocks[BR_INPUT].counts || op->blocks[BR_OUTPUT].counts,
         apart = op->send_gpu && (op->send_bytes != op->recv_bytes || scattered);
    const struct br_stream_op_plan plan = {
        .stream = stream,
        .send = op->send_gpu && op->send_bytes ? op->send : NULL,
        .send_bytes = op->send_bytes,
        .recv = op->recv_gpu && op->recv_bytes ? op->recv : NULL,
        .recv_bytes = op->recv_bytes,
        .recv_at = apart ? (op->send_bytes + APART - 1) / APART * APART : 0,
        .recv_kept = scattered};
    int rc = br_stream_op_begin(op->comm->context->stream_ops, &plan, &op->stream_op);

    if (!rc)
        use_host_memory(op, &plan);
    return rc;
}

static int begin_and_submit(struct br_operation *op, void *stream)
{
    int rc = op->stays_on_gpu ? br_stream_local_begin(op, stream) : begin_copies(op, stream);

    if (rc)
        return rc;
    op->completed = stream_op_completed;
    op->released = true; /* nobody will take its result */
    atomic_fetch_add(&op->comm->context->in_streams, 1);
    br_progress_end_nap(op->comm->context);
    br_progress_submit(op);
    return 0;
}

int br_stream_submit(struct br_operation *op, void *stream)
{
    struct br_context *context = op->comm->context;
    int rc = braid_comm_error(op->comm);

    rc = rc ? br_error_prefix(-ECANCELED, "the communicator has failed before: ") : br_gpu_check();
    if (!rc)
        rc = br_stream_local_choose(op);
    pthread_mutex_lock(
        /* operations are submitted in the order in which they are in the stream */
        &context->stream_lock);
    if (!rc)
        rc = begin_and_submit(op, stream);
    pthread_mutex_unlock(&context->stream_lock);
    if (rc)
        br_comm_put_operation(op);
    return rc;
}

/* ---- those that wait ------------------------------------------------------------------------- */

static bool has_arrived(const struct br_operation *op)
{
    return !op->stream_op || br_stream_op_arrived(op->stream_op);
}

static struct br_operation *gpu_stream_first(const struct br_list *held)
{
    return br_container_of(held->next, struct br_operation, node);
}

static struct braid_comm *comm_of(const struct br_executor *executor)
{
    return br_container_of(executor, struct braid_comm, stream_order);
}

static bool stream_order_takes(struct br_executor *executor, struct br_operation *op)
{
    return op->kind == BR_OPERATION_COLLECTIVE &&
           (!br_list_empty(&comm_of(executor)->deferred) || !has_arrived(op));
}

/* Only executors that keep something are stepped. This one goes before the engine, which then
 * begins in the same pass what a stream has come to. */
static int stream_order_submit(struct br_executor *executor, struct br_operation *op, uint64_t now)
{
    struct braid_comm *comm = comm_of(executor);

    (void)now;
    if (br_list_empty(&comm->deferred))
        br_list_push_front(&comm->context->executors, &executor->node);
    br_list_init(&op->node);
    br_list_push_back(&comm->deferred, &op->node);
    return 0;
}

static void gpu_stream_check_deadlines(struct braid_comm *comm, uint64_t now)
{
    struct br_worker *w = comm->context->worker;
    char text[sizeof w->message];
    size_t used;

    br_list_for_each (node, &comm->deferred) {
        const struct br_operation *op = br_container_of(node, struct br_operation, node);

        if (op->deadline > now)
            continue;
        used = br_operation_describe(op, text, sizeof text);
        snprintf(text + used, sizeof text - used,
                 " missed its deadline of %llu ms: waits for work before %s in a stream of a GPU",
                 (unsigned long long)(op->timeout / 1000000),
                 op == gpu_stream_first(&comm->deferred) ? "it" : "another");
        br_worker_fail(w, ETIMEDOUT, text);
        return;
    }
}

static int stream_order_step(struct br_executor *executor, uint64_t now)
{
    struct braid_comm *comm = comm_of(executor);
    struct br_worker *w = comm->context->worker;
    int n = 0;

    for (; !br_list_empty(&comm->deferred); n++) {
        struct br_operation *op = gpu_stream_first(&comm->deferred);

        if (!w->failed && !has_arrived(op))
            break;
        br_list_remove(&op->node);
        if (br_list_empty(&comm->deferred))
            br_list_remove(&executor->node);
        if (w->failed) {
            br_operation_fail(comm->context->engine, op);
            br_list_push_back(&executor->ended, &op->node);
        } else {
            br_executor_submit(executor->next, op, now);
        }
    }
    gpu_stream_check_deadlines(comm, now);
    return n;
}

static uint64_t stream_order_oldest(const struct br_executor *executor)
{
    const struct braid_comm *comm = comm_of(executor);

    return br_list_empty(&comm->deferred) ? UINT64_MAX : gpu_stream_first(&comm->deferred)->order;
}

/* Note 4. */
static uint64_t stream_order_due(const struct br_executor *executor, uint64_t now)
{
    const struct br_operation *op = gpu_stream_first(&comm_of(executor)->deferred);
    uint64_t look = (now - (op->deadline - op->timeout)) / 16;

    return now + (look < POLL_MIN_NS ? POLL_MIN_NS : look > POLL_MAX_NS ? POLL_MAX_NS : look);
}

void br_stream_order_init(struct braid_comm *comm)
{
    static const struct br_executor_ops ops = {.takes = stream_order_takes,
                                               .submit = stream_order_submit,
                                               .step = stream_order_step,
                                               .oldest = stream_order_oldest,
                                               .due = stream_order_due};

    comm->stream_order = (struct br_executor){.ops = &ops, .next = comm->executors};
    comm->executors = &comm->stream_order;
    br_list_init(&comm->stream_order.node);
    br_list_init(&comm->stream_order.ended);
}
