/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * WAITING: a transfer says that it waits for its other end, so that ends which disagree find out
 * (doc/design/agreement.md, section 3), and so that the message or the slot that it waits for need
 * not wait for a credit or a free slot (doc/design/rails.md, section 4).
 */
#include "protocol/internal.h"

#include <errno.h>

#define PATIENCE BR_WAITING_PATIENCE

/* Do we hold so many messages on each rail that the peer may use, that it may lack credits? */
static bool waiting_is_crowded(const struct br_peer *peer)
{
    bool direct = br_peer_direct(peer), any = false;

    for (int i = 0; i < peer->n_rails; i++) {
        const struct br_rail *rail = &peer->rails[i];

        if (rail->state != BR_RAIL_UP || (direct && peer->alternates >> i & 1))
            continue;
        if (!br_rail_is_crowded(rail))
            return false;
        any = true;
    }
    return any;
}

/* A small receive has something to say only when its sender may lack credits; of a collective it
 * says once that it waits in any case, for the sake of ranks that disagree. */
static struct br_list *list_of(struct br_peer *peer, const struct br_transfer *t)
{
    bool ask_only = !t->is_send && (t->asked || br_tag_class(t->tag) == BR_TAG_P2P);

    return ask_only ? &peer->expecting : &peer->waiting;
}

void br_waiting_begin(struct br_worker *w, struct br_transfer *t)
{
    struct br_peer *peer = &w->peers[t->peer];

    if (t->rendezvous || br_tag_class(t->tag) == BR_TAG_ONESIDED)
        return; /* of these the other end hears in any case */
    br_demand_use(w, peer);
    t->waits_since = w->now;
    t->asked = false;
    if (t->is_send || !waiting_is_crowded(peer)) {
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

    if (!small || !waiting_is_crowded(peer))
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
                            .by = b->by <= BR_CALL_STREAM ? b->by : BR_CALL_UNKNOWN,
                            .count = b->total};
}

/* One at a time, as they take no credits. Those that ask for the first time follow in the next
 * passes, the others with the next timers. */
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
        t->asked = true;
        br_list_push_back(list_of(peer, t), &t->node);
        t = next_of(peer);
    }
    peer->waiting_due = waiting_is_due(w, t) && !t->asked && !t->is_send;
    return true;
}

/* ---- heard ----------------------------------------------------------------------------------- */

/* A small send that has not left yet, or NULL. */
static struct br_transfer *queued_send(const struct br_peer *peer, uint64_t tag)
{
    br_list_for_each (node, &peer->queues[BR_QUEUE_EAGER].entries) {
        struct br_transfer *t = br_container_of(node, struct br_transfer, queued.node);

        if (t->tag == tag && t->state == BR_TRANSFER_QUEUED)
            return t;
    }
    return NULL;
}

bool br_waiting_was_asked(struct br_peer *peer, uint64_t tag)
{
    uint32_t n = peer->n_asked < BR_ASKED ? peer->n_asked : BR_ASKED;

    for (uint32_t i = 0; i < n; i++)
        if (peer->asked[i] == tag) {
            peer->asked[i] = UINT64_MAX; /* no such message */
            return true;
        }
    return false;
}

/* The peer asks for a message that this rank is not about to send: it will be, or it has left. */
static void waiting_remember(struct br_worker *w, struct br_peer *peer, uint64_t tag)
{
    if (w->now >= peer->asked_until)
        peer->n_asked = 0;
    peer->asked[peer->n_asked++ % BR_ASKED] = tag;
    peer->asked_until = w->now + PATIENCE;
}

/* The receive of a small message asks for it. */
static void waiting_asked(struct br_worker *w, struct br_peer *peer, const struct br_message *m)
{
    struct br_transfer *t = queued_send(peer, m->tag);

    if (!t) {
        waiting_remember(w, peer, m->tag);
        return;
    }
    if (!br_agree_transfer(w, t, m))
        return;
    br_queue_remove(&t->queued);
    t->expected = true;
    br_send_message_due(w, peer, t); /* to where no message without a credit is before it */
}

void br_waiting_received(struct br_worker *w, struct br_rail *rail, const struct br_message *m)
{
    struct br_peer *peer = rail->peer;
    bool collective = br_tag_class(m->tag) == BR_TAG_COLLECTIVE, eager;
    struct br_transfer *t;

    if (br_tag_class(m->tag) == BR_TAG_ONESIDED ||
        (collective && !br_agree_operation(w, peer->rank, m)))
        return;
    eager = br_peer_takes_eagerly(w, peer->rank, br_tag_class(m->tag), m->bytes);
    /* Only large sends and small receives say it (br_waiting_begin). */
    if (!collective && !m->waiting.receives == eager) {
        br_rail_lost(w, rail, EPROTO,
                     "a small send or a large receive cannot wait for its other end");
        return;
    }
    if (m->waiting.receives) {
        waiting_asked(w, peer, m);
        return;
    }
    t = br_match_posted(w, m->tag, peer->rank);
    if (!t || (collective && (!m->bytes || t->check != m->check)) || !br_agree_transfer(w, t, m) ||
        eager)
        return;
    t->expected = true;
    br_receive_expected(w, t);
}
