/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames in: strictly in the order of the ring. A DATA frame may take several polls
 * (BR_SHM_POLL_BYTES); what stands behind it waits, which keeps a link's frames in order.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/copy.h"
#include "base/error.h"
#include "transport/shm/link.h"

static void shm_receive_return_ticket(struct br_shm_link *link, uint32_t ticket)
{
    br_inbox_return(&link->in, link->return_position++, ticket);
}

static void shm_receive_owe(struct br_shm_link *link, enum br_inbox_sleep whom)
{
    if (!link->wake_due || whom < link->wake_due)
        link->wake_due = whom;
}

/* A message has come. Too many are held to keep a ticket back (inbox.h, note 7). */
static void shm_receive_hold(struct br_shm_link *link, struct br_shm_message *message)
{
    message->held = true;
    if (++link->n_held >= link->in.message_buffers / 2 && link->kept) {
        shm_receive_return_ticket(link, link->kept - 1);
        shm_receive_owe(link, BR_STARVED);
        link->kept = 0;
    }
}

/* As many held messages may lie in buffers of our tickets: what the program does not receive must
 * not take from us what we send with (inbox.h, note 7). */
static uint32_t most_brought(const struct br_shm_link *link)
{
    return link->out.message_buffers / 16;
}

/* The message's payload in the buffer of our ticket, which the peer brings back, or, where too many
 * lie in such, in that of its own; NULL: forged. */
static const uint8_t *shm_receive_brought(struct br_shm_link *link, struct br_shm_message *message,
                                          uint32_t ticket, uint32_t length)
{
    if (ticket >= link->out.message_buffers || link->message_out[ticket] != BR_TICKET_OUT ||
        length > link->out.message_bytes)
        return NULL;
    if (link->n_brought >= most_brought(link)) {
        uint8_t *own = br_inbox_message(&link->in, (uint32_t)(message - link->messages), 0);

        br_copy(own, br_inbox_message(&link->out, ticket, link->turns[ticket]), length);
        link->base.device->counters.rx_copied_bytes += length;
        link->message_out[ticket] = BR_TICKET_WARM;
        link->free_messages[link->n_free_messages++] = (uint16_t)ticket;
        return own;
    }
    link->n_brought++;
    link->message_out[ticket] = BR_TICKET_BROUGHT;
    message->brings = (uint16_t)(ticket + 1);
    return br_inbox_message(&link->out, ticket, link->turns[ticket]);
}

/* A DATA frame begins to arrive. Apart, so that a message pays for none of its registers. */
__attribute__((noinline)) static void shm_receive_begin_data(struct br_shm_link *link,
                                                             const struct br_inbox_cell *cell,
                                                             uint32_t source, uint32_t length)
{
    link->arriving = (struct br_shm_arriving){.active = true,
                                              .unit = 1,
                                              .source = source,
                                              .length = length,
                                              .slot = cell->slot,
                                              .offset = cell->offset,
                                              .address = cell->address,
                                              .token_address = cell->token_address,
                                              .token = cell->token,
                                              .segment = cell->segment,
                                              .segment_id = cell->segment_id,
                                              .ticket = cell->ticket};
    memcpy(link->arriving.inline_, cell->inline_, BR_FRAME_INLINE);
    if (cell->measured)
        link->arriving.started = br_clock_now();
}

/* Takes a message, which the protocol holds from now on, and sets *event. false: malformed. */
static bool shm_receive_message(struct br_shm_link *link, const struct br_inbox_cell *cell,
                                uint32_t source, uint32_t length, struct br_event *event)
{
    uint32_t ticket = *(volatile const uint32_t *)&cell->offset;
    uint32_t slot = *(volatile const uint32_t *)&cell->slot;
    struct br_shm_message *message =
        ticket < link->in.message_buffers ? &link->messages[ticket] : NULL;
    const uint8_t *payload;

    if ((source != BR_SOURCE_NONE && source != BR_SOURCE_KEPT) || length > link->in.message_bytes ||
        !message || message->held || (source == BR_SOURCE_NONE && slot >= BR_INBOX_TURNS))
        return false;
    message->brings = 0;
    message->fills = length && source == BR_SOURCE_NONE;
    message->turn = (uint8_t)slot;
    payload = source == BR_SOURCE_NONE ? br_inbox_message(&link->in, ticket, slot)
                                       : shm_receive_brought(link, message, slot, length);
    if (!payload)
        return false;
    shm_receive_hold(link, message);
    memcpy(message->inline_, cell->inline_, BR_FRAME_INLINE);
    *event = (struct br_event){.kind = BR_EVENT_MESSAGE,
                               .link = &link->base,
                               .length = length,
                               .inline_ = message->inline_,
                               .payload = payload,
                               .buffer = message};
    return true;
}

