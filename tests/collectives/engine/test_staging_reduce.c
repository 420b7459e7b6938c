/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives whose values are combined on a (fake) GPU, over the simulator. */
#include "collectives/engine/staging.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/downgrade.h"
#include "gpu/reduce.h"
#include "gpu/kernels.h"
#include "collectives/schedule/type.h"
#include "tests/collectives/gpu_call.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/says.h"

/* The fake driver has the kernels, whatever is loaded; a build under a sanitizer has no image. */
static const struct br_gpu_image image = {"image", NULL, "sm_none"};
static const struct br_offload_cost gpu_always = {.start = -INFINITY};

static struct br_offload *offload;

static int open_reductions(void **state)
{
    struct br_offload_cost measured;

    if (open_gpu(state) || br_offload_create(copier, &image, &offload) ||
        br_offload_open(offload, 1, &measured))
        return -1;
    br_offload_set(offload, 1, &gpu_always);
    return 0;
}

static int close_reductions(void **state)
{
    fake_cuda()->fail[0] = 0;
    br_offload_destroy(offload);
    return close_gpu(state);
}

static uint64_t reduced(void)
{
    return br_copier_counters(copier).reduced_bytes;
}

static uint64_t downgrades(void)
{
    return atomic_load(&br_downgrades.downgrade_gpu_reduction);
}

/* ---- results --------------------------------------------------------------------------------- */

static void every_type(struct job *job, enum br_collective collective, bool in_place, size_t count)
{
    for (int type = 0; type < BRAID_TYPES; type++)
        for (int reduction = 0; reduction < BRAID_REDUCTIONS; reduction++) {
            bool kernel = br_gpu_has_kernel((enum braid_type)type, (enum braid_reduction)reduction);
            uint64_t before = reduced();

            if (!br_type_has_reduction((enum braid_type)type, (enum braid_reduction)reduction))
                continue;

            run_on_gpu(job,
                       (struct call){.collective = collective,
                                     .count = count,
                                     .type = (enum braid_type)type,
                                     .reduction = (enum braid_reduction)reduction,
                                     .in_place = in_place,
                                     .root = collective == BR_REDUCE ? 1 : 0},
                       SEND | RECV);
            assert_int_equal(reduced() > before, kernel); /* else on the CPU, as right */
        }
}

static void reduction__every_type_and_operation(void **state)
{
    static const enum br_collective collectives[] = {BR_ALLREDUCE, BR_REDUCE, BR_REDUCE_SCATTER};
    struct job job;

    (void)state;
    fake_cuda()->late = 1;
    create(&job, 3, 2048, offload);
    for (int i = 0; i < 3; i++) {
        every_type(&job, collectives[i], false, 1501);
        every_type(&job, collectives[i], true, 77);
    }
    job_destroy(&job);
}

/* Whatever lies on the GPU; in host memory of the program's, which is not pinned, nothing is
 * combined there. */
static void reduction__every_algorithm_and_place(void **state)
{
    static const char *const algorithms[] = {"ring", "halving", "direct", "flat"};
    struct job job;

    (void)state;
    create(&job, 4, 4096, offload);
    for (int i = 0; i < 4; i++)
        for (int where = SEND; where <= (SEND | RECV); where++)
            run_on_gpu(&job,
                       (struct call){.collective = BR_ALLREDUCE,
                                     .count = 10001,
                                     .type = BRAID_INT64,
                                     .algorithm = algorithms[i]},
                       (enum where)where);
    job_destroy(&job);
}

/* What it costs: a rank of a ring copies what it receives and what it combines, and of its own
 * values none. */
static void reduction__reads_where_the_data_is(void **state)
{
    struct br_copier_counters before, after;
    struct job job;

    (void)state;
    create(&job, 4, 4096, offload);
    for (int in_place = 0; in_place < 2; in_place++) {
        before = br_copier_counters(copier);
        run_on_gpu(&job,
                   (struct call){.collective = BR_ALLREDUCE,
                                 .count = 10000,
                                 .type = BRAID_FLOAT32,
                                 .in_place = in_place,
                                 .algorithm = "ring"},
                   SEND | RECV);
        after = br_copier_counters(copier);
        assert_int_equal(after.reduced_bytes - before.reduced_bytes, 4 * 30000);
        assert_int_equal(after.to_host_bytes - before.to_host_bytes, 4 * (40000 + 30000));
        assert_int_equal(after.to_gpu_bytes - before.to_gpu_bytes, 4 * (40000 + 30000));
    }
    job_destroy(&job);
}

