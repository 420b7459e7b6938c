/* SPDX-License-Identifier: BSD-3-Clause */
/* The public calls of collectives: check the arguments, make an operation of them, submit it, wait
 * if the caller blocks. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/process.h"
#include "base/sized.h"
#include "base/trace.h"
#include "collectives/comm/api.h"
#include "collectives/comm/call_group.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/completion.h"
#include "collectives/comm/context.h"
#include "collectives/comm/gpu_ops.h"
#include "collectives/comm/handles.h"
#include "collectives/comm/operation_memory.h"
#include "collectives/comm/operation_pool.h"
#include "collectives/comm/progress.h"
#include "collectives/comm/progress_shm.h"
#include "collectives/comm/reductions.h"
#include "collectives/engine/operation.h"
#include "collectives/schedule/type.h"

/* What this rank reads and writes in a call; 0: it does not. */
struct call_bytes {
    size_t send, recv;
};

static bool api_reads(const struct braid_comm *comm, const struct br_api_even *c)
{
    return !br_collective_from_root(c->collective) || c->root == comm->rank;
}

/* ---- checks ---------------------------------------------------------------------------------- */

int br_api_read_options(const char *name, const struct braid_options **options,
                        struct braid_options *copy)
{
    int rc;

    if (!br_sized_fits(*options, sizeof *copy, sizeof *copy)) {
        rc = br_sized_read(name, "braid_options", *options, sizeof *copy, sizeof *copy, copy);
        if (rc)
            return rc;
        *options = copy;
    }
    if ((*options)->wait_ms < 0)
        return br_error(EINVAL, "%s: wait_ms is %d; it must not be negative (0: only submit)", name,
                        (*options)->wait_ms);
    if ((*options)->wait_ms && (rc = br_completion_may_block(name)))
        return rc;
    if ((*options)->timeout_ms < 0)
        return br_error(EINVAL,
                        "%s: timeout_ms is %d; it must not be negative (0: the communicator's)",
                        name, (*options)->timeout_ms);
    if ((unsigned)(*options)->order > BRAID_ORDER_RANKS)
        return br_error(EINVAL, "%s: there is no order %d", name, (int)(*options)->order);
    return 0;
}

/* send and recv of this rank may be apart, or in place as braid.h says; anything else would be
 * overwritten before it is read. */
static int check_overlap(const struct braid_comm *comm, const char *name,
                         const struct br_api_even *c, const struct call_bytes *bytes)
{
    uintptr_t send = (uintptr_t)c->send, recv = (uintptr_t)c->recv;
    size_t own = (size_t)comm->rank * c->count * br_type_size(c->type);
    const char *in_place = "recv == send";
    bool is_in_place = recv == send;

    if (!bytes->send || !bytes->recv || send + bytes->send <= recv || recv + bytes->recv <= send)
        return 0;
    if (bytes->send > bytes->recv) {
        in_place = "recv == send + rank * count";
        is_in_place = recv == send + own;
    } else if (bytes->send < bytes->recv) {
        in_place = "send == recv + rank * count";
        is_in_place = send == recv + own;
    }
    return is_in_place
               ? 0
               : br_error(EINVAL,
                          "%s: send (%zu bytes from %p) and recv (%zu bytes from %p) of "
                          "rank %d overlap; they may only if it is in place: %s",
                          name, bytes->send, c->send, bytes->recv, c->recv, comm->rank, in_place);
}

int br_api_check_values(const struct braid_comm *comm, const char *name,
                        enum br_collective collective, enum braid_type type,
                        enum braid_reduction reduction, int root)
{
    int rc;

    if ((unsigned)type >= BRAID_TYPES)
        return br_error(EINVAL, "%s: there is no data type %d", name, (int)type);
    if (br_collective_reduces(collective) && !br_type_has_reduction(type, reduction) &&
        (rc = br_reductions_check(comm, name, type, reduction)))
        return rc; /* else it is the program's own */
    if ((collective == BR_SCAN || collective == BR_EXSCAN) && reduction == BRAID_AVG)
        return br_error(EINVAL, "%s: avg is of all ranks; there is none of the first few", name);
    if (root < 0 || root >= comm->size)
        return br_error(EINVAL, "%s: root is %d, ranks are 0 to %d", name, root, comm->size - 1);
    return 0;
}

