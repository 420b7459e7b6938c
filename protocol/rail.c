/* SPDX-License-Identifier: BSD-3-Clause */
/* Window, rate and credits of one rail; peer.h has the reasons. Pure arithmetic over numbers that
 * others feed in. */
#include "protocol/internal.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"

#define FRAME_LEAST   (16u << 10)
#define FRAME_MOST    (256u << 10)
#define LEAST_DELAY   (25 * BR_MS)  /* of the least window of a slow path */
#define PERIOD        (100 * BR_MS) /* the volume is the maximum over one to two of these */
#define RATE_WINDOWS  8             /* the rate is the mean over as many, more or less, */
#define RATE_LEAST    (50 * BR_MS)  /* and over as long at least, */
#define RATE_MOST     (100 * BR_MS) /* and as long at most */
#define RATE_FIRST    (20 * BR_MS)  /* of a rail without a rate, instead of that */
#define RATE_AGE      BR_SEC        /* so long unconfirmed, the rate of a slow rail is forgotten */
#define RATE_ASIDE    (400 * BR_MS) /* the same, in flight without ever being full */
#define RATE_STILL    (100 * BR_MS) /* so long without an awaited ACK: nothing is left to the rail */
#define WINDOW_DELAYS 4
#define DRAIN         1.25 /* times the rate: a rate that is too small must be able to grow */
#define RTT_PERIOD    (10 * BR_SEC) /* after this the least round trip is measured anew */

int br_rail_prepare(const struct br_worker *w, struct br_rail *rail)
{
    uint32_t bytes = w->config.eager_bytes < BR_MAX_RKEYS ? BR_MAX_RKEYS : w->config.eager_bytes;

    if (rail->retained)
        return 0;
    /* 7 lines more than a multiple of 8: slots begin at different places of the cache. Not
     * aligned_alloc(): glibc's asks for more than it gives, so a block that was freed does not
     * serve again, and a process that makes and frees contexts grows. */
    rail->slot_bytes = ((bytes + 63) / 64 | 7) * 64;
    rail->retained =
        malloc(BR_UNRELEASED * (sizeof *rail->retained + (size_t)rail->slot_bytes) + 63);
    if (!rail->retained)
        return br_error(ENOMEM, "rank %d: no memory for the rails to rank %d", w->config.rank,
                        rail->peer->rank);
    rail->slots = (uint8_t *)(((uintptr_t)(rail->retained + BR_UNRELEASED) + 63) & ~(uintptr_t)63);
    return 0;
}

void br_rail_init(struct br_rail *rail, struct br_peer *peer, int index)
{
    rail->peer = peer;
    rail->index = (uint8_t)index;
    rail->state = BR_RAIL_IDLE;
    br_list_init(&rail->flights);
    br_list_init(&rail->unexpected);
}

/* What the rail delivers in its least round trip. */
static double path_bytes(const struct br_rail *rail)
{
    return (double)rail->volume * (double)rail->min_rtt / (double)br_rail_delay(rail);
}

/* BR_WINDOW_LEAST, or more as the rail's configuration says, but of a slow path what it carries in
 * LEAST_DELAY or in the window's delay, whichever is longer, and two frames at least. A path is
 * slow only where the back end says so, too: where ranks share cores, the rate is that of the
 * peer's turns. */
static uint64_t least_window(const struct br_rail *rail)
{
    uint64_t rate = rail->rate > rail->delivery_rate ? rail->rate : rail->delivery_rate,
             delay = br_rail_delay(rail) > LEAST_DELAY ? br_rail_delay(rail) : LEAST_DELAY,
             least = !rail->shared && rail->least_window > BR_WINDOW_LEAST ? rail->least_window
                                                                           : BR_WINDOW_LEAST;
    double bytes = 1e-9 * (double)rate * (double)delay;

    if (!rail->rate || !rail->delivery_rate || bytes > (double)least)
        return least;
    return bytes > 2 * FRAME_LEAST ? (uint64_t)bytes : 2 * FRAME_LEAST;
}

/* Frames are a quarter of the window, or FRAME_LEAST, so that preemption never waits for one large
 * frame alone. */
