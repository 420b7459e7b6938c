/* SPDX-License-Identifier: BSD-3-Clause */
/* Section 8 of doc/design/schedule.md says how runs of chunks shrink from stage to stage. */
#include "collectives/schedule/generators/dimensional.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "collectives/schedule/generators/dimensional_internal.h"
#include "collectives/schedule/generators/packed.h"

/* The chunks of `count` numbers from `number` on, into plan->ranges. Returns how many ranges. */
static uint32_t list_ranges(struct br_dimensional *p, uint32_t thread, uint32_t number,
                            uint32_t count)
{
    uint32_t n = 0;

    if (p->packed) {
        p->ranges[0] = br_packed_range(p, thread, number, count);
        return 1;
    }
    if (!p->blocks) {
        p->ranges[0] = (struct br_chunk_range){thread * p->core + number, count};
        return 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t block = br_stages_home(&p->stages[thread], number + i); block < p->head->n;
             block += p->core)
            p->ranges[n++] = (struct br_chunk_range){block * p->threads + thread, 1};
    }
    return n;
}

/* The chunks that the members with digit d own after a stage of the reduction. */
static uint32_t list_run(struct br_dimensional *p, uint32_t thread, uint32_t w, uint32_t d)
{
    const struct br_stage *stage = &p->stages[thread].stages[w];

    return list_ranges(p, thread,
                       br_stages_base(&p->stages[thread], p->head->rank, w) + d * stage->weight,
                       stage->weight);
}

/* All chunks: one range, or each for itself. */
static uint32_t list_all(struct br_dimensional *p)
{
    uint32_t n = p->head->n * p->threads;

    if (!p->blocks) {
        p->ranges[0] = (struct br_chunk_range){0, p->head->pieces};
        return 1;
    }
    for (uint32_t chunk = 0; chunk < n; chunk++)
        p->ranges[chunk] = (struct br_chunk_range){chunk, 1};
    return n;
}

struct br_span br_dimensional_located(const struct br_dimensional *p, struct br_chunk_range range)
{
    return (struct br_span){p->place[range.first].buffer, p->place[range.first].first, range.count};
}

void br_dimensional_put(struct br_dimensional *p, struct br_chunk_range range, struct br_span span)
{
    for (uint32_t i = 0; i < range.count; i++)
        p->place[range.first + i] = (struct br_span){span.buffer, span.first + i, 1};
}

static uint8_t level_to(const struct br_dimensional *p, const struct br_stage *stage, uint32_t peer)
{
    return br_stage_level(stage, p->head->rank, peer);
}

static void dimensional_send(struct br_dimensional *p, uint32_t peer, uint8_t level,
                             struct br_chunk_range range)
{
    br_builder_send(p->b, peer, level, br_dimensional_located(p, range));
}

/* Receives chunks that are complete. */
static void recv_output(struct br_dimensional *p, uint32_t peer, uint8_t level,
                        struct br_chunk_range range)
{
    struct br_span span = {p->area.buffer, p->area.first + range.first, range.count};

    br_builder_recv(p->b, peer, level, span);
    br_dimensional_put(p, range, span);
}

static struct br_span recv_scratch(struct br_dimensional *p, uint32_t peer, uint8_t level,
                                   struct br_chunk_range range)
{
    if (p->packed)
        return br_packed_recv(p, peer, level, range.count);
    return br_builder_recv_scratch(p->b, peer, level,
                                   (struct br_span){BR_INPUT, range.first, range.count});
}

/* Where the sum of chunks goes. */
static struct br_span sum_span(struct br_dimensional *p, struct br_chunk_range range, bool final)
{
    uint32_t own = p->head->rank * p->threads;
    bool mine = final && range.first >= own && range.first - own < p->threads;

    if (p->head->collective == BR_REDUCE_SCATTER && mine)
        return (struct br_span){BR_OUTPUT, range.first - own, range.count};
    if (p->head->collective == BR_ALLREDUCE ||
        (p->head->collective == BR_REDUCE && p->head->rank == p->head->root))
        return (struct br_span){BR_OUTPUT, range.first, range.count};
    return br_builder_scratch(p->b, range.count);
}

