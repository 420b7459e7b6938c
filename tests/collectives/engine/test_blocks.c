/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives with blocks of different sizes, by the engines of a job over the simulator: against
 * the reference of case.h, and what happens when the ranks disagree. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "collectives/engine/blocks.h"
#include "collectives/schedule/type.h"
#include "tests/collectives/call.h"
#include "tests/says.h"

static const enum br_collective collectives[] = {BR_ALLTOALL, BR_ALLGATHER, BR_REDUCE_SCATTER,
                                                 BR_GATHER, BR_SCATTER};
#define COLLECTIVES (sizeof collectives / sizeof *collectives)

/* Chunks of 64 KiB: the larger blocks have several fragments. */
static void create(struct job *job, int n, int rails)
{
    job_create(job, &(struct job_options){.n = n, .rails = rails, .engine.chunk_bytes = 64 << 10});
}

/* ---- how blocks are cut ---------------------------------------------------------------------- */

static void br_block_range__covers_each_block_once(void **state)
{
    const size_t counts[] = {0, 1, 99, 100, 101, 250, 1000000}, offsets[7] = {0};
    struct br_operation op = {.blocks = {{counts, offsets}, {counts, offsets}}, .part = 100};

    (void)state;
    for (uint32_t block = 0; block < 7; block++) {
        uint32_t n = br_block_fragments(counts[block], op.part);
        size_t end = 0;

        assert_int_equal(n, block == 4 ? 2 : block == 5 ? 3 : block == 6 ? 10000 : 1);
        for (uint32_t f = 0; f < n; f++) {
            struct br_block_range range = br_block_range(&op, BR_INPUT, block, f);

            assert_int_equal(range.first, end);
            assert_true(range.elements <= op.part);
            assert_false(range.skipped);
            end += range.elements;
        }
        assert_int_equal(end, counts[block]);
        assert_true(br_block_range(&op, BR_INPUT, block, n).skipped);
        assert_int_equal(br_block_range(&op, BR_INPUT, block, n).elements, 0);
    }
}

static void br_block_fragments__fit_into_a_tag(void **state)
{
    (void)state;
    assert_int_equal(br_block_fragments(SIZE_MAX, 1), BR_BLOCK_FRAGMENTS);
    assert_int_equal(br_block_fragments(BR_BLOCK_FRAGMENTS * 10ull + 1, 10), BR_BLOCK_FRAGMENTS);
}

/* ---- values ---------------------------------------------------------------------------------- */

static void engine__uneven_blocks(void **state)
{
    static const size_t counts[] = {0, 1, 7, 1000, 50001};

    (void)state;
    for (int n = 1; n <= 8; n += n == 5 ? 3 : 1) {
        struct job job;

        create(&job, n, 2);
        for (size_t i = 0; i < COLLECTIVES * 5 * 2; i++) {
            struct call c = {.collective = collectives[i % COLLECTIVES],
                             .count = counts[i / COLLECTIVES % 5] + (i & 3),
                             .type = (enum braid_type)(i * 7 % BRAID_TYPES),
                             .reduction = (enum braid_reduction)(i % BRAID_REDUCTIONS),
                             .root = (int)i % n,
                             .in_place = i >= COLLECTIVES * 5,
                             .uneven = true};

            if (!br_collective_reduces(c.collective) || br_type_has_reduction(c.type, c.reduction))
                call_run(&job, c);
        }
        job_destroy(&job);
    }
}

static void engine__uneven_blocks_by_every_algorithm(void **state)
{
    static const char *const algorithms[] = {"ring", "direct", "halving", "blueconnect:3,2"};

    (void)state;
    for (size_t i = 0; i < 4 * 4; i++) {
        struct job job;

        create(&job, 6, 1);
        call_run(&job, (struct call){.collective = i % 2 ? BR_ALLGATHER : BR_REDUCE_SCATTER,
                                     .count = 30000 + i,
                                     .type = BRAID_INT32,
                                     .in_place = i % 4 >= 2,
                                     .algorithm = algorithms[i / 4],
                                     .uneven = true});
        job_destroy(&job);
    }
}

