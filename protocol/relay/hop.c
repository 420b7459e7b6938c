/* SPDX-License-Identifier: BSD-3-Clause */
/* Relayed frames from host to host: checked, kept, sent on in the order of urgency; and what is
 * said when that fails. */
#include "protocol/relay/relay.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define TRANSIT_IDLE(w)                                                                            \
    (2 * (w)->config.peer_timeout) /* its ends ask each other much more often                      \
                                    */

void br_relay_reverse(uint16_t *out, const uint16_t *path, int hosts)
{
    for (int i = 0; i < hosts; i++)
        out[i] = path[hosts - 1 - i];
}

/* ---- credits --------------------------------------------------------------------------------- */

static bool has_credit(const struct br_relay_credits *credits, uint32_t class)
{
    return credits->used[class] < BR_RELAY_RESERVED || credits->shared < BR_RELAY_SHARED;
}

static void take_credit(struct br_relay_credits *credits, uint32_t class)
{
    if (credits->used[class]++ >= BR_RELAY_RESERVED)
        credits->shared++;
}

static void give_credit(struct br_relay_credits *credits, uint32_t class)
{
    if (credits->used[class]-- > BR_RELAY_RESERVED)
        credits->shared--;
}

/* A buffer for what came over the rail is free again; its peer will hear of it. */
static void hop_give_back(struct br_worker *w, struct br_rail *rail, uint32_t class)
{
    give_credit(&rail->relay->in, class);
    rail->relay->credits_due[class - 1]++;
    rail->relay_due = true;
    br_peer_activate(w, rail->peer);
}

bool br_relay_post_credits(struct br_rail *rail)
{
    struct br_message m = {.type = BR_MESSAGE_RELAY_CREDIT};

    memcpy(m.relay_back.n, rail->relay->credits_due, sizeof m.relay_back.n);
    if (br_control_post(rail, &m, NULL, 0) != 1)
        return false;
    memset(rail->relay->credits_due, 0, sizeof rail->relay->credits_due);
    rail->relay_due = false;
    return true;
}

void br_relay_credits_received(struct br_rail *rail, const struct br_body_relay_credit *back)
{
    for (uint32_t class = 1; rail->relay && class <= BR_RELAY_HOPS; class ++)
        for (uint32_t i = 0; i < back->n[class - 1] && rail->relay->out.used[class]; i++)
            give_credit(&rail->relay->out, class);
}

int br_relay_rail_init(struct br_worker *w, struct br_rail *rail)
{
    rail->relay = calloc(1, sizeof *rail->relay);
    return rail->relay ? 0 : br_error(ENOMEM, "rank %d: no memory for relaying", w->config.rank);
}

/* ---- leaving --------------------------------------------------------------------------------- */

bool br_relay_is_hop(const struct br_relay *relay, uint32_t rank)
{
    return rank < (uint32_t)relay->w->config.size && br_peer_direct(&relay->w->peers[rank]) != NULL;
}

struct br_relay_frame *br_relay_own_frame(struct br_relay *relay, bool control)
{
    struct br_relay_frame *frame;

    if (relay->n_own >= BR_RELAY_OWN - (control ? 0 : BR_RELAY_CONTROL))
        return NULL;
    frame = br_pool_get(&relay->frames);
    if (!frame)
        return NULL;
    relay->n_own++;
    frame->own = true;
    frame->posted = false;
    frame->from = NULL;
    frame->link = NULL;
    frame->length = 0;
    br_list_init(&frame->node);
    return frame;
}

/* For header.path[header.at], a neighbour whose rail is up. */
void br_relay_enqueue(struct br_relay *relay, struct br_relay_frame *frame)
{
    struct br_peer *peer = &relay->w->peers[frame->header.path[frame->header.at]];

    frame->flight.transfer = NULL;
    br_queued_init(&frame->queued, frame->header.priority, 0, 0);
    br_queue_insert(&peer->queues[BR_QUEUE_RELAY], &frame->queued, relay->w->now);
    br_peer_activate(relay->w, peer);
}

bool br_relay_send_control(struct br_relay *relay, enum br_relay_kind kind, uint32_t id,
                           const uint16_t *path, int hosts, uint32_t number)
{
    struct br_relay_frame *frame =
        br_relay_is_hop(relay, path[1]) ? br_relay_own_frame(relay, true) : NULL;

    if (!frame)
        return false;
    frame->header = (struct br_message_relay){.type = BR_MESSAGE_RELAY,
                                              .what = (uint8_t)kind,
                                              .hosts = (uint8_t)hosts,
                                              .at = 1,
                                              .priority = INT16_MAX,
                                              .id = id,
                                              .number = number};
    memcpy(frame->header.path, path, (size_t)hosts * sizeof *path);
    br_relay_enqueue(relay, frame);
    return true;
}

