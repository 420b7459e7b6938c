/* SPDX-License-Identifier: BSD-3-Clause */
/* What rails wait for, and how long: counters for the user (braid/stats.h). */
#include "protocol/internal.h"

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
