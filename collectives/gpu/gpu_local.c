/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/gpu/gpu_local.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "collectives/gpu/gpu_hosts.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/engine/operation.h"
#include "collectives/engine/internal.h"
#include "collectives/shm/executor.h"
#include "collectives/shm/round.h"
#include "collectives/gpu/gpu_local_internal.h"
#include "collectives/schedule/type.h"
#include "gpu/ipc.h"
#include "gpu/kernels.h"
#include "gpu/offload.h"
#include "gpu/stream_op.h"

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

/* Of the head of the queue. */
enum gpu_local_result { GPU_LOCAL_WAITS, GPU_LOCAL_ENDED, GPU_LOCAL_TO_ENGINE };

/* Notes 15 and 16. */
static bool gpu_local_uses_hosts(const struct br_operation *op)
{
    bool divides = op->reduction == BRAID_AVG && br_type_is_integer(op->type);

    return !divides && op->send_bytes >= BR_GPU_HOSTS_MIN_BYTES;
}

static struct br_gpu_local *gpu_local_of(const struct br_executor *executor)
{
    return br_container_of(executor, struct br_gpu_local, executor);
}

/* Does it go into the queue (notes 7, 8, 12)? */
static bool gpu_local_takes(struct br_executor *executor, struct br_operation *op)
{
    const struct br_gpu_local *gpu_local = gpu_local_of(executor);
    bool asks = op->collective == BR_ALLREDUCE && !op->algorithm[0] &&
                br_gpu_has_kernel(op->type, op->reduction);

    if (asks && gpu_local->gpu_hosts) /* which add up the sums of hosts: not in the ranks' order */
        asks = gpu_local_uses_hosts(op) && !op->by_rank;
    asks |= op->stays_on_gpu;
    if (gpu_local->context->worker->failed || op->kind != BR_OPERATION_COLLECTIVE ||
        (!asks && br_list_empty(&gpu_local->shm->queue)))
        return false;
    op->shm_role = op->stays_on_gpu ? BR_SHM_ROLE_STREAM
                   : asks           ? BR_SHM_ROLE_GPU_LOCAL
                                    : BR_SHM_ROLE_ENGINE;
    op->shm_staging.has_ended = false;
    br_list_init(&op->shm_staging.batch.node);
    return true;
}

static int gpu_local_submit(struct br_executor *executor, struct br_operation *op, uint64_t now)
{
    (void)now;
    br_shm_executor_submit(gpu_local_of(executor)->shm, op);
    return 0;
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

/* Is its part between hosts under way? */
static bool gpu_local_crosses(struct br_operation *op)
{
    struct br_gpu_hosts *hosts = op->comm->context->gpu_hosts;

    return hosts && br_gpu_hosts_ends(hosts, op);
}

static void gpu_local_work_given_up(struct br_engine *engine, struct br_copy_batch *batch)
{
    struct br_operation *op = br_container_of(batch, struct br_operation, shm_staging.batch);

    if (op->shm_staging.has_ended && !gpu_local_crosses(op))
        br_list_push_back(engine->config.ended, &op->node);
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
                      BR_COPY_REDUCTION, NULL, gpu_local_work_given_up);
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
                      BR_COPY_REDUCTION, NULL, gpu_local_work_given_up);
    return rc;
}

/* ---- the rounds ------------------------------------------------------------------------------ */

static bool gpu_local_publish(struct br_gpu_local *gpu_local, struct br_shm_executor *shm,
                              const struct br_operation *op, const void *data, size_t bytes)
{
    if (!br_shm_round_publish(shm, op, data, bytes))
        return false;
    shm->published = true;
    gpu_local->phase++;
    return true;
}

static int gpu_local_tell_note(struct br_gpu_local *gpu_local, struct br_shm_executor *shm,
                               const struct br_operation *op)
{
    if (!br_shm_coll_may_publish(&shm->coll, shm->epoch + 1, sizeof gpu_local->mine))
        return GPU_LOCAL_WAITS;
    br_gpu_local_write_note(gpu_local, shm, op);
    gpu_local_publish(gpu_local, shm, op, &gpu_local->mine,
                      br_gpu_local_note_bytes(&gpu_local->mine));
    return GPU_LOCAL_WAITS;
}

/* All know whether every rank of this host could. */
static int gpu_local_decide(struct br_gpu_local *gpu_local, const struct br_shm_executor *shm,
                            struct br_operation *op, bool all)
{
    if (gpu_local->gpu_hosts) {
        gpu_local->phase = ASKS;
        br_gpu_hosts_vote(gpu_local->gpu_hosts, op, all);
        return GPU_LOCAL_WAITS;
    }
    if (!all)
        return GPU_LOCAL_TO_ENGINE;
    gpu_local->phase = COMBINES;
    return gpu_local_reduce(gpu_local, shm, op);
}

