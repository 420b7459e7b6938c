/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/tuning/topology.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define MOST_RANKS 65536u

void br_topology_flat(struct br_topology *topology, uint32_t n)
{
    *topology = (struct br_topology){.kind = BR_TOPOLOGY_FLAT, .n = n};
}

int br_topology_hosts(struct br_topology *t, uint32_t n, const uint64_t *host)
{
    uint32_t hosts = 0, first = 0; /* first: ranks of the first host, if they are the first ranks */
    uint32_t *leader = calloc((size_t)n + 1, sizeof *leader);
    bool even = true;

    if (!leader)
        return br_error(ENOMEM, "no memory for the hosts of %u ranks", n);
    while (first < n && host[first] == host[0])
        first++;
    for (uint32_t r = 0; r < n; r++) {
        while (host[leader[r]] != host[r])
            leader[r]++;
        hosts += leader[r] == r;
        even = even && leader[r] == r / first * first;
    }
    br_topology_flat(t, n);
    if (hosts == 1 || hosts == n) {
        free(leader);
        return 0;
    }
    t->kind = BR_TOPOLOGY_HOSTS;
    t->hosts = hosts;
    t->per_host = even && first * hosts == n ? first : 0;
    t->leader = leader;
    t->cyclic = !t->per_host && n % hosts == 0;
    for (uint32_t r = 0; r < n && t->cyclic; r++)
        t->cyclic = leader[r] == r % hosts;
    return 0;
}

void br_topology_bcube(struct br_topology *t, const struct br_bcube *cube)
{
    *t = (struct br_topology){.kind = BR_TOPOLOGY_BCUBE, .n = cube->hosts, .cube = *cube};
}

void br_topology_destroy(struct br_topology *topology)
{
    free(topology->leader);
    topology->leader = NULL;
}

uint32_t br_topology_levels(const struct br_topology *topology)
{
    return topology->kind == BR_TOPOLOGY_HOSTS   ? 2
           : topology->kind == BR_TOPOLOGY_BCUBE ? topology->cube.k
                                                 : 0;
}

bool br_topology_is_whole_cube(const struct br_topology *topology)
{
    return topology->kind == BR_TOPOLOGY_BCUBE &&
           br_bcube_power(&topology->cube, topology->cube.k) == topology->n;
}

/* Where hosts are missing, which are the last ones: digits that fall before those that rise, the
 * lowest first. Then no host on the way has a larger number than both ends. */
static uint32_t single_route(const struct br_topology *t, uint32_t from, uint32_t to,
                             struct br_hop *hops)
{
    uint32_t n = 0, at = from;

    for (int rises = 0; rises < 2; rises++)
        for (uint32_t level = 0; level < t->cube.k; level++) {
            uint32_t next =
                br_bcube_with_digit(&t->cube, at, level, br_bcube_digit(&t->cube, to, level));

            if (next == at || (next > at) != rises)
                continue;
            hops[n++] = (struct br_hop){at, next, (uint8_t)level, 1};
            at = next;
        }
    return n;
}

/* The routes that the protocol's alternate routes take (protocol/relay/peer.c), which share the
 * bytes alike. */
static uint32_t disjoint_routes(const struct br_topology *t, uint32_t from, uint32_t to,
                                struct br_hop *hops)
{
    uint32_t ways = t->cube.k < BR_TOPOLOGY_ROUTES ? t->cube.k : BR_TOPOLOGY_ROUTES, n = 0;
    struct br_route routes[BR_BCUBE_LEVELS_MAX];

    if (br_route_disjoint(&t->cube, from, to, routes))
        return 0;
    for (uint32_t way = 0; way < ways; way++) {
        uint32_t at = from;

        for (uint32_t i = 0; i < routes[way].hops; i++) {
            uint32_t next = routes[way].hosts[i];

            hops[n++] =
                (struct br_hop){at, next, (uint8_t)br_bcube_level(&t->cube, at, next), 1.0 / ways};
            at = next;
        }
    }
    return n;
}

static uint32_t route_in_cube(const struct br_topology *t, uint32_t from, uint32_t to,
                              struct br_hop *hops)
{
    int level = br_bcube_level(&t->cube, from, to);

    if (from == to)
        return 0;
    if (level >= 0)
        hops[0] = (struct br_hop){from, to, (uint8_t)level, 1};
    if (level >= 0)
        return 1;
    return br_topology_is_whole_cube(t) ? disjoint_routes(t, from, to, hops)
                                        : single_route(t, from, to, hops);
}

