/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of frames go to their places; what has arrived is acknowledged. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "transport/datagram/internal.h"

/* For how long an acknowledgement waits: for the answer to a message; and, while nothing comes, for
 * a packet that asks (packet.h note 6), or for some times as long as packets take to follow. */
#define ACK_DELAY      (25 * BR_US)
#define ASK_DELAY      (500 * BR_US)
#define ASK_GAPS       4u
#define ASK_DELAY_MOST (5 * BR_MS)
#define ACK_EVERY      64u /* packets, at most, that share one */
/* For which one that is due lets data go ahead (internal.h note 5). */
#define ACK_BEHIND  (25 * BR_US)
#define EARLY_GRACE (20 * BR_MS) /* for the protocol to say that it trusts the peer */

uint32_t br_dgram_receive_limit(const struct br_dgram_link *link)
{
    return link->delivered + link->config.message_buffers - link->held;
}

void br_dgram_receive_ack_now(struct br_dgram_link *link)
{
    for (unsigned i = 0; i < link->config.paths; i++) {
        if (!link->paths[i].n_runs)
            continue;
        link->paths[i].ack_at = 0;
        return;
    }
}

/* Puts `number` into the runs, which lie from the top down and do not touch. false: it is below all
 * of a full list. */
static bool datagram_receive_record(struct br_dgram_path *path, uint64_t number)
{
    struct br_dgram_run *runs = path->runs;
    unsigned i = 0, n = path->n_runs;

    while (i < n && number + 1 < runs[i].first)
        i++;
    if (i < n && number <= runs[i].last + 1) {
        if (number == runs[i].last + 1)
            runs[i].last = number;
        if (number + 1 == runs[i].first)
            runs[i].first = number;
        if (i + 1 < n && runs[i + 1].last + 1 == runs[i].first) {
            runs[i].first = runs[i + 1].first;
            memmove(&runs[i + 1], &runs[i + 2], (n - i - 2) * sizeof *runs);
            path->n_runs--;
        }
        return true;
    }
    if (i == BR_DGRAM_RANGES)
        return false;
    n -= n == BR_DGRAM_RANGES;
    memmove(&runs[i + 1], &runs[i], (n - i) * sizeof *runs);
    runs[i] = (struct br_dgram_run){number, number};
    path->n_runs = n + 1;
    return true;
}

/* A packet has come `gap` after one that it was to follow. A slow link's packets come far apart,
 * and farther behind a train: then it is no sign of a loss that none has come for a while. One long
 * gap is not forgotten at once, as trains differ in length; a pause is none. */
static void datagram_receive_pace(struct br_dgram_path *path, uint64_t gap)
{
    uint64_t wait = ASK_GAPS * gap < ASK_DELAY_MOST ? ASK_GAPS * gap : ASK_DELAY_MOST;

    path->ack_wait -= path->ack_wait / 8;
    if (path->ack_wait < wait && gap < ASK_DELAY_MOST)
        path->ack_wait = wait;
}

uint64_t br_dgram_receive_timer(const struct br_dgram_path *path)
{
    uint64_t wait = path->ack_wait > ASK_DELAY ? path->ack_wait : ASK_DELAY;
    uint64_t quiet = path->unacked ? path->latest_at + wait : BR_DGRAM_NEVER;

    return quiet < path->ack_at ? quiet : path->ack_at;
}

/* The packet has been taken in: it will be acknowledged at `at` at the latest, or sooner when
 * nothing follows it. */
static void datagram_receive_acknowledge(struct br_dgram_link *link,
                                         const struct br_dgram_data *data, uint64_t at,
                                         uint64_t now)
{
    struct br_dgram_path *path = &link->paths[data->path];
    uint64_t top = path->n_runs ? path->runs[0].last : 0;
    uint64_t number = br_dgram_number(data->number, top);

    if (!number || !datagram_receive_record(path, number))
        return;
    /* else of one train, behind a loss, or behind a pause of the sender's */
    if (path->follows && now > path->latest_at && number == top + 1)
        datagram_receive_pace(path, now - path->latest_at);
    path->follows = at == BR_DGRAM_NEVER;
    path->latest = number;
    path->latest_at = now;
    if (++path->unacked >= ACK_EVERY || number != top + 1)
        at = now;
    if (at < path->ack_at)
        path->ack_at = at;
}

