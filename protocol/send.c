/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sending half: from br_transfer_send() to the frames on the links and their confirmation.
 * doc/design/priorities.md says in which order frames leave, how rails share a transfer, and when a
 * send ends.
 */
#include "protocol/internal.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"

/* transfers at which a rail looks that is too slow for the first ones */
#define LOOK_AHEAD 32

void br_peer_activate(struct br_worker *w, struct br_peer *peer)
{
    br_demand_use(w, peer);
    if (peer->blocked) {
        br_peer_unblock(w, peer);
    } else if (br_list_empty(&peer->active)) {
        peer->activation = w->activations++;
        br_list_push_back(&w->active, &peer->active);
    }
}

void br_peer_unblock(struct br_worker *w, struct br_peer *peer)
{
    struct br_list *behind = w->active.prev;

    while (behind != &w->active &&
           br_container_of(behind, struct br_peer, active)->activation > peer->activation)
        behind = behind->prev;
    peer->blocked = false;
    br_list_remove(&peer->active);
    br_list_insert_before(behind->next, &peer->active);
}

void br_peers_unblock(struct br_worker *w)
{
    while (!br_list_empty(&w->blocked))
        br_peer_unblock(w, br_container_of(w->blocked.next, struct br_peer, active));
}

/* Only a starved transfer, which this pump has not tried, a smaller window, or what the wire has
 * carried changes what a pump finds at the next time. */
static void peer_block(struct br_worker *w, struct br_peer *peer)
{
    const struct br_list *oldest = peer->queues[BR_QUEUE_DATA].age.next;
    uint64_t until =
        br_container_of(oldest, struct br_queued, age)->priority_served + w->config.starvation;

    if (until < w->now)
        until = UINT64_MAX;
    for (int i = 0; i < peer->n_rails; i++) {
        uint64_t drained = br_rail_drained_at(&peer->rails[i]);

        until = drained < until ? drained : until;
    }
    if (br_list_empty(&w->blocked) || until < w->blocked_until)
        w->blocked_until = until;
    w->blocked_shared = peer->shared;
    peer->blocked = true;
    br_list_remove(&peer->active);
    br_list_push_back(&w->blocked, &peer->active);
}

int br_transfer_send(struct br_worker *w, struct br_transfer *t)
{
    struct br_peer *peer = &w->peers[t->peer];
    int rc;

    if (w->failed)
        return br_error(-w->failed, "%s", w->message);
    if (peer->state == BR_PEER_LEFT)
        return br_error(ECONNRESET, "rank %d has left the job", t->peer);
    if (!peer->n_rails && (rc = br_relay_reach(w, t->peer)))
        return rc;
    t->is_send = true;
    t->submitted = w->now;
    t->expected = false;
    t->status = 0;
    t->wants_done = false;
    t->cursor = t->flights = t->resend_at = 0;
    t->resend = 0;
    t->lost_rails = t->fenced_rails = t->barred = 0;
    t->renew_due = t->lasts = false;
    br_transfer_queued(w, t);
    br_list_init(&t->node);
    if (br_peer_takes_eagerly(w, t->peer, br_tag_class(t->tag), t->length) && !t->rendezvous) {
        t->state = BR_TRANSFER_QUEUED;
        if (br_tag_class(t->tag) == BR_TAG_ONESIDED || !br_numbered_at_once(w, peer, t))
            br_send_message_due(w, peer, t);
        return 0;
    }
    t->state = BR_TRANSFER_MATCHING;
    rc = br_match_send(w, t);
    if (!rc && t->announces && t->state == BR_TRANSFER_MATCHING)
        br_send_message_due(w, peer, t);
    return rc;
}

void br_send_ready(struct br_worker *w, struct br_transfer *t, const struct br_message *ready,
                   const uint8_t *keys)
{
    struct br_peer *peer = &w->peers[t->peer];

    if (t->refuse) {
        br_transfer_end(w, t, t->refuse);
        return;
    }
    peer->ready_messages++;
    peer->ready_wait += w->now > t->submitted ? w->now - t->submitted : 0;
    br_queue_remove(&t->queued); /* an announcement that has not left is no longer wanted */
    t->remote_slot = ready->ready.slot;
    t->slice_bytes = br_slot_slice_bytes(t->length, w->config.slice_bytes);
    memset(t->slice_rails, 0, (t->length + t->slice_bytes - 1) / t->slice_bytes);
    br_list_remove(&t->node);
    br_list_push_back(&peer->moving, &t->node);
    t->state = BR_TRANSFER_MOVING;
    br_queue_insert(&peer->queues[BR_QUEUE_DATA], &t->queued, w->now);
    br_peer_activate(w, peer);
    if (peer->rkey_rails)
        br_rkey_take(w, t, ready, keys);
}

