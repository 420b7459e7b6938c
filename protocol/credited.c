/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Credited messages: EAGER, READY, PUT, GET, ATOMIC and ANNOUNCE leave on a rail that has a credit
 * for them. The rules, and why a search in vain is remembered (`credit_bound`), are in
 * doc/design/rails.md, sections 4 to 6.
 */
#include "protocol/internal.h"

#include <stdlib.h>
#include <string.h>

static enum br_credit credit_of(const struct br_worker *w, const struct br_transfer *t)
{
    switch (br_tag_class(t->tag)) {
    case BR_TAG_P2P:
        return t->expected ? BR_CREDIT_EXPECTED : BR_CREDIT_P2P;
    case BR_TAG_ONESIDED:
        return BR_CREDIT_ONESIDED;
    default:
        return br_transfer_is_oldest(w, t) ? BR_CREDIT_OLDEST : BR_CREDIT_ORDINARY;
    }
}

/* The kinds that `credit_bound` speaks of are those that the messages have now. When another
 * message is the oldest, one in the queue may have become of that kind. */
static void credited_bound_refresh(const struct br_worker *w, struct br_peer *peer)
{
    if (peer->bound_oldest.order == w->oldest.order &&
        peer->bound_oldest.within == w->oldest.within)
        return;
    peer->bound_oldest = w->oldest;
    if (peer->credit_bound <= BR_CREDIT_OLDEST)
        peer->credit_bound = BR_CREDIT_OLDEST + 1;
}

/* A message joins BR_QUEUE_MESSAGES: what was searched for in vain may be there now. */
static void credited_bound_raise(const struct br_worker *w, struct br_peer *peer,
                                 enum br_credit kind)
{
    credited_bound_refresh(w, peer);
    if (peer->credit_bound <= kind)
        peer->credit_bound = (uint8_t)(kind + 1);
}

void br_send_message_due(struct br_worker *w, struct br_peer *peer, struct br_transfer *t)
{
    bool p2p = br_tag_class(t->tag) == BR_TAG_P2P && !t->expected;

    br_queue_insert(&peer->queues[p2p ? BR_QUEUE_P2P : BR_QUEUE_MESSAGES], &t->queued, w->now);
    if (!p2p && peer->credit_bound < BR_CREDIT_P2P)
        credited_bound_raise(w, peer, credit_of(w, t));
    br_peer_activate(w, peer);
}

static void ask_what_arrived(struct br_rail *rail)
{
    if (rail->pinged == rail->sent)
        return;
    rail->pinged = rail->sent;
    rail->ping_due = true;
}

/* Does another rail carry a message of a collective that is older and that may have to go again
 * (doc/design/rails.md, section 4)? */
static bool older_on_its_way(struct br_peer *peer, const struct br_rail *rail,
                             const struct br_age *age)
{
    for (int i = 0; i < peer->n_rails; i++) {
        struct br_rail *other = &peer->rails[i];

        for (uint32_t k = other->peer_arrived;
             other != rail && other->state == BR_RAIL_UP && k != other->sent; k++) {
            const struct br_retained *sent = &other->retained[k % BR_CREDITS];

            if (br_tag_class(sent->message.tag) != BR_TAG_COLLECTIVE ||
                !br_age_before(&sent->age, age))
                continue;
            ask_what_arrived(other);
            return true;
        }
    }
    return false;
}

/* May a message as old as that leave on the rail? age NULL: of any age. Not before the rail is UP
 * at the other end, too: doc/design/links.md, section 2. */
static bool may_leave(struct br_peer *peer, const struct br_rail *rail, enum br_credit credit,
                      const struct br_age *age)
{
    if (rail->unheard || !br_rail_has_credit(rail, credit))
        return false;
    return credit != BR_CREDIT_OLDEST || !age || br_rail_has_credit(rail, BR_CREDIT_ORDINARY) ||
           !older_on_its_way(peer, rail, age);
}

/* The rail with a credit that has the least to deliver. */
static struct br_rail *message_rail(struct br_peer *peer, uint32_t full, enum br_credit credit,
                                    const struct br_age *age)
{
    struct br_rail *best = NULL;

    for (int i = 0; i < peer->n_rails; i++) {
        struct br_rail *rail = &peer->rails[i];

        if (rail->state == BR_RAIL_UP && !(full >> i & 1) && may_leave(peer, rail, credit, age) &&
            (!best || br_rail_compare(rail, best) < 0))
            best = rail;
    }
    return best;
}

/* Room for the data of the next message, behind that of the last one, so that small messages keep
 * to few cache lines. It never meets data that may still have to be sent again: fewer than
 * BR_CREDITS messages have not arrived, and the memory is for two more, this one and what one that
 * does not fit at the end leaves unused. */
static uint8_t *retained_room(struct br_rail *rail, uint32_t length)
{
    if (rail->sent == rail->peer_arrived || rail->retained_bytes - rail->retained_end < length)
        rail->retained_end = 0;
    return rail->retained_memory + rail->retained_end;
}

