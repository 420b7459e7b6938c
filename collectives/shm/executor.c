/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/shm/executor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/copy.h"
#include "base/error.h"
#include "collectives/engine/blocks.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/engine/engine.h"
#include "collectives/engine/group.h"
#include "collectives/engine/operation.h"
#include "protocol/worker.h"
#include "collectives/schedule/type.h"
#include "collectives/shm/round.h"
#include "collectives/shm/split.h"
#include "collectives/stats/tracing.h"
#include "transport/shm/shm.h"

/* ---- sharing --------------------------------------------------------------------------------- */

static bool all_shm(const struct braid_comm *comm)
{
    return comm->size >= 2 && (uint32_t)comm->size <= BR_SHM_COLL_RANKS &&
           br_comm_one_host(comm->context, comm->group->ranks, comm->size);
}

static struct br_link *executor_link_to(const struct braid_comm *comm, int rank)
{
    return comm->context->worker->peers[br_group_in_job(comm->group, rank)].rails[0].link;
}

/* Each rank decides for itself, as what another one writes there must not decide how far it writes.
 * What is said of memory of GPUs does not fit into a place. */
static bool executor_in_places(const struct braid_comm *comm)
{
    return comm->size == 2 && !comm->context->crowded && !comm->context->gpus;
}

static int executor_send_fd(struct braid_comm *comm, struct br_shm_executor *shm)
{
    uint32_t cores = comm->context->settings.cores;
    int fd, rc = br_shm_coll_create(&shm->coll, shm->n, shm->rank, executor_in_places(comm), &fd);

    if (rc)
        return rc;
    br_shm_coll_say(
        &shm->coll, BR_SHM_COLL_SPLIT_BYTES,
        br_shm_split_threshold(&comm->group->model, br_shm_rate_measure(&shm->coll), shm->n));
    br_shm_coll_say(&shm->coll, BR_SHM_COLL_DIRECT,
                    comm->context->crowded && br_shm_direct_possible());
    br_shm_coll_say(&shm->coll, BR_SHM_COLL_BESIDE,
                    shm->end_beside && cores && shm->n % cores == 0 ? shm->n / cores : 0);
    for (int r = 1; r < comm->size && !rc; r++)
        rc = br_shm_link_send_fd(executor_link_to(comm, r), comm->group->number, fd);
    close(fd);
    return rc;
}

/* Which ranks are meant to share this rank's core is known by their numbers in a job on one host.
 */
static void executor_find_beside(struct br_shm_executor *shm, const struct braid_comm *comm)
{
    const struct br_cpu_affinity *affinity = &comm->context->settings.cpu_affinity;

    if (comm->size != comm->context->size)
        return;
    for (int r = 0; r < comm->size; r++)
        if (br_group_in_job(comm->group, r) != r)
            return;
    shm->first_beside = affinity->first;
    shm->end_beside = affinity->end;
}

static int executor_receive_fd(struct braid_comm *comm, struct br_shm_executor *shm)
{
    int fd = br_shm_link_take_fd(executor_link_to(comm, 0), comm->group->number), rc;

    if (fd < 0)
        return fd;
    rc = br_shm_coll_attach(&shm->coll, shm->n, shm->rank, executor_in_places(comm), fd);
    close(fd);
    return rc;
}

/* The operation that the ranks have agreed on becomes the head of the queue. */
static void executor_bring_forward(struct br_shm_executor *shm)
{
    br_list_for_each (node, &shm->queue) {
        struct br_operation *op = br_container_of(node, struct br_operation, node);

        if (op->group == shm->group && op->sequence + 1 == shm->next) {
            br_list_remove(&op->node);
            br_list_push_front(&shm->queue, &op->node);
            break;
        }
    }
    shm->next = 0;
    shm->published = false;
}

/* ---- the short way --------------------------------------------------------------------------- */

