/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce along edge-disjoint trees (bcube/disjoint_trees.h), a piece of the buffer along each:
 * it is reduced towards the root and then broadcast. All messages go over links that work, so this
 * is what runs in a BCube with broken links. Pure.
 */
#ifndef BR_COLLECTIVES_SCHEDULE_GENERATORS_DISJOINT_TREES_H
#define BR_COLLECTIVES_SCHEDULE_GENERATORS_DISJOINT_TREES_H

#include "bcube/disjoint_trees.h"
#include "collectives/schedule/builder.h"

/* Generates the steps of the builder's rank; the trees have as many hosts as there are ranks. */
void br_generate_disjoint_trees(struct br_builder *builder, const struct br_disjoint_trees *trees);

#endif
