/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "base/clock.h"
#include "transport/datagram/internal.h"

#define REVIVE_EVERY (200 * BR_MS)
#define PING_EVERY   (20 * BR_MS) /* while messages wait for room at the peer */
/* An idle link: an end that has died without a word is noticed. */
#define ALIVE_EVERY (500 * BR_MS)
#define ASK_EVERY   (24u << 10) /* bytes of packets, at most, that share an acknowledgement */
/* From this share of lost or marked packets on they are acknowledged more often. */
#define ASK_TROUBLED (1.0 / 512)

static struct br_dgram_tx_frame *datagram_send_first(const struct br_list *queue, bool again)
{
    if (br_list_empty(queue))
        return NULL;
    return again ? br_container_of(queue->next, struct br_dgram_tx_frame, again)
                 : br_container_of(queue->next, struct br_dgram_tx_frame, fresh);
}

/* Whose part leaves next (internal.h note 5). */
static struct br_dgram_tx_frame *datagram_send_choose(const struct br_dgram_link *link)
{
    struct br_dgram_tx_frame *frame = datagram_send_first(&link->again, true);

    if (frame)
        return frame;
    frame = datagram_send_first(&link->messages, false);
    if (frame && br_dgram_before(frame->order, link->message_limit))
        return frame;
    return datagram_send_first(&link->data_frames, false);
}

static bool datagram_send_usable(const struct br_dgram_link *link, const struct br_dgram_path *path)
{
    bool others = false;

    if (path->next - path->floor >= BR_DGRAM_PACKETS)
        return false;
    for (unsigned i = 0; i < link->config.paths; i++)
        others |= link->paths[i].probes < BR_DGRAM_DEAD;
    return path->probes < BR_DGRAM_DEAD || !others;
}

/* Nothing but messages for which the peer has no room. */
static bool datagram_send_blocked(const struct br_dgram_link *link)
{
    return !br_list_empty(&link->messages) && !link->paths[0].in_flight &&
           !datagram_send_choose(link);
}

/* An answer is owed, but what wanted it was lost and needs not go again, as it was a PING: asked
 * anew, or the link would end. */
static bool datagram_send_forgotten(const struct br_dgram_link *link)
{
    for (unsigned i = 0; i < link->config.paths; i++)
        if (link->paths[i].in_flight)
            return false;
    return link->answer_due && !datagram_send_choose(link);
}

uint64_t br_dgram_send_timer(const struct br_dgram_link *link)
{
    uint64_t timer = datagram_send_blocked(link) ? link->ping_at : BR_DGRAM_NEVER;
    bool waiting = datagram_send_choose(link) != NULL, asks = datagram_send_forgotten(link);
    uint64_t silent = link->received_at + (link->answer_due ? link->config.patience : ALIVE_EVERY);

    timer = silent < timer ? silent : timer;

    for (unsigned i = 0; i < link->config.paths; i++) {
        const struct br_dgram_path *path = &link->paths[i];

        if (path->ping)
            return 0;
        if (asks && path->quiet_since + REVIVE_EVERY < timer)
            timer = path->quiet_since + REVIVE_EVERY;
        if (!waiting || !datagram_send_usable(link, path))
            continue;
        if (path->probe)
            return 0;
        if (path->congestion.leave_at < timer &&
            br_dgram_congestion_available(&path->congestion, path->in_flight))
            timer = path->congestion.leave_at;
    }
    return timer;
}

static uint8_t take_part(struct br_dgram_tx_frame *frame)
{
    uint8_t part;

    if (frame->lost) {
        part = (uint8_t)__builtin_ctzll(frame->lost);
        frame->lost &= frame->lost - 1;
        if (!frame->lost)
            br_list_remove(&frame->again);
        return part;
    }
    part = frame->next++;
    if (frame->next == frame->parts)
        br_list_remove(&frame->fresh);
    return part;
}

/* A path that lets one more out, in turn. */
static struct br_dgram_path *choose_path(struct br_dgram_link *link, uint64_t now)
{
    unsigned n = link->config.paths;

    for (unsigned i = 0; i < n; i++) {
        unsigned at = (link->next_path + i) % n;
        struct br_dgram_path *path = &link->paths[at];

        if (!datagram_send_usable(link, path))
            continue;
        if (path->probe || br_dgram_congestion_open(&path->congestion, path->in_flight, now)) {
            /* A burst stays on its path, so that one call to the kernel carries it. */
            link->next_path = path->congestion.leave_at > now ? (at + 1) % n : at;
            return path;
        }
    }
    return NULL;
}

static void datagram_send_note(struct br_dgram_link *link, struct br_dgram_path *path,
                               uint32_t frame, uint8_t part, uint64_t now)
{
    *br_dgram_sent_at(path, path->next) =
        (struct br_dgram_sent){.time = now, .frame = frame, .part = part, .state = BR_DGRAM_FLYING};
    path->next++;
    if (!path->in_flight++)
        path->silent_since = now;
    path->quiet_since = now;
    path->probe = false;
    if (part != BR_DGRAM_NO_PART) /* a PING waits for no turn, and takes nobody's */
        br_dgram_congestion_left(&path->congestion, now);
    if (!link->answer_due)
        link->received_at = now;
    link->answer_due = true;
    link->stats.tx_packets++;
}

static void datagram_send_head(struct br_dgram_link *link, const struct br_dgram_path *path,
                               enum br_dgram_kind kind, struct br_dgram_packet *out)
{
    struct br_dgram_data *data = (struct br_dgram_data *)out->head;

