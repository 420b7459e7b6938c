/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives that stay on a (fake) GPU, over simulated NICs: their memory, which the CPU can touch
 * here (fake_cuda.h, note 7), they read and write by regions and remote keys. That no CPU does is
 * proved over soft-RoCE (guest/gpu_collectives). */
#include "collectives/engine/gpu_pipeline.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "collectives/schedule/type.h"
#include "gpu/kernels.h"
#include "tests/collectives/direct_setup.h"
#include "tests/fake_cuda/fake_cuda.h"

/* Bytes since *before, over all ranks. */
static void assert_moved(const struct br_copier_counters *before, uint64_t to_host, uint64_t to_gpu,
                         uint64_t reduced)
{
    struct br_copier_counters now = br_copier_counters(copier);

    assert_int_equal(now.to_host_bytes - before->to_host_bytes, to_host);
    assert_int_equal(now.to_gpu_bytes - before->to_gpu_bytes, to_gpu);
    assert_int_equal(now.reduced_bytes - before->reduced_bytes, reduced);
    assert_int_equal(now.shared_bytes, 0);
}

/* ---- results --------------------------------------------------------------------------------- */

/* Nothing but what NICs move and kernels combine. */
static void run_direct(struct job *job, struct call c)
{
    struct br_copier_counters before = br_copier_counters(copier);

    run_on_gpu(job, c, ALL);
    assert_moved(&before, 0, 0, br_copier_counters(copier).reduced_bytes - before.reduced_bytes);
}

static void every_type(struct job *job, enum br_collective collective, bool in_place,
                       const char *algorithm)
{
    struct call c = {.collective = collective,
                     .count = 5003,
                     .in_place = in_place,
                     .algorithm = algorithm,
                     .root = collective == BR_REDUCE};

    for (c.type = 0; c.type < BRAID_TYPES; c.type++)
        for (c.reduction = 0; c.reduction < BRAID_REDUCTIONS; c.reduction++) {
            if (!br_gpu_has_kernel(c.type, c.reduction))
                continue;

            uint64_t before = br_copier_counters(copier).reduced_bytes;

            run_direct(job, c);
            assert_true(br_copier_counters(copier).reduced_bytes > before);
        }
}

static void direct__every_type_and_operation(void **state)
{
    static const enum br_collective collectives[] = {BR_ALLREDUCE, BR_REDUCE, BR_REDUCE_SCATTER};
    struct job job;

    (void)state;
    fake_cuda()->late = 1;
    create(&job, 4, 2048, offload);
    for (int i = 0; i < 3; i++)
        every_type(&job, collectives[i], i == 1, "ring");
    every_type(&job, BR_ALLREDUCE, true, "halving");
    job_destroy(&job);
}

/* Any algorithm and place, any number of ranks; without kernels where nothing is combined. */
static void run_all(struct job *job, enum br_collective collective, const char *const *algorithms,
                    int n)
{
    struct call c = {.collective = collective,
                     .count = 12503,
                     .type = BRAID_INT32,
                     .root = br_collective_rooted(collective) ? job->n - 1 : 0};

    for (int i = 0; i < 2 * n; i++) {
        c.algorithm = algorithms[i / 2];
        c.in_place = i % 2;
        run_direct(job, c);
    }
}

static void direct__every_algorithm(void **state)
{
    static const char *const shaped[] = {"auto", "ring", "direct", "halving"},
                             *const reduced[] = {"ring",        "halving",     "direct",  "flat",
                                                 "binary_tree", "double_tree", "doubling"},
                             *const rooted[] = {"auto", "flat", "tree", "chain", "binary_tree"},
                             *const spread[] = {"auto", "flat", "tree"},
                             *const all[] = {"direct", "bruck"};
    struct job job;

    (void)state;
    for (int n = 2; n <= 5; n++) {
        create(&job, n, 4096, offload);
        run_all(&job, BR_ALLREDUCE, reduced, 7);
        run_all(&job, BR_REDUCE, rooted, 5);
        run_all(&job, BR_REDUCE_SCATTER, shaped, 4);
        job_destroy(&job);
        create(&job, n, 4096, NULL);
        run_all(&job, BR_ALLGATHER, shaped, 4);
        run_all(&job, BR_BROADCAST, rooted, 5);
        run_all(&job, BR_GATHER, spread, 3);
        run_all(&job, BR_SCATTER, spread, 3);
        run_all(&job, BR_ALLTOALL, all, 2);
        job_destroy(&job);
    }
}

