/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An algorithm configuration: an algorithm and, where it has one, its shape. The user names it by
 *
 *     ring, direct, halving, tree, ...
 *         an algorithm (algorithm.h); in a BCube the neighbours of a ring are level neighbours
 *     bml, bml:N,K
 *         BML in the job's BCube, or in N^K ranks of any network
 *     blueconnect
 *         the ranks of a host, then the hosts; in a BCube digit by digit; else two factors
 *     blueconnect:4x2
 *         these factors of the number of ranks, the first one among ranks that follow each other
 *     blueconnect:16h,6r
 *         factors with methods: d is direct, r ring, h halving and doubling
 *     blueconnect:4x2/2
 *         begins with the second factor, for ranks r, r + 4, ... that are on one host
 *     bruck, bruck:8x4
 *         rounds of twice the distance each; or an alltoall of a stage for each factor, all direct
 *
 * A factor without a method gets the one that the cost model finds cheapest (tuning.h). Pure;
 * thread-safe.
 */
#ifndef BR_COLLECTIVES_TUNING_ALGORITHM_CONFIG_H
#define BR_COLLECTIVES_TUNING_ALGORITHM_CONFIG_H

#include "collectives/schedule/algorithm.h"
#include "collectives/tuning/topology.h"

#define BR_ALGORITHM_TEXT 48 /* bytes of a name, the longest that a user can write included */

struct br_algorithm_config {
    enum br_algorithm algorithm;
    struct br_shape shape;                          /* zeros where the algorithm needs none */
    const struct br_disjoint_trees *disjoint_trees; /* BR_DISJOINT_TREES; borrowed */
    uint32_t undecided; /* bit i: the method of dimension i is not decided yet */
};

/* Finds the configuration of a name. Returns 0, or -EINVAL with a message: there is no such name,
 * or it does not fit the topology. */
int br_algorithm_config_parse(const struct br_topology *topology, const char *text,
                              struct br_algorithm_config *config);

/* Writes the name by which br_algorithm_config_parse() finds it. Returns text. */
const char *br_algorithm_config_name(const struct br_algorithm_config *config,
                                     char text[BR_ALGORITHM_TEXT]);

bool br_algorithm_config_equal(const struct br_algorithm_config *a,
                               const struct br_algorithm_config *b);

/* A number that differs where configurations differ, for what ranks compare. */
uint64_t br_algorithm_config_digest(const struct br_algorithm_config *config);

/* Lists the configurations that are worth comparing for a collective, the simplest first; none of
 * them has been checked against the collective. BlueConnect has some ten shapes for any number of
 * ranks. Returns how many there are, at most BR_ALGORITHM_CONFIGS. */
#define BR_ALGORITHM_CONFIGS 64
uint32_t br_algorithm_config_list(const struct br_topology *topology,
                                  struct br_algorithm_config configs[BR_ALGORITHM_CONFIGS]);

#endif
