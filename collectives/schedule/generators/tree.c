/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 1. Ranks in a tree are counted from the root: by distance, or digit by digit where there is a
 *    shape. A number's parent is the number with its lowest digit that is not 0 set to 0; a
 *    binomial tree is that in base 2. So the numbers of a subtree follow each other.
 * 2. A chain and a flat tree have no digits.
 */
#include "collectives/schedule/generators/tree.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"

static const struct br_span input = {BR_INPUT, 0, 1}, output = {BR_OUTPUT, 0, 1};

struct family {
    struct br_builder *b;
    const struct br_schedule *head;
    enum br_tree tree;
    bool digits; /* numbers are counted digit by digit */
    struct br_stages stages;
    uint32_t n, own;
    uint32_t *children, n_children; /* numbers, the one with the largest subtree first */
    bool packed;                    /* the blocks of a reduce-scatter or an allgather */
    struct br_span *places;         /* of each such block */
};

static void set_digits(struct br_stages *stages, const struct br_shape *shape, uint32_t n)
{
    *stages = (struct br_stages){.n_stages = 0};
    if (shape->n_dimensions > 0)
        br_shape_stages(shape, 0, stages);
    for (uint64_t stride = 1; shape->n_dimensions == 0 && stride < n; stride *= 2)
        stages->stages[stages->n_stages++] =
            (struct br_stage){.size = 2, .stride = (uint32_t)stride, .level = BR_LEVEL_ANY};
}

/* The lowest digit that is not 0; of the root: one beyond the last. */
static uint32_t tree_lowest(const struct br_stages *stages, uint32_t number)
{
    uint32_t w = 0;

    while (w < stages->n_stages && br_stage_digit(&stages->stages[w], number) == 0)
        w++;
    return w;
}

/* Numbers in the subtree of one, which follow each other. */
static uint32_t tree_subtree(enum br_tree tree, const struct br_stages *stages, uint32_t n,
                             uint32_t number)
{
    uint32_t stride;

    if (number == 0 || tree == BR_TREE_CHAIN)
        return n - number;
    if (tree == BR_TREE_FLAT)
        return 1;
    stride = stages->stages[tree_lowest(stages, number)].stride;
    return stride < n - number ? stride : n - number;
}

static uint32_t size_of(const struct family *f, uint32_t number)
{
    return tree_subtree(f->tree, &f->stages, f->n, number);
}

/* Takes the root's digits from those of a rank, or adds them to those of a number. */
static uint32_t tree_rotate(const struct family *f, uint32_t from, bool to_rank)
{
    uint32_t root = f->head->root, result = 0;

    if (!f->digits)
        return to_rank ? (from + root) % f->n : (from + f->n - root) % f->n;
    for (uint32_t w = 0; w < f->stages.n_stages; w++) {
        const struct br_stage *stage = &f->stages.stages[w];
        uint32_t digit = br_stage_digit(stage, root);

        digit = br_stage_digit(stage, from) + (to_rank ? digit : stage->size - digit);
        result += digit % stage->size * stage->stride;
    }
    return result;
}

static uint32_t tree_rank_of(const struct family *f, uint32_t number)
{
    return tree_rotate(f, number, true);
}

/* Of the message between a child and its parent. */
static uint8_t tree_level_of(const struct family *f, uint32_t child)
{
    return f->digits ? f->stages.stages[tree_lowest(&f->stages, child)].level : BR_LEVEL_ANY;
}

static uint32_t parent_of(const struct family *f)
{
    const struct br_stage *stage;

    if (f->tree == BR_TREE_CHAIN)
        return f->own - 1;
    if (f->tree == BR_TREE_FLAT)
        return 0;
    stage = &f->stages.stages[tree_lowest(&f->stages, f->own)];
    return f->own - br_stage_digit(stage, f->own) * stage->stride;
}

static void list_children(struct family *f)
{
    if (f->tree == BR_TREE_CHAIN && f->own + 1 < f->n)
        f->children[f->n_children++] = f->own + 1;
    for (uint32_t i = 1; f->tree == BR_TREE_FLAT && f->own == 0 && i < f->n; i++)
        f->children[f->n_children++] = i;
    for (uint32_t w = tree_lowest(&f->stages, f->own); f->tree == BR_TREE_BINOMIAL && w-- > 0;) {
        const struct br_stage *stage = &f->stages.stages[w];

        for (uint32_t digit = 1; digit < stage->size && digit * stage->stride < f->n - f->own;
             digit++)
            f->children[f->n_children++] = f->own + digit * stage->stride;
    }
}

