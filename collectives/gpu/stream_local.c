/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/gpu/stream_local.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/downgrade.h"
#include "base/error.h"
#include "base/log.h"
#include "collectives/comm/call_group.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/comm/progress_lock.h"
#include "collectives/engine/operation.h"
#include "collectives/gpu/stream_block.h"
#include "collectives/schedule/type.h"
#include "gpu/copier.h"
#include "gpu/kernels.h"
#include "gpu/offload.h"
#include "gpu/stream_op.h"
#include "gpu/stream_peers.h"
#include "protocol/worker.h"

/* The memory is a multiple of that. */
#define UNIT ((size_t)BR_STREAM_PEERS_SLOTS * 4096)

struct br_stream_local {
    pthread_mutex_t lock; /* of the first call */
    bool asked;
    struct br_stream_peers *peers; /* NULL when not all ranks could; else the context's */
};

/* What a rank says of itself. */
struct note {
    uint64_t bytes; /* of its memory, as BRAID_GPU_STREAM_BYTES says; 0: it cannot */
    struct br_ipc_note memory;
};

int br_stream_local_create(struct braid_comm *comm)
{
    comm->stream_local = calloc(1, sizeof *comm->stream_local);
    if (!comm->stream_local)
        return br_error(ENOMEM, "rank %d: no memory for all-reduces in streams", comm->rank);
    pthread_mutex_init(&comm->stream_local->lock, NULL);
    return 0;
}

void br_stream_local_destroy(struct braid_comm *comm)
{
    if (!comm->stream_local)
        return;
    pthread_mutex_destroy(&comm->stream_local->lock);
    free(comm->stream_local);
    comm->stream_local = NULL;
}

/* ---- the first call -------------------------------------------------------------------------- */

/* While no stream waits for us (note 12): allocates this rank's memory, or maps that of the
 * others. Negative errno with a message. */
static int allocate(const struct br_operation *op, struct br_stream_peers **peers,
                    struct note *mine)
{
    struct br_context *context = op->comm->context;
    struct CUctx_st *primary = NULL;
    const struct br_reducer *kernels = br_offload_kernels(context->offload, op->send_gpu, &primary);
    size_t bytes = context->settings.gpu_stream_bytes / UNIT * UNIT;
    int rc;

    if (!kernels)
        return br_error(EOPNOTSUPP, "GPU %d has no kernels", op->send_gpu - 1);
    if (context->n_stream_peers == BR_STREAM_PEERS)
        return br_error(EOPNOTSUPP, "%d communicators have memory for it", BR_STREAM_PEERS);
    rc = br_stream_peers_create(op->send_gpu, primary, kernels, (uint32_t)op->comm->size,
                                (uint32_t)op->comm->rank, bytes, peers);
    if (rc)
        return rc;
    context->stream_peers[context->n_stream_peers++] = *peers; /* to the end of the job */
    mine->bytes = bytes;
    return br_stream_peers_note(*peers, &mine->memory);
}

static int map_all(const struct br_operation *op, struct br_stream_peers *peers,
                   const struct note *notes)
{
    const struct braid_comm *comm = op->comm;
    int rc = 0;

    for (int r = 0; r < comm->size && !rc; r++)
        if (notes[r].bytes != notes[comm->rank].bytes)
            rc = br_error(EINVAL, "BRAID_GPU_STREAM_BYTES differs between the ranks");
        else if (r != comm->rank)
            rc = br_stream_peers_map(peers, (uint32_t)r, &notes[r].memory);
    return rc;
}

static int block_streams(const struct br_operation *op)
{
    return br_streams_wait_and_block(op->comm->context, op->timeout)
               ? 0
               : br_error(ETIMEDOUT, "operations in streams do not end");
}

static void refuse(const struct br_operation *op)
{
    br_downgrade(gpu_sharing);
    br_log_warn("rank %d: all-reduces in streams go through host memory: %s",
                op->comm->context->rank, br_error_message());
}

/* Tells the others of this rank's memory, and maps theirs (notes 11 and 12). 0, with
 * stream_local->peers where all could; or a negative errno with a message. */
