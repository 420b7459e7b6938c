/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allreduce, broadcast and reduce along binary trees, pipelined by fragments. Two trees share the
 * buffer: in each of them about half of the ranks are leaves, and every rank is a leaf in at least
 * one, so that no port carries more than twice the buffer in an allreduce (Sanders, Speck, Traeff:
 * Two-tree algorithms for full bandwidth broadcast, reduction and scan). Pure.
 */
#ifndef BR_COLLECTIVES_SCHEDULE_GENERATORS_BINARY_TREE_H
#define BR_COLLECTIVES_SCHEDULE_GENERATORS_BINARY_TREE_H

#include "collectives/schedule/builder.h"

/* Where a rank stands in one tree. */
struct br_tree_node {
    bool is_root;    /* it has no parent */
    uint32_t parent; /* rank */
    uint32_t height; /* of a leaf 0; of all others more than of their children */
    uint32_t n_children, children[2];
    uint32_t before; /* children that come before the rank itself in the order of the sum */
};

/* The place of the head's rank in tree 0 or 1. n is at least 2. */
struct br_tree_node br_tree_node(const struct br_schedule *head, uint32_t tree);

/* The two halves of an allreduce in a tree, each for one rank. Up: adds what comes from the
 * children to its own and passes it on; returns the sum. last: at the top that is the result. Down:
 * gets the result and passes it on. */
struct br_span br_binary_up(struct br_builder *builder, const struct br_tree_node *place,
                            uint32_t tree, bool last);
void br_binary_down(struct br_builder *builder, const struct br_tree_node *place, uint32_t tree);

/* Generates the steps of the builder's rank over 1 or 2 trees. */
void br_generate_binary_tree(struct br_builder *builder, uint32_t trees);

/*
 * Host trees: all-reduce of small sizes where several ranks share a host. A binary tree in each
 * host adds up to its top, the tops double (doubling.h), and the sum goes down again. Between hosts
 * the sum crosses lg(hosts) times one after the other, which no tree over all ranks reaches that
 * does not know who shares a host.
 */

/* The place of a rank in the tree of its host: ranks [h * per_host, (h + 1) * per_host) are one.
 * per_host is at least 2. */
struct br_tree_node br_host_tree_node(uint32_t rank, uint32_t per_host);

/* Generates the steps of the builder's rank. n is a multiple of per_host, at least 2 of them. */
void br_generate_host_tree(struct br_builder *builder, uint32_t per_host);

#endif