static void dimensional_reduce(struct br_dimensional *p, struct br_chunk_range range,
                               const struct br_span *sources, uint32_t n, bool final)
{
    struct br_span sum;

    if (p->packed) {
        br_packed_reduce(p, range, sources, n, final);
        return;
    }
    sum = sum_span(p, range, final);
    br_builder_reduce(p->b, sum, sources, n, final);
    br_dimensional_put(p, range, sum);
}

/* Each member sends every other one its run and adds up what it gets, in the order of the
 * members. */
static void reduce_direct(struct br_dimensional *p, uint32_t thread, uint32_t w)
{
    const struct br_stage *stage = &p->stages[thread].stages[w];
    uint32_t own = br_stage_digit(stage, p->head->rank), size = stage->size, n = 0;

    for (uint32_t i = 1; i < size; i++) {
        uint32_t to = (own + i) % size, from = (own + size - i) % size;

        n = list_run(p, thread, w, to);
        for (uint32_t r = 0; r < n; r++)
            dimensional_send(p, br_stage_member(stage, p->head->rank, to), stage->level,
                             p->ranges[r]);
        n = list_run(p, thread, w, own);
        for (uint32_t r = 0; r < n; r++)
            p->sources[r * size + from] = recv_scratch(
                p, br_stage_member(stage, p->head->rank, from), stage->level, p->ranges[r]);
    }
    for (uint32_t r = 0; r < n; r++) {
        p->sources[r * size + own] = br_dimensional_located(p, p->ranges[r]);
        dimensional_reduce(p, p->ranges[r], &p->sources[(size_t)r * size], size,
                           w + 1 == p->stages[thread].n_stages);
    }
}

/* The partial sum of each run travels once around and ends at its owner. */
static void reduce_ring(struct br_dimensional *p, uint32_t thread, uint32_t w)
{
    const struct br_stage *stage = &p->stages[thread].stages[w];
    uint32_t own = br_stage_digit(stage, p->head->rank), size = stage->size;
    uint32_t next = br_stage_member(stage, p->head->rank, (own + 1) % size);
    uint32_t previous = br_stage_member(stage, p->head->rank, (own + size - 1) % size);

    for (uint32_t s = 0; s + 1 < size; s++) {
        bool final = s + 2 == size && w + 1 == p->stages[thread].n_stages;
        uint32_t n = list_run(p, thread, w, (own + 2 * size - s - 1) % size);

        for (uint32_t r = 0; r < n; r++)
            dimensional_send(p, next, level_to(p, stage, next), p->ranges[r]);
        n = list_run(p, thread, w, (own + 2 * size - s - 2) % size);
        for (uint32_t r = 0; r < n; r++) {
            struct br_span got =
                recv_scratch(p, previous, level_to(p, stage, previous), p->ranges[r]);

            dimensional_reduce(p, p->ranges[r],
                               (struct br_span[]){got, br_dimensional_located(p, p->ranges[r])}, 2,
                               final);
        }
    }
}

/* In a broadcast the root has everything already. */
static bool has_all(const struct br_dimensional *p, uint32_t rank)
{
    return p->head->collective == BR_BROADCAST && rank == p->head->root;
}

/* One step of the gathering: sends the run with digit `to_run`, gets the one with digit
 * `from_run`. */
static void gather_step(struct br_dimensional *p, uint32_t thread, uint32_t w, uint32_t to,
                        uint32_t to_run, uint32_t from, uint32_t from_run)
{
    const struct br_stage *stage = &p->stages[thread].stages[w];
    uint32_t target = br_stage_member(stage, p->head->rank, to), n;
    uint32_t source = br_stage_member(stage, p->head->rank, from);

    n = has_all(p, target) ? 0 : list_run(p, thread, w, to_run);
    for (uint32_t r = 0; r < n; r++)
        dimensional_send(p, target, level_to(p, stage, target), p->ranges[r]);
    n = has_all(p, p->head->rank) ? 0 : list_run(p, thread, w, from_run);
    for (uint32_t r = 0; r < n; r++)
        recv_output(p, source, level_to(p, stage, source), p->ranges[r]);
}

static void dimensional_gather(struct br_dimensional *p, uint32_t thread, uint32_t w)
{
    const struct br_stage *stage = &p->stages[thread].stages[w];
    uint32_t size = stage->size, own = br_stage_digit(stage, p->head->rank);

    for (uint32_t i = 1; i < size; i++) {
        if (stage->ring)
            gather_step(p, thread, w, (own + 1) % size, (own + size - i + 1) % size,
                        (own + size - 1) % size, (own + size - i) % size);
        else
            gather_step(p, thread, w, (own + i) % size, own, (own + size - i) % size,
                        (own + size - i) % size);
    }
}

