/* SPDX-License-Identifier: BSD-3-Clause */
/* Engines over the simulator: every collective, sizes, types, priorities, restarts. How operations
 * fail: test_engine_failures.c. */
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
#include "call.h"

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
    static const char *const algorithms[] = {NULL,          "flat",        "tree",     "chain",
                                             "binary_tree", "double_tree", "doubling", "direct",
                                             "ring",        "halving",     "bruck",    "dissemination"};
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

                if (br_collective_rooted(call.collective))
                    call.root = turn % job->n;
                if (applies(algorithms[a], call.collective, job->n, call.root))
                    call_run(job, call);
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
    for (int i = 0; i < job.n; i++) {
        assert_int_equal(job.ranks[i].worker->slots.n_free, job.ranks[i].worker->slots.count);
        assert_int_equal(job.ranks[i].worker->counters.mapped_bytes > 0, options->network.maps);
        assert_int_equal(job.ranks[i].worker->devices[0]->counters.rx_combined_bytes > 0,
                         options->network.combine_ports & 1);
    }
    job_destroy(&job);
}

static void collective__many_fragments(void **state)
{
    (void)state;
    /* of the two devices one combines what comes */
    fragmented(&(struct job_options){
        .n = 3, .rails = 2, .network = {.seed = 1, .early_sent = true, .combine_ports = 1}});
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
            call_run(&job, (struct call){.collective = BR_ALLREDUCE,
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
    call_run(&job, (struct call){.collective = BR_BROADCAST, .count = (40u << 20) + 5, .type = BRAID_UINT8});
    job_destroy(&job);
}

/*
 * Operations of random sizes up to `most` elements; each rank gets to know of some more at moments of its own, `patience` turns apart on
 * the average. backward: each is more urgent than all before, as with gradients.
 */
static void seen_at_different_moments(const struct job_options *options, int n_calls, size_t most,
                                      const char *algorithm, uint64_t patience, bool backward, uint64_t seed)
{
    struct call *calls = calloc((size_t)n_calls, sizeof *calls);
    struct br_random random;
    struct job job;
    int next[8] = {0};

    assert_non_null(calls);
    br_random_seed(&random, seed);
    job_create(&job, options);
    for (int i = 0; i < n_calls; i++) {
        calls[i] = (struct call){.collective = BR_ALLREDUCE,
                                 .algorithm = algorithm,
                                 .count = 1 + br_random_below(&random, most),
                                 .priority = backward ? i : (int32_t)(br_random_next(&random) % 5)};
        call_create(&calls[i], &job);
        for (int r = 0; r < job.n; r++)
            call_prepare(&calls[i], &job, r);
    }
    for (int left = n_calls * job.n; left;) {
        int r = (int)(br_random_next(&random) % (uint64_t)job.n);

        if (!br_random_below(&random, patience))
            for (uint64_t many = br_random_below(&random, 16); many && next[r] < n_calls; many--, left--)
                job_submit(&job, r, &calls[next[r]++].ops[r]);
        job_step(&job);
    }
    job_run(&job, n_calls * job.n);
    for (int i = 0; i < n_calls; i++) {
        call_check(&calls[i], &job);
        call_destroy(&calls[i], &job);
    }
    job_destroy(&job);
    free(calls);
}

static void priorities__few_runs(void **state)
{
    (void)state;
    seen_at_different_moments(
        &(struct job_options){.n = 4,
                              .rails = 1,
                              .network = {.seed = 1},
                              .engine = {.max_runs = 2, .window = 2, .chunk_bytes = 4096}},
        40, 9000, NULL, 1, false, 5);
}

/* So many fragments wait for READYs that these wait for credits; the one that is kept goes to the message for which all others wait. */
static void priorities__few_credits(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++)
        seen_at_different_moments(&(struct job_options){.n = 8,
                                                        .rails = 1,
                                                        .network = {.seed = seed},
                                                        .engine = {.chunk_bytes = 4096},
                                                        .eager_bytes = 64},
                                  30, 60000, "ring", 64, true, seed);
}

/* Rank 0 has given its runs to the first operations when the urgent ones come; rank 1 sees all of them at once. */
static void priorities__oldest_keeps_a_run(void **state)
{
    enum { CALLS = 4 };
    struct call calls[CALLS];
    struct job job;

    (void)state;
    job_create(&job, &(struct job_options){
                         .n = 2, .rails = 1, .network = {.seed = 1}, .engine = {.max_runs = 2, .window = 1}});
    for (int i = 0; i < CALLS; i++) {
        calls[i] = (struct call){.collective = BR_ALLREDUCE, .count = 100, .priority = i};
        call_create(&calls[i], &job);
        for (int r = 0; r < 2; r++)
            call_prepare(&calls[i], &job, r);
        job_submit(&job, 0, &calls[i].ops[0]);
        job_step(&job);
    }
    for (int i = 0; i < CALLS; i++)
        job_submit(&job, 1, &calls[i].ops[1]);
    job_run(&job, 2 * CALLS);
    for (int i = 0; i < CALLS; i++) {
        call_check(&calls[i], &job);
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
    call_submit(&large, &job);
    for (int i = 0; i < 500; i++)
        job_step(&job);
    assert_int_equal(job.ended, 0);
    call_submit(&urgent, &job);
    job_run(&job, 2);
    assert_int_equal(urgent.ops[0].status, 0);
    assert_int_equal(urgent.ops[1].status, 0);
    assert_true(large.ops[0].fragments.ended < large.ops[0].fragments.count / 2);
    job_run(&job, 4);
    call_check(&urgent, &job);
    call_check(&large, &job);
    call_destroy(&large, &job);
    call_destroy(&urgent, &job);
    job_destroy(&job);
}

static uint64_t late_allocations(const struct job_rank *rank)
{
    return br_engine_late_allocations(rank->engine, br_engine_all(rank->engine));
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
            before = late_allocations(&job.ranks[1]);
        for (int r = 0; r < job.n; r++) {
            call_prepare(&c, &job, r);
            job_submit(&job, r, &c.ops[r]);
        }
        job_run(&job, (i + 1) * job.n);
        call_check(&c, &job);
    }
    assert_int_equal(late_allocations(&job.ranks[1]), before);
    call_destroy(&c, &job);
    job_destroy(&job);
}

/* Of large fragments only a few are under way at once, but what is more urgent does not wait for them. */
static void admission__few_large_fragments(void **state)
{
    struct call first = {.collective = BR_ALLREDUCE, .count = 4u << 20};
    struct call second = {.collective = BR_ALLREDUCE, .count = 4u << 20};
    struct call urgent = {.collective = BR_ALLREDUCE, .count = 1u << 20, .priority = 1};
    const struct br_operation *op;
    struct job job;
    uint32_t most = 0;

    (void)state;
    job_create(&job, &(struct job_options){.n = 2, .rails = 1, .network = {.seed = 1}});
    call_submit(&first, &job);
    call_submit(&second, &job);
    op = &first.ops[0];
    for (int i = 0; i < 500; i++) {
        job_step(&job);
        most = most > op->fragments.running ? most : op->fragments.running;
    }
    assert_int_equal(most, 3);
    assert_int_equal(second.ops[0].fragments.next, 0);
    call_submit(&urgent, &job);
    for (int i = 0; i < 500 && job.ended == 0; i++)
        job_step(&job);
    assert_true(urgent.ops[0].fragments.next > 0);
    assert_int_equal(second.ops[0].fragments.next, 0);
    job_run(&job, 6);
    call_check(&first, &job);
    call_check(&second, &job);
    call_check(&urgent, &job);
    call_destroy(&first, &job);
    call_destroy(&second, &job);
    call_destroy(&urgent, &job);
    job_destroy(&job);
}

/* Operations of many sizes find the scratch that they had the time before, in whatever order they come. */
static void scratch__fits(void **state)
{
    enum { CALLS = 6 };
    struct call calls[CALLS];
    uint64_t before = 0;
    struct job job;

    (void)state;
    job_create(&job, &(struct job_options){.n = 3, .rails = 1, .network = {.seed = 1}});
    for (int i = 0; i < CALLS; i++) {
        calls[i] = (struct call){.collective = BR_ALLREDUCE, .count = 30000u << i, .priority = i};
        call_create(&calls[i], &job);
    }
    for (int round = 0; round < 10; round++) {
        if (round == 2)
            before = late_allocations(&job.ranks[1]);
        for (int k = 0; k < CALLS; k++) {
            int i = round % 2 ? k : CALLS - 1 - k;

            for (int r = 0; r < job.n; r++) {
                call_prepare(&calls[i], &job, r);
                job_submit(&job, r, &calls[i].ops[r]);
            }
            job_step(&job);
        }
        job_run(&job, (round + 1) * CALLS * job.n);
    }
    assert_int_equal(late_allocations(&job.ranks[1]), before);
    for (int i = 0; i < CALLS; i++)
        call_destroy(&calls[i], &job);
    job_destroy(&job);
}

static int count_scratch(void *context, size_t bytes, void **memory, struct br_region **region)
{
    ++*(int *)context;
    *region = NULL;
    return (*memory = malloc(bytes)) ? 0 : -ENOMEM;
}

static void free_counted(void *context, void *memory, struct br_region *region)
{
    (void)context, (void)region;
    free(memory);
}

/* What is reserved for several operations serves them all at once, and what one gives back serves another. */
static void reserve__first_use_allocates_nothing(void **state)
{
    enum { CALLS = 4 };
    struct call calls[CALLS];
    struct br_operation more;
    int allocated = 0, before;
    struct job job;

    (void)state;
    job_create(&job, &(struct job_options){.n = 3,
                                           .rails = 1,
                                           .network = {.seed = 1},
                                           .engine = {.scratch_alloc = count_scratch,
                                                      .scratch_free = free_counted,
                                                      .scratch_context = &allocated}});
    for (int i = 0; i < CALLS; i++) {
        calls[i] = (struct call){.collective = BR_ALLREDUCE, .count = 200000u << i, .priority = i};
        call_create(&calls[i], &job);
        for (int r = 0; r < job.n; r++) {
            call_prepare(&calls[i], &job, r);
            assert_int_equal(br_engine_reserve(job.ranks[r].engine, &calls[i].ops[r]), 0);
        }
    }
    before = allocated;
    assert_true(before > CALLS * job.n);
    for (int round = 1; round <= 3; round++) {
        for (int i = 0; i < CALLS; i++)
            for (int r = 0; r < job.n; r++) {
                call_prepare(&calls[i], &job, r);
                job_submit(&job, r, &calls[i].ops[r]);
            }
        job_run(&job, round * CALLS * job.n);
    }
    assert_int_equal(allocated, before);
    br_engine_unreserve(job.ranks[0].engine, &calls[3].ops[0]);
    more = calls[3].ops[0];
    assert_int_equal(br_engine_reserve(job.ranks[0].engine, &more), 0);
    assert_int_equal(allocated, before);
    assert_int_equal(br_engine_reserve(job.ranks[0].engine, &calls[3].ops[0]), 0);
    assert_true(allocated > before);
    for (int i = 0; i < CALLS; i++)
        call_destroy(&calls[i], &job);
    job_destroy(&job);
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
    call_run(&job, (struct call){.collective = BR_ALLREDUCE, .count = 4}); /* the communicator lives */
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
        cmocka_unit_test(priorities__few_runs),
        cmocka_unit_test(priorities__few_credits),
        cmocka_unit_test(priorities__oldest_keeps_a_run),
        cmocka_unit_test(priorities__urgent_overtakes),
        cmocka_unit_test(persistent__restart_allocates_nothing),
        cmocka_unit_test(admission__few_large_fragments),
        cmocka_unit_test(scratch__fits),
        cmocka_unit_test(reserve__first_use_allocates_nothing),
        cmocka_unit_test(submit__refuses_bad_arguments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
