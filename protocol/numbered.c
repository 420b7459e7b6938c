/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbered messages: EAGER, READY, PUT, GET, ATOMIC, ANNOUNCE and PUT_DONE leave on a rail that has
 * a buffer for them, and a credit where they may come before their receive. The rules, and why
 * nothing waits for ever, are in doc/design/rails.md, sections 4 to 6.
 */
#include "protocol/internal.h"

#include <stdlib.h>
#include <string.h>

/* May the message come before its receive? */
static bool numbered_may_be_early(const struct br_transfer *t)
{
    return t->is_send && !t->expected && br_tag_class(t->tag) != BR_TAG_ONESIDED;
}

void br_send_message_due(struct br_worker *w, struct br_peer *peer, struct br_transfer *t)
{
    int which = BR_QUEUE_MESSAGES;

    if (numbered_may_be_early(t)) {
        t->expected = t->state == BR_TRANSFER_QUEUED && w->now < peer->asked_until &&
                      br_waiting_was_asked(peer, t->tag);
        which = t->expected ? BR_QUEUE_MESSAGES : BR_QUEUE_EAGER;
    }
    br_queue_insert(&peer->queues[which], &t->queued, w->now);
    br_peer_activate(w, peer);
}

static void ask_what_arrived(struct br_rail *rail)
{
    if (rail->pinged == rail->sent)
        return;
    rail->pinged = rail->sent;
    rail->ping_due = true;
}

/* Of the rails that take the message the one with the least to deliver; NULL: it has to wait. Not
 * one that may not be UP at the other end yet: doc/design/links.md, section 2. */
static struct br_rail *message_rail(struct br_peer *peer, uint32_t full, bool needs_credit)
{
    struct br_rail *best = NULL;

    for (int i = 0; i < peer->n_rails; i++) {
        struct br_rail *rail = &peer->rails[i];

        if (rail->state == BR_RAIL_UP && !(full >> i & 1) && !rail->quiet &&
            br_rail_takes_message(rail, needs_credit) && (!best || br_rail_compare(rail, best) < 0))
            best = rail;
    }
    return best;
}

/* Those of messages that have arrived; so one is free, as fewer than BR_UNRELEASED have not. A back
 * end that sends a packet again may still read such a slot: the peer, which has the packet, drops
 * it. */
static void give_slots_back(struct br_rail *rail)
{
    for (; rail->slots_back != rail->peer_arrived; rail->slots_back++) {
        const struct br_retained *keep = &rail->retained[rail->slots_back % BR_UNRELEASED];

        if (keep->memory)
            rail->free_slots[rail->n_free_slots++] = keep->slot;
    }
}

/* The rail's next `retained` entry, where the message is written that is to leave. Only of a rail
 * that takes a message (br_rail_takes_message()): else the entry is one that may have to be sent
 * again. */
static inline struct br_message *next_retained(struct br_rail *rail)
{
    give_slots_back(rail); /* before the entry of one is used again */
    return &rail->retained[rail->sent % BR_UNRELEASED].message;
}

/* From so many bytes on a copy costs more than a send of its own, which gathers nothing. */
#define SPARE_LEAST (8u << 10)

/* Does the device read a message's payload where it is, and copy what does not leave at once? */
static bool is_spared(const struct br_rail *rail, uint32_t length)
{
    const struct br_link *link = rail->link;

    return rail->spares && length && (link->alone || link->streamed || length >= SPARE_LEAST) &&
           br_rail_ends_peer(rail);
}

/* Posts what stands in next_retained(). The transfer ends at once: a slot has a copy of the
 * payload, so that the message can be sent again if the rail is lost, or the device has one, or
 * what has not left (is_spared()). What follows a notification goes through a slot in any case, as
 * the two are one payload. */
