/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receives that learn from their message who sent it, with which tag, and how long it is
 * (doc/design/receives.md). Such a receive is no transfer before its message has come, as a whole
 * or as an announcement; then it is one like all others. So it waits in engine->receives, and the
 * messages wait in the worker's `arrivals`, both in order. A receive of a known message waits here,
 * too, when one before it may be for the same message.
 */
#include "collectives/engine/internal.h"

#include <errno.h>
#include <stdio.h>

#include "base/error.h"

/* What a receive or a probe asks for. */
struct wanted {
    struct br_group *group;
    int peer; /* rank of the group, or BRAID_ANY_SOURCE */
    uint32_t tag, ignore;
    const struct br_operation *op; /* behind those in `receives` before it; NULL: behind all */
};

/* A message that was found. */
struct found {
    struct br_arrival arrival; /* its number orders both kinds */
    int peer;                  /* rank of the group */
    struct br_operation *self; /* the send of this rank to itself; NULL: it is another's */
};

static bool tags_match(uint32_t tag, uint32_t wanted, uint32_t ignore)
{
    return !((tag ^ wanted) & ~ignore);
}

static uint64_t next_number(const struct br_group *group, int peer, uint32_t tag)
{
    return br_tag_sequences_next(&group->tag_sequences, peer, false, tag);
}

static bool fits(const struct br_operation *op, const struct br_group *group, int peer,
                 uint32_t tag)
{
    return op->group == group && (op->peer == peer || op->peer == BRAID_ANY_SOURCE) &&
           tags_match(tag, op->tag, op->tag_ignore);
}

/* A receive before this one has declined the message because an earlier one may still come, and
 * gets it when that is for another. */
static bool is_for_earlier(const struct br_engine *engine, const struct wanted *w, int peer,
                           uint32_t tag)
{
    br_list_for_each (node, &engine->receives) {
        const struct br_operation *op = br_container_of(node, struct br_operation, node);

        if (op == w->op)
            break;
        if (fits(op, w->group, peer, tag))
            return true;
    }
    return false;
}

/* Not one behind a message of the same peer and tag that is not here yet; nor, where the tag may be
 * any, behind one of another tag. */
static bool is_wanted(struct br_engine *engine, const struct wanted *w, const struct br_arrival *a,
                      int *peer)
{
    uint32_t tag = (uint32_t)a->tag;

    if (br_tag_group(a->tag) != w->group->number || !tags_match(tag, w->tag, w->ignore))
        return false;
    *peer = br_group_rank_of(w->group, a->peer);
    if (*peer < 0 || (w->peer != BRAID_ANY_SOURCE && w->peer != *peer) ||
        br_tag_number(a->tag) != next_number(w->group, *peer, tag) % BR_OPERATIONS)
        return false;
    return (!w->ignore || br_worker_arrived_before(engine->worker, a->peer, a->sequence)) &&
           !is_for_earlier(engine, w, *peer, tag);
}

static bool find_of_others(struct br_engine *engine, const struct wanted *w, struct found *found)
{
    const struct br_list *at = NULL;

    if (w->peer != BRAID_ANY_SOURCE && !w->ignore) {
        uint64_t number = next_number(w->group, w->peer, w->tag);

        found->peer = w->peer;
        return br_worker_find_arrival(engine->worker, br_tag_p2p(w->group->number, number, w->tag),
                                      br_group_in_job(w->group, w->peer), &found->arrival) &&
               !is_for_earlier(engine, w, w->peer, w->tag);
    }
    while (br_worker_next_arrival(engine->worker, &at, &found->arrival))
        if (is_wanted(engine, w, &found->arrival, &found->peer))
            return true;
    return false;
}

/* The earliest one; of one peer in the order in which it sent them. */
static bool receives_find(struct br_engine *engine, const struct wanted *w, struct found *found)
{
    bool any = (w->peer != w->group->rank && find_of_others(engine, w, found));

    found->self = NULL;
    if (w->peer != BRAID_ANY_SOURCE && w->peer != w->group->rank)
        return any;
    br_list_for_each (node, &engine->to_self) {
        struct br_operation *op = br_container_of(node, struct br_operation, node);

        if (op->claimed || op->group != w->group || !tags_match(op->tag, w->tag, w->ignore))
            continue;
        if (any && found->arrival.number < op->claim)
            break;
        *found =
            (struct found){.arrival = {.tag = op->tag, .bytes = op->count, .number = op->claim},
                           .peer = w->group->rank,
                           .self = op};
        return true;
    }
    return any;
}

