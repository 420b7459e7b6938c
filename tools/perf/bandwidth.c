/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams of messages.
 *
 * 1. Messages are taken in the order in which they were posted, so that a time between the post of
 *    i and the end of j is one in which all from i to j went.
 * 2. A send ends when its memory is free, which may be before it has arrived. So a stream of sends
 *    ends, by the clock, when the receiver has said that it has all of them. Puts end when the
 *    bytes stand there, gets when they are here.
 * 3. With both directions one thread serves both. It never waits for a send without having given
 *    its receives back: else two sides with few receives would wait for each other.
 * 4. Receives that are posted ahead may hold all credits of messages. The answer to the end of the
 *    stream comes nevertheless, because the other side has asked for it (protocol/numbered.c).
 */
#include "tools/perf/run.h"

#include <errno.h>

#include "base/clock.h"
#include "base/error.h"
#include "tools/common/interrupt.h"

#define PATIENCE 5            /* ms between two looks at what else there is to do */
#define LOOK     (10 * BR_MS) /* between two looks whether the other direction has ended */

enum state { SENDING, ASKED, DONE };

struct stream {
    struct br_perf_run *run;
    struct br_pair *pair;
    size_t bytes;
    /* As the sender. */
    enum state state;
    struct braid_op *ops[BR_PERF_MAX_DEPTH];
    uint64_t posted, ended, limit;
    uint64_t began, last;        /* ns */
    uint64_t polled_at;          /* for the end of the other direction */
    struct br_perf_window inner; /* of a test by time */
    uint64_t period_at, period;  /* of the last report: when, and `ended` then */
    struct braid_op *answer;
    uint64_t answered; /* receives that the other side has posted in all */
    /* As the receiver of sends. */
    bool receives, reported;
    struct braid_op *incoming[BR_PERF_MAX_RX_WINDOW];
    uint64_t expected, arrived; /* receives posted and ended */
};

static uint64_t bandwidth_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- receiving ------------------------------------------------------------------------------- */

static int post_receives(struct stream *s)
{
    uint64_t ahead = (uint64_t)s->pair->settings->rx_window,
             most = s->pair->stop ? s->run->messages : s->pair->peer_stop.sent;
    int rc = 0;

    while (!rc && s->expected < most && s->expected - s->arrived < ahead) {
        rc = br_pair_receive(s->pair, s->bytes, &s->incoming[s->expected % ahead]);
        s->expected += !rc;
    }
    return rc;
}

/* The sender has said how many there are, and all of them are here: it hears how many are
 * awaited. */
static int bandwidth_report(struct stream *s)
{
    if (s->reported || s->pair->stop || s->arrived < s->pair->peer_stop.sent)
        return 0;
    s->reported = true;
    return braid_send(s->pair->comm, &s->expected, sizeof s->expected, s->pair->other,
                      &s->pair->options[BR_PAIR_ANSWER], NULL);
}

/* Takes what has come and gives the receives back; does not wait. */
static int bandwidth_reap(struct stream *s)
{
    uint64_t ahead = (uint64_t)s->pair->settings->rx_window, before = s->arrived;
    int rc = 0;

    while (!rc && s->arrived < s->expected) {
        rc = br_pair_test(s->pair, &s->incoming[s->arrived % ahead]);
        if (rc || s->incoming[s->arrived % ahead])
            break;
        s->arrived++;
    }
    if (!rc && s->pair->stop && s->arrived == before)
        rc = br_pair_test(s->pair, &s->pair->stop);
    if (!rc)
        rc = post_receives(s);
    return rc ? rc : bandwidth_report(s);
}

static bool received_all(const struct stream *s)
{
    return !s->receives || (s->reported && s->arrived == s->expected);
}

/* Nothing else to do than to wait for something to come. */
static int bandwidth_wait(struct stream *s)
{
    uint64_t ahead = (uint64_t)s->pair->settings->rx_window;

    if (s->arrived < s->expected) {
        struct braid_op **op = &s->incoming[s->arrived % ahead];
        int rc = br_pair_wait(s->pair, op, PATIENCE);

        s->arrived += !rc && !*op;
        return rc;
    }
    return s->pair->stop ? br_pair_wait(s->pair, &s->pair->stop, PATIENCE) : 0;
}

/* ---- sending --------------------------------------------------------------------------------- */

static void fill_row(const struct stream *s, uint64_t ended, uint64_t from, uint64_t to,
                     struct br_perf_row *row)
{
    double seconds = (double)(to - from) / 1e9;

    *row = (struct br_perf_row){.bytes = s->bytes, .iterations = ended};
    if (!ended || to <= from)
        return;
    row->rate = (double)ended / seconds;
    row->average = row->rate * (double)s->bytes;
}

static void bandwidth_note(struct stream *s, uint64_t now)
{
    struct br_perf_run *run = s->run;

    s->last = now;
    br_perf_window_note(&s->inner, now, s->ended);
    if (run->period && now - s->period_at >= run->period) {
        struct br_perf_row row;

        fill_row(s, s->ended - s->period, s->period_at, now, &row);
        br_live_clear(run->live);
        run->report(run->context, &row);
        s->period_at = now;
        s->period = s->ended;
    }
    br_live_tick(run->live, now, s->bytes, s->ended, false);
}

static int bandwidth_post(struct stream *s, uint64_t n)
{
    uint64_t window = (uint64_t)s->pair->settings->window;
    int rc = 0;

    for (uint64_t i = 0; i < n && !rc; i++) {
        if (s->run->samples)
            s->run->samples[s->posted] = br_clock_now();
        rc = br_pair_post(s->pair, s->bytes, &s->ops[s->posted % window]);
        s->posted += !rc;
    }
    return rc;
}