static void tree_send_to(const struct family *f, uint32_t child, struct br_span span)
{
    br_builder_send(f->b, tree_rank_of(f, child), tree_level_of(f, child), span);
}

static void recv_from(const struct family *f, uint32_t child, struct br_span span)
{
    br_builder_recv(f->b, tree_rank_of(f, child), tree_level_of(f, child), span);
}

static void send_up(const struct family *f, struct br_span span)
{
    br_builder_send(f->b, tree_rank_of(f, parent_of(f)), tree_level_of(f, f->own), span);
}

static void recv_down(const struct family *f, struct br_span span)
{
    br_builder_recv(f->b, tree_rank_of(f, parent_of(f)), tree_level_of(f, f->own), span);
}

static void tree_broadcast(const struct family *f)
{
    if (f->own != 0)
        recv_down(f, output);
    for (uint32_t i = 0; i < f->n_children; i++)
        tree_send_to(f, f->children[i], f->own == 0 ? input : output);
    if (f->own == 0)
        br_builder_copy(f->b, output, input);
}

/* sources: room for n_children + 1. */
static void tree_reduce(const struct family *f, struct br_span *sources)
{
    /* then all are in the order of the ranks (br_algorithm_by_rank()) */
    bool all = f->tree == BR_TREE_FLAT && f->own == 0;
    struct br_span sum = input;
    uint32_t n = 1;

    sources[all ? f->head->rank : 0] = input;
    for (uint32_t i = f->n_children; i-- > 0; n++) { /* the smallest subtree is ready first */
        uint32_t from = tree_rank_of(f, f->children[i]);

        sources[all ? from : n] =
            br_builder_recv_scratch(f->b, from, tree_level_of(f, f->children[i]), input);
    }
    if (n > 1) {
        sum = f->own == 0 ? output : br_builder_scratch(f->b, 1);
        br_builder_reduce(f->b, sum, sources, n, f->own == 0);
    }
    if (f->own != 0)
        send_up(f, sum);
    else if (n == 1)
        br_builder_copy(f->b, output, input);
}

/* Up to the root when everybody below has come, and down again when all have. */
static void tree_barrier(const struct family *f, struct br_span *sources)
{
    tree_reduce(f, sources);
    if (f->own != 0)
        recv_down(f, output);
    for (uint32_t i = 0; i < f->n_children; i++)
        tree_send_to(f, f->children[i], output);
}

/* The block of the rank with a number. */
static struct br_span tree_block(const struct family *f, enum br_buffer buffer, uint32_t number)
{
    return (struct br_span){buffer, tree_rank_of(f, number), 1};
}

static struct br_span tree_part(struct br_span all, uint32_t first, uint32_t count)
{
    return (struct br_span){all.buffer, all.first + first, count};
}

static void tree_gather(const struct family *f)
{
    uint32_t own = f->own, size = size_of(f, own);
    struct br_span all = input;

    if (own == 0)
        br_builder_copy(f->b, tree_block(f, BR_OUTPUT, 0), input);
    else if (size > 1)
        br_builder_copy(f->b, tree_part(all = br_builder_scratch(f->b, size), 0, 1), input);
    for (uint32_t i = f->n_children; i-- > 0;) { /* the smallest subtree is ready first */
        uint32_t child = f->children[i], count = size_of(f, child);
        struct br_span got;

        if (own == 0 && count == 1)
            got = tree_block(f, BR_OUTPUT, child);
        else
            got = own == 0 ? br_builder_scratch(f->b, count) : tree_part(all, child - own, count);
        recv_from(f, child, got);
        for (uint32_t j = 0; own == 0 && count > 1 && j < count; j++)
            br_builder_copy(f->b, tree_block(f, BR_OUTPUT, child + j), tree_part(got, j, 1));
    }
    if (own != 0)
        send_up(f, all);
}

