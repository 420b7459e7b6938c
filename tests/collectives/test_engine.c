/* SPDX-License-Identifier: BSD-3-Clause */
/* Engines over the simulator: every collective, sizes, types, priorities, restarts, and how operations fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "collectives/reduce.h"
#include "collectives/type.h"
#include "job.h"

#define GUARD 64 /* bytes around each buffer that must stay as they were */

/* One collective on all ranks of a job. */
struct call {
    enum br_collective collective;
    size_t count;
    enum braid_type type;
    enum braid_reduction reduction;
    int root;
    bool in_place;
    const char *algorithm;
    int32_t priority;

    struct br_operation *ops;
    uint8_t **in, **out; /* of each rank, with guards; in place: in is a copy of what was there */
    uint8_t **memory;
};

/* Small whole numbers are exact in every type. */
static void put_number(enum braid_type type, uint8_t *to, int value)
{
    static const uint16_t halves[] = {0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500};
    float single = (float)value;
    double twice = value;
    uint32_t bits;
    int64_t whole = value;

    memcpy(&bits, &single, sizeof bits);
    bits >>= 16;
    switch (type) {
    case BRAID_FLOAT32:
        memcpy(to, &single, sizeof single);
        break;
    case BRAID_FLOAT64:
        memcpy(to, &twice, sizeof twice);
        break;
    case BRAID_FLOAT16:
        memcpy(to, &halves[value], 2);
        break;
    case BRAID_BFLOAT16:
        memcpy(to, &bits, 2);
        break;
    default:
        memcpy(to, &whole, br_type_size(type)); /* little-endian */
        break;
    }
}

static size_t in_bytes(const struct call *c, int n)
{
    return c->count * br_type_size(c->type) * br_collective_blocks(c->collective, (uint32_t)n, BR_INPUT);
}

static size_t out_bytes(const struct call *c, int n)
{
    return c->count * br_type_size(c->type) * br_collective_blocks(c->collective, (uint32_t)n, BR_OUTPUT);
}

static void fill(const struct call *c, uint8_t *memory, size_t bytes, int rank)
{
    size_t size = br_type_size(c->type);
    size_t range = c->reduction == BRAID_PROD ? 2 : 5;

    for (size_t i = 0; i < bytes / size; i++)
        put_number(c->type, memory + i * size, (int)(((size_t)rank * 7 + i * 3 + i / 11) % range) + 1);
}

/* Where the call reads and writes, for one rank. */
static void lay_out(struct call *c, struct br_operation *op, int n, int rank)
{
    size_t in = in_bytes(c, n), out = out_bytes(c, n), block = c->count * br_type_size(c->type);
    uint8_t *memory = c->memory[rank];

    op->send = memory + GUARD;
    op->recv = memory + GUARD + in + GUARD;
    if (c->in_place) {
        op->send = c->collective == BR_ALLGATHER ? memory + GUARD + (size_t)rank * block : memory + GUARD;
        op->recv = c->collective == BR_REDUCE_SCATTER ? memory + GUARD + (size_t)rank * block : memory + GUARD;
    }
    memset(memory, 0xa5, in + out + 3 * GUARD);
    fill(c, (uint8_t *)(uintptr_t)op->send, in, rank);
    memcpy(c->in[rank], op->send, in);
    c->out[rank] = op->recv;
}

static void call_create(struct call *c, const struct job *job)
{
    size_t most = (c->count * 8 + 1) * (size_t)job->n * 2 + 3 * GUARD;

    c->ops = calloc((size_t)job->n, sizeof *c->ops);
    c->in = calloc((size_t)job->n, sizeof *c->in);
    c->out = calloc((size_t)job->n, sizeof *c->out);
    c->memory = calloc((size_t)job->n, sizeof *c->memory);
    for (int r = 0; r < job->n; r++) {
        c->in[r] = malloc(most);
        c->memory[r] = malloc(most);
    }
}

static void call_prepare(struct call *c, const struct job *job, int rank)
{
    struct br_operation *op = &c->ops[rank];

    *op = (struct br_operation){.kind = BR_OPERATION_COLLECTIVE,
                                .collective = c->collective,
                                .count = c->count,
                                .type = c->type,
                                .reduction = c->reduction,
                                .root = c->root,
                                .priority = c->priority};
    if (c->algorithm)
        snprintf(op->algorithm, sizeof op->algorithm, "%s", c->algorithm);
    lay_out(c, op, job->n, rank);
}

