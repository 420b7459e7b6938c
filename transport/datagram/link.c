/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/datagram/internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"

static int check_config(const struct br_dgram_config *config)
{
    if (!config->id || !config->slots || !config->message_buffers || !config->patience ||
        config->message_bytes > BR_DGRAM_MAX_FRAME || !config->paths ||
        config->paths > BR_DGRAM_PATHS)
        return br_error(EINVAL, "datagram link: configuration out of bounds");
    if (config->max_packet < BR_DGRAM_MIN_PACKET || config->max_packet > BR_DGRAM_MAX_PACKET)
        return br_error(
            EINVAL, "the network interface carries datagrams of %u bytes: %u to %u are possible",
            config->max_packet, BR_DGRAM_MIN_PACKET, BR_DGRAM_MAX_PACKET);
    return 0;
}

static int datagram_link_allocate(struct br_dgram_link *link)
{
    const struct br_dgram_config *config = &link->config;

    link->tx = calloc(BR_DGRAM_WINDOW, sizeof *link->tx);
    link->rx = calloc(BR_DGRAM_RX_FRAMES, sizeof *link->rx);
    /* a power of two: orders wrap at 2^32 */
    while (link->waiting_capacity < config->message_buffers)
        link->waiting_capacity = link->waiting_capacity ? 2 * link->waiting_capacity : 1;
    link->waiting = calloc(link->waiting_capacity, sizeof *link->waiting);
    if (!link->tx || !link->rx || !link->waiting)
        return br_error(ENOMEM, "no memory for a datagram link");
    for (unsigned i = 0; i < config->paths; i++) {
        link->paths[i].sent = calloc(BR_DGRAM_PACKETS, sizeof *link->paths[i].sent);
        if (!link->paths[i].sent)
            return br_error(ENOMEM, "no memory for path %u of a datagram link", i);
    }
    return br_pool_init(&link->pool, sizeof(struct br_dgram_message) + config->message_bytes,
                        config->message_buffers);
}

static void datagram_link_init(struct br_dgram_link *link, uint64_t now)
{
    br_list_init(&link->again);
    br_list_init(&link->messages);
    br_list_init(&link->data_frames);
    br_list_init(&link->done);
    br_list_init(&link->ready);
    for (uint32_t i = 0; i < BR_DGRAM_WINDOW; i++) {
        br_list_init(&link->tx[i].fresh);
        br_list_init(&link->tx[i].again);
    }
    for (uint32_t i = 0; i < BR_DGRAM_RX_FRAMES; i++) {
        link->rx[i].number = i - BR_DGRAM_RX_FRAMES;
        link->rx[i].finished = true;
        br_list_init(&link->rx[i].ready);
    }
    for (unsigned i = 0; i < link->config.paths; i++) {
        br_dgram_congestion_init(&link->paths[i].congestion, link->config.target,
                                 link->config.paths);
        link->paths[i].next = link->paths[i].floor = 1;
        link->paths[i].loss_at = link->paths[i].ack_at = BR_DGRAM_NEVER;
    }
    link->received_at = now;
    link->message_limit = link->limit_sent = link->config.message_buffers;
}

static int datagram_link_create(const struct br_dgram_config *config, uint64_t now,
                                struct br_dgram_link **out)
{
    struct br_dgram_link *link;
    int rc = check_config(config);

    if (rc)
        return rc;
    link = calloc(1, sizeof *link + config->paths * sizeof link->paths[0]);
    if (!link)
        return br_error(ENOMEM, "no memory for a datagram link");
    link->config = *config;
    link->allocated = config->paths;
    rc = datagram_link_allocate(link);
    if (rc) {
        br_dgram_link_destroy(link);
        return rc;
    }
    datagram_link_init(link, now);
    *out = link;
    return 0;
}

int br_dgram_link_connect(const struct br_dgram_config *config, uint64_t now,
                          struct br_dgram_link **out)
{
    int rc = datagram_link_create(config, now, out);