static int agree(struct br_stream_local *local, const struct br_operation *op, bool suits,
                 struct note *notes)
{
    struct br_context *context = op->comm->context;
    const struct braid_options options = {.struct_size = sizeof options,
                                          .timeout_ms = (int)(op->timeout / BR_MS)};
    struct br_stream_peers *peers = NULL;
    struct note mine = {0};
    int32_t can = 1;
    int rc = 1; /* not, as the user says */

    if (context->settings.gpu_stream_bytes >= UNIT)
        rc = suits ? block_streams(op)
                   : br_error(EINVAL, "send and recv are not memory of one GPU's primary context");
    if (!rc) {
        rc = allocate(op, &peers, &mine);
        br_streams_unblock(context);
    }
    if (rc)
        mine.bytes = 0;
    if (rc < 0)
        refuse(op);
    rc = braid_allgather(op->comm, &mine, notes, sizeof mine, BRAID_UINT8, &options, NULL);
    if (rc)
        return br_error_prefix(rc, "the first call with all_on_gpu: ");
    for (int r = 0; r < op->comm->size; r++)
        can = can && notes[r].bytes;
    if (can) {
        rc = block_streams(op);
        if (!rc) {
            rc = map_all(op, peers, notes);
            br_streams_unblock(context);
        }
        if (rc)
            refuse(op);
    }
    can = can && !rc;
    rc = braid_allreduce(op->comm, &can, &can, 1, BRAID_INT32, BRAID_MIN, &options, NULL);
    if (!rc && can)
        local->peers = peers;
    return rc;
}

static int ask(struct br_stream_local *local, const struct br_operation *op, bool suits)
{
    struct note *notes = calloc((size_t)op->comm->size, sizeof *notes);
    int rc = notes ? br_call_group_refuse("the first call with all_on_gpu")
                   : br_error(ENOMEM, "no memory to ask the other ranks");

    if (!rc)
        rc = agree(local, op, suits, notes);
    local->asked = !rc;
    free(notes);
    return rc;
}

/* ---- each call ------------------------------------------------------------------------------- */

static struct br_stream_allreduce allreduce_of(const struct br_operation *op)
{
    return (struct br_stream_allreduce){.send = op->send,
                                        .recv = op->recv,
                                        .count = op->count,
                                        .size = br_type_size(op->type),
                                        .type = op->type,
                                        .reduction = op->reduction};
}

int br_stream_local_choose(struct br_operation *op)
{
    struct br_stream_local *local = op->comm->stream_local;
    const struct br_stream_allreduce allreduce = allreduce_of(op);
    /* kernels of this rank's streams write to recv */
    bool suits = op->send_gpu && op->send_gpu == op->recv_gpu && !op->foreign;
    int rc = 0;

    if (!local || !op->all_on_gpu || op->collective != BR_ALLREDUCE || op->algorithm[0] ||
        !br_gpu_has_kernel(op->type, op->reduction) || op->send_bytes < BR_STREAM_LOCAL_MIN_BYTES)
        return 0;
    pthread_mutex_lock(&local->lock);
    if (!local->asked)
        rc = ask(local, op, suits);
    /* What does not suit is staged: if it is so on all ranks, that is right, else a broken promise,
     * which the first round shows (note 11). */
    op->stays_on_gpu = !rc && local->peers && suits &&
                       op->send_gpu == br_stream_peers_gpu(local->peers) &&
                       br_stream_peers_fits(local->peers, &allreduce);
    pthread_mutex_unlock(&local->lock);
    return rc;
}

int br_stream_local_begin(struct br_operation *op, void *stream)
{
    struct br_context *context = op->comm->context;
    struct br_stream_peers *peers = op->comm->stream_local->peers;
    const struct br_stream_allreduce allreduce = allreduce_of(op);
    bool broken;
    int rc = br_stream_peers_begin(peers, context->stream_ops, stream, &allreduce, &op->stream_op,
                                   &broken);

    if (broken) { /* note 13 */
        br_progress_lock(context);
        br_worker_fail(context->worker, -rc, br_error_message());
        br_progress_unlock(context);
        br_progress_wake(context);
    }
    if (rc)
        return rc;
    br_copier_count(context->copier, BR_COPY_SHARED, br_stream_peers_read(peers, &allreduce));
    br_copier_count(context->copier, BR_COPY_REDUCTION, op->send_bytes);
    op->send_gpu = op->recv_gpu = 0; /* nothing is staged */
    return 0;
}