static void call_destroy(struct call *c, const struct job *job)
{
    for (int r = 0; r < job->n; r++) {
        free(c->in[r]);
        free(c->memory[r]);
    }
    free(c->ops);
    free(c->in);
    free(c->out);
    free(c->memory);
}

static void submit_all(struct call *c, struct job *job)
{
    call_create(c, job);
    for (int r = 0; r < job->n; r++) {
        call_prepare(c, job, r);
        job_submit(job, r, &c->ops[r]);
    }
}

/* What `rank` should have in `expected`; false: its output does not count. */
static bool expect(const struct call *c, int n, int rank, uint8_t *expected)
{
    size_t block = c->count * br_type_size(c->type);
    const void *sources[64];

    for (int r = 0; r < n; r++)
        sources[r] = c->in[r] + (c->collective == BR_REDUCE_SCATTER ? (size_t)rank * block : 0);
    switch (c->collective) {
    case BR_ALLGATHER:
        for (int r = 0; r < n; r++)
            memcpy(expected + (size_t)r * block, c->in[r], block);
        return true;
    case BR_BROADCAST:
        memcpy(expected, c->in[c->root], block);
        return true;
    case BR_BARRIER:
        return false;
    default:
        assert_int_equal(br_reduce(c->type, c->reduction, expected, sources, n, c->count, n), 0);
        return c->collective != BR_REDUCE || rank == c->root;
    }
}

static void guard_intact(const uint8_t *at)
{
    for (int i = 0; i < GUARD; i++)
        assert_int_equal(at[i], 0xa5);
}

static void check(const struct call *c, const struct job *job)
{
    uint8_t *expected = calloc(1, c->count * 8 * (size_t)job->n + 1);

    for (int r = 0; r < job->n; r++) {
        size_t bytes = out_bytes(c, job->n);

        if (c->ops[r].status)
            fail_msg("%s: %s", br_collective_name(c->collective), c->ops[r].words);
        if (expect(c, job->n, r, expected) && memcmp(expected, c->out[r], bytes) != 0)
            fail_msg("%s %s of %zu %s %s: wrong result at rank %d of %d (in place %d)", c->algorithm ? c->algorithm : "auto",
                     br_collective_name(c->collective), c->count, br_type_name(c->type), br_reduction_name(c->reduction), r,
                     job->n, c->in_place);
        guard_intact(c->memory[r]);
        if (!c->in_place) {
            assert_memory_equal(c->in[r], c->ops[r].send, in_bytes(c, job->n));
            guard_intact(c->out[r] + bytes);
        }
    }
    free(expected);
}

static void run_call(struct job *job, struct call c)
{
    submit_all(&c, job);
    job_run(job, job->ended + job->n);
    check(&c, job);
    call_destroy(&c, job);
}

static bool applies(const char *algorithm, enum br_collective collective, int n, int root)
{
    struct br_schedule_request request = {.collective = collective, .n = (uint32_t)n, .root = (uint32_t)root};

    if (!algorithm)
        return true;
    assert_int_equal(br_algorithm_find(algorithm, &request.algorithm), 0);
    return br_algorithm_check(&request) == 0;
}

/* Every collective and algorithm, in place and not, over some counts. */
static void every_call(struct job *job, const size_t *counts, int n_counts)
{
    static const char *const algorithms[] = {NULL, "flat", "tree", "chain", "direct", "ring", "halving", "dissemination"};
    int turn = 0;

    for (int c = 0; c < BR_COLLECTIVES; c++)
        for (size_t a = 0; a < sizeof algorithms / sizeof *algorithms; a++)
            for (int i = 0; i < n_counts * 2; i++, turn++) {
                struct call call = {.collective = (enum br_collective)c,
                                    .algorithm = algorithms[a],
                                    .count = c == BR_BARRIER ? 0 : counts[i / 2],
                                    .in_place = i % 2,
                                    .type = (enum braid_type)(turn % BRAID_TYPES),
                                    .reduction = (enum braid_reduction)(turn / 3 % BRAID_REDUCTIONS)};

                if (c == BR_BROADCAST || c == BR_REDUCE)
                    call.root = turn % job->n;
                if (applies(algorithms[a], call.collective, job->n, call.root))
                    run_call(job, call);
            }
}

