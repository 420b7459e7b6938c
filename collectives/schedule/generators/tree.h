/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Broadcast, reduce, gather, scatter and barrier along a tree, whole fragments at a time. The
 * blocks of a subtree travel as one message. An allgather is a gather and a broadcast of all
 * blocks, a reduce-scatter a reduce of all blocks and a scatter, an alltoall a gather of what all
 * give and a scatter, all by rank 0. Pure.
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
 * differ in one digit, so that in a BCube nothing is relayed. packed: of a reduce-scatter and an
 * allgather, whose blocks then travel as one message and the schedule is uncut; else each block of
 * them is a message. -ENOMEM. */
int br_generate_tree(struct br_builder *builder, enum br_tree tree, const struct br_shape *shape,
                     bool packed);

/* Blocks of the longest message of a gather or scatter; n times as many of an alltoall. */
uint32_t br_tree_packed(enum br_tree tree, const struct br_shape *shape, uint32_t n);

#endif
