/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/generators/tree.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"

static const struct br_span input = {BR_INPUT, 0, 1}, output = {BR_OUTPUT, 0, 1};

/* Ranks in the tree are counted from the root. Fills in the children, the one with the largest subtree first.
 */
static uint32_t list_children(enum br_tree tree, uint32_t n, uint32_t rank, uint32_t *children)
{
    uint32_t count = 0, step = 1;

    if (tree == BR_TREE_CHAIN) {
        if (rank + 1 < n)
            children[count++] = rank + 1;
        return count;
    }
    if (tree == BR_TREE_FLAT) {
        for (uint32_t i = 1; rank == 0 && i < n; i++)
            children[count++] = i;
        return count;
    }
    while (step < n && (rank & step) == 0)
        step *= 2;
    while (step > 1) {
        step /= 2;
        if (rank + step < n)
            children[count++] = rank + step;
    }
    return count;
}

static uint32_t parent_of(enum br_tree tree, uint32_t rank)
{
    if (tree == BR_TREE_CHAIN)
        return rank - 1;
    return tree == BR_TREE_FLAT ? 0 : rank & (rank - 1);
}

static void broadcast(struct br_builder *b, uint32_t parent, const uint32_t *children, uint32_t n_children)
{
    const struct br_schedule *head = br_builder_head(b);
    bool root = head->rank == head->root;

    if (!root)
        br_builder_recv(b, parent, BR_LEVEL_ANY, output);
    for (uint32_t i = 0; i < n_children; i++)
        br_builder_send(b, children[i], BR_LEVEL_ANY, root ? input : output);
    if (root)
        br_builder_copy(b, output, input);
}

/* sources: room for n_children + 1. */
static void reduce(struct br_builder *b, uint32_t parent, const uint32_t *children, uint32_t n_children,
                   struct br_span *sources)
{
    const struct br_schedule *head = br_builder_head(b);
    bool root = head->rank == head->root;
    struct br_span sum = input;

    sources[0] = input;
    for (uint32_t i = n_children; i-- > 0;) /* the smallest subtree is ready first */
        sources[n_children - i] = br_builder_recv_scratch(b, children[i], BR_LEVEL_ANY, input);
    if (n_children > 0) {
        sum = root ? output : br_builder_scratch(b, 1);
        br_builder_reduce(b, sum, sources, n_children + 1, root);
    }
    if (!root)
        br_builder_send(b, parent, BR_LEVEL_ANY, sum);
    else if (n_children == 0)
        br_builder_copy(b, output, input);
}

int br_generate_tree(struct br_builder *b, enum br_tree tree)
{
    const struct br_schedule *head = br_builder_head(b);
    uint32_t n = head->n, rank = (head->rank + n - head->root) % n, n_children;
    uint32_t *children = calloc(n, sizeof *children);
    struct br_span *sources = calloc((size_t)n + 1, sizeof *sources);
    uint32_t parent = (parent_of(tree, rank) + head->root) % n;
    int rc = 0;

    if (!children || !sources) {
        rc = br_error(ENOMEM, "no memory for the schedule of rank %u", head->rank);
        goto out;
    }
    n_children = list_children(tree, n, rank, children);
    for (uint32_t i = 0; i < n_children; i++)
        children[i] = (children[i] + head->root) % n;
    br_builder_cut(b, 1);
    if (head->collective == BR_BROADCAST)
        broadcast(b, parent, children, n_children);
    else
        reduce(b, parent, children, n_children, sources);
out:
    free(sources);
    free(children);
    return rc;
}
