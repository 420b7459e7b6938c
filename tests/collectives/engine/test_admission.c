/* SPDX-License-Identifier: BSD-3-Clause */
/* Which fragment gets a run, over the simulator: priorities that ranks see at different moments,
 * and runs and credits that are short. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/random.h"
#include "tests/collectives/call.h"

/*
 * Operations of random sizes up to `most` elements; each rank gets to know of some more at moments
 * of its own, `patience` turns apart on the average. backward: each is more urgent than all before,
 * as with gradients.
 */
static void seen_at_different_moments(const struct job_options *options, int n_calls, size_t most,
                                      const char *algorithm, uint64_t patience, bool backward,
                                      uint64_t seed)
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
            for (uint64_t many = br_random_below(&random, 16); many && next[r] < n_calls;
                 many--, left--)
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
                              .engine = {.max_fragments = 2, .window = 2, .chunk_bytes = 4096}},
        40, 9000, NULL, 1, false, 5);
}

/* So many fragments wait for READYs that these wait for credits; the one that is kept goes to the
 * message for which all others wait. */
static void priorities__few_credits(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 2; seed++)
        seen_at_different_moments(&(struct job_options){.n = 8,
                                                        .rails = 1,
                                                        .network = {.seed = seed},
                                                        .engine = {.chunk_bytes = 4096},
                                                        .eager_bytes = 64},
                                  30, 60000, "ring", 64, true, seed);
}

/* Rank 0 has given its runs to the first operations when the urgent ones come; rank 1 sees all of
 * them at once. */