static void set_window(struct br_rail *rail)
{
    uint64_t window = rail->shared ? br_rail_shared_part(rail) : rail->volume,
             least = least_window(rail), most = br_rail_most_window(2 * path_bytes(rail));
    uint32_t frame;

    if (rail->starting && !rail->shared && window < rail->start_window)
        window = rail->start_window;
    if (window < least)
        window = least;
    if (window > most)
        window = most;
    frame = (uint32_t)window / 4;
    if (frame > FRAME_MOST)
        frame = FRAME_MOST;
    if (rail->device->caps.maps)
        /* whole slices: a mapping a slice is all a slot can hold */
        frame = rail->device->caps.max_frame;
    if (frame > rail->device->caps.max_frame)
        frame = rail->device->caps.max_frame;
    if (frame < FRAME_LEAST || rail->solo)
        frame =
            FRAME_LEAST < rail->device->caps.max_frame ? FRAME_LEAST : rail->device->caps.max_frame;
    rail->window = (uint32_t)window;
    rail->frame_bytes = frame;
}

/* Nothing is known of what the rail carries: slow start (section 1). */
static void start(struct br_rail *rail)
{
    rail->volume = rail->volume_now = rail->start_window = 0;
    rail->starting = true;
}

void br_rail_reset(struct br_rail *rail, uint64_t now)
{
    rail->tx_bytes = rail->acked_bytes = rail->ack_asked_bytes = rail->rx_bytes =
        rail->ack_rx_bytes = 0;
    rail->acked_at = now;
    rail->peer_ack_backlog = 0;
    rail->queued_bytes = 0;
    rail->queued_at = now;
    rail->probe_head = rail->probe_tail = 0;
    rail->sent = rail->peer_arrived = rail->peer_released = rail->slots_back = 0;
    for (uint8_t i = 0; i < BR_UNRELEASED; i++)
        rail->free_slots[i] = i;
    rail->n_free_slots = BR_UNRELEASED;
    rail->sent_bytes = rail->peer_released_bytes = 0;
    rail->credit_bytes = BR_CREDIT_BYTES;
    rail->arrived = rail->released = rail->announced = 0;
    rail->held_bytes = rail->released_bytes = rail->announced_bytes = 0;
    rail->pinged = 0;
    rail->unannounced_since = 0;
    rail->ack_due = rail->ping_due = rail->pong_due = false;
    rail->last_rx = rail->last_ping = now;
    rail->rate = rail->full_bytes = rail->full_time = rail->aside = rail->fastest = 0;
    rail->full_at = now;
    rail->measured = false;
    start(rail);
    rail->min_rtt = rail->min_rtt_until = rail->delivery_rate = 0;
    rail->window_at = now;
    rail->window_acked = 0;
    rail->full = rail->limited = rail->solo = false;
    rail->shared = rail->peer->shared;
    rail->shared_delay = rail->shared_from = 0;
    rail->period_end = now + PERIOD;
    set_window(rail);
}

uint64_t br_rail_in_flight(const struct br_rail *rail)
{
    return rail->tx_bytes - rail->acked_bytes;
}

uint32_t br_rail_ack_backlog(const struct br_rail *rail)
{
    uint64_t awaited =
        rail->ack_asked_bytes > rail->acked_bytes ? rail->ack_asked_bytes - rail->acked_bytes : 0;

    return awaited < rail->window ? (uint32_t)awaited : rail->window;
}

/* What may be in flight outside the window (doc/design/rails.md, section 2): all bytes behind which
 * ACKs come. On rails that priorities share, fewer where the path is short. */
static uint64_t outside_window(const struct br_rail *rail)
{
    uint64_t delay = br_rail_target(rail), come = rail->rx_bytes - rail->ack_rx_bytes,
             ahead = rail->peer_ack_backlog;

    if (rail->device->caps.sent_means_arrived)
        return 0;
    if (come > rail->window)
        come = rail->window;
    if (come > ahead)
        ahead = come;
    if (!rail->shared)
        return ahead;
    return delay ? ahead * 2 * rail->min_rtt / delay : 0;
}

/* What has been posted stands in front of the wire until the wire has carried it, by the rate. */
void br_rail_drain(struct br_rail *rail, uint64_t now)
{
    double carried = DRAIN * 1e-9 * (double)rail->rate * (double)(now - rail->queued_at);

    if (now < rail->queued_at) /* a thread that read the clock before another one's pass */
        return;
    if (!rail->rate || carried >= (double)rail->queued_bytes)
        rail->queued_bytes = 0;
    else
        rail->queued_bytes -= (uint64_t)carried;
    rail->queued_at = now;
}

uint64_t br_rail_drained_at(const struct br_rail *rail)
{
    uint64_t most = rail->window - rail->frame_bytes;

    if (!rail->rate || rail->queued_bytes <= most)
        return UINT64_MAX;
    return rail->queued_at +
           (uint64_t)((double)(rail->queued_bytes - most) * 1e9 / (DRAIN * (double)rail->rate));
}