void br_send_check_end(struct br_worker *w, struct br_transfer *t)
{
    if (t->state == BR_TRANSFER_CONFIRMING && !t->flights && !t->wants_done && !t->lost_rails)
        br_transfer_end(w, t, 0);
}

/* Nobody reads the payload any more. */
static void flight_ended(struct br_worker *w, struct br_flight *flight)
{
    struct br_transfer *t = flight->transfer;

    br_list_remove(&flight->node);
    br_pool_put(&w->flights, flight);
    t->flights--;
    br_rkey_check_quiet(w, t);
    br_send_check_end(w, t);
}

void br_send_sent(struct br_worker *w, const struct br_event *event)
{
    struct br_flight *flight = (struct br_flight *)(uintptr_t)event->cookie;
    struct br_transfer *t = flight->transfer;
    struct br_rail *rail = flight->rail;

    if (rail->device->caps.sent_means_arrived)
        br_rail_acknowledged(rail, rail->acked_bytes + flight->length, w->now);
    if (!t) {
        br_list_remove(&flight->node);
        br_relay_sent(w, flight);
        return;
    }
    if (t->traced && w->config.trace)
        br_tracing_sent(w, flight);
    flight->sent = true;
    if (flight->end <= rail->acked_bytes)
        flight_ended(w, flight);
    br_peer_activate(w, rail->peer);
}

void br_send_acknowledged(struct br_worker *w, struct br_rail *rail)
{
    br_list_for_each_safe (node, &rail->flights) {
        struct br_flight *flight = br_container_of(node, struct br_flight, node);

        if (flight->end > rail->acked_bytes)
            break;
        if (flight->sent)
            flight_ended(w, flight);
    }
}

void br_send_confirmed(struct br_worker *w, struct br_peer *peer, uint32_t slot)
{
    struct br_transfer *t = br_table_remove(&w->confirms, slot, (uint32_t)peer->rank);

    if (!t)
        return; /* said twice, after a lost rail */
    t->wants_done = false;
    if (t->state == BR_TRANSFER_MOVING || t->state == BR_TRANSFER_RENEWING) {
        t->resend = 0; /* only resends were left, and they are not needed */
        t->renew_due = false;
        br_queue_remove(&t->queued);
        t->state = BR_TRANSFER_CONFIRMING;
    }
    br_send_check_end(w, t);
}

/* ---- data ------------------------------------------------------------------------------------ */

/* Must an ACK be asked for so that the transfer's lasting frames end? The last one on the only rail
 * acknowledges all. */
static bool send_needs_ack(const struct br_rail *rail, const struct br_transfer *t, uint32_t end)
{
    return t->lasts && (end == t->length || t->resend || rail->peer->n_rails > 1);
}

/* Need nobody be told that this frame has arrived? It is the end of all that there is to send, and
 * in flight is so little that the window has room for more. The next frame that asks, asks for this
 * one, too: doc/design/rails.md, section 2. */
static bool send_spares_ack(const struct br_rail *rail, const struct br_transfer *t,
                            uint32_t offset, uint32_t length)
{
    const struct br_peer *peer = rail->peer;
    const struct br_list *entries = &peer->queues[BR_QUEUE_DATA].entries;

    return offset + length == t->length && !t->resend && entries->next == entries->prev &&
           peer->n_rails == 1 && !rail->solo && !rail->shared &&
           br_rail_in_flight(rail) + length <= rail->window / 2;
}