static inline __attribute__((always_inline)) bool post_retained(struct br_rail *rail,
                                                                const struct br_notify *notify,
                                                                const void *data, uint32_t length)
{
    struct br_retained *keep = &rail->retained[rail->sent % BR_UNRELEASED];
    uint32_t before = notify ? sizeof *notify : 0;
    bool eager = keep->message.type == BR_MESSAGE_EAGER;
    void *spare = NULL;

    keep->length = before + length;
    keep->memory = NULL;
    if (eager) {
        keep->message.released = (uint16_t)rail->released;
        keep->message.released_units = (uint16_t)(rail->released_bytes / BR_CREDIT_UNIT);
    }
    if (notify || (length && rail->keeps)) {
        keep->slot = rail->free_slots[rail->n_free_slots - 1];
        keep->memory = rail->slots + keep->slot * (size_t)rail->slot_bytes;
        if (notify)
            memcpy(keep->memory, notify, sizeof *notify);
        if (!notify && is_spared(rail, length))
            spare = keep->memory;
        else if (length)
            memcpy(keep->memory + before, data, length);
        data = spare ? data : keep->memory;
    }
    if (br_control_post_spared(rail, &keep->message, data, keep->length, spare) != 1)
        return false;
    if (eager)
        br_rail_announced(rail);
    rail->sent++;
    rail->sent_bytes += br_credit_bytes(rail, keep->length);
    if (keep->memory)
        rail->n_free_slots--;
    rail->total_tx += br_message_data(&keep->message, keep->length);
    return true;
}

/* Makes an EAGER of `length` bytes of it; a short one has them in itself. Returns what follows as
 * payload, *bytes of it. */
static const void *fill_eager(struct br_message *m, const void *data, uint32_t length,
                              uint32_t *bytes)
{
    m->type = BR_MESSAGE_EAGER;
    *bytes = length <= BR_EAGER_INLINE ? 0 : length;
    if (*bytes)
        return data;
    if (length)
        memcpy(m->data, data, length);
    return NULL;
}

static bool send_message(struct br_worker *w, struct br_peer *peer, struct br_rail *rail,
                         struct br_transfer *t)
{
    struct br_stream *stream = &peer->streams[br_stream_of(t->tag)];
    struct br_message *m = next_retained(rail);
    bool announces = t->is_send && t->state == BR_TRANSFER_MATCHING;
    uint8_t places[BR_MAX_RKEYS];
    const void *payload = NULL;
    uint32_t length = 0;

    if (t->request)
        *m = *t->request;
    else
        *m = (struct br_message){.bytes = t->length};
    m->check = t->check;
    m->sequence = stream->sequence;
    m->tag = t->tag;
    if (!t->is_send) {
        m->type = BR_MESSAGE_READY;
        m->ready =
            (struct br_body_ready){.slot = br_slot_number(&w->slots, t->slot), .total = t->total};
        if (peer->rkey_rails) {
            payload = places;
            length = br_rkey_write(peer, t, m, places);
        }
    } else if (announces) {
        m->type = BR_MESSAGE_ANNOUNCE;
        m->waiting.total = t->total;
    } else if (t->request) {
        payload = t->memory;
        length = t->length;
    } else {
        payload = fill_eager(m, t->memory, t->length, &length);
    }
    if (!post_retained(rail, t->notify, payload, length))
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
    *next_retained(rail) = unacked->message;
    if (!post_retained(rail, NULL, unacked->data, unacked->length))
        return false;
    br_list_remove(&unacked->node);
    free(unacked);
    return true;
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
            const struct br_message *m = &rail->retained[k % BR_UNRELEASED].message;

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

/* The stream has come to the end of its numbers: have more become free? Else asks for what has
 * arrived. */
static bool find_numbers(struct br_peer *peer, int which)
{
    struct br_stream *stream = &peer->streams[which];
    struct br_rail *on;

    stream->end = first_open(peer, which, &on) + BR_SEEN;
    if (stream->sequence != stream->end)
        return true;
    if (on)
        ask_what_arrived(on);
    return false;
}

/* May the stream's next number be used (doc/design/rails.md, section 5)? */
static inline bool may_number(struct br_peer *peer, int which)
{
    return peer->streams[which].sequence != peer->streams[which].end || find_numbers(peer, which);
}

bool br_numbered_send(struct br_worker *w, struct br_peer *peer, struct br_transfer *t,
                      struct br_pump *pump)
{
    bool needs_credit = t->queued.queue == &peer->queues[BR_QUEUE_EAGER];
    struct br_rail *rail = message_rail(peer, pump->full, needs_credit);