/* Is anything in flight whose arrival will be told? On a byte stream nobody tells of the frames
 * behind the last one that asked for an ACK. */
static bool awaits_ack(const struct br_rail *rail)
{
    if (rail->device->caps.sent_means_arrived)
        return br_rail_in_flight(rail) > 0;
    return rail->acked_bytes < rail->ack_asked_bytes;
}

bool br_rail_has_window(const struct br_rail *rail, uint32_t length)
{
    uint64_t in_flight = br_rail_in_flight(rail);

    /* When the window has shrunk, none of the frames in flight may have asked for an ACK. Then one
     * more frame may leave: it asks. */
    if (rail->device->caps.maps || !awaits_ack(rail))
        return true;
    if (rail->solo)
        return false;
    return in_flight + length <= rail->window ||
           (in_flight + length <= rail->window + outside_window(rail) &&
            rail->queued_bytes + length <= rail->window);
}

int br_rail_compare(const struct br_rail *a, const struct br_rail *b)
{
    double in_a = (double)br_rail_in_flight(a), in_b = (double)br_rail_in_flight(b);

    if (a->rate && b->rate) {
        in_a /= (double)a->rate;
        in_b /= (double)b->rate;
    }
    return (in_a > in_b) - (in_a < in_b);
}

/* When a rail would have delivered `bytes` more, in seconds. */
static double rail_finish(const struct br_rail *rail, uint64_t bytes)
{
    return (double)(br_rail_in_flight(rail) + bytes) / (double)rail->rate;
}

/* Does it await an ACK for so long that it may be lost? Nothing is left to it then. */
static bool stands_still(const struct br_rail *rail, uint64_t now)
{
    return awaits_ack(rail) && now > rail->acked_at + RATE_STILL;
}

/*
 * Near the end of a transfer the last frame on a slow rail would decide when the transfer ends. So
 * a rail takes a frame only if it delivers it before the peer's other rails together could deliver
 * all that is left, or if none of them would deliver it sooner (hence always one takes it).
 */
bool br_rail_may_take(const struct br_rail *rail, uint64_t left, uint32_t length, uint32_t barred,
                      uint64_t now)
{
    const struct br_peer *peer = rail->peer;
    double mine, others_bytes = (double)left, others_rate = 0;
    bool sooner = false;

    if (!rail->rate || peer->n_rails == 1)
        return true;
    mine = rail_finish(rail, length);
    for (int i = 0; i < peer->n_rails; i++) {
        const struct br_rail *other = &peer->rails[i];

        if (other == rail || other->state != BR_RAIL_UP || other->alternate != rail->alternate ||
            (barred >> i & 1) || stands_still(other, now))
            continue;
        if (!other->rate)
            return true; /* nothing to compare with yet */
        sooner = sooner || rail_finish(other, length) < mine;
        others_bytes += (double)br_rail_in_flight(other);
        others_rate += (double)other->rate;
    }
    return !sooner || mine <= others_bytes / others_rate;
}

/* Ends the window of a volume, which was `span` long: what it says of one delay. */
static void end_window(struct br_rail *rail, uint64_t span, uint64_t now)
{
    uint64_t bytes = rail->acked_bytes - rail->window_acked, delay = br_rail_delay(rail);

    if (span > delay)
        bytes = (uint64_t)((double)bytes * (double)delay / (double)span);
    if (bytes > rail->volume_now)
        rail->volume_now = bytes;
    if (rail->volume_now > rail->volume)
        rail->volume = rail->volume_now;
    rail->window_at = now;
    rail->window_acked = rail->acked_bytes;
}

/* A window that has come back within half of its delay doubles. Not of several rails, which would
 * be full too seldom to have a rate. */
static void slow_start(struct br_rail *rail, uint64_t now)
{
    uint64_t span = now - rail->start_at;

    if (rail->peer->n_rails > 1 || !span || rail->acked_bytes < rail->start_bytes + rail->window)
        return;
    if (2 * span <= br_rail_delay(rail))
        rail->start_window = 2 * rail->window;
    rail->start_at = now;
    rail->start_bytes = rail->acked_bytes;
}