/* The next frame of t: a slice to send again, else what is at the cursor. Never crosses a slice. */
static uint32_t send_next_frame(const struct br_transfer *t, uint32_t most, uint32_t *offset)
{
    uint32_t granule = br_slot_granule_bytes(t->slice_bytes), start, end;

    if (t->resend) {
        start = (uint32_t)__builtin_ctzll(t->resend) * t->slice_bytes;
        *offset = start + t->resend_at;
    } else {
        start = t->cursor / t->slice_bytes * t->slice_bytes;
        *offset = t->cursor;
    }
    end = t->length - start < t->slice_bytes ? t->length : start + t->slice_bytes;
    most = most / granule * granule;
    if (most < granule)
        most = granule;
    return end - *offset < most ? end - *offset : most;
}

static void send_advance(struct br_transfer *t, uint32_t offset, uint32_t length)
{
    uint32_t slice = offset / t->slice_bytes, end = offset + length;

    if (!t->resend) {
        t->cursor = end;
    } else if (end == t->length || end % t->slice_bytes == 0) {
        t->resend &= ~(1ull << slice);
        t->resend_at = 0;
    } else {
        t->resend_at = end % t->slice_bytes;
    }
}

bool br_send_want_done(struct br_worker *w, struct br_transfer *t, const struct br_peer *peer)
{
    if (peer->n_rails == 1)
        return true;
    if (!t->wants_done && br_table_insert(&w->confirms, t->remote_slot, (uint32_t)t->peer, t))
        /* the table is as large as transfers can be outstanding: full only for a moment */
        return false;
    t->wants_done = true;
    return true;
}

static bool send_frame(struct br_worker *w, struct br_rail *rail, struct br_transfer *t,
                       uint32_t offset, uint32_t length)
{
    struct br_flight *flight = br_pool_get(&w->flights);
    struct br_data_header placed = {0};
    struct br_frame frame;
    bool asks, lasts;

    if (!flight)
        return false;
    if (!br_send_want_done(w, t, rail->peer)) {
        br_pool_put(&w->flights, flight);
        return false;
    }
    *flight = (struct br_flight){
        .transfer = t, .rail = rail, .offset = offset, .length = length, .posted = w->now};
    /* where ranks share cores, the ACK would wait for the peer's turn */
    lasts = rail->link->lends && !rail->turn && t->length >= BR_LASTING_BYTES;
    t->lasts = t->lasts || lasts;
    flight->end = lasts ? rail->tx_bytes + length : 0;
    asks = (br_rail_asks(rail, length) && !send_spares_ack(rail, t, offset, length)) ||
           send_needs_ack(rail, t, offset + length);
    placed.flags = (uint8_t)((asks ? BR_DATA_ACK : 0) | (t->wants_done ? BR_DATA_DONE : 0));
    frame = (struct br_frame){
        .kind = BR_FRAME_DATA,
        .payload = (const uint8_t *)t->memory + offset,
        .length = length,
        .slot = t->remote_slot,
        .offset = offset,
        .rkey = rail->device->caps.needs_rkey ? t->rkeys[rail->index] : NULL,
        .region = t->region,
        .inline_ = (const uint8_t *)&placed,
        .cookie = (uint64_t)(uintptr_t)flight,
        .priority = t->priority,
        .lasts = lasts,
    };
    if (rail->device->ops->post(rail->link, &frame, 1) != 1) {
        br_pool_put(&w->flights, flight);
        return false;
    }
    rail->tx_frames++;
    br_rail_posted(rail, length, asks, w->now);
    br_list_init(&flight->node);
    br_list_push_back(&rail->flights, &flight->node);
    t->flights++;
    t->slice_rails[offset / t->slice_bytes] |= (uint8_t)(1u << rail->index);
    return true;
}

uint64_t br_transfer_left(const struct br_transfer *t)
{
    return t->length - t->cursor + (uint64_t)__builtin_popcountll(t->resend) * t->slice_bytes;
}

/* Of two rails the one with less to deliver; with equally little, the one that has waited longer.
 */
static bool is_freer(const struct br_rail *a, const struct br_rail *b)
{
    int less = br_rail_compare(a, b);

    return less ? less < 0 : a->used < b->used;
}

/* The freest rail that takes a frame of t, when `before` bytes of other transfers go first. `room`
 * is set if a rail has window, whether it takes the frame or not. */
