/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* Something that has arrived, and waits for poll(). */
struct event {
    struct br_list node;
    enum br_event_kind kind;
    struct wire_link *link;
    struct br_message message;
    uint64_t cookie;
    uint32_t slot, offset, length;
    bool mapped;
    int error;
    char text[80];
    const uint8_t *bytes; /* mapped */
    uint8_t copy[];       /* else */
};

struct buffer {
    struct br_list node; /* the link's buffers */
    struct br_message message;
    uint8_t payload[];
};

void wire_check(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "the worker broke the contract: %s\n", what);
    abort();
}

static void *allocate(size_t bytes)
{
    void *memory = calloc(1, bytes);

    wire_check(memory != NULL, "no memory for the test");
    return memory;
}

static struct wire *wire_of(struct wire_link *link)
{
    return (struct wire *)link->link.device;
}

static struct event *add_event(struct wire_link *link, enum br_event_kind kind, const void *bytes,
                               uint32_t length)
{
    struct event *event = allocate(sizeof *event + length);

    event->kind = kind;
    event->link = link;
    event->length = length;
    if (bytes)
        memcpy(event->copy, bytes, length);
    br_list_init(&event->node);
    if (link->closed)
        free(event);
    else
        br_list_push_back(&wire_of(link)->events, &event->node);
    return link->closed ? NULL : event;
}

/* ---- the operations -------------------------------------------------------------------------- */

static int device_open(const struct br_device_config *config, struct br_device **out)
{
    struct wire *wire = config->simulation;

    wire->device.config = config;
    snprintf(wire->device.name, sizeof wire->device.name, "%s", config->name);
    br_list_init(&wire->links);
    br_list_init(&wire->events);
    wire->room = -1;
    *out = &wire->device;
    return 0;
}

static void drop_events(struct wire_link *link)
{
    br_list_for_each_safe (node, &wire_of(link)->events) {
        struct event *event = br_container_of(node, struct event, node);

        if (event->link == link) {
            br_list_remove(node);
            free(event);
        }
    }
}

static void link_close(struct br_link *base)
{
    struct wire_link *link = (struct wire_link *)base;
    struct wire *wire = wire_of(link);
    struct br_list *node;

    wire_check(!link->closed, "a link was closed twice");
    link->closed = true;
    drop_events(link);
    while ((node = br_list_pop_front(&link->buffers))) {
        free(br_container_of(node, struct buffer, node));
        wire->buffers--;
    }
}

static void device_close(struct br_device *device)
{
    struct wire *wire = (struct wire *)device;
    struct br_list *node;

    while ((node = br_list_pop_front(&wire->links))) {
        struct wire_link *link = br_container_of(node, struct wire_link, node);

        if (!link->closed)
            link_close(&link->link);
        free(link);
    }
    wire_forget(wire);
}

static struct wire_link *add_link(struct wire *wire)
{
    struct wire_link *link = allocate(sizeof *link);

    link->link.device = &wire->device;
    snprintf(link->link.peer_name, sizeof link->link.peer_name, "the test");
    br_list_init(&link->buffers);
    br_list_init(&link->node);
    br_list_push_back(&wire->links, &link->node);
    return link;
}

static int link_connect(struct br_device *device, const struct br_address *address,
                        struct br_link **out)
{
    struct wire_link *link = add_link((struct wire *)device);

    (void)address;
    add_event(link, BR_EVENT_CONNECTED, NULL, 0);
    *out = &link->link;
    return 0;
}

static int post_one(struct wire *wire, struct wire_link *link, const struct br_frame *frame)
{
    struct wire_frame *mine = &wire->frames[wire->n_frames];

    if (wire->n_frames == WIRE_FRAMES || wire->room == 0)
        return 0;
    if (wire->room > 0)
        wire->room--;
    wire_check(frame->kind == BR_FRAME_MESSAGE || frame->kind == BR_FRAME_DATA,
               "a frame of no kind");
    wire_check(frame->length <= (frame->kind == BR_FRAME_MESSAGE ? wire->device.caps.max_message
                                                                 : wire->device.caps.max_frame),
               "a frame is too long");
    wire_check(frame->kind == BR_FRAME_MESSAGE || (frame->length && link->link.authenticated),
               "a placed frame without bytes or trust");
    wire_check((frame->rkey != NULL) ==
                   (frame->kind == BR_FRAME_DATA && wire->device.caps.needs_rkey),
               "a frame without a remote key, or with one too many");
    *mine = (struct wire_frame){.link = link,
                                .frame = *frame,
                                .payload = allocate(frame->length + 1),
                                .alone = link->link.alone,
                                .streamed = link->link.streamed};
    if (frame->inline_)
        memcpy(&mine->message, frame->inline_, sizeof mine->message);
    if (frame->rkey)
        memcpy(&mine->rkey, frame->rkey, sizeof mine->rkey);
    if (frame->length)
        memcpy(mine->payload, frame->payload, frame->length);
    wire->n_frames++;
    return 1;
}

