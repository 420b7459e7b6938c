/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which peers get alternate routes, when, and which routes these take.
 *
 * 1. The alternate routes of a neighbour connect when its direct rail is lost. Those of another
 *    peer connect when there is first something to send to it or to receive from it. Alternate
 *    routes that are up when a direct rail comes back stay, unused, until their route breaks.
 * 2. Disjoint routes come first, one for each alternate route, then routes that share no host in
 *    between with the others. Routes avoid what is known to be broken: our own rails that are down,
 *    and hops that other hosts have named in the last seconds. When no route is left, the disjoint
 *    ones are taken all the same, as what is known may be out of date.
 */
#include "protocol/relay/relay.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

#define BACKOFF_FIRST  (5 * BR_MS)
#define REQUEST_PERIOD (20 * BR_MS)
#define REQUEST_HOLDS  (500 * BR_MS)
#define LEARNED_HOLDS  (2 * BR_SEC)

static bool is_neighbour(const struct br_worker *w, int rank)
{
    return br_bcube_level(&w->config.cube, (uint32_t)w->config.rank, (uint32_t)rank) >= 0;
}

int br_relay_alternates(const struct br_worker *w, int rank)
{
    int n = (int)w->config.cube.k - is_neighbour(w, rank);

    return n < 2 ? 2 : n > BR_RELAY_ALTERNATES ? BR_RELAY_ALTERNATES : n;
}

/* ---- peers ----------------------------------------------------------------------------------- */

int br_relay_reach(struct br_worker *w, int rank)
{
    struct br_peer *peer = &w->peers[rank];
    int rc;

    if (peer->n_rails)
        return 0;
    if (!w->relay || is_neighbour(w, rank))
        return br_error(EHOSTUNREACH,
                        "rank %d cannot reach rank %d: they are not neighbours, and there is no "
                        "rail between them",
                        w->config.rank, rank);
    rc = br_worker_set_peer(w, rank, NULL, 0);
    if (!rc)
        br_relay_cut(w, peer, w->now);
    return rc;
}

bool br_relay_may_reach(const struct br_worker *w, const struct br_peer *peer)
{
    if (!w->relay || peer->state == BR_PEER_LEFT || peer->state == BR_PEER_DEAD)
        return false;
    return !w->leaving || !br_list_empty(&peer->streams[0].resend) ||
           !br_list_empty(&peer->streams[1].resend);
}

void br_relay_cut(struct br_worker *w, struct br_peer *peer, uint64_t since)
{
    peer->cut_at = since ? since : 1;
    peer->request_at = w->now;
    for (int i = 0; i < peer->n_rails; i++) {
        struct br_rail *rail = &peer->rails[i];

        if (rail->state != BR_RAIL_IDLE && rail->state != BR_RAIL_FENCING)
            continue;
        rail->timeouts = 0;
        rail->backoff = BACKOFF_FIRST;
        rail->retry_at = rail->alternate ? w->now : w->now + BACKOFF_FIRST;
    }
}

bool br_relay_wants(const struct br_worker *w, const struct br_rail *rail)
{
    const struct br_peer *peer = rail->peer;

    if (peer->state == BR_PEER_LEFT || peer->state == BR_PEER_DEAD)
        return false;
    if (br_peer_direct(peer))
        return w->now < peer->requested_until;
    return !is_neighbour(w, peer->rank) || peer->rails[0].was_up;
}

void br_relay_connect_requested(struct br_relay *relay, uint32_t from)
{
    struct br_worker *w = relay->w;
    struct br_peer *peer = &w->peers[from];

    if (from >= (uint32_t)w->config.rank || br_relay_reach(w, (int)from))
        return;
    if (w->now >= peer->requested_until) /* else it has been heard */
        for (int i = peer->n_rails - peer->n_alternates; i < peer->n_rails; i++)
            if (peer->rails[i].state == BR_RAIL_IDLE)
                peer->rails[i].retry_at = w->now;
    peer->requested_until = w->now + REQUEST_HOLDS;
}