/* A frame of `length` bytes was just posted whose acknowledgement will be reported. */
static void remember_probe(struct br_rail *rail, uint32_t length, uint64_t now)
{
    struct br_probe *probe;

    if (rail->probe_head - rail->probe_tail == BR_PROBES)
        return; /* enough measurements under way */
    probe = &rail->probes[rail->probe_head++ % BR_PROBES];
    probe->tx_bytes = rail->tx_bytes;
    probe->posted_at = now;
    probe->in_flight = br_rail_in_flight(rail);
    probe->alone = probe->in_flight == length;
}

static void forget_rate(struct br_rail *rail)
{
    rail->rate = rail->full_bytes = rail->full_time = rail->aside = rail->fastest = 0;
}

/* Is another rail of the peer more than twice as fast? Then this one may be left aside. */
static bool is_outpaced(const struct br_rail *rail)
{
    const struct br_peer *peer = rail->peer;

    for (int i = 0; i < peer->n_rails; i++) {
        const struct br_rail *other = &peer->rails[i];

        if (other->state == BR_RAIL_UP && other->alternate == rail->alternate &&
            other->rate / 2 > rail->rate)
            return true;
    }
    return false;
}

/* The rate of an outpaced rail that nothing has confirmed for a while is forgotten, else a rail
 * that once looked slow would never be tried again. */
void br_rail_forget_rate(struct br_rail *rail, uint64_t now)
{
    if (now > rail->period_end + PERIOD)
        start(rail);
    if (now > rail->full_at + RATE_AGE && is_outpaced(rail))
        forget_rate(rail);
}

bool br_rail_asks(const struct br_rail *rail, uint32_t length)
{
    const struct br_caps *caps = &rail->device->caps;

    return !caps->maps && !caps->sent_means_arrived &&
           (rail->solo || rail->tx_bytes + length - rail->ack_asked_bytes >= rail->window / 8);
}

void br_rail_posted(struct br_rail *rail, uint32_t length, bool asks, uint64_t now)
{
    if (rail->shared)
        br_rail_shared_posted(rail, now);
    if (!awaits_ack(rail)) {
        /* A period also ends when nothing has been awaited for a while. */
        if (now - rail->acked_at >= br_rail_delay(rail))
            end_window(
                rail, rail->acked_at > rail->window_at ? rail->acked_at - rail->window_at : 0, now);
        rail->acked_at = now; /* the time since then says nothing about the rate: perhaps all that
                               * has left had long arrived */
        rail->ack_rx_bytes = rail->rx_bytes;
        rail->start_at = now;
        rail->start_bytes = rail->tx_bytes;
    }
    if (!rail->device->caps.sent_means_arrived) {
        br_rail_drain(rail, now);
        rail->queued_bytes += length;
    }
    rail->tx_bytes += length;
    rail->total_tx += length;
    rail->used = ++rail->peer->uses;
    if (!br_rail_has_window(rail, rail->frame_bytes))
        rail->full = rail->limited = true;
    if (asks)
        rail->ack_asked_bytes = rail->tx_bytes;
    if (asks || (rail->device->caps.sent_means_arrived && !rail->device->caps.maps))
        remember_probe(rail, length, now);
}

/* Once in a period the least round trip is measured anew, by a frame that has the rail to itself.
 * All other frames carry the delay of our own queue, and a window of twice that would double it in
 * every period. */
static void measured_rtt(struct br_rail *rail, const struct br_probe *probe, uint64_t rtt,
                         uint64_t now)
{
    bool old = now > rail->min_rtt_until;

    if (!rail->min_rtt || rtt < rail->min_rtt || (old && probe->alone)) {
        rail->min_rtt = rtt;
        rail->min_rtt_until = now + RTT_PERIOD;
        old = false;
    }
    rail->solo = old;
}

void br_rail_set_min_rtt(struct br_rail *rail, uint64_t min_rtt, uint64_t now)
{
    if (!min_rtt)
        return;
    rail->min_rtt = min_rtt;
    rail->min_rtt_until = now + RTT_PERIOD;
    rail->solo = false;
}

void br_rail_set_delivery_rate(struct br_rail *rail, uint64_t rate)
{
    double path = 2e-9 * (double)rail->min_rtt * (double)rate;

    rail->delivery_rate = rate;
    rail->credit_bytes = path < BR_CREDIT_BYTES  ? BR_CREDIT_BYTES
                         : path > BR_WINDOW_MOST ? BR_WINDOW_MOST
                                                 : (uint32_t)path;
}

