/* SPDX-License-Identifier: BSD-3-Clause */
/* Flushes, through the engine over the simulator. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>

#include "base/clock.h"
#include "base/error.h"
#include "tests/collectives/job.h"
#include "tests/says.h"

static const struct job_options three = {
    .n = 3, .rails = 2, .network = {.seed = 1, .bits_per_second = 100ull << 30}};

static bool has_ended(const struct br_operation *op)
{
    return br_list_empty(&op->node);
}

static void flush__ends_when_what_came_before_has(void **state)
{
    enum { PUTS = 10 };
    static uint8_t from[PUTS][100000];
    struct br_operation puts[2 * PUTS + 1], one, all, none;
    uint8_t *there[3];
    struct job job;

    (void)state;
    job_create(&job, &three);
    for (int r = 1; r < 3; r++)
        there[r] = job_expose(&job, r, PUTS * 100000);
    none = one = all = (struct br_operation){.kind = BR_OPERATION_FLUSH};
    one.peer = 1;
    none.peer = all.peer = BRAID_ANY_SOURCE;
    job_submit(&job, 0, &none);
    job_run(&job, 1); /* nothing to wait for */
    assert_int_equal(none.status, 0);
    for (int i = 0; i < PUTS; i++) {
        memset(from[i], i + 1, sizeof from[i]);
        puts[i] = job_put(1, from[i], i % 2 ? 100 : 100000, (uint64_t)i * 100000);
        job_submit(&job, 0, &puts[i]);
    }
    job_submit(&job, 0, &one);
    for (int i = PUTS; i < 2 * PUTS; i++) {
        puts[i] = job_put(2, from[i - PUTS], 100000, (uint64_t)(i - PUTS) * 100000);
        job_submit(&job, 0, &puts[i]);
    }
    job_submit(&job, 0, &all);
    puts[2 * PUTS] = job_put(1, from[0], 100000, 0); /* behind them: not waited for */
    puts[2 * PUTS].priority = -1;
    job_submit(&job, 0, &puts[2 * PUTS]);
    while (!has_ended(&one) || !has_ended(&all)) {
        assert_true(job_step(&job));
        for (int i = 0; i < PUTS; i++)
            if (has_ended(&one))
                assert_true(has_ended(&puts[i]) && job_is_all(there[1] + (size_t)i * 100000,
                                                              puts[i].count, (uint8_t)(i + 1)));
    }
    for (int i = 0; i < 2 * PUTS; i++)
        assert_true(has_ended(&puts[i]));
    job_run(&job, 2 * PUTS + 4);
    assert_int_equal(one.status, 0);
    assert_int_equal(all.status, 0);
    job_destroy(&job);
    free(there[1]);
    free(there[2]);
}

/* A refused put is no error of the flush; the end of the job is. */
static void flush__errors(void **state)
{
    static uint8_t from[100];
    struct br_operation put = job_put(1, from, 100, 0), flush = {.kind = BR_OPERATION_FLUSH};
    struct job job;

    (void)state;
    job_create(&job, &three);
    flush.peer = 3;
    assert_int_equal(job_try_submit(&job, 0, &flush), -EINVAL);
    flush.peer = 1;
    job_submit(&job, 0, &put);
    job_submit(&job, 0, &flush);
    job_run(&job, 2);
    assert_int_equal(put.status, -EACCES);
    assert_int_equal(flush.status, 0);
    br_sim_add_fault(job.sim, &(struct br_sim_fault){.kind = BR_SIM_HOST_KILLED, .host = 1});
    job_submit(&job, 0, &put);
    job_submit(&job, 0, &flush);
    job_run(&job, 4);
    assert_int_equal(flush.status, -ECONNRESET);
    assert_says(flush.message, "flush|rank 1");
    job_destroy(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flush__ends_when_what_came_before_has),
        cmocka_unit_test(flush__errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