/* 0, and the bytes of both buffers; -EINVAL, -EPERM with a message. */
static int check_call(struct braid_comm *comm, const char *name, const struct br_api_even *c,
                      struct call_bytes *bytes)
{
    int rc = br_comm_check(comm, name);
    uint32_t n;
    size_t block;

    *bytes = (struct call_bytes){0};
    if (rc || c->collective == BR_BARRIER)
        return rc;
    rc = br_api_check_values(comm, name, c->collective, c->type, c->reduction, c->root);
    if (rc)
        return rc;
    if (c->count > SIZE_MAX / 8 / (size_t)comm->size)
        return br_error(EINVAL,
                        "%s: %zu elements from each of %d ranks are more than memory can hold",
                        name, c->count, comm->size);
    n = (uint32_t)comm->size;
    block = c->count * br_type_size(c->type);
    if (api_reads(comm, c))
        bytes->send = block * br_collective_blocks(c->collective, n, BR_INPUT);
    if (br_collective_writes(c->collective, (uint32_t)comm->rank, (uint32_t)c->root))
        bytes->recv = block * br_collective_blocks(c->collective, n, BR_OUTPUT);
    if (bytes->send && !c->send)
        return br_error(EINVAL, "%s: send is NULL", name);
    if (bytes->recv && !c->recv)
        return br_error(EINVAL, "%s: recv is NULL", name);
    return check_overlap(comm, name, c, bytes);
}

/* ---- from call to result --------------------------------------------------------------------- */

void br_api_apply_options(const struct braid_comm *comm, const struct braid_options *options,
                          struct br_operation *op)
{
    struct br_trace *trace;

    op->timeout = comm->context->settings.timeout;
    op->by_rank = comm->context->settings.order == BRAID_ORDER_RANKS;
    if (!options)
        return;
    op->priority = options->priority;
    op->tag = options->tag;
    op->wait = (uint64_t)options->wait_ms * BR_MS;
    op->done = options->done;
    op->done_context = options->context;
    op->all_on_gpu = options->all_on_gpu;
    op->by_rank |= options->order == BRAID_ORDER_RANKS;
    trace =
        options->title ? atomic_load_explicit(&comm->context->trace, memory_order_acquire) : NULL;
    if (trace)
        op->title = br_trace_title(trace, options->title);
    if (options->timeout_ms)
        op->timeout = (uint64_t)options->timeout_ms * BR_MS;
    if (options->algorithm && strcmp(options->algorithm, "auto") != 0)
        snprintf(op->algorithm, sizeof op->algorithm, "%s", options->algorithm);
}

/* The call has waited for as long as options.wait_ms says for an operation with this handle, which
 * has no `done` yet. ended: whether it has ended by then; then *out is NULL. */
static int api_leave(struct br_operation *op, struct braid_op *handle, bool ended,
                     void (*done)(void *context, int result), struct braid_op **out)
{
    if (!ended) {
        *out = handle; /* before: `done` may be called by another thread at once */
        if (!done || br_completion_ask(op, done))
            return 0;
    }
    *out = NULL;
    return braid_wait(handle, -1);
}

static int api_submit_and_wait(struct br_operation *op, struct braid_op **out)
{
    struct braid_op *handle = br_operation_handle(op);
    void (*done)(void *context, int result) = op->done;

    op->done = NULL; /* of an end within the call the result tells */
    return api_leave(op, handle, br_progress_run(op, (uintptr_t)handle, op->wait), done, out);
}