static void tree_scatter(const struct family *f)
{
    uint32_t own = f->own, size = size_of(f, own);
    struct br_span all = output;

    if (own != 0 && size > 1)
        all = br_builder_scratch(f->b, size);
    if (own != 0)
        recv_down(f, all);
    for (uint32_t i = 0; i < f->n_children; i++) {
        uint32_t child = f->children[i], count = size_of(f, child);
        struct br_span give = tree_block(f, BR_INPUT, child);

        if (own != 0)
            give = tree_part(all, child - own, count);
        else if (count > 1)
            give = br_builder_scratch(f->b, count);
        for (uint32_t j = 0; own == 0 && count > 1 && j < count; j++)
            br_builder_copy(f->b, tree_part(give, j, 1), tree_block(f, BR_INPUT, child + j));
        tree_send_to(f, child, give);
    }
    if (own == 0)
        br_builder_copy(f->b, output, tree_block(f, BR_INPUT, 0));
    else if (size > 1)
        br_builder_copy(f->b, output, tree_part(all, 0, 1));
}

/* Blocks [first, first + count) of a reduce-scatter or an allgather, as one message if they are
 * packed; else each is a message. */
static struct br_span tree_run(const struct family *f, uint32_t first, uint32_t count)
{
    return (struct br_span){f->places[first].buffer, f->places[first].first, count};
}

static uint32_t tree_run_length(const struct family *f, uint32_t count)
{
    return f->packed ? count : 1;
}

static void tree_place(const struct family *f, uint32_t first, struct br_span run)
{
    for (uint32_t i = 0; i < run.count; i++)
        f->places[first + i] = tree_part(run, i, 1);
}

/* To a child, or up where `child` is this rank; in the next one the other way round. */
static void send_runs(const struct family *f, uint32_t child, uint32_t first, uint32_t count)
{
    uint32_t length = tree_run_length(f, count);

    for (uint32_t i = first; i < first + count; i += length)
        if (child != f->own)
            tree_send_to(f, child, tree_run(f, i, length));
        else
            send_up(f, tree_run(f, i, length));
}

static void recv_runs(const struct family *f, uint32_t child, uint32_t first, uint32_t count)
{
    uint32_t length = tree_run_length(f, count);

    for (uint32_t i = first; i < first + count; i += length)
        if (child != f->own)
            recv_from(f, child, tree_run(f, i, length));
        else
            recv_down(f, tree_run(f, i, length));
}

/* The root is rank 0, so the number of a rank is the rank. Who has all blocks of its subtree sends
 * them up; then all come down. */
static void tree_allgather(const struct family *f)
{
    tree_place(f, 0, (struct br_span){BR_OUTPUT, 0, f->n});
    br_builder_copy(f->b, f->places[f->own], input);
    for (uint32_t i = f->n_children; i-- > 0;) /* the smallest subtree is ready first */
        recv_runs(f, f->children[i], f->children[i], size_of(f, f->children[i]));
    if (f->own != 0) {
        send_runs(f, f->own, f->own, size_of(f, f->own));
        recv_runs(f, f->own, 0, f->n);
    }
    for (uint32_t i = 0; i < f->n_children; i++)
        send_runs(f, f->children[i], 0, f->n);
}

/* The sum of a run over this rank and its subtree. */
static struct br_span tree_sum(const struct family *f, struct br_span run, struct br_span *sources)
{
    struct br_span sum;
    uint32_t n = 1;

    sources[0] = run;
    for (uint32_t i = f->n_children; i-- > 0; n++) /* the smallest subtree is ready first */
        sources[n] = br_builder_recv_scratch(f->b, tree_rank_of(f, f->children[i]),
                                             tree_level_of(f, f->children[i]), run);
    if (n == 1)
        return run;
    sum = br_builder_scratch(f->b, run.count);
    br_builder_reduce(f->b, sum, sources, n, f->own == 0);
    return sum;
}

/* The sums of all blocks go up, and from rank 0 each to its rank. */
static void tree_reduce_scatter(const struct family *f, struct br_span *sources)
{
    uint32_t own = f->own, size = size_of(f, own), all = tree_run_length(f, f->n),
             part = tree_run_length(f, size);

    for (uint32_t i = 0; i < f->n; i += all)
        tree_place(f, i, tree_sum(f, (struct br_span){BR_INPUT, i, all}, sources));
    if (own != 0) {
        send_runs(f, own, 0, f->n);
        for (uint32_t i = own; size > 1 && i < own + size; i += part)
            tree_place(f, i,
                       br_builder_recv_scratch(f->b, tree_rank_of(f, parent_of(f)),
                                               tree_level_of(f, own),
                                               (struct br_span){BR_INPUT, i, part}));
    }
    if (own != 0 && size == 1)
        recv_down(f, output);
    else
        br_builder_copy(f->b, output, f->places[own]);
    for (uint32_t i = 0; i < f->n_children; i++)
        send_runs(f, f->children[i], f->children[i], size_of(f, f->children[i]));
}

