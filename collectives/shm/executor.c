/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/shm/executor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/error.h"
#include "collectives/engine/blocks.h"
#include "collectives/engine/call.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/engine/engine.h"
#include "collectives/engine/group.h"
#include "collectives/engine/operation.h"
#include "protocol/worker.h"
#include "collectives/engine/user_reduction.h"
#include "collectives/schedule/type.h"
#include "collectives/shm/split.h"
#include "transport/shm/shm.h"

#define PATIENCE         (100 * BR_MS) /* then an operation tells those that it waits for */
#define SAY_AGAIN        BR_SEC
#define POLL_INTERVAL_NS (50 * BR_US) /* while nobody looks at the segment all the time */

_Static_assert(sizeof(struct br_call) == BR_SHM_COLL_NOTE, "a call is the note beside a round");

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

static int executor_send_fd(struct braid_comm *comm, struct br_shm_executor *shm)
{
    int fd, rc = br_shm_coll_create(&shm->coll, shm->n, shm->rank, &fd);

    if (rc)
        return rc;
    br_shm_coll_say(&shm->coll, br_shm_split_threshold(&comm->group->model,
                                                       br_shm_rate_measure(&shm->coll), shm->n));
    for (int r = 1; r < comm->size && !rc; r++)
        rc = br_shm_link_send_fd(executor_link_to(comm, r), comm->group->number, fd);
    close(fd);
    return rc;
}

static int executor_receive_fd(struct braid_comm *comm, struct br_shm_executor *shm)
{
    int fd = br_shm_link_take_fd(executor_link_to(comm, 0), comm->group->number), rc;

    if (fd < 0)
        return fd;
    rc = br_shm_coll_attach(&shm->coll, shm->n, shm->rank, fd);
    close(fd);
    return rc;
}

/* ---- one round ------------------------------------------------------------------------------- */

static size_t block_bytes(const struct br_operation *op)
{
    return op->collective == BR_BARRIER ? 0 : op->count * br_type_size(op->type);
}

/* What a rank publishes; the lengths follow from the call, nothing on the shared segment says
 * them. */
static size_t published_bytes(const struct br_shm_executor *shm, const struct br_operation *op,
                              uint32_t rank)
{
    size_t bytes = block_bytes(op);

    switch (op->collective) {
    case BR_REDUCE_SCATTER:
    case BR_ALLTOALL:
        return bytes * shm->n;
    case BR_BROADCAST:
        return rank == (uint32_t)op->root ? bytes : 0;
    case BR_SCATTER:
        return rank == (uint32_t)op->root ? bytes * shm->n : 0;
    default:
        return bytes;
    }
}

bool br_shm_executor_takes(const struct br_shm_executor *shm, const struct br_operation *op)
{
    size_t bytes, most = op->collective == BR_ALLREDUCE ? shm->max_bytes : shm->max_copied_bytes;

    if (op->kind != BR_OPERATION_COLLECTIVE || br_blocks_uneven(op) || op->collective == BR_SCAN ||
        op->collective == BR_EXSCAN || (op->algorithm[0] && strcmp(op->algorithm, "shm") != 0))
        return false;
    bytes = block_bytes(op) * br_collective_blocks(op->collective, shm->n, BR_INPUT);
    return bytes <= (op->algorithm[0] ? BR_SHM_COLL_BYTES : most);
}

/* Does this rank need what `rank` publishes? */
static bool executor_needs(const struct br_shm_executor *shm, const struct br_operation *op,
                           uint32_t rank)
{
    if (br_collective_from_root(op->collective))
        return rank == (uint32_t)op->root;
    return !br_collective_to_root(op->collective) || shm->rank == (uint32_t)op->root;
}

int br_shm_executor_waits_for(const struct br_shm_executor *shm, const struct br_operation *op)
{
    for (uint32_t r = 0; r < shm->n; r++)
        if (r != shm->rank && executor_needs(shm, op, r) &&
            !br_shm_coll_ready(&shm->coll, r, shm->epoch))
            return (int)r;
    return -1;
}

static const void *executor_part(const struct br_shm_executor *shm, const struct br_operation *op,
                                 uint32_t rank)
{
    if (rank == shm->rank)
        return op->send;
    return br_shm_coll_data(&shm->coll, rank, shm->epoch, published_bytes(shm, op, rank));
}