bool br_shm_executor_begin(struct br_shm_executor *shm, struct br_operation *op)
{
    if (shm->busy || !br_list_empty(&shm->queue))
        return false;
    shm->busy = true;
    shm->published = br_shm_round_begin(shm, op);
    return true;
}

int br_shm_executor_complete(struct br_shm_executor *shm, struct br_operation *op)
{
    int rc;

    if (br_shm_executor_is_overtaken(shm) ||
        (!shm->published && !(shm->published = br_shm_round_begin(shm, op))))
        return 0;
    rc = br_shm_round_complete(shm, op);
    if (rc)
        shm->busy = shm->published = false;
    if (rc && shm->next)
        executor_bring_forward(shm);
    else if (shm->next)
        op->shm_round = shm->round;
    return rc;
}

bool br_shm_executor_spins(const struct br_shm_executor *shm, uint32_t *spins)
{
    if (!shm->end_beside || *spins == BR_SHM_SPINS)
        return false;
    for (uint32_t r = shm->first_beside; r < shm->end_beside; r++)
        if (!br_shm_coll_ready(&shm->coll, r, shm->epoch))
            return false;
    ++*spins;
    return true;
}

void br_shm_executor_give_up(struct br_shm_executor *shm)
{
    br_shm_coll_withdraw(&shm->coll);
    shm->busy = shm->published = false;
    shm->next = 0;
}

/* The queue has one more whose deadline is looked at. */
static void executor_expect(struct br_shm_executor *shm, const struct br_operation *op)
{
    if (op->deadline < shm->next_deadline)
        shm->next_deadline = op->deadline;
}

void br_shm_executor_go_on(struct br_shm_executor *shm, struct br_operation *op)
{
    br_list_init(&op->node);
    br_list_push_front(&shm->queue, &op->node);
    executor_expect(shm, op);
    shm->busy = false;
    if (shm->next)
        executor_bring_forward(shm);
}

/* ---- the queue ------------------------------------------------------------------------------- */

void br_shm_executor_submit(struct br_shm_executor *shm, struct br_operation *op)
{
    br_list_init(&op->node);
    br_list_push_back(&shm->queue, &op->node);
    if (op->group == shm->group)
        shm->submitted = op->sequence + 1;
    executor_expect(shm, op);
}

void br_shm_executor_leave(struct br_shm_executor *shm, struct br_operation *op)
{
    br_list_remove(&op->node);
    if (!shm->busy) /* else the operation on the short way has the turn */
        shm->published = false;
}

/* What it wrote may have to be copied to a GPU first; then the engine ends it. */
static void executor_end(struct br_shm_executor *shm, struct br_operation *op, int status,
                         const char *text)
{
    br_shm_executor_leave(shm, op);
    op->status = status;
    if (!op->shm_staging.buffer || !br_staging_shm_end(shm->context->engine, op))
        br_executor_end(&shm->executor, op, status, text);
    else
        snprintf(op->message, sizeof op->message, "%s", text);
}

/* The head of the queue: > 0: it has ended, 0: it waits, reads, or has let another one pass; errors
 * with a message. */
static int executor_step(struct br_shm_executor *shm, struct br_operation *op, uint64_t now)
{
    int rc;

    /* After a failure br_shm_executor_fail() ends them all: none may get to the head and begin. */
    if (op->shm_role != BR_SHM_ROLE_COLLECTIVE)
        return shm->context->worker->failed ? 0 : shm->guest->ops->step(shm->guest, now);
    /* Nobody overtakes it meanwhile: with GPUs nothing lets others pass, as nothing here is
     * larger than a round (br_shm_executor_set_limits()). */
    if (!br_staging_shm_ready(op))
        return 0;
    if (!shm->published && !(shm->published = br_shm_round_begin(shm, op)))
        return 0;
    rc = br_shm_round_complete(shm, op);
    if (rc > 0)
        executor_end(shm, op, 0, "");
    else if (shm->next)
        op->shm_round = shm->round;
    if (shm->next)
        executor_bring_forward(shm);
    return rc;
}