static void collective__all_ranks_all_algorithms(void **state)
{
    static const size_t counts[] = {0, 1, 7, 1001};

    (void)state;
    for (int n = 1; n <= 9; n++) {
        struct job job;

        job_create(&job, &(struct job_options){.n = n, .rails = 1, .network = {.seed = 1}});
        every_call(&job, counts, 4);
        job_destroy(&job);
    }
}

/* Chunks of 2 KiB: many fragments, more than runs. */
static void fragmented(const struct job_options *options)
{
    static const size_t counts[] = {20001, 70000};
    struct job_options small = *options;
    struct job job;

    small.engine.chunk_bytes = 2048;
    job_create(&job, &small);
    every_call(&job, counts, 2);
    for (int i = 0; i < job.n; i++)
        assert_int_equal(job.ranks[i].worker->slots.n_free, job.ranks[i].worker->slots.count);
    job_destroy(&job);
}

static void collective__many_fragments(void **state)
{
    (void)state;
    fragmented(&(struct job_options){.n = 3, .rails = 2, .network = {.seed = 1, .early_sent = true}});
}

static void collective__mapped(void **state)
{
    (void)state;
    fragmented(&(struct job_options){.n = 4, .rails = 1, .network = {.seed = 1, .maps = true}});
}

static void collective__wild_network(void **state)
{
    (void)state;
    fragmented(&(struct job_options){.n = 3,
                                     .rails = 2,
                                     .network = {.seed = 7,
                                                 .unordered = true,
                                                 .early_sent = true,
                                                 .loss_ppm = 5000,
                                                 .duplicate_ppm = 5000,
                                                 .reorder_ppm = 20000}});
}

static void collective__every_type_and_reduction(void **state)
{
    struct job job;

    (void)state;
    job_create(&job, &(struct job_options){.n = 4, .rails = 1, .network = {.seed = 1}});
    for (int t = 0; t < BRAID_TYPES; t++)
        for (int r = 0; r < BRAID_REDUCTIONS; r++)
            run_call(&job, (struct call){.collective = BR_ALLREDUCE,
                                         .count = 331,
                                         .type = (enum braid_type)t,
                                         .reduction = (enum braid_reduction)r,
                                         .in_place = r % 2});
    job_destroy(&job);
}

static void collective__larger_than_a_transfer(void **state)
{
    struct job job;

    (void)state;
    job_create(&job, &(struct job_options){.n = 2,
                                           .rails = 1,
                                           .network = {.seed = 1, .bits_per_second = 100ull << 30},
                                           .engine = {.chunk_bytes = 64u << 20}});
    run_call(&job, (struct call){.collective = BR_BROADCAST, .count = (40u << 20) + 5, .type = BRAID_UINT8});
    job_destroy(&job);
}

/* Ranks see the operations at different moments, so they start different ones first; few runs. */
static void priorities__seen_at_different_moments(void **state)
{
    enum { CALLS = 40, RANKS = 4 };
    struct call calls[CALLS];
    struct br_random random;
    struct job job;
    int next[RANKS] = {0};

    (void)state;
    br_random_seed(&random, 5);
    job_create(&job, &(struct job_options){.n = RANKS,
                                           .rails = 1,
                                           .network = {.seed = 1},
                                           .engine = {.max_runs = 2, .window = 2, .chunk_bytes = 4096}});
    for (int i = 0; i < CALLS; i++) {
        calls[i] = (struct call){.collective = BR_ALLREDUCE,
                                 .count = 1 + br_random_next(&random) % 9000,
                                 .priority = (int32_t)(br_random_next(&random) % 5)};
        call_create(&calls[i], &job);
        for (int r = 0; r < RANKS; r++)
            call_prepare(&calls[i], &job, r);
    }
    for (int left = CALLS * RANKS; left;) {
        int r = (int)(br_random_next(&random) % RANKS);

        for (uint64_t many = br_random_next(&random) % 6; many && next[r] < CALLS; many--, left--)
            job_submit(&job, r, &calls[next[r]++].ops[r]);
        job_step(&job);
    }
    job_run(&job, CALLS * RANKS);
    for (int i = 0; i < CALLS; i++) {
        check(&calls[i], &job);
        call_destroy(&calls[i], &job);
    }
    job_destroy(&job);
}

