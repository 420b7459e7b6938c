/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/schedule/generators/packed.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"

struct br_chunk_range br_packed_range(const struct br_dimensional *p, uint32_t thread,
                                      uint32_t number, uint32_t count)
{
    return (struct br_chunk_range){thread * p->head->n + p->firsts[number],
                                   p->firsts[number + count] - p->firsts[number]};
}

struct br_span br_packed_recv(struct br_dimensional *p, uint32_t peer, uint8_t level,
                              uint32_t count)
{
    struct br_span span = br_builder_scratch(p->b, count);

    br_builder_recv(p->b, peer, level, span);
    return span;
}

static struct br_span part_of(struct br_span span, uint32_t first, uint32_t count)
{
    return (struct br_span){span.buffer, span.first + first, count};
}

/* Is a chunk of the larger user buffer one of this rank's own block? */
static bool is_own(const struct br_dimensional *p, uint32_t chunk)
{
    return chunk / p->threads == p->head->rank;
}

static void reduce_range(struct br_dimensional *p, struct br_chunk_range range,
                         const struct br_span *sources, uint32_t n, bool final)
{
    struct br_span sum = br_dimensional_located(p, range);

    if (final && is_own(p, p->chunks[range.first]))
        sum = (struct br_span){BR_OUTPUT, p->chunks[range.first] % p->threads, 1};
    else if (sum.buffer != BR_SCRATCH)
        sum = br_builder_scratch(p->b, range.count);
    br_builder_reduce(p->b, sum, sources, n, final);
    br_dimensional_put(p, range, sum);
}

/* What is final is this rank's own block, and that of the folded rank that it serves: each goes to
 * a place of its own. */
void br_packed_reduce(struct br_dimensional *p, struct br_chunk_range range,
                      const struct br_span *sources, uint32_t n, bool final)
{
    /* behind those of this stage, which are n at most */
    struct br_span *parts = &p->sources[p->head->n];

    if (!final || range.count == 1) {
        reduce_range(p, range, sources, n, final);
        return;
    }
    for (uint32_t i = 0; i < range.count; i++) {
        for (uint32_t s = 0; s < n; s++)
            parts[s] = part_of(sources[s], i, 1);
        reduce_range(p, (struct br_chunk_range){range.first + i, 1}, parts, n, true);
    }
}

/* Of the chunks from `first` on, how many follow each other in the user's buffer, too, and are all
 * this rank's own or none is. */
static uint32_t packed_run_length(const struct br_dimensional *p, uint32_t first)
{
    uint32_t last = first;

    while (last + 1 < p->head->n * p->threads && p->chunks[last + 1] == p->chunks[last] + 1 &&
           is_own(p, p->chunks[last + 1]) == is_own(p, p->chunks[first]))
        last++;
    return last + 1 - first;
}

/* Which chunk is this one of the larger user buffer? */
static uint32_t packed_find(const struct br_dimensional *p, uint32_t chunk)
{
    uint32_t i = 0;

    while (p->chunks[i] != chunk)
        i++;
    return i;
}

/* The input comes into the order of the numbers, and what the folded rank has sent is added to
 * it. */
static void packed_arrange(struct br_dimensional *p, const struct br_span *folded)
{
    uint32_t all = p->head->n * p->threads;
    struct br_span area = br_builder_scratch(p->b, all);

    for (uint32_t i = 0, count; i < all; i += count) {
        struct br_span input = {BR_INPUT, p->chunks[i], count = packed_run_length(p, i)};
        struct br_span to = part_of(area, i, count);

        if (folded)
            br_builder_reduce(p->b, to,
                              (struct br_span[]){input, part_of(*folded, p->chunks[i], count)}, 2,
                              false);
        else
            br_builder_copy(p->b, to, input);
    }
    br_dimensional_put(p, (struct br_chunk_range){0, all}, area);
}