static int bandwidth_take(struct stream *s, uint64_t n)
{
    uint64_t window = (uint64_t)s->pair->settings->window;
    int rc = 0;

    for (uint64_t i = 0; i < n && !rc; i++) {
        uint64_t now;

        rc = br_pair_wait(s->pair, &s->ops[s->ended % window], -1);
        now = br_clock_now();
        if (rc)
            break;
        if (s->run->samples)
            s->run->samples[s->run->messages + s->ended] = now;
        s->ended++;
        bandwidth_note(s, now);
        if (s->receives)
            rc = bandwidth_reap(s);
    }
    return rc;
}

static int bandwidth_stop(struct stream *s)
{
    bool sends = s->pair->settings->test->verb == BR_PERF_SEND;
    int rc = 0;

    if (sends)
        rc = braid_recv(s->pair->comm, &s->answered, sizeof s->answered, s->pair->other,
                        &s->pair->options[BR_PAIR_ANSWER], &s->answer);
    s->state = sends ? ASKED : DONE;
    return rc ? rc : br_pair_send_stop(s->pair, s->posted);
}

/* With -b: has Ctrl-C ended the other direction? Then this one ends with it: what it would carry
 * alone is no part of the sum. Asked now and then, as a look is a pass of the progress loop, and
 * one for each message would be a tenth of what is measured. */
static int bandwidth_peer_ended(struct stream *s, bool *over)
{
    int rc = 0;

    if (s->pair->settings->bidirectional && s->pair->stop && s->last - s->polled_at > LOOK) {
        s->polled_at = s->last;
        rc = br_pair_test(s->pair, &s->pair->stop);
    }
    *over = !rc && !s->pair->stop && s->pair->peer_stop.over;
    return rc;
}

static int bandwidth_send_some(struct stream *s)
{
    const struct br_perf_settings *settings = s->pair->settings;
    uint64_t under_way = s->posted - s->ended, n;
    bool over;
    int rc = bandwidth_peer_ended(s, &over);

    if (rc)
        return rc;
    if (over || br_interrupted() ||
        (s->run->duration && br_clock_now() - s->began >= s->run->duration))
        s->limit = s->posted;
    n = bandwidth_min((uint64_t)settings->post_list, s->limit - s->posted);
    if (n && under_way + n <= (uint64_t)settings->window)
        return bandwidth_post(s, n);
    if (under_way)
        return bandwidth_take(s, bandwidth_min((uint64_t)settings->moderation, under_way));
    return bandwidth_stop(s);
}

/* The receiver has all, and waits for a few more, perhaps: these do not count. */
static int bandwidth_request(struct stream *s)
{
    int rc = br_pair_wait(s->pair, &s->answer, PATIENCE);

    if (rc || s->answer)
        return rc;
    if (!s->run->duration && s->posted)
        s->last = br_clock_now();
    if (s->answered < s->posted || s->answered - s->posted > BR_PERF_MAX_DEPTH)
        return br_error(EPROTO, "the other side awaits %llu messages after %llu",
                        (unsigned long long)s->answered, (unsigned long long)s->posted);
    for (uint64_t i = s->posted; i < s->answered && !rc; i++) {
        struct braid_op *op;

        rc = br_pair_post(s->pair, s->bytes, &op);
        if (!rc)
            rc = br_pair_wait(s->pair, &op, -1);
    }
    s->state = DONE;
    return rc;
}

/* ---- a size ---------------------------------------------------------------------------------- */

static int bandwidth_stream(struct stream *s, bool active)
{
    int rc = s->receives ? post_receives(s) : 0;

    while (!rc && (s->state != DONE || !received_all(s))) {
        rc = s->state == SENDING ? bandwidth_send_some(s)
             : s->state == ASKED ? bandwidth_request(s)
                                 : bandwidth_wait(s);
        if (!rc && s->receives)
            rc = bandwidth_reap(s);
    }
    if (!rc && s->pair->stop)
        rc = br_pair_wait(s->pair, &s->pair->stop, -1);
    return rc || active ? rc : br_pair_send_stop(s->pair, 0);
}

static void bandwidth_finish(struct stream *s, struct br_perf_row *row)
{
    const struct br_perf_window *w = &s->inner;
    bool inner = s->run->duration && w->final > w->first && w->final_at > w->first_at;

    fill_row(s, inner ? w->final - w->first : s->ended, inner ? w->first_at : s->began,
             inner ? w->final_at : s->last, row);
    if (s->run->samples && s->ended)
        row->peak =
            (double)s->bytes *
            br_perf_peak(s->run->samples, s->run->samples + s->run->messages, (size_t)s->ended);
}

int br_perf_run_bandwidth(struct br_perf_run *run, struct br_perf_row *row, bool *over)
{
    const struct br_perf_settings *settings = run->pair->settings;
    bool active = run->pair->client || settings->bidirectional;
    struct stream s = {.run = run,
                       .pair = run->pair,
                       .bytes = run->bytes,
                       .state = active ? SENDING : DONE,
                       .limit = run->messages,
                       .receives = settings->test->verb == BR_PERF_SEND &&
                                   (!run->pair->client || settings->bidirectional)};
    int rc = br_pair_begin(run->pair, run->bytes);

    s.began = s.last = s.period_at = br_clock_now();
    s.inner = br_perf_window_begin(s.began, run->duration, run->margin);
    if (!rc)
        rc = bandwidth_stream(&s, active);
    bandwidth_finish(&s, row);
    br_live_clear(run->live);
    *over = rc ? br_interrupted() : br_pair_finished(run->pair);
    return rc;
}