    *data = (struct br_dgram_data){
        .header.kind = (uint8_t)kind,
        .header.link = link->peer,
        .number = (uint32_t)path->next,
        .path = (uint32_t)(path - link->paths) & 7,
    };
    out->head_bytes = sizeof *data;
    out->path = (uint8_t)(path - link->paths);
    out->payload = NULL;
    out->payload_bytes = 0;
    out->region = NULL;
}

/* The packet that leaves now asks for an acknowledgement. */
static void datagram_send_asked(struct br_dgram_path *path)
{
    path->asked = path->next;
    path->unasked = false;
}

/* Does the packet that leaves now ask for an acknowledgement (packet.h note 6)? last: no other one
 * can leave. */
static bool datagram_send_asks(const struct br_dgram_link *link, const struct br_dgram_path *path,
                               bool last)
{
    const struct br_dgram_congestion *pace = &path->congestion;
    bool troubled = pace->loss_rate > ASK_TROUBLED || pace->mark_rate > ASK_TROUBLED;
    uint32_t packets = (uint32_t)(path->next - path->asked);

    return (last && path->unasked) || path->probe || packets * link->packet_bytes >= ASK_EVERY ||
           (troubled ? 3 : 2) * packets >= pace->window ||
           (path->newest_acked >= path->asked && /* no packet that asks is under way */
            !br_dgram_congestion_available(pace, path->in_flight + 1));
}

/* No other packet can leave: the paths whose last one has left and did not ask do so by PING.
 * Returns whether there are any. */
static bool datagram_send_ask_elsewhere(struct br_dgram_link *link)
{
    bool any = false;

    for (unsigned i = 0; i < link->config.paths; i++) {
        struct br_dgram_path *path = &link->paths[i];

        if (!path->unasked || !path->in_flight || !datagram_send_usable(link, path))
            continue;
        path->ping = any = true;
    }
    return any;
}

static void datagram_send_fill(struct br_dgram_link *link, const struct br_dgram_tx_frame *frame,
                               uint8_t part, struct br_dgram_packet *out)
{
    struct br_dgram_data *data = (struct br_dgram_data *)out->head;
    uint32_t content = BR_FRAME_INLINE + frame->length, from = part * link->part_bytes;
    uint32_t bytes = content - from < link->part_bytes ? content - from : link->part_bytes;

    data->frame = frame->number;
    data->order = frame->order;
    data->slot = frame->slot;
    data->offset = frame->offset;
    /* each is smaller; the compiler is told that it fits */
    data->length = frame->length & 0x1ffff;
    data->part = part & 0x3fu;
    data->frame_kind = frame->kind & 3u;
    data->flags = link->config.header_only ? BR_DGRAM_HEADER_ONLY : 0;
    if (!part) {
        memcpy(out->head + sizeof *data, frame->inline_, BR_FRAME_INLINE);
        out->head_bytes += BR_FRAME_INLINE;
        bytes -= BR_FRAME_INLINE;
    } else {
        from -= BR_FRAME_INLINE;
    }
    if (bytes) {
        out->payload = frame->payload + from;
        out->payload_bytes = bytes;
        out->region = frame->region;
    }
}

/* Asks now and then on paths that carry nothing: on those that count as dead, or on all. */
static void datagram_send_revive(struct br_dgram_link *link, bool all, uint64_t now)
{
    for (unsigned i = 0; i < link->config.paths; i++) {
        struct br_dgram_path *path = &link->paths[i];

        if ((all || path->probes >= BR_DGRAM_DEAD) && !path->in_flight &&
            now >= path->quiet_since + REVIVE_EVERY)
            path->ping = true;
    }
}

static bool datagram_send_ping(struct br_dgram_link *link, uint64_t now,
                               struct br_dgram_packet *out)
{
    if (datagram_send_blocked(link) && now >= link->ping_at) {
        link->ping_at = now + PING_EVERY;
        link->paths[0].ping = true;
    }
    if (!link->answer_due && now >= link->received_at + ALIVE_EVERY)
        link->paths[0].ping = true;
    if (datagram_send_forgotten(link))
        datagram_send_revive(link, true, now);
    for (unsigned i = 0; i < link->config.paths; i++) {
        struct br_dgram_path *path = &link->paths[i];

        if (!path->ping)
            continue;
        path->ping = false;
        datagram_send_head(link, path, BR_DGRAM_PING, out);
        datagram_send_asked(path);
        br_dgram_seal(out->head, out->head_bytes, NULL, 0);
        datagram_send_note(link, path, 0, BR_DGRAM_NO_PART, now);
        return true;
    }
    return false;
}

bool br_dgram_send_next(struct br_dgram_link *link, uint64_t now, struct br_dgram_packet *out)
{
    struct br_dgram_tx_frame *frame = datagram_send_choose(link);
    struct br_dgram_path *path;
    uint8_t part;
    bool last;

    if (datagram_send_ping(link, now, out))
        return true;
    path = frame ? choose_path(link, now) : NULL;
    if (!path)
        return false;
    datagram_send_revive(link, false, now);
    link->stats.resent_packets += frame->lost != 0;
    part = take_part(frame);
    last = !datagram_send_choose(link);
    datagram_send_head(link, path, BR_DGRAM_DATA, out);
    datagram_send_fill(link, frame, part, out);
    path->unasked = frame->kind == BR_FRAME_DATA || part + 1 < frame->parts;
    if (datagram_send_asks(link, path, last)) {
        ((struct br_dgram_data *)out->head)->flags |= BR_DGRAM_ASKS;
        datagram_send_asked(path);
    }
    br_dgram_seal(out->head, out->head_bytes, out->payload, out->payload_bytes);
    datagram_send_note(link, path, frame->number, part, now);
    if (frame->kind == BR_FRAME_MESSAGE)
        link->ping_at = now + PING_EVERY;
    out->last = last && !datagram_send_ask_elsewhere(link);
    return true;
}
