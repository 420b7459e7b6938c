/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What happens to a frame that has arrived: checked as a real one, put in order if the link is
 * ordered, and placed. A message without a free buffer waits at the receiver (an RC NIC answers
 * "receiver not ready", which costs the sender no try); on an ordered link everything behind it
 * waits too.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "transport/sim/internal.h"

static struct br_sim_device *sim_receive_device_of(const struct br_sim_link *link)
{
    return br_container_of(link->base.device, struct br_sim_device, base);
}

/* Our link ends because of what the peer sent. */
static void sim_receive_reject(struct br_sim_link *link, struct br_sim_frame *frame, int rc)
{
    link->base.device->counters.bad_frames++;
    br_sim_link_fail(link, -rc, "%s", br_error_message());
    frame->delivered = false;
    br_sim_frame_answer(frame, BR_SIM_REFUSED);
}

static bool keeps_order(const struct br_sim_link *link, const struct br_sim_frame *frame)
{
    return !sim_receive_device_of(link)->sim->config.unordered ||
           frame->header.kind == BR_FRAME_MESSAGE;
}

static bool may_take(const struct br_sim_link *link, const struct br_sim_frame *frame)
{
    if (keeps_order(link, frame) && frame->order != link->rx_order)
        return false;
    return frame->header.kind != BR_FRAME_MESSAGE ||
           link->n_held < link->base.device->config->message_buffers;
}

static struct br_sim_note *sim_receive_note(struct br_sim_link *link,
                                            const struct br_sim_frame *frame,
                                            enum br_event_kind kind)
{
    struct br_sim_note *out = br_sim_link_note(link, kind);

    if (!out)
        return NULL;
    memcpy(out->inline_, frame->header.inline_, BR_FRAME_INLINE);
    out->event.inline_ = out->inline_;
    out->event.length = frame->header.length;
    out->event.slot = frame->header.slot;
    out->event.offset = frame->header.offset;
    return out;
}

static void sim_receive_take_message(struct br_sim_link *link, struct br_sim_frame *frame)
{
    const struct br_device_config *config = link->base.device->config;
    struct br_list *node = br_list_pop_front(&sim_receive_device_of(link)->free_buffers);
    struct br_sim_buffer *buffer = node ? br_container_of(node, struct br_sim_buffer, node)
                                        : malloc(sizeof *buffer + config->message_bytes);
    struct br_sim_note *out;

    if (!buffer) {
        br_sim_link_fail(link, ENOMEM, "no memory for a message");
        return;
    }
    br_list_push_back(&link->held_buffers, &buffer->node);
    link->n_held++;
    out = sim_receive_note(link, frame, BR_EVENT_MESSAGE);
    if (!out)
        return;
    memcpy(buffer->inline_, frame->header.inline_, BR_FRAME_INLINE);
    if (frame->header.length)
        memcpy(buffer->payload, frame->payload, frame->header.length);
    out->event.inline_ = buffer->inline_;
    out->event.payload = buffer->payload;
    out->event.buffer = buffer;
    br_sim_frame_answer(frame, BR_SIM_OK);
}

/* The view that earlier frames of the slot have made, or a new one. NULL: no memory. */
static struct br_sim_view *view_of(const struct br_sim_link *link, const struct br_sim_frame *frame,
                                   const struct br_slot *slot)
{
    struct br_sim_view *view;

    br_list_for_each (node, &sim_receive_device_of(link)->maps) {
        view = br_container_of(node, struct br_sim_map, node)->view;
        if (view->link == link && view->slot == frame->header.slot) {
            view->references++;
            return view;
        }
    }
    view = malloc(sizeof *view + slot->length);
    if (view)
        *view = (struct br_sim_view){.link = link, .slot = frame->header.slot, .references = 1};
    return view;
}

static void view_drop(struct br_sim_view *view)
{
    if (!--view->references)
        free(view);
}

/* The mapping is a copy, so that it outlives the sender's link; release() checks that the
 * sender kept its bytes. */
static void take_mapped(struct br_sim_link *link, struct br_sim_frame *frame,
                        const struct br_slot *slot)
{
    struct br_sim_device *device = sim_receive_device_of(link);
    struct br_sim_map *map = malloc(sizeof *map);
    struct br_sim_view *view = map ? view_of(link, frame, slot) : NULL;
    struct br_sim_note *out = view ? sim_receive_note(link, frame, BR_EVENT_DATA) : NULL;

    if (!out) {
        if (view)
            view_drop(view);
        free(map);
        br_sim_link_fail(link, ENOMEM, "no memory for a mapping");
        return;
    }
    memcpy(view->bytes + frame->header.offset, frame->payload, frame->header.length);
    *map = (struct br_sim_map){.frame = frame, .view = view};
    frame->references++;
    frame->mapped = true;
    br_list_push_back(&device->maps, &map->node);
    device->base.counters.rx_mapped_bytes += frame->header.length;
    out->event.mapped = view->bytes + frame->header.offset;
    out->event.buffer = map;
}