/* While a large one is under way, an urgent small one ends first. */
static void priorities__urgent_overtakes(void **state)
{
    struct call large = {.collective = BR_ALLREDUCE, .count = 4u << 20};
    struct call urgent = {.collective = BR_ALLREDUCE, .count = 30000, .priority = 9};
    struct job job;

    (void)state;
    job_create(&job, &(struct job_options){.n = 2, .rails = 1, .network = {.seed = 1}});
    submit_all(&large, &job);
    for (int i = 0; i < 500; i++)
        job_step(&job);
    assert_int_equal(job.ended, 0);
    submit_all(&urgent, &job);
    job_run(&job, 2);
    assert_int_equal(urgent.ops[0].status, 0);
    assert_int_equal(urgent.ops[1].status, 0);
    assert_true(large.ops[0].fragments.ended < large.ops[0].fragments.count / 2);
    job_run(&job, 4);
    check(&urgent, &job);
    check(&large, &job);
    call_destroy(&large, &job);
    call_destroy(&urgent, &job);
    job_destroy(&job);
}

static void persistent__restart_allocates_nothing(void **state)
{
    struct call c = {.collective = BR_ALLREDUCE, .count = 300000, .reduction = BRAID_AVG};
    struct job job;
    uint64_t before = 0;

    (void)state;
    job_create(&job, &(struct job_options){.n = 3, .rails = 1, .network = {.seed = 1}});
    call_create(&c, &job);
    for (int i = 0; i < 20; i++) {
        if (i == 5)
            before = br_engine_late_allocations(job.ranks[1].engine);
        for (int r = 0; r < job.n; r++) {
            call_prepare(&c, &job, r);
            job_submit(&job, r, &c.ops[r]);
        }
        job_run(&job, (i + 1) * job.n);
        check(&c, &job);
    }
    assert_int_equal(br_engine_late_allocations(job.ranks[1].engine), before);
    call_destroy(&c, &job);
    job_destroy(&job);
}

/* ---- failures ---------------------------------------------------------------------------------------------- */

static void deadline__names_operation_and_peer(void **state)
{
    struct call c = {.collective = BR_ALLREDUCE, .count = 100000, .algorithm = "ring"}, other = c;
    struct job job;

    (void)state;
    job_create(&job, &(struct job_options){.n = 3, .rails = 1, .network = {.seed = 1}});
    call_create(&c, &job);
    call_create(&other, &job);
    for (int r = 0; r < 2; r++) { /* rank 2 does not come */
        call_prepare(&c, &job, r);
        call_prepare(&other, &job, r);
        c.ops[r].timeout = 50 * BR_MS + (uint64_t)r * BR_SEC;
        job_submit(&job, r, &c.ops[r]);
        job_submit(&job, r, &other.ops[r]);
    }
    job_run(&job, 4);
    assert_int_equal(c.ops[0].status, -ETIMEDOUT);
    assert_non_null(strstr(c.ops[0].words, "allreduce of 100000 float32 (operation 0) missed its deadline of 50 ms"));
    assert_non_null(strstr(c.ops[0].words, "waits for rank 2 (level 0, device"));
    assert_non_null(strstr(other.ops[0].words, "operation 1"));
    assert_non_null(strstr(other.ops[0].words, "missed its deadline"));
    assert_int_equal(c.ops[1].status, -ECANCELED);
    assert_non_null(strstr(c.ops[1].words, "rank 0"));
    assert_int_equal(job_try_submit(&job, 0, &c.ops[0]), -ECANCELED);
    assert_int_equal(br_engine_next_deadline(job.ranks[0].engine), UINT64_MAX);
    call_destroy(&c, &job);
    call_destroy(&other, &job);
    job_destroy(&job);
}

static void failure__dead_peer_ends_all(void **state)
{
    enum { CALLS = 5 };
    struct call calls[CALLS];
    struct job job;

    (void)state;
    job_create(&job, &(struct job_options){.n = 3, .rails = 2, .network = {.seed = 1}, .engine = {.chunk_bytes = 8192}});
    for (int i = 0; i < CALLS; i++) {
        calls[i] = (struct call){.collective = BR_ALLREDUCE, .count = 500000};
        submit_all(&calls[i], &job);
    }
    for (int i = 0; i < 300; i++)
        job_step(&job);
    assert_int_equal(
        br_sim_add_fault(job.sim, &(struct br_sim_fault){.kind = BR_SIM_HOST_KILLED, .at = br_sim_now(job.sim), .host = 2}), 0);
    job_run(&job, 2 * CALLS);
    for (int i = 0; i < CALLS; i++)
        for (int r = 0; r < 2; r++) { /* the second rank may hear of it only by the links that the first one closes */
            assert_true(calls[i].ops[r].status == -ECONNRESET || calls[i].ops[r].status == -ECANCELED);
            assert_non_null(strstr(calls[i].ops[r].words, "allreduce of 500000 float32 (operation"));
        }
    assert_true(strstr(calls[0].ops[0].words, "rank 2 is lost") || strstr(calls[0].ops[1].words, "rank 2 is lost"));
    job_destroy(&job); /* the dead rank's worker still owns its buffers until here */
    for (int i = 0; i < CALLS; i++)
        call_destroy(&calls[i], &job);
}