static void executor_reduce(const struct br_shm_executor *shm, const struct br_operation *op,
                            size_t skip)
{
    const void *in[BR_SHM_COLL_RANKS];

    for (uint32_t r = 0; r < shm->n; r++)
        in[r] = (const uint8_t *)executor_part(shm, op, r) + skip;
    br_reduce_operation(op, op->recv, in, (int)shm->n, op->count, (int)shm->n);
}

static void executor_copy(void *out, const void *in, size_t bytes)
{
    if (bytes && out != in)
        memcpy(out, in, bytes);
}

/* Block r of the result is what rank r has published from `skip` on. */
static void copy_all(const struct br_shm_executor *shm, const struct br_operation *op, size_t skip)
{
    size_t bytes = block_bytes(op);

    for (uint32_t r = 0; r < shm->n; r++)
        executor_copy((uint8_t *)op->recv + r * bytes,
                      (const uint8_t *)executor_part(shm, op, r) + skip, bytes);
}

static void executor_reduce_all(const struct br_shm_executor *shm, const struct br_operation *op)
{
    size_t bytes = block_bytes(op);

    if (!bytes)
        return;
    switch (op->collective) {
    case BR_ALLREDUCE:
        executor_reduce(shm, op, 0);
        break;
    case BR_REDUCE:
        if (shm->rank == (uint32_t)op->root)
            executor_reduce(shm, op, 0);
        break;
    case BR_REDUCE_SCATTER:
        executor_reduce(shm, op, bytes * shm->rank);
        break;
    case BR_ALLGATHER:
    case BR_ALLTOALL:
        copy_all(shm, op, op->collective == BR_ALLTOALL ? bytes * shm->rank : 0);
        break;
    case BR_GATHER:
        if (shm->rank == (uint32_t)op->root)
            copy_all(shm, op, 0);
        break;
    case BR_BROADCAST:
        executor_copy(op->recv, executor_part(shm, op, (uint32_t)op->root), bytes);
        break;
    case BR_SCATTER:
        executor_copy(
            op->recv,
            (const uint8_t *)executor_part(shm, op, (uint32_t)op->root) + bytes * shm->rank, bytes);
        break;
    default:
        break;
    }
}

/* What the ranks must agree on, in 16 bits; root counts where there is one, as elsewhere it is the
 * same (0). */
static uint16_t executor_digest(const struct br_operation *op)
{
    uint64_t words[] = {(uint64_t)op->collective << 32 | (uint64_t)op->type,
                        br_collective_reduces(op->collective) ? (uint64_t)op->reduction : 0,
                        (uint64_t)op->root, op->sequence, op->count};

    return br_digest_short(words, sizeof words / sizeof *words);
}

static struct br_call call_of(const struct br_operation *op)
{
    return br_call_of(op, op->shm_role == BR_SHM_ROLE_GPU_LOCAL ? BR_CALL_EITHER : BR_CALL_SHARED);
}

/* all: those that are needed have published; else those that have are looked at. */
static int executor_check(const struct br_shm_executor *shm, const struct br_operation *op,
                          bool all)
{
    uint16_t mine = br_shm_coll_check(&shm->coll, shm->rank, shm->epoch);
    struct br_call theirs, ours;
    char text[300];

    for (uint32_t r = 0; r < shm->n; r++) {
        if (r == shm->rank || !executor_needs(shm, op, r) ||
            (!all && !br_shm_coll_ready(&shm->coll, r, shm->epoch)) ||
            br_shm_coll_check(&shm->coll, r, shm->epoch) == mine)
            continue;
        ours = call_of(op);
        memcpy(&theirs, br_shm_coll_description(&shm->coll, r, shm->epoch), sizeof theirs);
        br_call_disagreement(
            br_group_in_job(shm->group, (int)r), br_group_in_job(shm->group, (int)shm->rank),
            br_tag_of_group(op->group->number, op->sequence), &theirs, &ours, text, sizeof text);
        return br_error(EPROTO, "%s", text);
    }
    return 0;
}

/* Nobody's data is used before everybody whose data is needed has shown to make the same call. */
int br_shm_executor_check_agreement(const struct br_shm_executor *shm,
                                    const struct br_operation *op)
{
    return executor_check(shm, op, true);
}

/* data NULL: they are in their space. */
static void publish_round(struct br_shm_executor *shm, const struct br_operation *op,
                          const void *data, size_t bytes)
{
    shm->epoch++;
    shm->last = call_of(op);
    shm->last_group = op->group;
    shm->last_sequence = op->sequence;
    shm->unreported = true;
    br_shm_coll_describe(&shm->coll, shm->epoch, &shm->last);
    br_shm_coll_publish(&shm->coll, shm->epoch, executor_digest(op), data, bytes);
}

