/* SPDX-License-Identifier: BSD-3-Clause */
/* What the formulas of cost.c, cost_shape.c and cost_tree.c share. Not for other files. */
#ifndef BR_COLLECTIVES_TUNING_COST_INTERNAL_H
#define BR_COLLECTIVES_TUNING_COST_INTERNAL_H

#include "collectives/tuning/cost.h"
#include "collectives/tuning/port_load.h"

/* One fragment; cost.c says what its times are. */
struct br_cost_problem {
    const struct br_cost_model *model;
    const struct br_topology *topology;
    const struct br_schedule_request *request;
    bool to_root;      /* messages of a tree go up; else down */
    bool counts_ready; /* of each message (struct br_exchange) */
    double bytes;      /* of one block of one fragment */
    double path, cpu;
    double ready; /* once: for what comes later, its receiver has been ready for long */
    struct br_port_load load;
};

/* The rounds in `round` have happened, and then computing for `cpu` seconds. */
void br_cost_end_rounds(struct br_cost_problem *p, const struct br_port_load *round, double cpu);

/* Peers of rounds: of a context of {distance, ranks}, and of a struct br_stage. */
uint32_t br_cost_peer_at_distance(const void *distance, uint32_t rank, uint32_t i);
uint32_t br_cost_peer_in_stage(const void *stage, uint32_t rank, uint32_t i);

/* The first `ranks` ranks send their `peer` `messages` messages of `bytes` each; a rank adds up
 * `sums` of them. one_way: no rank sends and receives at once. */
void br_cost_add_exchange(struct br_cost_problem *p,
                          uint32_t (*peer)(const void *, uint32_t, uint32_t), const void *context,
                          uint32_t ranks, bool one_way, double messages, double bytes, double sums);

/* Ranks send to the one at a distance, `active` of them at a time: the machine has these to carry.
 * Each port counts as that of one of them. */
void br_cost_add_rounds(struct br_cost_problem *p, double active, bool one_way, uint32_t distance,
                        double messages, double bytes, double sums);

/* Ranks beyond the core exchange with those below. */
void br_cost_add_fold(struct br_cost_problem *p, uint32_t core, double messages, double bytes,
                      double sums);

/* Once: everybody, or `sender` alone, sends all others a message of `bytes`, and adds up `sums` of
 * them. */
void br_cost_add_all(struct br_cost_problem *p, uint32_t sender, uint32_t others, double bytes,
                     double sums);

/* Copies for the sake of packed messages: ranks that share cores make them in turn. */
void br_cost_add_copies_in_turn(struct br_cost_problem *p, double bytes);

/* In memory, sums are made out of the pipe, in place of the copy that is part of beta. Counted for
 * nothing where it was measured: in reduces of 2 ranks, where a root that reads all took 0.36 to
 * 0.99 of the time of one in halves (doc/design/shared_collectives.md). */
bool br_cost_of_sums(const struct br_cost_problem *p);

/* The rounds so far count for the path alone: how fast fragments follow is said by what is added
 * next. */
void br_cost_reset_rate(struct br_cost_problem *p);

/* cost_shape.c */
void br_cost_add_shape(struct br_cost_problem *p, const struct br_shape *shape);

/* cost_tree.c */
void br_cost_add_binary_tree(struct br_cost_problem *p, uint32_t trees);
void br_cost_add_host_tree(struct br_cost_problem *p);
void br_cost_add_core_tree(struct br_cost_problem *p);

#endif
