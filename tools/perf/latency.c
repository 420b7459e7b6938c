/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Trips: one message at a time, there and back.
 *
 * 1. A write's trip is two puts, one each way. Each side looks into its memory for the bytes, as
 *    perftest does: the last byte, and one each 64 KiB, since with several rails the last may come
 *    before others. A put ends only when its writer knows that the bytes stand there, which the
 *    reader has seen before that.
 * 2. Nobody drives the library while one looks into memory, so the looking asks for the operation
 *    that receives the end of the test, which drives progress.
 * 3. A read's trip is one get, an atomic's one fetch-and-add or compare-and-swap.
 */
#include "tools/perf/run.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "tools/common/interrupt.h"

#define STRIDE   (64u << 10)
#define PATIENCE 20  /* ms between two looks for the end */
#define LOOKS    500 /* without anything new, before others get the core */

struct trips {
    struct br_perf_run *run;
    struct br_pair *pair;
    size_t bytes;
    enum br_perf_verb verb;
    uint64_t done;
    uint64_t began, counted;          /* samples kept */
    struct braid_op *posted, *theirs; /* the message under way, and the one awaited */
};

/* ---- marks of a write ------------------------------------------------------------------------ */

static uint8_t latency_mark(uint64_t trip)
{
    return (uint8_t)(1 + trip % 255);
}

static void set_marks(uint8_t *memory, size_t bytes, uint8_t value)
{
    for (size_t at = STRIDE; at < bytes; at += STRIDE)
        memory[at - 1] = value;
    memory[bytes - 1] = value;
}

/* Looks at memory while a put arrives in it, as whoever polls for a NIC's writes must: to
 * ThreadSanitizer that is a race with the thread that copies. */
__attribute__((no_sanitize("thread"))) static bool has_marks(const uint8_t *memory, size_t bytes,
                                                             uint8_t value)
{
    if (__atomic_load_n(&memory[bytes - 1], __ATOMIC_ACQUIRE) != value)
        return false;
    for (size_t at = STRIDE; at < bytes; at += STRIDE)
        if (__atomic_load_n(&memory[at - 1], __ATOMIC_ACQUIRE) != value)
            return false;
    return true;
}

/* Returns with the marks there, or with the end of the test. */
static int latency_poll(struct trips *t, uint8_t value)
{
    int rc = 0, looks = 0;

    while (!rc && t->pair->stop && !has_marks(t->pair->in.memory, t->bytes, value)) {
        rc = br_pair_test(t->pair, &t->pair->stop);
        if (++looks % LOOKS == 0)
            sched_yield();
    }
    return rc;
}

/* Until the message before is over its memory is the library's, which may read it once more, though
 * the other side has all of it. */
static int latency_drain(struct trips *t)
{
    return t->posted ? br_pair_wait(t->pair, &t->posted, -1) : 0;
}

static int latency_post(struct trips *t)
{
    int rc = latency_drain(t);

    return rc ? rc : br_pair_post(t->pair, t->bytes, &t->posted);
}

static int post_marked(struct trips *t)
{
    int rc = latency_drain(t);

    if (rc)
        return rc;
    set_marks(t->pair->out.memory, t->bytes, latency_mark(t->done));
    return br_pair_post(t->pair, t->bytes, &t->posted);
}

/* ---- the client ------------------------------------------------------------------------------ */

static int latency_round_trip(struct trips *t)
{
    int rc;

    if (t->verb == BR_PERF_WRITE) {
        rc = post_marked(t);
        return rc ? rc : latency_poll(t, latency_mark(t->done));
    }
    rc = latency_post(t);
    if (!rc && t->verb == BR_PERF_SEND)
        rc = br_pair_wait(t->pair, &t->theirs, -1);
    return rc || t->verb == BR_PERF_SEND ? rc : br_pair_wait(t->pair, &t->posted, -1);
}

static void latency_record(struct trips *t, uint64_t start, uint64_t end)
{
    struct br_perf_run *run = t->run;

    if (run->duration &&
        (start < t->began + run->margin || end > t->began + run->duration - run->margin))
        return;
    if (run->samples)
        run->samples[t->counted] = end - start;
    if (run->histogram)
        br_histogram_add(run->histogram, end - start);
    t->counted++;
}

/* A receive that waits at the server for a message that will not come gets one. */
static int end_sends(struct trips *t)
{
    struct braid_op *op;
    uint64_t answered = 0;
    int rc = braid_recv(t->pair->comm, &answered, sizeof answered, t->pair->other,
                        &t->pair->options[BR_PAIR_ANSWER], &op);

    if (!rc)
        rc = br_pair_wait(t->pair, &op, -1);
    if (!rc && answered != t->done && answered != t->done + 1)
        rc = br_error(EPROTO, "the server awaits %llu messages after %llu",
                      (unsigned long long)answered, (unsigned long long)t->done);
    return rc || answered == t->done ? rc : latency_post(t);
}