/* Copies the next cell and checks what can be checked now. 1: *event is its message; 0:
 * link->arriving is set. */
static int take_cell(struct br_shm_link *link, struct br_event *event)
{
    const struct br_inbox_cell *cell = br_inbox_cell(&link->in, link->in_position++);
    uint32_t packed = *(volatile const uint32_t *)&cell->length; /* once: the peer may change it */
    uint32_t length = packed & ((1u << BR_CELL_LENGTH_BITS) - 1);
    uint32_t kind = packed >> BR_CELL_LENGTH_BITS & 7;
    uint32_t source = packed >> (BR_CELL_LENGTH_BITS + 3);

    if (kind == BR_FRAME_DATA && !link->base.authenticated)
        return br_error(EPROTO, "placed frame on a link that is not trusted yet");
    if (kind == BR_FRAME_DATA && source >= BR_SOURCE_SEGMENT && source <= BR_SOURCE_DIRECT &&
        length <= BR_FRAME_MAX_PAYLOAD) {
        shm_receive_begin_data(link, cell, source, length);
        return 0;
    }
    if (kind == BR_FRAME_MESSAGE && shm_receive_message(link, cell, source, length, event))
        return 1;
    return br_error(EPROTO, "malformed frame: kind %u, source %u, %u bytes", kind, source, length);
}

/* The peer has closed its end, or died. */
static int shm_receive_left(const struct br_shm_link *link)
{
    bool closed = atomic_load_explicit(&link->in.header->closed, memory_order_relaxed);

    return br_error(ECONNRESET,
                    closed ? "the peer closed the link" : "the peer's process has ended");
}

/* Returns the ticket of a DATA frame, and says what is to be said of it (BR_TOOK_*). */
static void shm_receive_done(struct br_shm_link *link, const struct br_shm_arriving *arriving,
                             uint32_t took)
{
    uint32_t index = arriving->ticket - link->in.message_buffers; /* the peer's word for it */

    /* mostly nothing is said, and the peer keeps the line in its cache */
    if (index < BR_INBOX_DATA &&
        atomic_load_explicit(&link->in.header->took[index], memory_order_relaxed) != took)
        atomic_store_explicit(&link->in.header->took[index], took, memory_order_relaxed);
    shm_receive_return_ticket(link, arriving->ticket);
    shm_receive_owe(link, BR_ASLEEP);
}

/* What the frame that has arrived took, ns. */
static uint32_t shm_receive_took(const struct br_shm_arriving *arriving)
{
    uint64_t took = arriving->started && !arriving->dropping ? br_clock_now() - arriving->started
                                                             : BR_TOOK_UNKNOWN;

    return took < BR_TOOK_REFUSED ? (uint32_t)took : BR_TOOK_REFUSED - 1;
}

