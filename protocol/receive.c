/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receiving half: from br_transfer_receive() over the READY to the bytes in their place, and
 * what else arrives.
 */
#include "protocol/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* The last slot is for a receive whose other end is there: doc/design/rails.md, section 4. */
static bool may_have_slot(const struct br_worker *w, const struct br_transfer *t)
{
    return w->slots.n_free > !(t->expected || t->rendezvous);
}

/* Takes a slot and queues READY for the sender, or waits until a slot is free. */
static void receive_send_ready(struct br_worker *w, struct br_transfer *t)
{
    struct br_peer *peer = &w->peers[t->peer];

    if (!may_have_slot(w, t)) {
        w->counters.slot_stalls++;
        br_list_push_back(
            &w->slotless[br_tag_class(t->tag) == BR_TAG_P2P ? BR_SLOTLESS_P2P : BR_SLOTLESS_OTHERS],
            &t->node);
        return;
    }
    t->slot = br_slot_get(&w->slots, t->memory, t->length, w->config.slice_bytes);
    t->slot->owner = t;
    t->slot->region = t->region;
    t->slot->may_map = t->may_map;
    t->slot->uncached = t->uncached;
    if (peer->rkey_rails)
        br_rkey_make(w, peer, t->slot);
    t->state = BR_TRANSFER_QUEUED;
    br_send_message_due(w, peer, t);
}

/* Of the expected and of the point-to-point receives, of which any number may wait, the first one
 * may not have a slot only if no other may. */
void br_receive_serve_slotless(struct br_worker *w)
{
    for (int k = 0; k < BR_SLOTLESS; k++)
        br_list_for_each_safe (node, &w->slotless[k]) {
            struct br_transfer *t = br_container_of(node, struct br_transfer, node);

            if (!may_have_slot(w, t)) {
                if (k != BR_SLOTLESS_OTHERS || !w->slots.n_free)
                    break;
                continue;
            }
            br_list_remove(node);
            receive_send_ready(w, t);
        }
}

void br_receive_expected(struct br_worker *w, struct br_transfer *t)
{
    if (!t->slot && !br_list_empty(&t->node)) {
        br_list_remove(&t->node);
        br_list_push_back(&w->slotless[BR_SLOTLESS_EXPECTED], &t->node);
    }
    br_receive_slotless(w);
}

int br_transfer_receive(struct br_worker *w, struct br_transfer *t)
{
    const struct br_peer *peer = &w->peers[t->peer];
    bool eager =
        br_peer_takes_eagerly(w, t->peer, br_tag_class(t->tag), t->length) && !t->rendezvous;
    int rc;

    if (w->failed)
        return br_error(-w->failed, "%s", w->message);
    /* what it sent before it left counts, and it answers accesses until all have left */
    if (peer->state == BR_PEER_LEFT &&
        !(eager && (br_match_is_here(w, t) ||
                    (br_tag_class(t->tag) == BR_TAG_ONESIDED && br_peer_is_up(peer)))))
        return br_error(ECONNRESET, "rank %d has left the job", t->peer);
    if ((rc = br_transfer_reach(w, t->peer)))
        return rc;
    t->is_send = false;
    t->expected = false;
    t->status = 0;
    t->mapped = NULL;
    t->reduced = false;
    t->slot = NULL;
    t->renews = 0;
    br_transfer_queued(w, t);
    br_list_init(&t->node);
    t->state = BR_TRANSFER_MATCHING;
    if (eager)
        return br_match_receive(w, t);
    rc = t->rendezvous ? 0 : br_match_large(w, t);
    if (!rc && !w->dispute_until) /* else the worker is about to fail */
        receive_send_ready(w, t);
    return rc;
}

/* Not where the sender writes by itself: br_slot_renew() forgets what has come. */
bool br_transfer_reduce(struct br_worker *w, struct br_transfer *t,
                        const struct br_slot_reducer *reducer)
{
    const struct br_peer *peer = &w->peers[t->peer];

    return peer->reduces && !peer->rkey_rails && t->slot && t->state != BR_TRANSFER_ENDED &&
           br_slot_set_reducer(t->slot, reducer);
}

int br_transfer_reach(struct br_worker *w, int peer)
{
    return w->peers[peer].n_rails ? 0 : br_relay_reach(w, peer);
}

bool br_transfer_is_eager(const struct br_worker *w, int peer, enum br_tag_class class,
                          uint32_t length)
{
    return br_peer_takes_eagerly(w, peer, class, length);
}

static void put_slot(struct br_worker *w, struct br_transfer *t)
{
    br_rkey_release(w, t->slot);
    br_slot_put(&w->slots, t->slot);
    t->slot = NULL;
    br_receive_slotless(w);
}

bool br_transfer_release(struct br_worker *w, struct br_transfer *t)
{
    struct br_slot *slot = t->slot;
    char text[120];
    int rc = 0;

    if (!slot)
        return true;
    for (uint32_t i = 0; i < slot->n_maps; i++)
        rc |= slot->map_device->ops->release(slot->map_device, NULL, slot->maps[i]);
    put_slot(w, t);
    if (!rc)
        return true;
    snprintf(text, sizeof text,
             "rank %d is lost: it closed its link (level 0, device shm0) while its memory was "
             "being read",
             t->peer);
    br_worker_fail(w, ECONNRESET, text);
    return false;
}

