/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives that stay on a (fake) GPU and fail there, or on the way. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "collectives/engine/gpu_pipeline.h"
#include "tests/collectives/direct_setup.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/says.h"

/* Until so many operations have ended. The memory of one that has failed is the program's again,
 * who frees it at once: a NIC or a kernel that touches it then faults. */
static void run_and_free(struct job *job, const struct call *c, uint8_t **devices, int ended)
{
    while (job->ended < ended) {
        assert_true(job_step(job));
        for (int r = 0; r < job->n; r++)
            if (c->ops[r].status < 0 && devices[r]) {
                release(devices[r]);
                devices[r] = NULL;
            }
    }
}

/* On two ranks; `symbol` fails after so many calls. Each operation ends well, or with these words
 * on one rank at least, and nothing stays. How many have failed. */
static int failed(struct call c, const char *symbol, unsigned after, const char *text)
{
    uint8_t *devices[2];
    struct job job;
    int n = 0, said = 0;

    create(&job, 2, 1 << 20, offload);
    submit_on_gpu(&job, &c, ALL, 0, devices);
    strcpy(fake_cuda()->fail, symbol);
    fake_cuda()->fail_result = BR_CUDA_LAUNCH_FAILED;
    fake_cuda()->fail_after = after;
    run_and_free(&job, &c, devices, 2);
    fake_cuda()->fail[0] = 0;
    for (int r = 0; r < 2; r++) {
        n += c.ops[r].status != 0;
        said += c.ops[r].status && says_all(c.ops[r].message, text);
        assert_false(br_staging_busy(job.ranks[r].engine));
        if (!c.ops[r].status)
            release(devices[r]);
    }
    assert_int_equal(rooms, 0);
    if (n && !said)
        fail_msg("neither \"%s\" nor \"%s\" names \"%s\"", c.ops[0].message, c.ops[1].message,
                 text);
    call_destroy(&c, &job);
    job_destroy(&job);
    return n;
}

static void direct__refused(void **state)
{
    struct call reduces = {.collective = BR_ALLREDUCE, .count = 40000, .type = BRAID_INT64},
                gathers = {.collective = BR_ALLGATHER, .count = 40000, .type = BRAID_INT64};

    (void)state;
    for (unsigned after = 0; after < 2; after++) {
        assert_true(failed(reduces, "cuLaunchKernel", after, "braid_reduce_int64_sum") > 0);
        assert_true(failed(gathers, "cuMemcpyAsync", after, "memory") > 0);
    }
    fake_cuda()->unordered = true;
    assert_true(failed(reduces, "cuFlushGPUDirectRDMAWrites", 1, "flush|NIC") > 0);
}

static void direct__fails_under_way(void **state)
{
    struct call c = {.collective = BR_ALLREDUCE, .count = 40000, .type = BRAID_INT64};
    unsigned queries = 0;

    (void)state;
    while (failed(c, "cuEventQuery", queries, "copies"))
        queries++;
    assert_true(queries > 1);
}

/* Rank 1 fails after so many steps; false: all has ended before. */
static bool failed_after(int steps)
{
    struct call c = {
        .collective = BR_ALLREDUCE, .count = 40000, .type = BRAID_INT64, .in_place = true};
    uint8_t *devices[2];
    struct job job;
    bool fails;

    create(&job, 2, 16384, offload);
    submit_on_gpu(&job, &c, ALL, 0, devices);
    while (steps-- > 0 && job.ended < 2)
        job_step(&job);
    fails = job.ended == 0;
    if (fails)
        br_worker_fail(job.ranks[1].worker, ECANCELED, "the test says so");
    run_and_free(&job, &c, devices, 2);
    assert_true(!fails || c.ops[1].status == -ECANCELED);
    assert_int_equal(rooms, 0);
    for (int r = 0; r < 2; r++)
        if (devices[r])
            release(devices[r]);
    call_destroy(&c, &job);
    job_destroy(&job);
    return fails;
}

static void direct__a_rank_fails_anywhere(void **state)
{
    int n = 0;

    (void)state;
    fake_cuda()->late = 2;
    while (failed_after(n))
        n += 3;
    assert_true(n > 30);
}

/* A kernel that never ends: the deadline ends the operation, and the patience with the GPU what
 * waits for it. */
static void direct__hangs(void **state)
{
    struct call c = {
        .collective = BR_ALLREDUCE, .count = 40000, .type = BRAID_INT64, .in_place = true};
    uint8_t *devices[2];
    struct job job;

    (void)state;
    create(&job, 2, 0, offload);
    submit_on_gpu(&job, &c, ALL, 30 * BR_MS, devices);
    strcpy(fake_cuda()->fail, "cuEventQuery");
    fake_cuda()->fail_result = BR_CUDA_NOT_READY;
    job_run(&job, 2);
    fake_cuda()->fail[0] = 0;
    assert_true(br_copier_is_lost(copier, 1));
    assert_true(says_all(c.ops[0].message, "waits|reduction|GPU 0") ||
                says_all(c.ops[1].message, "waits|reduction|GPU 0"));
    for (int r = 0; r < 2; r++) {
        assert_true(c.ops[r].status < 0);
        assert_false(br_staging_busy(job.ranks[r].engine));
        release(devices[r]);
    }
    call_destroy(&c, &job);
    job_destroy(&job);
    stays = 6; /* memory of the trials, on both sides, the workspace, and the kernels */
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, direct_setup, direct_teardown)
    const struct CMUnitTest tests[] = {
        CASE(direct__refused),
        CASE(direct__fails_under_way),
        CASE(direct__a_rank_fails_anywhere),
        CASE(direct__hangs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
