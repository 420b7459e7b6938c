/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links on demand that are long unused are shut: the pair is without links as before its first need
 * of them, and the next need makes them again. doc/design/links.md, section 4, has the argument why
 * nothing is lost, whatever comes between.
 *
 * The larger rank asks (ASK). The smaller one, if it has nothing under way either, agrees (OK), and
 * from then on sends neither DATA nor numbered messages. When the larger one has still nothing
 * under way as OK comes, it closes all links; else it says OFF, after which the smaller one goes
 * on. So the larger rank never waits, and the smaller one for one round trip at most.
 */
#include "protocol/internal.h"

#include <errno.h>

#include "base/log.h"

#define LOOKS 8 /* in the idle time of a pair */

/* What has been exchanged with the peer so far; control messages, PING above all, are not. */
static uint64_t idle_uses(const struct br_peer *peer)
{
    uint64_t uses = peer->uses + peer->messages;

    for (int k = 0; k < BR_STREAMS; k++)
        uses += peer->streams[k].sequence;
    for (int i = 0; i < peer->n_rails; i++)
        uses += peer->rails[i].rx_frames;
    return uses;
}

static bool table_has(const struct br_table *table, int rank)
{
    for (uint32_t i = 0; table->count && i <= table->mask; i++)
        if (table->entries[i].used && table->entries[i].peer == (uint32_t)rank)
            return true;
    return false;
}

/* A large receive that has its slot, or waits for one. Those of one-sided accesses are in no table.
 */
static bool receives_large(const struct br_worker *w, int rank)
{
    for (uint32_t i = 0; i < w->slots.fresh; i++) {
        const struct br_slot *slot = &w->slots.slots[i];

        if (slot->used && ((const struct br_transfer *)slot->owner)->peer == rank)
            return true;
    }
    for (int k = 0; k < BR_SLOTLESS; k++)
        br_list_for_each (node, &w->slotless[k])
            if (br_container_of(node, const struct br_transfer, node)->peer == rank)
                return true;
    return false;
}

/* Has every message of ours been released, and has every byte of DATA arrived? */
static bool idle_is_settled(const struct br_rail *rail)
{
    return rail->sent == rail->peer_released && rail->tx_bytes == rail->acked_bytes;
}

/* Asks: on a byte stream nobody tells of the last bytes. */
static void idle_settle(struct br_worker *w, struct br_peer *peer)
{
    for (int i = 0; i < peer->n_rails; i++)
        if (peer->rails[i].state == BR_RAIL_UP && !idle_is_settled(&peer->rails[i])) {
            peer->rails[i].ping_due = true;
            br_peer_activate(w, peer);
        }
}

/* Is nothing under way with the peer, as far as this end knows, and is every rail whole? */
static bool idle_is_quiet(const struct br_worker *w, const struct br_peer *peer)
{
    if (w->leaving || w->tree_broken || peer->state != BR_PEER_UP || peer->bye_received ||
        peer->idle_uses != idle_uses(peer))
        return false;
    for (int i = 0; i < peer->n_rails; i++) {
        const struct br_rail *rail = &peer->rails[i];

        if (rail->state != BR_RAIL_UP || rail->quiet || br_rail_held(rail) ||
            !idle_is_settled(rail) || !br_list_empty(&rail->flights))
            return false;
    }
    for (int k = 0; k < BR_QUEUES; k++)
        if (!br_list_empty(&peer->queues[k].entries))
            return false;
    if (br_numbered_again(peer) || !br_list_empty(&peer->moving) ||
        !br_list_empty(&peer->waiting) || !br_list_empty(&peer->expecting) ||
        peer->done_head != peer->done_tail || peer->down_due || peer->fenced_due ||
        peer->waiting_due || peer->renew_due || peer->put_done.type || peer->bye_due)
        return false;
    return !table_has(&w->receives, peer->rank) && !table_has(&w->sends, peer->rank) &&
           !table_has(&w->confirms, peer->rank) && !receives_large(w, peer->rank);
}

void br_idle_timer(struct br_worker *w, struct br_peer *peer)
{
    uint64_t uses;

    if (w->now < br_idle_next_timer(w, peer))
        return;
    peer->idle_look = w->now + w->config.link_idle / LOOKS;
    uses = idle_uses(peer);
    if (uses != peer->idle_uses) {
        peer->idle_uses = uses;
        peer->idle_since = w->now;
        return;
    }
    if (w->config.rank < peer->rank || peer->idle_due ||
        w->now - peer->idle_since < w->config.link_idle)
        return;
    if (!idle_is_quiet(w, peer)) {
        idle_settle(w, peer);
        return;
    }
    peer->idle_round++;
    peer->idle_asks = true;
    peer->idle_due = BR_IDLE_ASK;
    br_peer_activate(w, peer);
}