    if (rc)
        return rc;
    (*out)->connector = true;
    br_dgram_open_begin(*out, now);
    return 0;
}

int br_dgram_link_accept(const struct br_dgram_config *config, const struct br_dgram_view *open,
                         uint64_t now, struct br_dgram_link **out)
{
    int rc = datagram_link_create(config, now, out);

    if (rc)
        return rc;
    (*out)->state = BR_DGRAM_ANSWERING;
    (*out)->peer = open->open.from;
    br_dgram_open_input(*out, open, now);
    return 0;
}

void br_dgram_link_destroy(struct br_dgram_link *link)
{
    if (!link)
        return;
    for (unsigned i = 0; i < link->allocated; i++)
        free(link->paths[i].sent);
    br_pool_destroy(&link->pool);
    free(link->waiting);
    free(link->rx);
    free(link->tx);
    free(link);
}

bool br_dgram_link_close(struct br_dgram_link *link, struct br_dgram_packet *out)
{
    if (!link->peer)
        return false;
    br_dgram_open_packet(link, BR_DGRAM_CLOSE, 0, out);
    return true;
}

uint64_t br_dgram_link_peer(const struct br_dgram_link *link)
{
    return link->peer;
}

void br_dgram_link_authenticate(struct br_dgram_link *link)
{
    link->authenticated = true;
}

const char *br_dgram_link_message(const struct br_dgram_link *link)
{
    return link->message;
}

void br_dgram_link_fail(struct br_dgram_link *link, int error, const char *format, ...)
{
    va_list args;

    if (link->state == BR_DGRAM_FAILED)
        return;
    link->state = BR_DGRAM_FAILED;
    link->error = -error;
    va_start(args, format);
    vsnprintf(link->message, sizeof link->message, format, args);
    va_end(args);
}

void br_dgram_link_up(struct br_dgram_link *link, uint32_t packet_bytes, uint64_t now)
{
    link->state = BR_DGRAM_UP;
    link->packet_bytes = packet_bytes;
    link->part_bytes = packet_bytes - (uint32_t)sizeof(struct br_dgram_data);
    for (unsigned i = 0; i < link->config.paths && link->config.flight_bytes; i++)
        br_dgram_congestion_limit(&link->paths[i].congestion,
                                  link->config.flight_bytes / packet_bytes / link->config.paths);
    link->received_at = now;
    link->fresh = true;
}

static int datagram_link_check_frame(const struct br_dgram_link *link, const struct br_frame *frame)
{
    uint32_t most = frame->kind == BR_FRAME_DATA ? BR_DGRAM_MAX_FRAME : link->config.message_bytes;

    if (frame->length > most)
        return br_error(EMSGSIZE, "frame of %u bytes; at most %u", frame->length, most);
    return 0;
}

static void datagram_link_take(struct br_dgram_link *link, struct br_dgram_tx_frame *frame,
                               const struct br_frame *from)
{
    bool message = from->kind == BR_FRAME_MESSAGE;
    uint32_t content = BR_FRAME_INLINE + from->length;

    frame->number = link->next_frame++;
    frame->busy = true;
    frame->parts = (uint8_t)((content + link->part_bytes - 1) / link->part_bytes);
    frame->next = 0;
    frame->acked = frame->lost = 0;
    frame->kind = from->kind;
    frame->payload = from->payload;
    frame->region = from->region;
    frame->length = from->length;
    frame->slot = message ? 0 : from->slot;
    frame->offset = message ? 0 : from->offset;
    frame->order = link->next_order;
    frame->cookie = from->cookie;
    if (from->inline_)
        memcpy(frame->inline_, from->inline_, sizeof frame->inline_);
    else
        memset(frame->inline_, 0, sizeof frame->inline_);
    link->next_order += message;
    br_list_push_back(message ? &link->messages : &link->data_frames, &frame->fresh);
}

