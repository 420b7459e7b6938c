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

/* Ranks in the subtree of one, which follow each other. */
static uint32_t subtree(enum br_tree tree, uint32_t n, uint32_t rank)
{
    if (rank == 0 || tree == BR_TREE_CHAIN)
        return n - rank;
    if (tree == BR_TREE_FLAT)
        return 1;
    return (rank & (~rank + 1)) < n - rank ? rank & (~rank + 1) : n - rank;
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

/* The block of the rank that is `v` after the root. */
static struct br_span block(const struct br_schedule *head, enum br_buffer buffer, uint32_t v)
{
    return (struct br_span){buffer, (head->root + v) % head->n, 1};
}

static struct br_span part(struct br_span all, uint32_t first, uint32_t count)
{
    return (struct br_span){all.buffer, all.first + first, count};
}

/* Ranks count from the root here, but for the ends of messages. */
static void gather(struct br_builder *b, enum br_tree tree, uint32_t parent, const uint32_t *children,
                   uint32_t n_children)
{
    const struct br_schedule *head = br_builder_head(b);
    uint32_t n = head->n, own = (head->rank + n - head->root) % n, size = subtree(tree, n, own);
    struct br_span all = input;

    if (own == 0)
        br_builder_copy(b, block(head, BR_OUTPUT, 0), input);
    else if (size > 1)
        br_builder_copy(b, part(all = br_builder_scratch(b, size), 0, 1), input);
    for (uint32_t i = n_children; i-- > 0;) { /* the smallest subtree is ready first */
        uint32_t child = (children[i] + n - head->root) % n, count = subtree(tree, n, child);
        struct br_span got;

        if (own == 0 && count == 1)
            got = block(head, BR_OUTPUT, child);
        else
            got = own == 0 ? br_builder_scratch(b, count) : part(all, child - own, count);
        br_builder_recv(b, children[i], BR_LEVEL_ANY, got);
        for (uint32_t j = 0; own == 0 && count > 1 && j < count; j++)
            br_builder_copy(b, block(head, BR_OUTPUT, child + j), part(got, j, 1));
    }
    if (own != 0)
        br_builder_send(b, parent, BR_LEVEL_ANY, all);
}

static void scatter(struct br_builder *b, enum br_tree tree, uint32_t parent, const uint32_t *children,
                    uint32_t n_children)
{
    const struct br_schedule *head = br_builder_head(b);
    uint32_t n = head->n, own = (head->rank + n - head->root) % n, size = subtree(tree, n, own);
    struct br_span all = output;

    if (own != 0 && size > 1)
        all = br_builder_scratch(b, size);
    if (own != 0)
        br_builder_recv(b, parent, BR_LEVEL_ANY, all);
    for (uint32_t i = 0; i < n_children; i++) {
        uint32_t child = (children[i] + n - head->root) % n, count = subtree(tree, n, child);
        struct br_span give = block(head, BR_INPUT, child);

        if (own != 0)
            give = part(all, child - own, count);
        else if (count > 1)
            give = br_builder_scratch(b, count);
        for (uint32_t j = 0; own == 0 && count > 1 && j < count; j++)
            br_builder_copy(b, part(give, j, 1), block(head, BR_INPUT, child + j));
        br_builder_send(b, children[i], BR_LEVEL_ANY, give);
    }
    if (own == 0)
        br_builder_copy(b, output, block(head, BR_INPUT, 0));
    else if (size > 1)
        br_builder_copy(b, output, part(all, 0, 1));
}

uint32_t br_tree_packed(enum br_tree tree, uint32_t n)
{
    uint32_t packed = 1;

    for (uint32_t v = 1; v < n; v = tree == BR_TREE_BINOMIAL ? 2 * v : n)
        packed = subtree(tree, n, v) > packed ? subtree(tree, n, v) : packed;
    return packed;
}

static void generate(struct br_builder *b, enum br_tree tree, uint32_t parent, const uint32_t *children,
                     uint32_t n_children, struct br_span *sources)
{
    const struct br_schedule *head = br_builder_head(b);

    br_builder_cut(b, 1);
    if (head->collective == BR_BROADCAST) {
        broadcast(b, parent, children, n_children);
    } else if (head->collective == BR_REDUCE) {
        reduce(b, parent, children, n_children, sources);
    } else {
        br_builder_pack(b, br_tree_packed(tree, head->n));
        (head->collective == BR_GATHER ? gather : scatter)(b, tree, parent, children, n_children);
    }
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
    generate(b, tree, parent, children, n_children, sources);
out:
    free(sources);
    free(children);
    return rc;
}
