/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/gpu/gpu_local.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/downgrade.h"
#include "base/error.h"
#include "base/log.h"
#include "collectives/gpu/gpu_hosts.h"
#include "collectives/comm/comm.h"
#include "collectives/engine/internal.h"
#include "collectives/shm/executor.h"
#include "collectives/gpu/gpu_local_internal.h"
#include "collectives/schedule/type.h"
#include "gpu/ipc.h"
#include "gpu/offload.h"

/* In the order of their coming. */
enum stage {
    TELL,
    TOLD,
    ANSWERED,
    ASKS, /* all hosts: note 14 */
    COMBINES,
    CROSSES, /* between hosts */
    COMBINED,
    TOLD_COMBINED,
    FETCHES,
    FETCHED,
    TOLD_FETCHED
};

int br_gpu_local_create(struct br_context *context, struct br_gpu_local **out)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return br_error(ENOMEM, "rank %d: no memory to share that of GPUs", context->rank);
    (*out)->context = context;
    return 0;
}

void br_gpu_local_destroy(struct br_gpu_local *gpu_local)
{
    free(gpu_local);
}

void br_gpu_local_set_hosts(struct br_shm_executor *shm, struct br_gpu_hosts *hosts)
{
    shm->gpu_local->gpu_hosts = hosts;
}

/* Notes 15 and 16. */
static bool gpu_local_uses_hosts(const struct br_operation *op)
{
    bool divides = op->reduction == BRAID_AVG && br_type_is_integer(op->type);

    return !divides && op->send_bytes >= BR_GPU_HOSTS_MIN_BYTES;
}

