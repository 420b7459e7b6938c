/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allreduce of small sizes where several ranks share a host: a binary tree in each host adds up to
 * its top, the tops double (doubling.h), and the sum goes down again. Between hosts the sum crosses
 * lg(hosts) times one after the other, which no tree over all ranks reaches that does not know who
 * shares a host. Pure.
 */
#ifndef BR_COLLECTIVES_SCHEDULE_GENERATORS_HOST_TREE_H
#define BR_COLLECTIVES_SCHEDULE_GENERATORS_HOST_TREE_H

#include "collectives/schedule/builder.h"
#include "collectives/schedule/generators/binary_tree.h"

/* The place of a rank in the tree of its host: ranks [h * per_host, (h + 1) * per_host) are one.
 * per_host is at least 2. */
struct br_tree_node br_host_tree_node(uint32_t rank, uint32_t per_host);

/* Generates the steps of the builder's rank. n is a multiple of per_host, at least 2 of them. */
void br_generate_host_tree(struct br_builder *builder, uint32_t per_host);

#endif
