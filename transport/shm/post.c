/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames out.
 *
 * 1. A frame takes a ticket, fills the next cell, and is on its way; nothing else bounds a burst.
 *    Tickets of messages come back lazily: while half of them are free, the returns are not even
 *    looked at, so that a ping-pong touches one cache line each way.
 * 2. Payload of a message is copied here into the peer's message area, or into a buffer of ours
 *    that the peer has read last (inbox.h, note 7), so its SENT is due at once.
 * 3. Payload of a DATA frame in a segment is only described. Other payload goes through the pipe,
 *    as much as fits at once and the rest when the peer has made room, and is counted as copied. Or
 *    the peer reads it from where it lies: which of the two, ways.c knows. What the kernel does not
 *    let the peer read comes back and goes through the pipe, as all that follows.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/copy.h"
#include "base/downgrade.h"
#include "base/error.h"
#include "base/log.h"
#include "base/prefetch.h"
#include "transport/shm/link.h"

/* Messages ahead of which the line of a cell is fetched (inbox.h, note 6). */
#define SOON 3u

/* A larger payload goes into the next one of its ticket's buffers (inbox.h, note 8): of smaller
 * ones the lines cost little. */
#define TURN_ABOVE 1024u
/* So much of the buffers of a ticket is used: that of 36 tickets and more is larger than a
 * second-level cache. */
#define TURN_BYTES (64u << 10)
/* Such payloads for each ticket until its next buffer comes into use, whose pages the kernel makes
 * as they are written. */
#define TURN_GROWS 8u
/* Of so many payloads in a stream one is asked for how it should be written. */
#define STREAM_ASKS 16u
/* DATA frames of fewer bytes go through the pipe. */
#define PIPE_ONLY (16u << 10)

int br_shm_send_init(struct br_shm_link *link)
{
    uint32_t n = link->out.message_buffers, ring = 64;

    while (ring < n)
        ring *= 2;
    br_pipe_init(&link->pipe, &link->in, &link->out);
    link->free_messages = calloc(n, sizeof *link->free_messages);
    link->message_out = calloc(n, sizeof *link->message_out);
    link->turns = calloc(n, sizeof *link->turns);
    link->reached = calloc((size_t)n * BR_INBOX_TURNS, sizeof *link->reached);
    link->sent = calloc(ring, sizeof *link->sent);
    if (!link->free_messages || !link->message_out || !link->turns || !link->reached || !link->sent)
        return br_error(ENOMEM, "no memory for a link");
    link->sent_mask = ring - 1;
    /* Stacks: the buffer used last is warm. */
    for (uint32_t i = 0; i < n; i++)
        link->free_messages[i] = (uint16_t)(n - 1 - i);
    link->n_free_messages = n;
    link->n_turns = 1;
    link->message_ways.closed[BR_WAY_DIRECT] = true;
    for (uint32_t i = 0; i < BR_INBOX_DATA; i++)
        link->free_data[i] = (uint16_t)(n + BR_INBOX_DATA - 1 - i);
    link->n_free_data = BR_INBOX_DATA;
    return 0;
}

static inline void shm_post_fill(struct br_inbox_cell *cell, const struct br_frame *frame,
                                 enum br_inbox_source source)
{
    cell->length = frame->length | (uint32_t)frame->kind << BR_CELL_LENGTH_BITS |
                   (uint32_t)source << (BR_CELL_LENGTH_BITS + 3);
    if (frame->inline_)
        memcpy(cell->inline_, frame->inline_, BR_FRAME_INLINE);
    else
        memset(cell->inline_, 0, BR_FRAME_INLINE);
}

/* Of those that are free the one whose buffer this core has read last is left for a payload. */
static uint16_t shm_post_take_ticket(struct br_shm_link *link, bool payload)
{
    uint16_t *top = &link->free_messages[--link->n_free_messages], ticket = *top;

    if (payload || !link->n_free_messages || link->message_out[ticket] != BR_TICKET_WARM)
        return ticket;
    ticket = top[-1];
    top[-1] = *top;
    return ticket;
}

/* Has nothing come since the last message? Else the peer mostly waits for this one. */
static inline bool shm_post_streams(const struct br_shm_link *link)
{
    return link->in_position == link->in_before;
}

/* In which buffer of its ticket a payload goes. The links that there are when one grows share what
 * one of two ranks has alone; a link keeps what it has got. */
static uint32_t shm_post_turn(struct br_shm_link *link, uint32_t ticket, uint32_t length)
{
    uint8_t *turn = &link->turns[ticket];

    if (length <= TURN_ABOVE)
        return *turn = 0;
    if (!shm_post_streams(link) || link->message_out[ticket] == BR_TICKET_WARM)
        return *turn;
    if (++link->turned >= TURN_GROWS * link->out.message_buffers &&
        (link->n_turns + 1) * br_shm_device(&link->base)->n_links <= BR_INBOX_TURNS) {
        link->n_turns++;
        link->turned = 0;
    }
    *turn = *turn + 1u < link->n_turns && (*turn + 2u) * length <= TURN_BYTES ? *turn + 1 : 0;
    return *turn;
}

