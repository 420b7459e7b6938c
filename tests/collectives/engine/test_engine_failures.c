/* SPDX-License-Identifier: BSD-3-Clause */
/* How operations fail: at their deadline, with a rank, where ranks disagree. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "tests/collectives/call.h"
#include "tests/says.h"

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
    assert_says(c.ops[0].message, "allreduce|100000 float32|operation 0|deadline|50 ms");
    assert_says(c.ops[0].message, "rank 2|level 0|device");
    assert_says(other.ops[0].message, "operation 1");
    assert_says(other.ops[0].message, "deadline");
    assert_int_equal(c.ops[1].status, -ETIMEDOUT);
    assert_says(c.ops[1].message, "rank 0");
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
    job_create(&job,
               &(struct job_options){
                   .n = 3, .rails = 2, .network = {.seed = 1}, .engine = {.chunk_bytes = 8192}});
    for (int i = 0; i < CALLS; i++) {
        calls[i] = (struct call){.collective = BR_ALLREDUCE, .count = 500000};
        call_submit(&calls[i], &job);
    }
    for (int i = 0; i < 300; i++)
        job_step(&job);
    assert_int_equal(br_sim_add_fault(job.sim, &(struct br_sim_fault){.kind = BR_SIM_HOST_KILLED,
                                                                      .at = br_sim_now(job.sim),
                                                                      .host = 2}),
                     0);
    job_run(&job, 2 * CALLS);
    for (int i = 0; i < CALLS; i++)
        for (int r = 0; r < 2;
             r++) { /* the second rank may hear of it only by the links that the first one closes */
            assert_true(calls[i].ops[r].status == -ECONNRESET ||
                        calls[i].ops[r].status == -ECANCELED);
            assert_says(calls[i].ops[r].message, "allreduce|500000 float32|operation");
        }
    assert_true(says_all(calls[0].ops[0].message, "rank 2|lost") ||
                says_all(calls[0].ops[1].message, "rank 2|lost"));
    job_destroy(&job); /* the dead rank's worker still owns its buffers until here */
    for (int i = 0; i < CALLS; i++)
        call_destroy(&calls[i], &job);
}

/* The ranks disagree: in the count, in the reduction, in the collective, in the root; in their
 * first call, and in one after a call that both have made. */
static void failure__ranks_disagree(void **state)
{
    static const struct call pairs[][2] = {
        {{.collective = BR_ALLREDUCE, .count = 100}, {.collective = BR_ALLREDUCE, .count = 101}},
        {{.collective = BR_ALLREDUCE, .count = 90000},
         {.collective = BR_ALLREDUCE, .count = 90000, .reduction = BRAID_MAX}},
        {{.collective = BR_BROADCAST, .count = 50000},
         {.collective = BR_REDUCE, .root = 1, .count = 50000}},
        {{.collective = BR_BROADCAST, .count = 50000},
         {.collective = BR_BROADCAST, .root = 1, .count = 50000}},
        {{.collective = BR_REDUCE, .count = 50000},
         {.collective = BR_REDUCE, .root = 1, .count = 50000}},
        {{.collective = BR_REDUCE, .count = 5}, {.collective = BR_REDUCE, .root = 1, .count = 5}},
    };

    (void)state;
    for (size_t i = 0; i < 2 * sizeof pairs / sizeof *pairs; i++) {
        struct call calls[2] = {pairs[i / 2][0], pairs[i / 2][1]};
        struct job job;

        job_create(&job, &(struct job_options){.n = 2, .rails = 1, .network = {.seed = 1}});
        calls[0].algorithm = calls[1].algorithm = "direct";
        if (i % 2)
            call_run(&job, calls[0]);
        assert_true(call_run_disagreeing(&job, calls, 300 * BR_MS) > 0);
        job_destroy(&job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deadline__names_operation_and_peer),
        cmocka_unit_test(failure__dead_peer_ends_all),
        cmocka_unit_test(failure__ranks_disagree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
