/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long an urgent message takes while a bulk transfer fills the link. Two ranks on one machine
 * (they share its clock): rank 0 sends, rank 1 receives. bench/preemption.sh makes the link
 * and starts it.
 *
 * 1. A latency is the time from braid_send() on rank 0, whose clock reading travels in the message,
 *    to the end of braid_recv() on rank 1.
 * 2. Urgent messages leave at a steady pace whether earlier ones have arrived or not, so that
 *    waiting ones count in full.
 * 3. Three phases: idle; during the bulk with a priority; during the bulk with none, the same bulk
 *    from the start each.
 * 4. With --back, as much goes the other way from the bulk's start: ACKs then come behind that.
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

#define MOST_MESSAGES 500
/* Urgent receives posted ahead; many more would keep the bulk's own from being announced. */
#define WINDOW     8
#define TAG_URGENT 1
#define TAG_BULK   2
#define TAG_RESULT 3
#define TAG_BACK   4

enum { IDLE, PRIORITY, EQUAL, PHASES };
static const char *const phase_names[PHASES] = {"idle", "bulk, priorities", "bulk, no priorities"};

struct settings {
    size_t urgent_bytes, bulk_bytes, back_bytes;
    int messages, rounds; /* messages in each of the rounds of a phase */
    long interval_us;
    const char *json;
};

struct bench {
    struct settings settings;
    struct braid_comm *comm;
    char *urgent, *bulk, *back; /* messages * urgent_bytes; bulk_bytes; back_bytes */
    struct braid_op *ops[MOST_MESSAGES];
    double *us[PHASES]; /* messages * rounds each */
    double window_us;   /* the most that one rail's window took to drain */
};

static int rank;

static int tell(int rc, const char *what)
{
    if (rc)
        fprintf(stderr, "rank %d: %s: %s\n", rank, what, braid_last_error());
    return rc;
}

/* ---- one round ------------------------------------------------------------------------------- */

static void record_window(struct bench *bench)
{
    struct braid_rail_stats rails[16] = {0};
    int count = braid_rail_stats(bench->comm, rails, 16);
    for (int i = 0; i < count && i < 16; i++) {
        double us = rails[i].bytes_per_second
                        ? (double)rails[i].window_bytes * 1e6 / (double)rails[i].bytes_per_second
                        : 0;
        if (us > bench->window_us)
            bench->window_us = us;
    }
}

static int send_round(struct bench *bench, int phase)
{
    const struct settings *s = &bench->settings;
    struct braid_options bulk = {.tag = TAG_BULK},
                         urgent = {.tag = TAG_URGENT, .priority = phase == PRIORITY ? 100 : 0};
    struct braid_op *bulk_op = NULL;
    int rc = 0;
    if (phase != IDLE)
        rc = tell(braid_send(bench->comm, bench->bulk, s->bulk_bytes, 1, &bulk, &bulk_op),
                  "bulk send");
    uint64_t start = br_clock_now() + 20000000; /* the bulk is at full speed by then */
    for (int i = 0; i < s->messages && !rc; i++) {
        char *message = bench->urgent + (size_t)i * s->urgent_bytes;
        bench_sleep_until(start + (uint64_t)i * (uint64_t)s->interval_us * 1000);
        uint64_t stamp = br_clock_now();
        memcpy(message, &stamp, sizeof stamp);
        rc = tell(braid_send(bench->comm, message, s->urgent_bytes, 1, &urgent, &bench->ops[i]),
                  "urgent send");
        if (phase == PRIORITY)
            record_window(bench);
    }
    for (int i = 0; i < s->messages && !rc; i++)
        rc = tell(braid_wait(bench->ops[i], -1), "urgent send");
    if (bulk_op && !rc)
        rc = tell(braid_wait(bulk_op, -1), "bulk send");
    return rc;
}

static int post_receive(struct bench *bench, int phase, int i)
{
    const struct settings *s = &bench->settings;
    struct braid_options options = {.tag = TAG_URGENT, .priority = phase == PRIORITY ? 100 : 0};
    if (i >= s->messages)
        return 0;
    return tell(braid_recv(bench->comm, bench->urgent + (size_t)i * s->urgent_bytes,
                           s->urgent_bytes, 0, &options, &bench->ops[i]),
                "urgent receive");
}

