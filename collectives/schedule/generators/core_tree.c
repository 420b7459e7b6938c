/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/schedule/generators/core_tree.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "collectives/schedule/generators/doubling.h"

static const struct br_span input = {BR_INPUT, 0, 1}, output = {BR_OUTPUT, 0, 1};

struct core_tree {
    struct br_builder *b;
    uint32_t n, rank, size; /* size: ranks of a core */
    uint32_t leader;        /* of this rank's core */
    bool packed;
    struct br_span *places;  /* of each block */
    struct br_span *sources; /* room for what one sum adds up */
};

static struct br_span core_tree_part(struct br_span all, uint32_t first, uint32_t count)
{
    return (struct br_span){all.buffer, all.first + first, count};
}

static void core_tree_place(const struct core_tree *tree, uint32_t first, struct br_span run)
{
    for (uint32_t i = 0; i < run.count; i++)
        tree->places[first + i] = core_tree_part(run, i, 1);
}

static struct br_span core_tree_run(const struct core_tree *tree, uint32_t first, uint32_t count)
{
    return core_tree_part(tree->places[first], 0, count);
}

/* How many of `count` blocks that travel together a message has. */
static uint32_t core_tree_length(const struct core_tree *tree, uint32_t count)
{
    return tree->packed ? count : 1;
}

/* Blocks [first, first + count). */
static void core_tree_send(const struct core_tree *tree, uint32_t to, uint32_t first,
                           uint32_t count)
{
    uint32_t length = core_tree_length(tree, count);

    for (uint32_t i = first; i < first + count; i += length)
        br_builder_send(tree->b, to, BR_LEVEL_ANY, core_tree_run(tree, i, length));
}

static void core_tree_recv(const struct core_tree *tree, uint32_t from, uint32_t first,
                           uint32_t count)
{
    uint32_t length = core_tree_length(tree, count);

    for (uint32_t i = first; i < first + count; i += length)
        br_builder_recv(tree->b, from, BR_LEVEL_ANY, core_tree_run(tree, i, length));
}

/* The next leader, cyclically: each leader begins with its successor, so that none is the first
 * target of all. */
static uint32_t core_tree_next(const struct core_tree *tree, uint32_t leader)
{
    return (leader + tree->size) % tree->n;
}

/* The sum of this leader's `own` and of what `count` - 1 ranks send, the first of which is `step`
 * behind the leader: step 1, the ranks of its core; step size, the other leaders. like: blocks of
 * the input as many as in `own`. */
static struct br_span core_tree_sum(const struct core_tree *tree, struct br_span own,
                                    struct br_span like, uint32_t step, uint32_t count)
{
    struct br_span sum;

    tree->sources[0] = own;
    for (uint32_t i = 1; i < count; i++)
        tree->sources[i] = br_builder_recv_scratch(tree->b, (tree->leader + i * step) % tree->n,
                                                   BR_LEVEL_ANY, like);
    sum = br_builder_scratch(tree->b, own.count);
    br_builder_reduce(tree->b, sum, tree->sources, count, step > 1);
    return sum;
}

static void core_tree_allreduce(const struct core_tree *tree)
{
    const struct br_doubling leaders = {0, tree->size, tree->n / tree->size};

    if (tree->rank != tree->leader) {
        br_builder_send(tree->b, tree->leader, BR_LEVEL_ANY, input);
        br_builder_recv(tree->b, tree->leader, BR_LEVEL_ANY, output);
        return;
    }
    br_doubling_among(tree->b, core_tree_sum(tree, input, input, 1, tree->size), &leaders);
    for (uint32_t i = 1; i < tree->size; i++)
        br_builder_send(tree->b, tree->leader + i, BR_LEVEL_ANY, output);
}

/* All blocks come down in one message, those of the rank itself included: without them it would be
 * two. */
static void core_tree_allgather(const struct core_tree *tree)
{
    core_tree_place(tree, 0, (struct br_span){BR_OUTPUT, 0, tree->n});
    if (tree->rank != tree->leader) {
        br_builder_send(tree->b, tree->leader, BR_LEVEL_ANY, input);
        core_tree_recv(tree, tree->leader, 0, tree->n);
        return;
    }
    br_builder_copy(tree->b, tree->places[tree->rank], input);
    for (uint32_t i = 1; i < tree->size; i++)
        core_tree_recv(tree, tree->leader + i, tree->leader + i, 1);
    for (uint32_t i = core_tree_next(tree, tree->leader); i != tree->leader;
         i = core_tree_next(tree, i))
        core_tree_send(tree, i, tree->leader, tree->size);
    for (uint32_t i = core_tree_next(tree, tree->leader); i != tree->leader;
         i = core_tree_next(tree, i))
        core_tree_recv(tree, i, i, tree->size);
    for (uint32_t i = 1; i < tree->size; i++)
        core_tree_send(tree, tree->leader + i, 0, tree->n);
}

static void core_tree_reduce_scatter(const struct core_tree *tree)
{
    uint32_t all = core_tree_length(tree, tree->n), part = core_tree_length(tree, tree->size);

    if (tree->rank != tree->leader) {
        core_tree_place(tree, 0, (struct br_span){BR_INPUT, 0, tree->n});
        core_tree_send(tree, tree->leader, 0, tree->n);
        br_builder_recv(tree->b, tree->leader, BR_LEVEL_ANY, output);
        return;
    }
    for (uint32_t i = 0; i < tree->n; i += all) {
        struct br_span blocks = {BR_INPUT, i, all};

        core_tree_place(tree, i, core_tree_sum(tree, blocks, blocks, 1, tree->size));
    }
    for (uint32_t i = core_tree_next(tree, tree->leader); i != tree->leader;
         i = core_tree_next(tree, i))
        core_tree_send(tree, i, i, tree->size);
    for (uint32_t i = tree->leader; i < tree->leader + tree->size; i += part)
        core_tree_place(tree, i,
                        core_tree_sum(tree, core_tree_run(tree, i, part),
                                      (struct br_span){BR_INPUT, i, part}, tree->size,
                                      tree->n / tree->size));
    br_builder_copy(tree->b, output, tree->places[tree->rank]);
    for (uint32_t i = tree->leader + 1; i < tree->leader + tree->size; i++)
        core_tree_send(tree, i, i, 1);
}

static void core_tree_generate(const struct core_tree *tree)
{
    br_builder_set_pieces(tree->b, 1);
    if (tree->packed)
        br_builder_set_uncut(tree->b, tree->n);
    switch (br_builder_schedule(tree->b)->collective) {
    case BR_ALLGATHER:
        core_tree_allgather(tree);
        break;
    case BR_REDUCE_SCATTER:
        core_tree_reduce_scatter(tree);
        break;
    default: /* a barrier is an all-reduce of no elements */
        core_tree_allreduce(tree);
        break;
    }
}

int br_generate_core_tree(struct br_builder *b, uint32_t per_core, bool packed)
{
    const struct br_schedule *head = br_builder_schedule(b);
    struct core_tree tree = {.b = b,
                             .n = head->n,
                             .rank = head->rank,
                             .size = per_core,
                             .leader = head->rank - head->rank % per_core,
                             .packed = packed};
    int rc = 0;

    tree.places = calloc(tree.n, sizeof *tree.places);
    tree.sources = calloc(tree.n, sizeof *tree.sources);
    if (tree.places && tree.sources)
        core_tree_generate(&tree);
    else
        rc = br_error(ENOMEM, "no memory for the schedule of rank %u", tree.rank);
    free(tree.sources);
    free(tree.places);
    return rc;
}
