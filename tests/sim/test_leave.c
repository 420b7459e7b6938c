/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank leaves while another one still puts and gets there, over rails that lose packets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/collectives/job.h"

#define SEEDS    200
#define MESSAGES 8
#define PUTS     12
#define BYTES    4096 /* of a put: some come with their request, the others by a READY */
#define GETS     4
#define MANY     100000 /* bytes of a get: they keep now the one rail, now the other busy */

struct leaving {
    struct job job;
    struct br_operation sends[MESSAGES], receives[MESSAGES], puts[PUTS], gets[GETS];
    uint8_t out[MESSAGES], in[MESSAGES], from[BYTES], got[GETS][MANY];
    uint8_t *there;
};

static void begin(struct leaving *x, uint64_t seed)
{
    const struct job_options options = {
        .n = 2,
        .rails = 2,
        .network = {.seed = seed, .loss_ppm = 100000, .retransmit_ns = 10 * BR_MS}};

    *x = (struct leaving){0};
    job_create(&x->job, &options);
    x->there = job_expose(&x->job, 1, (size_t)PUTS * BYTES + MANY);
    for (int i = 0; i < GETS; i++) {
        x->gets[i] = (struct br_operation){.kind = BR_OPERATION_GET,
                                           .recv = x->got[i],
                                           .count = MANY,
                                           .key = {.rank = 1, .id = 1, .check = 77},
                                           .offset = (size_t)PUTS * BYTES};
        job_submit(&x->job, 0, &x->gets[i]);
    }
    for (uint64_t i = 0; i < seed; i++)
        assert_true(job_step(&x->job));
    for (int i = 0; i < MESSAGES; i++) {
        x->out[i] = (uint8_t)(i + 1);
        x->sends[i] = (struct br_operation){.kind = BR_OPERATION_SEND,
                                            .send = &x->out[i],
                                            .count = 1,
                                            .peer = 0,
                                            .tag = (uint32_t)i};
        job_submit(&x->job, 1, &x->sends[i]);
    }
    while (br_queue_first(&x->job.ranks[1].worker->peers[0].queues[BR_QUEUE_EAGER]))
        assert_true(job_step(&x->job)); /* its sends have not ended yet */
    for (int i = 0; i < MESSAGES; i++) {
        x->receives[i] = (struct br_operation){.kind = BR_OPERATION_RECV,
                                               .recv = &x->in[i],
                                               .count = 1,
                                               .peer = 1,
                                               .tag = (uint32_t)i};
        job_submit(&x->job, 0, &x->receives[i]);
    }
    memset(x->from, 7, sizeof x->from);
    for (int i = 0; i < PUTS; i++) {
        x->puts[i] = job_put(1, x->from, i % 2 ? BYTES : 8, (uint64_t)i * BYTES);
        job_submit(&x->job, 0, &x->puts[i]);
    }
}

/* Its messages arrive and the puts are carried out, whichever of them come later than its BYE. */
static void leave__while_another_rank_puts(void **state)
{
    static struct leaving x;

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct br_worker *w[2];

        begin(&x, seed);
        for (int i = 0; i < 2; i++)
            w[i] = x.job.ranks[i].worker;
        br_worker_leave(w[1]);
        job_run(&x.job, 2 * MESSAGES + PUTS + GETS);
        for (int i = 0; i < MESSAGES; i++) {
            assert_int_equal(x.receives[i].status, 0);
            assert_int_equal(x.in[i], i + 1);
        }
        for (int i = 0; i < PUTS; i++)
            assert_int_equal(x.puts[i].status, 0);
        for (int i = 0; i < GETS; i++)
            assert_int_equal(x.gets[i].status, 0);
        br_worker_leave(w[0]);
        while (!br_worker_left(w[0]) || !br_worker_left(w[1])) {
            assert_true(br_sim_now(x.job.sim) < 20 * BR_SEC);
            assert_true(job_step(&x.job));
        }
        assert_int_equal(w[0]->failed, 0);
        assert_int_equal(w[1]->failed, 0);
        job_destroy(&x.job);
        free(x.there);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leave__while_another_rank_puts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
