/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Routes as a back end: the operations that a rail needs of its link, over messages of type RELAY.
 * The worker gets messages, bytes and SENT as soon as they arrive, while it handles the event that
 * brought them. Events by which a link begins or ends come out of poll().
 */
#include "protocol/relay/relay.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static struct br_relay *relay_of(struct br_device *device)
{
    return (struct br_relay *)device;
}

/* ---- a link's life --------------------------------------------------------------------------- */

static struct br_relay_link *relay_link_make(struct br_relay *relay, uint32_t id,
                                             const uint16_t *path, int hosts)
{
    struct br_relay_link *link;

    if (relay->n_links == BR_RELAY_LINKS) {
        relay->device.counters.refused_links++;
        br_error(EMFILE, "all %u routes are in use", BR_RELAY_LINKS);
        return NULL;
    }
    link = calloc(1, sizeof *link);
    if (!link ||
        br_pool_init(&link->buffers, sizeof(struct br_relay_buffer) + relay->config.message_bytes,
                     BR_MESSAGE_BUFFERS)) {
        free(link);
        br_error(ENOMEM, "no memory for a route");
        return NULL;
    }
    link->base.device = &relay->device;
    snprintf(link->base.peer_name, sizeof link->base.peer_name, "rank %u by way of rank %u",
             path[hosts - 1], path[1]);
    link->id = id;
    link->hosts = (uint8_t)hosts;
    memcpy(link->path, path, (size_t)hosts * sizeof *path);
    br_list_init(&link->reporting);
    br_list_init(&link->frames);
    br_list_push_back(&relay->links, &link->node);
    br_table_insert(&relay->ends, id, 0,
                    link); /* holds BR_RELAY_LINKS, and the caller has looked for the id */
    relay->n_links++;
    return link;
}

static void relay_link_unmake(struct br_relay *relay, struct br_relay_link *link)
{
    struct br_list *node;

    while ((node = br_list_pop_front(&link->frames)))
        br_container_of(node, struct br_relay_frame, node)->link = NULL;
    br_table_remove(&relay->ends, link->id, 0);
    br_list_remove(&link->node);
    br_list_remove(&link->reporting);
    br_pool_destroy(&link->buffers);
    free(link);
    relay->n_links--;
}

static uint32_t new_id(struct br_relay *relay)
{
    uint32_t id;

    do
        id = (uint32_t)relay->w->config.rank << 16 | relay->next_number++;
    while (br_table_find(&relay->ends, id, 0));
    return id;
}

void br_relay_address(struct br_address *out, uint32_t self, const struct br_route *route)
{
    uint16_t path[BR_ROUTE_HOPS + 1] = {(uint16_t)self};

    memcpy(path + 1, route->hosts, route->hops * sizeof *path);
    out->bytes = (uint16_t)((route->hops + 1u) * sizeof *path);
    memcpy(out->data, path, out->bytes);
}

static int link_connect(struct br_device *device, const struct br_address *address,
                        struct br_link **out)
{
    struct br_relay *relay = relay_of(device);
    int hosts = address->bytes / (int)sizeof(uint16_t);
    uint16_t path[BR_RELAY_HOSTS];
    struct br_relay_link *link;

    memcpy(path, address->data, address->bytes);
    link = relay_link_make(relay, new_id(relay), path, hosts);
    if (!link)
        return -EMFILE;
    if (!br_relay_send_control(relay, BR_RELAY_OPEN, link->id, path, hosts, 0)) {
        relay_link_unmake(relay, link);
        return br_error(EHOSTUNREACH, "no rail to rank %u, the first host of the route", path[1]);
    }
    br_list_push_back(&relay->reporting, &link->reporting);
    *out = &link->base;
    return 0;
}

void br_relay_link_fail(struct br_relay *relay, struct br_relay_link *link, int error,
                        const char *text)
{
    if (link->state == BR_RELAY_FAILED)
        return;
    link->state = BR_RELAY_FAILED;
    link->error = error;
    snprintf(link->base.message, sizeof link->base.message, "route to %s: %s", link->base.peer_name,
             text);
    br_list_remove(&link->reporting);
    br_list_push_back(&relay->reporting, &link->reporting);
}

static void link_close(struct br_link *base)
{
    struct br_relay *relay = relay_of(base->device);
    struct br_relay_link *link = (struct br_relay_link *)base;

    if (link->state != BR_RELAY_FAILED && !relay->w->failed)
        br_relay_send_control(relay, BR_RELAY_CLOSE, link->id, link->path, link->hosts, 0);
    relay_link_unmake(relay, link);
}

/* ---- sending --------------------------------------------------------------------------------- */