uint32_t br_topology_route(const struct br_topology *t, uint32_t from, uint32_t to, uint8_t level,
                           struct br_hop hops[BR_TOPOLOGY_HOPS])
{
    if (t->kind == BR_TOPOLOGY_BCUBE)
        return route_in_cube(t, from, to, hops);
    if (t->kind == BR_TOPOLOGY_HOSTS)
        level = t->leader[from] != t->leader[to];
    hops[0] = (struct br_hop){from, to, level, 1};
    return 1;
}

uint32_t br_topology_port(const struct br_topology *topology, uint32_t rank, uint8_t level)
{
    (void)level;
    if (topology->cores)
        return 0;
    return topology->kind == BR_TOPOLOGY_HOSTS ? topology->leader[rank] : rank;
}

bool br_topology_is_memory(const struct br_topology *topology, uint8_t level)
{
    return topology->cores || (topology->kind == BR_TOPOLOGY_HOSTS && level == 0);
}

/* ---- text ------------------------------------------------------------------------------------ */

const char *br_topology_text(const struct br_topology *t, char text[BR_TOPOLOGY_TEXT])
{
    if (t->kind == BR_TOPOLOGY_BCUBE)
        snprintf(text, BR_TOPOLOGY_TEXT, "bcube:%u,%u", t->cube.n, t->cube.k);
    else if (t->kind == BR_TOPOLOGY_HOSTS && t->per_host)
        snprintf(text, BR_TOPOLOGY_TEXT, "hosts:%ux%u", t->hosts, t->per_host);
    else if (t->kind == BR_TOPOLOGY_HOSTS && t->cyclic)
        snprintf(text, BR_TOPOLOGY_TEXT, "hosts:%ux%u cyclic", t->hosts, t->n / t->hosts);
    else if (t->kind == BR_TOPOLOGY_HOSTS)
        snprintf(text, BR_TOPOLOGY_TEXT, "hosts:%u uneven, %u ranks", t->hosts, t->n);
    else
        snprintf(text, BR_TOPOLOGY_TEXT, "flat:%u", t->n);
    return text;
}

/* Rank r is on host r / block % hosts. */
static int place_ranks(struct br_topology *t, uint32_t hosts, uint32_t ranks, uint32_t block)
{
    uint64_t *host = calloc(ranks, sizeof *host);
    int rc;

    if (!host)
        return br_error(ENOMEM, "no memory for %u hosts", hosts);
    for (uint32_t r = 0; r < ranks; r++)
        host[r] = r / block % hosts;
    rc = br_topology_hosts(t, ranks, host);
    free(host);
    return rc;
}

/* ranks: of each host; block: how many of them follow each other. */
static int parse_hosts(struct br_topology *t, uint32_t hosts, uint32_t ranks, uint32_t block)
{
    if (hosts < 1 || ranks < 1 || (uint64_t)hosts * ranks > MOST_RANKS)
        return br_error(EINVAL, "hosts:%ux%u: must be at least 1x1 and %u ranks at most", hosts,
                        ranks, MOST_RANKS);
    return place_ranks(t, hosts, hosts * ranks, block);
}

static int parse_uneven(struct br_topology *t, uint32_t hosts, uint32_t ranks)
{
    int rc;

    if (hosts < 2 || ranks <= hosts || ranks > MOST_RANKS)
        return br_error(EINVAL,
                        "hosts:%u uneven, %u ranks: must be 2 hosts and more ranks, %u at most",
                        hosts, ranks, MOST_RANKS);
    rc = place_ranks(t, hosts, ranks, 1);
    /* nobody knows, and who has such hosts is not to find other names for them */
    t->cyclic = false;
    return rc;
}

int br_topology_parse(struct br_topology *t, const char *text)
{
    struct br_bcube cube;
    unsigned a, b;
    int end = 0, rc;

    if (strncmp(text, "bcube:", 6) == 0) {
        rc = br_bcube_parse(&cube, text + 6);
        if (!rc)
            br_topology_bcube(t, &cube);
        return rc;
    }
    if (sscanf(text, "hosts:%5ux%5u%n", &a, &b, &end) == 2 && end && !text[end])
        return parse_hosts(t, a, b, b);
    end = 0;
    if (sscanf(text, "hosts:%5ux%5u cyclic%n", &a, &b, &end) == 2 && end && !text[end])
        return parse_hosts(t, a, b, 1);
    end = 0;
    if (sscanf(text, "hosts:%5u uneven, %5u ranks%n", &a, &b, &end) == 2 && end && !text[end])
        return parse_uneven(t, a, b);
    if ((sscanf(text, "flat:%5u%n", &a, &end) == 1 || sscanf(text, "%5u%n", &a, &end) == 1) &&
        !text[end] && a >= 1 && a <= MOST_RANKS) {
        br_topology_flat(t, a);
        return 0;
    }
    return br_error(EINVAL,
                    "'%s' is no topology; write bcube:3,2 or hosts:2x4 or a number of ranks", text);
}