/* `bytes` were acknowledged `span` after the acknowledgement before, and the rail was full. */
static void measure_rate(struct br_rail *rail, uint64_t bytes, uint64_t span, uint64_t now)
{
    bool enough;

    rail->full_bytes += bytes;
    rail->full_time += span;
    rail->full_at = now;
    rail->aside = 0;
    enough = rail->full_bytes >= RATE_WINDOWS * (uint64_t)rail->window ||
             rail->full_time >= (rail->rate ? RATE_MOST : RATE_FIRST);
    if (rail->full_time && (rail->rate || enough))
        rail->rate = (uint64_t)((double)rail->full_bytes * 1e9 / (double)rail->full_time);
    if (enough && rail->full_time >= RATE_LEAST) {
        rail->full_bytes /= 2;
        rail->full_time /= 2;
    }
}

/* `span` in flight, but not full: perhaps the rail is left aside because it seems slow. It is slow
 * if the answers confirm that, none of which showed twice its rate. A rail that no other one
 * outpaces is not left aside; its rate is what shows that the others are slow. */
static void doubt_rate(struct br_rail *rail, uint64_t span, uint64_t now)
{
    uint64_t before = rail->aside;

    rail->aside += span;
    if (rail->aside / PERIOD == before / PERIOD)
        return;
    if (!is_outpaced(rail)) {
        rail->aside = 0;
    } else if (rail->fastest && rail->fastest <= 2 * rail->rate) {
        rail->full_at = now;
        rail->aside = 0;
    } else if (rail->aside >= RATE_ASIDE) {
        forget_rate(rail);
    } else {
        rail->rate *= 2;
        rail->full_time /= 2;
    }
    rail->fastest = 0;
}

/* A frame was answered after `took`: what of this was neither the path nor a late ACK carried all
 * that was in flight with it. An ACK may be late by the window's delay, so it says nothing where
 * twice the rate would carry as much within that. */
static void note_fastest(struct br_rail *rail, const struct br_probe *probe, uint64_t took)
{
    uint64_t delay = br_rail_delay(rail), path = rail->min_rtt + delay;
    double in_flight = (double)probe->in_flight * 1e9,
           queue = took > path ? (double)(took - path) : 1;

    if (rail->rate && in_flight >= 2 * (double)rail->rate * (double)delay &&
        in_flight / queue > (double)rail->fastest)
        rail->fastest = (uint64_t)(in_flight / queue);
}

static void probe_answered(struct br_rail *rail, const struct br_probe *probe, uint64_t now)
{
    if (now <= probe->posted_at)
        /* posted and acknowledged within one pass: the clock is too coarse to say anything */
        return;
    if (rail->shared)
        br_rail_shared_answer(rail, probe, now);
    measured_rtt(rail, probe, now - probe->posted_at, now);
    note_fastest(rail, probe, now - probe->posted_at);
    if (now > rail->period_end) {
        if (rail->limited && rail->volume_now)
            /* a rail that was never full says nothing about what it could carry */
            rail->volume = rail->volume_now;
        rail->volume_now = 0;
        rail->limited = false;
        rail->period_end = now + PERIOD;
    }
    set_window(rail);
}

void br_peer_set_shared(struct br_peer *peer, bool shared)
{
    peer->shared = shared;
    for (int i = 0; i < peer->n_rails; i++) {
        struct br_rail *rail = &peer->rails[i];

        if (rail->state != BR_RAIL_UP)
            continue;
        rail->shared = shared;
        rail->shared_delay = 0;
        rail->shared_from = rail->tx_bytes;
        set_window(rail);
    }
}

void br_rail_acknowledged(struct br_rail *rail, uint64_t bytes, uint64_t now)
{
    if (bytes <= rail->acked_bytes || bytes > rail->tx_bytes)
        return; /* overtaken by a later ACK, or nonsense */
    /* of several ACKs of one step the first one opens the window */
    rail->measured = rail->full || (rail->measured && now == rail->acked_at);
    if (rail->measured)
        measure_rate(rail, bytes - rail->acked_bytes, now - rail->acked_at, now);
    else
        doubt_rate(rail, now - rail->acked_at, now);
    rail->acked_bytes = bytes;
    rail->acked_at = now;
    /* The period is long, so that what a shaper or a switch lets through at once counts little. */
    if (now - rail->window_at >= WINDOW_DELAYS * br_rail_delay(rail)) {
        end_window(rail, now - rail->window_at, now);
        rail->starting = rail->starting && !rail->measured;
    }
    if (rail->starting)
        slow_start(rail, now);
    while (rail->probe_tail != rail->probe_head) {
        const struct br_probe *probe = &rail->probes[rail->probe_tail % BR_PROBES];

        if (probe->tx_bytes > bytes)
            break;
        probe_answered(rail, probe, now);
        rail->probe_tail++;
    }
    rail->full = !br_rail_has_window(rail, rail->frame_bytes);
}