static struct br_relay_frame *frame_of(struct br_queued *queued)
{
    return br_container_of(queued, struct br_relay_frame, queued);
}

/* The head, or when its class has no buffer at the peer, the first behind it whose class has. Those
 * of one route have one class, so they stay in order. */
static struct br_relay_frame *hop_next_frame(const struct br_rail *rail,
                                             const struct br_queue *queue, struct br_queued *head)
{
    const struct br_relay_credits *out = &rail->relay->out;

    if (has_credit(out, frame_of(head)->header.at))
        return frame_of(head);
    br_list_for_each (node, &queue->entries) {
        struct br_relay_frame *frame = frame_of(br_container_of(node, struct br_queued, node));

        if (has_credit(out, frame->header.at))
            return frame;
    }
    return NULL;
}

bool br_relay_send(struct br_worker *w, struct br_peer *peer, struct br_queued *head)
{
    struct br_rail *rail = br_peer_direct(peer);
    struct br_relay_frame *relayed =
        rail ? hop_next_frame(rail, &peer->queues[BR_QUEUE_RELAY], head) : NULL;
    struct br_frame frame;
    bool asks;

    if (!relayed) {
        w->counters.relay_stalls++;
        return false;
    }
    if (!br_rail_has_window(rail, relayed->length))
        return false;
    asks = relayed->length && br_rail_asks(rail, relayed->length);
    relayed->header.what =
        (uint8_t)((relayed->header.what & BR_RELAY_KIND) | (asks ? BR_RELAY_ACK : 0));
    frame = (struct br_frame){.kind = BR_FRAME_MESSAGE,
                              .payload = relayed->bytes,
                              .length = relayed->length,
                              .inline_ = (const uint8_t *)&relayed->header,
                              .cookie = (uint64_t)(uintptr_t)&relayed->flight};
    if (rail->device->ops->post(rail->link, &frame, 1) != 1)
        return false;
    rail->tx_messages++;
    if (relayed->length)
        br_rail_posted(rail, relayed->length, asks, w->now);
    take_credit(&rail->relay->out, relayed->header.at);
    br_queue_served(&relayed->queued, w->now);
    br_queue_remove(&relayed->queued);
    relayed->flight.rail = rail;
    relayed->flight.length = relayed->length;
    br_list_init(&relayed->flight.node);
    br_list_push_back(&rail->flights, &relayed->flight.node);
    return true;
}

void br_relay_put(struct br_relay *relay, struct br_relay_frame *frame)
{
    if (frame->from)
        hop_give_back(relay->w, frame->from, frame->header.at - 1u);
    if (frame->own)
        relay->n_own--;
    br_pool_put(&relay->frames, frame);
}

void br_relay_sent(struct br_worker *w, struct br_flight *flight)
{
    struct br_relay_frame *frame = (struct br_relay_frame *)flight;

    if (frame->posted)
        br_relay_report_sent(w->relay, frame);
    br_relay_put(w->relay, frame);
}

/* Until the lost link is closed, its back end may still read the frame. */
void br_relay_dropped(struct br_worker *w, struct br_flight *flight)
{
    struct br_relay_frame *frame = (struct br_relay_frame *)flight;

    if (frame->link)
        frame->link->n_frames--;
    frame->link = NULL;
    br_list_remove(&frame->node);
    br_list_push_back(&w->relay->closed_frames, &frame->node);
}

void br_relay_reclaim(struct br_relay *relay)
{
    struct br_list *node;

    while ((node = br_list_pop_front(&relay->closed_frames)))
        br_relay_put(relay, br_container_of(node, struct br_relay_frame, node));
}

/* ---- routes that lead through us ------------------------------------------------------------- */

static void forget_transit(struct br_relay *relay, struct br_relay_transit *transit)
{
    br_table_remove(&relay->through, transit->id, 0);
    br_list_remove(&transit->node);
    br_pool_put(&relay->transits, transit);
}