int br_api_submit(struct br_operation *op, struct braid_op **out)
{
    if (br_call_group_is_open())
        return br_call_group_add(op, out);
    if (!out && !op->done) {
        br_progress_run(op, 0, UINT64_MAX);
        return br_comm_finish_operation(op);
    }
    if (out && op->wait)
        return api_submit_and_wait(op, out);
    op->released = !out;
    if (out) /* before: `done` may be called by another thread at once */
        *out = br_operation_handle(op);
    br_progress_submit(op);
    return 0;
}

/* Fills in an operation and finds out which GPUs its memory lies on. 0, or a negative errno with a
 * message. */
static int api_fill(const struct braid_comm *comm, const char *name, const struct br_api_even *c,
                    const struct call_bytes *bytes, const struct braid_options *options,
                    struct br_operation *op)
{
    br_api_apply_options(comm, options, op);
    op->kind = BR_OPERATION_COLLECTIVE;
    op->collective = c->collective;
    op->count = c->count;
    op->type = c->type;
    op->reduction = c->reduction;
    if (op->reduction >= BRAID_REDUCTION_USER)
        br_reductions_apply(comm, op);
    op->root = c->root;
    op->send = api_reads(comm, c) ? c->send : c->recv;
    op->recv = c->recv;
    op->send_bytes = bytes->send;
    op->recv_bytes = bytes->recv;
    return br_comm_probe_memory(name, op);
}

/* A call on the short way that may have to go on without its caller. */
struct api_short_call {
    struct br_going_on going_on;
    struct braid_comm *comm;
    const struct br_api_even *call;
    const struct call_bytes *bytes;
    const struct braid_options *options;
    struct braid_op *handle; /* of going_on.op */
};

static struct br_operation *api_go_on(struct br_going_on *going_on)
{
    struct api_short_call *short_call = br_container_of(going_on, struct api_short_call, going_on);
    struct br_operation *op = br_comm_get_operation(short_call->comm);

    if (op) {
        (void)api_fill(short_call->comm, "", short_call->call, short_call->bytes,
                       short_call->options, op); /* it has found no GPU before */
        short_call->handle = br_operation_handle(op);
    }
    return op;
}

/* An operation has left the short way: waits for what is left. Apart, as it may come to a
 * cancellation point (base/process.h, note 5). */
__attribute__((noinline)) static int api_wait_on(const struct api_short_call *short_call,
                                                 struct braid_op **out)
{
    BR_DISABLE_CANCELLATION;
    struct br_operation *op = short_call->going_on.op;
    struct br_context *context = short_call->comm->context;
    bool ended = br_progress_wait(context, short_call->handle, op->wait);

    return api_leave(op, short_call->handle, ended, short_call->options->done, out);
}

/* The short way for small collectives of one host whose caller waits for a while; the operation is
 * in the pool when *out is its handle. */
static bool api_call_shm(struct braid_comm *comm, const struct br_api_even *c,
                         const struct call_bytes *bytes, const struct braid_options *options,
                         struct braid_op **out, int *rc)
{
    struct api_short_call short_call = {{.make = api_go_on}, comm, c, bytes, options, NULL};
    struct br_operation op;

    br_operation_init(&op, comm, comm->group);
    *rc = api_fill(comm, "", c, bytes, options, &op);
    if (*rc || br_operation_is_staged(&op) || !br_progress_shm(comm, &op, &short_call.going_on))
        return false;
    *rc = short_call.going_on.op ? api_wait_on(&short_call, out) : br_operation_result(&op);
    return true;
}

/* Apart, as it may come to a cancellation point (base/process.h, note 5). */
__attribute__((noinline)) static void api_run(struct br_operation *op)
{
    BR_DISABLE_CANCELLATION;

    br_progress_run(op, 0, UINT64_MAX);
}

/* Nobody else hears of the operation: it needs no place in the pool. small: BR_SMALL_BEGUN: it goes
 * on with what has begun. */
__attribute__((noinline)) static int api_call_operation(struct braid_comm *comm, const char *name,
                                                        const struct br_api_even *c,
                                                        const struct call_bytes *bytes,
                                                        const struct braid_options *options,
                                                        enum br_small small)
{
    struct br_operation op;
    int rc;