/* Goes on with the frame that is arriving; 1: *event is due. */
static int shm_receive_go_on(struct br_shm_link *link, uint32_t *budget, struct br_event *event)
{
    struct br_shm_device *device = br_shm_device(&link->base);
    struct br_shm_arriving *arriving = &link->arriving;
    int rc;

    if (link->peer_left)
        return shm_receive_left(link);
    *event = (struct br_event){.kind = BR_EVENT_DATA,
                               .link = &link->base,
                               .slot = arriving->slot,
                               .offset = arriving->offset,
                               .length = arriving->length};
    rc = br_shm_receive_data(link, budget, event);
    if (rc == -EACCES) { /* the peer posts it again */
        arriving->active = false;
        shm_receive_done(link, arriving, BR_TOOK_REFUSED);
        return 0;
    }
    if (rc <= 0)
        return rc == 0 || !link->peer_left ? rc : shm_receive_left(link);
    if (!event->mapped) {                          /* for maps, release() asks */
        atomic_thread_fence(memory_order_acquire); /* the copy, then the flag: see link.c, note 3 */
        if (atomic_load_explicit(&link->in.header->closed, memory_order_relaxed))
            return shm_receive_left(link);
        shm_receive_done(link, arriving, shm_receive_took(arriving));
    }
    arriving->active = false;
    memcpy(device->inlines[device->n_data], arriving->inline_, BR_FRAME_INLINE);
    event->inline_ = device->inlines[device->n_data++];
    return 1;
}

int br_shm_receive_poll(struct br_shm_link *link, struct br_event *events, int max)
{
    struct br_device_counters *counters = &link->base.device->counters;
    uint32_t budget = BR_SHM_POLL_BYTES;
    int n = 0, rc = 0;

    if (!link->base.authenticated && max > 1)
        max = 1;
    while (n < max && budget) {
        if (!link->arriving.active) {
            if (!br_inbox_ready(&link->in, link->in_position)) {
                rc = link->peer_left ? shm_receive_left(link) : 0;
                break;
            }
            rc = take_cell(link, &events[n]);
        }
        if (link->arriving.active)
            rc = shm_receive_go_on(link, &budget, &events[n]);
        if (rc < 0 || (!rc && link->arriving.active))
            break;
        if (rc) {
            counters->rx_frames++;
            counters->rx_bytes += events[n].length;
            if (events[n].mapped)
                counters->rx_mapped_bytes += events[n].length;
            n++;
        }
        budget -= budget < sizeof(struct br_frame_header)
                      ? budget
                      : (uint32_t)sizeof(struct br_frame_header);
    }
    if (rc < 0)
        br_shm_link_fail(link, -rc, "%s", br_error_message());
    return n;
}

bool br_shm_receive_pending(const struct br_shm_link *link)
{
    if (link->arriving.active)
        return br_shm_receive_data_pending(link);
    return link->peer_left || br_inbox_ready(&link->in, link->in_position);
}

static void release_message(struct br_shm_link *link, struct br_shm_message *message)
{
    uint32_t ticket = (uint32_t)(message - link->messages), back = ticket + 1;

    message->held = false;
    link->n_held--;
    if (message->brings) {
        link->n_brought--;
        link->message_out[message->brings - 1] = BR_TICKET_WARM;
        link->free_messages[link->n_free_messages++] = (uint16_t)(message->brings - 1);
    } else if (message->fills && link->n_held < link->in.message_buffers / 2) {
        back = link->kept;
        link->kept = ticket + 1;
        link->kept_turn = message->turn;
    }
    if (!back)
        return;
    shm_receive_return_ticket(link, back - 1);
    shm_receive_owe(link, BR_STARVED);
}

/* Apart, so that a message pays for none of its registers. */
__attribute__((noinline)) static int release_map(struct br_shm_device *device,
                                                 struct br_shm_map *map)
{
    struct br_shm_link *link = map->link;
    int rc = -ECONNRESET;

    if (link) {
        atomic_thread_fence(memory_order_acquire);
        if (!atomic_load_explicit(&link->in.header->closed, memory_order_relaxed))
            rc = 0;
        link->n_maps--;
        shm_receive_return_ticket(link, map->ticket);
        shm_receive_owe(link, BR_ASLEEP);
    }
    br_list_remove(&map->node);
    br_shm_mapping_put(map->mapping);
    br_pool_put(&device->maps, map);
    return rc ? br_error(ECONNRESET, "%s: the peer closed the link while its memory was being read",
                         device->base.name)
              : 0;
}

int br_shm_release(struct br_device *device, struct br_link *link, void *buffer)
{
    if (!link)
        return release_map((struct br_shm_device *)device, buffer);
    release_message((struct br_shm_link *)link, buffer);
    return 0;
}