static int post(struct br_link *base, const struct br_frame *frames, int n)
{
    struct wire_link *link = (struct wire_link *)base;
    int taken = 0;

    wire_check(!link->closed, "a frame was posted on a closed link");
    while (taken < n && post_one(wire_of(link), link, &frames[taken]))
        taken++;
    return taken;
}

static void fill_message(struct event *from, struct br_event *to)
{
    struct buffer *buffer = allocate(sizeof *buffer + from->length);

    buffer->message = from->message;
    memcpy(buffer->payload, from->copy, from->length);
    br_list_init(&buffer->node);
    br_list_push_back(&from->link->buffers, &buffer->node);
    wire_of(from->link)->buffers++;
    to->buffer = buffer;
    to->inline_ = (const uint8_t *)&buffer->message;
    to->payload = from->length ? buffer->payload : NULL;
}

/* What a back end does with a frame that is placed. false: its link fails. */
static bool fill_data(struct event *from, struct br_event *to)
{
    struct wire *wire = wire_of(from->link);
    struct br_slot *slot;
    int rc =
        br_slot_expect(wire->device.config->slots, from->slot, from->offset, from->length, &slot);

    to->slot = from->slot;
    to->offset = from->offset;
    to->inline_ = (const uint8_t *)&from->message;
    if (rc == -EPROTO)
        return false;
    to->stale = rc == -ESTALE;
    if (rc == 0 && from->mapped) {
        to->mapped = from->bytes;
        wire->maps++;
    } else if (rc == 0) {
        memcpy(slot->base + from->offset, from->copy, from->length);
    }
    return true;
}

static void report(struct event *from, struct br_event *to, struct br_message *inline_)
{
    *to = (struct br_event){.kind = from->kind,
                            .error = from->error,
                            .link = &from->link->link,
                            .cookie = from->cookie,
                            .length = from->length};
    *inline_ = from->message;
    if (from->kind == BR_EVENT_MESSAGE)
        fill_message(from, to);
    if (from->kind == BR_EVENT_DATA && !fill_data(from, to)) {
        to->kind = BR_EVENT_CLOSED;
        to->error = -EPROTO;
    }
    if (to->kind == BR_EVENT_DATA)
        to->inline_ = (const uint8_t *)inline_;
    if (to->kind == BR_EVENT_CLOSED) {
        snprintf(to->link->message, sizeof to->link->message, "%s",
                 from->text[0] ? from->text : "a frame off the grid");
        drop_events(from->link);
    }
}

static int poll(struct br_device *device, uint64_t now, struct br_event *events, int max)
{
    struct wire *wire = (struct wire *)device;
    bool trusted = true;
    int n = 0;

    (void)now;
    br_list_for_each (node, &wire->links)
        br_container_of(node, struct wire_link, node)->link.facts.min_rtt = wire->min_rtt;
    while (n < max && n < WIRE_BATCH && trusted && !br_list_empty(&wire->events)) {
        struct event *event = br_container_of(br_list_pop_front(&wire->events), struct event, node);

        trusted = event->link->link.authenticated;
        report(event, &events[n], &wire->inline_[n]);
        free(event);
        n++;
    }
    return n;
}

static void release_message(struct wire_link *link, void *handle)
{
    struct buffer *buffer = NULL;

    br_list_for_each (node, &link->buffers)
        if (handle == br_container_of(node, struct buffer, node))
            buffer = handle;
    wire_check(buffer != NULL, "a buffer was given back that nobody holds");
    if (!buffer)
        return;
    br_list_remove(&buffer->node);
    free(buffer);
    wire_of(link)->buffers--;
}

static int release(struct br_device *device, struct br_link *link, void *buffer)
{
    struct wire *wire = (struct wire *)device;

    if (link) {
        wire_check(link->device == device, "a buffer was given back to another device");
        release_message((struct wire_link *)link, buffer);
        return 0;
    }
    wire_check(wire->maps > 0, "a mapping was given back twice");
    wire->maps--;
    return wire->lost_maps ? -ECONNRESET : 0;
}