void br_dimensional_reduce_all(struct br_dimensional *p)
{
    for (uint32_t w = 0; w < p->stages[0].n_stages; w++) {
        for (uint32_t t = 0; t < p->threads; t++)
            (p->stages[t].stages[w].ring ? reduce_ring : reduce_direct)(p, t, w);
    }
}

void br_dimensional_gather_all(struct br_dimensional *p)
{
    for (uint32_t w = p->stages[0].n_stages; w-- > 0;) {
        for (uint32_t t = 0; t < p->threads; t++)
            dimensional_gather(p, t, w);
    }
}

static bool in_block(const struct br_dimensional *p, struct br_chunk_range range, uint32_t rank)
{
    return range.first / p->threads == rank;
}

/* A folded rank gives its whole input to its partner, who adds it to its own. */
static void dimensional_fold(struct br_dimensional *p)
{
    uint32_t n = p->partner == p->head->rank ? 0 : list_all(p);

    for (uint32_t r = 0; r < n && br_dimensional_folded(p); r++)
        dimensional_send(p, p->partner, BR_LEVEL_ANY, p->ranges[r]);
    for (uint32_t r = 0; r < n && !br_dimensional_folded(p); r++) {
        struct br_span got = recv_scratch(p, p->partner, BR_LEVEL_ANY, p->ranges[r]);

        dimensional_reduce(p, p->ranges[r],
                           (struct br_span[]){br_dimensional_located(p, p->ranges[r]), got}, 2,
                           p->core == 1);
    }
}

/* A folded rank gets from its partner what it lacks. */
static void dimensional_unfold(struct br_dimensional *p)
{
    enum br_collective collective = p->head->collective;
    uint32_t extra = br_dimensional_folded(p) ? p->head->rank : p->partner;
    uint32_t n = p->partner == p->head->rank || has_all(p, extra) ? 0 : list_all(p);

    for (uint32_t r = 0; r < n; r++) {
        struct br_chunk_range range = p->ranges[r];

        if (p->blocks && in_block(p, range, extra) != (collective == BR_REDUCE_SCATTER))
            continue;
        if (!br_dimensional_folded(p))
            dimensional_send(p, extra, BR_LEVEL_ANY, range);
        else if (collective == BR_REDUCE_SCATTER)
            br_builder_recv(p->b, p->partner, BR_LEVEL_ANY,
                            (struct br_span){BR_OUTPUT, range.first % p->threads, 1});
        else
            recv_output(p, p->partner, BR_LEVEL_ANY, range);
    }
}

/* A folded rank hands its block to its partner before the gathering. */
static void fold_blocks(struct br_dimensional *p)
{
    uint32_t extra = br_dimensional_folded(p) ? p->head->rank : p->partner;

    for (uint32_t t = 0; t < p->threads && p->partner != p->head->rank; t++) {
        struct br_chunk_range range = {extra * p->threads + t, 1};

        if (br_dimensional_folded(p))
            dimensional_send(p, p->partner, BR_LEVEL_ANY, range);
        else
            recv_output(p, p->partner, BR_LEVEL_ANY, range);
    }
}

/* The chunk of a thread that a rank of the core owns after the reduction, where chunks lie
 * whole. */
static struct br_chunk_range own_chunk(const struct br_dimensional *p, uint32_t thread,
                                       uint32_t rank)
{
    return (struct br_chunk_range){
        thread * p->core + br_stages_base(&p->stages[thread], rank, p->stages[thread].n_stages), 1};
}

/* The root sends each rank of the core the chunks that it owns. */
static void dimensional_scatter(struct br_dimensional *p)
{
    uint32_t root = p->head->root;

    for (uint32_t i = 0; i < p->core; i++) {
        uint32_t rank = (root + 1 + i) % p->core;

        for (uint32_t t = 0; t < p->threads && rank != root; t++) {
            if (p->head->rank == root)
                dimensional_send(p, rank, BR_LEVEL_ANY, own_chunk(p, t, rank));
            else if (p->head->rank == rank)
                recv_output(p, root, BR_LEVEL_ANY, own_chunk(p, t, rank));
        }
    }
}

