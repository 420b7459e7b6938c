/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/system/collective.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "collectives/schedule/type.h"
#include "tests/system/app_gpu.h"
#include "tests/system/ranks.h"

const char *const collective_ways[] = {"blocking", "wait", "test", "short waits", "persistent"};

struct case_buffers collective_buffers(struct braid_comm *comm, const struct collective_call *call,
                                       uint8_t *send, uint8_t *recv)
{
    return case_place(&call->of, braid_size(comm), braid_rank(comm), send, recv);
}

struct case_buffers collective_seen(const struct case_buffers *buffers)
{
    struct case_buffers seen = *buffers;

    seen.send = own_gpu_view(buffers->send);
    seen.recv = own_gpu_view(buffers->recv);
    return seen;
}

/* Displacements are left out where blocks follow each other. */
static int submit_uneven(struct braid_comm *comm, const struct collective_call *call,
                         const void *send, void *recv, struct braid_op **op)
{
    const struct collective_case *c = &call->of;
    const struct braid_options *o = &call->options;
    enum braid_type type = c->data.type;
    bool keep = call->form == WAY_PERSISTENT, packed = case_packed(c);
    size_t arrays[4][RANKS_MOST],
        *counts[2] = {arrays[0], arrays[2]},
        *offsets[2] = {packed ? NULL : arrays[1], packed ? NULL : arrays[3]};
    int root = c->root, n = braid_size(comm), rank = braid_rank(comm), rc;

    for (int i = 0; i < 2; i++)
        case_arrays(c, n, (enum br_buffer)i, rank, arrays[2 * i], arrays[2 * i + 1]);
    switch (c->collective) {
    case BR_ALLTOALL:
        rc = (keep ? braid_alltoallv_init : braid_alltoallv)(
            comm, send, counts[0], offsets[0], recv, counts[1], offsets[1], type, o, op);
        break;
    case BR_ALLGATHER:
        rc = (keep ? braid_allgatherv_init : braid_allgatherv)(comm, send, counts[0][0], recv,
                                                               counts[1], offsets[1], type, o, op);
        break;
    case BR_REDUCE_SCATTER:
        rc = (keep ? braid_reduce_scatterv_init : braid_reduce_scatterv)(
            comm, send, counts[0], offsets[0], recv, type, c->data.reduction, o, op);
        break;
    case BR_GATHER:
        rc = (keep ? braid_gatherv_init
                   : braid_gatherv)(comm, send, counts[0][0], recv, rank == root ? counts[1] : NULL,
                                    rank == root ? offsets[1] : NULL, type, root, o, op);
        break;
    default:
        rc = (keep ? braid_scatterv_init : braid_scatterv)(
            comm, send, rank == root ? counts[0] : NULL, rank == root ? offsets[0] : NULL, recv,
            counts[1][0], type, root, o, op);
        break;
    }
    memset(arrays, 0xff, sizeof arrays); /* they are copied */
    return rc;
}

static int submit(struct braid_comm *comm, const struct collective_call *call, const void *send,
                  void *recv, struct braid_op **op)
{
    const struct collective_case *c = &call->of;
    const struct braid_options *o = &call->options;
    enum braid_reduction by = c->data.reduction;
    enum braid_type type = c->data.type;
    bool keep = call->form == WAY_PERSISTENT;
    int root = c->root;

    if (c->uneven)
        return submit_uneven(comm, call, send, recv, op);
    switch (c->collective) {
    case BR_ALLREDUCE:
        return (keep ? braid_allreduce_init : braid_allreduce)(comm, send, recv, c->count, type, by,
                                                               o, op);
    case BR_REDUCE_SCATTER:
        return (keep ? braid_reduce_scatter_init : braid_reduce_scatter)(comm, send, recv, c->count,
                                                                         type, by, o, op);
    case BR_ALLGATHER:
        return (keep ? braid_allgather_init : braid_allgather)(comm, send, recv, c->count, type, o,
                                                               op);
    case BR_BROADCAST:
        return (keep ? braid_broadcast_init : braid_broadcast)(comm, send, recv, c->count, type,
                                                               root, o, op);
    case BR_REDUCE:
        return (keep ? braid_reduce_init : braid_reduce)(comm, send, recv, c->count, type, by, root,
                                                         o, op);
    case BR_ALLTOALL:
        return (keep ? braid_alltoall_init : braid_alltoall)(comm, send, recv, c->count, type, o,
                                                             op);
    case BR_GATHER:
        return (keep ? braid_gather_init : braid_gather)(comm, send, recv, c->count, type, root, o,
                                                         op);
    case BR_SCAN:
        return (keep ? braid_scan_init : braid_scan)(comm, send, recv, c->count, type, by, o, op);
    case BR_EXSCAN:
        return (keep ? braid_exscan_init : braid_exscan)(comm, send, recv, c->count, type, by, o,
                                                         op);
    case BR_SCATTER:
        return (keep ? braid_scatter_init : braid_scatter)(comm, send, recv, c->count, type, root,
                                                           o, op);
    default:
        return (keep ? braid_barrier_init : braid_barrier)(comm, o, op);
    }
}

