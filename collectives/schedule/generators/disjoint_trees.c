/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages are in one order on all ranks, (up, height of the sender, tree) and then (down, depth of
 * the receiver, tree), whatever tree they belong to: the two ends number them alike, and as earlier
 * steps go first (engine/fragment.c, note 3), what others wait for leaves first.
 */
#include "collectives/schedule/generators/disjoint_trees.h"

static uint8_t disjoint_trees_level_of(const struct br_disjoint_trees *trees, uint32_t a,
                                       uint32_t b)
{
    return (uint8_t)br_bcube_level(&trees->cube, a, b);
}

static bool is_child(const struct br_disjoint_trees *trees, uint32_t tree, uint32_t host,
                     uint32_t rank)
{
    return host != rank && br_disjoint_trees_parent(trees, tree, host) == rank;
}

/* The child's sum has come: one source at a time, as a rank may have any number of children.
 * `added`: children before it. */
static void add_child(struct br_builder *b, const struct br_disjoint_trees *trees, uint32_t tree,
                      uint32_t child, uint32_t added)
{
    uint32_t rank = br_builder_schedule(b)->rank, children = 0;
    const struct br_span result = {BR_OUTPUT, tree, 1}, own = {BR_INPUT, tree, 1};
    struct br_span got =
        br_builder_recv_scratch(b, child, disjoint_trees_level_of(trees, child, rank), result);

    for (uint32_t host = 0; host < trees->hosts; host++)
        children += is_child(trees, tree, host, rank);
    br_builder_reduce(b, result, (struct br_span[]){added ? result : own, got}, 2,
                      br_disjoint_trees_parent(trees, tree, rank) == rank && added + 1 == children);
}

/* Messages of hosts of one height. Returns how many children have been added. */
static uint32_t disjoint_trees_up(struct br_builder *b, const struct br_disjoint_trees *trees,
                                  uint32_t tree, uint32_t height, uint32_t added)
{
    uint32_t rank = br_builder_schedule(b)->rank,
             parent = br_disjoint_trees_parent(trees, tree, rank);

    for (uint32_t host = 0; host < trees->hosts; host++)
        if (is_child(trees, tree, host, rank) &&
            br_disjoint_trees_height(trees, tree, host) == height)
            add_child(b, trees, tree, host, added++);
    if (parent != rank && br_disjoint_trees_height(trees, tree, rank) == height)
        br_builder_send(b, parent, disjoint_trees_level_of(trees, parent, rank),
                        (struct br_span){added ? BR_OUTPUT : BR_INPUT, tree, 1});
    return added;
}

/* Messages to hosts of one depth. */
static void disjoint_trees_down(struct br_builder *b, const struct br_disjoint_trees *trees,
                                uint32_t tree, uint32_t depth)
{
    uint32_t rank = br_builder_schedule(b)->rank,
             parent = br_disjoint_trees_parent(trees, tree, rank);
    const struct br_span result = {BR_OUTPUT, tree, 1};

    if (br_disjoint_trees_depth(trees, tree, rank) == depth)
        br_builder_recv(b, parent, disjoint_trees_level_of(trees, parent, rank), result);
    for (uint32_t host = 0;
         host < trees->hosts && br_disjoint_trees_depth(trees, tree, rank) + 1 == depth; host++)
        if (is_child(trees, tree, host, rank))
            br_builder_send(b, host, disjoint_trees_level_of(trees, host, rank), result);
}

void br_generate_disjoint_trees(struct br_builder *b, const struct br_disjoint_trees *trees)
{
    uint32_t added[BR_DISJOINT_TREES_MAX] = {0};

    br_builder_set_pieces(b, trees->trees);
    br_builder_set_ordered(b);
    for (uint32_t height = 0; height < trees->depth; height++)
        for (uint32_t tree = 0; tree < trees->trees; tree++)
            added[tree] = disjoint_trees_up(b, trees, tree, height, added[tree]);
    for (uint32_t depth = 1; depth <= trees->depth; depth++)
        for (uint32_t tree = 0; tree < trees->trees; tree++)
            disjoint_trees_down(b, trees, tree, depth);
}