/* Each rank sends the root the chunks that it owns. The core is all ranks. */
static void gather_to_root(struct br_dimensional *p)
{
    uint32_t root = p->head->root;

    for (uint32_t i = 1; i < p->core; i++) {
        uint32_t rank = (root + i) % p->core;

        for (uint32_t t = 0; t < p->threads; t++) {
            if (p->head->rank == rank)
                dimensional_send(p, root, BR_LEVEL_ANY, own_chunk(p, t, rank));
            else if (p->head->rank == root)
                recv_output(p, rank, BR_LEVEL_ANY, own_chunk(p, t, rank));
        }
    }
}

/* Chunks of the larger user buffer start in INPUT; in an allgather this has only those of the
 * rank. */
static void place_input(struct br_dimensional *p)
{
    bool all = p->head->collective != BR_ALLGATHER;

    for (uint32_t i = 0; i < p->threads && !all; i++)
        p->place[p->head->rank * p->threads + i] = (struct br_span){BR_INPUT, i, 1};
    if (all)
        br_dimensional_put(
            p, (struct br_chunk_range){0, p->head->pieces * (p->blocks ? p->head->n : 1)},
            (struct br_span){BR_INPUT, 0, 1});
}

static void dimensional_run(struct br_dimensional *p)
{
    bool core = !br_dimensional_folded(p);

    place_input(p);
    switch (p->head->collective) {
    case BR_ALLREDUCE:
    case BR_REDUCE:
    case BR_REDUCE_SCATTER:
        dimensional_fold(p);
        if (core)
            br_dimensional_reduce_all(p);
        if (p->head->collective == BR_REDUCE)
            gather_to_root(p);
        break;
    case BR_ALLGATHER:
        fold_blocks(p);
        break;
    default:
        dimensional_scatter(p);
        break;
    }
    if (core && p->head->collective != BR_REDUCE && p->head->collective != BR_REDUCE_SCATTER)
        br_dimensional_gather_all(p);
    dimensional_unfold(p);
    if (p->head->collective == BR_ALLGATHER || has_all(p, p->head->rank))
        br_builder_copy(p->b,
                        (struct br_span){BR_OUTPUT, p->blocks ? p->head->rank * p->threads : 0,
                                         p->head->pieces},
                        (struct br_span){BR_INPUT, 0, p->head->pieces});
}

static uint32_t dimensional_partner_of(const struct br_dimensional *p)
{
    uint32_t rank = p->head->rank;

    if (rank >= p->core)
        return rank - p->core;
    return rank + p->core < p->head->n ? rank + p->core : rank;
}

int br_generate_dimensional(struct br_builder *builder, const struct br_shape *shape, bool packed)
{
    struct br_dimensional p = {
        .b = builder, .head = br_builder_schedule(builder), .threads = shape->threads};
    uint32_t n = p.head->n, pieces;
    int rc = 0;

    p.blocks = br_collective_by_blocks(p.head->collective);
    p.stages = calloc(p.threads, sizeof *p.stages);
    p.place = calloc((size_t)n * p.threads, sizeof *p.place);
    p.ranges = calloc((size_t)n * p.threads, sizeof *p.ranges);
    p.sources = calloc(2 * (size_t)n + 1, sizeof *p.sources);
    if (!p.stages || !p.place || !p.ranges || !p.sources) {
        rc = br_error(ENOMEM, "no memory for the schedule of rank %u", p.head->rank);
        goto out;
    }
    for (uint32_t t = 0; t < p.threads; t++)
        br_shape_stages(shape, t, &p.stages[t]);
    p.core = p.stages[0].core;
    p.partner = dimensional_partner_of(&p);
    p.area.buffer = BR_OUTPUT;
    pieces = p.blocks ? p.threads : p.threads * p.core;
    br_builder_set_pieces(builder, pieces);
    if (packed)
        rc = br_packed_run(&p, br_shape_packed(shape, n));
    else if (n == 1)
        br_builder_copy(builder, (struct br_span){BR_OUTPUT, 0, pieces},
                        (struct br_span){BR_INPUT, 0, pieces});
    else
        dimensional_run(&p);
out:
    free(p.sources);
    free(p.ranges);
    free(p.place);
    free(p.stages);
    return rc;
}
