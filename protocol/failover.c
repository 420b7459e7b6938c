/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rail is lost, and what was on it moves to the peer's other rails: doc/design/failures.md,
 * sections 1 to 3.
 */
#include "protocol/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

#define BACKOFF_FIRST    (10 * BR_MS)
#define ALTERNATES_QUIET (60 * BR_SEC)

void br_link_defer_close(struct br_worker *w, struct br_link *link)
{
    link->owner = NULL;
    w->deferred[w->n_deferred++] = link;
    if (!w->in_batch)
        br_links_close(w);
}

void br_links_close(struct br_worker *w)
{
    while (w->n_deferred) {
        struct br_link *link = w->deferred[--w->n_deferred];

        link->device->ops->link_close(link);
    }
}

/* Copies every message that may not have arrived; they leave on the next rail that has a buffer. */
static void keep_messages(struct br_worker *w, struct br_rail *rail)
{
    bool goes_again = rail->keeps && !(rail->spares && br_rail_ends_peer(rail));

    for (uint32_t i = rail->peer_arrived; goes_again && i != rail->sent; i++) {
        const struct br_retained *keep = &rail->retained[i % BR_UNRELEASED];
        struct br_unacked *unacked = malloc(sizeof *unacked + keep->length);

        if (!unacked) {
            br_worker_fail(w, ENOMEM, "no memory to keep the messages of a lost rail");
            return;
        }
        br_list_init(&unacked->node);
        unacked->message = keep->message;
        unacked->length = keep->length;
        if (keep->length)
            memcpy(unacked->data, keep->memory, keep->length);
        br_list_push_back(&rail->peer->streams[br_stream_of(keep->message.tag)].resend,
                          &unacked->node);
    }
}

static void drop_flights(struct br_worker *w, struct br_rail *rail)
{
    struct br_list *node;

    while ((node = br_list_pop_front(&rail->flights))) {
        struct br_flight *flight = br_container_of(node, struct br_flight, node);

        if (!flight->transfer) {
            br_relay_dropped(w, flight);
            continue;
        }
        flight->transfer->flights--;
        flight->transfer->lost_rails |= (uint8_t)(1u << rail->index);
        br_pool_put(&w->flights, flight);
    }
}

bool br_peer_is_up(const struct br_peer *peer)
{
    for (int i = 0; i < peer->n_rails; i++)
        if (peer->rails[i].state == BR_RAIL_UP)
            return true;
    return false;
}

/* Does the loss of its last rail count as leaving? Of a rank that has said so. A rank that leaves
 * itself needs nobody any more, and those who do notice a dead peer by their own links. On demand
 * they may have none, and would hear from this rank that the peer has left. Who closes the rail is
 * not dead: its BYE may have been lost on the way. */
static bool failover_has_left(const struct br_worker *w, const struct br_peer *peer, int error)
{
    if (peer->state == BR_PEER_LEFT)
        return true;
    return w->leaving && (!w->left || peer->left_noted || peer->bye_received ||
                          br_peer_is_unlinked(peer) || error == ESHUTDOWN);
}

void br_peer_lost(struct br_worker *w, struct br_rail *rail, int error, const char *why)
{
    struct br_peer *peer = rail->peer;
    char text[320];

    if (failover_has_left(w, peer, error)) {
        peer->state = BR_PEER_LEFT;
        br_demand_left(w, peer->rank);
        if (peer->in_tree)
            br_demand_tree_broken(w);
        peer->bye_sent = true; /* there is no way left to say it */
        br_left_unreachable(w, rail, why);
        return;
    }
    peer->state = BR_PEER_DEAD;
    snprintf(text, sizeof text, "rank %d is lost: its last rail (level %d, device %s) failed: %s",
             peer->rank, rail->level, rail->device->name, why);
    br_worker_fail(w, error == EPROTO ? EPROTO : ECONNRESET, text);
}

/* Of the alternate routes to a peer one a minute: a fault in between, which its neighbours warn of,
 * breaks many of them, and they are soon up again on other routes. */
static void warn_lost(struct br_worker *w, const struct br_rail *rail)
{
    struct br_peer *peer = rail->peer;
    char more[64] = "";

    if (rail->alternate && peer->alternates_warned &&
        w->now - peer->alternates_warned < ALTERNATES_QUIET) {
        peer->alternates_quiet++;
        br_log_info("rank %d: rail to rank %d on level %d (device %s) is lost: %s", w->config.rank,
                    peer->rank, rail->level, rail->device->name, rail->message);
        return;
    }
    if (rail->alternate) {
        if (peer->alternates_quiet)
            snprintf(more, sizeof more, " (%u losses before were not warned of)",
                     peer->alternates_quiet);
        peer->alternates_warned = w->now;
        peer->alternates_quiet = 0;
    }
    br_log_warn(
        "rank %d: rail to rank %d on level %d (device %s) is lost: %s; its slices move to the "
        "other rails%s",
        w->config.rank, peer->rank, rail->level, rail->device->name, rail->message, more);
}

