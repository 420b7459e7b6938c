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

static void core_tree_place(const struct core_tree *f, uint32_t first, struct br_span run)
{
    for (uint32_t i = 0; i < run.count; i++)
        f->places[first + i] = core_tree_part(run, i, 1);
}

static struct br_span core_tree_run(const struct core_tree *f, uint32_t first, uint32_t count)
{
    return core_tree_part(f->places[first], 0, count);
}

/* How many of `count` blocks that travel together a message has. */
static uint32_t core_tree_length(const struct core_tree *f, uint32_t count)
{
    return f->packed ? count : 1;
}

/* Blocks [first, first + count); in the next one the other way round. */
static void core_tree_send(const struct core_tree *f, uint32_t to, uint32_t first, uint32_t count)
{
    uint32_t length = core_tree_length(f, count);

    for (uint32_t i = first; i < first + count; i += length)
        br_builder_send(f->b, to, BR_LEVEL_ANY, core_tree_run(f, i, length));
}

static void core_tree_recv(const struct core_tree *f, uint32_t from, uint32_t first, uint32_t count)
{
    uint32_t length = core_tree_length(f, count);

    for (uint32_t i = first; i < first + count; i += length)
        br_builder_recv(f->b, from, BR_LEVEL_ANY, core_tree_run(f, i, length));
}

/* Leaders, beginning behind this one, so that nobody is everybody's first; the last one is this
 * rank. */
static uint32_t core_tree_next(const struct core_tree *f, uint32_t leader)
{
    return (leader + f->size) % f->n;
}

/* The sum of what this leader has and what the ranks of its core send. */
static struct br_span core_tree_sum(const struct core_tree *f, struct br_span own)
{
    struct br_span sum;

    f->sources[0] = own;
    for (uint32_t i = 1; i < f->size; i++)
        f->sources[i] = br_builder_recv_scratch(f->b, f->leader + i, BR_LEVEL_ANY, own);
    sum = br_builder_scratch(f->b, own.count);
    br_builder_reduce(f->b, sum, f->sources, f->size, false);
    return sum;
}

/* The sum of what this leader has of blocks from `first` on and what the other leaders send. */
static struct br_span core_tree_sum_all(const struct core_tree *f, uint32_t first, uint32_t count)
{
    struct br_span sum, like = {BR_INPUT, first, count};
    uint32_t n = 0;

    f->sources[n++] = core_tree_run(f, first, count);
    for (uint32_t i = core_tree_next(f, f->leader); i != f->leader; i = core_tree_next(f, i))
        f->sources[n++] = br_builder_recv_scratch(f->b, i, BR_LEVEL_ANY, like);
    sum = br_builder_scratch(f->b, count);
    br_builder_reduce(f->b, sum, f->sources, n, true);
    return sum;
}

static void core_tree_allreduce(const struct core_tree *f)
{
    const struct br_doubling leaders = {0, f->size, f->n / f->size};

    if (f->rank != f->leader) {
        br_builder_send(f->b, f->leader, BR_LEVEL_ANY, input);
        br_builder_recv(f->b, f->leader, BR_LEVEL_ANY, output);
        return;
    }
    br_doubling_among(f->b, core_tree_sum(f, input), &leaders);
    for (uint32_t i = 1; i < f->size; i++)
        br_builder_send(f->b, f->leader + i, BR_LEVEL_ANY, output);
}

/* All blocks come down, those that have gone up from there, too: leaving them out would make two
 * messages of one. */
static void core_tree_allgather(const struct core_tree *f)
{
    core_tree_place(f, 0, (struct br_span){BR_OUTPUT, 0, f->n});
    if (f->rank != f->leader) {
        br_builder_send(f->b, f->leader, BR_LEVEL_ANY, input);
        core_tree_recv(f, f->leader, 0, f->n);
        return;
    }
    br_builder_copy(f->b, f->places[f->rank], input);
    for (uint32_t i = 1; i < f->size; i++)
        core_tree_recv(f, f->leader + i, f->leader + i, 1);
    for (uint32_t i = core_tree_next(f, f->leader); i != f->leader; i = core_tree_next(f, i))
        core_tree_send(f, i, f->leader, f->size);
    for (uint32_t i = core_tree_next(f, f->leader); i != f->leader; i = core_tree_next(f, i))
        core_tree_recv(f, i, i, f->size);
    for (uint32_t i = 1; i < f->size; i++)
        core_tree_send(f, f->leader + i, 0, f->n);
}

static void core_tree_reduce_scatter(const struct core_tree *f)
{
    uint32_t all = core_tree_length(f, f->n), part = core_tree_length(f, f->size);

    if (f->rank != f->leader) {
        core_tree_place(f, 0, (struct br_span){BR_INPUT, 0, f->n});
        core_tree_send(f, f->leader, 0, f->n);
        br_builder_recv(f->b, f->leader, BR_LEVEL_ANY, output);
        return;
    }
    for (uint32_t i = 0; i < f->n; i += all)
        core_tree_place(f, i, core_tree_sum(f, (struct br_span){BR_INPUT, i, all}));
    for (uint32_t i = core_tree_next(f, f->leader); i != f->leader; i = core_tree_next(f, i))
        core_tree_send(f, i, i, f->size);
    for (uint32_t i = f->leader; i < f->leader + f->size; i += part)
        core_tree_place(f, i, core_tree_sum_all(f, i, part));
    br_builder_copy(f->b, output, f->places[f->rank]);
    for (uint32_t i = f->leader + 1; i < f->leader + f->size; i++)
        core_tree_send(f, i, i, 1);
}

static void core_tree_generate(const struct core_tree *f)
{
    br_builder_set_pieces(f->b, 1);
    if (f->packed)
        br_builder_set_uncut(f->b, f->n);
    switch (br_builder_schedule(f->b)->collective) {
    case BR_ALLGATHER:
        core_tree_allgather(f);
        break;
    case BR_REDUCE_SCATTER:
        core_tree_reduce_scatter(f);
        break;
    default: /* a barrier is an all-reduce of no elements */
        core_tree_allreduce(f);
        break;
    }
}

int br_generate_core_tree(struct br_builder *b, uint32_t per_core, bool packed)
{
    const struct br_schedule *head = br_builder_schedule(b);
    struct core_tree f = {.b = b,
                          .n = head->n,
                          .rank = head->rank,
                          .size = per_core,
                          .leader = head->rank - head->rank % per_core,
                          .packed = packed};
    int rc = 0;

    f.places = calloc(f.n, sizeof *f.places);
    f.sources = calloc(f.n, sizeof *f.sources);
    if (f.places && f.sources)
        core_tree_generate(&f);
    else
        rc = br_error(ENOMEM, "no memory for the schedule of rank %u", f.rank);
    free(f.sources);
    free(f.places);
    return rc;
}