/* Posted before the sender starts: the bulk, and the next few urgent ones. */
static int post_receives(struct bench *bench, int phase, struct braid_op **bulk_op)
{
    const struct settings *s = &bench->settings;
    struct braid_options bulk = {.tag = TAG_BULK};
    int rc = 0;
    if (phase != IDLE)
        rc = tell(braid_recv(bench->comm, bench->bulk, s->bulk_bytes, 0, &bulk, bulk_op),
                  "bulk receive");
    for (int i = 0; i < WINDOW && !rc; i++)
        rc = post_receive(bench, phase, i);
    return rc;
}

static int receive_round(struct bench *bench, int phase, struct braid_op *bulk_op, double *us)
{
    const struct settings *s = &bench->settings;
    int rc = 0;
    for (int i = 0; i < s->messages && !rc; i++) {
        uint64_t stamp;
        rc = tell(braid_wait(bench->ops[i], -1), "urgent receive");
        uint64_t arrived = br_clock_now();
        memcpy(&stamp, bench->urgent + (size_t)i * s->urgent_bytes, sizeof stamp);
        us[i] = (double)(arrived - stamp) / 1e3;
        if (!rc)
            rc = post_receive(bench, phase, i + WINDOW);
    }
    return rc || !bulk_op ? rc : tell(braid_wait(bulk_op, -1), "bulk receive");
}

/* The bulk of the other direction; *op is left alone where there is none. */
static int start_back(struct bench *bench, int phase, struct braid_op **op)
{
    struct braid_options options = {.tag = TAG_BACK};
    size_t bytes = bench->settings.back_bytes;
    if (phase == IDLE || !bytes)
        return 0;
    return rank == 0
               ? tell(braid_recv(bench->comm, bench->back, bytes, 1, &options, op), "receive back")
               : tell(braid_send(bench->comm, bench->back, bytes, 0, &options, op), "send back");
}

static int run_phase(struct bench *bench, int phase)
{
    const struct settings *s = &bench->settings;
    size_t bytes = (size_t)(s->messages * s->rounds) * sizeof(double);
    struct braid_options options = {.tag = TAG_RESULT};
    int rc = 0;
    for (int round = 0; round < s->rounds && !rc; round++) {
        struct braid_op *bulk_op = NULL, *back_op = NULL;
        if (rank == 1)
            rc = post_receives(bench, phase, &bulk_op);
        if (!rc)
            rc = tell(braid_barrier(bench->comm, NULL, NULL), "barrier");
        if (!rc)
            rc = start_back(bench, phase, &back_op);
        if (!rc)
            rc = rank == 0
                     ? send_round(bench, phase)
                     : receive_round(bench, phase, bulk_op, bench->us[phase] + round * s->messages);
        if (!rc && back_op)
            rc = tell(braid_wait(back_op, -1), "bulk back");
    }
    if (rc)
        return rc;
    return rank == 0
               ? tell(braid_recv(bench->comm, bench->us[phase], bytes, 1, &options, NULL), "result")
               : tell(braid_send(bench->comm, bench->us[phase], bytes, 0, &options, NULL),
                      "result");
}

/* ---- report ---------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(const double *sorted, int count, double q)
{
    int i = (int)(q * count);
    return sorted[i < count ? i : count - 1];
}

static int write_json(const struct bench *bench, const double (*q)[3], double allowed, int met)
{
    static const char *const keys[PHASES] = {"idle", "priorities", "no_priorities"};
    FILE *file = fopen(bench->settings.json, "w");
    if (!file) {
        fprintf(stderr, "cannot write %s: %s\n", bench->settings.json, strerror(errno));
        return 1;
    }
    fprintf(file, "{\n  \"urgent_bytes\": %zu,\n  \"bulk_bytes\": %zu,\n  \"messages\": %d,\n",
            bench->settings.urgent_bytes, bench->settings.bulk_bytes,
            bench->settings.messages * bench->settings.rounds);
    for (int p = 0; p < PHASES; p++)
        fprintf(file, "  \"%s\": {\"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f},\n",
                keys[p], q[p][0], q[p][1], q[p][2]);
    fprintf(file, "  \"budget_us\": %.1f,\n  \"allowed_p99_us\": %.1f,\n  \"met\": %s\n}\n",
            bench->window_us, allowed, met ? "true" : "false");
    return fclose(file) != 0;
}

/* 0: the goal is met. */
static int report(struct bench *bench)
{
    const struct settings *s = &bench->settings;
    int count = s->messages * s->rounds;
    double q[PHASES][3];
    printf("\n%zu KiB urgent during %zu MiB bulk, %d messages a line, us\n", s->urgent_bytes >> 10,
           s->bulk_bytes >> 20, count);
    printf("%-20s %10s %10s %10s\n", "", "p50", "p99", "max");
    for (int p = 0; p < PHASES; p++) {
        qsort(bench->us[p], (size_t)count, sizeof(double), ascending);
        q[p][0] = quantile(bench->us[p], count, 0.50);
        q[p][1] = quantile(bench->us[p], count, 0.99);
        q[p][2] = bench->us[p][count - 1];
        printf("%-20s %10.0f %10.0f %10.0f\n", phase_names[p], q[p][0], q[p][1], q[p][2]);
    }
    double allowed = 2 * q[IDLE][0] + bench->window_us;
    int met = q[PRIORITY][1] <= allowed;
    printf("in-flight window     %10.0f\n", bench->window_us);
    printf("p99 with priorities %.0f us, allowed 2 x idle p50 + window = %.0f us: %s\n",
           q[PRIORITY][1], allowed, met ? "met" : "MISSED");
    fflush(stdout);
    if (s->json && write_json(bench, q, allowed, met))
        return 1;
    return !met;
}