static bool remember_transit(struct br_relay *relay, const struct br_message_relay *header)
{
    struct br_relay_transit *transit;

    if (br_table_find(&relay->through, header->id, 0))
        return false;
    transit = br_pool_get(&relay->transits);
    if (!transit)
        return false;
    *transit = (struct br_relay_transit){
        .id = header->id, .hosts = header->hosts, .at = header->at, .used = relay->w->now};
    memcpy(transit->path, header->path, sizeof transit->path);
    br_list_init(&transit->node);
    br_list_push_back(&relay->transit_list, &transit->node);
    return br_table_insert(&relay->through, header->id, 0, transit) == 0;
}

/* The host that frames from `from` go on to; -1: the route does not come from there. */
static int goes_on_to(const struct br_relay_transit *transit, uint32_t from)
{
    if (transit->path[transit->at - 1] == from)
        return transit->path[transit->at + 1];
    return transit->path[transit->at + 1] == from ? transit->path[transit->at - 1] : -1;
}

/* Tells the end of the route that lies on the side of neighbour `side` that we cannot reach
 * `to`. */
static void notify_end(struct br_relay *relay, const struct br_relay_transit *transit,
                       uint32_t side, uint32_t to)
{
    uint16_t path[BR_RELAY_HOSTS];
    int hosts;

    if (transit->path[transit->at + 1] == side) {
        hosts = transit->hosts - transit->at;
        memcpy(path, transit->path + transit->at, (size_t)hosts * sizeof *path);
    } else {
        hosts = transit->at + 1;
        br_relay_reverse(path, transit->path, hosts);
    }
    br_relay_send_control(relay, BR_RELAY_UNREACHABLE, transit->id, path, hosts, to);
}

static void lose_transits(struct br_relay *relay, uint32_t to)
{
    br_list_for_each_safe (node, &relay->transit_list) {
        struct br_relay_transit *transit = br_container_of(node, struct br_relay_transit, node);
        int other = goes_on_to(transit, to);

        if (other < 0)
            continue;
        relay->w->counters.unreachable++;
        notify_end(relay, transit, (uint32_t)other, to);
        forget_transit(relay, transit);
    }
}

void br_relay_expire(struct br_relay *relay)
{
    br_list_for_each_safe (node, &relay->transit_list) {
        struct br_relay_transit *transit = br_container_of(node, struct br_relay_transit, node);

        if (relay->w->now - transit->used > TRANSIT_IDLE(relay->w))
            forget_transit(relay, transit);
    }
}

/* Frames from others that hold a buffer of a lost rail, and those that wait to leave over it. */
static void lose_frames(struct br_worker *w, struct br_rail *rail)
{
    struct br_queue *queue = &rail->peer->queues[BR_QUEUE_RELAY];

    br_list_for_each_safe (node, &queue->entries) {
        struct br_queued *queued = br_container_of(node, struct br_queued, node);

        br_queue_remove(queued);
        br_relay_dropped(w, &frame_of(queued)->flight);
    }
    for (uint32_t i = 0; i < w->relay->frames.count; i++) {
        struct br_relay_frame *frame = br_pool_at(&w->relay->frames, i);

        if (frame->from == rail)
            frame->from = NULL;
    }
    memset(rail->relay, 0, sizeof *rail->relay);
    rail->relay_due = false;
}

void br_relay_rail_lost(struct br_worker *w, struct br_rail *rail)
{
    uint32_t to = (uint32_t)rail->peer->rank;
    char text[80];

    lose_frames(w, rail);
    snprintf(text, sizeof text, "the rail to rank %u is lost", to);
    br_list_for_each (node, &w->relay->links) {
        struct br_relay_link *link = br_container_of(node, struct br_relay_link, node);

        if (link->path[1] == to)
            br_relay_link_fail(w->relay, link, EHOSTUNREACH, text);
    }
    lose_transits(w->relay, to);
}

/* ---- arriving -------------------------------------------------------------------------------- */

/* Could the frame have come this way? What follows from an open route is not checked again. */
static bool is_here(const struct br_relay *relay, const struct br_rail *rail,
                    const struct br_message_relay *h)
{
    return h->hosts >= 2 && h->hosts <= relay->hops + 1 && h->at >= 1 && h->at < h->hosts &&
           h->path[h->at] == relay->w->config.rank && h->path[h->at - 1] == rail->peer->rank;
}

/* A way through the cube that visits no host twice. */
static bool is_route(const struct br_relay *relay, const struct br_message_relay *h)
{
    const struct br_bcube *cube = &relay->w->config.cube;

    for (int i = 0; i < h->hosts; i++) {
        if (h->path[i] >= relay->w->config.size ||
            (i && br_bcube_level(cube, h->path[i - 1], h->path[i]) < 0))
            return false;
        for (int j = 0; j < i; j++)
            if (h->path[i] == h->path[j])
                return false;
    }
    return true;
}

