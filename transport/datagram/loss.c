/* SPDX-License-Identifier: BSD-3-Clause */
/* What has arrived at the peer, what was lost on the way (internal.h note 4). */
#include <errno.h>

#include "base/clock.h"
#include "transport/datagram/internal.h"

#define BACKOFF_MOST (200 * BR_MS)
/* Before all counts as lost: a peer may have to wait for a core. */
#define LEAST_SILENCE (100 * BR_MS)
#define LEAST_REORDER (20 * BR_US)
#define REMEMBERED    512u /* packets for which a late acknowledgement is still recognised */

/* The frame that a packet carried a part of, if the part is still missing at the peer. */
static struct br_dgram_tx_frame *loss_missing(struct br_dgram_link *link,
                                              const struct br_dgram_sent *sent)
{
    struct br_dgram_tx_frame *frame = &link->tx[sent->frame % BR_DGRAM_WINDOW];

    if (sent->part == BR_DGRAM_NO_PART || !frame->busy || frame->number != sent->frame ||
        frame->acked >> sent->part & 1)
        return NULL;
    return frame;
}

/* false: it carried nothing that is still missing. */
static bool loss_send_again(struct br_dgram_link *link, const struct br_dgram_sent *sent)
{
    struct br_dgram_tx_frame *frame = loss_missing(link, sent);

    if (!frame)
        return false;
    if (!frame->lost)
        br_list_push_back(&link->again, &frame->again);
    frame->lost |= 1ull << sent->part;
    return true;
}

static void loss_lose(struct br_dgram_link *link, struct br_dgram_path *path,
                      struct br_dgram_sent *sent)
{
    sent->state = BR_DGRAM_LOST;
    path->in_flight--;
    link->stats.lost_packets++;
    br_dgram_congestion_lost(&path->congestion);
    loss_send_again(link, sent);
}

static void part_arrived(struct br_dgram_link *link, const struct br_dgram_sent *sent)
{
    struct br_dgram_tx_frame *frame = loss_missing(link, sent);

    if (!frame)
        return;
    frame->acked |= 1ull << sent->part;
    if (frame->lost) {
        frame->lost &= ~frame->acked;
        if (!frame->lost)
            br_list_remove(&frame->again);
    }
    if (frame->acked != ~0ull >> (64 - frame->parts))
        return;
    if (frame->cookie)
        br_list_push_back(&link->done, &frame->fresh);
    else
        frame->busy = false;
}

/* Packet `number` has arrived. false: that was known. */
static bool loss_arrived(struct br_dgram_link *link, struct br_dgram_path *path, uint64_t number,
                         uint64_t now)
{
    struct br_dgram_sent *sent = br_dgram_sent_at(path, number);

    if (sent->state == BR_DGRAM_DONE)
        return false;
    if (sent->state == BR_DGRAM_FLYING) {
        path->in_flight--;
    } else {
        link->stats.spurious++;
        br_dgram_congestion_spurious(&path->congestion);
        path->reorder = path->reorder ? path->reorder * 2 : path->congestion.min_rtt / 4;
        if (path->reorder > path->congestion.smoothed)
            path->reorder = path->congestion.smoothed;
    }
    sent->state = BR_DGRAM_DONE;
    if (number > path->newest_acked) {
        path->newest_acked = number;
        path->newest_sent = sent->time;
        path->newest_heard = now;
    }
    part_arrived(link, sent);
    return true;
}

/* Past what nobody will ask for again. */
static void raise_floor(struct br_dgram_path *path)
{
    while (path->floor < path->next) {
        const struct br_dgram_sent *sent = br_dgram_sent_at(path, path->floor);

        if (sent->state == BR_DGRAM_FLYING ||
            (sent->state == BR_DGRAM_LOST && path->next - path->floor < REMEMBERED))
            break;
        path->floor++;
    }
}

/* Of those sent before the newest that has arrived, the ones that are overdue. */
static void find_lost(struct br_dgram_link *link, struct br_dgram_path *path, uint64_t now)
{
    uint64_t patience =
        path->congestion.min_rtt < BR_DGRAM_NEVER ? path->congestion.min_rtt / 4 : 0;

    if (patience < LEAST_REORDER)
        patience = LEAST_REORDER;
    if (path->reorder >
        /* it grew when packets were held: no measure for what they take now */
        path->congestion.smoothed)
        path->reorder = path->congestion.smoothed;
    patience += path->reorder;
    path->loss_at = BR_DGRAM_NEVER;
    raise_floor(path); /* in order: nothing is left to look at */
    for (uint64_t number = path->floor; number < path->newest_acked; number++) {
        struct br_dgram_sent *sent = br_dgram_sent_at(path, number);

        if (sent->state != BR_DGRAM_FLYING)
            continue;
        if (now + (path->newest_sent - sent->time) < path->newest_heard + patience) {
            path->loss_at = path->newest_heard + patience - (path->newest_sent - sent->time);
            break;
        }
        loss_lose(link, path, sent);
    }
    raise_floor(path);
}

/* Acknowledges what the ranges say. Returns how many are new. */
static unsigned take_ranges(struct br_dgram_link *link, struct br_dgram_path *path,
                            const struct br_dgram_ack *ack, uint64_t now)
{
    uint64_t above = ack->top + 1;
    unsigned packets = 0;

    for (unsigned i = 0; i < ack->ranges; i++) {
        uint64_t last = above - ack->range[i].gap - 1, first_ = last + 1 - ack->range[i].run;

        above = first_;
        if (first_ < path->floor)
            first_ = path->floor;
        for (uint64_t number = first_; number <= last; number++)
            packets += loss_arrived(link, path, number, now);
        if (above <= path->floor)
            break;
    }
    return packets;
}