static int16_t priority_of(const struct br_frame *frame)
{
    if (frame->kind == BR_FRAME_MESSAGE || frame->priority >= INT16_MAX)
        return frame->kind == BR_FRAME_MESSAGE ? INT16_MAX : INT16_MAX - 1;
    return frame->priority < INT16_MIN ? INT16_MIN : (int16_t)frame->priority;
}

/* Note 10. false: the worker has failed. */
static bool relay_link_copy(struct br_relay *relay, const struct br_region *region, bool arrives,
                            void *to, const void *from, uint32_t bytes)
{
    const struct br_worker_config *config = &relay->w->config;
    int rc;

    if (!bytes)
        return true;
    if (!region || !region->gpu) {
        memcpy(to, from, bytes);
        return true;
    }
    rc = config->region_copy(config->region_context, arrives, to, from, bytes);
    if (rc)
        br_worker_fail(relay->w, -rc, br_error_message());
    return !rc;
}

static void relay_link_fill(struct br_relay_frame *out, struct br_relay_link *link,
                            const struct br_frame *frame)
{
    struct br_frame_header inner;

    br_frame_header_fill(&inner, frame);
    memcpy(out->bytes, &inner, sizeof inner);
    out->length = BR_RELAY_INNER + frame->length;
    out->header = (struct br_message_relay){.type = BR_MESSAGE_RELAY,
                                            .what = BR_RELAY_FRAME,
                                            .hosts = link->hosts,
                                            .at = 1,
                                            .priority = priority_of(frame),
                                            .id = link->id};
    if (frame->kind == BR_FRAME_MESSAGE)
        out->header.number = link->tx_messages++;
    memcpy(out->header.path, link->path, link->hosts * sizeof *link->path);
    out->link = link;
    out->posted = true;
    out->cookie = frame->cookie;
    br_list_push_back(&link->frames, &out->node);
    link->n_frames++;
}

static int relay_link_post(struct br_link *base, const struct br_frame *frames, int n)
{
    struct br_relay *relay = relay_of(base->device);
    struct br_relay_link *link = (struct br_relay_link *)base;
    int taken;

    if (link->state == BR_RELAY_FAILED)
        return br_error(EPIPE, "%s", base->message);
    for (taken = 0; taken < n && link->n_frames < BR_RELAY_LINK_FRAMES; taken++) {
        struct br_relay_frame *frame;

        if (frames[taken].length + BR_RELAY_INNER > relay->frame_bytes)
            return br_error(EMSGSIZE, "a frame of %u bytes does not fit into a relayed one",
                            frames[taken].length);
        frame = br_relay_own_frame(relay, false);
        if (!frame)
            break;
        if (!relay_link_copy(relay, frames[taken].region, false, frame->bytes + BR_RELAY_INNER,
                             frames[taken].payload, frames[taken].length)) {
            br_relay_put(relay, frame);
            break;
        }
        relay_link_fill(frame, link, &frames[taken]);
        relay->device.counters.tx_frames++;
        relay->device.counters.tx_bytes += frames[taken].length;
        relay->device.counters.tx_copied_bytes += frames[taken].length;
        br_relay_enqueue(relay, frame);
    }
    return taken;
}

void br_relay_report_sent(struct br_relay *relay, struct br_relay_frame *frame)
{
    struct br_event event = {.kind = BR_EVENT_SENT, .cookie = frame->cookie};
    struct br_relay_link *link = frame->link;

    if (!link)
        return;
    br_list_remove(&frame->node);
    frame->link = NULL;
    link->n_frames--;
    event.link = &link->base;
    if (link->state == BR_RELAY_OPENED && frame->cookie)
        br_worker_event(relay->w, &event);
}

/* ---- receiving ------------------------------------------------------------------------------- */

static void deliver_message(struct br_relay *relay, struct br_relay_link *link,
                            const struct br_frame_header *inner, const uint8_t *payload)
{
    struct br_relay_buffer *buffer = br_pool_get(&link->buffers);
    struct br_event event = {
        .kind = BR_EVENT_MESSAGE, .link = &link->base, .length = inner->length};

    if (!buffer) {
        br_relay_link_fail(relay, link, EPROTO,
                           "the peer sends more messages than it has credits for");
        return;
    }
    memcpy(buffer->inline_, inner->inline_, BR_FRAME_INLINE);
    memcpy(buffer->payload, payload, inner->length);
    event.inline_ = buffer->inline_;
    event.payload = buffer->payload;
    event.buffer = buffer;
    br_worker_event(relay->w, &event);
}

