/* SPDX-License-Identifier: BSD-3-Clause */
/* More messages than there are credits, which nobody has received yet: whatever the program asks
 * for next comes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>

#include "base/clock.h"
#include "tests/collectives/job.h"

#define MANY  100 /* more than the credits of two rails */
#define LARGE 5000u

static uint8_t from[MANY][LARGE], to[MANY][LARGE];
static struct br_operation sends[MANY], receives[MANY];

static const struct job_options one_rail = {
    .n = 2, .rails = 1, .network = {.seed = 1, .bits_per_second = 10ull << 30}};
static const struct job_options two_rails = {
    .n = 2, .rails = 2, .network = {.seed = 2, .bits_per_second = 10ull << 30}};
static const struct job_options *const both[] = {&one_rail, &two_rails};

static void fill(void)
{
    memset(sends, 0, sizeof sends);
    memset(receives, 0, sizeof receives);
    memset(to, 0, sizeof to);
    for (uint32_t i = 0; i < MANY; i++)
        memset(from[i], (int)i + 1, sizeof from[i]);
}

/* Number i, of rank 0 to rank 1, each with a tag of its own. */
static void send(struct job *job, uint32_t i, size_t bytes)
{
    sends[i] = (struct br_operation){
        .kind = BR_OPERATION_SEND, .peer = 1, .send = from[i], .count = bytes, .tag = i};
    job_submit(job, 0, &sends[i]);
}

static void receive(struct job *job, uint32_t i, size_t bytes)
{
    receives[i] = (struct br_operation){
        .kind = BR_OPERATION_RECV, .peer = 0, .recv = to[i], .count = bytes, .tag = i};
    job_submit(job, 1, &receives[i]);
}

/* Both ends have begun, and nothing that the program does later is needed for it. */
static void comes(struct job *job, uint32_t i, size_t bytes, uint64_t within)
{
    uint64_t start = br_sim_now(job->sim);

    while (memcmp(from[i], to[i], bytes)) {
        if (!job_step(job) || br_sim_now(job->sim) - start > within)
            fail_msg("message %u has not come after %.1f ms (%s)", i,
                     (double)(br_sim_now(job->sim) - start) / 1e6, job->ranks[1].worker->message);
    }
}

static void idle(struct job *job, uint64_t ns)
{
    for (uint64_t end = br_sim_now(job->sim) + ns; br_sim_now(job->sim) < end;)
        assert_true(job_step(job));
}

typedef void side(struct job *job, uint32_t i, size_t bytes);

/* One side begins all of them, then the other one the last first. */
static void last_first(side *one, side *other, size_t bytes)
{
    for (size_t k = 0; k < 2; k++) {
        struct job job;

        fill();
        job_create(&job, both[k]);
        for (uint32_t i = 0; i < MANY; i++)
            one(&job, i, bytes);
        idle(&job, BR_MS);
        for (uint32_t i = MANY; i-- > 0;) {
            other(&job, i, bytes);
            comes(&job, i, bytes, BR_MS);
        }
        job_run(&job, 2 * MANY);
        job_destroy(&job);
    }
}

static void send__small_ones_in_any_order(void **state)
{
    (void)state;
    last_first(send, receive, 8);
}

/* The same when the receive was there before the credits were used up: it is asked for later, but
 * asked for. */
static void send__small_one_that_is_awaited_already(void **state)
{
    struct job job;

    (void)state;
    fill();
    job_create(&job, &one_rail);
    receive(&job, MANY - 1, 8);
    for (uint32_t i = 0; i < MANY; i++)
        send(&job, i, 8);
    comes(&job, MANY - 1, 8, 150 * BR_MS);
    for (uint32_t i = 0; i < MANY - 1; i++)
        receive(&job, i, 8);
    job_run(&job, 2 * MANY);
    job_destroy(&job);
}

/* READYs of receives hold the credits. */
static void recv__large_ones_in_any_order(void **state)
{
    (void)state;
    last_first(receive, send, LARGE);
}

/* READYs hold the credits that a small message needs. */
static void recv__large_ones_hold_up_no_small_send(void **state)
{
    struct br_operation small = {
        .kind = BR_OPERATION_SEND, .peer = 0, .send = "12345678", .count = 8};
    char got[8] = "";
    struct br_operation back = {.kind = BR_OPERATION_RECV, .peer = 1, .recv = got, .count = 8};
    uint64_t start;
    struct job job;

    (void)state;
    fill();
    job_create(&job, &one_rail);
    for (uint32_t i = 0; i < MANY; i++)
        receive(&job, i, LARGE);
    idle(&job, BR_MS);
    job_submit(&job, 1, &small);
    job_submit(&job, 0, &back);
    start = br_sim_now(job.sim);
    while (memcmp(got, "12345678", 8)) {
        assert_true(job_step(&job));
        assert_in_range(br_sim_now(job.sim) - start, 0, BR_MS);
    }
    for (uint32_t i = 0; i < MANY; i++)
        send(&job, i, LARGE);
    job_run(&job, 2 * MANY + 2);
    job_destroy(&job);
}

/* Small messages hold the credits that the READY of a large one needs. */
static void send__small_ones_hold_up_no_large_receive(void **state)
{
    struct br_operation large = {
        .kind = BR_OPERATION_SEND, .peer = 0, .send = from[0], .count = LARGE};
    struct br_operation back = {
        .kind = BR_OPERATION_RECV, .peer = 1, .recv = to[0], .count = LARGE};
    uint64_t start;
    struct job job;

    (void)state;
    fill();
    job_create(&job, &one_rail);
    for (uint32_t i = 1; i < MANY; i++)
        send(&job, i, 8);
    idle(&job, BR_MS);
    job_submit(&job, 0, &back);
    job_submit(&job, 1, &large);
    start = br_sim_now(job.sim);
    while (memcmp(from[0], to[0], LARGE)) {
        assert_true(job_step(&job));
        assert_in_range(br_sim_now(job.sim) - start, 0, BR_MS);
    }
    for (uint32_t i = 1; i < MANY; i++)
        receive(&job, i, 8);
    job_run(&job, 2 * MANY);
    job_destroy(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(send__small_ones_in_any_order),
        cmocka_unit_test(send__small_one_that_is_awaited_already),
        cmocka_unit_test(recv__large_ones_in_any_order),
        cmocka_unit_test(recv__large_ones_hold_up_no_small_send),
        cmocka_unit_test(send__small_ones_hold_up_no_large_receive),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