    br_operation_init(&op, comm, comm->group);
    rc = api_fill(comm, name, c, bytes, options, &op);
    if (small == BR_SMALL_BEGUN)
        br_progress_small_go_on(comm, &op); /* rc is 0, as the job has no GPUs */
    else if (rc)
        return rc;
    else if (!comm->shm || br_operation_is_staged(&op) || !br_progress_shm(comm, &op, NULL))
        api_run(&op);
    return br_operation_result(&op);
}

static int api_call_blocking(struct braid_comm *comm, const char *name, const struct br_api_even *c,
                             const struct call_bytes *bytes, const struct braid_options *options)
{
    bool any = !options || !options->algorithm || !strcmp(options->algorithm, "auto");
    enum br_small small = comm->shm && any ? br_progress_small(comm, c) : BR_SMALL_NOT_BEGUN;

    return small == BR_SMALL_COMPLETE ? 0
                                      : api_call_operation(comm, name, c, bytes, options, small);
}

static int api_make(struct braid_comm *comm, const char *name, const struct br_api_even *c,
                    const struct call_bytes *bytes, const struct braid_options *options,
                    struct br_operation **out)
{
    struct br_operation *op = br_comm_get_operation(comm);
    int rc;

    if (!op)
        return -ENOMEM;
    rc = api_fill(comm, name, c, bytes, options, op);
    if (rc)
        br_comm_put_operation(op);
    *out = op;
    return rc;
}

int br_api_make_even(struct braid_comm *comm, const char *name, const struct br_api_even *call,
                     const struct braid_options *options, struct br_operation **op)
{
    struct braid_options copy;
    struct call_bytes bytes;
    int rc = check_call(comm, name, call, &bytes);

    if (!rc)
        rc = br_api_check_options(name, &options, &copy);
    return rc ? rc : api_make(comm, name, call, &bytes, options, op);
}

int br_api_begin(struct br_operation *op, bool persistent, struct braid_op **out)
{
    int rc;

    op->persistent = persistent;
    if (!persistent)
        return br_api_submit(op, out);
    rc = br_comm_prepare_operation(op);
    if (rc)
        br_comm_put_operation(op);
    else
        *out = br_operation_handle(op);
    return rc;
}

/* Apart, as it may come to a cancellation point. */
__attribute__((noinline)) static int api_make_and_begin(struct braid_comm *comm, const char *name,
                                                        const struct br_api_even *c,
                                                        const struct call_bytes *bytes,
                                                        const struct braid_options *options,
                                                        bool persistent, struct braid_op **out)
{
    BR_DISABLE_CANCELLATION;
    struct br_operation *op;
    int rc = api_make(comm, name, c, bytes, options, &op);

    return rc ? rc : br_api_begin(op, persistent, out);
}

/* The short ways have no cancellation point (base/process.h, note 5). */
static int api_call(struct braid_comm *comm, const char *name, const struct br_api_even *c,
                    const struct braid_options *options, bool persistent, struct braid_op **out)
{
    struct braid_options copy;
    bool recorded = br_call_group_is_open();
    struct call_bytes bytes;
    int rc = check_call(comm, name, c, &bytes);

    if (out)
        *out = NULL;
    if (!rc)
        rc = br_api_check_options(name, &options, &copy);
    if (!rc && persistent && !out)
        rc = br_error(EINVAL, "%s: nowhere to store the operation", name);
    if (rc)
        return rc;
    if (br_api_blocks(options, out)) {
        rc = br_completion_may_block(name);
        if (rc || !recorded)
            return rc ? rc : api_call_blocking(comm, name, c, &bytes, options);
    } else if (out && !persistent && !recorded && options && options->wait_ms && comm->shm &&
               api_call_shm(comm, c, &bytes, options, out, &rc)) {
        return rc;
    }
    return api_make_and_begin(comm, name, c, &bytes, options, persistent, out);
}

/* ---- collectives ----------------------------------------------------------------------------- */