bool br_shm_executor_publish(struct br_shm_executor *shm, const struct br_operation *op,
                             const void *data, size_t bytes)
{
    if (!br_shm_coll_may_publish(&shm->coll, shm->epoch + 1))
        return false;
    publish_round(shm, op, data, bytes);
    return true;
}

static void publish_split(struct br_shm_executor *shm, const struct br_operation *op)
{
    br_shm_split_write(&shm->coll, op, shm->round, shm->epoch + 1);
    publish_round(shm, op, NULL, 0);
}

/* The first round of op. */
static bool executor_publish(struct br_shm_executor *shm, const struct br_operation *op)
{
    shm->rounds = 0;
    if (op->collective != BR_ALLREDUCE || block_bytes(op) < shm->split_bytes)
        return br_shm_executor_publish(shm, op, op->send, published_bytes(shm, op, shm->rank));
    if (!br_shm_coll_may_publish(&shm->coll, shm->epoch + 1))
        return false;
    shm->round = 0;
    shm->rounds = br_shm_split_rounds(&shm->coll, op);
    publish_split(shm, op);
    return true;
}

static int executor_complete(struct br_shm_executor *shm, const struct br_operation *op)
{
    int rc;

    for (;;) {
        if (br_shm_executor_waits_for(shm, op) >= 0)
            return 0;
        rc = br_shm_executor_check_agreement(shm, op);
        if (rc)
            return rc;
        if (!shm->rounds) {
            executor_reduce_all(shm, op);
            break;
        }
        br_shm_split_read(&shm->coll, op, shm->round, shm->epoch);
        if (++shm->round == shm->rounds)
            break;
        publish_split(shm, op);
    }
    shm->operations++;
    shm->rounds = 0;
    return 1;
}

bool br_shm_executor_begin(struct br_shm_executor *shm, struct br_operation *op)
{
    if (shm->busy || !br_list_empty(&shm->queue) || !executor_publish(shm, op))
        return false;
    shm->busy = true;
    return true;
}

int br_shm_executor_complete(struct br_shm_executor *shm, struct br_operation *op)
{
    int rc = executor_complete(shm, op);

    if (rc)
        shm->busy = false;
    return rc;
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
    shm->published = true;
    shm->busy = false;
}

/* ---- the queue ------------------------------------------------------------------------------- */

void br_shm_executor_submit(struct br_shm_executor *shm, struct br_operation *op)
{
    br_list_init(&op->node);
    br_list_push_back(&shm->queue, &op->node);
    executor_expect(shm, op);
}

static struct br_operation *executor_head(const struct br_shm_executor *shm)
{
    return br_list_empty(&shm->queue) ? NULL
                                      : br_container_of(shm->queue.next, struct br_operation, node);
}