/* ---- routes ---------------------------------------------------------------------------------- */

void br_relay_learn(struct br_relay *relay, uint32_t from, uint32_t to)
{
    struct br_relay_learned *place = &relay->learned[0];

    if (br_bcube_level(&relay->w->config.cube, from, to) < 0)
        return;
    for (uint32_t i = 0; i < BR_RELAY_LEARNED; i++) {
        struct br_relay_learned *l = &relay->learned[i];

        if (l->from == from && l->to == to) {
            place = l;
            break;
        }
        if (l->until < place->until)
            place = l;
    }
    *place = (struct br_relay_learned){(uint16_t)from, (uint16_t)to, relay->w->now + LEARNED_HOLDS};
}

static void peer_add_nic(struct br_failures *failures, uint32_t host, int level)
{
    br_failures_add(failures, BR_FAILURE_NIC, host,
                    (uint32_t)level); /* without memory we know less: no harm */
}

/* Who misses one neighbour blames that one's NIC, who misses several blames its own. */
static void add_learned(const struct br_relay *relay, struct br_failures *failures)
{
    const struct br_bcube *cube = &relay->w->config.cube;

    for (uint32_t i = 0; i < BR_RELAY_LEARNED; i++) {
        const struct br_relay_learned *l = &relay->learned[i];
        int level = br_bcube_level(cube, l->from, l->to);

        if (l->until <= relay->w->now)
            continue;
        peer_add_nic(failures, l->to, level);
        for (uint32_t j = 0; j < i; j++)
            if (relay->learned[j].until > relay->w->now && relay->learned[j].from == l->from &&
                br_bcube_level(cube, l->from, relay->learned[j].to) == level)
                peer_add_nic(failures, l->from, level);
    }
}

/* Rails of ours that are down. */
static void add_local(const struct br_relay *relay, struct br_failures *failures)
{
    const struct br_worker *w = relay->w;
    const struct br_bcube *cube = &w->config.cube;
    uint32_t self = (uint32_t)w->config.rank;

    for (uint32_t level = 0; level < cube->k; level++) {
        uint32_t down = 0, there = 0;

        for (uint32_t i = 0; i < cube->n - 1; i++) {
            uint32_t rank = br_bcube_neighbour(cube, self, level, i);

            if (rank >= (uint32_t)w->config.size)
                continue;
            there++;
            if (br_relay_is_hop(relay, rank))
                continue;
            peer_add_nic(failures, rank, (int)level);
            down++;
        }
        if (down == there && down > 1)
            peer_add_nic(failures, self, (int)level);
    }
}

/* Does another alternate route of the peer take the same first and last hop already? */
static bool is_taken(const struct br_rail *rail, const struct br_route *route)
{
    const struct br_peer *peer = rail->peer;

    for (int i = peer->n_rails - peer->n_alternates; i < peer->n_rails; i++) {
        const struct br_rail *other = &peer->rails[i];
        const struct br_relay_link *link = (const struct br_relay_link *)other->link;

        if (other != rail && link && link->path[1] == route->hosts[0] &&
            link->path[link->hosts - 2] == route->hosts[route->hops - 2])
            return true;
    }
    return false;
}

static bool peer_fits(const struct br_relay *relay, const struct br_rail *rail,
                      const struct br_failures *failures, const struct br_route *route)
{
    const struct br_worker *w = relay->w;

    return route->hops >= 2 && route->hops <= relay->hops &&
           br_relay_is_hop(relay, route->hosts[0]) &&
           br_route_works(&w->config.cube, failures, (uint32_t)w->config.rank, route) &&
           !is_taken(rail, route);
}

