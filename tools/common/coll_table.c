/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/common/coll_table.h"

#include <string.h>

#include "base/clock.h"
#include "collectives/schedule/type.h"

static const struct br_coll kinds[] = {
    {.id = BR_COLL_ALLREDUCE,
     .name = "allreduce",
     .reduces = true,
     .in_place = true,
     .bus_steps = 2},
    {.id = BR_COLL_REDUCE_SCATTER,
     .name = "reduce_scatter",
     .reduces = true,
     .in_place = true,
     .sends_all = true,
     .bus_steps = 1},
    {.id = BR_COLL_ALLGATHER,
     .name = "allgather",
     .in_place = true,
     .recvs_all = true,
     .bus_steps = 1},
    {.id = BR_COLL_BROADCAST, .name = "broadcast", .rooted = true, .in_place = true},
    {.id = BR_COLL_REDUCE, .name = "reduce", .reduces = true, .rooted = true, .in_place = true},
    {.id = BR_COLL_BARRIER, .name = "barrier"},
    {.id = BR_COLL_ALLTOALL,
     .name = "alltoall",
     .in_place = true,
     .sends_all = true,
     .recvs_all = true,
     .bus_steps = 1},
    {.id = BR_COLL_GATHER,
     .name = "gather",
     .rooted = true,
     .in_place = true,
     .recvs_all = true,
     .bus_steps = 1},
    {.id = BR_COLL_SCATTER,
     .name = "scatter",
     .rooted = true,
     .in_place = true,
     .sends_all = true,
     .bus_steps = 1},
    {.id = BR_COLL_SCAN, .name = "scan", .reduces = true, .in_place = true},
    {.id = BR_COLL_EXSCAN, .name = "exscan", .reduces = true, .in_place = true},
    {.id = BR_COLL_SENDRECV, .name = "sendrecv"},
};

const struct br_coll *br_coll_find(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].name, name))
            return &kinds[i];
    return NULL;
}

struct br_coll_shape br_coll_shape(const struct br_coll *coll, size_t bytes, enum braid_type type,
                                   int ranks)
{
    struct br_coll_shape shape = {0};
    size_t n = (size_t)ranks;
    if (coll->id == BR_COLL_BARRIER)
        return shape;
    shape.count = bytes / br_type_size(type) / (coll->sends_all || coll->recvs_all ? n : 1);
    shape.send = shape.count * (coll->sends_all ? n : 1);
    shape.recv = shape.count * (coll->recvs_all ? n : 1);
    if (shape.recv < shape.send)
        shape.recv_offset = shape.count;
    else if (shape.send < shape.recv)
        shape.send_offset = shape.count;
    return shape;
}

void br_coll_bandwidth(const struct br_coll_call *call, int ranks, double seconds,
                       double *algorithm, double *bus)
{
    size_t elements = call->shape.send > call->shape.recv ? call->shape.send : call->shape.recv;
    double bytes = (double)elements * (double)br_type_size(call->data.type);
    *algorithm = seconds > 0 ? bytes / 1e9 / seconds : 0;
    *bus = call->coll->bus_steps ? *algorithm * call->coll->bus_steps * (ranks - 1) / ranks
                                 : *algorithm;
}

static int next_rank(struct braid_comm *comm)
{
    return (braid_rank(comm) + 1) % braid_size(comm);
}

static int previous_rank(struct braid_comm *comm)
{
    return (braid_rank(comm) + braid_size(comm) - 1) % braid_size(comm);
}

/* Round the ring, both directions of every rank at once. */
static int submit_sendrecv(struct braid_comm *comm, const struct br_coll_call *call,
                           const void *send, void *recv, struct braid_op **ops)
{
    struct braid_op *own[2] = {NULL, NULL};
    struct braid_op **both = ops ? ops : own;
    size_t bytes = call->shape.count * br_type_size(call->data.type);
    int rc = braid_recv(comm, recv, bytes, previous_rank(comm), call->options, &both[0]);
    if (!rc)
        rc = braid_send(comm, send, bytes, next_rank(comm), call->options, &both[1]);
    if (rc && both[0])
        br_coll_wait(both); /* the communicator has failed: this ends soon */
    return rc || ops ? rc : br_coll_wait(both);
}