static int gpu_local_answer(struct br_gpu_local *gpu_local, struct br_shm_executor *shm,
                            struct br_operation *op)
{
    bool owes = br_gpu_local_take_fds(gpu_local, shm, op);
    uint64_t has;

    if (!br_gpu_local_all_agree(shm, offsetof(struct br_gpu_local_note, extents)))
        return gpu_local_decide(gpu_local, shm, op, false);
    gpu_local->passes_fds = owes;
    if (owes) { /* note 17 */
        gpu_local->phase = TELL;
        return GPU_LOCAL_WAITS;
    }
    has = br_gpu_local_map(gpu_local, shm, op);
    if (has && !gpu_local->has_mapped)
        br_ipc_retain(gpu_local->context->ipc);
    gpu_local->has_mapped = has;
    gpu_local_publish(gpu_local, shm, op, &has, sizeof has); /* all have told, so there is room */
    return GPU_LOCAL_WAITS;
}

/* Another communicator may pass descriptors now (fd_passing, note 2). */
static void gpu_local_end_passing(struct br_gpu_local *gpu_local)
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
        return rc ? rc : GPU_LOCAL_WAITS;
    if (gpu_local->phase == CROSSES) {
        gpu_local->phase = COMBINED;
        return GPU_LOCAL_WAITS;
    }
    if (!br_gpu_hosts_agreed(gpu_local->gpu_hosts))
        return GPU_LOCAL_TO_ENGINE;
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
    int rc = br_shm_round_check(shm, op);

    if (rc)
        return rc;
    if (!gpu_local->sent) /* those of the round before have been taken */
        gpu_local_end_passing(gpu_local);
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
        return GPU_LOCAL_ENDED;
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
        return GPU_LOCAL_WAITS;
    case FETCHES:
        if (!gpu_local_busy(op))
            gpu_local->phase++;
        return GPU_LOCAL_WAITS;
    case ASKS:
    case CROSSES:
        return gpu_local_start_hosts(gpu_local, shm, op);
    case COMBINED:
    case FETCHED:
        gpu_local_publish(gpu_local, shm, op, NULL, 0);
        return GPU_LOCAL_WAITS;
    default:
        return br_shm_round_waits_for(shm, op) >= 0 ? GPU_LOCAL_WAITS
                                                    : gpu_local_next_phase(gpu_local, shm, op);
    }
}

/* Of an operation that its stream carries out: each event is a round, after which the streams of
 * all ranks pass the waits for it. */
static int gpu_local_pass_events(struct br_gpu_local *gpu_local, struct br_shm_executor *shm,
                                 const struct br_operation *op, uint64_t now)
{
    uint32_t events = br_stream_op_events(op->stream_op);
    int rc;

    while ((uint32_t)gpu_local->phase < events) {
        if (!shm->published) {
            if (br_stream_op_happened(op->stream_op) <= (uint32_t)gpu_local->phase ||
                !br_shm_round_publish(shm, op, NULL, 0))
                return GPU_LOCAL_WAITS;
            shm->published = true;
        }
        if (br_shm_round_waits_for(shm, op) >= 0)
            return GPU_LOCAL_WAITS;
        rc = br_shm_round_check(shm, op);
        if (rc)
            return rc;
        shm->published = false;
        if ((uint32_t)++gpu_local->phase < events)
            br_stream_op_let(op->stream_op, (uint32_t)gpu_local->phase);
        gpu_local->event_at = now;
    }
    gpu_local->phase = TELL;
    shm->operations++;
    return GPU_LOCAL_ENDED;
}

/* As far as it goes now: GPU_LOCAL_*, or a negative errno with a message. */
static int gpu_local_run(struct br_gpu_local *gpu_local, struct br_shm_executor *shm,
                         struct br_operation *op)
{
    int before, rc;

    do {
        before = gpu_local->phase;
        rc = gpu_local_next(gpu_local, shm, op);
    } while (rc == GPU_LOCAL_WAITS && gpu_local->phase != before);
    if (rc == GPU_LOCAL_ENDED || rc == GPU_LOCAL_TO_ENGINE) {
        gpu_local->phase = TELL;
        if (gpu_local->has_mapped)
            br_ipc_release(gpu_local->context->ipc);
        gpu_local->has_mapped = gpu_local->passes_fds = gpu_local->sent = false;
        gpu_local_end_passing(gpu_local);
    }
    return rc;
}

/* The worker has failed. The operation ends when its kernel and copies have, and its part between
 * hosts; if that is later, it ends there. */
