/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/shm/split.h"

#include "base/copy.h"
#include "collectives/engine/user_reduction.h"
#include "collectives/schedule/type.h"

/* What a round takes: to look at the cache line in which each rank publishes it (bench/shm_coll),
 * in s; and that a rank is waited for, or gets its core, about three times, as measured with 8 to
 * 32 ranks on 2 cores. */
#define LOOK_SECONDS 0.1e-6
#define WAITS        3
/* What a rank gives of a chunk at most. Its cells have room for more, but what is more urgent waits
 * for the end of a chunk. With 4 KiB more than 128 KiB a reduce of as many bytes by 4 ranks is one
 * chunk of three parts in whole lines. */
#define GIVES ((size_t)BR_SHM_COLL_BYTES + (4u << 10))
static_assert(GIVES <= BR_SHM_COLL_CELLS && GIVES / 2 <= BR_SHM_COLL_COMMON,
              "a part, of three ranks or more, fits into a cell and into what is common");

/* Bytes [first, first + bytes) of the operation. */
struct span {
    size_t first, bytes;
};

static size_t operation_bytes(const struct br_operation *op)
{
    return op->count * br_type_size(op->type);
}

/* Parts begin at cache lines, which are a multiple of the size of any type. */
static size_t whole_lines(size_t bytes)
{
    return (bytes + BR_SHM_COLL_LINE - 1) / BR_SHM_COLL_LINE * BR_SHM_COLL_LINE;
}

/* All ranks reduce a part, but for the root of a reduce, which gets the sums: each of the others
 * gives it as many sums as it gets values, so each place is written by turns (note 10). */
static bool reduces_part(const struct br_operation *op, uint32_t rank)
{
    return op->collective != BR_REDUCE || rank != (uint32_t)op->root;
}

static uint32_t part_count(const struct br_shm_coll *coll, const struct br_operation *op)
{
    return coll->ranks - (op->collective == BR_REDUCE);
}

static size_t chunk_count(const struct br_shm_coll *coll, const struct br_operation *op)
{
    size_t part = GIVES / (coll->ranks - 1) / BR_SHM_COLL_LINE * BR_SHM_COLL_LINE,
           most = part * part_count(coll, op), all = operation_bytes(op);

    return all ? (all + most - 1) / most : 1;
}

/* Chunks are of the same size, but for the last. */
static struct span chunk_of(const struct br_shm_coll *coll, const struct br_operation *op,
                            uint32_t index)
{
    size_t all = operation_bytes(op), n = chunk_count(coll, op),
           bytes = whole_lines((all + n - 1) / n), first = index * bytes;

    if (first >= all)
        return (struct span){.first = all};
    return (struct span){.first = first, .bytes = all - first < bytes ? all - first : bytes};
}

/* What `rank` reduces of a chunk. */
static struct span part_of(const struct br_shm_coll *coll, const struct br_operation *op,
                           struct span chunk, uint32_t rank)
{
    uint32_t parts = part_count(coll, op), index = rank;
    size_t lines = whole_lines(chunk.bytes) / BR_SHM_COLL_LINE, first, end;

    if (op->collective == BR_REDUCE)
        index -= rank > (uint32_t)op->root;
    first = lines * index / parts * BR_SHM_COLL_LINE;
    end = lines * (index + 1) / parts * BR_SHM_COLL_LINE;
    if (end > chunk.bytes)
        end = chunk.bytes;
    return (struct span){.first = chunk.first + first,
                         .bytes = reduces_part(op, rank) && end > first ? end - first : 0};
}

size_t br_shm_split_threshold(const struct br_cost_model *model, struct br_shm_rate rate,
                              uint32_t ranks)
{
    struct br_cost_level message = br_cost_message(model, 0);
    double n = ranks, saved = ((n - 1) - (n - 1) / n) * rate.reduce - rate.copy, /* for a byte */
        round = WAITS * (message.alpha + message.overhead) + n * LOOK_SECONDS;

    return saved > 0 && round / saved < BR_COST_MAX ? (size_t)(round / saved) + 1 : SIZE_MAX;
}

uint32_t br_shm_split_rounds(const struct br_shm_coll *coll, const struct br_operation *op)
{
    return (uint32_t)chunk_count(coll, op) + 1;
}

/* Reduces this rank's part of a chunk, whose values the ranks have exchanged last. */
static void split_reduce(const struct br_shm_coll *coll, const struct br_operation *op,
                         struct span part, void *out)
{
    const void *in[BR_SHM_COLL_RANKS];

    for (uint32_t r = 0; r < coll->ranks; r++)
        in[r] = r == coll->rank ? (const uint8_t *)op->send + part.first
                                : br_shm_coll_cell(coll, r, coll->rank);
    if (part.bytes)
        br_reduce_operation(op, out, in, (int)coll->ranks, part.bytes / br_type_size(op->type),
                            (int)coll->ranks);
}

/* The sums of this rank's part of a chunk. Those of a reduce are made in place of the root's
 * values, as in the next exchange the root reads that cell. */
static void split_give_sums(struct br_shm_coll *coll, const struct br_operation *op,
                            struct span chunk, uint64_t epoch)
{
    struct span part = part_of(coll, op, chunk, coll->rank);
    uint8_t *out = (uint8_t *)op->recv + part.first;

    if (op->collective == BR_REDUCE) {
        split_reduce(coll, op, part, br_shm_coll_cell(coll, (uint32_t)op->root, coll->rank));
        return;
    }
    split_reduce(coll, op, part, out);
    if (br_shm_split_sums_place(coll, op) == BR_SHM_IN_COMMON)
        br_shm_coll_give(coll, BR_SHM_IN_COMMON, out, 0, part.bytes);
    else
        br_shm_past_copy(&coll->past, br_shm_coll_space(coll, epoch), out, part.bytes);
}

void br_shm_split_write(struct br_shm_coll *coll, const struct br_operation *op, uint32_t round,
                        uint32_t first_round, uint64_t epoch)
{
    struct span chunk = chunk_of(coll, op, round);

    if (round != first_round && reduces_part(op, coll->rank))
        split_give_sums(coll, op, chunk_of(coll, op, round - 1), epoch);
    if (op->collective != BR_REDUCE && !chunk.bytes)
        return;
    br_shm_coll_exchange(coll);
    for (uint32_t r = 0; r < coll->ranks; r++) {
        struct span part = part_of(coll, op, chunk, r);

        if (r != coll->rank && part.bytes)
            br_copy(br_shm_coll_cell(coll, coll->rank, r), (const uint8_t *)op->send + part.first,
                    part.bytes);
    }
}

void br_shm_split_read(const struct br_shm_coll *coll, const struct br_operation *op,
                       uint32_t round, uint64_t epoch)
{
    struct span chunk = chunk_of(coll, op, round - 1);
    enum br_shm_place place = br_shm_split_sums_place(coll, op);

    if (op->collective == BR_REDUCE && coll->rank != (uint32_t)op->root)
        return;
    for (uint32_t r = 0; r < coll->ranks; r++) {
        struct span part = part_of(coll, op, chunk, r);

        if (part.bytes && r != coll->rank)
            br_copy((uint8_t *)op->recv + part.first,
                    place == BR_SHM_IN_RING ? br_shm_coll_data(coll, r, epoch, BR_SHM_COLL_BYTES)
                                            : br_shm_coll_given(coll, place, r),
                    part.bytes);
    }
}