void br_rail_lost(struct br_worker *w, struct br_rail *rail, int error, const char *text)
{
    struct br_peer *peer = rail->peer;

    if (rail->state != BR_RAIL_UP)
        return;
    snprintf(rail->message, sizeof rail->message, "%s", text);
    rail->failures += !peer->idle_agreed;
    rail->state = BR_RAIL_FENCING;
    rail->unfenced = true;
    rail->lost = rail->incarnation;
    rail->backoff = BACKOFF_FIRST;
    rail->retry_at = w->now + rail->backoff;
    br_match_forget_link(w, rail);
    keep_messages(w, rail);
    drop_flights(w, rail);
    if (rail->relay && w->relay)
        br_relay_rail_lost(w, rail);
    br_stall_set(rail, BR_STALL_NONE, w->now);
    if (rail->link) {
        rail->resent_packets += rail->link->facts.resent_packets;
        br_link_defer_close(w, rail->link);
    }
    rail->link = NULL;
    if (br_demand_unlinked(w, peer))
        return;
    br_idle_rail_lost(w, peer);
    if (!br_peer_is_up(peer)) {
        if (!br_relay_may_reach(w, peer)) {
            br_peer_lost(w, rail, error, rail->message);
            return;
        }
        br_relay_cut(w, peer, error == ETIMEDOUT ? rail->last_rx : w->now);
    }
    /* else it goes in good order, one rail after the other */
    if (peer->state != BR_PEER_LEFT && !w->leaving && !peer->idle_agreed)
        warn_lost(w, rail);
    peer->bye_sent = false; /* what was said through the lost rail may be lost as well */
    peer->left_told = 0;
    peer->left_due = peer->in_tree && w->n_left;
    for (int i = 0; i < peer->n_rails; i++)
        if (peer->rails[i].unfenced)
            peer->down_due |= (uint8_t)(1u << i);
    br_peer_activate(w, peer);
}

/* Queues the slices of t that went through the lost rail. */
static void failover_send_again(struct br_worker *w, struct br_peer *peer, struct br_transfer *t,
                                uint8_t bit)
{
    uint32_t n_slices = (t->length + t->slice_bytes - 1) / t->slice_bytes;
    uint64_t again = 0;

    if (peer->rkey_rails) {
        br_rkey_fenced(w, peer, t, bit);
        return;
    }
    t->lost_rails &= (uint8_t)~bit;
    for (uint32_t i = 0; i < n_slices; i++)
        if (t->slice_rails[i] & bit) {
            t->slice_rails[i] &= (uint8_t)~bit;
            again |= 1ull << i;
        }
    if (bit)
        peer->rails[__builtin_ctz(bit)].resent_slices += (uint64_t)__builtin_popcountll(again);
    if (!again && t->wants_done && t->state == BR_TRANSFER_CONFIRMING)
        again = 1ull << ((t->length - 1) / t->slice_bytes);
    if (again) {
        t->resend |= again;
        t->resend_at = 0;
        if (t->state == BR_TRANSFER_CONFIRMING) {
            t->state = BR_TRANSFER_MOVING;
            br_queue_insert(&peer->queues[BR_QUEUE_DATA], &t->queued, w->now);
        }
    } else {
        br_send_check_end(w, t);
    }
}

void br_rail_fenced(struct br_worker *w, struct br_rail *rail)
{
    struct br_peer *peer = rail->peer;

    rail->unfenced = false;
    peer->down_due &= (uint8_t) ~(1u << rail->index);
    if (rail->state == BR_RAIL_FENCING) { /* else it connects already */
        rail->state = BR_RAIL_IDLE;
        rail->backoff = BACKOFF_FIRST;
        rail->retry_at = w->now + rail->backoff;
    }
    br_list_for_each_safe (node, &peer->moving)
        failover_send_again(w, peer, br_container_of(node, struct br_transfer, node),
                            (uint8_t)(1u << rail->index));
    br_peer_activate(w, peer);
}

void br_rail_give_up(struct br_worker *w, struct br_rail *rail, const char *text)
{
    if (rail->state == BR_RAIL_UP)
        br_rail_lost(w, rail, ECONNRESET, text);
    else if (rail->link)
        br_connect_abandon(w, rail);
}

void br_rail_confirmed_fenced(struct br_worker *w, struct br_peer *peer, uint32_t index,
                              uint32_t incarnation)
{
    struct br_rail *rail = index < (uint32_t)peer->n_rails ? &peer->rails[index] : NULL;

    if (!rail || !rail->unfenced || rail->lost != incarnation)
        return; /* said twice */
    br_rail_fenced(w, rail);
}

void br_peer_ask_again(struct br_worker *w, struct br_peer *peer)
{
    for (int i = 0; i < peer->n_rails; i++)
        if (peer->rails[i].unfenced)
            peer->down_due |= (uint8_t)(1u << i);
    br_list_for_each_safe (node, &peer->moving)
        failover_send_again(w, peer, br_container_of(node, struct br_transfer, node), 0);
    br_peer_activate(w, peer);
}

void br_rail_reported_down(struct br_worker *w, struct br_peer *peer, uint32_t index,
                           uint32_t incarnation)
{
    struct br_rail *rail = index < (uint32_t)peer->n_rails ? &peer->rails[index] : NULL;

    if (!rail || (int32_t)(rail->incarnation - incarnation) < 0)
        return; /* of a connection to come */
    if (rail->state == BR_RAIL_UP && rail->incarnation == incarnation)
        br_rail_lost(w, rail, ECONNRESET, "the other end lost it");
    else if ((int32_t)(incarnation - rail->up) > 0) /* its WELCOME was lost with it */
        br_peer_ask_again(w, peer);
    rail->fenced = incarnation;
    peer->fenced_due |= (uint8_t)(1u << index);
    br_peer_activate(w, peer);
}

uint64_t br_worker_broken_links(const struct br_worker *w)
{
    const struct br_bcube *cube = &w->config.cube;
    uint32_t links = cube->k * (cube->n - 1);
    uint64_t broken = 0;

    for (uint32_t bit = 0; w->relay && links <= 64 && bit < links; bit++) {
        uint32_t rank = br_bcube_neighbour(cube, (uint32_t)w->config.rank, bit / (cube->n - 1),
                                           bit % (cube->n - 1));

        if (rank < (uint32_t)w->config.size && w->peers[rank].state != BR_PEER_LEFT &&
            !br_peer_direct(&w->peers[rank]))
            broken |= 1ull << bit;
    }
    return broken;
}
