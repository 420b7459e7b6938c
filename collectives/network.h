/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a communicator knows of its network for choosing algorithms: the topology, which each rank derives from the records of
 * all, and the figures of the cost model, which come from rank 0: its calibration (BRAID_CALIBRATION), or the defaults. So
 * all ranks have the same to the bit.
 */
#ifndef BR_COLLECTIVES_NETWORK_H
#define BR_COLLECTIVES_NETWORK_H

#include "bcube/address.h"
#include "collectives/cost.h"

struct br_store;

struct br_network {
    struct br_topology topology;
    struct br_cost_model model; /* on the topology */
};

/* cube->n 0: none; then host[] tells which ranks share a host's memory (the same value), and with one host for all `shared` is
 * true. rails: most rails between two hosts. Rank 0 reads the calibration file (NULL or "": defaults) and puts the figures
 * into the store, the others get them there. store NULL: a job of one. Blocks until the deadline at most; errors of the store
 * and of the file, with words, on all ranks. */
struct br_network_facts {
    int rank, size;
    const struct br_bcube *cube;
    const uint64_t *host;
    bool shared;
    uint32_t rails;
    const char *calibration;
};
int br_network_init(struct br_network *network, const struct br_network_facts *facts, struct br_store *store,
                    uint64_t deadline);
void br_network_destroy(struct br_network *network);

#endif