static void receive_data(struct br_sim_link *link, struct br_sim_frame *frame)
{
    struct br_device *device = link->base.device;
    const struct br_frame_header *header = &frame->header;
    struct br_slot *slot;
    int rc = device->caps.needs_rkey ? br_sim_rkey_check(link, frame) : 0;

    if (!rc)
        rc = br_slot_expect(device->config->slots, header->slot, header->offset, header->length,
                            &slot);
    if (rc == -ESTALE) {
        struct br_sim_note *out = sim_receive_note(link, frame, BR_EVENT_DATA);

        br_sim_trace(sim_receive_device_of(link)->sim, "stale", frame);
        if (out)
            out->event.stale = true;
        br_sim_frame_answer(frame, BR_SIM_OK);
    } else if (rc) {
        sim_receive_reject(link, frame, rc);
    } else if (device->caps.maps && slot->may_map) {
        take_mapped(link, frame, slot);
    } else if (!slot->base) {
        sim_receive_reject(link, frame,
                           br_error(EPROTO, "bytes for a transfer that takes only mappings"));
    } else {
        if (slot->reducer && device->caps.reduces) {
            br_slot_reduce(slot, header->offset, frame->payload, header->length);
            device->counters.rx_reduced_bytes += header->length;
        } else if (!sim_receive_device_of(link)->sim->config.hollow)
            memcpy(slot->base + header->offset, frame->payload, header->length);
        sim_receive_note(link, frame, BR_EVENT_DATA);
        br_sim_frame_answer(frame, BR_SIM_OK);
    }
}

static void sim_receive_take(struct br_sim_link *link, struct br_sim_frame *frame)
{
    struct br_device *device = link->base.device;
    struct br_sim *sim = sim_receive_device_of(link)->sim;
    int rc = br_frame_check(&frame->header, device->config->message_bytes, device->caps.max_frame);

    frame->delivered = true;
    if (keeps_order(link, frame))
        link->rx_order++;
    if (rc) {
        sim_receive_reject(link, frame, rc);
        return;
    }
    device->counters.rx_frames++;
    device->counters.rx_bytes += frame->header.length;
    br_sim_trace(sim, "deliver", frame);
    br_sim_trace_bytes(sim, &frame->header, sizeof frame->header);
    if (!sim->config.hollow || frame->header.kind == BR_FRAME_MESSAGE)
        br_sim_trace_bytes(sim, frame->payload, frame->header.length);
    if (frame->header.kind == BR_FRAME_MESSAGE)
        sim_receive_take_message(link, frame);
    else
        receive_data(link, frame);
}

/* Delivers what had to wait and need not any more. */
static void sim_receive_drain(struct br_sim_link *link)
{
    br_list_for_each_safe (node, &link->waiting) {
        struct br_sim_frame *frame = br_container_of(node, struct br_sim_frame, waiting_node);

        if (link->state == BR_SIM_FAILED || !may_take(link, frame))
            return;
        br_list_remove(node);
        frame->waits = false;
        sim_receive_take(link, frame);
        br_sim_frame_drop(frame);
    }
}

void br_sim_receive(struct br_sim_link *link, struct br_sim_frame *frame)
{
    struct br_list *place = link->waiting.prev;

    if (link->end == 0) /* the peer has accepted, although its answer has not come yet */
        br_sim_link_open(link, BR_EVENT_CONNECTED);
    if (may_take(link, frame)) {
        sim_receive_take(link, frame);
        sim_receive_drain(link);
        return;
    }
    while (place != &link->waiting &&
           br_container_of(place, struct br_sim_frame, waiting_node)->sequence > frame->sequence)
        place = place->prev;
    br_list_insert_before(place->next, &frame->waiting_node);
    frame->waits = true;
    frame->references++;
}

static void release_message(struct br_sim_link *link, struct br_sim_buffer *buffer)
{
    br_list_remove(&buffer->node);
    br_list_push_front(&sim_receive_device_of(link)->free_buffers, &buffer->node);
    link->n_held--;
    sim_receive_drain(link);
}

static int release_map(struct br_device *base, struct br_sim_map *map)
{
    struct br_sim *sim = br_container_of(base, struct br_sim_device, base)->sim;
    struct br_sim_frame *frame = map->frame;
    bool sender_closed = !frame->connection->link[frame->from];

    /* Once the sender has closed its link, its memory is its own again. */
    if (!sender_closed &&
        memcmp(map->view->bytes + frame->header.offset, frame->payload, frame->header.length) != 0)
        sim->counters.payload_changed++;
    frame->mapped = false;
    br_sim_frame_answer(frame, BR_SIM_OK);
    br_list_remove(&map->node);
    view_drop(map->view);
    free(map);
    br_sim_frame_drop(frame);
    return sender_closed ? br_error(ECONNRESET,
                                    "%s: the peer closed the link while its memory was being read",
                                    base->name)
                         : 0;
}

int br_sim_release(struct br_device *device, struct br_link *link, void *buffer)
{
    if (!link)
        return release_map(device, buffer);
    release_message(br_container_of(link, struct br_sim_link, base), buffer);
    return 0;
}