static bool begin_message(struct br_dgram_link *link, struct br_dgram_rx_frame *frame,
                          const struct br_dgram_data *data)
{
    struct br_dgram_message **place = &link->waiting[data->order % link->waiting_capacity];

    if (br_dgram_before(data->order, link->delivered) ||
        data->length > link->config.message_bytes ||
        (*place && br_dgram_before(data->order, br_dgram_receive_limit(link)))) {
        br_dgram_link_fail(link, EPROTO, "message %u of %u bytes was not expected", data->order,
                           data->length);
        return false;
    }
    if (!br_dgram_before(data->order, br_dgram_receive_limit(link)))
        return false; /* it did not wait for room: it can wait now */
    frame->message = br_pool_get(&link->pool);
    if (!frame->message)
        return false;
    frame->message->whole = false;
    frame->message->length = data->length;
    *place = frame->message;
    return true;
}

/* A frame of which this is the first packet to come. */
static bool datagram_receive_begin(struct br_dgram_link *link, struct br_dgram_rx_frame *frame,
                                   const struct br_dgram_data *data)
{
    uint32_t content = BR_FRAME_INLINE + data->length;
    uint32_t parts = (content + link->part_bytes - 1) / link->part_bytes;

    if (!frame->finished)
        return false; /* its event has not been taken */
    if (parts > BR_DGRAM_PARTS) {
        br_dgram_link_fail(link, EPROTO, "a frame of %u bytes in packets of %u", data->length,
                           link->packet_bytes);
        return false;
    }
    frame->message = NULL;
    if (data->frame_kind == BR_FRAME_MESSAGE && !begin_message(link, frame, data))
        return false;
    frame->number = data->frame;
    frame->finished = frame->whole = frame->stale = false;
    frame->kind = data->frame_kind;
    frame->parts = (uint8_t)parts;
    frame->order = data->order;
    frame->slot = data->slot;
    frame->offset = data->offset;
    frame->length = data->length;
    frame->got = 0;
    return true;
}

/* Does the packet say of its frame what the others said, and is the part as long as it must be? */
static bool datagram_receive_fits(const struct br_dgram_link *link,
                                  const struct br_dgram_rx_frame *frame,
                                  const struct br_dgram_view *view)
{
    const struct br_dgram_data *data = &view->data;
    uint32_t content = BR_FRAME_INLINE + frame->length, from = data->part * link->part_bytes, left;

    if (data->frame_kind != frame->kind || data->order != frame->order ||
        data->slot != frame->slot || data->offset != frame->offset ||
        data->length != frame->length || data->part >= frame->parts)
        return false;
    left = content - from;
    return view->content_bytes == (left < link->part_bytes ? left : link->part_bytes);
}

/* Where the payload of this frame goes; NULL: nowhere, the frame is stale, or the link has
 * failed. */
static uint8_t *datagram_receive_address(struct br_dgram_link *link,
                                         struct br_dgram_rx_frame *frame)
{
    struct br_slot *slot;
    int rc;

    if (frame->kind == BR_FRAME_MESSAGE)
        return frame->message->payload;
    if (frame->stale)
        return NULL;
    rc = br_slot_expect(link->config.slots, frame->slot, frame->offset, frame->length, &slot);
    if (!rc && !slot->base)
        rc = br_error(EPROTO, "slot %u has no place and takes mappings only", frame->slot);
    if (!rc)
        return slot->base + frame->offset;
    frame->stale = true;
    if (rc != -ESTALE)
        br_dgram_link_fail(link, -rc, "%s", br_error_message());
    return NULL;
}

static void datagram_receive_put(struct br_dgram_link *link, struct br_dgram_rx_frame *frame,
                                 const struct br_dgram_view *view)
{
    const uint8_t *bytes = view->content;
    uint32_t n = view->content_bytes, at = view->data.part * link->part_bytes;
    uint8_t *to = datagram_receive_address(link, frame);

    if (!at) {
        uint8_t *head = frame->kind == BR_FRAME_MESSAGE ? frame->message->inline_ : frame->inline_;

        memcpy(head, bytes, BR_FRAME_INLINE);
        bytes += BR_FRAME_INLINE;
        n -= BR_FRAME_INLINE;
        at = BR_FRAME_INLINE;
    }
    if (to && n)
        memcpy(to + (at - BR_FRAME_INLINE), bytes, n);
    frame->got |= 1ull << view->data.part;
    if (frame->got != ~0ull >> (64 - frame->parts))
        return;
    frame->whole = true;
    if (frame->kind == BR_FRAME_MESSAGE) {
        frame->message->whole = true;
        frame->message = NULL;
        frame->finished = true;
    } else {
        br_list_push_back(&link->ready, &frame->ready);
    }
}

/* A DATA frame from a peer that has not proved itself: it may have overtaken the proof, or the
 * protocol has yet to look at that. */
