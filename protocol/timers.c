/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The timers of a worker: what is done once a BR_TIMER_PERIOD, and when it has to be done again.
 */
#include "protocol/internal.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"

/* Credits are given back after this at the latest. Three quarters of them are never held back
 * (br_rail_check_credits()), so nobody waits for these: sooner, each message of a slow exchange
 * would have a message back, and wake its sender. */
#define ACK_DELAY (10 * BR_MS)
/* After this part of the peer timeout in silence a rail is asked: of a mesh, of a BCube. */
#define ASK_PART       4
#define RELAY_ASK_PART 16
/* A pass may be so much later than it should before this process counts as starved. */
#define LATE (10 * BR_MS)

static uint64_t timers_ask_after(const struct br_worker *w)
{
    return w->config.peer_timeout / (w->relay ? RELAY_ASK_PART : ASK_PART);
}

/* A silent rail is asked, and given up after its patience: doc/design/failures.md, section 4. */
static void timers_keepalive(struct br_worker *w, struct br_rail *rail)
{
    uint64_t silent = w->now - rail->last_rx, ask = timers_ask_after(w);
    char text[100];

    if (silent > rail->patience) {
        snprintf(text, sizeof text, "silent for %llu ms", (unsigned long long)(silent / BR_MS));
        br_rail_lost(w, rail, ETIMEDOUT, text);
    } else if (silent > ask && w->now - rail->last_ping > ask) {
        rail->last_ping = w->now;
        rail->ping_due = true;
        br_peer_activate(w, rail->peer);
    }
}

/* When ACK leaves, whatever comes or does not, ns; UINT64_MAX: it has nothing to say. */
static uint64_t rail_ack_at(const struct br_rail *rail)
{
    if (!rail->unannounced_since)
        return UINT64_MAX;
    return rail->unannounced_since + (br_rail_owes_credits(rail) ? 0 : ACK_DELAY + 1);
}

static void rail_timers(struct br_worker *w, struct br_rail *rail, uint64_t missed)
{
    if (rail->state != BR_RAIL_UP)
        return;
    rail->last_rx = rail->last_rx + missed < w->now ? rail->last_rx + missed : w->now;
    if (w->now >= rail_ack_at(rail)) {
        rail->ack_due = true;
        br_peer_activate(w, rail->peer);
    } else if (rail->unannounced_since && br_rail_owes_credits(rail)) {
        w->owes_credits = true; /* since a look that had a later clock */
    }
    br_rail_forget_rate(rail, w->now);
    br_rail_set_min_rtt(rail, rail->link->facts.min_rtt, w->now);
    br_rail_set_delivery_rate(rail, rail->link->facts.delivery_rate);
    timers_keepalive(w, rail);
}

/* For how long (ns) this process should have run since the last timers and did not: by that time no
 * other process may be judged (doc/design/failures.md, section 4). */
static uint64_t time_missed(const struct br_worker *w)
{
    uint64_t due = w->last_timers + BR_TIMER_PERIOD;

    if (w->promised == UINT64_MAX)
        return 0;
    if (due < w->promised)
        due = w->promised;
    return w->last_timers && w->now > due + LATE ? w->now - due - LATE : 0;
}

void br_worker_timers(struct br_worker *w, bool drained)
{
    uint64_t missed = time_missed(w);

    w->last_timers = w->now;
    if (w->now >= w->promised || w->promised == UINT64_MAX)
        w->promised = 0; /* else somebody may sleep until then, also if others look meanwhile */
    w->owes_credits = false;
    w->in_batch = true;
    br_connect_timers(w, missed);
    br_agree_timer(w);
    br_peers_unblock(w);
    br_list_for_each_safe (node, &w->known) {
        struct br_peer *peer = br_container_of(node, struct br_peer, known);

        br_waiting_timer(w, peer);
        br_idle_timer(w, peer);
        if (drained)
            br_left_timer(w, peer);
        for (int i = 0; i < peer->n_rails; i++)
            rail_timers(w, &peer->rails[i], missed);
    }
    if (w->relay)
        br_relay_timers(w, missed);
    w->in_batch = false;
    br_links_close_deferred(w);
}

static uint64_t rail_next_timer(const struct br_worker *w, const struct br_rail *rail)
{
    uint64_t next;

    switch (rail->state) {
    case BR_RAIL_IDLE:
    case BR_RAIL_FENCING:
        return br_rail_connects(w, rail) ? rail->retry_at : UINT64_MAX;
    case BR_RAIL_CONNECTING:
    case BR_RAIL_HANDSHAKE:
        return rail->deadline;
    case BR_RAIL_UP:
        next = (rail->last_rx > rail->last_ping ? rail->last_rx : rail->last_ping) +
               timers_ask_after(w) + 1;
        if (rail->last_rx + rail->patience + 1 < next)
            next = rail->last_rx + rail->patience + 1;
        if (rail_ack_at(rail) < next)
            next = rail_ack_at(rail);
        return next;
    default:
        return UINT64_MAX;
    }
}

/* When a pump is to look at the blocked peers, whatever comes or does not. */
static uint64_t blocked_next_timer(const struct br_worker *w)
{
    uint64_t next = UINT64_MAX;

    if (br_list_empty(&w->blocked))
        return UINT64_MAX;
    if (w->blocked_until != UINT64_MAX)
        next = w->blocked_until + 1;
    return w->blocked_shared && w->shared_until < next ? w->shared_until : next;
}

uint64_t br_worker_no_timer_before(const struct br_worker *w)
{
    uint64_t next = w->last_timers + BR_TIMER_PERIOD, blocked = blocked_next_timer(w);

    if (w->failed)
        return 0;
    return blocked < next ? blocked : next;
}

uint64_t br_worker_next_timer(struct br_worker *w)
{
    uint64_t next, relay, blocked;

    if (w->failed)
        return w->fail_due ? w->fail_at : UINT64_MAX;
    next = br_connect_next_timer(w);
    if (w->dispute_until && w->dispute_until < next)
        next = w->dispute_until;
    relay = w->relay ? br_relay_next_timer(w) : UINT64_MAX;
    next = relay < next ? relay : next;
    br_list_for_each (node, &w->known) {
        const struct br_peer *peer = br_container_of(node, const struct br_peer, known);
        uint64_t at = br_waiting_next_timer(peer), idle = br_idle_next_timer(w, peer);

        if (idle < at)
            at = idle;
        if (peer->left_check && peer->left_check < at)
            at = peer->left_check;
        for (int i = 0; i < peer->n_rails; i++) {
            if (at < next)
                next = at;
            at = rail_next_timer(w, &peer->rails[i]);
        }
        if (at < next)
            next = at;
    }
    if (w->config.sleep_max && next > w->now + w->config.sleep_max)
        next = w->now + w->config.sleep_max;
    /* br_worker_timers() runs once a period at most */
    if (next < w->last_timers + BR_TIMER_PERIOD)
        next = w->last_timers + BR_TIMER_PERIOD;
    if (!w->config.sleep_max || w->promised < next)
        w->promised = next;
    blocked = blocked_next_timer(w);
    return blocked < next ? blocked : next;
}