/* Copies a payload in a stream, by way of the caches or past them, whichever costs less (ways.h).
 * Past them counts twice, as the reader then fetches from memory what this end has written there.
 * What goes into new pages says nothing, as the kernel makes them meanwhile. */
static void shm_post_stream(struct br_shm_link *link, uint32_t ticket, uint32_t turn,
                            const struct br_frame *frame)
{
    uint32_t *reached = &link->reached[ticket * BR_INBOX_TURNS + turn];
    uint8_t *to = br_inbox_message(&link->out, ticket, turn);
    struct br_ways_frame way = {0};
    bool fresh = frame->length > *reached, asks = !fresh && link->streamed++ % STREAM_ASKS == 0;
    uint64_t now = 0;

    if (asks) {
        way = br_ways_post(&link->message_ways, frame->length);
        way.posted = way.measured ? br_clock_now() : 0;
        link->past = way.way == BR_WAY_PIPE_PAST;
    }
    (link->past ? br_copy_uncached : br_copy)(to, frame->payload, frame->length);
    if (fresh)
        *reached = frame->length;
    if (!asks)
        return;
    if (way.measured) {
        way.worked = (br_clock_now() - way.posted) * (link->past ? 2 : 1);
        now = way.posted + way.worked;
    }
    br_ways_returned(&link->message_ways, &way, way.measured ? frame->length : 0, now);
}

/* Copies the payload of a message that has its ticket. Returns where to. Apart, so that one without
 * pays for none of its registers. */
__attribute__((noinline)) static enum br_inbox_source shm_post_payload(struct br_shm_link *link,
                                                                       const struct br_frame *frame,
                                                                       struct br_inbox_cell *cell,
                                                                       uint32_t ticket)
{
    uint32_t kept = link->kept;

    if (!kept || frame->length > link->in.message_bytes) {
        uint32_t turn = shm_post_turn(link, ticket, frame->length);

        if (frame->length > TURN_ABOVE && shm_post_streams(link))
            shm_post_stream(link, ticket, turn, frame);
        else
            br_copy(br_inbox_message(&link->out, ticket, turn), frame->payload, frame->length);
        cell->slot = turn;
        return BR_SOURCE_NONE;
    }
    link->kept = 0;
    cell->slot = kept - 1;
    br_copy(br_inbox_message(&link->in, kept - 1, link->kept_turn), frame->payload, frame->length);
    return BR_SOURCE_KEPT;
}

static bool shm_post_post_message(struct br_shm_link *link, const struct br_frame *frame)
{
    struct br_inbox_cell *cell = br_inbox_cell(&link->out, link->out_position);
    enum br_inbox_source source = BR_SOURCE_NONE;
    uint16_t ticket;

    if (!link->n_free_messages || link->sent_tail - link->sent_head > link->sent_mask)
        return false;
    ticket = shm_post_take_ticket(link, frame->length);
    cell->offset = ticket;
    if (!frame->length) {
        cell->slot = 0;
    } else {
        source = shm_post_payload(link, frame, cell, ticket);
        link->base.device->counters.tx_copied_bytes += frame->length;
    }
    link->message_out[ticket] = BR_TICKET_OUT;
    shm_post_fill(cell, frame, source);
    if (frame->cookie)
        link->sent[link->sent_tail++ & link->sent_mask] = frame->cookie;
    br_inbox_publish(cell, link->out_position++);
    if (shm_post_streams(link))
        br_prefetch_to_write(br_inbox_cell(&link->out, link->out_position + SOON));
    link->in_before = link->in_position;
    return true;
}

/* Where the peer will find the payload (enum br_inbox_source), and in *way what is to be known of
 * that later; -EAGAIN: post it later. */
static int choose_source(struct br_shm_link *link, const struct br_frame *frame,
                         struct br_inbox_cell *cell, struct br_ways_frame *way)
{
    int number = frame->region ? br_shm_announce(link, frame->region) : -ENOENT;

    if (number >= 0) {
        cell->address =
            (uint64_t)((const uint8_t *)frame->payload - (const uint8_t *)frame->region->base);
        cell->segment_id = frame->region->id;
        cell->segment = (uint16_t)number;
        return BR_SOURCE_SEGMENT;
    }
    if (number == -EAGAIN)
        return -EAGAIN;
    if (frame->length < PIPE_ONLY)
        return BR_SOURCE_PIPE;
    *way = br_ways_post(&link->ways, frame->length);
    if (way->measured)
        way->posted = br_clock_now();
    if (way->way != BR_WAY_DIRECT)
        return BR_SOURCE_PIPE;
    cell->address = (uintptr_t)frame->payload;
    cell->token_address = (uintptr_t)&br_shm_device(&link->base)->token;
    cell->token = br_shm_device(&link->base)->token;
    return BR_SOURCE_DIRECT;
}

