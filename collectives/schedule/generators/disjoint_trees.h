/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allreduce along the trees of a forest (bcube/disjoint_trees.h), a piece of the buffer along each:
 * added up towards the root, and back. All messages go over links that work, so it is what runs in
 * a BCube of which some do not. Pure.
 */
#ifndef BR_COLLECTIVES_SCHEDULE_GENERATORS_DISJOINT_TREES_H
#define BR_COLLECTIVES_SCHEDULE_GENERATORS_DISJOINT_TREES_H

#include "bcube/disjoint_trees.h"
#include "collectives/schedule/builder.h"

/* Generates the steps of the builder's rank; the forest has as many hosts as there are ranks. */
void br_generate_disjoint_trees(struct br_builder *builder, const struct br_disjoint_trees *trees);

#endif