/* Of memory that kernels do not reach, the copy in host memory goes up. */
static void reduction__of_another_context(void **state)
{
    struct br_copier_counters counted;
    struct job job;

    (void)state;
    create(&job, 4, 4096, offload);
    run_on_gpu(
        &job,
        (struct call){
            .collective = BR_ALLREDUCE, .count = 10000, .type = BRAID_FLOAT32, .algorithm = "ring"},
        (enum where)(SEND | RECV | FOREIGN));
    counted = br_copier_counters(copier);
    assert_int_equal(counted.reduced_bytes, 4 * 30000);
    assert_int_equal(counted.to_gpu_bytes, 4 * (40000 + 2 * 30000));
    job_destroy(&job);
}

/* ---- the choice ------------------------------------------------------------------------------ */

static void reduction__by_measured_cost(void **state)
{
    /* On the GPU from 100 us on, which are 33,334 bytes an array on the CPU. */
    const struct br_offload_cost cost = {
        .start = 100e-6, .per_byte = 0, .cpu_per_byte = {[BRAID_FLOAT32] = 1e-9}};
    struct call c = {.collective = BR_ALLREDUCE, .type = BRAID_FLOAT32, .algorithm = "ring"};
    struct job job;

    (void)state;
    br_offload_set(offload, 1, &cost);
    create(&job, 2, 1 << 20, offload);
    c.count = 2 * 8000;
    run_on_gpu(&job, c, SEND | RECV);
    assert_int_equal(reduced(), 0);
    c.count = 2 * 9000;
    run_on_gpu(&job, c, SEND | RECV);
    assert_int_equal(reduced(), 2 * 36000);
    job_destroy(&job);
}