static struct br_rail *data_rail(struct br_peer *peer, uint32_t full, const struct br_transfer *t,
                                 uint64_t before, uint64_t now, bool *room)
{
    struct br_rail *best = NULL;
    uint64_t left = br_transfer_left(t);

    *room = false;
    for (int i = 0; i < peer->n_rails; i++) {
        struct br_rail *rail = &peer->rails[i];
        uint32_t frame = left < rail->frame_bytes ? (uint32_t)left : rail->frame_bytes;

        if (rail->state != BR_RAIL_UP || ((full | t->barred) >> i & 1) || rail->quiet ||
            !br_rail_has_window(rail, frame))
            continue;
        *room = true;
        if (br_rail_may_take(rail, before + left, frame, t->barred, now) &&
            (!best || is_freer(rail, best)))
            best = rail;
    }
    return best;
}

/* A rail that is too slow for what is left of the first transfers may take a frame of a later one:
 * doc/design/rails.md, section 3. Sets *t to that transfer. */
static struct br_rail *data_rail_ahead(struct br_peer *peer, struct br_pump *pump, uint64_t now,
                                       struct br_transfer **t)
{
    const struct br_queue *queue = (*t)->queued.queue;
    const struct br_list *node = &(*t)->queued.node;
    uint64_t before = 0;
    bool room = true;

    for (int k = 0; k < LOOK_AHEAD && room && node != &queue->entries; k++, node = node->next) {
        struct br_transfer *later = br_container_of(node, struct br_transfer, queued.node);
        struct br_rail *rail = data_rail(peer, pump->full, later, before, now, &room);

        if (rail) {
            *t = later;
            return rail;
        }
        before += br_transfer_left(later);
    }
    pump->no_window = !room;
    return NULL;
}

/* One frame of the data queue's head, or of a transfer behind it. false: they have to wait. */
static bool pump_data(struct br_worker *w, struct br_peer *peer, struct br_transfer *t,
                      struct br_pump *pump)
{
    struct br_rail *rail = data_rail_ahead(peer, pump, w->now, &t);
    uint32_t offset, length;

    if (!rail)
        return false;
    length = send_next_frame(t, rail->frame_bytes, &offset);
    if (!send_frame(w, rail, t, offset, length)) {
        pump->full |= 1u << rail->index;
        return true; /* perhaps another rail takes it */
    }
    send_advance(t, offset, length);
    br_queue_served(&t->queued, w->now);
    if (t->cursor == t->length && !t->resend) { /* every byte has left */
        br_queue_remove(&t->queued);
        t->state = BR_TRANSFER_CONFIRMING;
        br_send_check_end(w, t);
    }
    pump->n++;
    return true;
}

/* A READY: small, and the peer's data comes the other way while ours leaves. Behind our data the
 * two would take turns. */
static bool is_ready(const struct br_queued *head, int queue)
{
    return queue == BR_QUEUE_MESSAGES &&
           !br_container_of(head, struct br_transfer, queued)->is_send;
}

/* Does the head of queue `k` go before that of an earlier queue? Of a frame on its way through us
 * only the priority is known: among equals the one that has waited longer goes. */
static bool goes_before(const struct br_queued *head, int k, const struct br_queued *best,
                        int which)
{
    if (head->priority != best->priority)
        return head->priority > best->priority;
    if (k == BR_QUEUE_RELAY)
        return head->served < best->served;
    if (k == BR_QUEUE_DATA && is_ready(best, which))
        return false;
    return br_queued_before(head, best);
}

/* Of the queues that are not stuck the one whose first is the most urgent; BR_QUEUES: none has
 * any. */
static int next_queue(const struct br_peer *peer, uint32_t stuck, struct br_queued **best)
{
    int which = BR_QUEUES;

    *best = NULL;
    for (int k = 0; k < BR_QUEUES; k++) {
        struct br_queued *first = stuck >> k & 1 ? NULL : br_queue_first(&peer->queues[k]);

        if (first && (!*best || goes_before(first, k, *best, which))) {
            *best = first;
            which = k;
        }
    }
    return which;
}

/* A frame of `head`, of queue `k`. false: nothing of it can leave now. */
static bool pump_queued(struct br_worker *w, struct br_peer *peer, int k, struct br_queued *head,
                        struct br_pump *pump)
{
    struct br_transfer *t;