static void deliver_data(struct br_relay *relay, struct br_relay_link *link,
                         const struct br_frame_header *inner, const uint8_t *payload)
{
    struct br_event event = {.kind = BR_EVENT_DATA,
                             .link = &link->base,
                             .length = inner->length,
                             .slot = inner->slot,
                             .offset = inner->offset,
                             .inline_ = inner->inline_};
    struct br_slot *slot;
    int rc;

    if (!link->base.authenticated) {
        br_relay_link_fail(relay, link, EPROTO, "data before the peer has proved who it is");
        return;
    }
    rc = br_slot_expect(relay->config.slots, inner->slot, inner->offset, inner->length, &slot);
    if (rc == -ESTALE) {
        event.stale = true;
    } else if (rc || !slot->base) {
        br_relay_link_fail(relay, link, EPROTO,
                           rc ? br_error_message() : "bytes for what takes only mappings");
        return;
    } else if (!relay_link_copy(relay, slot->region, true, slot->base + inner->offset, payload,
                                inner->length)) {
        return;
    }
    br_worker_event(relay->w, &event);
}

static void deliver_frame(struct br_relay *relay, struct br_relay_link *link,
                          const struct br_message_relay *header, const struct br_event *event)
{
    struct br_frame_header inner;

    if (event->length < sizeof inner) {
        br_relay_link_fail(relay, link, EPROTO, "a relayed frame without its header");
        return;
    }
    memcpy(&inner, event->payload, sizeof inner);
    if (br_frame_check(&inner, relay->config.message_bytes, relay->frame_bytes - BR_RELAY_INNER) ||
        inner.length != event->length - sizeof inner) {
        br_relay_link_fail(relay, link, EPROTO, "a relayed frame with a wrong header");
        return;
    }
    if (inner.kind == BR_FRAME_MESSAGE && header->number != link->rx_messages++) {
        br_relay_link_fail(relay, link, EPROTO, "a relayed message is missing");
        return;
    }
    relay->device.counters.rx_frames++;
    relay->device.counters.rx_bytes += inner.length;
    relay->device.counters.rx_copied_bytes += inner.length;
    if (inner.kind == BR_FRAME_MESSAGE)
        deliver_message(relay, link, &inner, event->payload + sizeof inner);
    else
        deliver_data(relay, link, &inner, event->payload + sizeof inner);
}

static void relay_link_accepted(struct br_relay *relay, const struct br_message_relay *header)
{
    struct br_event event = {.kind = BR_EVENT_ACCEPTED};
    uint16_t path[BR_RELAY_HOSTS];
    struct br_relay_link *link;

    if (br_table_find(&relay->ends, header->id, 0)) {
        relay->w->counters.dropped_messages++;
        return;
    }
    br_relay_reverse(path, header->path, header->hosts);
    link = relay_link_make(relay, header->id, path, header->hosts);
    if (!link) {
        br_relay_send_control(relay, BR_RELAY_CLOSE, header->id, path, header->hosts, 0);
        return;
    }
    link->state = BR_RELAY_OPENED;
    event.link = &link->base;
    br_worker_event(relay->w, &event);
}

static bool is_on_path(const struct br_relay_link *link, uint32_t rank)
{
    for (int i = 1; i < link->hosts; i++)
        if (link->path[i] == rank)
            return true;
    return false;
}

static void relay_link_unreachable(struct br_relay *relay, struct br_relay_link *link,
                                   const struct br_message_relay *header)
{
    char text[80];

    if (header->number >= (uint32_t)relay->w->config.size) {
        br_relay_link_fail(relay, link, EHOSTUNREACH, "it is not known any more on its way");
        return;
    }
    br_relay_learn(relay, header->path[0], header->number);
    snprintf(text, sizeof text, "rank %u cannot reach rank %u", header->path[0], header->number);
    br_relay_link_fail(relay, link, EHOSTUNREACH, text);
}

void br_relay_deliver(struct br_relay *relay, const struct br_message_relay *header,
                      const struct br_event *event)
{
    struct br_relay_link *link = br_table_find(&relay->ends, header->id, 0);
    uint32_t kind = header->what & BR_RELAY_KIND;

    if (kind == BR_RELAY_REQUEST) {
        br_relay_connect_requested(relay, header->path[0]);
        return;
    }
    if (kind == BR_RELAY_OPEN) {
        relay_link_accepted(relay, header);
        return;
    }
    if (!link || link->state == BR_RELAY_FAILED)
        return; /* closed meanwhile */
    if (!is_on_path(link, header->path[0]) ||
        (kind != BR_RELAY_UNREACHABLE && header->path[0] != link->path[link->hosts - 1])) {
        relay->w->counters.dropped_messages++;
        return;
    }
    if (kind == BR_RELAY_FRAME)
        deliver_frame(relay, link, header, event);
    else if (kind == BR_RELAY_CLOSE)
        br_relay_link_fail(relay, link, ECONNRESET, "the other end has closed it");
    else
        relay_link_unreachable(relay, link, header);
}

static int relay_link_release(struct br_device *device, struct br_link *base, void *buffer)
{
    (void)device;
    br_pool_put(&((struct br_relay_link *)base)->buffers, buffer);
    return 0;
}

