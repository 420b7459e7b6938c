/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations that wait for their turn; and far more of them at once, over the simulator, than may
 * be under way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "collectives/engine/backlog.h"
#include "collectives/engine/operation.h"
#include "tests/collectives/job.h"

#define AT_ONCE  BR_BACKLOG_AT_ONCE
#define MANY     20000
#define ELEMENTS 256   /* 1 KiB */
#define MESSAGES 20000 /* more than the worker's tables have room for at first */

static struct br_operation ops[AT_ONCE + 3];

static void enter(struct br_backlog *backlog, int i, uint64_t deadline, bool begins)
{
    ops[i] = (struct br_operation){.deadline = deadline};
    assert_int_equal(br_backlog_enter(backlog, &ops[i]), begins);
}

static void fill(struct br_backlog *backlog)
{
    br_backlog_init(backlog);
    for (uint32_t i = 0; i < AT_ONCE; i++)
        enter(backlog, (int)i, 1, true);
}

static void enter__waits_behind_others_in_order(void **state)
{
    struct br_backlog backlog;
    struct br_operation late;

    (void)state;
    fill(&backlog);
    for (int i = 0; i < 3; i++)
        enter(&backlog, (int)AT_ONCE + i, 1, false);
    assert_null(br_backlog_next(&backlog));
    br_backlog_left(&backlog);
    br_backlog_left(&backlog);
    late = (struct br_operation){.deadline = 1};
    assert_false(br_backlog_enter(&backlog, &late)); /* there is room, but not for it */
    assert_ptr_equal(br_backlog_next(&backlog), &ops[AT_ONCE]);
    assert_ptr_equal(br_backlog_next(&backlog), &ops[AT_ONCE + 1]);
    assert_null(br_backlog_next(&backlog));
    for (uint32_t i = 0; i < AT_ONCE; i++)
        br_backlog_left(&backlog);
    assert_ptr_equal(br_backlog_next(&backlog), &ops[AT_ONCE + 2]);
    assert_ptr_equal(br_backlog_next(&backlog), &late);
    assert_null(br_backlog_next(&backlog));
    assert_true(br_backlog_is_empty(&backlog));
    assert_int_equal(backlog.under_way, 2);
}

static void overdue__names_the_one(void **state)
{
    struct br_backlog backlog;

    (void)state;
    fill(&backlog);
    enter(&backlog, AT_ONCE, 500, false);
    enter(&backlog, AT_ONCE + 1, 300, false);
    enter(&backlog, AT_ONCE + 2, 400, false);
    assert_null(br_backlog_overdue(&backlog, 299)); /* others are not asked */
    assert_int_equal(backlog.next_deadline, 300);
    assert_ptr_equal(br_backlog_overdue(&backlog, 300), &ops[AT_ONCE + 1]);
    for (int i = 0; i < 2; i++) {
        br_backlog_left(&backlog);
        assert_non_null(br_backlog_next(&backlog));
    }
    assert_null(br_backlog_overdue(&backlog, 399));
    assert_int_equal(backlog.next_deadline, 400);
    br_backlog_left(&backlog);
    assert_non_null(br_backlog_next(&backlog));
    assert_null(br_backlog_next(&backlog));
    assert_int_equal(backlog.next_deadline, UINT64_MAX);
}

/* ---- far more than may be under way ---------------------------------------------------------- */

static const struct job_options two_ranks = {
    .n = 2, .rails = 2, .network = {.seed = 1, .bits_per_second = 100ull << 30}};

static void many__all_reduces(void **state)
{
    struct br_operation *operations = calloc(2 * MANY, sizeof *operations);
    int32_t(*data)[ELEMENTS] = calloc(2 * MANY, sizeof *data);
    struct job job;

    (void)state;
    job_create(&job, &two_ranks);
    for (int i = 0; i < 2 * MANY; i++) {
        int rank = i / MANY;

        data[i][0] = i;
        data[i][ELEMENTS - 1] = rank;
        operations[i] = (struct br_operation){.kind = BR_OPERATION_COLLECTIVE,
                                              .collective = BR_ALLREDUCE,
                                              .send = data[i],
                                              .recv = data[i],
                                              .count = ELEMENTS,
                                              .type = BRAID_INT32,
                                              .timeout = UINT64_MAX / 2};
        job_submit(&job, rank, &operations[i]);
    }
    assert_int_equal(job.ranks[0].backlog.under_way, AT_ONCE);
    job_run(&job, 2 * MANY);
    for (int i = 0; i < 2 * MANY; i++) {
        assert_int_equal(operations[i].status, 0);
        assert_int_equal(operations[i].sequence, i % MANY);
        assert_int_equal(data[i][0], 2 * (i % MANY) + MANY);
        assert_int_equal(data[i][ELEMENTS - 1], 1);
    }
    job_destroy(&job);
    free(data);
    free(operations);
}

/* Receives first, so that all of them are there; then what the last one expects comes first. */
static void many__messages(void **state)
{
    struct br_operation *receives = calloc(MESSAGES, sizeof *receives);
    struct br_operation *sends = calloc(MESSAGES, sizeof *sends);
    uint64_t *from = calloc(MESSAGES, sizeof *from), *to = calloc(MESSAGES, sizeof *to);
    struct job job;

    (void)state;
    job_create(&job, &two_ranks);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        receives[i] = (struct br_operation){.kind = BR_OPERATION_RECV,
                                            .peer = 0,
                                            .recv = &to[i],
                                            .count = sizeof to[i],
                                            .tag = i % 1000,
                                            .timeout = UINT64_MAX / 2};
        job_submit(&job, 1, &receives[i]);
    }
    for (uint32_t k = 0; k < MESSAGES; k++) {
        uint32_t i = 1000 * (k / 1000) + 999 - k % 1000; /* tags in another order */

        from[i] = i + 1;
        sends[i] = (struct br_operation){.kind = BR_OPERATION_SEND,
                                         .peer = 1,
                                         .send = &from[i],
                                         .count = sizeof from[i],
                                         .tag = i % 1000,
                                         .timeout = UINT64_MAX / 2};
        job_submit(&job, 0, &sends[i]);
    }
    job_run(&job, 2 * MESSAGES);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        assert_int_equal(receives[i].status, 0);
        assert_int_equal(to[i], i + 1);
    }
    assert_true(job.ranks[1].worker->late_allocations > 0);
    job_destroy(&job);
    free(to);
    free(from);
    free(sends);
    free(receives);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(enter__waits_behind_others_in_order),
        cmocka_unit_test(overdue__names_the_one),
        cmocka_unit_test(many__all_reduces),
        cmocka_unit_test(many__messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
