/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the choice of an algorithm knows of the network: which links a message between two ranks
 * loads. It is the same on all ranks, because each derives it from what all have published. Pure;
 * immutable after its init; thread-safe. doc/design/cost_model.md says what the kinds mean.
 */
#ifndef BR_COLLECTIVES_TUNING_TOPOLOGY_H
#define BR_COLLECTIVES_TUNING_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bcube/address.h"
#include "bcube/disjoint_trees.h"
#include "bcube/route.h"

/* routes at once between two ranks that are no neighbours, as the protocol takes them */
#define BR_TOPOLOGY_ROUTES 4
#define BR_TOPOLOGY_HOPS   (BR_TOPOLOGY_ROUTES * BR_ROUTE_HOPS)

enum br_topology_kind { BR_TOPOLOGY_FLAT, BR_TOPOLOGY_HOSTS, BR_TOPOLOGY_BCUBE };

struct br_topology {
    enum br_topology_kind kind;
    uint32_t n;           /* ranks */
    struct br_bcube cube; /* BCUBE; rank = host number, the last ones may be missing */
    uint32_t hosts;       /* HOSTS: how many */
    /* HOSTS: ranks of each, one host after the other; 0: they lie in another way */
    uint32_t per_host;
    /* HOSTS: rank r is on host r mod hosts, and as many are on each (mpirun --map-by node) */
    bool cyclic;
    /* BCUBE: for the algorithm of this name; borrowed, NULL: there are none */
    const struct br_disjoint_trees *disjoint_trees;
    uint32_t *leader; /* HOSTS: [n] lowest rank of each rank's host; owned */
    uint32_t cores;   /* FLAT and HOSTS: the cores that all ranks share, fewer than ranks; 0: there
                         are enough */
    bool emulated;    /* FLAT: each rank is on an emulated host of its own */
};

/* One link that a message loads. */
struct br_hop {
    uint32_t from, to; /* ranks */
    uint8_t level;     /* BR_LEVEL_ANY: all rails (FLAT) */
    double share;      /* of the bytes */
};

void br_topology_flat(struct br_topology *topology, uint32_t n);
/* Ranks with the same value in host[] share a host. One host, or one rank on each, is FLAT. Returns
 * 0 or -ENOMEM. */
int br_topology_hosts(struct br_topology *topology, uint32_t n, const uint64_t *host);
void br_topology_bcube(struct br_topology *topology, const struct br_bcube *cube);
void br_topology_destroy(struct br_topology *topology);

/* The number of levels that a cost model of the topology has: 2 for HOSTS, those of a BCUBE; 0 for
 * FLAT, where there are as many as rails. */
uint32_t br_topology_levels(const struct br_topology *topology);

/* Lists the links of a message, one route after the other, each in order: a link that begins at
 * `from` begins a route. level: what the schedule says, for FLAT only. Returns how many there
 * are. */
uint32_t br_topology_route(const struct br_topology *topology, uint32_t from, uint32_t to,
                           uint8_t level, struct br_hop hops[BR_TOPOLOGY_HOPS]);

/* Is it a BCube without a missing host? */
bool br_topology_is_whole_cube(const struct br_topology *topology);

/* The rank by which the port of a rank on a level is named: itself, or the leader of the host that
 * shares it. */
uint32_t br_topology_port(const struct br_topology *topology, uint32_t rank, uint8_t level);

/* Is a level a memory that is occupied once by a message, not a link with two ends? */
bool br_topology_is_memory(const struct br_topology *topology, uint8_t level);

/* "bcube:3,2", "hosts:2x4", "hosts:2x4 cyclic", "hosts:2 uneven, 5 ranks", "flat:9", for people and
 * files. */
#define BR_TOPOLOGY_TEXT 48
const char *br_topology_text(const struct br_topology *topology, char text[BR_TOPOLOGY_TEXT]);

/* Makes a topology of such a text; a number alone is FLAT. The text does not say which rank is on
 * which uneven host: ranks are dealt out to the hosts in turns. Returns 0, -EINVAL with a message,
 * or -ENOMEM. */
int br_topology_parse(struct br_topology *topology, const char *text);

#endif