/* Counters only grow; older ones overtaken on an unordered link are ignored, impossible ones
 * too. */
static void rail_newer(uint32_t *mine, uint32_t said, uint32_t most)
{
    if (said - *mine <= most - *mine)
        *mine = said;
}

void br_rail_ack_received(struct br_rail *rail, const struct br_body_ack *ack, uint64_t now)
{
    rail_newer(&rail->peer_arrived, ack->arrived, rail->sent);
    rail_newer(&rail->peer_released, ack->released, rail->sent);
    rail_newer(&rail->peer_released_bytes, ack->released_bytes, rail->sent_bytes);
    if (rail->device->caps.sent_means_arrived)
        return;
    rail->peer_ack_backlog =
        ack->ack_backlog < BR_WINDOW_LONG ? (uint32_t)ack->ack_backlog : BR_WINDOW_LONG;
    rail->ack_rx_bytes = rail->rx_bytes;
    br_rail_acknowledged(rail, ack->bytes, now);
}

uint64_t br_worker_path_bytes(const struct br_worker *w)
{
    double bytes = 0;

    br_list_for_each (node, &w->known) {
        const struct br_peer *peer = br_container_of(node, struct br_peer, known);

        for (int i = 0; i < peer->n_rails; i++) {
            const struct br_rail *rail = &peer->rails[i];

            if (rail->state == BR_RAIL_UP && rail->volume)
                bytes += path_bytes(rail);
        }
    }
    return (uint64_t)bytes;
}

void br_rail_eager_released(struct br_rail *rail, const struct br_message *m)
{
    uint16_t n = (uint16_t)(m->released - rail->peer_released),
             units = (uint16_t)(m->released_units - rail->peer_released_bytes / BR_CREDIT_UNIT);

    rail_newer(&rail->peer_released, rail->peer_released + n, rail->sent);
    rail_newer(&rail->peer_arrived, rail->peer_released, rail->sent); /* before it was released */
    rail_newer(&rail->peer_released_bytes, rail->peer_released_bytes + units * BR_CREDIT_UNIT,
               rail->sent_bytes);
}

/* ---- what rails wait for, and how long: counters for the user (braid/stats.h) ---------------- */

/* Times are counted and not events: a worker that spins finds a full rail a million times a second,
 * and one that sleeps once. A cause lasts from the pump that found it to the next pump that finds
 * another one. A peer with something to send is pumped in every step of the worker, but while it is
 * blocked, and what ends the wait unblocks it; so the times are exact to one step. */
void br_stall_set(struct br_rail *rail, enum br_stall stall, uint64_t now)
{
    if (rail->stall == stall)
        return;
    if (rail->stall != BR_STALL_NONE && now > rail->stalled_since)
        rail->stalled[rail->stall] += now - rail->stalled_since;
    rail->stall = stall;
    rail->stalled_since = now;
}

uint64_t br_stall_time(const struct br_rail *rail, enum br_stall stall, uint64_t now)
{
    bool lasts = rail->stall == stall && now > rail->stalled_since;

    return rail->stalled[stall] + (lasts ? now - rail->stalled_since : 0);
}

static enum br_stall stall_cause(const struct br_rail *rail, bool full, bool data, bool messages)
{
    if (rail->state != BR_RAIL_UP)
        return BR_STALL_NONE;
    if (full)
        return BR_STALL_FULL;
    if (data && !br_rail_has_window(rail, rail->frame_bytes))
        return BR_STALL_WINDOW;
    return messages ? BR_STALL_CREDIT : BR_STALL_NONE;
}

void br_stall_note(const struct br_worker *w, struct br_peer *peer, uint32_t full, uint32_t stuck)
{
    bool data = stuck & (1u << BR_QUEUE_DATA | 1u << BR_QUEUE_RELAY),
         messages = stuck & (1u << BR_QUEUE_MESSAGES | 1u << BR_QUEUE_EAGER);

    peer->stalled = false;
    for (int i = 0; i < peer->n_rails; i++) {
        struct br_rail *rail = &peer->rails[i];
        bool idle = rail->alternate && br_peer_direct(peer); /* it is not to be used now */

        br_stall_set(rail, idle ? BR_STALL_NONE : stall_cause(rail, full >> i & 1, data, messages),
                     w->now);
        peer->stalled = peer->stalled || rail->stall != BR_STALL_NONE;
    }
}