void br_transfer_withdraw(struct br_worker *w, struct br_transfer *t)
{
    br_queue_remove(&t->queued);
    br_list_remove(&t->node);
    if (t->slot)
        br_transfer_release(w, t); /* with the mappings that have come already */
    if (t->is_send || !t->rendezvous)
        br_table_remove(t->is_send ? &w->sends : &w->receives, t->tag, (uint32_t)t->peer);
    t->state = BR_TRANSFER_IDLE;
}

/* false: the worker has failed, or the peer sends the same again and again. */
static bool receive_grow_dones(struct br_worker *w, struct br_peer *peer)
{
    uint32_t n = 2 * peer->n_dones, *dones;

    if (n > BR_DONES_MAX)
        return false;
    dones = malloc(n * sizeof *dones);
    if (!dones) {
        br_worker_fail(w, ENOMEM, "no memory to confirm what has arrived");
        return false;
    }
    for (uint32_t k = peer->done_tail; k != peer->done_head; k++)
        dones[k % n] = peer->dones[k % peer->n_dones];
    free(peer->dones);
    peer->dones = dones;
    peer->n_dones = n;
    return true;
}

void br_receive_confirm(struct br_worker *w, struct br_peer *peer, uint32_t slot)
{
    if (peer->done_head - peer->done_tail == peer->n_dones && !receive_grow_dones(w, peer))
        return;
    peer->dones[peer->done_head++ % peer->n_dones] = slot;
    br_peer_activate(w, peer);
}

static void receive_complete(struct br_worker *w, struct br_rail *rail, struct br_slot *slot,
                             bool wants_done)
{
    struct br_transfer *t = slot->owner;
    uint32_t number = br_slot_number(&w->slots, slot);

    /* a hostile peer that guesses the slot need not wait for its READY */
    br_queue_remove(&t->queued);
    if (!t->rendezvous)
        br_table_remove(&w->receives, t->tag, (uint32_t)t->peer);
    t->mapped = slot->mapped;
    t->reduced = slot->reducer && !slot->mapped;
    if (!t->mapped)
        put_slot(w, t);
    br_transfer_end(w, t, 0);
    if (wants_done)
        br_receive_confirm(w, rail->peer, number);
}

/* NULL, or what is wrong. Who reads a mapped transfer reads all of it from the start of its
 * mapping, so every byte must have come with the same one. */
static const char *take_bytes(struct br_worker *w, struct br_slot *slot, struct br_device *device,
                              const struct br_event *event)
{
    const uint8_t *start = event->mapped ? event->mapped - event->offset : NULL;

    if (!start) {
        slot->copied = true;
        w->counters.direct_bytes += event->length;
        return slot->n_maps ? "the peer maps only a part of a transfer" : NULL;
    }
    if (slot->copied || (slot->n_maps && (slot->mapped != start || slot->map_device != device)))
        return "the peer maps a transfer in parts that do not belong together";
    if (slot->n_maps == BR_SLOT_SLICES)
        return "the peer maps more pieces than a transfer has slices";
    slot->mapped = start;
    slot->map_device = device;
    slot->maps[slot->n_maps++] = event->buffer;
    w->counters.mapped_bytes += event->length;
    return NULL;
}

static void protocol_receive_data(struct br_worker *w, struct br_rail *rail,
                                  const struct br_event *event)
{
    struct br_slot *slot = br_slot_find(&w->slots, event->slot);
    struct br_data_header flags;
    const char *wrong;

    memcpy(&flags, event->inline_, sizeof flags);
    rail->rx_bytes += event->length;
    rail->total_rx += event->length;
    if (flags.flags & BR_DATA_ACK) {
        rail->ack_due = true;
        br_peer_activate(w, rail->peer);
    }
    if (event->stale || !slot || !slot->missing) {
        if (event->mapped)
            rail->device->ops->release(rail->device, NULL, event->buffer);
        if ((flags.flags & BR_DATA_DONE) && !(slot && slot->missing) &&
            /* else complete long ago, and its DONE was lost */
            !br_slot_was_renewed(&w->slots, event->slot))
            br_receive_confirm(w, rail->peer, event->slot);
        return;
    }
    /* Back ends write for any peer that is authenticated and knows the slot's number. Bytes that a
     * rank writes where another rank was to send do not count as arrived, so that the right bytes
     * still come, and they are the end of that rank's link. */
    if (((const struct br_transfer *)slot->owner)->peer != rail->peer->rank)
        wrong = "the peer sends into a transfer of another rank";
    else
        wrong = take_bytes(w, slot, rail->device, event);
    if (wrong) {
        if (event->mapped)
            rail->device->ops->release(rail->device, NULL, event->buffer);
        br_rail_lost(w, rail, EPROTO, wrong);
        return;
    }
    if (w->config.trace && ((const struct br_transfer *)slot->owner)->traced)
        br_tracing_arrived(w, rail, slot->owner, event);
    if (slot->reducer && !event->mapped) /* nothing is left to do where the back end has done it */
        br_slot_reduce(slot, event->offset, slot->base + event->offset, event->length);
    if (br_slot_arrive(slot, event->offset, event->length))
        receive_complete(w, rail, slot, flags.flags & BR_DATA_DONE);
}