static void tell(struct braid_received *received, const struct found *found)
{
    if (!received)
        return;
    received->bytes = found->arrival.bytes;
    received->peer = found->peer;
    received->tag = (uint32_t)found->arrival.tag;
}

/* The message stays where it is, for another receive. */
static void too_long(struct br_engine *engine, struct br_operation *op, const struct found *found)
{
    char name[80];

    snprintf(op->message, sizeof op->message,
             "the message of %s with tag %u has %llu bytes, and the memory of its receive %zu: the "
             "message is still there",
             br_group_name_rank(op->group, found->peer, name, sizeof name),
             (uint32_t)found->arrival.tag, (unsigned long long)found->arrival.bytes, op->count);
    op->group->unreceived++;
    br_operation_end(engine, op, -EMSGSIZE);
}

static void receives_take(struct br_engine *engine, struct br_operation *op,
                          const struct found *found)
{
    int rc;

    tell(op->received, found);
    if (!op->exact && found->arrival.bytes > op->count) {
        too_long(engine, op, found);
        return;
    }
    op->peer = found->peer;
    op->tag = (uint32_t)found->arrival.tag;
    if (!op->exact)
        op->count = found->arrival.bytes;
    if (found->self) {
        br_p2p_match_self(engine, found->self, op);
        return;
    }
    br_list_remove(&op->node);
    rc = br_p2p_begin(engine, op);
    if (rc) {
        br_list_push_back(&engine->messages, &op->node); /* it ends with all others */
        br_worker_fail(engine->worker, -rc, br_error_message());
    }
}

static struct wanted wanted_of(const struct br_operation *op)
{
    return (struct wanted){
        .group = op->group, .peer = op->peer, .tag = op->tag, .ignore = op->tag_ignore, .op = op};
}

/* A message that is wanted may wait for a credit that others hold which nobody receives. */
static void make_room(struct br_engine *engine, const struct wanted *wanted)
{
    const struct br_group *group = wanted->group;
    struct br_worker *w = engine->worker;

    if (!w->unexpected.n_used)
        return;
    for (int r = 0; r < group->size; r++)
        if (r != group->rank && (wanted->peer == BRAID_ANY_SOURCE || wanted->peer == r))
            br_worker_set_aside(w, br_group_in_job(group, r));
}

static int receives_try(struct br_engine *engine, struct br_operation *op)
{
    struct wanted w = wanted_of(op);
    struct found found;

    if (!receives_find(engine, &w, &found)) {
        make_room(engine, &w);
        return 0;
    }
    receives_take(engine, op, &found);
    return 1;
}

int br_receives_match(struct br_engine *engine)
{
    struct br_worker *w = engine->worker;
    int n = 0;

    if (engine->receives_seen == w->p2p_messages + w->next_arrival + w->crowded)
        return 0;
    engine->receives_seen = w->p2p_messages + w->next_arrival + w->crowded;
    br_list_for_each_safe (node, &engine->receives)
        n += receives_try(engine, br_container_of(node, struct br_operation, node));
    return n;
}

/* ---- peers that have left -------------------------------------------------------------------- */

/* Nobody is left who could send it its message. */
static bool is_alone(const struct br_engine *engine, const struct br_operation *op)
{
    for (int r = 0; r < op->group->size; r++)
        if ((op->peer == BRAID_ANY_SOURCE ? r != op->group->rank : r == op->peer) &&
            (r == op->group->rank ||
             engine->worker->peers[br_group_in_job(op->group, r)].state != BR_PEER_LEFT))
            return false;
    return op->group->size > 1;
}

static void fail_alone(struct br_engine *engine, const struct br_operation *op)
{
    char text[sizeof engine->worker->message], what[160];

    br_operation_describe(op, what, sizeof what);
    snprintf(text, sizeof text, "%s has left the job (braid_finalize), but a %s of rank %d waits",
             op->peer == BRAID_ANY_SOURCE ? "every other rank" : "its sender", what,
             engine->config.rank);
    br_worker_fail(engine->worker, ECONNRESET, text);
}