/* An alltoallv of 3 ranks; counts[a][b]: what rank a says that it sends to b; got[b][a]: what rank
 * b says that it receives from a. */
struct exchange {
    size_t sent[3][3], got[3][3];
    size_t offsets[3];
    uint8_t *memory[3];
    struct br_operation ops[3];
};

#define ROOM (1u << 20)

static void exchange_submit(struct exchange *x, struct job *job)
{
    for (int r = 0; r < 3; r++) {
        x->offsets[r] = (size_t)r * ROOM;
        x->memory[r] = calloc(6, ROOM);
        memset(x->memory[r], r + 1, 3 * ROOM);
    }
    for (int r = 0; r < 3; r++) {
        x->ops[r] = (struct br_operation){
            .kind = BR_OPERATION_COLLECTIVE,
            .collective = BR_ALLTOALL,
            .type = BRAID_UINT8,
            .send = x->memory[r],
            .recv = x->memory[r] + 3 * ROOM,
            .count = ROOM,
            .blocks = {{x->sent[r], x->offsets}, {x->got[r], x->offsets}},
            .timeout = 2 * BR_SEC,
        };
        job_submit(job, r, &x->ops[r]);
    }
    job_run(job, job->ended + 3);
}

static void exchange_free(struct exchange *x)
{
    for (int r = 0; r < 3; r++)
        free(x->memory[r]);
}

/* A block of 16 fragments, and empty ones. */
static void engine__one_large_block(void **state)
{
    struct exchange x = {.sent[1][2] = ROOM, .got[2][1] = ROOM};
    struct job job;

    (void)state;
    create(&job, 3, 2);
    exchange_submit(&x, &job);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(x.ops[r].status, 0);
        for (size_t i = 0; i < 3 * ROOM; i++)
            if (x.memory[r][3 * ROOM + i] != (r == 2 && i / ROOM == 1 ? 2 : 0))
                fail_msg("rank %d, byte %zu: %d", r, i, x.memory[r][3 * ROOM + i]);
    }
    exchange_free(&x);
    job_destroy(&job);
}

/* Nanoseconds of an allgatherv on 6 ranks, of which one has 4 MiB and the others nothing. */
static uint64_t skewed(const char *algorithm)
{
    static const size_t counts[] = {0, 0, 4 << 20, 0, 0, 0}, offsets[6] = {0};
    struct br_operation ops[6];
    uint8_t *memory = calloc(7, 4 << 20);
    struct job job;
    uint64_t began;

    create(&job, 6, 1);
    began = br_sim_now(job.sim);
    memset(memory, 5, 4 << 20);
    for (int r = 0; r < 6; r++) {
        ops[r] = (struct br_operation){
            .kind = BR_OPERATION_COLLECTIVE,
            .collective = BR_ALLGATHER,
            .type = BRAID_UINT8,
            .send = memory,
            .recv = memory + (size_t)(r + 1) * (4 << 20),
            .count = 4 << 20,
            .blocks = {{&counts[r], offsets}, {counts, offsets}},
        };
        snprintf(ops[r].algorithm, sizeof ops[r].algorithm, "%s", algorithm);
        job_submit(&job, r, &ops[r]);
    }
    job_run(&job, 6);
    began = br_sim_now(job.sim) - began;
    for (int r = 0; r < 6; r++)
        assert_memory_equal(ops[r].recv, memory, 4 << 20);
    free(memory);
    job_destroy(&job);
    return began;
}

static void engine__one_large_block_goes_around_the_ring(void **state)
{
    uint64_t chosen = skewed("auto"), direct = skewed("direct");

    (void)state;
    print_message("4 MiB of 1 of 6 ranks: %.2f ms, direct %.2f ms\n", (double)chosen / 1e6,
                  (double)direct / 1e6);
    assert_int_equal(chosen, skewed("ring"));
    assert_true(chosen < direct / 2);
}