static bool too_early(struct br_dgram_link *link, const struct br_dgram_data *data, uint64_t now)
{
    if (link->authenticated || data->frame_kind != BR_FRAME_DATA)
        return false;
    link->stats.dropped++;
    if (br_dgram_before(link->delivered, data->order))
        return true;
    link->early = true;
    if (link->early_since && now > link->early_since + EARLY_GRACE)
        br_dgram_link_fail(link, EPROTO, "payload from a peer that has not proved itself");
    return true;
}

void br_dgram_receive_data(struct br_dgram_link *link, const struct br_dgram_view *view,
                           bool marked, uint64_t now)
{
    const struct br_dgram_data *data = &view->data;
    struct br_dgram_rx_frame *frame = &link->rx[data->frame % BR_DGRAM_RX_FRAMES];
    uint64_t at = now + ACK_DELAY;

    link->stats.rx_packets++;
    if (data->path >= link->config.paths) {
        br_dgram_link_fail(link, EPROTO, "a packet on path %u of %u", data->path,
                           link->config.paths);
        return;
    }
    if (marked)
        link->paths[data->path].marked++;
    if (view->kind == BR_DGRAM_DATA && !br_dgram_before(data->frame, frame->number)) {
        if (too_early(link, data, now))
            return;
        if (data->frame != frame->number && !datagram_receive_begin(link, frame, data)) {
            link->stats.dropped++;
            return;
        }
        if (!datagram_receive_fits(link, frame, view)) {
            br_dgram_link_fail(link, EPROTO, "packets of frame %u contradict each other",
                               data->frame);
            return;
        }
        if (frame->got >> data->part & 1)
            link->stats.duplicates++;
        else
            datagram_receive_put(link, frame, view);
        if (!frame->whole || frame->kind == BR_FRAME_DATA)
            at = BR_DGRAM_NEVER;
    }
    if (view->kind == BR_DGRAM_PING || data->flags & BR_DGRAM_ASKS)
        at = now;
    if (link->state == BR_DGRAM_UP)
        datagram_receive_acknowledge(link, data, at, now);
}

static void datagram_receive_fill(struct br_dgram_link *link, unsigned index, uint64_t now,
                                  struct br_dgram_packet *out)
{
    struct br_dgram_path *path = &link->paths[index];
    struct br_dgram_ack *ack = (struct br_dgram_ack *)out->head;
    uint64_t above = path->runs[0].last + 1,
             held = now > path->latest_at ? now - path->latest_at : 0;
    unsigned n = 0;

    *ack = (struct br_dgram_ack){
        .header.kind = BR_DGRAM_ACK,
        .header.link = link->peer,
        .top = path->runs[0].last,
        .latest = path->latest,
        .delay = held < UINT32_MAX ? (uint32_t)held : UINT32_MAX,
        .marked = path->marked,
        .messages = br_dgram_receive_limit(link),
        .path = (uint8_t)index,
    };
    for (; n < path->n_runs; n++) {
        uint64_t gap = above - path->runs[n].last - 1,
                 run = path->runs[n].last - path->runs[n].first + 1;

        if (gap > UINT16_MAX)
            break;
        ack->range[n].gap = (uint16_t)gap;
        ack->range[n].run = (uint16_t)(run < UINT16_MAX ? run : UINT16_MAX);
        above = path->runs[n].first;
        if (run > UINT16_MAX) {
            n++;
            break;
        }
    }
    ack->ranges = (uint8_t)n;
    out->head_bytes = (uint32_t)(offsetof(struct br_dgram_ack, range) + n * sizeof ack->range[0]);
    out->payload = NULL;
    out->payload_bytes = 0;
    out->region = NULL;
    out->path = (uint8_t)index;
    br_dgram_seal(ack, out->head_bytes, NULL, 0);
}

bool br_dgram_receive_ack(struct br_dgram_link *link, bool urgent, uint64_t now,
                          struct br_dgram_packet *out)
{
    uint64_t waits = urgent && link->config.acks_behind ? ACK_BEHIND : 0;

    for (unsigned i = 0; i < link->config.paths; i++) {
        struct br_dgram_path *path = &link->paths[i];
        uint64_t at = br_dgram_receive_timer(path);

        if (at == BR_DGRAM_NEVER || now < at + waits)
            continue;
        datagram_receive_fill(link, i, now, out);
        path->ack_at = BR_DGRAM_NEVER;
        path->unacked = 0;
        link->limit_sent = br_dgram_receive_limit(link);
        link->stats.tx_acks++;
        return true;
    }
    return false;
}