static int get_memory(struct bench *bench)
{
    const struct settings *s = &bench->settings;
    bench->urgent = braid_alloc(bench->comm, (size_t)s->messages * s->urgent_bytes);
    bench->bulk = bench->urgent ? braid_alloc(bench->comm, s->bulk_bytes) : NULL;
    bench->back = bench->bulk && s->back_bytes ? braid_alloc(bench->comm, s->back_bytes) : NULL;
    if (!bench->bulk || (s->back_bytes && !bench->back))
        return tell(-ENOMEM, "buffers");
    for (int p = 0; p < PHASES; p++) {
        bench->us[p] = calloc((size_t)(s->messages * s->rounds), sizeof(double));
        if (!bench->us[p])
            return -ENOMEM;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct bench bench = {.comm = NULL};
    int64_t urgent = 65536, bulk = 256 << 20, back = 0, messages = 200, rounds = 3, interval = 9000;
    const struct br_option options[] = {
        {"urgent", 0, BR_OPTION_BYTES, &urgent, 8, 1 << 30,
         "SIZE of an urgent message; default 64K"},
        {"bulk", 0, BR_OPTION_BYTES, &bulk, 1, 1ll << 36, "SIZE of the bulk; default 256M"},
        {"back", 0, BR_OPTION_BYTES, &back, 0, 1ll << 36,
         "SIZE of a bulk the other way; default 0: none"},
        {"messages", 0, BR_OPTION_NUMBER, &messages, 1, MOST_MESSAGES,
         "N urgent messages of a round; default 200"},
        {"rounds", 0, BR_OPTION_NUMBER, &rounds, 1, 1000, "N of each phase; default 3"},
        {"pace", 0, BR_OPTION_NUMBER, &interval, 1, 1000000,
         "US from one urgent message to the next; default 9000"},
        {"json", 0, BR_OPTION_TEXT, &bench.settings.json, 0, 0, "FILE write the result there too"},
        {0},
    };
    int rc = br_options_parse(options, "preemption [options], as two ranks", argc, argv);

    if (rc < 0)
        fprintf(stderr, "preemption: %s\n", br_error_message());
    if (rc)
        return rc < 0 ? 2 : 0;
    bench.settings.urgent_bytes = (size_t)urgent;
    bench.settings.bulk_bytes = (size_t)bulk;
    bench.settings.back_bytes = (size_t)back;
    bench.settings.messages = (int)messages;
    bench.settings.rounds = (int)rounds;
    bench.settings.interval_us = interval;
    if (tell(braid_init(NULL, &bench.comm), "braid_init"))
        return 1;
    rank = braid_rank(bench.comm);
    rc = braid_size(bench.comm) == 2 ? get_memory(&bench) : -EINVAL;
    if (rc == -EINVAL)
        fprintf(stderr, "must be started as 2 ranks\n");
    for (int phase = 0; phase < PHASES && !rc; phase++)
        rc = run_phase(&bench, phase);
    if (rc)
        braid_comm_abort(bench.comm, "a rank of the benchmark failed");
    else if (rank == 0)
        rc = report(&bench);
    braid_finalize(bench.comm);
    for (int p = 0; p < PHASES; p++)
        free(bench.us[p]);
    return rc != 0;
}
