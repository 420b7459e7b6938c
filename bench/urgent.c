/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long a small urgent all-reduce takes while large ones are under way, and what that costs the
 * large ones. Any number of ranks; bench/urgent.sh makes the hosts and starts it.
 *
 * 1. Rounds of three phases: urgent ones alone, large ones alone, both. The large ones are
 * submitted at once and run one after the other.
 * 2. Urgent ones start at a steady pace on every rank; a latency is that of rank 0, from the call
 *    to the end of braid_wait().
 * 3. What the rest of a phase takes is rank 0's, too: from a barrier to the end of the last large
 *    one.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <braid/braid.h>

#include "base/clock.h"
#include "base/error.h"
#include "bench/pace.h"
#include "tools/common/options.h"

#define MOST_LARGE   16
#define MOST_SAMPLES 4096

enum { ALONE, LARGE, BOTH, PHASES };

struct bench {
    int64_t small_bytes, large_bytes, n_large, n_small, pace_us, rounds;
    int64_t high; /* priority of the urgent ones */
    struct braid_comm *comm;
    float *small, *large;
    double us[PHASES][MOST_SAMPLES], ms[PHASES][MOST_SAMPLES];
    int n_us[PHASES], n_ms[PHASES];
};

static int tell(int rc, const char *what)
{
    if (rc)
        fprintf(stderr, "urgent: %s: %s\n", what, braid_last_error());
    return rc;
}

static int run_urgent(struct bench *b, int phase, uint64_t start)
{
    struct braid_options options = {.priority = (int32_t)b->high};
    size_t count = (size_t)b->small_bytes / sizeof(float);
    int rc = 0;

    for (int64_t i = 0; i < b->n_small && !rc; i++) {
        uint64_t from;

        bench_sleep_until(start + (uint64_t)((i + 1) * b->pace_us) * 1000);
        from = br_clock_now();
        rc = tell(braid_allreduce(b->comm, b->small, b->small, count, BRAID_FLOAT32, BRAID_MAX,
                                  &options, NULL),
                  "urgent all-reduce");
        if (b->n_us[phase] < MOST_SAMPLES)
            b->us[phase][b->n_us[phase]++] = (double)(br_clock_now() - from) / 1e3;
    }
    return rc;
}

static int run_phase(struct bench *b, int phase)
{
    struct braid_op *ops[MOST_LARGE];
    size_t count = (size_t)b->large_bytes / sizeof(float);
    int n_large = phase == ALONE ? 0 : (int)b->n_large;
    uint64_t start;
    int rc = tell(braid_barrier(b->comm, NULL, NULL), "barrier");

    start = br_clock_now();
    for (int i = 0; i < n_large && !rc; i++)
        rc = tell(braid_allreduce(b->comm, b->large + (size_t)i * count,
                                  b->large + (size_t)i * count, count, BRAID_FLOAT32, BRAID_MAX,
                                  NULL, &ops[i]),
                  "large all-reduce");
    if (!rc && phase != LARGE)
        rc = run_urgent(b, phase, start);
    for (int i = 0; i < n_large && !rc; i++)
        rc = tell(braid_wait(ops[i], -1), "large all-reduce");
    if (n_large && b->n_ms[phase] < MOST_SAMPLES)
        b->ms[phase][b->n_ms[phase]++] = (double)(br_clock_now() - start) / 1e6;
    return rc;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double quantile(double *values, int n, double q)
{
    qsort(values, (size_t)n, sizeof *values, ascending);
    return n ? values[(int)(q * (n - 1))] : 0;
}

static void report(struct bench *b)
{
    double alone = quantile(b->us[ALONE], b->n_us[ALONE], 0.5);
    double amid = quantile(b->us[BOTH], b->n_us[BOTH], 0.5);
    double large = quantile(b->ms[LARGE], b->n_ms[LARGE], 0.5);
    double both = quantile(b->ms[BOTH], b->n_ms[BOTH], 0.5);

    printf("%5d %9.0f %9.0f %9.0f %7.2f %10.2f %10.2f %7.3f\n", braid_size(b->comm), alone, amid,
           quantile(b->us[BOTH], b->n_us[BOTH], 0.99), amid / alone, large, both, both / large);
}

static int run(struct bench *b)
{
    size_t bytes = (size_t)(b->n_large * b->large_bytes);
    int rc = 0;

    b->small = braid_alloc(b->comm, (size_t)b->small_bytes);
    b->large = b->small ? braid_alloc(b->comm, bytes) : NULL;
    if (!b->large)
        return tell(-ENOMEM, "buffers");
    memset(b->small, 0, (size_t)b->small_bytes);
    memset(b->large, 0, bytes);
    for (int64_t round = 0; round <= b->rounds && !rc; round++) {
        if (round == 1) /* the first one warms up */
            memset(b->n_us, 0, sizeof b->n_us), memset(b->n_ms, 0, sizeof b->n_ms);
        for (int phase = 0; phase < PHASES && !rc; phase++)
            rc = run_phase(b, phase);
    }
    if (!rc && braid_rank(b->comm) == 0)
        report(b);
    return rc;
}

int main(int argc, char **argv)
{
    static struct bench b = {.small_bytes = 40000,
                             .large_bytes = 16 << 20,
                             .n_large = 4,
                             .n_small = 20,
                             .pace_us = 5000,
                             .rounds = 5,
                             .high = 1};
    const struct br_option options[] = {
        {"small", 0, BR_OPTION_BYTES, &b.small_bytes, 4, 1 << 30,
         "SIZE of an urgent all-reduce; default 40000"},
        {"large", 0, BR_OPTION_BYTES, &b.large_bytes, 4, 1 << 30,
         "SIZE of a large one; default 16M"},
        {"count", 0, BR_OPTION_NUMBER, &b.n_large, 1, MOST_LARGE,
         "N large ones at once; default 4"},
        {"urgent", 0, BR_OPTION_NUMBER, &b.n_small, 1, 1000, "N urgent ones a round; default 20"},
        {"pace", 0, BR_OPTION_NUMBER, &b.pace_us, 1, 1000000,
         "US from one urgent one to the next; default 5000"},
        {"rounds", 0, BR_OPTION_NUMBER, &b.rounds, 1, 1000, "N; default 5"},
        {"priority", 0, BR_OPTION_NUMBER, &b.high, 0, 1000,
         "N of the urgent ones; default 1; 0: as the large ones"},
        {0},
    };
    int rc = br_options_parse(options, "urgent [options], as ranks of a job", argc, argv);

    if (rc < 0)
        fprintf(stderr, "urgent: %s\n", br_error_message());
    if (rc)
        return rc < 0 ? 2 : 0;
    if (tell(braid_init(NULL, &b.comm), "braid_init"))
        return 1;
    rc = run(&b);
    if (rc)
        braid_comm_abort(b.comm, "a rank of the benchmark failed");
    braid_finalize(b.comm);
    return rc != 0;
}