/* Fills in the rest of the cell of a DATA frame that has its ticket, and publishes it. */
static void shm_post_publish(struct br_shm_link *link, const struct br_frame *frame,
                             enum br_inbox_source source, uint16_t ticket, bool measured)
{
    struct br_inbox_cell *cell = br_inbox_cell(&link->out, link->out_position);

    if (source == BR_SOURCE_PIPE)
        link->piping[link->piping_tail++ % BR_INBOX_DATA] = ticket;
    shm_post_fill(cell, frame, source);
    cell->slot = frame->slot;
    cell->offset = frame->offset;
    cell->ticket = ticket;
    cell->measured = measured;
    br_inbox_publish(cell, link->out_position++);
}

/* Apart, so that a message pays for none of its registers. */
__attribute__((noinline)) static bool shm_post_data(struct br_shm_link *link,
                                                    const struct br_frame *frame)
{
    struct br_inbox_cell *cell = br_inbox_cell(&link->out, link->out_position);
    struct br_ways_frame way = {0};
    struct br_shm_posted *posted;
    uint16_t ticket;
    int source;

    source = link->n_free_data ? choose_source(link, frame, cell, &way) : -EAGAIN;
    if (source < 0)
        return false;
    ticket = link->free_data[--link->n_free_data];
    posted = &link->posted[ticket - link->out.message_buffers];
    *posted = (struct br_shm_posted){.cookie = frame->cookie,
                                     .payload = frame->payload,
                                     .length = frame->length,
                                     .used = true,
                                     .piping = source == BR_SOURCE_PIPE,
                                     .way = way,
                                     .slot = frame->slot,
                                     .offset = frame->offset};
    if (source == BR_SOURCE_DIRECT && frame->inline_)
        memcpy(posted->inline_, frame->inline_, BR_FRAME_INLINE);
    shm_post_publish(link, frame, (enum br_inbox_source)source, ticket, way.measured);
    return true;
}

/* Not more than an inbox holds at a time: a peer that reads as fast would keep us here. Apart, as
 * above. */
__attribute__((noinline)) static void pipe_out(struct br_shm_link *link)
{
    uint32_t moved = 0;

    while (link->piping_head != link->piping_tail && moved < BR_PIPE_BUFFERS &&
           br_pipe_has_room(&link->pipe)) {
        uint32_t ticket = link->piping[link->piping_head % BR_INBOX_DATA];
        struct br_shm_posted *posted = &link->posted[ticket - link->out.message_buffers];
        uint32_t left = posted->length - link->piping_done;
        uint32_t n = left < BR_PIPE_BUFFER ? left : BR_PIPE_BUFFER;
        uint64_t began = posted->way.measured ? br_clock_now() : 0;
        int number = br_pipe_take(&link->pipe, posted->way.measured, &posted->fresh);

        if (number < 0)
            break;
        (posted->way.way == BR_WAY_PIPE_PAST ? br_copy_uncached : br_copy)(
            br_pipe_buffer(&link->pipe, (uint32_t)number), posted->payload + link->piping_done, n);
        posted->way.worked += began ? br_clock_now() - began : 0;
        br_pipe_hand_over(&link->pipe, (uint32_t)number);
        link->base.device->counters.tx_copied_bytes += n;
        link->piping_done += n;
        moved++;
        if (n == left) {
            posted->piping = false;
            link->piping_head++;
            link->piping_done = 0;
        }
    }
    if (moved)
        link->wake_due = BR_ASLEEP;
}

static int shm_post_check_frame(const struct br_shm_link *link, const struct br_frame *frame)
{
    uint32_t limit =
        frame->kind == BR_FRAME_MESSAGE ? link->out.message_bytes : BR_FRAME_MAX_PAYLOAD;

    if (frame->length <= limit)
        return 0;
    return br_error(EMSGSIZE, "%s to %s: frame of %u bytes, over the limit of %u",
                    link->base.device->name, link->base.peer_name, frame->length, limit);
}

