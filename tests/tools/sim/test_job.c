/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "tools/sim/job.h"

#define COUNT 4096

static struct br_topology topology;
static struct br_sim_job job;

static void open_job(const char *text)
{
    struct br_sim_job_config config = {
        .topology = &topology, .rails = 1, .network = {.hollow = true}};

    assert_int_equal(br_topology_parse(&topology, text), 0);
    br_cost_model_on(&config.model, &topology, BR_COST_NETWORK, 1);
    assert_int_equal(br_sim_job_open(&job, &config), 0);
}

/* Peers that it has links to. */
static uint32_t known(uint32_t rank)
{
    uint32_t n = 0;

    br_list_for_each (node, &job.ranks[rank].worker->known)
        n++;
    return n;
}

static struct br_operation halving(float *memory)
{
    return (struct br_operation){.kind = BR_OPERATION_COLLECTIVE,
                                 .collective = BR_ALLREDUCE,
                                 .send = memory,
                                 .recv = memory,
                                 .send_bytes = COUNT * sizeof *memory,
                                 .recv_bytes = COUNT * sizeof *memory,
                                 .count = COUNT,
                                 .type = BRAID_FLOAT32,
                                 .reduction = BRAID_SUM,
                                 .algorithm = "halving"};
}

static void count_ended(void *with, uint32_t rank, struct br_operation *op, uint64_t now)
{
    (void)rank;
    (void)now;
    assert_int_equal(op->status, 0);
    ++*(uint32_t *)with;
}

static void all_reduce(float *memory)
{
    struct br_operation *ops = calloc(job.n, sizeof *ops);
    uint32_t ended = 0;

    job.program = (struct br_sim_job_program){.with = &ended, .ended = count_ended};
    for (uint32_t r = 0; r < job.n; r++) {
        ops[r] = halving(memory);
        assert_int_equal(br_sim_job_submit(&job, r, &ops[r]), 0);
    }
    while (ended < job.n)
        assert_int_equal(br_sim_job_advance(&job), 0);
    free(ops);
}

static void job_connect__everybody_or_neighbours(void **state)
{
    (void)state;
    open_job("flat:9");
    assert_int_equal(br_sim_job_connect(&job), 0);
    for (uint32_t r = 0; r < job.n; r++)
        assert_int_equal(known(r), 8);
    br_sim_job_close(&job);
    open_job("bcube:3,2");
    assert_int_equal(br_sim_job_connect(&job), 0);
    for (uint32_t r = 0; r < job.n; r++)
        assert_int_equal(known(r), 4);
    br_sim_job_close(&job);
}

/* Of 64 ranks 6 are partners in halving and doubling. What else is asked for later adds to them. */
static void job_connect_for__partners_only(void **state)
{
    static float memory[COUNT];
    struct br_operation op = halving(memory);

    (void)state;
    open_job("flat:64");
    assert_int_equal(br_sim_job_connect_for(&job, &op), 0);
    for (uint32_t r = 0; r < job.n; r++) {
        assert_int_equal(known(r), 6);
        assert_true(br_worker_connected(job.ranks[r].worker));
    }
    all_reduce(memory);
    assert_int_equal(br_sim_job_connect_for(&job, &op), 0);
    assert_int_equal(known(5), 6);
    snprintf(op.algorithm, sizeof op.algorithm, "ring");
    assert_int_equal(br_sim_job_connect_for(&job, &op), 0);
    assert_in_range(known(5), 7, 8);
    all_reduce(memory);
    br_sim_job_close(&job);
}

/* No rank computes: what 9 ranks have put in is not added up. */
static void job_submit__hollow_ones_reduce_nothing(void **state)
{
    static float memory[COUNT];

    (void)state;
    for (uint32_t i = 0; i < COUNT; i++)
        memory[i] = 1;
    open_job("flat:9");
    assert_int_equal(br_sim_job_connect(&job), 0);
    all_reduce(memory);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_true(memory[i] == 1);
    br_sim_job_close(&job);
}

static void job_connect_for__refuses_with_words(void **state)
{
    static float memory[COUNT];
    struct br_operation op = halving(memory);

    (void)state;
    open_job("flat:4");
    snprintf(op.algorithm, sizeof op.algorithm, "bml"); /* needs a BCube */
    assert_true(br_sim_job_connect_for(&job, &op) < 0);
    br_sim_job_close(&job);
}

/* ---- turns ----------------------------------------------------------------------------------- */

#define RANKS 5 /* no power of two */

static struct wishes {
    uint64_t at[RANKS]; /* of the next turn that counts */
    uint32_t turns[RANKS], last;
} wishes;

static uint64_t wish(void *with, uint32_t rank, uint64_t now)
{
    struct wishes *w = with;

    if (now < w->at[rank])
        return w->at[rank];
    assert_in_range(now, w->at[rank], w->at[rank] + 1); /* clocks are rounded up by a nanosecond */
    w->turns[rank]++;
    w->last = rank;
    w->at[rank] += 1000 * (rank + 1);
    return w->at[rank];
}

static void job_advance__turns_come_when_they_are_wanted(void **state)
{
    uint64_t start;

    (void)state;
    open_job("flat:5");
    assert_int_equal(br_sim_job_connect(&job), 0);
    start = br_sim_now(job.sim) + 1000;
    for (uint32_t r = 0; r < RANKS; r++) {
        wishes.at[r] = start;
        br_sim_job_wake(&job, r);
    }
    job.program = (struct br_sim_job_program){.with = &wishes, .progress = wish};
    while (br_sim_now(job.sim) <= start + 60500)
        assert_int_equal(br_sim_job_advance(&job), 0);
    for (uint32_t r = 0; r < RANKS; r++)
        assert_int_equal(wishes.turns[r], 60 / (r + 1) + 1);
    /* of those at the same time the last rank is the last */
    assert_int_equal(wishes.last, RANKS - 1);
    br_sim_job_close(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(job_connect__everybody_or_neighbours),
        cmocka_unit_test(job_connect_for__partners_only),
        cmocka_unit_test(job_submit__hollow_ones_reduce_nothing),
        cmocka_unit_test(job_connect_for__refuses_with_words),
        cmocka_unit_test(job_advance__turns_come_when_they_are_wanted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