static int wait_for(struct braid_op *op, enum collective_way way)
{
    int rc = 0, done = 0;

    switch (way) {
    case WAY_TEST:
        while (!rc && !done)
            rc = braid_test(op, &done);
        return rc;
    case WAY_SHORT_WAITS:
        for (int ms = 0; (rc = braid_wait(op, ms)) == -ETIMEDOUT &&
                         strstr(braid_last_error(), "still running");)
            ms = ms < 8 ? ms + 1 : ms;
        return rc;
    default:
        return braid_wait(op, -1);
    }
}

static int send_and_receive(struct braid_comm *comm, const struct collective_call *call,
                            const struct case_buffers *b)
{
    int n = braid_size(comm), rank = braid_rank(comm), rc, sent;
    struct braid_op *receive, *send;

    rc = braid_recv(comm, b->recv, b->recv_bytes, (rank + n - 1) % n, NULL, &receive);
    if (rc)
        return rc;
    sent = braid_send(comm, b->send, b->send_bytes, (rank + 1) % n, NULL, &send);
    rc = wait_for(receive, call->form);
    if (!sent)
        sent = wait_for(send, call->form);
    return rc ? rc : sent;
}

int collective_run(struct braid_comm *comm, const struct collective_call *call,
                   const struct case_buffers *buffers)
{
    struct braid_op *op = NULL;
    int rc, freed = 0;

    if (call->of.collective == CASE_SENDRECV)
        return send_and_receive(comm, call, buffers);
    rc = submit(comm, call, buffers->send, buffers->recv, call->form == WAY_BLOCK ? NULL : &op);
    if (rc || call->form == WAY_BLOCK)
        return rc;
    if (call->form == WAY_PERSISTENT)
        rc = braid_start(op);
    if (!rc)
        rc = wait_for(op, call->form);
    if (call->form == WAY_PERSISTENT)
        freed = braid_op_free(op);
    return rc ? rc : freed;
}

int collective_check(struct braid_comm *comm, const struct collective_call *call, uint8_t *send,
                     uint8_t *recv, const void *right)
{
    const struct collective_case *c = &call->of;
    struct case_buffers given = collective_buffers(comm, call, send, recv),
                        seen = collective_seen(&given);
    char text[120];
    int rc;

    case_fill(c, braid_rank(comm), &seen);
    own_gpu_written(given.send);
    own_gpu_written(given.recv);
    rc = collective_run(comm, call, &given);
    own_gpu_read(given.send);
    own_gpu_read(given.recv);
    if (rc)
        snprintf(text, sizeof text, "%d was returned (%.60s)", rc, braid_last_error());
    else if (case_check(c, braid_size(comm), braid_rank(comm), &seen, right, text, sizeof text))
        return 0;
    fprintf(
        stderr,
        "rank %d of %d: %s %s %s, %zu elements, root %d, %s, algorithm %s, priority %d, %s: %s\n",
        braid_rank(comm), braid_size(comm), case_name(c), br_type_name(c->data.type),
        br_reduction_name(c->data.reduction), c->count, c->root, c->in_place ? "in place" : "apart",
        call->options.algorithm ? call->options.algorithm : "auto", call->options.priority,
        collective_ways[call->form], text);
    return 1;
}