static void gpu_local_fail(struct br_shm_executor *shm, struct br_operation *op)
{
    const struct br_worker *w = shm->context->worker;

    br_shm_executor_leave(shm, op);
    br_executor_end(&shm->executor, op, w->failed, w->message);
    op->shm_staging.has_ended =
        op->shm_role == BR_SHM_ROLE_GPU_LOCAL && (gpu_local_busy(op) || gpu_local_crosses(op));
    if (op->shm_staging.has_ended)
        br_list_remove(&op->node);
}

/* The head of the queue is an operation of ours. */
static int gpu_local_step(struct br_executor *executor, uint64_t now)
{
    struct br_gpu_local *gpu_local = gpu_local_of(executor);
    struct br_shm_executor *shm = gpu_local->shm;
    struct br_operation *op = br_container_of(shm->queue.next, struct br_operation, node);
    const struct br_worker *w = gpu_local->context->worker;
    int rc;

    if (w->failed) {
        if (!w->fail_due)
            gpu_local_fail(shm, op);
        return !w->fail_due;
    }
    rc = op->shm_role == BR_SHM_ROLE_ENGINE   ? GPU_LOCAL_TO_ENGINE
         : op->shm_role == BR_SHM_ROLE_STREAM ? gpu_local_pass_events(gpu_local, shm, op, now)
                                              : gpu_local_run(gpu_local, shm, op);
    if (rc <= 0)
        return rc;
    br_shm_executor_leave(shm, op);
    if (rc == GPU_LOCAL_TO_ENGINE)
        br_executor_submit(executor->next, op, now);
    else
        br_executor_end(&shm->executor, op, 0, "");
    return rc;
}

static bool gpu_local_waits_for(const struct br_executor *executor, const struct br_operation *op,
                                char *text, size_t bytes)
{
    const struct br_gpu_local *gpu_local = gpu_local_of(executor);
    const struct br_operation *first =
        br_container_of(gpu_local->shm->queue.next, struct br_operation, node);
    int phase = gpu_local->phase;

    if (first->shm_role == BR_SHM_ROLE_STREAM) {
        if (gpu_local->shm->published)
            return false; /* for another rank */
        snprintf(text, bytes, "%s in a stream of a GPU",
                 first == op ? "its work" : "an earlier operation");
    } else if (br_staging_shm_gpu(first))
        snprintf(text, bytes, "a reduction on GPU %d", br_staging_shm_gpu(first) - 1);
    else if (phase == ASKS || phase == CROSSES)
        snprintf(text, bytes, "%s part between hosts",
                 first == op ? "its" : "an earlier operation's");
    else
        return false;
    return true;
}

/* Between two events of a stream mostly tens of microseconds pass, in which the worker does not
 * sleep; it looks less often the longer it has waited. */
static uint64_t gpu_local_due(const struct br_executor *executor, uint64_t now)
{
    const struct br_gpu_local *gpu_local = gpu_local_of(executor);
    const struct br_operation *op =
        br_container_of(gpu_local->shm->queue.next, struct br_operation, node);
    uint64_t look = (now - gpu_local->event_at) / 16;

    if (op->shm_role != BR_SHM_ROLE_STREAM || look > BR_SHM_POLL_NS)
        return now + BR_SHM_POLL_NS;
    return now + (look < BR_STAGING_POLL_NS ? 0 : look);
}

void br_gpu_local_hosts_ended(struct br_operation *part)
{
    struct br_operation *whole = part->parent;

    part->parent = NULL;
    atomic_store(&part->state, BR_OPERATION_ENDED);
    if (whole->shm_staging.has_ended && !gpu_local_busy(whole)) /* the worker failed before */
        br_list_push_back(part->comm->context->engine->config.ended, &whole->node);
}

int br_gpu_local_create(struct br_shm_executor *shm)
{
    static const struct br_executor_ops ops = {.takes = gpu_local_takes,
                                               .submit = gpu_local_submit,
                                               .step = gpu_local_step,
                                               .waits_for = gpu_local_waits_for,
                                               .due = gpu_local_due};
    struct br_gpu_local *gpu_local = calloc(1, sizeof *gpu_local);

    if (!gpu_local)
        return br_error(ENOMEM, "rank %d: no memory to share that of GPUs", shm->context->rank);
    gpu_local->executor = (struct br_executor){.ops = &ops, .next = shm->executor.next};
    gpu_local->shm = shm;
    gpu_local->context = shm->context;
    shm->guest = shm->executor.next = &gpu_local->executor;
    return 0;
}

void br_gpu_local_destroy(struct br_executor *guest)
{
    if (guest)
        free(gpu_local_of(guest));
}

void br_gpu_local_set_hosts(struct br_executor *guest, struct br_gpu_hosts *hosts)
{
    gpu_local_of(guest)->gpu_hosts = hosts;
}
