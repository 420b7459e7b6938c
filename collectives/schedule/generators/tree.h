/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Broadcast, reduce, gather, scatter and barrier along a tree, whole fragments at a time. The blocks of a
 * subtree travel as one message. Pure.
 */
#ifndef BR_COLLECTIVES_SCHEDULE_GENERATORS_TREE_H
#define BR_COLLECTIVES_SCHEDULE_GENERATORS_TREE_H

#include "collectives/schedule/builder.h"
#include "collectives/schedule/generators/shape.h"

enum br_tree {
    BR_TREE_BINOMIAL, /* or, with a shape, digit by digit */
    BR_TREE_CHAIN,    /* one rank after the other; fragments follow each other through it */
    BR_TREE_FLAT,     /* the root talks to everybody */
};

/* Generates the steps of the builder's rank for its collective. The shape is for BR_TREE_BINOMIAL,
 * may have no dimensions; else they are direct and have all ranks: a rank and its parent then
 * differ in one digit, so that in a BCube nothing is relayed. -ENOMEM. */
int br_generate_tree(struct br_builder *builder, enum br_tree tree, const struct br_shape *shape);

/* Blocks of the longest message of a gather or scatter. */
uint32_t br_tree_packed(enum br_tree tree, const struct br_shape *shape, uint32_t n);

#endif