static void packed_reduce_scatter(struct br_dimensional *p, bool in_order)
{
    uint32_t n = p->head->n, rank = p->head->rank, all = n * p->threads;
    struct br_span input = {BR_INPUT, 0, all}, got;

    if (br_dimensional_folded(p)) {
        br_builder_send(p->b, p->partner, BR_LEVEL_ANY, input);
        br_builder_recv(p->b, p->partner, BR_LEVEL_ANY, (struct br_span){BR_OUTPUT, 0, 1});
        return;
    }
    if (p->partner != rank)
        got = br_packed_recv(p, p->partner, BR_LEVEL_ANY, n);
    if (in_order)
        br_dimensional_put(p, (struct br_chunk_range){0, all}, input);
    else
        packed_arrange(p, p->partner != rank ? &got : NULL);
    br_dimensional_reduce_all(p);
    if (p->partner != rank)
        br_builder_send(p->b, p->partner, BR_LEVEL_ANY, p->place[packed_find(p, p->partner)]);
}

/* From the order of the numbers into the output. The own block comes straight from the input. */
static void packed_deliver(struct br_dimensional *p)
{
    uint32_t all = p->head->n * p->threads, threads = p->threads;

    for (uint32_t i = 0, count; i < all; i += count) {
        count = packed_run_length(p, i);
        if (!is_own(p, p->chunks[i]))
            br_builder_copy(p->b, (struct br_span){BR_OUTPUT, p->chunks[i], count},
                            part_of(p->area, i, count));
    }
    br_builder_copy(p->b, (struct br_span){BR_OUTPUT, p->head->rank * threads, threads},
                    (struct br_span){BR_INPUT, 0, threads});
}

static void packed_allgather(struct br_dimensional *p, bool in_order)
{
    uint32_t n = p->head->n, rank = p->head->rank;
    struct br_span output = {BR_OUTPUT, 0, n};

    if (br_dimensional_folded(p)) {
        br_builder_send(p->b, p->partner, BR_LEVEL_ANY, (struct br_span){BR_INPUT, 0, 1});
        br_builder_recv(p->b, p->partner, BR_LEVEL_ANY, output); /* with what is there already */
        return;
    }
    if (!in_order)
        p->area = br_builder_scratch(p->b, n * p->threads);
    for (uint32_t t = 0; t < p->threads; t++) {
        uint32_t own = packed_find(p, rank * p->threads + t);
        struct br_span place = part_of(p->area, own, 1);

        br_builder_copy(p->b, place, (struct br_span){BR_INPUT, t, 1});
        br_dimensional_put(p, (struct br_chunk_range){own, 1}, place);
    }
    if (p->partner != rank) {
        uint32_t extra = packed_find(p, p->partner);
        struct br_span place = part_of(p->area, extra, 1);

        br_builder_recv(p->b, p->partner, BR_LEVEL_ANY, place);
        br_dimensional_put(p, (struct br_chunk_range){extra, 1}, place);
    }
    br_dimensional_gather_all(p);
    if (!in_order)
        packed_deliver(p);
    if (p->partner != rank)
        br_builder_send(p->b, p->partner, BR_LEVEL_ANY, output);
}

/* Numbers the chunks: a number has the block of its rank, and that of the folded rank that this one
 * serves. With several threads nobody folds. */
static void packed_number(struct br_dimensional *p)
{
    for (uint32_t t = 0, at = 0; t < p->threads; t++)
        for (uint32_t number = 0; number < p->core; number++) {
            p->firsts[number] = at - t * p->head->n;
            for (uint32_t block = br_stages_home(&p->stages[t], number); block < p->head->n;
                 block += p->core)
                p->chunks[at++] = block * p->threads + t;
        }
    p->firsts[p->core] = p->head->n;
}

int br_packed_run(struct br_dimensional *p, uint32_t packed)
{
    bool in_order = p->threads == 1 && p->core == p->head->n && br_stages_in_order(&p->stages[0]);
    int rc = 0;

    p->packed = true;
    p->chunks = calloc((size_t)p->head->n * p->threads, sizeof *p->chunks);
    p->firsts = calloc((size_t)p->core + 1, sizeof *p->firsts);
    if (p->chunks && p->firsts) {
        packed_number(p);
        br_builder_set_uncut(p->b, packed);
        (p->head->collective == BR_ALLGATHER ? packed_allgather : packed_reduce_scatter)(p,
                                                                                         in_order);
    } else {
        rc = br_error(ENOMEM, "no memory for the schedule of rank %u", p->head->rank);
    }
    free(p->firsts);
    free(p->chunks);
    return rc;
}
