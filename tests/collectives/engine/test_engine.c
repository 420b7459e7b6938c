/* SPDX-License-Identifier: BSD-3-Clause */
/* Engines over the simulator: every collective, sizes, types, restarts. Priorities:
 * test_admission.c; how operations fail: test_engine_failures.c. */
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
#include "collectives/schedule/type.h"
#include "tests/collectives/call.h"
#include "tests/says.h"

static bool applies(const char *algorithm, enum br_collective collective, int n, int root)
{
    struct br_schedule_request request = {
        .collective = collective, .n = (uint32_t)n, .root = (uint32_t)root};

    if (!algorithm)
        return true;
    assert_int_equal(br_algorithm_find(algorithm, &request.algorithm), 0);
    return br_algorithm_check(&request) == 0;
}

/* Every collective and algorithm, in place and not, over some counts. */
static void every_call(struct job *job, const size_t *counts, int n_counts)
{
    static const char *const algorithms[] = {
        NULL,       "flat",   "tree", "chain",   "binary_tree", "double_tree",
        "doubling", "direct", "ring", "halving", "bruck",       "dissemination"};
    int turn = 0;

    for (int c = 0; c < BR_COLLECTIVES; c++)
        for (size_t a = 0; a < sizeof algorithms / sizeof *algorithms; a++)
            for (int i = 0; i < n_counts * 2; i++, turn++) {
                struct call call = {.collective = (enum br_collective)c,
                                    .algorithm = algorithms[a],
                                    .count = c == BR_BARRIER ? 0 : counts[i / 2],
                                    .in_place = i % 2,
                                    .type = (enum braid_type)(turn % BRAID_TYPES),
                                    .reduction =
                                        (enum braid_reduction)(turn / 3 % BRAID_REDUCTIONS)};

                while (!br_type_has_reduction(call.type, call.reduction) ||
                       (call.reduction == BRAID_AVG && c >= BR_SCAN)) /* scans have no average */
                    call.reduction = (call.reduction + 1) % BRAID_REDUCTIONS;
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
    small.engine.cache_share = 200000; /* copies of larger calls go past the caches */
    job_create(&job, &small);
    every_call(&job, counts, 2);
    for (int i = 0; i < job.n; i++) {
        assert_int_equal(job.ranks[i].worker->slots.n_free, job.ranks[i].worker->slots.count);
        assert_int_equal(job.ranks[i].worker->counters.mapped_bytes > 0, options->network.maps);
        assert_int_equal(job.ranks[i].worker->devices[0]->counters.rx_reduced_bytes > 0,
                         options->network.reduce_ports & 1);
    }
    job_destroy(&job);
}

static void collective__many_fragments(void **state)
{
    (void)state;
    /* of the two devices one combines what comes */
    fragmented(&(struct job_options){
        .n = 3, .rails = 2, .network = {.seed = 1, .early_sent = true, .reduce_ports = 1}});
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
        for (int r = 0; r < BRAID_REDUCTIONS; r++) {
            if (!br_type_has_reduction((enum braid_type)t, (enum braid_reduction)r))
                continue;
            call_run(&job, (struct call){.collective = BR_ALLREDUCE,
                                         .count = 331,
                                         .type = (enum braid_type)t,
                                         .reduction = (enum braid_reduction)r,
                                         .in_place = r % 2});
        }
    job_destroy(&job);
}

/* Blocks that travel together are packed where they have one size and pieces of one size. */
static void collective__packed(void **state)
{
    static const struct {
        int n;
        const char *algorithm;
        size_t count;
        bool uneven, packed;
    } cases[] = {
        {8, "halving", 1, false, true},
        {8, "halving", 1001, false, true},
        {7, "halving", 33, false, true},
        {8, "halving", 100, true, false},
        {8, "bml:2,3", 99, false, true},
        {8, "bml:2,3", 100, false, false},
        {8, "bml:2,3", 0, false, true},
        {9, "bml:3,2", 6, false, true},
        {12, "blueconnect:4h,3r", 7, false, true},
        {12, "blueconnect:4h,3r", 7, true, false},
        {8, "direct", 9, false, false},
        {8, "halving", 2 << 20, false, false},
    };

    (void)state;
    for (size_t i = 0; i < 4 * sizeof cases / sizeof *cases; i++) {
        struct call call = {.collective = i & 1 ? BR_ALLGATHER : BR_REDUCE_SCATTER,
                            .in_place = i & 2,
                            .algorithm = cases[i / 4].algorithm,
                            .count = cases[i / 4].count,
                            .uneven = cases[i / 4].uneven};
        struct job job;

        job_create(&job, &(struct job_options){
                             .n = cases[i / 4].n, .rails = 1, .network = {.seed = i + 1}});
        call_create(&call, &job);
        for (int r = 0; r < job.n; r++) {
            call_prepare(&call, &job, r);
            job_submit(&job, r, &call.ops[r]);
            assert_int_equal(call.ops[r].packed, cases[i / 4].packed);
        }
        job_run(&job, job.n);
        call_check(&call, &job);
        call_destroy(&call, &job);
        job_destroy(&job);
    }
}

/* By a core_tree, packed and a message a block, in one fragment and in many. */
static void collective__ranks_that_share_cores(void **state)
{
    static const enum br_collective collectives[] = {BR_ALLREDUCE, BR_BARRIER, BR_ALLGATHER,
                                                     BR_REDUCE_SCATTER};
    static const struct {
        uint32_t n, cores;
    } cases[] = {{4, 2}, {6, 2}, {6, 3}, {8, 4}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct job_options options = {.n = (int)cases[i].n, .rails = 1, .network = {.seed = i}};
        struct br_topology topology;
        struct job job;

        br_topology_flat(&topology, cases[i].n);
        topology.cores = cases[i].cores;
        br_cost_model_on(&options.engine.model, &topology, BR_COST_MACHINE, 1);
        options.engine.chunk_bytes = 2048;
        job_create(&job, &options);
        for (int k = 0; k < 4 * 12; k++) {
            struct call call = {.collective = collectives[k / 12],
                                .algorithm = "core_tree",
                                .count = (size_t[]){1, 37, 5003}[k % 3],
                                .in_place = k / 3 & 1};

            call.uneven = k / 6 & 1 && br_collective_by_blocks(call.collective);
            if (call.collective == BR_BARRIER)
                call.count = 0;
            call_run(&job, call);
        }
        job_destroy(&job);
    }
}

static void collective__larger_than_a_transfer(void **state)
{
    struct job job;

    (void)state;
    job_create(&job, &(struct job_options){.n = 2,
                                           .rails = 1,
                                           .network = {.seed = 1, .bits_per_second = 100ull << 30},
                                           .engine = {.chunk_bytes = 64u << 20}});
    call_run(&job, (struct call){
                       .collective = BR_BROADCAST, .count = (40u << 20) + 5, .type = BRAID_UINT8});
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

/* Operations of many sizes find the scratch that they had the time before, in whatever order they
 * come. */
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

/* What is reserved for several operations serves them all at once, and what one gives back serves
 * another. */
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

/* In a cube four fragments run at once. */
static void reserve__as_many_as_run_at_once(void **state)
{
    struct call call = {.collective = BR_ALLREDUCE, .count = 512 << 10};
    int allocated = 0, before;
    struct br_topology topology;
    struct job_options options = {.n = 2,
                                  .rails = 1,
                                  .network = {.seed = 1},
                                  .engine = {.scratch_alloc = count_scratch,
                                             .scratch_free = free_counted,
                                             .scratch_context = &allocated}};
    struct job job;

    (void)state;
    assert_int_equal(br_topology_parse(&topology, "bcube:2,1"), 0);
    br_cost_model_on(&options.engine.model, &topology, BR_COST_NETWORK, 1);
    job_create(&job, &options);
    call_create(&call, &job);
    for (int r = 0; r < job.n; r++) {
        call_prepare(&call, &job, r);
        assert_int_equal(br_engine_reserve(job.ranks[r].engine, &call.ops[r]), 0);
    }
    before = allocated;
    for (int r = 0; r < job.n; r++) {
        call_prepare(&call, &job, r);
        job_submit(&job, r, &call.ops[r]);
    }
    job_run(&job, 2);
    assert_int_equal(call.ops[0].fragments.count, 4);
    assert_int_equal(allocated, before);
    call_destroy(&call, &job);
    job_destroy(&job);
    br_topology_destroy(&topology);
}

/* Without a look at the devices ranks end that only send, and one whose message is here. */
static void start__ends_what_needs_no_device(void **state)
{
    struct call call = {.collective = BR_BROADCAST, .count = 4};
    struct job job;

    (void)state;
    job_create(&job, &(struct job_options){.n = 2, .rails = 1, .network = {.seed = 1}});
    call_run(&job, call); /* the connection is there */
    call_create(&call, &job);
    for (int r = 0; r < 2; r++) {
        struct job_rank *rank = &job.ranks[r];

        call_prepare(&call, &job, r);
        while (r == 1 && !rank->worker->unexpected.n_used)
            assert_true(job_step(&job));
        job_submit(&job, r, &call.ops[r]);
        assert_true(br_list_empty(&rank->ended));
        assert_true(br_engine_start(rank->engine, br_sim_host_now(job.sim, r)) > 0);
        assert_false(br_list_empty(&rank->ended));
    }
    job_run(&job, 4);
    call_check(&call, &job);
    call_destroy(&call, &job);
    job_destroy(&job);
}

/* A rank that only sends one message, with nothing else under way, ends while it submits. */
static void submit__ends_one_message_at_once(void **state)
{
    static const struct {
        enum br_collective collective;
        int sender;
    } cases[] = {{BR_BROADCAST, 0}, {BR_SCATTER, 0}, {BR_REDUCE, 1}, {BR_GATHER, 1}};
    struct job job;
    int ended = 2;

    (void)state;
    job_create(&job, &(struct job_options){.n = 2, .rails = 1, .network = {.seed = 1}});
    call_run(&job, (struct call){.collective = BR_BROADCAST, .count = 5}); /* connects */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int alone = 0; alone < 2; alone++) {
            struct call call = {.collective = cases[i].collective, .count = 5};
            int sender = cases[i].sender;

            call_create(&call, &job);
            call_prepare(&call, &job, sender);
            call.ops[sender].alone = alone;
            job_submit(&job, sender, &call.ops[sender]);
            assert_int_equal(!br_list_empty(&job.ranks[sender].ended), alone);
            call_prepare(&call, &job, !sender);
            call.ops[!sender].alone = true;
            job_submit(&job, !sender, &call.ops[!sender]);
            assert_true(br_list_empty(&job.ranks[!sender].ended));
            job_run(&job, ended += 2);
            call_check(&call, &job);
            call_destroy(&call, &job);
        }
    job_destroy(&job);
}

static void submit__refuses_what_cannot_run(void **state)
{
    struct br_operation op = {
        .kind = BR_OPERATION_COLLECTIVE, .collective = BR_ALLREDUCE, .count = 4};
    struct job job;

    (void)state;
    job_create(&job, &(struct job_options){.n = 2, .rails = 1, .network = {.seed = 1}});
    snprintf(op.algorithm, sizeof op.algorithm, "magic");
    assert_int_equal(job_try_submit(&job, 0, &op), -EINVAL);
    assert_says(br_error_message(), "magic");
    assert_null(br_engine_algorithm(job.ranks[0].engine, &op));
    snprintf(op.algorithm, sizeof op.algorithm, "dissemination");
    assert_int_equal(job_try_submit(&job, 0, &op), -EINVAL);
    snprintf(op.algorithm, sizeof op.algorithm, "ring");
    assert_string_equal(br_engine_algorithm(job.ranks[0].engine, &op), "ring");
    op.count = SIZE_MAX / 4;
    assert_int_equal(job_try_submit(&job, 0, &op), -E2BIG);
    op.count = 4;
    op.reduction = BRAID_REDUCTION_USER; /* and no function: it was freed after the check */
    assert_int_equal(job_try_submit(&job, 0, &op), -EINVAL);
    assert_says(br_error_message(), "freed");
    job.ranks[0].next_sequence = 0;
    /* the communicator lives */
    call_run(&job, (struct call){.collective = BR_ALLREDUCE, .count = 4});
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
        cmocka_unit_test(collective__packed),
        cmocka_unit_test(collective__ranks_that_share_cores),
        cmocka_unit_test(collective__larger_than_a_transfer),
        cmocka_unit_test(persistent__restart_allocates_nothing),
        cmocka_unit_test(scratch__fits),
        cmocka_unit_test(reserve__first_use_allocates_nothing),
        cmocka_unit_test(reserve__as_many_as_run_at_once),
        cmocka_unit_test(start__ends_what_needs_no_device),
        cmocka_unit_test(submit__ends_one_message_at_once),
        cmocka_unit_test(submit__refuses_what_cannot_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
