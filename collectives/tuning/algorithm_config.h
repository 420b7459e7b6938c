/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A way to do a collective: an algorithm and, where it has one, its shape. What a user writes and
 * reads:
 *
 *     ring, direct, halving, tree, ...   by the table of algorithm.c; in a BCube the ring's
 * neighbours are level neighbours bml                                BML in the job's BCube;
 * bml:N,K: in N^K ranks of any network blueconnect                        the ranks of a host, then
 * the hosts; or digit by digit in a BCube; or two factors blueconnect:4x2                    these
 * factors of the number of ranks, the first among ranks that follow each other blueconnect:16h,6r
 * with methods: d direct, r ring, h halving and doubling blueconnect:4x2/2 beginning with the
 * second factor: where ranks r, r + 4, ... are on one host
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

/* A way by name. -EINVAL with a message: no such name, or it does not fit the topology. */
int br_algorithm_config_parse(const struct br_topology *topology, const char *text,
                              struct br_algorithm_config *config);

/* The name by which br_algorithm_config_parse finds it. */
const char *br_algorithm_config_name(const struct br_algorithm_config *config,
                                     char text[BR_ALGORITHM_TEXT]);

bool br_algorithm_config_equal(const struct br_algorithm_config *a,
                               const struct br_algorithm_config *b);

/* A number that differs where ways differ, for what ranks compare. */
uint64_t br_algorithm_config_digest(const struct br_algorithm_config *config);

/* The ways worth comparing for a collective, the simplest first; none of them has been checked
 * against the collective. Returns how many, at most BR_ALGORITHM_CONFIGS. Of BlueConnect, some ten
 * shapes for any number of ranks (method.c). */
#define BR_ALGORITHM_CONFIGS 64
uint32_t br_algorithm_config_list(const struct br_topology *topology,
                                  struct br_algorithm_config configs[BR_ALGORITHM_CONFIGS]);

#endif