/* Writes the message into the rail's next `retained` entry and posts it from there. Message and
 * data are copied, so the transfer ends at once, and the message can be sent again if the rail is
 * lost. */
static bool post_retained(struct br_rail *rail, const struct br_message *m,
                          const struct br_age *age, const struct br_notify *notify,
                          const void *data, uint32_t length)
{
    struct br_retained *keep = &rail->retained[rail->sent % BR_CREDITS];
    uint32_t before = notify ? sizeof *notify : 0;

    keep->message = *m;
    keep->age = *age;
    keep->memory = retained_room(rail, before + length);
    if (notify)
        memcpy(keep->memory, notify, sizeof *notify);
    if (length)
        memcpy(keep->memory + before, data, length);
    length += before;
    keep->length = length;
    if (br_control_post(rail, m, length ? keep->memory : NULL, length) != 1)
        return false;
    rail->sent++;
    rail->retained_end += (length + 15) & ~15u;
    if (br_tag_class(m->tag) == BR_TAG_P2P)
        rail->sent_p2p++;
    rail->total_tx += br_message_data(m, length);
    return true;
}

static struct br_age age_of(const struct br_transfer *t)
{
    return (struct br_age){
        .order = t->order, .within = t->within, .fragment = br_tag_fragment(t->tag)};
}

static bool send_message(struct br_worker *w, struct br_peer *peer, struct br_rail *rail,
                         struct br_transfer *t, const struct br_age *age)
{
    struct br_stream *stream = &peer->streams[br_stream_of(t->tag)];
    struct br_message m = {0};
    bool announces = t->is_send && t->state == BR_TRANSFER_MATCHING;
    uint8_t places[BR_MAX_RKEYS];
    const void *payload = NULL;
    uint32_t length = 0;

    if (t->request)
        m = *t->request;
    else
        m.bytes = t->length;
    m.check = t->check;
    m.sequence = stream->sequence;
    m.tag = t->tag;
    if (!t->is_send) {
        m.type = BR_MESSAGE_READY;
        m.ready =
            (struct br_body_ready){.slot = br_slot_number(&w->slots, t->slot), .total = t->total};
        if (peer->rkey_rails) {
            payload = places;
            length = br_rkey_write(peer, t, &m, places);
        }
    } else if (announces) {
        m.type = BR_MESSAGE_ANNOUNCE;
        m.waiting.total = t->total;
    } else if (!t->request && t->length <= BR_EAGER_INLINE) {
        m.type = BR_MESSAGE_EAGER;
        if (t->length)
            memcpy(m.data, t->memory, t->length);
    } else {
        m.type = t->request ? m.type : BR_MESSAGE_EAGER;
        payload = t->memory;
        length = t->length;
    }
    if (!post_retained(rail, &m, age, t->notify, payload, length))
        return false;
    stream->sequence++;
    if (!br_list_empty(&t->queued.node)) {
        br_queue_served(&t->queued, w->now);
        br_queue_remove(&t->queued);
    }
    if (announces) {
        ; /* it goes on waiting for its READY */
    } else if (t->is_send) {
        w->counters.copied_bytes += t->length;
        br_transfer_end(w, t, 0);
    } else {
        t->state = BR_TRANSFER_MATCHING;
    }
    return true;
}

/* A message of a lost rail, with its old sequence: the peer drops it if it has it already. */
static bool send_unacked(struct br_rail *rail, struct br_unacked *unacked)
{
    if (!post_retained(rail, &unacked->message, &unacked->age, NULL, unacked->data,
                       unacked->length))
        return false;
    br_list_remove(&unacked->node);
    free(unacked);
    return true;
}

/* A rail for a message, or NULL: it has to wait for a credit. */
static struct br_rail *credited_rail(struct br_worker *w, struct br_peer *peer, uint32_t full,
                                     enum br_credit credit, const struct br_age *age)
{
    struct br_rail *rail = message_rail(peer, full, credit, age);

    if (!rail)
        w->counters.credit_stalls++;
    return rail;
}

/* The head has no credit. Returns the first message of BR_QUEUE_MESSAGES that may use a credit kept
 * for `least` or for a kind behind it in enum br_credit; NULL: there is none. */
static struct br_transfer *credited_entitled(const struct br_worker *w, struct br_peer *peer,
                                             enum br_credit least)
{
    credited_bound_refresh(w, peer);
    if (least >= peer->credit_bound)
        return NULL;
    br_list_for_each (node, &peer->queues[BR_QUEUE_MESSAGES].entries) {
        struct br_transfer *t = br_container_of(node, struct br_transfer, queued.node);

        if (credit_of(w, t) >= least)
            return t;
    }
    peer->credit_bound = (uint8_t)least;
    return NULL;
}

/* The smallest of a stream's numbers that may not have arrived, and the rail that carries it, or
 * NULL. */