static void receives_left(void *context, int rank)
{
    struct br_engine *engine = context;

    (void)rank;
    br_list_for_each (node, &engine->receives) {
        const struct br_operation *op = br_container_of(node, struct br_operation, node);

        if (is_alone(engine, op)) {
            fail_alone(engine, op);
            return;
        }
    }
}

/* ---- for others ------------------------------------------------------------------------------ */

static bool receives_is_taken(void *context, int rank, uint64_t tag)
{
    const struct br_engine *engine = context;
    const struct br_group *group = engine->groups[br_tag_group(tag)];
    int peer = group ? br_group_rank_of(group, rank) : -1;
    uint64_t next = peer < 0 ? 0 : next_number(group, peer, (uint32_t)tag);

    return (next - 1 - br_tag_number(tag)) % BR_OPERATIONS < BR_OPERATIONS / 2 && peer >= 0;
}

static int receives_notified(void *context, uint32_t group, int rank, uint64_t value)
{
    struct br_engine *engine = context;

    return br_notifications_add(&engine->notifications, group, rank, value);
}

void br_receives_init(struct br_engine *engine)
{
    br_list_init(&engine->receives);
    engine->worker->p2p = (struct br_p2p_hooks){.context = engine,
                                                .is_taken = receives_is_taken,
                                                .notified = receives_notified,
                                                .left = receives_left};
}

bool br_receives_before(const struct br_engine *engine, const struct br_operation *op)
{
    if (op->kind != BR_OPERATION_RECV || op->claimed)
        return false;
    br_list_for_each (node, &engine->receives) {
        if (fits(br_container_of(node, struct br_operation, node), op->group, op->peer, op->tag))
            return true;
    }
    return false;
}

void br_receives_submit(struct br_engine *engine, struct br_operation *op)
{
    bool named = op->peer != BRAID_ANY_SOURCE && op->peer != op->group->rank;
    int peer = named ? br_group_in_job(op->group, op->peer) : 0;
    int rc = named ? br_transfer_reach(engine->worker, peer) : 0;

    if (rc)
        br_p2p_failed(engine, rc, "receive", peer);
    br_receives_match(engine); /* those before it */
    op->exact = !op->learns;
    br_list_push_back(&engine->receives, &op->node);
    if (!receives_try(engine, op) && is_alone(engine, op))
        fail_alone(engine, op);
}

int br_engine_probe(struct br_engine *engine, struct br_group *group, int peer, uint32_t tag,
                    uint32_t ignore, bool claim, struct braid_received *received)
{
    struct wanted w = {
        .group = group ? group : &engine->all, .peer = peer, .tag = tag, .ignore = ignore};
    struct found found;
    bool any;
    int rc;

    if (engine->worker->failed)
        return br_error(-engine->worker->failed, "%s", engine->worker->message);
    br_receives_match(engine); /* those that wait go first */
    any = receives_find(engine, &w, &found);
    if (!any) {
        make_room(engine, &w);
        return 0;
    }
    tell(received, &found);
    if (!claim)
        return 1;
    if (found.self) {
        found.self->claimed = true;
        received->message = found.self->claim;
        return 1;
    }
    rc = br_tag_sequences_take(&w.group->tag_sequences, found.peer, false, received->tag,
                               br_p2p_parts(received->bytes), &received->message);
    return rc ? rc : 1;
}

void br_engine_forget_group(struct br_engine *engine, const struct br_group *group)
{
    if (engine->groups[group->number] == group)
        engine->groups[group->number] = NULL;
    br_notifications_forget(&engine->notifications, group->number);
}

bool br_engine_notified(struct br_engine *engine, struct br_group *group,
                        struct braid_notification *notification)
{
    int in_job;

    if (!group)
        group = &engine->all;
    if (!br_notifications_take(&engine->notifications, group->number, &in_job,
                               &notification->value))
        return false;
    notification->peer = br_group_rank_of(group, in_job);
    return true;
}

uint64_t br_engine_notifications(const struct br_engine *engine)
{
    return engine->notifications.added;
}