static int relay_link_poll_(struct br_device *device, uint64_t now, struct br_event *events,
                            int max)
{
    struct br_relay *relay = relay_of(device);
    struct br_list *node;
    int n = 0;

    (void)now;
    while (n < max && (node = br_list_pop_front(&relay->reporting))) {
        struct br_relay_link *link = br_container_of(node, struct br_relay_link, reporting);
        bool failed = link->state == BR_RELAY_FAILED;

        events[n++] = (struct br_event){.kind = failed ? BR_EVENT_CLOSED : BR_EVENT_CONNECTED,
                                        .error = failed ? -link->error : 0,
                                        .link = &link->base};
        if (!failed)
            link->state = BR_RELAY_OPENED;
    }
    return n;
}

int br_relay_poll(struct br_worker *w)
{
    struct br_event events[16];
    int n = w->relay->device.ops->poll(&w->relay->device, w->now, events, 16);

    w->in_batch = true;
    for (int i = 0; i < n && !w->failed; i++)
        br_worker_event(w, &events[i]);
    w->in_batch = false;
    br_links_close_deferred(w);
    br_relay_reclaim(w->relay);
    return n;
}

/* ---- the device ------------------------------------------------------------------------------ */

static const struct br_transport_ops relay_ops = {
    .name = "relay",
    .link_connect = link_connect,
    .link_close = link_close,
    .post = relay_link_post,
    .poll = relay_link_poll_,
    .release = relay_link_release,
};

/* An inner message of the eager size fits, and a granule of the largest slice, so that no frame is
 * cut off its grid. */
uint32_t br_relay_frame_bytes(const struct br_worker_config *config)
{
    uint32_t most = BR_RELAY_PAYLOAD,
             granule = br_slot_granule_bytes(br_slot_slice_bytes(1, config->slice_bytes));

    if (config->eager_bytes > most)
        most = config->eager_bytes;
    if (granule > most)
        most = granule;
    return most + BR_RELAY_INNER;
}

static int relay_link_create_pools(struct br_relay *relay, const struct br_bcube *cube)
{
    uint32_t rails = cube->k * (cube->n - 1);
    uint32_t frames = BR_RELAY_OWN + rails * (relay->hops * BR_RELAY_RESERVED + BR_RELAY_SHARED);

    if (br_pool_init(&relay->frames, sizeof(struct br_relay_frame) + relay->frame_bytes, frames) ||
        br_pool_init(&relay->transits, sizeof(struct br_relay_transit), BR_RELAY_TRANSITS) ||
        br_table_init(&relay->ends, BR_RELAY_LINKS) ||
        br_table_init(&relay->through, BR_RELAY_TRANSITS))
        return br_error(ENOMEM, "rank %d: no memory for relaying", relay->w->config.rank);
    return 0;
}

int br_relay_create(struct br_worker *w)
{
    const struct br_bcube *cube = &w->config.cube;
    struct br_relay *relay = calloc(1, sizeof *relay);

    if (!relay)
        return br_error(ENOMEM, "rank %d: no memory for relaying", w->config.rank);
    w->relay = relay;
    relay->w = w;
    relay->frame_bytes = br_relay_frame_bytes(&w->config);
    relay->hops = cube->k + 4 < BR_RELAY_HOPS ? cube->k + 4 : BR_RELAY_HOPS;
    relay->config = (struct br_device_config){
        .name = "relay",
        .level = (int)cube->k,
        .slots = &w->slots,
        .message_bytes = w->config.eager_bytes < BR_MAX_TEXT ? BR_MAX_TEXT : w->config.eager_bytes,
        .message_buffers = BR_MESSAGE_BUFFERS,
        .max_links = BR_RELAY_LINKS,
    };
    relay->device.ops = &relay_ops;
    relay->device.config = &relay->config;
    relay->device.caps = (struct br_caps){.max_frame = relay->frame_bytes - BR_RELAY_INNER,
                                          .max_message = relay->config.message_bytes};
    snprintf(relay->device.name, sizeof relay->device.name, "relay");
    br_list_init(&relay->links);
    br_list_init(&relay->reporting);
    br_list_init(&relay->transit_list);
    br_list_init(&relay->closed_frames);
    return relay_link_create_pools(relay, cube);
}

void br_relay_destroy(struct br_worker *w)
{
    struct br_relay *relay = w->relay;

    if (!relay)
        return;
    br_list_for_each_safe (node, &relay->links)
        relay_link_unmake(relay, br_container_of(node, struct br_relay_link, node));
    br_table_destroy(&relay->through);
    br_table_destroy(&relay->ends);
    br_pool_destroy(&relay->transits);
    br_pool_destroy(&relay->frames);
    free(relay);
    w->relay = NULL;
}