static int rkey_make(struct br_device *device, struct br_slot *slot, uint8_t out[BR_RKEY_BYTES])
{
    struct wire *wire = (struct wire *)device;
    struct wire_rkey key = {(uint32_t)device->index, br_slot_number(device->config->slots, slot),
                            (uint32_t)wire->made + 1, 0};

    wire_check(device->caps.needs_rkey && slot->used && slot->base, "a key for nothing");
    if (wire->refuses)
        return br_error(ENOMEM, "%s: nothing can be pinned", device->name);
    wire->keys++;
    wire->made++;
    memcpy(out, &key, sizeof key);
    return 0;
}

static void rkey_end(struct br_device *device, struct br_slot *slot)
{
    struct wire *wire = (struct wire *)device;
    struct wire_rkey key;

    memcpy(&key, slot->rkeys[device->index], sizeof key);
    wire_check(wire->keys > 0 && key.slot == br_slot_number(device->config->slots, slot),
               "a key was given back twice, or late");
    wire->keys--;
}

static int rkey(struct br_device *device, struct br_slot *slot, uint8_t token[BR_RKEY_BYTES])
{
    if (token)
        return rkey_make(device, slot, token);
    rkey_end(device, slot);
    return 0;
}

const struct br_transport_ops wire_ops = {
    .name = "wire",
    .device_open = device_open,
    .device_close = device_close,
    .link_connect = link_connect,
    .link_close = link_close,
    .post = post,
    .poll = poll,
    .release = release,
    .rkey = rkey,
};

/* ---- what the test does ---------------------------------------------------------------------- */

struct wire_link *wire_accept(struct wire *wire)
{
    struct wire_link *link = add_link(wire);

    add_event(link, BR_EVENT_ACCEPTED, NULL, 0);
    return link;
}

void wire_message(struct wire_link *link, const struct br_message *message, const void *payload,
                  uint32_t length)
{
    struct event *event = add_event(link, BR_EVENT_MESSAGE, payload, length);

    if (event)
        event->message = *message;
}

void wire_handshake(struct wire_link *link, const void *bytes, size_t length)
{
    struct br_message message = {.type = BR_MESSAGE_HANDSHAKE};

    wire_message(link, &message, bytes, (uint32_t)length);
}

static void place(struct wire_link *link, uint32_t slot, uint32_t offset, struct event *event,
                  uint8_t flags)
{
    struct br_data_header placed = {.flags = flags};

    (void)link;
    if (!event)
        return;
    event->slot = slot;
    event->offset = offset;
    memcpy(&event->message, &placed, sizeof placed);
}

void wire_placed(struct wire_link *link, uint32_t slot, uint32_t offset, const void *bytes,
                 uint32_t length, uint8_t flags)
{
    place(link, slot, offset, add_event(link, BR_EVENT_DATA, bytes, length), flags);
}

void wire_mapped(struct wire_link *link, uint32_t slot, uint32_t offset, const void *bytes,
                 uint32_t length, uint8_t flags)
{
    struct event *event = add_event(link, BR_EVENT_DATA, NULL, length);

    place(link, slot, offset, event, flags);
    if (event) {
        event->mapped = true;
        event->bytes = bytes;
    }
}

void wire_sent(struct wire_frame *frame)
{
    struct event *event =
        frame->sent || !frame->frame.cookie ? NULL : add_event(frame->link, BR_EVENT_SENT, NULL, 0);

    frame->sent = true;
    if (event)
        event->cookie = frame->frame.cookie;
}

void wire_sent_all(struct wire *wire)
{
    for (int i = 0; i < wire->n_frames; i++)
        wire_sent(&wire->frames[i]);
}

void wire_fail(struct wire_link *link, int error, const char *text)
{
    struct event *event = add_event(link, BR_EVENT_CLOSED, NULL, 0);

    if (!event)
        return;
    event->error = -error;
    snprintf(event->text, sizeof event->text, "%s", text);
}

static struct wire_frame *take(struct wire_link *link, enum br_frame_kind kind, int type)
{
    struct wire *wire = wire_of(link);

    for (int i = 0; i < wire->n_frames; i++) {
        struct wire_frame *frame = &wire->frames[i];

        if (frame->link == link && !frame->taken && frame->frame.kind == kind &&
            (kind == BR_FRAME_DATA || frame->message.type == type)) {
            frame->taken = true;
            return frame;
        }
    }
    return NULL;
}

struct wire_frame *wire_take(struct wire_link *link, enum br_message_type type)
{
    return take(link, BR_FRAME_MESSAGE, (int)type);
}

struct wire_frame *wire_take_placed(struct wire_link *link)
{
    return take(link, BR_FRAME_DATA, 0);
}

void wire_forget(struct wire *wire)
{
    for (int i = 0; i < wire->n_frames; i++)
        free(wire->frames[i].payload);
    wire->n_frames = 0;
}
