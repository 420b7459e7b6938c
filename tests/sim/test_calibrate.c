/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sizes and the fit of `braid calibrate` on a simulated network: they find the injected latency
 * and rate, and MG-WFBP's a and b of a ring follow from them as they are measured.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/collectives/job.h"
#include "tools/calibrate/calibrate.h"

#define RANKS 4
#define MANY  128
#define SMALL 8  /* sizes from 8 bytes on, as tools/calibrate/links.c has them */
#define LARGE 11 /* from 4 KiB on */

struct injected {
    uint64_t bits_per_second, latency_ns; /* of a cable; a path has two */
};

static const struct injected networks[] = {
    {1000000000, 100000}, {10000000000, 20000}, {100000000, 1000000}};

static void open_job(struct job *job, const struct injected *injected)
{
    struct job_options options = {.n = RANKS,
                                  .rails = 1,
                                  .network = {.seed = 1,
                                              .bits_per_second = injected->bits_per_second,
                                              .latency_ns = injected->latency_ns,
                                              .forward_bytes = 256},
                                  .eager_bytes = 16 << 10,
                                  .engine = {.chunk_bytes = 64 << 20}};

    job_create(job, &options);
}

static struct br_operation message(enum br_operation_kind kind, int peer, uint8_t *memory,
                                   size_t bytes)
{
    return (struct br_operation){.kind = kind,
                                 .peer = peer,
                                 .send = kind == BR_OPERATION_SEND ? memory : NULL,
                                 .recv = kind == BR_OPERATION_RECV ? memory : NULL,
                                 .count = bytes,
                                 .tag = 1};
}

/* Virtual seconds until the last byte is at rank 1, which has posted its receive before. */
static double trip(struct job *job, uint8_t *memory, size_t bytes)
{
    struct br_operation recv = message(BR_OPERATION_RECV, 0, memory + bytes, bytes),
                        send = message(BR_OPERATION_SEND, 1, memory, bytes);
    volatile uint8_t *last = memory + 2 * bytes - 1;
    int before = job->ended;
    uint64_t start, end;

    memory[bytes - 1] = 7;
    *last = 0;
    job_submit(job, 1, &recv);
    for (int i = 0; i < 100; i++)
        job_step(job);
    start = br_sim_now(job->sim);
    job_submit(job, 0, &send);
    do { /* a step moves the time on when its work is done */
        end = br_sim_now(job->sim);
        assert_true(job_step(job));
    } while (*last != 7);
    job_run(job, before + 2);
    return (double)(end - start) / 1e9;
}

/* Runs until so many operations have ended in all; the virtual time then, s. */
static double finish(struct job *job, int ended)
{
    uint64_t end;

    do {
        end = br_sim_now(job->sim);
        assert_true(job_step(job));
    } while (job->ended < ended);
    return (double)end / 1e9;
}

static double many(struct job *job, uint8_t *memory, size_t bytes, int count)
{
    static struct br_operation recvs[2 * MANY], sends[2 * MANY];
    int before = job->ended;
    uint64_t start;

    for (int i = 0; i < count; i++) {
        recvs[i] = message(BR_OPERATION_RECV, 0, memory + bytes, bytes);
        job_submit(job, 1, &recvs[i]);
    }
    start = br_sim_now(job->sim);
    for (int i = 0; i < count; i++) {
        sends[i] = message(BR_OPERATION_SEND, 1, memory, bytes);
        job_submit(job, 0, &sends[i]);
    }
    return finish(job, before + 2 * count) - (double)start / 1e9;
}

/* Virtual seconds that each message more takes. */
static double stream(struct job *job, uint8_t *memory, size_t bytes)
{
    int n = (1 << 20) / (int)bytes < 8      ? 8
            : (1 << 20) / (int)bytes > MANY ? MANY
                                            : (1 << 20) / (int)bytes;

    return (many(job, memory, bytes, 2 * n) - many(job, memory, bytes, n)) / n;
}

static void measure(struct job *job, struct br_calibration_link *link)
{
    uint8_t *memory = calloc(2, 4 << 20);
    double trips[SMALL], streams[LARGE];

    assert_non_null(memory);
    for (int i = 0; i < SMALL; i++)
        trips[i] = trip(job, memory, 8u << i);
    for (int i = 0; i < LARGE; i++)
        streams[i] = stream(job, memory, 4096u << i);
    assert_true(br_calibrate_fit(link, trips, streams));
    free(memory);
}

static void near(const char *what, double got, double injected, double share)
{
    printf("%s: %.6g, injected or measured %.6g: %+.2f %%\n", what, got, injected,
           100 * (got / injected - 1));
    if (!(fabs(got / injected - 1) <= share))
        fail_msg("%s is off by more than %g %%", what, 100 * share);
}

static void br_calibrate_fit__finds_injected_costs(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        struct br_calibration_link link = {0};
        struct job job;

        open_job(&job, &networks[i]);
        measure(&job, &link);
        near("alpha, s", link.trips.start, 2 * (double)networks[i].latency_ns / 1e9, 0.01);
        near("beta, s/byte", link.streams.slope, 8 / (double)networks[i].bits_per_second, 0.01);
        assert_true(link.streams.r2 > 0.99);
        job_destroy(&job);
    }
}

/* Virtual seconds of a ring all-reduce of all ranks. */
static double ring(struct job *job, float *memory, size_t count)
{
    struct br_operation ops[RANKS];
    uint64_t start = br_sim_now(job->sim);

    memset(ops, 0, sizeof ops);
    for (int r = 0; r < RANKS; r++) {
        ops[r] = (struct br_operation){.kind = BR_OPERATION_COLLECTIVE,
                                       .collective = BR_ALLREDUCE,
                                       .type = BRAID_FLOAT32,
                                       .reduction = BRAID_SUM,
                                       .count = count,
                                       .send = memory + (size_t)r * count,
                                       .recv = memory + (size_t)(RANKS + r) * count,
                                       .send_bytes = count * 4,
                                       .recv_bytes = count * 4,
                                       .algorithm = "ring"};
        job_submit(job, r, &ops[r]);
    }
    return finish(job, job->ended + RANKS) - (double)start / 1e9;
}

/* 2(N-1) alpha and 2(N-1)/N beta; adding up takes no virtual time. Messages that go without READY:
 * MG-WFBP's transport has none. */
static void mg_wfbp__a_and_b_of_a_ring_follow(void **state)
{
    enum { SIZES = 7 }; /* 1 to 64 KiB */
    float *memory = calloc((size_t)2 * RANKS << SIZES, 1024);

    (void)state;
    assert_non_null(memory);
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        struct br_calibration_link link = {0};
        double bytes[SIZES], seconds[SIZES];
        struct br_cost_fit fit;
        struct job job;

        open_job(&job, &networks[i]);
        measure(&job, &link);
        for (int s = 0; s < SIZES; s++) {
            bytes[s] = (double)(1024u << s);
            seconds[s] = ring(&job, memory, 256u << s);
        }
        assert_true(br_cost_fit_line(bytes, seconds, SIZES, &fit));
        near("a by alpha, s", 2 * (RANKS - 1) * link.trips.start, fit.start, 0.10);
        near("b by beta, s/byte", 2.0 * (RANKS - 1) / RANKS * link.streams.slope, fit.slope, 0.10);
        job_destroy(&job);
    }
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_calibrate_fit__finds_injected_costs),
        cmocka_unit_test(mg_wfbp__a_and_b_of_a_ring_follow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