/* The root is rank 0. Row r of what a rank has is what rank r gives: on the way up to all, on the
 * way down to the ranks of the subtree, so that of each row a child gets a run. */
static void tree_alltoall(const struct family *f)
{
    uint32_t n = f->n, own = f->own, size = size_of(f, own);
    struct br_span all = br_builder_scratch(f->b, size * n);

    for (uint32_t i = 0; i < n; i++)
        br_builder_copy(f->b, tree_part(all, i, 1), (struct br_span){BR_INPUT, i, 1});
    for (uint32_t i = f->n_children; i-- > 0;) /* the smallest subtree is ready first */
        recv_from(f, f->children[i],
                  tree_part(all, (f->children[i] - own) * n, size_of(f, f->children[i]) * n));
    if (own != 0) {
        send_up(f, all);
        recv_down(f, all = br_builder_scratch(f->b, size * n));
    }
    for (uint32_t i = 0; i < f->n_children; i++) {
        uint32_t first = f->children[i] - own, count = size_of(f, f->children[i]);
        struct br_span give = br_builder_scratch(f->b, count * n);

        for (uint32_t row = 0; row < n; row++)
            br_builder_copy(f->b, tree_part(give, row * count, count),
                            tree_part(all, row * size + first, count));
        tree_send_to(f, f->children[i], give);
    }
    for (uint32_t row = 0; row < n; row++)
        br_builder_copy(f->b, (struct br_span){BR_OUTPUT, row, 1}, tree_part(all, row * size, 1));
}

uint32_t br_tree_packed(enum br_tree tree, const struct br_shape *shape, uint32_t n)
{
    struct br_stages stages;
    uint32_t packed = 1;

    set_digits(&stages, shape, n);
    for (uint32_t w = 0; tree == BR_TREE_BINOMIAL && w < stages.n_stages; w++) {
        uint32_t size = tree_subtree(tree, &stages, n, stages.stages[w].stride);

        packed = size > packed ? size : packed;
    }
    return tree == BR_TREE_CHAIN && n > 1 ? n - 1 : packed;
}

static void tree_generate(const struct family *f, struct br_span *sources, uint32_t packed)
{
    br_builder_set_pieces(f->b, 1);
    if (f->packed)
        br_builder_set_uncut(f->b, f->n);
    switch (f->head->collective) {
    case BR_BROADCAST:
        tree_broadcast(f);
        break;
    case BR_REDUCE:
        tree_reduce(f, sources);
        break;
    case BR_BARRIER:
        tree_barrier(f, sources);
        break;
    case BR_ALLGATHER:
        tree_allgather(f);
        break;
    case BR_REDUCE_SCATTER:
        tree_reduce_scatter(f, sources);
        break;
    case BR_ALLTOALL:
        br_builder_set_packed(f->b, packed * f->n);
        tree_alltoall(f);
        break;
    default:
        br_builder_set_packed(f->b, packed);
        (f->head->collective == BR_GATHER ? tree_gather : tree_scatter)(f);
        break;
    }
}

int br_generate_tree(struct br_builder *b, enum br_tree tree, const struct br_shape *shape,
                     bool packed)
{
    struct family f = {.b = b,
                       .head = br_builder_schedule(b),
                       .tree = tree,
                       .digits = shape->n_dimensions > 0,
                       .packed = packed};
    struct br_span *sources;
    int rc = 0;

    f.n = f.head->n;
    f.children = calloc(f.n, sizeof *f.children);
    sources = calloc((size_t)f.n + 1, sizeof *sources);
    f.places = calloc(f.n, sizeof *f.places);
    if (f.children && sources && f.places) {
        set_digits(&f.stages, shape, f.n);
        f.own = tree_rotate(&f, f.head->rank, false);
        list_children(&f);
        tree_generate(&f, sources, br_tree_packed(tree, shape, f.n));
    } else {
        rc = br_error(ENOMEM, "no memory for the schedule of rank %u", f.head->rank);
    }
    free(f.places);
    free(sources);
    free(f.children);
    return rc;
}