    if (!rail) {
        w->counters.credit_stalls++;
        return false;
    }
    if (!may_number(peer, br_stream_of(t->tag)))
        return false;
    if (send_message(w, peer, rail, t))
        pump->n++;
    else
        pump->full |= 1u << rail->index;
    return true;
}

bool br_numbered_at_once(struct br_worker *w, struct br_peer *peer, struct br_transfer *t)
{
    uint32_t full = peer->alternates && br_peer_direct(peer) ? peer->alternates : 0;
    struct br_rail *rail;
    bool left;

    if (!br_list_empty(&peer->active))
        return false;
    rail = message_rail(peer, full, true);
    if (!rail || !may_number(peer, br_stream_of(t->tag)))
        return false;
    rail->link->alone = t->alone;
    rail->link->streamed = t->streamed && !t->alone && t->length < SPARE_LEAST;
    left = send_message(w, peer, rail, t);
    rail->link->alone = rail->link->streamed = false;
    w->flush_due = w->flush_due || rail->device->unsent;
    return left;
}

bool br_worker_send_at_once(struct br_worker *w, int rank, uint64_t tag, uint16_t check,
                            const void *memory, uint32_t length, int32_t priority)
{
    struct br_peer *peer = &w->peers[rank];
    struct br_stream *stream = &peer->streams[br_stream_of(tag)];
    struct br_rail *rail = br_peer_only_rail(w, peer);
    struct br_message *m;
    const void *payload;
    uint32_t bytes;
    bool left;

    if (!rail || rail->quiet || !br_list_empty(&peer->active) ||
        !br_peer_takes_eagerly(w, rank, br_tag_class(tag), length) ||
        !br_rail_takes_message(rail, true) || !may_number(peer, br_stream_of(tag)))
        return false;
    m = next_retained(rail);
    *m = (struct br_message){
        .check = check, .sequence = stream->sequence, .tag = tag, .bytes = length};
    payload = fill_eager(m, memory, length, &bytes);
    rail->link->alone = true;
    left = post_retained(rail, NULL, payload, bytes);
    rail->link->alone = false;
    w->flush_due = w->flush_due || rail->device->unsent;
    if (!left)
        return false;
    if (!rail->device->caps.maps) /* else nothing shares a rail with it */
        br_priority_seen(w, priority);
    stream->sequence++;
    w->counters.copied_bytes += length;
    return true;
}

bool br_worker_lacks_credit(const struct br_worker *w, int rank)
{
    const struct br_peer *peer = &w->peers[rank];

    return br_worker_is_near(w, rank) && br_list_empty(&peer->active) &&
           !br_rail_takes_message(peer->rails, true);
}

void br_numbered_put_done(struct br_peer *peer, struct br_pump *pump)
{
    struct br_message *m = &peer->put_done;
    int which = br_stream_of(m->tag);
    struct br_rail *rail;

    if (!may_number(peer, which))
        return;
    while ((rail = message_rail(peer, pump->full, false))) {
        m->sequence = peer->streams[which].sequence;
        *next_retained(rail) = *m;
        if (post_retained(rail, NULL, NULL, 0)) {
            peer->streams[which].sequence++;
            *m = (struct br_message){0};
            pump->n++;
            return;
        }
        pump->full |= 1u << rail->index;
    }
}

void br_numbered_resend(struct br_worker *w, struct br_peer *peer, struct br_pump *pump)
{
    for (int k = 0; k < BR_STREAMS; k++)
        br_list_for_each_safe (node, &peer->streams[k].resend) {
            struct br_unacked *unacked = br_container_of(node, struct br_unacked, node);
            struct br_rail *rail;

            while ((rail = message_rail(peer, pump->full, false)) && !send_unacked(rail, unacked))
                pump->full |= 1u << rail->index;
            if (!rail) {
                w->counters.credit_stalls++;
                return;
            }
            pump->n++; /* `unacked` is freed */
        }
}