/* The disjoint routes, another one first each time; false: none of them fits. */
static bool choose_disjoint(const struct br_relay *relay, const struct br_rail *rail,
                            const struct br_failures *failures, struct br_route *out)
{
    const struct br_worker *w = relay->w;
    uint32_t k = w->config.cube.k, first = rail->index + rail->attempts;
    struct br_route routes[BR_BCUBE_LEVELS_MAX];

    if (br_route_disjoint(&w->config.cube, (uint32_t)w->config.rank, (uint32_t)rail->peer->rank,
                          routes))
        return false;
    for (uint32_t i = 0; i < k; i++) {
        *out = routes[(first + i) % k];
        if (peer_fits(relay, rail, failures, out))
            return true;
    }
    return false;
}

/* Between two neighbours, over a third one of the same level: helps where only the path between the
 * two is broken. */
static bool choose_beside(const struct br_relay *relay, const struct br_rail *rail,
                          struct br_route *out)
{
    const struct br_bcube *cube = &relay->w->config.cube;
    uint32_t self = (uint32_t)relay->w->config.rank, peer = (uint32_t)rail->peer->rank;
    int level = br_bcube_level(cube, self, peer);

    for (uint32_t i = 0; level >= 0 && i < cube->n - 1; i++) {
        uint32_t via =
            br_bcube_neighbour(cube, self, (uint32_t)level, (i + rail->attempts) % (cube->n - 1));

        *out = (struct br_route){.hops = 2, .hosts = {(uint16_t)via, (uint16_t)peer}};
        if (via != peer && peer_fits(relay, rail, NULL, out))
            return true;
    }
    return false;
}

/* Hosts in between that the peer's other alternate routes load already. */
static void add_taken(const struct br_rail *rail, struct br_failures *failures)
{
    const struct br_peer *peer = rail->peer;

    for (int i = peer->n_rails - peer->n_alternates; i < peer->n_rails; i++) {
        const struct br_relay_link *link = (const struct br_relay_link *)peer->rails[i].link;

        for (int j = 1; link && j < link->hosts - 1; j++)
            br_failures_add(failures, BR_FAILURE_HOST, link->path[j], 0);
    }
}

static bool peer_choose(const struct br_relay *relay, const struct br_rail *rail,
                        struct br_failures *failures, struct br_route *out)
{
    const struct br_worker *w = relay->w;
    const struct br_failures missing = {.missing_from = (uint32_t)w->config.size};

    if (choose_disjoint(relay, rail, failures, out))
        return true;
    add_taken(rail, failures);
    if (!br_route_around(&w->config.cube, (uint32_t)w->config.rank, (uint32_t)rail->peer->rank,
                         failures, out) &&
        peer_fits(relay, rail, failures, out))
        return true;
    if (rail->attempts % 2) /* in turn, as neither need work */
        return choose_beside(relay, rail, out) || choose_disjoint(relay, rail, &missing, out);
    return choose_disjoint(relay, rail, &missing, out) || choose_beside(relay, rail, out);
}

/* The next route for the alternate route; -EHOSTUNREACH with a message. */
static int next_route(struct br_worker *w, struct br_rail *rail, struct br_route *route)
{
    struct br_failures failures = {.missing_from = (uint32_t)w->config.size};
    int level =
        br_bcube_level(&w->config.cube, (uint32_t)w->config.rank, (uint32_t)rail->peer->rank);
    bool found;

    if (level >= 0) /* not the direct one, whatever is known of it */
        peer_add_nic(&failures, (uint32_t)rail->peer->rank, level);
    add_learned(w->relay, &failures);
    add_local(w->relay, &failures);
    found = peer_choose(w->relay, rail, &failures, route);
    br_failures_destroy(&failures);
    rail->attempts++;
    return found ? 0
                 : br_error(EHOSTUNREACH, "no other route to rank %d is left", rail->peer->rank);
}

int br_relay_choose(struct br_worker *w, struct br_rail *rail)
{
    struct br_route route;
    int rc = next_route(w, rail, &route);

    if (!rc)
        br_relay_address(&rail->address, (uint32_t)w->config.rank, &route);
    return rc;
}

/* ---- timers ---------------------------------------------------------------------------------- */

