/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer that has left the job in good order: its BYE is here, and all numbered messages that it
 * has sent before. What still waits for it fails the worker: doc/design/failures.md, section 5.
 */
#include "protocol/internal.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"

#define GRACE (5 * BR_MS)

void br_left_check(struct br_worker *w, struct br_peer *peer)
{
    if (peer->state == BR_PEER_LEFT)
        return;
    for (int k = 0; k < BR_STREAMS; k++)
        if (!br_match_all_seen(&peer->streams[k], peer->bye_next[k]))
            return;
    br_demand_left(w, peer->rank);
    br_peer_has_left(w, peer);
}

void br_peer_has_left(struct br_worker *w, struct br_peer *peer)
{
    peer->state = BR_PEER_LEFT;
    peer->left_check = w->now + GRACE;
}

/* Is this our own transfer with the peer, of the kind that is asked for? Not one of a request of
 * the peer that we serve. */
static bool left_is_wanted(const struct br_worker *w, const struct br_transfer *t, bool onesided)
{
    return t->owner != &w->services && (br_tag_class(t->tag) == BR_TAG_ONESIDED) == onesided;
}

static struct br_transfer *left_posted(const struct br_worker *w, const struct br_table *table,
                                       int rank, bool onesided)
{
    for (uint32_t i = 0; table->count && i <= table->mask; i++) {
        const struct br_table_entry *entry = &table->entries[i];
        struct br_transfer *t =
            entry->used && entry->peer == (uint32_t)rank ? br_match_transfer(entry->value) : NULL;

        if (t && left_is_wanted(w, t, onesided))
            return t;
    }
    return NULL;
}

/* Small sends, and requests, that have not left. */
static struct br_transfer *left_queued(const struct br_worker *w, const struct br_queue *queue,
                                       bool onesided)
{
    br_list_for_each (node, &queue->entries) {
        struct br_transfer *t = br_container_of(node, struct br_transfer, queued.node);

        if (t->is_send && left_is_wanted(w, t, onesided))
            return t;
    }
    return NULL;
}

static struct br_transfer *left_moving(const struct br_worker *w, const struct br_peer *peer,
                                       bool onesided)
{
    br_list_for_each (node, &peer->moving) {
        struct br_transfer *t = br_container_of(node, struct br_transfer, node);

        if (t->cursor < t->length && left_is_wanted(w, t, onesided))
            return t;
    }
    return NULL;
}

/* A transfer that waits for the peer, or NULL. */
static const struct br_transfer *left_waits(const struct br_worker *w, const struct br_peer *peer,
                                            bool onesided)
{
    const struct br_transfer *t = left_posted(w, &w->receives, peer->rank, onesided);

    if (!t)
        t = left_posted(w, &w->sends, peer->rank, onesided);
    if (!t)
        t = left_moving(w, peer, onesided);
    if (!t)
        t = left_queued(w, &peer->queues[BR_QUEUE_MESSAGES], onesided);
    return t ? t : left_queued(w, &peer->queues[BR_QUEUE_EAGER], onesided);
}

/* Names the transfer. Its operation stands before these words where the engine reports them, but
 * not in those that others hear. how: the end of "rank 2 has left the job (braid_finalize)". */
static void left_fail(struct br_worker *w, const struct br_peer *peer, const struct br_transfer *t,
                      const char *how)
{
    uint32_t group = (uint32_t)(t->tag >> 52) & (BR_MAX_GROUPS - 1);
    char text[sizeof w->message], what[80], of[40] = "";

    if (group && br_tag_class(t->tag) != BR_TAG_ONESIDED)
        snprintf(of, sizeof of, " of communicator %u", group);
    switch (br_tag_class(t->tag)) {
    case BR_TAG_P2P:
        snprintf(what, sizeof what, "a %s%s with tag %u", t->is_send ? "send" : "receive", of,
                 (uint32_t)t->tag);
        break;
    case BR_TAG_ONESIDED:
        snprintf(what, sizeof what, "a put, get or atomic");
        break;
    default:
        snprintf(what, sizeof what, "operation %u%s", (uint32_t)(t->tag >> 32) & 0xfffff, of);
        break;
    }
    snprintf(text, sizeof text,
             "rank %d has left the job (braid_finalize)%s, but %s of rank %d waits for it",
             peer->rank, how, what, w->config.rank);
    br_worker_fail(w, ECONNRESET, text);
}

void br_left_timer(struct br_worker *w, struct br_peer *peer)
{
    const struct br_transfer *t;

    if (!peer->left_check || w->now < peer->left_check)
        return;
    peer->left_check = 0;
    t = w->leaving ? NULL : left_waits(w, peer, false);
    if (t)
        left_fail(w, peer, t, "");
    else if (!w->leaving && w->p2p.left)
        w->p2p.left(w->p2p.context, peer->rank);
}

void br_left_unreachable(struct br_worker *w, const struct br_rail *rail, const char *why)
{
    struct br_peer *peer = rail->peer;
    const struct br_transfer *t = NULL;
    char how[192];

    peer->left_check = 0;
    br_list_for_each_safe (node, &peer->moving) {
        struct br_transfer *sent = br_container_of(node, struct br_transfer, node);

        if (sent->cursor < sent->length)
            continue;
        br_queue_remove(&sent->queued);
        if (sent->wants_done)
            br_table_remove(&w->confirms, sent->remote_slot, (uint32_t)peer->rank);
        sent->wants_done = false;
        br_transfer_end(w, sent, 0);
    }
    if (!w->leaving && !(t = left_waits(w, peer, false)))
        t = left_waits(w, peer, true);
    if (!t)
        return;
    snprintf(how, sizeof how, ", and its last rail (level %d, device %s) has failed: %.80s",
             rail->level, rail->device->name, why);
    left_fail(w, peer, t, how);
}
