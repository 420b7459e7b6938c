/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Core trees: barriers, all-reduces and collectives of small blocks where several ranks share a
 * core. The first of the ranks of a core, its leader, collects what they give, the leaders exchange
 * it, and each passes the result on. That is 2(n - 1) messages with two cores, as up a tree over
 * all ranks and down again, but the cores exchange at once instead of waiting for each other in
 * turn.
 *
 * Pure.
 */
#ifndef BR_COLLECTIVES_SCHEDULE_GENERATORS_CORE_TREE_H
#define BR_COLLECTIVES_SCHEDULE_GENERATORS_CORE_TREE_H

#include "collectives/schedule/builder.h"

/* Generates the steps of the builder's rank: of an all-reduce, barrier, allgather or
 * reduce-scatter. Ranks [c * per_core, (c + 1) * per_core) share a core; n is a multiple of
 * per_core, which is at least 2, as is the number of cores. packed: of an allgather and a
 * reduce-scatter, whose blocks then travel as one message and the schedule is uncut; else each
 * block of them is a message. -ENOMEM. */
int br_generate_core_tree(struct br_builder *builder, uint32_t per_core, bool packed);

#endif