static int receive_error_of(uint32_t reason)
{
    switch (reason) {
    case BR_ABORT_LOST:
        return ECONNRESET;
    case BR_ABORT_DEADLINE:
        return ETIMEDOUT;
    case BR_ABORT_DISAGREE:
        return EPROTO;
    default:
        return ECANCELED;
    }
}

/* Another rank's text that is passed on: "rank 3: ..." */
static bool is_passed_on(const char *text)
{
    size_t digits = strncmp(text, "rank ", 5) == 0 ? strspn(text + 5, "0123456789") : 0;

    return digits && text[5 + digits] == ':';
}

static void receive_aborted(struct br_worker *w, struct br_rail *rail, const struct br_event *event,
                            uint32_t reason)
{
    char text[BR_MAX_TEXT + 40];
    int n = event->length < BR_MAX_TEXT ? (int)event->length : (int)BR_MAX_TEXT;
    int prefix = snprintf(text, sizeof text, "rank %d: ", rail->peer->rank);

    snprintf(text + prefix, sizeof text - (size_t)prefix, "%.*s", n,
             event->payload ? (const char *)event->payload : "");
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = '?'; /* bytes from the network go to a terminal */
    br_worker_fail(w, receive_error_of(reason), is_passed_on(text + prefix) ? text + prefix : text);
}

static void receive_relay(struct br_worker *w, struct br_rail *rail, const struct br_event *event,
                          const struct br_message *m)
{
    if (!w->relay)
        w->counters.dropped_messages++;
    else if (m->type == BR_MESSAGE_RELAY)
        br_relay_arrived(w, rail, event);
    else
        br_relay_credits_received(rail, &m->relay_back);
}

/* Messages without a number: dealt with at once. */
static void receive_control(struct br_worker *w, struct br_rail *rail, const struct br_event *event,
                            const struct br_message *m)
{
    struct br_peer *peer = rail->peer;

    switch (m->type) {
    case BR_MESSAGE_DONE:
        for (int i = 0; i < 6; i++)
            if (m->done.slots[i])
                br_send_confirmed(w, peer, m->done.slots[i]);
        break;
    case BR_MESSAGE_ACK:
        br_rail_ack_received(rail, &m->ack, w->now);
        br_send_acknowledged(w, rail);
        br_peer_activate(w, peer);
        break;
    case BR_MESSAGE_PING:
        rail->ack_due = rail->pong_due = true;
        br_peer_activate(w, peer);
        break;
    case BR_MESSAGE_PONG:
        break;
    case BR_MESSAGE_RAIL_DOWN:
        br_rail_reported_down(w, peer, m->rail.rail, m->rail.incarnation);
        break;
    case BR_MESSAGE_RAIL_FENCED:
        br_rail_confirmed_fenced(w, peer, m->rail.rail, m->rail.incarnation);
        break;
    case BR_MESSAGE_ABORT:
        receive_aborted(w, rail, event, m->abort.reason);
        break;
    case BR_MESSAGE_BYE:
        peer->bye_received = true;
        memcpy(peer->bye_next, m->bye.next, sizeof peer->bye_next);
        br_left_check(w, peer);
        break;
    case BR_MESSAGE_LEFT:
        br_demand_received_left(w, m);
        break;
    case BR_MESSAGE_IDLE:
        br_idle_received(w, peer, &m->idle);
        break;
    case BR_MESSAGE_WAITING:
        br_waiting_received(w, rail, m);
        break;
    case BR_MESSAGE_RENEW:
        br_rkey_renew_requested(w, peer, &m->renew);
        break;
    case BR_MESSAGE_RELAY:
    case BR_MESSAGE_RELAY_CREDIT:
        receive_relay(w, rail, event, m);
        break;
    default:
        w->counters.dropped_messages++;
        break;
    }
}

static void protocol_receive_message(struct br_worker *w, struct br_rail *rail,
                                     const struct br_event *event)
{
    struct br_link *link = event->link;
    struct br_message m;

    if (br_message_is_numbered(event->inline_[offsetof(struct br_message, type)])) {
        br_match_message(w, rail, event);
        return;
    }
    memcpy(&m, event->inline_, sizeof m);
    receive_control(w, rail, event, &m);
    if (rail->link == link) /* not if what it said has closed this very link */
        link->device->ops->release(link->device, link, event->buffer);
}

void br_receive_event(struct br_worker *w, struct br_rail *rail, const struct br_event *event)
{
    rail->last_rx = w->now;
    if (rail->quiet && !rail->peer->idle_agreed) {
        rail->quiet = false;
        rail->peer->heard = true;
    }
    if (event->kind == BR_EVENT_DATA) {
        rail->rx_frames++;
        protocol_receive_data(w, rail, event);
    } else {
        rail->rx_messages++;
        protocol_receive_message(w, rail, event);
    }
}