int br_coll_submit(struct braid_comm *comm, const struct br_coll_call *call, const void *send,
                   void *recv, struct braid_op **ops)
{
    const struct br_coll *coll = call->coll;
    const struct braid_options *o = call->options;
    size_t count = call->shape.count;
    enum braid_type type = call->data.type;
    enum braid_reduction reduction = call->data.reduction;
    if (ops)
        ops[0] = ops[1] = NULL;
    if (coll->id == BR_COLL_ALLREDUCE)
        return braid_allreduce(comm, send, recv, count, type, reduction, o, ops);
    if (coll->id == BR_COLL_REDUCE_SCATTER)
        return braid_reduce_scatter(comm, send, recv, count, type, reduction, o, ops);
    if (coll->id == BR_COLL_ALLGATHER)
        return braid_allgather(comm, send, recv, count, type, o, ops);
    if (coll->id == BR_COLL_BROADCAST)
        return braid_broadcast(comm, send, recv, count, type, call->root, o, ops);
    if (coll->id == BR_COLL_REDUCE)
        return braid_reduce(comm, send, recv, count, type, reduction, call->root, o, ops);
    if (coll->id == BR_COLL_BARRIER)
        return braid_barrier(comm, o, ops);
    if (coll->id == BR_COLL_ALLTOALL)
        return braid_alltoall(comm, send, recv, count, type, o, ops);
    if (coll->id == BR_COLL_GATHER)
        return braid_gather(comm, send, recv, count, type, call->root, o, ops);
    if (coll->id == BR_COLL_SCATTER)
        return braid_scatter(comm, send, recv, count, type, call->root, o, ops);
    if (coll->id == BR_COLL_SCAN)
        return braid_scan(comm, send, recv, count, type, reduction, o, ops);
    if (coll->id == BR_COLL_EXSCAN)
        return braid_exscan(comm, send, recv, count, type, reduction, o, ops);
    return submit_sendrecv(comm, call, send, recv, ops);
}

int br_coll_wait(struct braid_op **ops)
{
    int first = 0;
    for (int i = 0; i < 2; i++) {
        int rc = ops[i] ? braid_wait(ops[i], -1) : 0;
        ops[i] = NULL;
        first = first ? first : rc;
    }
    return first;
}

void br_coll_fill(struct braid_comm *comm, const struct br_coll_call *call, void *send)
{
    br_data_fill(&call->data, braid_rank(comm), 0, send, call->shape.send);
}

size_t br_coll_wrong(struct braid_comm *comm, const struct br_coll_call *call, const void *recv)
{
    const struct br_coll *coll = call->coll;
    const struct br_data *data = &call->data;
    size_t count = call->shape.count;
    int rank = braid_rank(comm), ranks = braid_size(comm);
    bool to_root = coll->id == BR_COLL_REDUCE || coll->id == BR_COLL_GATHER;
    /* where the block for this rank starts */
    size_t own = coll->sends_all ? (size_t)rank * count : 0;
    if (coll->id == BR_COLL_SCAN || coll->id == BR_COLL_EXSCAN)
        ranks = rank + (coll->id == BR_COLL_SCAN); /* whose values are in it */
    if (coll->id == BR_COLL_BARRIER || (to_root && rank != call->root) || !ranks)
        return 0;
    if (coll->recvs_all) {
        size_t wrong = 0, block = count * br_type_size(data->type);
        for (int r = 0; r < ranks; r++)
            wrong +=
                br_data_wrong_copy(data, r, own, (const char *)recv + (size_t)r * block, count);
        return wrong;
    }
    if (coll->id == BR_COLL_BROADCAST || coll->id == BR_COLL_SCATTER)
        return br_data_wrong_copy(data, call->root, own, recv, count);
    if (coll->id == BR_COLL_SENDRECV)
        return br_data_wrong_copy(data, previous_rank(comm), 0, recv, count);
    return br_data_wrong_reduced(data, ranks, own, recv, count);
}

int br_coll_time(const struct br_coll_timing *c, double *seconds)
{
    struct braid_options options = {.algorithm = c->algorithm};
    struct br_coll_call call = {
        .coll = c->coll,
        .data = {.type = BRAID_FLOAT32, .reduction = BRAID_SUM},
        .shape = br_coll_shape(c->coll, c->bytes, BRAID_FLOAT32, braid_size(c->comm)),
        .options = &options};
    int64_t calls = 1;
    uint64_t start;
    int rc = 0;

    for (int phase = 0; phase < 2 && calls > 0 && !rc; phase++) {
        rc = braid_barrier(c->comm, NULL, NULL);
        start = br_clock_now();
        for (int64_t i = 0; i < calls && !rc; i++)
            rc = br_coll_submit(c->comm, &call, c->send, c->recv, NULL);
        *seconds = (double)(br_clock_now() - start) / 1e9 / (double)calls;
        if (!rc && phase == 0) {
            /* what a first call has to prepare is little beside 5 times min_ns */
            double most = (double)c->min_ns / 1e9 / (*seconds > 1e-7 ? *seconds : 1e-7);

            calls = c->once && most * 5 < 1 ? 0
                    : most < 2              ? 2
                    : most > c->max_calls   ? c->max_calls
                                            : (int64_t)most;
            rc = braid_allreduce(c->comm, &calls, &calls, 1, BRAID_INT64, BRAID_MIN, NULL, NULL);
        }
    }
    return rc ? rc
              : braid_allreduce(c->comm, seconds, seconds, 1, BRAID_FLOAT64, BRAID_AVG, NULL, NULL);
}