int br_dgram_link_post(struct br_dgram_link *link, const struct br_frame *frames, int n)
{
    int taken = 0;

    if (link->state == BR_DGRAM_FAILED)
        return br_error(-link->error, "%s", link->message);
    if (link->state != BR_DGRAM_UP)
        return 0;
    while (taken < n) {
        struct br_dgram_tx_frame *frame = &link->tx[link->next_frame % BR_DGRAM_WINDOW];
        int rc = datagram_link_check_frame(link, &frames[taken]);

        if (rc)
            return taken ? taken : rc;
        if (frame->busy)
            break;
        datagram_link_take(link, frame, &frames[taken]);
        taken++;
    }
    return taken;
}

static void datagram_link_closed(struct br_dgram_link *link, const struct br_dgram_open *close)
{
    uint8_t version = close->header.version;
    bool refused = link->state == BR_DGRAM_OPENING && !link->peer;

    if (refused && version != BR_DGRAM_VERSION)
        br_dgram_link_fail(link, EPROTONOSUPPORT,
                           "its datagram version is %u, ours %u: update braid %s", version,
                           BR_DGRAM_VERSION, br_dgram_outdated(version));
    else if (refused)
        br_dgram_link_fail(link, ECONNREFUSED, "the peer takes no more links");
    else if (version == BR_DGRAM_VERSION && close->from == link->peer)
        br_dgram_link_fail(link, ESHUTDOWN, "closed by the peer");
}

void br_dgram_link_input(struct br_dgram_link *link, const struct br_dgram_view *view, bool marked,
                         uint64_t at)
{
    if (link->state == BR_DGRAM_FAILED)
        return;
    if (view->kind == BR_DGRAM_CLOSE) {
        datagram_link_closed(link, &view->open);
        return;
    }
    if (view->kind != BR_DGRAM_DATA && view->kind != BR_DGRAM_PING && view->kind != BR_DGRAM_ACK) {
        br_dgram_open_input(link, view, at);
        return;
    }
    if (link->state == BR_DGRAM_CONFIRMING)
        br_dgram_link_up(link, link->best, at); /* CONFIRMED was lost */
    if (link->state != BR_DGRAM_UP) {
        link->stats.dropped++;
        return;
    }
    link->received = true;
    link->ticked_at = 0;
    if (view->kind == BR_DGRAM_ACK)
        br_dgram_loss_ack(link, &view->ack, at);
    else
        br_dgram_receive_data(link, view, marked, at);
}

static bool message_event(struct br_dgram_link *link, struct br_event *event)
{
    struct br_dgram_message **place = &link->waiting[link->delivered % link->waiting_capacity];
    struct br_dgram_message *message = *place;

    if (!message || !message->whole)
        return false;
    *place = NULL;
    link->delivered++;
    link->held++;
    event->kind = BR_EVENT_MESSAGE;
    event->length = message->length;
    event->inline_ = message->inline_;
    event->payload = message->payload;
    event->buffer = message;
    return true;
}

static bool datagram_link_data_event(struct br_dgram_link *link, struct br_event *event)
{
    struct br_list *node = br_list_pop_front(&link->ready);
    struct br_dgram_rx_frame *frame;

    if (!node)
        return false;
    frame = br_container_of(node, struct br_dgram_rx_frame, ready);
    frame->finished = true;
    event->kind = BR_EVENT_DATA;
    event->slot = frame->slot;
    event->offset = frame->offset;
    event->length = frame->length;
    event->stale = frame->stale || !br_slot_lookup(link->config.slots, frame->slot);
    event->inline_ = frame->inline_;
    return true;
}

static bool sent_event(struct br_dgram_link *link, struct br_event *event)
{
    struct br_list *node = br_list_pop_front(&link->done);
    struct br_dgram_tx_frame *frame;

    if (!node)
        return false;
    frame = br_container_of(node, struct br_dgram_tx_frame, fresh);
    frame->busy = false;
    event->kind = BR_EVENT_SENT;
    event->cookie = frame->cookie;
    return true;
}