uint64_t br_idle_next_timer(const struct br_worker *w, const struct br_peer *peer)
{
    return w->config.link_idle && peer->on_demand && br_peer_is_up(peer) ? peer->idle_look
                                                                         : UINT64_MAX;
}

/* From now on, or no longer, this end says nothing that may be lost. */
static void idle_agree(struct br_peer *peer, bool agreed)
{
    peer->idle_agreed = agreed;
    for (int i = 0; i < peer->n_rails; i++)
        peer->rails[i].quiet = agreed;
}

/* The smaller rank's answer. Half the time is enough: the ends do not look at the same moment. */
static enum br_idle_kind idle_answer(struct br_worker *w, struct br_peer *peer)
{
    if (peer->idle_agreed)
        return BR_IDLE_OK; /* once more (br_idle_rail_lost()) */
    if (w->config.link_idle && w->now - peer->idle_since >= w->config.link_idle / 2) {
        if (idle_is_quiet(w, peer))
            return BR_IDLE_OK;
        idle_settle(w, peer);
    }
    return BR_IDLE_OFF;
}

bool br_idle_post(struct br_worker *w, struct br_peer *peer, struct br_rail *rail)
{
    struct br_message m = {.type = BR_MESSAGE_IDLE,
                           .idle = {.kind = peer->idle_due, .round = peer->idle_round}};

    if (m.idle.kind == BR_IDLE_OK)
        m.idle.kind = idle_answer(w, peer);
    if (br_control_post(rail, &m, NULL, 0) != 1)
        return false;
    peer->idle_due = 0;
    if (m.idle.kind == BR_IDLE_OK)
        idle_agree(peer, true);
    return true;
}

void br_idle_shut(struct br_worker *w, struct br_peer *peer)
{
    br_log_debug("rank %d: the links to rank %d are shut, as they are long unused", w->config.rank,
                 peer->rank);
    peer->idle_agreed = true;
    for (int i = 0; i < peer->n_rails; i++)
        br_rail_lost(w, &peer->rails[i], ESHUTDOWN, "shut, as it was long unused");
}

void br_idle_rail_lost(const struct br_worker *w, struct br_peer *peer)
{
    if (w->config.rank < peer->rank && peer->idle_agreed) {
        peer->idle_due = BR_IDLE_OK;
    } else if (w->config.rank > peer->rank && peer->idle_round) {
        peer->idle_asks = false;
        peer->idle_due = BR_IDLE_OFF;
    }
}

/* ASK or OFF has come, at the smaller rank. */
static void idle_asked(struct br_worker *w, struct br_peer *peer, const struct br_body_idle *idle)
{
    int32_t newer = (int32_t)(idle->round - peer->idle_round);

    if (newer < 0 || (newer == 0 && idle->kind == BR_IDLE_ASK))
        return; /* overtaken */
    peer->idle_round = idle->round;
    if (peer->idle_agreed) /* to an earlier round, or to this one, which is off */
        idle_agree(peer, false);
    peer->idle_due = idle->kind == BR_IDLE_ASK ? BR_IDLE_OK : 0;
    br_peer_activate(w, peer);
}

void br_idle_received(struct br_worker *w, struct br_peer *peer, const struct br_body_idle *idle)
{
    bool ours = w->config.rank > peer->rank; /* this rank asks */

    if (!peer->on_demand || idle->kind < BR_IDLE_ASK || idle->kind > BR_IDLE_OFF ||
        (idle->kind == BR_IDLE_ASK && ours) || (idle->kind == BR_IDLE_OK && !ours)) {
        w->counters.dropped_messages++;
    } else if (!ours) {
        idle_asked(w, peer, idle);
    } else if (idle->kind == BR_IDLE_OFF) {
        peer->idle_asks = peer->idle_asks && idle->round != peer->idle_round;
    } else if (peer->idle_asks && idle->round == peer->idle_round && idle_is_quiet(w, peer)) {
        br_idle_shut(w, peer);
    } else {
        peer->idle_asks = false;
        peer->idle_due = BR_IDLE_OFF;
        br_peer_activate(w, peer);
    }
}