int br_shm_post(struct br_link *base, const struct br_frame *frames, int n)
{
    struct br_shm_link *link = (struct br_shm_link *)base;
    int i, rc;

    if (link->state != BR_SHM_OPEN || link->peer_left)
        return br_error(ENOTCONN, "%s to %s: the link is not open", link->base.device->name,
                        link->base.peer_name);
    for (i = 0; i < n; i++) {
        const struct br_frame *frame = &frames[i];

        rc = shm_post_check_frame(link, frame);
        if (rc)
            return i ? i : rc;
        if (frame->kind == BR_FRAME_MESSAGE ? !shm_post_post_message(link, frame)
                                            : !shm_post_data(link, frame))
            break;
        base->device->counters.tx_frames++;
        base->device->counters.tx_bytes += frame->length;
    }
    if (i) {
        if (link->piping_head != link->piping_tail)
            pipe_out(link);
        link->wake_due = BR_ASLEEP;
        br_shm_link_wake_peer(link);
    }
    return i;
}

static bool wants_returns(const struct br_shm_link *link)
{
    return link->n_free_data < BR_INBOX_DATA ||
           link->n_free_messages <= link->out.message_buffers / 2;
}

/* A DATA frame has returned whose way ways.h has chosen. Returns false when the peer could not read
 * it: then it is posted again, with its ticket. */
static bool shm_post_came_back(struct br_shm_link *link, struct br_shm_posted *posted,
                               uint16_t ticket)
{
    uint32_t took = atomic_load_explicit(
        &link->out.header->took[ticket - link->out.message_buffers], memory_order_relaxed);
    bool refused = took == BR_TOOK_REFUSED && posted->way.way == BR_WAY_DIRECT;
    bool known = posted->way.measured && took != BR_TOOK_UNKNOWN && !refused && !posted->fresh;
    struct br_frame again;

    posted->way.worked += known ? took : 0;
    br_ways_returned(&link->ways, &posted->way, known ? posted->length : 0,
                     posted->way.measured ? br_clock_now() : 0);
    posted->way = (struct br_ways_frame){0};
    if (!refused)
        return true;
    if (!link->ways.closed[BR_WAY_DIRECT]) {
        br_downgrade(direct_reads);
        br_log_info("%s to %s: its process cannot read this one's memory, which is therefore "
                    "copied twice",
                    link->base.device->name, link->base.peer_name);
    }
    link->ways.closed[BR_WAY_DIRECT] = true;
    posted->piping = true;
    again = (struct br_frame){.kind = BR_FRAME_DATA,
                              .length = posted->length,
                              .slot = posted->slot,
                              .offset = posted->offset,
                              .inline_ = posted->inline_};
    shm_post_publish(link, &again, BR_SOURCE_PIPE, ticket, false);
    link->wake_due = BR_ASLEEP;
    return false;
}

/* Takes one returned ticket, already read; a forged one fails the link. true: a frame with *cookie
 * is SENT. */
static bool shm_post_collect(struct br_shm_link *link, uint32_t ticket, uint64_t *cookie)
{
    uint32_t first = link->out.message_buffers;
    struct br_shm_posted *posted;

    if (ticket < first && link->message_out[ticket] == BR_TICKET_OUT) {
        link->message_out[ticket] = BR_TICKET_FREE;
        link->free_messages[link->n_free_messages++] = (uint16_t)ticket;
        return false;
    }
    if (ticket < first || ticket >= link->out.n_tickets || !link->posted[ticket - first].used ||
        link->posted[ticket - first].piping) {
        br_shm_link_fail(link, EPROTO, "the peer returned ticket %u, which is not out", ticket);
        return false;
    }
    posted = &link->posted[ticket - first];
    if (posted->way.burst && !shm_post_came_back(link, posted, (uint16_t)ticket))
        return false;
    posted->used = false;
    link->free_data[link->n_free_data++] = (uint16_t)ticket;
    *cookie = posted->cookie;
    return *cookie != 0;
}

int br_shm_send_poll(struct br_shm_link *link, struct br_event *events, int max)
{
    int n = 0, ticket;

    while (n < max && link->sent_head != link->sent_tail)
        events[n++] = (struct br_event){.kind = BR_EVENT_SENT,
                                        .link = &link->base,
                                        .cookie = link->sent[link->sent_head++ & link->sent_mask]};
    while (n < max && wants_returns(link) && link->state == BR_SHM_OPEN &&
           (ticket = br_inbox_returned(&link->out, link->collect_position)) >= 0) {
        link->collect_position++;
        events[n] = (struct br_event){.kind = BR_EVENT_SENT, .link = &link->base};
        if (shm_post_collect(link, (uint32_t)ticket, &events[n].cookie))
            n++;
    }
    if (link->state == BR_SHM_OPEN && link->piping_head != link->piping_tail)
        pipe_out(link);
    return n;
}

bool br_shm_send_pending(const struct br_shm_link *link)
{
    return link->sent_head != link->sent_tail ||
           (wants_returns(link) && br_inbox_returned(&link->out, link->collect_position) >= 0) ||
           (link->piping_head != link->piping_tail && br_pipe_has_room(&link->pipe));
}