/* A ring combines (n-1)/n of it on each rank, and nothing else touches the GPU; no host memory is
 * taken for it. */
static void direct__to_the_byte(void **state)
{
    struct br_copier_counters before = br_copier_counters(copier);
    uint64_t pinned = fake_cuda_counters().host_allocations,
             launches = fake_cuda_counters().launches;
    struct job job;

    (void)state;
    create(&job, 4, 1 << 20, offload);
    run_on_gpu(&job,
               (struct call){.collective = BR_ALLREDUCE,
                             .count = 40000,
                             .type = BRAID_FLOAT32,
                             .in_place = true,
                             .algorithm = "ring"},
               ALL);
    assert_moved(&before, 0, 0, (uint64_t)4 * 3 * 40000);
    assert_true(fake_cuda_counters().launches > launches);
    assert_int_equal(fake_cuda_counters().host_allocations, pinned);
    job_destroy(&job);
}

/* ---- not all alike --------------------------------------------------------------------------- */

/* Of each rank where it says, or all direct. */
static void place(const struct job *job, struct call *c, const enum where *where, uint8_t **devices)
{
    call_create(c, job);
    for (int r = 0; r < job->n; r++) {
        call_prepare(c, job, r);
        devices[r] = to_gpu(c, job, r, where ? where[r] : ALL);
    }
}

static void submit_and_run(struct job *job, struct call *c)
{
    for (int r = 0; r < job->n; r++)
        job_submit(job, r, &c->ops[r]);
    job_run(job, job->ended + job->n);
}

/* Each rank in another way: direct, staged, in host memory. */
static void direct__mixed(void **state)
{
    static const struct {
        const char *algorithm;
        uint64_t combined; /* bytes, by a rank */
    } ways[] = {{"ring", 150000}, {"halving", 150000}, {"direct", 50000}};
    static const enum where where[] = {ALL, SEND | RECV, 0, ALL};
    struct job job;

    (void)state;
    create(&job, 4, 16384, offload);
    for (int i = 0; i < 3; i++) {
        struct call c = {.collective = BR_ALLREDUCE,
                         .count = 50000,
                         .type = BRAID_INT32,
                         .algorithm = ways[i].algorithm};
        struct br_copier_counters before = br_copier_counters(copier);
        uint8_t *devices[4];

        place(&job, &c, where, devices);
        submit_and_run(&job, &c);
        assert_moved(&before, 200000, 200000, 2 * ways[i].combined);
        for (int r = 0; r < 4; r++)
            from_gpu(&c, &job, r, where[r], devices[r]);
        call_check(&c, &job);
        call_destroy(&c, &job);
    }
    job_destroy(&job);
}

/* On two ranks, of which both must stage all. */
static void assert_staged(struct br_offload *kernels, enum where where, struct call c)
{
    struct br_copier_counters before = br_copier_counters(copier);
    size_t bytes = c.count * br_type_size(c.type);
    struct job job;

    create(&job, 2, 1 << 20, kernels);
    run_on_gpu(&job, c, where);
    assert_moved(&before, where & SEND ? 2 * bytes : 0, where & RECV ? 2 * bytes : 0, 0);
    job_destroy(&job);
}

static void direct__or_staged(void **state)
{
    struct call c = {
        .collective = BR_ALLREDUCE, .count = 40000, .type = BRAID_FLOAT32, .algorithm = "ring"};
    void *taken;

    (void)state;
    assert_staged(NULL, ALL, c);            /* no kernels */
    assert_staged(offload, SEND | RECV, c); /* no region */
    assert_staged(offload, SEND | NICS, c); /* a buffer in host memory */
    assert_staged(offload, RECV | NICS, c); /* the other one */
    nics.devices = 2;                       /* the peer is behind another one */
    assert_staged(offload, ALL, c);
    nics.devices = 1;
    taken = br_workspace_take(room, BR_WORKSPACE_BYTES - 1); /* no room for scratch */
    assert_non_null(taken);
    assert_staged(offload, ALL, c);
    br_workspace_put(room, taken, BR_WORKSPACE_BYTES - 1);
    c.count = 2 * 256; /* each half in one message */
    assert_staged(offload, ALL, c);
    c = (struct call){.collective = BR_ALLREDUCE,
                      .count = 40000,
                      .type = BRAID_INT32,
                      .reduction = BRAID_BXOR, /* GPUs have no kernel for bits */
                      .algorithm = "ring"};
    assert_staged(offload, ALL, c);
}