static void priorities__oldest_keeps_a_run(void **state)
{
    enum { CALLS = 4 };
    struct call calls[CALLS];
    struct job job;

    (void)state;
    job_create(&job, &(struct job_options){.n = 2,
                                           .rails = 1,
                                           .network = {.seed = 1},
                                           .engine = {.max_fragments = 2, .window = 1}});
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

/* How the first operation comes to rank 0, where the others have come before. */
enum coming { EXPECTED, WITHOUT_A_VIEW };

static void comes_late(struct job *job, struct call *call, enum coming coming)
{
    struct job_rank *rank = &job->ranks[0];
    uint64_t others = rank->next_order;

    if (coming == WITHOUT_A_VIEW) {
        br_engine_set_epoch(rank->engine, br_engine_all(rank->engine), NULL);
        return;
    }
    rank->next_order = rank->next_sequence = 0;
    job_submit(job, 0, &call->ops[0]);
    rank->next_order = rank->next_sequence = others;
    br_engine_set_oldest(rank->engine, UINT64_MAX);
}

static void announce(struct job *job, struct call *call, enum coming coming)
{
    struct job_rank *rank = &job->ranks[0];

    if (coming == WITHOUT_A_VIEW) {
        call->ops[0].epoch = br_engine_all(rank->engine)->epoch + 1;
        job_submit(job, 0, &call->ops[0]);
    } else {
        br_engine_set_oldest(rank->engine, 0);
        rank->next_order = rank->next_sequence = 1;
    }
}

/* Rank 1 has begun the first operation and the urgent ones when it comes to rank 0, which has begun
 * those between. */
static void oldest_comes_last(enum coming coming)
{
    enum { CALLS = 12 };
    struct call calls[CALLS];
    struct job job;

    job_create(&job, &(struct job_options){.n = 2,
                                           .rails = 1,
                                           .network = {.seed = 1},
                                           .engine = {.max_fragments = 4, .window = 1}});
    for (int i = 0; i < CALLS; i++) {
        calls[i] = (struct call){.collective = BR_ALLREDUCE, .count = 100, .priority = i};
        call_create(&calls[i], &job);
        for (int r = 0; r < 2; r++)
            call_prepare(&calls[i], &job, r);
    }
    announce(&job, &calls[0], coming);
    for (int i = 0; i < CALLS; i++) {
        if (i)
            job_submit(&job, 0, &calls[i].ops[0]);
        job_step(&job);
    }
    for (int i = 0; i < CALLS; i++)
        job_submit(&job, 1, &calls[i].ops[1]);
    job_step(&job);
    comes_late(&job, &calls[0], coming);
    job_run(&job, 2 * CALLS);
    for (int i = 0; i < CALLS; i++) {
        call_check(&calls[i], &job);
        call_destroy(&calls[i], &job);
    }
    job_destroy(&job);
}

static void priorities__oldest_comes_late(void **state)
{
    (void)state;
    oldest_comes_last(EXPECTED);
    oldest_comes_last(WITHOUT_A_VIEW);
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

/* Of large fragments only a few are under way at once, but what is more urgent does not wait for
 * them. */
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

/* On a long path more large fragments are under way, but no more than half of all: what is more
 * urgent does not wait for them. */
static void admission__long_path_leaves_half(void **state)
{
    struct call bulk[2] = {{.collective = BR_ALLREDUCE, .count = 8u << 20},
                           {.collective = BR_ALLREDUCE, .count = 8u << 20}};
    struct call urgent = {.collective = BR_ALLREDUCE, .count = 1u << 20, .priority = 1};
    const struct br_operation *op;
    struct job job;
    uint32_t most = 0;

    (void)state;
    job_create(
        &job, &(struct job_options){
                  .n = 2,
                  .rails = 1,
                  .network = {.seed = 1, .bits_per_second = 1000000000, .latency_ns = 2500 * BR_US},
                  .engine = {.max_fragments = 8, .chunk_bytes = 128 << 10}});
    call_submit(&bulk[0], &job); /* by which the path is measured */
    job_run(&job, 2);
    call_submit(&bulk[1], &job);
    op = &bulk[1].ops[0];
    while (op->fragments.ended < op->fragments.count / 4) {
        assert_true(job_step(&job));
        most = most > op->fragments.running ? most : op->fragments.running;
    }
    assert_int_equal(most, 4);
    call_submit(&urgent, &job);
    job_step(&job);
    assert_true(urgent.ops[0].fragments.next > 0);
    job_run(&job, 6);
    for (int i = 0; i < 2; i++) {
        call_check(&bulk[i], &job);
        call_destroy(&bulk[i], &job);
    }
    call_check(&urgent, &job);
    call_destroy(&urgent, &job);
    job_destroy(&job);
}

/* How many of so many fragments run at once, of an operation of two ranks in a group on one
 * topology in a job on another. */
static uint32_t most_at_once(enum br_collective collective, size_t count, uint32_t fragments,
                             const char *of_group, const char *of_job)
{
    struct call call = {.collective = collective, .count = count};
    struct job_options options = {.n = 2, .rails = 1, .network = {.seed = 1}};
    struct br_topology topology, topology_of_job;
    struct br_group groups[2];
    struct br_cost_model model;
    struct job job;
    uint32_t most = 0;

    assert_int_equal(br_topology_parse(&topology, of_group), 0);
    assert_int_equal(br_topology_parse(&topology_of_job, of_job), 0);
    br_cost_model_on(&options.engine.model, &topology_of_job, BR_COST_NETWORK, 1);
    job_create(&job, &options);
    br_cost_model_on(&model, &topology, BR_COST_NETWORK, 1);
    model.chunk_bytes = 512u << 10;
    call_create(&call, &job);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(br_group_init(&groups[r], 3, r, 2, NULL, &model), 0);
        call_prepare(&call, &job, r);
        call.ops[r].group = &groups[r];
        job_submit(&job, r, &call.ops[r]);
    }
    for (int i = 0; i < 500 && job.ended == 0; i++) {
        job_step(&job);
        most = most > call.ops[0].fragments.running ? most : call.ops[0].fragments.running;
    }
    assert_int_equal(call.ops[0].fragments.count, fragments);
    job_run(&job, 2);
    call_check(&call, &job);
    call_destroy(&call, &job);
    job_destroy(&job);
    for (int r = 0; r < 2; r++)
        br_group_destroy(&groups[r]);
    br_topology_destroy(&topology_of_job);
    br_topology_destroy(&topology);
    return most;
}

/* The fourth would otherwise go through all its steps alone. */
static void admission__all_four_fragments_in_a_cube(void **state)
{
    (void)state;
    assert_int_equal(most_at_once(BR_ALLREDUCE, 512 << 10, 4, "bcube:2,1", "flat:2"), 4);
    assert_int_equal(most_at_once(BR_ALLREDUCE, 1 << 20, 8, "bcube:2,1", "bcube:2,1"), 3);
    assert_int_equal(most_at_once(BR_ALLREDUCE, 512 << 10, 4, "flat:2", "bcube:2,1"), 3);
    assert_int_equal(most_at_once(BR_ALLGATHER, 512 << 10, 4, "bcube:2,1", "bcube:2,1"), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(priorities__few_runs),
        cmocka_unit_test(priorities__few_credits),
        cmocka_unit_test(priorities__oldest_keeps_a_run),
        cmocka_unit_test(priorities__oldest_comes_late),
        cmocka_unit_test(priorities__urgent_overtakes),
        cmocka_unit_test(admission__few_large_fragments),
        cmocka_unit_test(admission__long_path_leaves_half),
        cmocka_unit_test(admission__all_four_fragments_in_a_cube),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