/* We may not connect: asks the peer to, each time on another route. */
static void send_request(struct br_worker *w, struct br_peer *peer)
{
    struct br_rail *rail = &peer->rails[peer->n_rails - 1];
    uint16_t path[BR_RELAY_HOSTS] = {(uint16_t)w->config.rank};
    struct br_route route;

    peer->request_at = w->now + REQUEST_PERIOD;
    if (next_route(w, rail, &route))
        return;
    memcpy(path + 1, route.hosts, route.hops * sizeof *path);
    br_relay_send_control(w->relay, BR_RELAY_REQUEST, 0, path, route.hops + 1, 0);
}

static void watch_cut(struct br_worker *w, struct br_peer *peer, uint64_t missed)
{
    char text[160];

    peer->cut_at = peer->cut_at + missed < w->now ? peer->cut_at + missed : w->now;
    if (w->now - peer->cut_at > w->config.peer_timeout) {
        snprintf(text, sizeof text, "%.90s, and no route to it in %llu ms", peer->rails[0].message,
                 (unsigned long long)(w->config.peer_timeout / BR_MS));
        br_peer_lost(w, &peer->rails[0], ECONNRESET, text);
        return;
    }
    if (!peer->rails[0].connector && w->now >= peer->request_at)
        send_request(w, peer);
    br_relay_probe(w, peer);
}

void br_relay_timers(struct br_worker *w, uint64_t missed)
{
    br_list_for_each_safe (node, &w->known) {
        struct br_peer *peer = br_container_of(node, struct br_peer, known);

        if (peer->cut_at && peer->state != BR_PEER_LEFT && peer->state != BR_PEER_DEAD)
            watch_cut(w, peer, missed);
    }
    br_relay_expire(w->relay);
    if (w->leaving)
        br_relay_leave(w);
}

uint64_t br_relay_next_timer(const struct br_worker *w)
{
    if (w->leaving || !br_list_empty(&w->relay->reporting) ||
        !br_list_empty(&w->relay->closed_frames))
        return w->now;
    br_list_for_each (node, &w->known) {
        const struct br_peer *peer = br_container_of(node, const struct br_peer, known);

        if (peer->cut_at && peer->state != BR_PEER_LEFT && peer->state != BR_PEER_DEAD)
            return w->last_timers + REQUEST_PERIOD / 4;
    }
    return UINT64_MAX;
}

/* ---- leaving --------------------------------------------------------------------------------- */

static void close_alternates(struct br_worker *w, struct br_peer *peer)
{
    for (int i = peer->n_rails - peer->n_alternates;
         i < peer->n_rails && w->now >= peer->requested_until; i++)
        br_rail_give_up(w, &peer->rails[i], "we leave");
}

/* From those who are reached through others we part first; when no route leads to us or through us
 * any more, from the neighbours. */
void br_relay_leave(struct br_worker *w)
{
    bool parted = br_list_empty(&w->relay->transit_list);

    br_list_for_each (node, &w->known) {
        struct br_peer *peer = br_container_of(node, struct br_peer, known);
        bool left = peer->state == BR_PEER_LEFT && peer->bye_sent;

        if (left || peer->state == BR_PEER_DEAD || br_peer_direct(peer)) {
            close_alternates(w, peer);
        } else if (!br_peer_is_up(peer) && !br_relay_may_reach(w, peer)) {
            peer->state = BR_PEER_LEFT; /* nothing is left to say, and no way to say it */
            peer->bye_sent = true;
        } else if (!br_peer_direct(peer)) {
            parted = false;
            if (!peer->bye_due)
                br_peer_activate(w, peer);
            peer->bye_due = true;
        }
    }
    parted = parted && br_list_empty(&w->relay->links);
    br_list_for_each (node, &w->known) {
        struct br_peer *peer = br_container_of(node, struct br_peer, known);

        if (!parted || peer->bye_due)
            continue;
        peer->bye_due = true;
        br_peer_activate(w, peer);
    }
}