int braid_allreduce(struct braid_comm *comm, const void *send, void *recv, size_t count,
                    enum braid_type type, enum braid_reduction reduction,
                    const struct braid_options *options, struct braid_op **op)
{
    return api_call(comm, "braid_allreduce",
                    &(struct br_api_even){BR_ALLREDUCE, send, recv, count, type, reduction, 0},
                    options, false, op);
}

int braid_allreduce_init(struct braid_comm *comm, const void *send, void *recv, size_t count,
                         enum braid_type type, enum braid_reduction reduction,
                         const struct braid_options *options, struct braid_op **op)
{
    return api_call(comm, "braid_allreduce_init",
                    &(struct br_api_even){BR_ALLREDUCE, send, recv, count, type, reduction, 0},
                    options, true, op);
}

int braid_reduce_scatter(struct braid_comm *comm, const void *send, void *recv, size_t count,
                         enum braid_type type, enum braid_reduction reduction,
                         const struct braid_options *options, struct braid_op **op)
{
    return api_call(comm, "braid_reduce_scatter",
                    &(struct br_api_even){BR_REDUCE_SCATTER, send, recv, count, type, reduction, 0},
                    options, false, op);
}

int braid_reduce_scatter_init(struct braid_comm *comm, const void *send, void *recv, size_t count,
                              enum braid_type type, enum braid_reduction reduction,
                              const struct braid_options *options, struct braid_op **op)
{
    return api_call(comm, "braid_reduce_scatter_init",
                    &(struct br_api_even){BR_REDUCE_SCATTER, send, recv, count, type, reduction, 0},
                    options, true, op);
}

int braid_allgather(struct braid_comm *comm, const void *send, void *recv, size_t count,
                    enum braid_type type, const struct braid_options *options, struct braid_op **op)
{
    return api_call(comm, "braid_allgather",
                    &(struct br_api_even){BR_ALLGATHER, send, recv, count, type, BRAID_SUM, 0},
                    options, false, op);
}

int braid_allgather_init(struct braid_comm *comm, const void *send, void *recv, size_t count,
                         enum braid_type type, const struct braid_options *options,
                         struct braid_op **op)
{
    return api_call(comm, "braid_allgather_init",
                    &(struct br_api_even){BR_ALLGATHER, send, recv, count, type, BRAID_SUM, 0},
                    options, true, op);
}

int braid_broadcast(struct braid_comm *comm, const void *send, void *recv, size_t count,
                    enum braid_type type, int root, const struct braid_options *options,
                    struct braid_op **op)
{
    return api_call(comm, "braid_broadcast",
                    &(struct br_api_even){BR_BROADCAST, send, recv, count, type, BRAID_SUM, root},
                    options, false, op);
}

int braid_broadcast_init(struct braid_comm *comm, const void *send, void *recv, size_t count,
                         enum braid_type type, int root, const struct braid_options *options,
                         struct braid_op **op)
{
    return api_call(comm, "braid_broadcast_init",
                    &(struct br_api_even){BR_BROADCAST, send, recv, count, type, BRAID_SUM, root},
                    options, true, op);
}

int braid_reduce(struct braid_comm *comm, const void *send, void *recv, size_t count,
                 enum braid_type type, enum braid_reduction reduction, int root,
                 const struct braid_options *options, struct braid_op **op)
{
    return api_call(comm, "braid_reduce",
                    &(struct br_api_even){BR_REDUCE, send, recv, count, type, reduction, root},
                    options, false, op);
}

int braid_reduce_init(struct braid_comm *comm, const void *send, void *recv, size_t count,
                      enum braid_type type, enum braid_reduction reduction, int root,
                      const struct braid_options *options, struct braid_op **op)
{
    return api_call(comm, "braid_reduce_init",
                    &(struct br_api_even){BR_REDUCE, send, recv, count, type, reduction, root},
                    options, true, op);
}

int braid_alltoall(struct braid_comm *comm, const void *send, void *recv, size_t count,
                   enum braid_type type, const struct braid_options *options, struct braid_op **op)
{
    return api_call(comm, "braid_alltoall",
                    &(struct br_api_even){BR_ALLTOALL, send, recv, count, type, BRAID_SUM, 0},
                    options, false, op);
}