void br_shm_executor_leave(struct br_shm_executor *shm, struct br_operation *op)
{
    br_list_remove(&op->node);
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

/* The head of the queue: > 0: it has left, 0: it waits; errors with a message. */
static int executor_step(struct br_shm_executor *shm, struct br_operation *op, uint64_t now)
{
    int rc;

    /* After a failure br_shm_executor_fail() ends them all: none may get to the head and begin. */
    if (op->shm_role != BR_SHM_ROLE_COLLECTIVE)
        return shm->context->worker->failed ? 0 : shm->guest->ops->step(shm->guest, now);
    if (!br_staging_shm_ready(op)) /* and nobody overtakes it: rounds are taken in this order */
        return 0;
    if (!shm->published && !(shm->published = executor_publish(shm, op)))
        return 0;
    rc = executor_complete(shm, op);
    if (rc > 0)
        executor_end(shm, op, 0, "");
    return rc;
}

int br_shm_executor_step(struct br_shm_executor *shm, uint64_t now)
{
    struct br_operation *op;
    int n = 0, rc;

    for (; !shm->busy && (op = executor_head(shm)); n++) {
        rc = executor_step(shm, op, now);
        if (rc < 0)
            return rc;
        if (!rc)
            break;
    }
    return n;
}

void br_shm_executor_fail(struct br_shm_executor *shm, int status, const char *text, uint64_t now)
{
    struct br_operation *op;

    while ((op = executor_head(shm)))
        if (op->shm_role == BR_SHM_ROLE_COLLECTIVE)
            executor_end(shm, op, status, text);
        else
            shm->guest->ops->step(shm->guest, now); /* it sees that the worker has failed */
}

/* The lowest rank whose round of before is missing, without which the head cannot publish; -1:
 * none. */
static int executor_behind(const struct br_shm_executor *shm)
{
    for (uint32_t r = 0; shm->epoch && r < shm->n; r++)
        if (!br_shm_coll_ready(&shm->coll, r, shm->epoch))
            return (int)r;
    return -1;
}

int br_shm_executor_missing(const struct br_shm_executor *shm, const struct br_operation *op)
{
    const struct br_operation *first = op ? op : executor_head(shm);

    if (!first)
        return -1;
    return op || shm->published ? br_shm_executor_waits_for(shm, first) : executor_behind(shm);
}

void br_shm_executor_report_last(struct br_shm_executor *shm)
{
    if (shm->unreported)
        br_worker_begins(shm->context->worker, shm->last_group->number, shm->last_sequence,
                         br_shm_coll_check(&shm->coll, shm->rank, shm->epoch), &shm->last);
    shm->unreported = false;
}

const char *br_shm_executor_name_waited(const struct br_shm_executor *shm,
                                        const struct br_operation *op, char *text, size_t bytes)
{
    const struct br_operation *first = shm->busy ? NULL : executor_head(shm);
    bool unpublished = first && !shm->published;
    int rank =
        unpublished ? executor_behind(shm) : br_shm_executor_waits_for(shm, first ? first : op);
    char name[80];

    if (first && first->shm_role != BR_SHM_ROLE_COLLECTIVE &&
        shm->guest->ops->waits_for(shm->guest, op, text, bytes))
        return text;
    if (first && br_staging_shm_gpu(first))
        snprintf(text, bytes, "copies of GPU %d", br_staging_shm_gpu(first) - 1);
    else if (rank >= 0)
        snprintf(text, bytes, "%s (level 0, device shm0)",
                 br_group_name_rank(shm->group, rank, name, sizeof name));
    else
        snprintf(text, bytes, "operations submitted before it");
    return text;
}

struct br_operation *br_shm_executor_overdue(struct br_shm_executor *shm, uint64_t now)
{
    uint64_t next = UINT64_MAX;

    if (now < shm->next_deadline)
        return NULL;
    br_list_for_each (node, &shm->queue) {
        struct br_operation *op = br_container_of(node, struct br_operation, node);

        if (op->deadline <= now)
            return op;
        if (op->deadline < next)
            next = op->deadline;
    }
    shm->next_deadline = next;
    return NULL;
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void executor_fail_overdue(const struct br_shm_executor *shm, const struct br_operation *op)
{
    char text[240], waited[120];

    snprintf(text, sizeof text, "%s of %zu elements missed its deadline of %llu ms: waits for %s",
             br_collective_name(op->collective), op->count,
             (unsigned long long)(op->timeout / BR_MS),
             br_shm_executor_name_waited(shm, op, waited, sizeof waited));
    br_worker_fail(shm->context->worker, ETIMEDOUT, text);
}

/* A rank that has left the job published all that it was to publish in shared memory before it said
 * so: waiting for more is in vain. op: as br_shm_executor_missing() has it. */
static void executor_fail_departed(const struct br_shm_executor *shm, const struct br_operation *op)
{
    struct br_worker *w = shm->context->worker;
    int rank = br_shm_executor_missing(shm, op);
    char text[240], name[80];

    if (rank < 0 || w->peers[br_group_in_job(shm->group, rank)].state != BR_PEER_LEFT ||
        br_shm_executor_missing(shm, op) != rank) /* it has published just before it left */
        return;
    if (!op)
        op = executor_head(shm);
    snprintf(text, sizeof text,
             "%s has left the job (braid_finalize), but %s of %zu elements waits for it",
             br_group_name_rank(shm->group, rank, name, sizeof name),
             br_collective_name(op->collective), op->count);
    br_worker_fail(w, ECONNRESET, text);
}

void br_shm_executor_watch(struct br_shm_executor *shm, const struct br_operation *op, uint64_t now)
{
    const struct br_operation *first = op ? op : executor_head(shm), *overdue;
    bool published = op || shm->published;
    struct br_worker *w = shm->context->worker;
    struct br_call call;

    overdue = op && op->deadline <= now ? op : br_shm_executor_overdue(shm, now);
    if (overdue)
        executor_fail_overdue(shm, overdue);
    executor_fail_departed(shm, op);
    if (!first || first->shm_role == BR_SHM_ROLE_ENGINE)
        return;
    call = call_of(first);
    if (shm->watched_sequence != first->sequence + 1) {
        br_shm_executor_report_last(shm);
        br_worker_begins(w, first->group->number, first->sequence, executor_digest(first), &call);
        shm->unreported = false;
        shm->watched_sequence = first->sequence + 1;
        shm->notify_at = now + PATIENCE;
    }
    if (published && executor_check(shm, first, false)) {
        br_worker_fail(w, EPROTO, br_error_message());
        return;
    }
    if (now < shm->notify_at)
        return;
    shm->notify_at = now + SAY_AGAIN;
    for (uint32_t r = 0; shm->epoch && r < shm->n; r++)
        if (r != shm->rank && (!published || executor_needs(shm, first, r)) &&
            !br_shm_coll_ready(&shm->coll, r, shm->epoch))
            br_worker_waits_for(w, br_group_in_job(shm->group, (int)r), first->group->number,
                                first->sequence, executor_digest(first), &call);
}

/* How many bytes a rank may give: of all-reduces, and of other collectives. What the user says of
 * all holds for all; and memory of GPUs is copied as a whole before and after, which is good for
 * small ones only. */
static void set_limits(struct br_shm_executor *shm)
{
    const struct br_context *context = shm->context;

    shm->max_bytes = shm->max_copied_bytes = context->settings.shm_collective_bytes;
    if (context->gpus || !context->settings.shm_collective_default)
        return;
    shm->max_copied_bytes = context->crowded ? BR_SHM_CROWDED_BYTES : BR_SHM_COPIED_BYTES;
    if (context->crowded)
        shm->max_bytes = BR_SHM_CROWDED_BYTES;
}

/* ---- the executor ---------------------------------------------------------------------------- */

static struct br_shm_executor *shm_of(const struct br_executor *executor)
{
    return br_container_of(executor, struct br_shm_executor, executor);
}

static bool shm_takes(struct br_executor *executor, struct br_operation *op)
{
    const struct br_shm_executor *shm = shm_of(executor);

    return !shm->context->worker->failed && br_shm_executor_takes(shm, op);
}

static int shm_submit(struct br_executor *executor, struct br_operation *op, uint64_t now)
{
    struct br_shm_executor *shm = shm_of(executor);

    (void)now;
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
    br_shm_executor_watch(shm, NULL, now);
    if (w->failed && !w->fail_due)
        br_shm_executor_fail(shm, w->failed, w->message, now);
    return n < 0 ? 1 : n;
}

static uint64_t shm_oldest(const struct br_executor *executor)
{
    const struct br_operation *first = executor_head(shm_of(executor));

    return first ? first->order : UINT64_MAX;
}

/* The shared segment has no descriptor to wait for. */
static uint64_t shm_due(const struct br_executor *executor, uint64_t now)
{
    return br_list_empty(&shm_of(executor)->queue) ? UINT64_MAX : now + POLL_INTERVAL_NS;
}

static const struct br_executor_ops ops = {.takes = shm_takes,
                                           .submit = shm_submit,
                                           .step = shm_step,
                                           .oldest = shm_oldest,
                                           .due = shm_due};

int br_shm_executor_create(struct braid_comm *comm)
{
    struct br_shm_executor *shm;
    int rc;

    if (!comm->context->settings.shm_collective_bytes || !all_shm(comm))
        return 0;
    shm = calloc(1, sizeof *shm);
    if (!shm)
        return br_error(ENOMEM, "rank %d: no memory for collectives in shared memory", comm->rank);
    shm->rank = (uint32_t)comm->rank;
    shm->n = (uint32_t)comm->size;
    shm->context = comm->context;
    set_limits(shm);
    shm->executor = (struct br_executor){.ops = &ops, .next = &comm->context->engine_executor};
    br_list_init(&shm->executor.ended);
    br_list_init(&shm->queue);
    rc = comm->rank == 0 ? executor_send_fd(comm, shm) : executor_receive_fd(comm, shm);
    if (rc) {
        br_shm_coll_close(&shm->coll);
        free(shm);
        return rc;
    }
    shm->split_bytes = br_shm_coll_said(&shm->coll);
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