static void reduction__not_without_pinned_memory(void **state)
{
    struct job job;

    (void)state;
    strcpy(fake_cuda()->fail, "cuMemHostRegister_v2");
    fake_cuda()->fail_result = BR_CUDA_OUT_OF_MEMORY;
    create(&job, 2, 0, offload);
    run_on_gpu(&job, (struct call){.collective = BR_ALLREDUCE, .count = 5000, .type = BRAID_INT64},
               SEND | RECV);
    assert_int_equal(reduced(), 0);
    job_destroy(&job);
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* In the middle of an operation: the CPU does the rest, and all that comes later; said and counted
 * once. */
static void reduction__refused_goes_to_the_cpu(void **state)
{
    struct call c = {
        .collective = BR_ALLREDUCE, .count = 20001, .type = BRAID_FLOAT32, .algorithm = "ring"};
    uint64_t launches;
    struct job job;

    for (unsigned after = 0; after < 12; after += 5) {
        uint64_t said = downgrades();

        strcpy(fake_cuda()->fail, "cuLaunchKernel");
        fake_cuda()->fail_result = BR_CUDA_OUT_OF_MEMORY;
        fake_cuda()->fail_after = after;
        create(&job, 3, 4096, offload);
        run_on_gpu(&job, c, SEND | RECV);
        fake_cuda()->fail[0] = 0;
        assert_int_equal(downgrades(), said + 1);
        launches = fake_cuda_counters().launches;
        run_on_gpu(&job, c, SEND | RECV);
        assert_int_equal(fake_cuda_counters().launches, launches);
        assert_int_equal(downgrades(), said + 1);
        job_destroy(&job);
        close_reductions(state);
        open_reductions(state);
    }
}

/* A kernel is under way, and the copy of its result is refused: the step goes on, on the CPU, when
 * the kernel has ended, which reads the memory of the operation. */
static void reduction__refused_half_way_is_waited_for(void **state)
{
    struct call c = {.collective = BR_ALLREDUCE, .count = 3000, .type = BRAID_INT64};
    static _Atomic uint32_t gate;
    uint64_t said = downgrades(), until;
    uint8_t *devices[2];
    struct job job;

    (void)state;
    gate = 0;
    cuda->stream_wait_32(br_copier_reductions(copier, 1), (uintptr_t)&gate, 1, BR_CUDA_WAIT_GEQ);
    create(&job, 2, 0, offload);
    submit_on_gpu(&job, &c, SEND | RECV, 0, devices);
    strcpy(fake_cuda()->fail, "cuMemcpyAsync");
    fake_cuda()->fail_result = BR_CUDA_OUT_OF_MEMORY;
    fake_cuda()->fail_after = 3; /* the input of both, and what one has received */
    while (downgrades() == said)
        assert_true(job_step(&job));
    fake_cuda()->fail[0] = 0;
    until = br_sim_now(job.sim) + 50 * BR_MS;
    while (br_sim_now(job.sim) < until)
        assert_true(job_step(&job));
    assert_int_equal(job.ended, 0);
    gate = 1;
    job_run(&job, 2);
    assert_int_equal(reduced(), 0);
    check_on_gpu(&job, &c, SEND | RECV, devices);
    job_destroy(&job);
}

/* On two ranks; each operation ends well, or with these words on one rank at least, and nothing is
 * left under way. How many have failed. */
static int failed(uint64_t timeout, const char *text)
{
    struct call c = {
        .collective = BR_ALLREDUCE, .count = 3000, .type = BRAID_INT64, .in_place = true};
    uint8_t *devices[2];
    struct job job;
    int n = 0, said = 0;

    create(&job, 2, 0, offload);
    submit_on_gpu(&job, &c, SEND | RECV, timeout, devices);
    job_run(&job, 2);
    fake_cuda()->fail[0] = 0;
    for (int r = 0; r < 2; r++) {
        n += c.ops[r].status != 0;
        said += c.ops[r].status && says_all(c.ops[r].message, text);
        assert_false(br_staging_busy(job.ranks[r].engine));
        release(devices[r]);
    }
    assert_true(!n || said);
    call_destroy(&c, &job);
    job_destroy(&job);
    return n;
}

static void reduction__fails_with_the_drivers_words(void **state)
{
    unsigned queries = 0;

    (void)state;
    do {
        strcpy(fake_cuda()->fail, "cuEventQuery");
        fake_cuda()->fail_result = BR_CUDA_LAUNCH_FAILED;
        fake_cuda()->fail_after = queries++;
    } while (failed(0, "copies"));
    /* of each rank's copies there and back, and of a reduction between them */
    assert_true(queries > 6);
}

/* Copies take 20 ms each, as it is asked for them every 20 us: the deadline finds the reduction. */
static void reduction__that_is_late_is_named(void **state)
{
    (void)state;
    fake_cuda()->late = 1000;
    assert_true(failed(30 * BR_MS, "waits|reduction|GPU 0") > 0);
}

/* A kernel that never ends: the deadline ends the operation, and the patience with the GPU what
 * waits for it. Its memory stays. */
static void reduction__that_hangs(void **state)
{
    struct call c = {
        .collective = BR_ALLREDUCE, .count = 3000, .type = BRAID_INT64, .in_place = true};
    uint8_t *devices[2];
    struct job job;

    (void)state;
    create_kept(&job, 2, offload);
    submit_on_gpu(&job, &c, SEND | RECV, 30 * BR_MS, devices);
    strcpy(fake_cuda()->fail, "cuEventQuery");
    fake_cuda()->fail_result = BR_CUDA_NOT_READY;
    fake_cuda()->fail_after = 2; /* the input of both */
    job_run(&job, 2);
    fake_cuda()->fail[0] = 0;
    assert_true(reduced() > 0);
    assert_true(br_copier_is_lost(copier, 1));
    for (int r = 0; r < 2; r++) {
        assert_true(c.ops[r].status < 0);
        assert_false(br_staging_busy(job.ranks[r].engine));
        release(devices[r]);
    }
    call_destroy(&c, &job);
    job_destroy(&job);
    stays = 5; /* memory of both trials, on both sides, and the kernels */
    free_kept();
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_reductions, close_reductions)
    const struct CMUnitTest tests[] = {
        CASE(reduction__every_type_and_operation),
        CASE(reduction__every_algorithm_and_place),
        CASE(reduction__reads_where_the_data_is),
        CASE(reduction__of_another_context),
        CASE(reduction__by_measured_cost),
        CASE(reduction__not_without_pinned_memory),
        CASE(reduction__refused_goes_to_the_cpu),
        CASE(reduction__refused_half_way_is_waited_for),
        CASE(reduction__fails_with_the_drivers_words),
        CASE(reduction__that_is_late_is_named),
        CASE(reduction__that_hangs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