/* The ranks disagree: in the count, in the reduction, in the collective. */
static void failure__ranks_disagree(void **state)
{
    static const struct call pairs[][2] = {
        {{.collective = BR_ALLREDUCE, .count = 100}, {.collective = BR_ALLREDUCE, .count = 101}},
        {{.collective = BR_ALLREDUCE, .count = 90000}, {.collective = BR_ALLREDUCE, .count = 90000, .reduction = BRAID_MAX}},
        {{.collective = BR_BROADCAST, .count = 50000}, {.collective = BR_REDUCE, .root = 1, .count = 50000}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct call calls[2] = {pairs[i][0], pairs[i][1]};
        int noticed = 0;
        struct job job;

        job_create(&job, &(struct job_options){.n = 2, .rails = 1, .network = {.seed = 1}});
        for (int r = 0; r < 2; r++) {
            calls[r].algorithm = "direct";
            call_create(&calls[r], &job);
            call_prepare(&calls[r], &job, r);
            calls[r].ops[r].timeout = 100 * BR_MS;
            job_submit(&job, r, &calls[r].ops[r]);
        }
        job_run(&job, 2);
        for (int r = 0; r < 2; r++) {
            assert_true(calls[r].ops[r].status < 0);
            noticed += calls[r].ops[r].status == -EPROTO && strstr(calls[r].ops[r].words, "disagree");
            call_destroy(&calls[r], &job);
        }
        assert_true(noticed > 0);
        job_destroy(&job);
    }
}

static void submit__refuses_bad_arguments(void **state)
{
    struct br_operation op = {.kind = BR_OPERATION_COLLECTIVE, .collective = BR_ALLREDUCE, .count = 4};
    struct job job;

    (void)state;
    job_create(&job, &(struct job_options){.n = 2, .rails = 1, .network = {.seed = 1}});
    snprintf(op.algorithm, sizeof op.algorithm, "magic");
    assert_int_equal(job_try_submit(&job, 0, &op), -EINVAL);
    assert_non_null(strstr(br_error_words(), "magic"));
    assert_null(br_engine_algorithm(job.ranks[0].engine, &op));
    snprintf(op.algorithm, sizeof op.algorithm, "dissemination");
    assert_int_equal(job_try_submit(&job, 0, &op), -EINVAL);
    snprintf(op.algorithm, sizeof op.algorithm, "ring");
    assert_string_equal(br_engine_algorithm(job.ranks[0].engine, &op), "ring");
    op.type = (enum braid_type)77;
    assert_int_equal(job_try_submit(&job, 0, &op), -EINVAL);
    op.type = BRAID_FLOAT32;
    op.collective = BR_BROADCAST;
    op.root = 2;
    assert_int_equal(job_try_submit(&job, 0, &op), -EINVAL);
    op.root = 0;
    op.count = SIZE_MAX / 4;
    assert_int_equal(job_try_submit(&job, 0, &op), -E2BIG);
    job.ranks[0].next_sequence = 0;
    run_call(&job, (struct call){.collective = BR_ALLREDUCE, .count = 4}); /* the communicator lives */
    job_destroy(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collective__all_ranks_all_algorithms),
        cmocka_unit_test(collective__many_fragments),
        cmocka_unit_test(collective__mapped),
        cmocka_unit_test(collective__wild_network),
        cmocka_unit_test(collective__every_type_and_reduction),
        cmocka_unit_test(collective__larger_than_a_transfer),
        cmocka_unit_test(priorities__seen_at_different_moments),
        cmocka_unit_test(priorities__urgent_overtakes),
        cmocka_unit_test(persistent__restart_allocates_nothing),
        cmocka_unit_test(deadline__names_operation_and_peer),
        cmocka_unit_test(failure__dead_peer_ends_all),
        cmocka_unit_test(failure__ranks_disagree),
        cmocka_unit_test(submit__refuses_bad_arguments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