static bool is_right(const struct br_relay *relay, const struct br_message_relay *h,
                     uint32_t length)
{
    switch (h->what & BR_RELAY_KIND) {
    case BR_RELAY_OPEN:
        return !length && h->hosts >= 3 && h->id >> 16 == h->path[0] && is_route(relay, h);
    case BR_RELAY_REQUEST:
        return !length && h->hosts >= 3 && is_route(relay, h);
    case BR_RELAY_UNREACHABLE:
        return !length && is_route(relay, h);
    case BR_RELAY_CLOSE:
        return !length && h->hosts >= 3;
    case BR_RELAY_FRAME:
        return h->hosts >= 3;
    default:
        return false;
    }
}

/* The frame cannot go on: its sender hears why. Nobody hears of what is itself only news. */
static void hop_answer(struct br_relay *relay, const struct br_message_relay *header, uint32_t to)
{
    uint32_t kind = header->what & BR_RELAY_KIND;
    uint16_t path[BR_RELAY_HOSTS];

    relay->w->counters.unreachable++;
    if (kind != BR_RELAY_OPEN && kind != BR_RELAY_FRAME)
        return;
    br_relay_reverse(path, header->path, header->at + 1);
    br_relay_send_control(relay, BR_RELAY_UNREACHABLE, header->id, path, header->at + 1, to);
}

/* Is the route known here, and does the frame follow it? OPEN makes it known. */
static bool hop_follows(struct br_relay *relay, const struct br_message_relay *header)
{
    uint32_t kind = header->what & BR_RELAY_KIND, next = header->path[header->at + 1];
    struct br_relay_transit *transit;

    if (kind == BR_RELAY_REQUEST)
        return true;
    if (kind == BR_RELAY_OPEN)
        return remember_transit(relay, header);
    transit = br_table_find(&relay->through, header->id, 0);
    if (!transit || goes_on_to(transit, header->path[header->at - 1]) != (int)next)
        return false;
    transit->used = relay->w->now;
    if (kind != BR_RELAY_FRAME)
        forget_transit(relay, transit);
    return true;
}

/* true: the frame is on its way, with the buffer of `rail`. */
static bool hop_forward(struct br_relay *relay, struct br_rail *rail,
                        const struct br_message_relay *header, const struct br_event *event)
{
    uint32_t next = header->path[header->at + 1];
    struct br_relay_frame *frame;

    if (!br_relay_is_hop(relay, next)) {
        hop_answer(relay, header, next);
        return false;
    }
    if (!hop_follows(relay, header)) {
        hop_answer(relay, header, UINT32_MAX);
        return false;
    }
    frame = br_pool_get(&relay->frames); /* as many as all rails have buffers */
    frame->own = frame->posted = false;
    frame->link = NULL;
    frame->from = rail;
    frame->header = *header;
    frame->header.at++;
    frame->length = event->length;
    if (event->length)
        memcpy(frame->bytes, event->payload, event->length);
    br_list_init(&frame->node);
    relay->w->counters.relayed_frames++;
    relay->w->counters.relayed_bytes += event->length;
    br_relay_enqueue(relay, frame);
    return true;
}

void br_relay_arrived(struct br_worker *w, struct br_rail *rail, const struct br_event *event)
{
    struct br_relay *relay = w->relay;
    struct br_message_relay header;
    struct br_link *link = rail->link;
    uint32_t class;

    memcpy(&header, event->inline_, sizeof header);
    class = header.at;
    if (!rail->relay || class < 1 || class > relay->hops || event->length > relay->frame_bytes ||
        !has_credit(&rail->relay->in, class)) {
        br_rail_lost(w, rail, EPROTO,
                     "the peer relays more than there are buffers for, or to nowhere");
        return;
    }
    rail->rx_bytes += event->length;
    rail->total_rx += event->length;
    if (header.what & BR_RELAY_ACK) {
        rail->ack_due = true;
        br_peer_activate(w, rail->peer);
    }
    take_credit(&rail->relay->in, class);
    if (!is_here(relay, rail, &header) || !is_right(relay, &header, event->length))
        w->counters.dropped_messages++;
    else if (header.at + 1 < header.hosts) {
        if (hop_forward(relay, rail, &header, event))
            return;
    } else {
        br_relay_deliver(relay, &header, event);
    }
    if (rail->link == link) /* else its buffers are forgotten */
        hop_give_back(w, rail, class);
}