static int latency_travel(struct trips *t)
{
    int rc = 0;

    while (!rc && t->done < t->run->messages && t->pair->stop && !br_interrupted()) {
        uint64_t start, end;

        if (t->verb == BR_PERF_SEND)
            rc = br_pair_receive(t->pair, t->bytes, &t->theirs);
        start = br_clock_now();
        if (!rc)
            rc = latency_round_trip(t);
        end = br_clock_now();
        if (rc)
            break;
        t->done++;
        latency_record(t, start, end);
        br_live_tick(t->run->live, end, t->bytes, t->done, true);
        if (t->run->duration && end - t->began >= t->run->duration)
            break;
    }
    if (!rc)
        rc = br_pair_send_stop(t->pair, t->done);
    if (!rc && t->verb == BR_PERF_SEND)
        rc = end_sends(t);
    if (!rc && t->posted)
        rc = br_pair_wait(t->pair, &t->posted, -1);
    return rc || !t->pair->stop ? rc : br_pair_wait(t->pair, &t->pair->stop, -1);
}

/* ---- the server ------------------------------------------------------------------------------ */

static int respond_writes(struct trips *t)
{
    int rc = 0;

    while (!rc && t->pair->stop) {
        rc = latency_poll(t, latency_mark(t->done));
        if (rc || !t->pair->stop)
            break;
        rc = post_marked(t);
        t->done++;
    }
    return rc;
}

static int latency_wait_next(struct trips *t, uint64_t *expected)
{
    int rc = 0;

    if (*expected < t->run->messages && !t->theirs) {
        rc = br_pair_receive(t->pair, t->bytes, &t->theirs);
        *expected += !rc;
    }
    return rc;
}

static int respond_sends(struct trips *t)
{
    uint64_t expected = 0;
    int rc = latency_wait_next(t, &expected);

    while (!rc && t->pair->stop) {
        if (t->theirs)
            rc = br_pair_wait(t->pair, &t->theirs, PATIENCE);
        else
            rc = br_pair_wait(t->pair, &t->pair->stop, PATIENCE);
        if (!rc && t->done < expected && !t->theirs) {
            t->done++;
            rc = latency_wait_next(t, &expected);
            if (!rc)
                rc = latency_post(t);
        } else if (!rc && t->pair->stop) {
            rc = br_pair_test(t->pair, &t->pair->stop);
        }
    }
    if (!rc)
        rc = braid_send(t->pair->comm, &expected, sizeof expected, t->pair->other,
                        &t->pair->options[BR_PAIR_ANSWER], NULL);
    return rc || !t->theirs ? rc : br_pair_wait(t->pair, &t->theirs, -1);
}

static int latency_respond(struct trips *t)
{
    int rc = t->verb == BR_PERF_WRITE  ? respond_writes(t)
             : t->verb == BR_PERF_SEND ? respond_sends(t)
                                       : br_pair_wait(t->pair, &t->pair->stop, -1);

    if (!rc && t->posted)
        rc = br_pair_wait(t->pair, &t->posted, -1);
    return rc ? rc : br_pair_send_stop(t->pair, 0);
}

/* ---- a size ---------------------------------------------------------------------------------- */

static void latency_finish(struct trips *t, struct br_perf_row *row)
{
    double scale = br_perf_trip_fraction(t->pair->settings->test);

    *row = (struct br_perf_row){.bytes = t->bytes, .iterations = t->counted};
    if (!t->counted)
        return;
    /* the second half is for a copy that is sorted: the user may want both */
    if (t->run->samples) {
        uint64_t *sorted = t->run->samples + t->run->messages;

        memcpy(sorted, t->run->samples, t->counted * sizeof *sorted);
        br_perf_times(sorted, (size_t)t->counted, scale, row);
    } else {
        br_perf_times_of(t->run->histogram, scale, row);
    }
    row->rate = row->mean > 0 ? 1e9 * scale / row->mean : 0;
}

int br_perf_run_latency(struct br_perf_run *run, struct br_perf_row *row, bool *over)
{
    struct trips t = {.run = run,
                      .pair = run->pair,
                      .bytes = run->bytes,
                      .verb = run->pair->settings->test->verb};
    int rc = br_pair_begin(run->pair, run->bytes);

    t.began = br_clock_now();
    if (!rc)
        rc = run->pair->client ? latency_travel(&t) : latency_respond(&t);
    latency_finish(&t, row);
    br_live_clear(run->live);
    *over = rc ? br_interrupted() : br_pair_finished(run->pair);
    return rc;
}