bool br_dgram_link_event(struct br_dgram_link *link, struct br_event *event)
{
    struct br_link *owner = event->link;

    *event = (struct br_event){.link = owner};
    if (link->fresh) {
        link->fresh = false;
        event->kind = link->connector ? BR_EVENT_CONNECTED : BR_EVENT_ACCEPTED;
        return true;
    }
    if (message_event(link, event) || datagram_link_data_event(link, event) ||
        sent_event(link, event))
        return true;
    if (link->state != BR_DGRAM_FAILED || link->closed_reported)
        return false;
    link->closed_reported = true;
    event->kind = BR_EVENT_CLOSED;
    event->error = link->error;
    return true;
}

void br_dgram_link_release(struct br_dgram_link *link, void *buffer)
{
    br_pool_put(&link->pool, buffer);
    link->held--;
    /* The peer may be waiting for it, once half of the buffers are free that it does not know
     * of. */
    if (br_dgram_receive_limit(link) - link->limit_sent >= (link->config.message_buffers + 1) / 2)
        br_dgram_receive_ack_now(link);
}

void br_dgram_link_expire(struct br_dgram_link *link, uint64_t now)
{
    if (link->state == BR_DGRAM_FAILED)
        return;
    if (link->received)
        link->received_at = now;
    link->received = false;
    if ((link->answer_due || link->state != BR_DGRAM_UP) &&
        now >= link->received_at + link->config.patience)
        br_dgram_link_fail(link, ETIMEDOUT, "nothing heard, and no packet has left, for %llu ms",
                           (unsigned long long)(link->config.patience / BR_MS));
}

bool br_dgram_link_next(struct br_dgram_link *link, uint64_t now, struct br_dgram_packet *out)
{
    if (link->state == BR_DGRAM_FAILED)
        return false;
    out->last = false;
    if (br_dgram_open_next(link, now, out))
        return true;
    if (link->state != BR_DGRAM_UP)
        return false;
    if (link->received)
        link->received_at = now; /* who was stopped for long has heard what waited for him */
    link->received = false;
    if (link->early && !link->early_since)
        link->early_since = now;
    if (now != link->ticked_at) /* once for all packets that leave now */
        br_dgram_loss_tick(link, now);
    link->ticked_at = now;
    if (link->state != BR_DGRAM_UP)
        return false;
    if (br_dgram_receive_ack(link, true, now, out))
        return true;
    if (br_dgram_send_next(link, now, out)) {
        link->data_at = now;
        return true;
    }
    return link->data_at != now && br_dgram_receive_ack(link, false, now, out);
}

uint64_t br_dgram_link_timer(const struct br_dgram_link *link)
{
    uint64_t timer;

    if (link->state == BR_DGRAM_FAILED)
        return link->closed_reported ? BR_DGRAM_NEVER : 0;
    if (link->state != BR_DGRAM_UP)
        return br_dgram_open_timer(link);
    if (link->answer_confirm)
        return 0;
    timer = br_dgram_send_timer(link);
    for (unsigned i = 0; i < link->config.paths; i++) {
        const struct br_dgram_path *path = &link->paths[i];
        uint64_t loss = br_dgram_loss_timer(link, path), ack = br_dgram_receive_timer(path);

        timer = ack < timer ? ack : timer;
        timer = link->config.acks_behind && timer <= link->data_at ? link->data_at + 1 : timer;
        timer = loss < timer ? loss : timer;
    }
    return timer;
}

uint64_t br_dgram_link_resent(const struct br_dgram_link *link)
{
    return link->stats.resent_packets;
}

void br_dgram_link_stats(const struct br_dgram_link *link, struct br_dgram_stats *out)
{
    *out = link->stats;
    out->packet_bytes = link->packet_bytes;
    for (unsigned i = 0; i < link->config.paths; i++) {
        const struct br_dgram_congestion *pace = &link->paths[i].congestion;

        out->rtt[i] = pace->smoothed;
        out->min_rtt[i] = pace->min_rtt < UINT64_MAX ? pace->min_rtt : 0;
        out->window[i] = pace->window;
    }
}