static uint32_t first_open(const struct br_peer *peer, int which, struct br_rail **on)
{
    const struct br_stream *stream = &peer->streams[which];
    uint32_t first = stream->sequence;

    *on = NULL;
    for (int i = 0; i < peer->n_rails; i++) {
        struct br_rail *rail = &peer->rails[i];

        for (uint32_t k = rail->peer_arrived; rail->state == BR_RAIL_UP && k != rail->sent; k++) {
            const struct br_message *m = &rail->retained[k % BR_CREDITS].message;

            if (br_stream_of(m->tag) == which && (int32_t)(m->sequence - first) < 0) {
                first = m->sequence;
                *on = rail;
            }
        }
    }
    br_list_for_each (node, &stream->resend) {
        uint32_t sequence = br_container_of(node, struct br_unacked, node)->message.sequence;

        if ((int32_t)(sequence - first) < 0) {
            first = sequence;
            *on = NULL;
        }
    }
    return first;
}

bool br_worker_all_arrived(struct br_worker *w, int rank)
{
    struct br_peer *peer = &w->peers[rank];
    struct br_rail *on;

    if (!peer->n_rails || peer->state == BR_PEER_LEFT || peer->state == BR_PEER_DEAD ||
        first_open(peer, 1, &on) == peer->streams[1].sequence)
        return true;
    if (on)
        ask_what_arrived(on);
    br_peer_activate(w, peer);
    return false;
}

/* May the stream's next number be used (doc/design/rails.md, section 5)? */
static bool may_number(struct br_peer *peer, int which)
{
    struct br_stream *stream = &peer->streams[which];
    struct br_rail *on;

    if (stream->sequence != stream->end)
        return true;
    stream->end = first_open(peer, which, &on) + BR_SEEN;
    if (stream->sequence != stream->end)
        return true;
    if (on)
        ask_what_arrived(on);
    return false;
}

bool br_credited_message(struct br_worker *w, struct br_peer *peer, struct br_transfer *t,
                         struct br_pump *pump)
{
    struct br_age age = age_of(t);
    enum br_credit credit = credit_of(w, t);
    struct br_rail *rail = credited_rail(w, peer, pump->full, credit, &age);

    /* No message behind the head of BR_QUEUE_P2P may use a kept credit. */
    for (enum br_credit kept = BR_CREDIT_OLDEST;
         !rail && credit != BR_CREDIT_P2P && kept <= BR_CREDIT_EXPECTED; kept++) {
        struct br_transfer *other =
            message_rail(peer, pump->full, kept, NULL) ? credited_entitled(w, peer, kept) : NULL;

        if (other) {
            age = age_of(other);
            rail = message_rail(peer, pump->full, kept, &age);
            t = rail ? other : t;
        }
    }
    if (!rail || !may_number(peer, br_stream_of(t->tag)))
        return false;
    if (send_message(w, peer, rail, t, &age))
        pump->n++;
    else
        pump->full |= 1u << rail->index;
    return true;
}

bool br_credited_at_once(struct br_worker *w, struct br_peer *peer, struct br_transfer *t)
{
    uint32_t full = peer->alternates && br_peer_direct(peer) ? peer->alternates : 0;
    struct br_age age = age_of(t);
    struct br_rail *rail;

    if (!br_list_empty(&peer->active) || br_tag_class(t->tag) != BR_TAG_P2P)
        return false;
    rail = message_rail(peer, full, BR_CREDIT_P2P, &age);
    if (!rail || !may_number(peer, br_stream_of(t->tag)) || !send_message(w, peer, rail, t, &age))
        return false;
    w->flush_due = w->flush_due || !rail->device->caps.maps;
    return true;
}

/* One message of a lost rail, on the first rail that takes it. */
static void pump_unacked(struct br_worker *w, struct br_peer *peer, struct br_unacked *unacked,
                         enum br_credit credit, struct br_pump *pump)
{
    struct br_rail *rail;

    while ((rail = credited_rail(w, peer, pump->full, credit, &unacked->age))) {
        if (send_unacked(rail, unacked)) {
            pump->n++;
            return;
        }
        pump->full |= 1u << rail->index;
    }
}

/* oldest: no message of a collective in the list is older. */
static enum br_credit credit_of_unacked(const struct br_worker *w, const struct br_unacked *unacked,
                                        bool oldest)
{
    switch (br_tag_class(unacked->message.tag)) {
    case BR_TAG_P2P:
        return unacked->expected ? BR_CREDIT_EXPECTED : BR_CREDIT_P2P;
    case BR_TAG_ONESIDED:
        return BR_CREDIT_ONESIDED;
    default:
        return oldest && !br_age_before(&w->oldest, &unacked->age) ? BR_CREDIT_OLDEST
                                                                   : BR_CREDIT_ORDINARY;
    }
}

void br_credited_unacked(struct br_worker *w, struct br_peer *peer, struct br_pump *pump)
{
    bool oldest = true;

    for (int k = 0; k < BR_STREAMS; k++)
        br_list_for_each_safe (node, &peer->streams[k].resend) {
            struct br_unacked *unacked = br_container_of(node, struct br_unacked, node);
            enum br_credit credit = credit_of_unacked(w, unacked, oldest);

            oldest = oldest && br_tag_class(unacked->message.tag) != BR_TAG_COLLECTIVE;
            pump_unacked(w, peer, unacked, credit, pump); /* and frees it */
        }
}
