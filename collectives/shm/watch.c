/* SPDX-License-Identifier: BSD-3-Clause */
/* What an operation on the shared segment waits for, for how long, and whom it tells so. */
#include "collectives/shm/executor.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "collectives/comm/context.h"
#include "collectives/engine/call.h"
#include "collectives/engine/engine.h"
#include "collectives/engine/group.h"
#include "collectives/schedule/type.h"
#include "collectives/shm/round.h"
#include "protocol/worker.h"

#define PATIENCE  (100 * BR_MS) /* then an operation tells those that it waits for */
#define SAY_AGAIN BR_SEC

/* The rank that is furthest behind, without which there is no room to publish; -1: none is. */
static int watch_behind(const struct br_shm_executor *shm)
{
    uint64_t first = shm->epoch + 1;
    int behind = -1;

    for (uint32_t r = 0; r < shm->n; r++) {
        uint64_t missing = br_shm_coll_missing(&shm->coll, r, first);

        if (missing < first) {
            first = missing;
            behind = (int)r;
        }
    }
    return behind;
}

/* What an operation waits for that has the turn: what others publish, or room for its next round?
 */
static bool watch_for_data(const struct br_shm_executor *shm)
{
    return shm->published && !(shm->pieces && shm->has_read);
}

int br_shm_executor_missing(const struct br_shm_executor *shm, const struct br_operation *op)
{
    const struct br_operation *first = op ? op : br_shm_executor_head(shm);

    if (!first)
        return -1;
    return watch_for_data(shm) ? br_shm_round_waits_for(shm, first) : watch_behind(shm);
}

/* An operation of this rank, by one of its rounds that not all ranks have published. */
struct begun {
    const struct br_group *group;
    uint64_t sequence;
    uint16_t check;
    struct br_call call;
};

static struct begun watch_begun(const struct br_shm_executor *shm, uint64_t epoch)
{
    struct begun begun = {.group = shm->rounds_of[epoch % BR_SHM_COLL_DEPTH].group,
                          .sequence = shm->rounds_of[epoch % BR_SHM_COLL_DEPTH].sequence,
                          .check = br_shm_coll_check(&shm->coll, shm->rank, epoch)};

    memcpy(&begun.call, br_shm_coll_description(&shm->coll, shm->rank, epoch), sizeof begun.call);
    return begun;
}

void br_shm_executor_report(struct br_shm_executor *shm)
{
    if (shm->reported + BR_SHM_COLL_DEPTH < shm->epoch)
        shm->reported = shm->epoch - BR_SHM_COLL_DEPTH; /* what is older, all have published */
    while (shm->reported < shm->epoch) {
        struct begun begun = watch_begun(shm, ++shm->reported);

        if (shm->reported > shm->coll.floor || begun.group != shm->group)
            br_worker_begins(shm->context->worker, begun.group->number, begun.sequence, begun.check,
                             &begun.call);
    }
}

const char *br_shm_executor_name_waited(const struct br_shm_executor *shm,
                                        const struct br_operation *op, char *text, size_t bytes)
{
    const struct br_operation *first = shm->busy ? NULL : br_shm_executor_head(shm);
    int rank =
        watch_for_data(shm) ? br_shm_round_waits_for(shm, first ? first : op) : watch_behind(shm);
    char name[80];

    if (first && first->shm_role != BR_SHM_ROLE_COLLECTIVE &&
        shm->guest->ops->waits_for(shm->guest, op, text, bytes))
        return text;
    if (first && first != op && first->order > op->order)
        snprintf(text, bytes, "more urgent operations");
    else if (first && br_staging_shm_gpu(first))
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

static void watch_fail_overdue(const struct br_shm_executor *shm, const struct br_operation *op)
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
static void watch_fail_departed(const struct br_shm_executor *shm, const struct br_operation *op)
{
    struct br_worker *w = shm->context->worker;
    int rank = br_shm_executor_missing(shm, op);
    char text[240], name[80];

    if (rank < 0 || w->peers[br_group_in_job(shm->group, rank)].state != BR_PEER_LEFT ||
        br_shm_executor_missing(shm, op) != rank) /* it has published just before it left */
        return;
    if (!op)
        op = br_shm_executor_head(shm);
    snprintf(text, sizeof text,
             "%s has left the job (braid_finalize), but %s of %zu elements waits for it",
             br_group_name_rank(shm->group, rank, name, sizeof name),
             br_collective_name(op->collective), op->count);
    br_worker_fail(w, ECONNRESET, text);
}

void br_shm_executor_watch(struct br_shm_executor *shm, const struct br_operation *op, uint64_t now)
{
    const struct br_operation *first = op ? op : br_shm_executor_head(shm), *overdue;
    struct br_worker *w = shm->context->worker;
    struct br_call call;

    overdue = op && op->deadline <= now ? op : br_shm_executor_overdue(shm, now);
    if (overdue)
        watch_fail_overdue(shm, overdue);
    watch_fail_departed(shm, op);
    if (!first || first->shm_role == BR_SHM_ROLE_ENGINE)
        return;
    call = br_shm_round_call(first);
    if (shm->watched_sequence != first->sequence + 1) {
        br_shm_executor_report(shm);
        br_worker_begins(w, first->group->number, first->sequence, br_shm_round_digest(first),
                         &call);
        shm->watched_sequence = first->sequence + 1;
        shm->notify_at = now + PATIENCE;
    }
    if (shm->published && br_shm_round_check(shm, first)) {
        br_worker_fail(w, EPROTO, br_error_message());
        return;
    }
    if (now < shm->notify_at)
        return;
    shm->notify_at = now + SAY_AGAIN;
    for (uint32_t r = 0; r < shm->n; r++) {
        uint64_t missing = br_shm_coll_missing(&shm->coll, r, shm->epoch + 1);
        struct begun begun;

        if (missing > shm->epoch || (watch_for_data(shm) && !br_shm_round_needs(shm, first, r)))
            continue;
        begun = watch_begun(shm, missing); /* what that rank, which is behind, is to call next */
        br_worker_waits_for(w, br_group_in_job(shm->group, (int)r), begun.group->number,
                            begun.sequence, begun.check, &begun.call);
    }
}
