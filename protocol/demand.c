/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links on demand, in a mesh of many ranks (doc/design/links.md): which pairs have links from the
 * start, when the others get theirs, and how ranks without a link hear that one has left.
 */
#include "protocol/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"

/* So many refusals in a row, over so long a time: the process of the peer has ended. One that lives
 * may refuse as well, in a rush of connections. */
#define REFUSALS      3
#define REFUSALS_TIME (1 * BR_SEC)
/* LEFT: ranks of one message, each plus one */
#define LEFT_RANKS (sizeof(struct br_body_left) / sizeof(uint32_t))

int br_demand_init(struct br_worker *w)
{
    if (!w->config.on_demand)
        return 0;
    w->left = calloc((size_t)w->config.size, sizeof *w->left);
    return w->left ? 0
                   : br_error(ENOMEM, "rank %d: no memory for %d ranks", w->config.rank,
                              w->config.size);
}

bool br_demand_in_tree(int a, int b)
{
    int child = a > b ? a : b, parent = a > b ? b : a;

    return (child - 1) / 2 == parent;
}

bool br_peer_is_unlinked(const struct br_peer *peer)
{
    if (!peer->on_demand)
        return false;
    for (int i = 0; i < peer->n_rails; i++)
        if (peer->rails[i].was_up)
            return false;
    return true;
}

void br_peer_want(struct br_worker *w, struct br_peer *peer)
{
    if (!peer->on_demand || peer->wanted)
        return;
    peer->wanted = true;
    for (int i = 0; i < peer->n_rails; i++)
        peer->rails[i].retry_at = w->now;
}

void br_demand_failed(struct br_worker *w, struct br_rail *rail, int error)
{
    struct br_peer *peer = rail->peer;
    uint64_t tried;
    char text[200];

    if (!peer->wanted || error == -ECANCELED || !br_peer_is_unlinked(peer))
        return;
    peer->refusals = error == -ECONNREFUSED ? peer->refusals + 1 : 0;
    tried = w->now - peer->wanted_since;
    if ((peer->refusals < REFUSALS * peer->n_rails || tried < REFUSALS_TIME) &&
        tried < 2 * w->config.peer_timeout)
        return;
    snprintf(text, sizeof text, "no link to it can be made: %.120s", rail->message);
    peer->wanted = false;
    br_peer_lost(w, rail, ECONNRESET, text);
}

/* Of links that both ends have shut: what they alone needed is given back, and who leaves is heard
 * by the tree. */
static void demand_shut(struct br_peer *peer)
{
    for (int i = 0; i < peer->n_rails; i++) {
        free(peer->rails[i].retained);
        peer->rails[i].retained = NULL;
    }
    peer->heard = peer->bye_due = false;
    peer->idle_agreed = peer->idle_asks = false;
    peer->idle_due = 0;
}

/* Is anything under way with the peer that the timers have to look at? */
static bool demand_is_used(const struct br_peer *peer)
{
    return br_peer_has_work(peer) || !br_list_empty(&peer->waiting) ||
           !br_list_empty(&peer->expecting) || !br_list_empty(&peer->moving) ||
           peer->state == BR_PEER_LEFT || peer->wanted;
}

bool br_demand_unlinked(struct br_worker *w, struct br_peer *peer)
{
    bool shut = peer->idle_agreed;

    if (!peer->on_demand || (peer->heard && !shut) || br_peer_is_up(peer))
        return false;
    for (int i = 0; i < peer->n_rails; i++) {
        struct br_rail *rail = &peer->rails[i];

        if (rail->was_up)
            rail->state = BR_RAIL_IDLE;
        rail->was_up = rail->unfenced = rail->quiet = false;
    }
    peer->down_due = peer->fenced_due = 0;
    peer->bye_sent = peer->wanted = false; /* until the next pump, if there is something to say */
    peer->wanted_since = 0;
    peer->refusals = 0;
    if (shut)
        demand_shut(peer);
    if (peer->left_noted || peer->state == BR_PEER_LEFT) {
        peer->bye_sent = true; /* it is gone, and there is nobody to say it to */
        if (peer->state != BR_PEER_LEFT)
            br_peer_has_left(w, peer);
    } else if (shut && w->tree_broken) {
        br_peer_want(w, peer);
    }
    if (!shut || demand_is_used(peer))
        br_peer_activate(w, peer);
    else
        br_list_remove(&peer->known);
    return true;
}

/* ---- who has left ---------------------------------------------------------------------------- */

bool br_demand_left(struct br_worker *w, int rank)
{
    if (!w->left || w->peers[rank].left_noted)
        return false;
    w->peers[rank].left_noted = true;
    w->left[w->n_left++] = rank;
    br_list_for_each (node, &w->known) {
        struct br_peer *peer = br_container_of(node, struct br_peer, known);

        if (!peer->in_tree)
            continue;
        peer->left_due = true;
        br_peer_activate(w, peer);
    }
    return true;
}

void br_demand_tree_broken(struct br_worker *w)
{
    w->tree_broken = true;
    for (int rank = 0; rank < w->config.size; rank++) {
        struct br_peer *peer = &w->peers[rank];

        if (!br_peer_is_unlinked(peer) || peer->left_noted)
            continue;
        br_demand_use(w, peer);
        br_peer_want(w, peer);
    }
}

bool br_demand_post_left(struct br_worker *w, struct br_peer *peer, struct br_rail *rail)
{
    while (peer->left_told < w->n_left) {
        struct br_message m = {.type = BR_MESSAGE_LEFT};
        int n = 0;

        for (; n < (int)LEFT_RANKS && peer->left_told + n < w->n_left; n++)
            m.left.ranks[n] = (uint32_t)w->left[peer->left_told + n] + 1;
        if (br_control_post(rail, &m, NULL, 0) != 1)
            return false;
        peer->left_told += n;
    }
    peer->left_due = false;
    return true;
}

void br_demand_received_left(struct br_worker *w, const struct br_message *m)
{
    for (uint32_t i = 0; i < LEFT_RANKS; i++) {
        uint32_t rank = m->left.ranks[i] - 1;
        struct br_peer *peer;

        if (rank >= (uint32_t)w->config.size || rank == (uint32_t)w->config.rank)
            continue; /* unused, or nonsense */
        peer = &w->peers[rank];
        if (!br_demand_left(w, (int)rank) || !br_peer_is_unlinked(peer) ||
            peer->state == BR_PEER_LEFT)
            continue;          /* with a link its BYE says it, behind all that it has sent */
        peer->bye_sent = true; /* as far as it need hear it */
        br_peer_has_left(w, peer);
        if (!w->leaving)
            br_demand_use(w, peer); /* something may wait for it */
    }
}