int braid_alltoall_init(struct braid_comm *comm, const void *send, void *recv, size_t count,
                        enum braid_type type, const struct braid_options *options,
                        struct braid_op **op)
{
    return api_call(comm, "braid_alltoall_init",
                    &(struct br_api_even){BR_ALLTOALL, send, recv, count, type, BRAID_SUM, 0},
                    options, true, op);
}

int braid_gather(struct braid_comm *comm, const void *send, void *recv, size_t count,
                 enum braid_type type, int root, const struct braid_options *options,
                 struct braid_op **op)
{
    return api_call(comm, "braid_gather",
                    &(struct br_api_even){BR_GATHER, send, recv, count, type, BRAID_SUM, root},
                    options, false, op);
}

int braid_gather_init(struct braid_comm *comm, const void *send, void *recv, size_t count,
                      enum braid_type type, int root, const struct braid_options *options,
                      struct braid_op **op)
{
    return api_call(comm, "braid_gather_init",
                    &(struct br_api_even){BR_GATHER, send, recv, count, type, BRAID_SUM, root},
                    options, true, op);
}

int braid_scatter(struct braid_comm *comm, const void *send, void *recv, size_t count,
                  enum braid_type type, int root, const struct braid_options *options,
                  struct braid_op **op)
{
    return api_call(comm, "braid_scatter",
                    &(struct br_api_even){BR_SCATTER, send, recv, count, type, BRAID_SUM, root},
                    options, false, op);
}

int braid_scatter_init(struct braid_comm *comm, const void *send, void *recv, size_t count,
                       enum braid_type type, int root, const struct braid_options *options,
                       struct braid_op **op)
{
    return api_call(comm, "braid_scatter_init",
                    &(struct br_api_even){BR_SCATTER, send, recv, count, type, BRAID_SUM, root},
                    options, true, op);
}

int braid_scan(struct braid_comm *comm, const void *send, void *recv, size_t count,
               enum braid_type type, enum braid_reduction reduction,
               const struct braid_options *options, struct braid_op **op)
{
    return api_call(comm, "braid_scan",
                    &(struct br_api_even){BR_SCAN, send, recv, count, type, reduction, 0}, options,
                    false, op);
}

int braid_scan_init(struct braid_comm *comm, const void *send, void *recv, size_t count,
                    enum braid_type type, enum braid_reduction reduction,
                    const struct braid_options *options, struct braid_op **op)
{
    return api_call(comm, "braid_scan_init",
                    &(struct br_api_even){BR_SCAN, send, recv, count, type, reduction, 0}, options,
                    true, op);
}

int braid_exscan(struct braid_comm *comm, const void *send, void *recv, size_t count,
                 enum braid_type type, enum braid_reduction reduction,
                 const struct braid_options *options, struct braid_op **op)
{
    return api_call(comm, "braid_exscan",
                    &(struct br_api_even){BR_EXSCAN, send, recv, count, type, reduction, 0},
                    options, false, op);
}

int braid_exscan_init(struct braid_comm *comm, const void *send, void *recv, size_t count,
                      enum braid_type type, enum braid_reduction reduction,
                      const struct braid_options *options, struct braid_op **op)
{
    return api_call(comm, "braid_exscan_init",
                    &(struct br_api_even){BR_EXSCAN, send, recv, count, type, reduction, 0},
                    options, true, op);
}

int braid_barrier(struct braid_comm *comm, const struct braid_options *options,
                  struct braid_op **op)
{
    return api_call(comm, "braid_barrier", &(struct br_api_even){.collective = BR_BARRIER}, options,
                    false, op);
}

int braid_barrier_init(struct braid_comm *comm, const struct braid_options *options,
                       struct braid_op **op)
{
    return api_call(comm, "braid_barrier_init", &(struct br_api_even){.collective = BR_BARRIER},
                    options, true, op);
}