/* Input and output on two GPUs: neither kernels nor NICs are for both. */
static void direct__not_on_two_gpus(void **state)
{
    struct call c = {
        .collective = BR_ALLREDUCE, .count = 40000, .type = BRAID_FLOAT32, .algorithm = "ring"};
    struct br_copier_counters before = br_copier_counters(copier);
    uint8_t *devices[2];
    struct job job;

    (void)state;
    fake_cuda()->devices = 2;
    assert_int_equal(br_copier_open(copier, 2), 1);
    create(&job, 2, 1 << 20, offload);
    place(&job, &c, NULL, devices);
    c.ops[0].recv_gpu = c.ops[1].recv_gpu = 2;
    submit_and_run(&job, &c);
    assert_moved(&before, 2 * 160000, 2 * 160000, 0);
    check_on_gpu(&job, &c, ALL, devices);
    job_destroy(&job);
}

/* The last one of the fragments that are under way at once finds no room. */
static void direct__some_fragments(void **state)
{
    struct br_copier_counters before = br_copier_counters(copier), after;
    struct call c = {
        .collective = BR_ALLREDUCE, .count = 1000000, .type = BRAID_INT32, .algorithm = "ring"};
    void *taken = br_workspace_take(room, BR_WORKSPACE_BYTES - 3 * BR_WORKSPACE_GRANULE);
    struct job job;

    (void)state;
    create(&job, 2, 65536, offload);
    run_on_gpu(&job, c, ALL);
    after = br_copier_counters(copier);
    assert_in_range(after.to_host_bytes - before.to_host_bytes, 4 * 10000,
                    2 * 4 * 1000000 - 4 * 10000);
    assert_int_equal(after.to_host_bytes - before.to_host_bytes,
                     after.to_gpu_bytes - before.to_gpu_bytes);
    br_workspace_put(room, taken, BR_WORKSPACE_BYTES - 3 * BR_WORKSPACE_GRANULE);
    job_destroy(&job);
}

/* A persistent operation allocates nothing: it takes runs that were made large enough for it,
 * whichever way it goes. */
static void direct__reserved(void **state)
{
    struct call c = {
        .collective = BR_ALLREDUCE, .count = 400000, .type = BRAID_FLOAT32, .algorithm = "ring"};
    uint8_t *devices[2];
    uint64_t before[2];
    struct job job;

    (void)state;
    create(&job, 2, 65536, offload);
    place(&job, &c, NULL, devices);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(br_engine_reserve(job.ranks[r].engine, &c.ops[r]), 0);
        before[r] = br_engine_late_allocations(job.ranks[r].engine, c.ops[r].group);
    }
    submit_and_run(&job, &c);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(br_engine_late_allocations(job.ranks[r].engine, c.ops[r].group),
                         before[r]);
        br_engine_unreserve(job.ranks[r].engine, &c.ops[r]);
    }
    check_on_gpu(&job, &c, ALL, devices);
    job_destroy(&job);
}

/* ---- flush ----------------------------------------------------------------------------------- */

/* Each message that has come, before anything reads it. */
static void direct__flushes(void **state)
{
    struct call c = {
        .collective = BR_ALLREDUCE, .count = 40000, .type = BRAID_FLOAT32, .algorithm = "ring"};
    struct job job;

    (void)state;
    fake_cuda()->unordered = true;
    create(&job, 4, 1 << 20, offload);
    run_on_gpu(&job, c, ALL);
    assert_int_equal(fake_cuda_counters().flushes, 4 * 2 * 3);
    run_on_gpu(&job, c, SEND | RECV);
    assert_int_equal(fake_cuda_counters().flushes, 4 * 2 * 3);
    job_destroy(&job);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, direct_setup, direct_teardown)
    const struct CMUnitTest tests[] = {
        CASE(direct__every_type_and_operation),
        CASE(direct__every_algorithm),
        CASE(direct__to_the_byte),
        CASE(direct__mixed),
        CASE(direct__or_staged),
        CASE(direct__not_on_two_gpus),
        CASE(direct__some_fragments),
        CASE(direct__reserved),
        CASE(direct__flushes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