bool br_gpu_local_takes(const struct br_shm_executor *shm, struct br_operation *op)
{
    bool asks = op->collective == BR_ALLREDUCE && !op->algorithm[0];

    if (asks && shm->gpu_local && shm->gpu_local->gpu_hosts)
        asks = gpu_local_uses_hosts(op);
    if (!shm->gpu_local || op->kind != BR_OPERATION_COLLECTIVE ||
        (!asks && br_list_empty(&shm->queue)))
        return false;
    op->shm_role = asks ? BR_SHM_ROLE_GPU_LOCAL : BR_SHM_ROLE_ENGINE;
    op->shm_staging.has_ended = false;
    br_list_init(&op->shm_staging.batch.node);
    return true;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* Bytes before piece `rank`. */
static size_t gpu_local_offset(const struct br_shm_executor *shm, const struct br_operation *op,
                               uint32_t rank)
{
    return br_piece_offset(op->count, shm->n, rank) * br_type_size(op->type);
}

static size_t piece_bytes(const struct br_shm_executor *shm, const struct br_operation *op,
                          uint32_t rank)
{
    return gpu_local_offset(shm, op, rank + 1) - gpu_local_offset(shm, op, rank);
}

/* ---- combine, fetch -------------------------------------------------------------------------- */

static void gpu_local_work_done(struct br_engine *engine, struct br_copy_batch *batch)
{
    struct br_operation *op = br_container_of(batch, struct br_operation, shm_staging.batch);

    if (op->shm_staging.has_ended) /* the worker failed before */
        br_list_push_back(&engine->ended, &op->node);
}

static bool gpu_local_busy(const struct br_operation *op)
{
    return !br_list_empty(&op->shm_staging.batch.node);
}

static int gpu_local_reduce(struct br_gpu_local *gpu_local, const struct br_shm_executor *shm,
                            struct br_operation *op)
{
    size_t at = gpu_local_offset(shm, op, shm->rank), bytes = piece_bytes(shm, op, shm->rank);
    const void *sources[BR_SHM_COLL_RANKS];
    int rc;

    for (uint32_t r = 0; r < shm->n; r++)
        sources[r] = (const uint8_t *)gpu_local->send[r] + at;
    rc = br_offload_combine(gpu_local->context->offload, op->send_gpu, op->type, op->reduction,
                            (uint8_t *)op->recv + at, sources, (int)shm->n, bytes, (int)shm->n);
    if (rc)
        return rc;
    br_copier_count(gpu_local->context->copier, BR_COPY_SHARED, (shm->n - 1) * bytes);
    br_staging_submit(gpu_local->context->engine, &op->shm_staging.batch, op->send_gpu,
                      BR_COPY_REDUCTION, gpu_local_work_done);
    return 0;
}

static int gpu_local_fetch(struct br_gpu_local *gpu_local, const struct br_shm_executor *shm,
                           struct br_operation *op)
{
    int rc = 0;

    for (uint32_t i = 1; i < shm->n && !rc; i++) { /* not all from the same one first */
        uint32_t r = (shm->rank + i) % shm->n;
        size_t at = gpu_local_offset(shm, op, r);

        rc = br_offload_fetch(gpu_local->context->offload, op->send_gpu, (uint8_t *)op->recv + at,
                              (const uint8_t *)gpu_local->recv[r] + at, piece_bytes(shm, op, r));
    }
    /* Those before a refused one are waited for. */
    br_staging_submit(gpu_local->context->engine, &op->shm_staging.batch, op->send_gpu,
                      BR_COPY_REDUCTION, gpu_local_work_done);
    return rc;
}

/* ---- the rounds ------------------------------------------------------------------------------ */

static bool gpu_local_publish(struct br_gpu_local *gpu_local, struct br_shm_executor *shm,
                              const struct br_operation *op, const void *data, size_t bytes)
{
    if (!br_shm_executor_publish(shm, op, data, bytes))
        return false;
    shm->published = true;
    gpu_local->phase++;
    return true;
}

static int gpu_local_tell_note(struct br_gpu_local *gpu_local, struct br_shm_executor *shm,
                               const struct br_operation *op)
{
    if (!br_shm_coll_may_publish(&shm->coll, shm->epoch + 1))
        return BR_GPU_LOCAL_WAITS;
    br_gpu_local_write_note(gpu_local, shm, op);
    gpu_local_publish(gpu_local, shm, op, &gpu_local->mine,
                      br_gpu_local_note_bytes(&gpu_local->mine));
    return BR_GPU_LOCAL_WAITS;
}

/* All know whether every rank of this host could. */
static int gpu_local_decide(struct br_gpu_local *gpu_local, const struct br_shm_executor *shm,
                            struct br_operation *op, bool all)
{
    if (gpu_local->gpu_hosts) {
        gpu_local->phase = ASKS;
        br_gpu_hosts_vote(gpu_local->gpu_hosts, op, all);
        return BR_GPU_LOCAL_WAITS;
    }
    if (!all)
        return BR_GPU_LOCAL_TO_ENGINE;
    gpu_local->phase = COMBINES;
    return gpu_local_reduce(gpu_local, shm, op);
}

static int gpu_local_answer(struct br_gpu_local *gpu_local, struct br_shm_executor *shm,
                            struct br_operation *op)
{
    bool owes = br_gpu_local_take_fds(gpu_local, shm, op);
    uint64_t has;

    if (!br_gpu_local_all_agree(shm, sizeof(struct br_gpu_local_note)))
        return gpu_local_decide(gpu_local, shm, op, false);
    gpu_local->passes_fds = owes;
    if (owes) { /* note 17 */
        gpu_local->phase = TELL;
        return BR_GPU_LOCAL_WAITS;
    }
    has = br_gpu_local_map(gpu_local, shm, op);
    if (has && !gpu_local->has_mapped)
        br_ipc_retain(gpu_local->context->ipc);
    gpu_local->has_mapped = has;
    gpu_local_publish(gpu_local, shm, op, &has, sizeof has); /* all have told, so there is room */
    return BR_GPU_LOCAL_WAITS;
}

/* Another communicator may hand over what it has to. */
static void gpu_local_to_engine(struct br_gpu_local *gpu_local)
{
    if (gpu_local->context->fd_sender == gpu_local)
        gpu_local->context->fd_sender = NULL;
}

/* What was asked between hosts, and what was done there. */
static int gpu_local_start_hosts(struct br_gpu_local *gpu_local, const struct br_shm_executor *shm,
                                 struct br_operation *op)
{
    int rc = br_gpu_hosts_done(gpu_local->gpu_hosts);

    if (rc <= 0)
        return rc ? rc : BR_GPU_LOCAL_WAITS;
    if (gpu_local->phase == CROSSES) {
        gpu_local->phase = COMBINED;
        return BR_GPU_LOCAL_WAITS;
    }
    if (!br_gpu_hosts_agreed(gpu_local->gpu_hosts))
        return BR_GPU_LOCAL_TO_ENGINE;
    gpu_local->phase = COMBINES;
    return gpu_local_reduce(gpu_local, shm, op);
}

/* Our piece of this host's values is there. */
static void gpu_local_reduced(struct br_gpu_local *gpu_local, const struct br_shm_executor *shm,
                              struct br_operation *op)
{
    size_t first = br_piece_offset(op->count, shm->n, shm->rank),
           count = br_piece_offset(op->count, shm->n, shm->rank + 1) - first;

    gpu_local->phase = gpu_local->gpu_hosts && count ? CROSSES : COMBINED;
    if (gpu_local->phase == CROSSES)
        br_gpu_hosts_reduce(gpu_local->gpu_hosts, op, first, count);
}

/* Everybody is here: on to the next stage. */
static int gpu_local_next_phase(struct br_gpu_local *gpu_local, struct br_shm_executor *shm,
                                struct br_operation *op)
{
    int rc = br_shm_executor_check_agreement(shm, op);

    if (rc)
        return rc;
    if (!gpu_local->sent) /* those of the round before have been taken */
        gpu_local_to_engine(gpu_local);
    gpu_local->sent = false;
    switch (gpu_local->phase) {
    case TOLD:
        return gpu_local_answer(gpu_local, shm, op);
    case ANSWERED:
        return gpu_local_decide(
            gpu_local, shm, op,
            br_gpu_local_all_agree(shm, sizeof((struct br_gpu_local_note *)0)->has));
    case TOLD_COMBINED:
        gpu_local->phase = FETCHES;
        return gpu_local_fetch(gpu_local, shm, op);
    default:
        shm->operations++;
        return BR_GPU_LOCAL_ENDED;
    }
}

static int gpu_local_next(struct br_gpu_local *gpu_local, struct br_shm_executor *shm,
                          struct br_operation *op)
{
    switch (gpu_local->phase) {
    case TELL:
        return gpu_local_tell_note(gpu_local, shm, op);
    case COMBINES:
        if (!gpu_local_busy(op))
            gpu_local_reduced(gpu_local, shm, op);
        return BR_GPU_LOCAL_WAITS;
    case FETCHES:
        if (!gpu_local_busy(op))
            gpu_local->phase++;
        return BR_GPU_LOCAL_WAITS;
    case ASKS:
    case CROSSES:
        return gpu_local_start_hosts(gpu_local, shm, op);
    case COMBINED:
    case FETCHED:
        gpu_local_publish(gpu_local, shm, op, NULL, 0);
        return BR_GPU_LOCAL_WAITS;
    default:
        return br_shm_executor_waits_for(shm, op) >= 0 ? BR_GPU_LOCAL_WAITS
                                                       : gpu_local_next_phase(gpu_local, shm, op);
    }
}

int br_gpu_local_step(struct br_shm_executor *shm, struct br_operation *op)
{
    struct br_gpu_local *gpu_local = shm->gpu_local;
    int before;
    int rc;

    if (gpu_local->context->worker->failed)
        return BR_GPU_LOCAL_WAITS;
    do { /* as far as it goes now */
        before = gpu_local->phase;
        rc = gpu_local_next(gpu_local, shm, op);
    } while (rc == BR_GPU_LOCAL_WAITS && gpu_local->phase != before);
    if (rc == BR_GPU_LOCAL_ENDED || rc == BR_GPU_LOCAL_TO_ENGINE) {
        gpu_local->phase = TELL;
        if (gpu_local->has_mapped)
            br_ipc_release(gpu_local->context->ipc);
        gpu_local->has_mapped = gpu_local->passes_fds = gpu_local->sent = false;
        gpu_local_to_engine(gpu_local);
    }
    return rc;
}

bool br_gpu_local_waits_for_hosts(const struct br_gpu_local *gpu_local)
{
    return gpu_local->phase == ASKS || gpu_local->phase == CROSSES;
}

void br_gpu_local_hosts_ended(struct br_operation *part)
{
    if (part->parent->shm_staging.has_ended) /* the worker failed before */
        br_list_push_back(&part->comm->context->engine->ended, &part->parent->node);
    part->parent = NULL;
}

bool br_gpu_local_end(struct br_operation *op)
{
    struct br_gpu_hosts *hosts = op->comm->context->gpu_hosts;

    if (op->shm_role != BR_SHM_ROLE_GPU_LOCAL ||
        (!gpu_local_busy(op) && !(hosts && br_gpu_hosts_ends(hosts, op))))
        return false;
    op->shm_staging.has_ended = true;
    br_list_init(&op->node);
    return true;
}
