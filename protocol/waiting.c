/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * WAITING: a transfer says that it waits for its other end, so that ends which disagree find out,
 * and so that the message it waits for may use a credit that is kept (doc/design/agreement.md,
 * sections 3 and 6).
 */
#include "protocol/internal.h"

#include <errno.h>

#include "base/clock.h"

#define PATIENCE BR_WAITING_PATIENCE
/* With fewer messages held by this end the other one has credits. */
#define FEW  BR_CREDITS_P2P_OWN
#define MANY (BR_CREDITS_P2P - BR_CREDITS_P2P_OWN)

/* Do we hold so many point-to-point messages on each rail that the peer may use? */
static bool waiting_messages_held(const struct br_peer *peer, uint32_t messages)
{
    bool direct = br_peer_direct(peer), any = false;

    for (int i = 0; i < peer->n_rails; i++) {
        const struct br_rail *rail = &peer->rails[i];

        if (rail->state != BR_RAIL_UP || (direct && peer->alternates >> i & 1))
            continue;
        if (rail->arrived_p2p - rail->released_p2p < messages)
            return false;
        any = true;
    }
    return any;
}

static struct br_list *list_of(struct br_peer *peer, const struct br_transfer *t)
{
    return br_tag_class(t->tag) == BR_TAG_P2P && !t->is_send ? &peer->expecting : &peer->waiting;
}

void br_waiting_begin(struct br_worker *w, struct br_transfer *t)
{
    struct br_peer *peer = &w->peers[t->peer];

    if (t->rendezvous || br_tag_class(t->tag) == BR_TAG_ONESIDED)
        return; /* of these the other end hears in any case */
    br_demand_use(w, peer);
    t->waits_since = w->now;
    if (br_tag_class(t->tag) != BR_TAG_P2P || !waiting_messages_held(peer, MANY)) {
        br_list_push_back(list_of(peer, t), &t->node);
        return;
    }
    t->waits_since -= PATIENCE; /* at once */
    br_list_push_front(list_of(peer, t), &t->node);
    peer->waiting_due = true;
    br_peer_activate(w, peer);
}

static struct br_transfer *waiting_first(const struct br_list *list)
{
    return br_list_empty(list) ? NULL : br_container_of(list->next, struct br_transfer, node);
}

/* The transfer that is the next to say it; NULL: none is. */
static struct br_transfer *next_of(const struct br_peer *peer)
{
    struct br_transfer *t = waiting_first(&peer->waiting), *small = waiting_first(&peer->expecting);

    if (!small || !waiting_messages_held(peer, FEW))
        return t;
    return !t || (int64_t)(small->waits_since - t->waits_since) < 0 ? small : t;
}

static bool waiting_is_due(const struct br_worker *w, const struct br_transfer *t)
{
    return t && w->now - t->waits_since >= PATIENCE;
}

/* A small receive of which nothing need be said, but which waits for a rank to which there is no
 * link: if that rank is dead, an attempt to connect finds out. */
static struct br_transfer *waits_without_link(const struct br_peer *peer)
{
    return peer->on_demand && !peer->wanted && br_peer_is_unlinked(peer)
               ? waiting_first(&peer->expecting)
               : NULL;
}

void br_waiting_timer(struct br_worker *w, struct br_peer *peer)
{
    if (waiting_is_due(w, waits_without_link(peer)))
        br_peer_want(w, peer);
    if (!waiting_is_due(w, next_of(peer)))
        return;
    peer->waiting_due = true;
    br_peer_activate(w, peer);
}

uint64_t br_waiting_next_timer(const struct br_peer *peer)
{
    const struct br_transfer *t = peer->waiting_due ? NULL : next_of(peer);

    if (!t)
        t = waits_without_link(peer);
    return t ? t->waits_since + PATIENCE : UINT64_MAX;
}

void br_waiting_describe(struct br_message *m, const struct br_call *call)
{
    m->waiting = (struct br_body_waiting){.total = call->count,
                                          .root = call->root,
                                          .collective = call->collective,
                                          .type = call->type,
                                          .reduction = call->reduction,
                                          .by = call->by};
}

