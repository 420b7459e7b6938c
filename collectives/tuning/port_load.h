/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The load of a round of messages on the ports of the network, by the cost model. The estimates of
 * cost.h use it. Pure.
 *
 * Up to BR_PORT_LOAD_PORTS ranks every port is counted. In larger networks the first ranks, or
 * those of one host, stand for all, and count what is relayed for them as their own: exact where
 * the pattern looks the same from every rank.
 */
#ifndef BR_COLLECTIVES_TUNING_PORT_LOAD_H
#define BR_COLLECTIVES_TUNING_PORT_LOAD_H

#include "collectives/tuning/cost.h"

#define BR_PORT_LOAD_PORTS 32
#define BR_PORT_LOAD_ALL   UINT32_MAX

/* One round: each rank sends the same to some others. */
struct br_exchange {
    uint32_t (*peer)(const void *context, uint32_t rank,
                     uint32_t i); /* partner i < peers; rank itself: none */
    const void *context;
    uint32_t peers;
    uint32_t ranks;         /* the first so many exchange */
    uint32_t sender;        /* the only one; BR_PORT_LOAD_ALL: everybody */
    bool reversed;          /* the messages go the other way, from the peers to who is the sender */
    uint8_t level;          /* what the schedule says (br_topology_route) */
    double messages, bytes; /* to each partner: how many, and of what size */
    double active;          /* that many of the ranks send at a time, of a tree few do; 0: all */
    bool one_way;           /* no rank sends and receives at once */
    /* messages that come to a rank together, so that it wakes up for all of them at once; 0: each
     * comes alone */
    double together;
    /* Of ranks that share cores: READY of each message that needs one is a message, too. Else it
     * leaves together with one that its receiver sends, or it is not counted. */
    bool ready;
    /* Of ranks that share cores: between two ranks of one core a byte costs less (port_load.c). */
    bool by_core;
};

/* Seconds for which each port is occupied. */
struct br_port_load {
    double out[BR_PORT_LOAD_PORTS][BR_COST_LEVELS], in[BR_PORT_LOAD_PORTS][BR_COST_LEVELS];
    /* what moves the bytes of both directions, as a processor does of a socket in memory */
    double both[BR_PORT_LOAD_PORTS][BR_COST_LEVELS];
    double machine;         /* the cores that all ranks share */
    double alpha;           /* the longest way of a message */
    double ready;           /* the longest wait for READY (br_cost_ready) */
    uint32_t ports, levels; /* in use */
};

void br_port_load_init(struct br_port_load *load, const struct br_cost_model *model,
                       const struct br_topology *topology);

/* Adds `rounds` rounds one after the other. alpha becomes the longest, times rounds, of all that
 * was added, and ready the longest. */
void br_port_load_add(struct br_port_load *load, const struct br_cost_model *model,
                      const struct br_topology *topology, const struct br_exchange *exchange,
                      double rounds);

/* Adds `other` to the load; alpha and ready stay. */
void br_port_load_sum(struct br_port_load *load, const struct br_port_load *other);

/* Returns the seconds of the busiest port, or of the machine. *level (NULL allowed) becomes the
 * level of that port, or BR_COST_MACHINE_LEVEL. */
double br_port_load_busiest(const struct br_port_load *load, uint8_t *level);

#endif