int br_shm_executor_step(struct br_shm_executor *shm, uint64_t now)
{
    struct br_operation *op;
    int n = 0, rc;

    for (; !shm->busy && (op = br_shm_executor_head(shm)); n++) {
        rc = executor_step(shm, op, now);
        if (rc < 0)
            return rc;
        if (!rc && op == br_shm_executor_head(shm))
            return n + shm->reads;
    }
    return n;
}

void br_shm_executor_fail(struct br_shm_executor *shm, int status, const char *text, uint64_t now)
{
    struct br_operation *op;

    br_shm_coll_withdraw(&shm->coll);
    while ((op = br_shm_executor_head(shm)))
        if (op->shm_role == BR_SHM_ROLE_COLLECTIVE)
            executor_end(shm, op, status, text);
        else
            shm->guest->ops->step(shm->guest, now); /* it sees that the worker has failed */
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* What the user says holds for all collectives; and memory of GPUs is copied as a whole before and
 * after, which is good for small ones only. */
void br_shm_executor_set_limits(struct br_shm_executor *shm)
{
    const struct br_context *context = shm->context;
    size_t of_each = BR_SHM_ROOT_BYTES / shm->n;

    shm->max_bytes = shm->max_copied_bytes = context->settings.shm_collective_bytes;
    shm->max_reduce_bytes = shm->max_exchange_bytes = shm->max_direct_bytes = shm->max_bytes;
    shm->max_pair_bytes = shm->max_whole_bytes = 0;
    if (context->gpus || !context->settings.shm_collective_default)
        return;
    shm->max_copied_bytes = BR_SHM_COPIED_BYTES;
    if (context->crowded || shm->n >= BR_SHM_MANY)
        shm->max_bytes = shm->max_copied_bytes =
            context->crowded ? BR_SHM_CROWDED_BYTES : BR_SHM_MANY_BYTES;
    shm->max_reduce_bytes = shm->max_exchange_bytes = shm->max_direct_bytes = shm->max_copied_bytes;
    if (context->crowded) {
        if (shm->n > 2)
            shm->max_reduce_bytes = shm->n * BR_SHM_ROUNDS_BYTES > BR_SHM_REDUCES_BYTES
                                        ? BR_SHM_REDUCES_BYTES / shm->n
                                        : BR_SHM_ROUNDS_BYTES;
        if (shm->n >= BR_SHM_MANY) {
            shm->max_bytes = shm->max_reduce_bytes;
            shm->max_copied_bytes = BR_SHM_ROUNDS_BYTES;
        }
        shm->max_exchange_bytes = BR_SHM_EXCHANGE_BYTES;
        shm->max_whole_bytes = (size_t)shm->n * shm->n * BR_SHM_WHOLE_BYTES;
        if (shm->max_whole_bytes > BR_SHM_COLL_HALF)
            shm->max_whole_bytes = BR_SHM_COLL_HALF;
        shm->max_direct_bytes =
            shm->direct.allowed ? BR_SHM_DIRECT_BYTES : BR_SHM_DIRECT_ROUNDS * BR_SHM_COLL_BYTES;
    }
    if (!context->crowded && shm->n == 2)
        shm->max_pair_bytes = BR_SHM_PAIR_BYTES;
    if (!context->crowded && of_each < shm->max_reduce_bytes)
        shm->max_reduce_bytes = of_each > BR_SHM_COPIED_BYTES ? of_each : BR_SHM_COPIED_BYTES;
}

static size_t executor_limit(const struct br_shm_executor *shm, enum br_collective collective)
{
    if (shm->max_pair_bytes)
        return br_collective_rooted(collective) ? BR_SHM_PIECES_BYTES : shm->max_pair_bytes;
    switch (collective) {
    case BR_ALLREDUCE:
        return shm->max_bytes;
    case BR_REDUCE:
        return shm->max_reduce_bytes;
    case BR_ALLTOALL:
        return br_shm_round_in_cells(shm) ? shm->max_exchange_bytes : shm->max_direct_bytes;
    case BR_REDUCE_SCATTER:
        return shm->max_exchange_bytes;
    case BR_SCATTER:
        return shm->max_direct_bytes;
    default:
        return shm->max_copied_bytes;
    }
}

/* So that calls that need no operation are those that one would have brought here. Memory of GPUs
 * is not looked for there. */
static size_t executor_small_end(const struct br_shm_executor *shm)
{
    size_t most = BR_SHM_COLLECTIVE_BYTES;

    for (int c = 0; c < BR_COLLECTIVES; c++)
        if (executor_limit(shm, (enum br_collective)c) < most)
            most = executor_limit(shm, (enum br_collective)c);
    return shm->context->gpus ? 0 : most + 1;
}

/* ---- the executor ---------------------------------------------------------------------------- */

static struct br_shm_executor *shm_of(const struct br_executor *executor)
{
    return br_container_of(executor, struct br_shm_executor, executor);
}

bool br_shm_executor_takes(const struct br_shm_executor *shm, const struct br_operation *op)
{
    size_t bytes;

    if (op->kind != BR_OPERATION_COLLECTIVE || op->stays_on_gpu || br_blocks_uneven(op) ||
        op->collective == BR_SCAN || op->collective == BR_EXSCAN ||
        (op->algorithm[0] && strcmp(op->algorithm, "shm") != 0))
        return false;
    bytes = br_shm_round_bytes(shm->n, op);
    return bytes <= executor_limit(shm, op->collective) ||
           (op->algorithm[0] && bytes <= BR_SHM_COLL_BYTES);
}

bool br_shm_executor_records(const struct br_shm_executor *shm, const struct br_operation *op)
{
    return br_shm_round_bytes(shm->n, op) > BR_SHM_COLLECTIVE_BYTES;
}

static bool shm_takes(struct br_executor *executor, struct br_operation *op)
{
    const struct br_shm_executor *shm = shm_of(executor);

    return !shm->context->worker->failed && br_shm_executor_takes(shm, op);
}

static int shm_submit(struct br_executor *executor, struct br_operation *op, uint64_t now)
{
    struct br_shm_executor *shm = shm_of(executor);

    if (shm->context->worker->config.trace && br_shm_executor_records(shm, op))
        br_tracing_begin(shm->context->worker->config.trace, op, now);
    if (br_operation_is_staged(op) && !br_staging_shm_begin(shm->context->engine, op)) {
        br_operation_fail(shm->context->engine, op);
        return br_error(-op->status, "%s", op->message);
    }
    br_shm_executor_submit(shm, op);
    return 0;
}

static int shm_step(struct br_executor *executor, uint64_t now)
{
    struct br_shm_executor *shm = shm_of(executor);
    struct br_worker *w = shm->context->worker;
    int n;

    if (br_list_empty(&shm->queue))
        return 0;
    n = br_shm_executor_step(shm, now);
    if (n < 0)
        br_worker_fail(w, -n, br_error_message());
    if (!shm->busy) /* else the caller on the short way watches */
        br_shm_executor_watch(shm, NULL, now);
    if (w->failed && !w->fail_due)
        br_shm_executor_fail(shm, w->failed, w->message, now);
    return n < 0 ? 1 : n;
}

/* The engine asks because of what it may get from here, which is a guest's. In a job with guests,
 * of GPUs, nothing overtakes (executor_step()), so the head is the oldest. Elsewhere the head may
 * be younger than what it has overtaken, but none of them gets to the engine. */
static uint64_t shm_oldest(const struct br_executor *executor)
{
    const struct br_operation *first = br_shm_executor_head(shm_of(executor));

    return first ? first->order : UINT64_MAX;
}

/* The shared segment has no descriptor to wait for. */
static uint64_t shm_due(const struct br_executor *executor, uint64_t now)
{
    const struct br_shm_executor *shm = shm_of(executor);

    if (br_list_empty(&shm->queue))
        return UINT64_MAX;
    return shm->guest ? shm->guest->ops->due(shm->guest, now) : now + BR_SHM_POLL_NS;
}

static const struct br_executor_ops ops = {.takes = shm_takes,
                                           .submit = shm_submit,
                                           .step = shm_step,
                                           .oldest = shm_oldest,
                                           .due = shm_due};

/* Where ranks share cores copies have up to 32 KiB and more. With a core for each of more ranks
 * than two nothing goes past the caches, as it has not been tried. */
static void executor_set_trip(struct br_shm_executor *shm)
{
    struct br_context *context = shm->context;

    shm->coll.past.told = shm->coll.places != 0;
    if (!context->crowded)
        return;
    if (context->memory_trip <= 0) {
        br_shm_past_measure_trip(&shm->coll.past, br_shm_coll_area(&shm->coll, shm->rank)->payload,
                                 (size_t)32 << 10);
        context->memory_trip = shm->coll.past.trip;
    }
    shm->coll.past.trip = context->memory_trip;
}

int br_shm_executor_create(struct braid_comm *comm)
{
    struct br_shm_executor *shm;
    uint64_t token;
    int rc;

    if (!comm->context->settings.shm_collective_bytes || !all_shm(comm))
        return 0;
    shm = calloc(1, sizeof *shm);
    if (!shm)
        return br_error(ENOMEM, "rank %d: no memory for collectives in shared memory", comm->rank);
    shm->rank = (uint32_t)comm->rank;
    shm->n = (uint32_t)comm->size;
    shm->context = comm->context;
    shm->executor = (struct br_executor){.ops = &ops, .next = &comm->context->engine_executor};
    br_list_init(&shm->executor.ended);
    br_list_init(&shm->queue);
    executor_find_beside(shm, comm);
    rc = comm->rank == 0 ? executor_send_fd(comm, shm) : executor_receive_fd(comm, shm);
    if (!rc && getrandom(&token, sizeof token, 0) != (ssize_t)sizeof token)
        rc = br_error(EIO, "getrandom: %s", strerror(errno));
    if (rc) {
        br_shm_coll_close(&shm->coll);
        free(shm);
        return rc;
    }
    shm->direct.token = token;
    shm->direct.ways.closed[BR_WAY_PIPE_PAST] = true; /* chunks know themselves (past.h) */
    shm->direct.read_bytes = &comm->context->worker->counters.mapped_bytes;
    shm->split_bytes = br_shm_coll_said(&shm->coll, BR_SHM_COLL_SPLIT_BYTES);
    shm->split_reduce_bytes = (size_t)BR_SHM_SPLIT_PART * shm->n;
    shm->cache_share = br_copy_cache_share(comm->context->settings.environment.local_size);
    br_shm_coll_set_beside(&shm->coll, br_shm_coll_said(&shm->coll, BR_SHM_COLL_BESIDE));
    shm->direct.allowed = br_shm_coll_said(&shm->coll, BR_SHM_COLL_DIRECT);
    if (!comm->context->crowded)
        shm->coll.window = BR_SHM_COLL_WINDOW;
    executor_set_trip(shm);
    br_shm_coll_populate(&shm->coll);
    br_shm_executor_set_limits(shm);
    shm->small_end = executor_small_end(shm);
    shm->group = comm->group;
    br_list_push_back(&comm->context->executors, &shm->executor.node);
    comm->shm = shm;
    return 0;
}

void br_shm_executor_destroy(struct braid_comm *comm)
{
    if (!comm->shm)
        return;
    br_list_remove(&comm->shm->executor.node);
    br_shm_coll_close(&comm->shm->coll);
    free(comm->shm);
    comm->shm = NULL;
}