struct br_call br_waiting_described(const struct br_message *m)
{
    const struct br_body_waiting *b = &m->waiting;

    return (struct br_call){.root = b->root,
                            .collective = b->collective,
                            .type = b->type,
                            .reduction = b->reduction,
                            .by = b->by <= BR_CALL_ASKED ? b->by : BR_CALL_UNKNOWN,
                            .count = b->total};
}

/* One at a time, the next one in the next timers: they have no credits. */
bool br_waiting_post(struct br_worker *w, struct br_peer *peer, struct br_rail *rail)
{
    struct br_transfer *t = next_of(peer);
    struct br_message m = {.type = BR_MESSAGE_WAITING};
    const struct br_call *call;

    if (peer->call.type) {
        if (br_control_post(rail, &peer->call, NULL, 0) != 1)
            return false;
        peer->call.type = 0;
    }
    if (waiting_is_due(w, t)) { /* else it has found its other end meanwhile */
        m.tag = t->tag;
        m.check = t->check;
        m.bytes = t->length;
        m.waiting.total = t->total;
        call = br_tag_class(t->tag) == BR_TAG_COLLECTIVE ? br_agree_call(w, t->tag) : NULL;
        if (call)
            br_waiting_describe(&m, call);
        m.waiting.receives = !t->is_send;
        if (br_control_post(rail, &m, NULL, 0) != 1)
            return false;
        br_list_remove(&t->node);
        t->waits_since = w->now;
        if (br_tag_class(t->tag) == BR_TAG_P2P)
            br_list_push_back(list_of(peer, t), &t->node);
    }
    peer->waiting_due = false;
    return true;
}

/* ---- heard ----------------------------------------------------------------------------------- */

/* A small send that has not left yet, or NULL. */
static struct br_transfer *queued_send(const struct br_peer *peer, uint64_t tag)
{
    br_list_for_each (node, &peer->queues[BR_QUEUE_P2P].entries) {
        struct br_transfer *t = br_container_of(node, struct br_transfer, queued.node);

        if (t->is_send && t->tag == tag)
            return t;
    }
    return NULL;
}

static void waiting_set_expected(struct br_worker *w, struct br_peer *peer, struct br_transfer *t)
{
    if (t->expected)
        return;
    t->expected = true;
    if (t->state == BR_TRANSFER_QUEUED) {
        br_queue_remove(&t->queued);
        br_send_message_due(w, peer, t); /* to where no other point-to-point message is before it */
    } else {
        br_receive_expected(w, t);
    }
}

void br_waiting_received(struct br_worker *w, struct br_rail *rail, const struct br_message *m)
{
    struct br_peer *peer = rail->peer;
    struct br_transfer *t;

    if (br_tag_class(m->tag) == BR_TAG_COLLECTIVE) {
        /* a large send; we wait for a small one, of which nothing else tells */
        t = m->waiting.receives ? NULL : br_match_posted(w, m->tag, peer->rank);
        if (br_agree_operation(w, peer->rank, m) && t && m->bytes && t->check == m->check)
            br_agree_transfer(w, t, m);
    }
    if (br_tag_class(m->tag) != BR_TAG_P2P)
        return;
    /* Only large sends and small receives say it (br_waiting_begin). */
    if (!m->waiting.receives == br_peer_takes_eagerly(w, peer->rank, m->bytes)) {
        br_rail_lost(w, rail, EPROTO,
                     "a small send or a large receive cannot wait for its other end");
        return;
    }
    t = m->waiting.receives ? queued_send(peer, m->tag) : br_match_posted(w, m->tag, peer->rank);
    if (t && br_agree_transfer(w, t, m))
        waiting_set_expected(w, peer, t);
    br_list_for_each (node, &peer->streams[1].resend) {
        struct br_unacked *unacked = br_container_of(node, struct br_unacked, node);

        if (unacked->message.tag == m->tag &&
            unacked->message.type == (m->waiting.receives ? BR_MESSAGE_EAGER : BR_MESSAGE_READY))
            unacked->expected = true;
    }
    br_peer_activate(w, peer);
}