/* ---- disagreement ---------------------------------------------------------------------------- */

/* What is sent has another size than what is received: both small, one small, both large, as many
 * fragments and not. */
static void failure__other_size_at_the_other_end(void **state)
{
    static const size_t sizes[][2] = {{0, 10},        {10, 0},         {10, 20},
                                      {10, 5000},     {5000, 10},      {5000, 6000},
                                      {65536, 65537}, {65536, 131072}, {ROOM, 65536}};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct exchange x = {.sent[1][2] = sizes[i][0], .got[2][1] = sizes[i][1]};
        struct job job;
        int noticed = 0;

        create(&job, 3, 1);
        exchange_submit(&x, &job);
        for (int r = 0; r < 3; r++)
            noticed += x.ops[r].status == -EPROTO &&
                       says_all(x.ops[r].message, "rank 1|rank 2|sends|receives");
        /* who has sent a small one may have ended before */
        if (!noticed || x.ops[2].status >= 0)
            fail_msg("%zu bytes sent, %zu received: %d %d %d, %s", sizes[i][0], sizes[i][1],
                     x.ops[0].status, x.ops[1].status, x.ops[2].status, x.ops[2].message);
        exchange_free(&x);
        job_destroy(&job);
    }
}

static void failure__ranks_disagree(void **state)
{
    static const struct call pairs[][2] = {
        {{.collective = BR_ALLGATHER, .count = 5000, .uneven = true},
         {.collective = BR_ALLGATHER, .count = 5001, .uneven = true}},
        {{.collective = BR_ALLGATHER, .count = 5000, .uneven = true},
         {.collective = BR_ALLGATHER, .count = 5000}},
        {{.collective = BR_REDUCE_SCATTER, .count = 5000, .uneven = true},
         {.collective = BR_REDUCE_SCATTER, .count = 5001, .uneven = true}},
        {{.collective = BR_ALLTOALL, .count = 500, .uneven = true},
         {.collective = BR_ALLTOALL, .count = 500}},
        {{.collective = BR_ALLTOALL, .count = 500, .uneven = true},
         {.collective = BR_ALLTOALL, .count = 500, .uneven = true, .type = BRAID_INT64}},
        {{.collective = BR_GATHER, .count = 50000, .uneven = true},
         {.collective = BR_GATHER, .count = 50000, .uneven = true, .root = 1}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct call calls[2] = {pairs[i][0], pairs[i][1]};
        struct job job;

        create(&job, 2, 1);
        if (!call_run_disagreeing(&job, calls, 3 * BR_SEC))
            fail_msg("pair %zu: nobody says so", i);
        job_destroy(&job);
    }
}

/* Algorithms that put several blocks into one message. */
static void failure__packing_algorithm(void **state)
{
    static const struct call calls[] = {
        {.collective = BR_ALLTOALL, .algorithm = "bruck", .count = 100, .uneven = true},
        {.collective = BR_GATHER, .algorithm = "tree", .count = 100, .uneven = true},
        {.collective = BR_SCATTER, .algorithm = "tree", .count = 100, .uneven = true},
    };

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct call c = calls[i];
        struct job job;

        create(&job, 4, 1);
        call_create(&c, &job);
        call_prepare(&c, &job, 0);
        assert_int_equal(job_try_submit(&job, 0, &c.ops[0]), -EINVAL);
        call_destroy(&c, &job);
        job_destroy(&job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_block_range__covers_each_block_once),
        cmocka_unit_test(br_block_fragments__fit_into_a_tag),
        cmocka_unit_test(engine__uneven_blocks),
        cmocka_unit_test(engine__uneven_blocks_by_every_algorithm),
        cmocka_unit_test(engine__one_large_block),
        cmocka_unit_test(engine__one_large_block_goes_around_the_ring),
        cmocka_unit_test(failure__other_size_at_the_other_end),
        cmocka_unit_test(failure__ranks_disagree),
        cmocka_unit_test(failure__packing_algorithm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