    if (k == BR_QUEUE_RELAY) {
        if (!br_relay_send(w, peer, head))
            return false;
        pump->n++;
        return true;
    }
    t = br_container_of(head, struct br_transfer, queued);
    return k == BR_QUEUE_DATA ? pump_data(w, peer, t, pump) : br_numbered_send(w, peer, t, pump);
}

/* What has starved goes first, one of each queue. It may be stuck where what is more urgent is not:
 * another rail. */
static void pump_starved(struct br_worker *w, struct br_peer *peer, struct br_pump *pump)
{
    for (int k = 0; k < BR_QUEUES; k++) {
        struct br_queue *queue = &peer->queues[k];
        struct br_queued *starved = br_queue_starved(queue, w->now, w->config.starvation);

        if (starved && !pump_queued(w, peer, k, starved, pump) && starved == br_queue_first(queue))
            pump->stuck |= 1u << k;
    }
}

/* Control messages of each rail, and those of the peer on the rail that has the least to deliver:
 * behind the data of a slow one a DONE would keep a send from ending. Returns the rails that are
 * full, a bit each. */
static uint32_t pump_control(struct br_worker *w, struct br_peer *peer)
{
    struct br_rail *freest = NULL;
    uint32_t full = 0;

    for (int i = 0; i < peer->n_rails; i++) {
        struct br_rail *rail = &peer->rails[i];

        if (rail->state != BR_RAIL_UP)
            full |= 1u << i;
        else if (!freest ||
                 (rail->alternate == freest->alternate && br_rail_compare(rail, freest) < 0))
            freest = rail;
    }
    if (freest && !br_control_pump(w, peer, freest))
        full |= 1u << freest->index;
    for (int i = 0; i < peer->n_rails; i++)
        if (&peer->rails[i] != freest && !(full >> i & 1) &&
            !br_control_pump(w, peer, &peer->rails[i]))
            full |= 1u << i;
    return full;
}

/* The answer to several puts is about to leave: with it goes that their buffers are free, in the
 * same send. Else the next burst, which follows such an answer, would stop in its middle for the
 * few buffers that have not been announced, and wait for a round trip. */
static void ack_with_answers(struct br_peer *peer)
{
    const uint64_t *puts = peer->put_done.put_done.puts;

    _Static_assert(BR_PUTS_WORDS == 3, "all words of a PUT_DONE are looked at");
    if (!peer->put_done.type || (puts[0] == 1 && !puts[1] && !puts[2]))
        return;
    for (int i = 0; i < peer->n_rails; i++) {
        struct br_rail *rail = &peer->rails[i];

        if (rail->state == BR_RAIL_UP && rail->released != rail->announced)
            rail->ack_due = true;
    }
}

int br_pump_peer(struct br_worker *w, struct br_peer *peer)
{
    struct br_pump pump = {0};
    uint32_t unused;

    if (peer->shared != (w->now < w->shared_until))
        br_peer_set_shared(peer, !peer->shared);
    for (int i = 0; i < peer->n_rails; i++)
        br_rail_drain(&peer->rails[i], w->now);
    ack_with_answers(peer);
    if (br_control_is_due(peer))
        pump.full = pump_control(w, peer);
    unused = peer->alternates && br_peer_direct(peer) ? peer->alternates : 0;
    pump.full |= unused; /* they are for the time without */
    if (br_numbered_again(peer))
        br_numbered_resend(w, peer, &pump);
    if (peer->put_done.type)
        br_numbered_put_done(peer, &pump);
    pump_starved(w, peer, &pump);
    for (;;) {
        struct br_queued *head;
        int which = next_queue(peer, pump.stuck, &head);

        if (which == BR_QUEUES)
            break;
        if (!pump_queued(w, peer, which, head, &pump))
            pump.stuck |= 1u << which;
    }
    if (pump.full || pump.stuck || peer->stalled)
        br_stall_note(w, peer, pump.full, pump.stuck);
    if (!br_peer_has_work(peer))
        br_list_remove(&peer->active);
    else if (peer->on_demand && br_peer_is_unlinked(peer))
        br_peer_want(w, peer);
    else if (pump.no_window && pump.stuck == 1u << BR_QUEUE_DATA && !(pump.full & ~unused) &&
             !peer->put_done.type && !br_numbered_again(peer) && !br_control_is_due(peer))
        peer_block(w, peer);
    return pump.n;
}