static void answer_is_due(struct br_dgram_link *link)
{
    link->answer_due = !br_list_empty(&link->again);
    for (unsigned i = 0; i < link->config.paths; i++)
        link->answer_due |= link->paths[i].in_flight > 0;
}

void br_dgram_loss_ack(struct br_dgram_link *link, const struct br_dgram_ack *ack, uint64_t now)
{
    const struct br_dgram_sent *latest;
    struct br_dgram_path *path;
    uint64_t elapsed = 0;
    unsigned packets, marked = 0;

    link->stats.rx_acks++;
    if (ack->path >= link->config.paths || ack->top >= link->paths[ack->path].next) {
        br_dgram_link_fail(link, EPROTO, "the peer acknowledges packets that were never sent");
        return;
    }
    path = &link->paths[ack->path];
    latest = br_dgram_sent_at(path, ack->latest);
    if (ack->latest >= path->floor && latest->state != BR_DGRAM_DONE)
        elapsed = now > latest->time ? now - latest->time : 1;
    packets = take_ranges(link, path, ack, now);
    if (elapsed && latest->state == BR_DGRAM_DONE)
        br_dgram_congestion_sample(&path->congestion,
                                   elapsed > ack->delay ? elapsed - ack->delay : 1, elapsed, now);
    if (br_dgram_before(link->message_limit, ack->messages))
        link->message_limit = ack->messages;
    if (!packets)
        return;
    find_lost(link, path, now);
    if (br_dgram_before(path->marked_heard, ack->marked)) { /* else an older one has come later */
        marked = ack->marked - path->marked_heard;
        path->marked_heard = ack->marked;
    }
    br_dgram_congestion_acked(&path->congestion, packets, marked, path->newest_acked, path->next);
    if (path->quiet_since < now)
        path->quiet_since = now;
    path->silent_since = link->answered_at = now;
    path->probes = 0;
    answer_is_due(link);
}

/* A path of which nothing has come back yet is taken to be like the slowest other one. */
static uint64_t timeout_after(const struct br_dgram_link *link, const struct br_dgram_path *path)
{
    uint64_t after = 0;

    for (unsigned i = 0; !path->congestion.smoothed && i < link->config.paths; i++) {
        const struct br_dgram_congestion *other = &link->paths[i].congestion;

        if (other->smoothed && br_dgram_congestion_rto(other) > after)
            after = br_dgram_congestion_rto(other);
    }
    return after ? after : br_dgram_congestion_rto(&path->congestion);
}

static uint64_t timeout_at(const struct br_dgram_link *link, const struct br_dgram_path *path)
{
    uint64_t after = timeout_after(link, path);
    uint64_t most = after > BACKOFF_MOST ? after : BACKOFF_MOST;

    after <<= path->probes < 8 ? path->probes : 8;
    return path->quiet_since + (after < most ? after : most);
}

static bool others_live(const struct br_dgram_link *link, const struct br_dgram_path *path)
{
    for (unsigned i = 0; i < link->config.paths; i++)
        if (&link->paths[i] != path && link->paths[i].probes < BR_DGRAM_DEAD)
            return true;
    return false;
}

/* Is it the path that is silent, and not the peer, which may wait for a core? */
static bool loss_hopeless(const struct br_dgram_link *link, const struct br_dgram_path *path,
                          uint64_t now)
{
    return path->probes + 1 >= BR_DGRAM_DEAD &&
           (now >= path->silent_since + LEAST_SILENCE || link->answered_at > path->silent_since);
}

static void time_out(struct br_dgram_link *link, struct br_dgram_path *path, uint64_t now)
{
    bool full = path->next - path->floor >= BR_DGRAM_PACKETS; /* no number is left to ask with */
    bool dead = full || loss_hopeless(link, path, now);
    uint64_t number = path->next - 1;

    link->stats.timeouts++;
    path->quiet_since = now;
    if (dead || path->probes + 1 < BR_DGRAM_DEAD)
        path->probes++;
    if (!dead) {
        while (br_dgram_sent_at(path, number)->state != BR_DGRAM_FLYING)
            number--;
        path->probe = loss_send_again(link, br_dgram_sent_at(path, number));
        path->ping = !path->probe;
        return;
    }
    for (number = path->floor; number < path->next; number++)
        if (br_dgram_sent_at(path, number)->state == BR_DGRAM_FLYING)
            loss_lose(link, path, br_dgram_sent_at(path, number));
    raise_floor(path);
    br_dgram_congestion_timeout(&path->congestion);
    if (others_live(link, path))
        answer_is_due(link); /* a path that carries nothing does not end a link that has others */
    else
        path->ping = br_list_empty(&link->again); /* else something leaves by itself */
}

void br_dgram_loss_tick(struct br_dgram_link *link, uint64_t now)
{
    if (link->answer_due && now >= link->received_at + link->config.patience) {
        br_dgram_link_fail(link, ETIMEDOUT, "nothing heard for %llu ms",
                           (unsigned long long)(link->config.patience / BR_MS));
        return;
    }
    for (unsigned i = 0; i < link->config.paths; i++) {
        struct br_dgram_path *path = &link->paths[i];

        if (now >= path->loss_at)
            find_lost(link, path, now);
        if (path->in_flight && now >= timeout_at(link, path))
            time_out(link, path, now);
    }
}

uint64_t br_dgram_loss_timer(const struct br_dgram_link *link, const struct br_dgram_path *path)
{
    uint64_t timeout = path->in_flight ? timeout_at(link, path) : BR_DGRAM_NEVER;

    return path->loss_at < timeout ? path->loss_at : timeout;
}
