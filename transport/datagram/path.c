/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/datagram/path.h"

#include <math.h>

#include "base/clock.h"

#define FIRST_WINDOW     16.0
#define LEAST_WINDOW     0.05
#define MOST_WINDOW      ((double)BR_DGRAM_PACKETS / 2)
#define FIRST_ROUND_TRIP (25 * BR_MS) /* before anything is known */
#define LEAST_TIMEOUT    (2 * BR_MS)
#define DRAIN_EVERY      (1000 * BR_MS) /* to see the least round trip */
#define DRAIN_FIRST      (50 * BR_MS)   /* after the first sample: it may have met a queue */
#define TURN             (5 * BR_SEC)   /* for which a least round trip counts, and one more */
#define QUEUEING         (200 * BR_US)  /* what to aim at, unless configured */
#define SCALING          4.0            /* most of flow scaling, in units of the queueing */
#define LOSS_TOLERATED   0.06
/* of loss and marks: nothing; numbers that fade on become very slow to calculate with */
#define LEAST_RATE 1e-9
#define BURST      32.0
#define LOOK       (50 * BR_US)  /* that may pass before a sender looks again */
#define LONGEST    (100 * BR_MS) /* from one packet to the next: who sends nothing learns nothing */

void br_dgram_congestion_init(struct br_dgram_congestion *pace, uint64_t queueing, unsigned paths)
{
    *pace = (struct br_dgram_congestion){
        .queueing = queueing ? queueing : QUEUEING,
        .window = FIRST_WINDOW / paths > 2 ? FIRST_WINDOW / paths : 2,
        .threshold = MOST_WINDOW,
        .max_window = MOST_WINDOW,
        .step = 1.0 / paths,
        .min_rtt = UINT64_MAX,
        .min_rtt_now = UINT64_MAX,
        .min_rtt_before = UINT64_MAX,
        .round_delay = UINT64_MAX,
    };
}

void br_dgram_congestion_limit(struct br_dgram_congestion *pace, uint32_t packets)
{
    pace->rated = false;
    pace->max_window = packets < 2 ? 2 : packets < MOST_WINDOW ? packets : MOST_WINDOW;
    if (pace->window > pace->max_window)
        pace->window = pace->max_window;
}

static uint64_t rtt_of(const struct br_dgram_congestion *pace)
{
    return pace->smoothed ? pace->smoothed : FIRST_ROUND_TRIP;
}

/* Should the window be small for a moment, to see the least round trip? Not while there is hardly
 * any queue. */
static bool should_drain(const struct br_dgram_congestion *pace, uint64_t sample, uint64_t now)
{
    uint64_t since = now > pace->drained_at ? now - pace->drained_at : 0,
             queue = pace->smoothed - pace->min_rtt;

    if (pace->smoothed < pace->min_rtt + pace->queueing / 4)
        return false;
    return since > DRAIN_EVERY || (since > DRAIN_EVERY / 2 && sample < pace->min_rtt + queue / 2);
}

/* The least of two to one turns of TURN. */
static void update_min_rtt(struct br_dgram_congestion *pace, uint64_t sample, uint64_t now)
{
    if (now > pace->period_at + TURN) {
        pace->period_at = now;
        pace->min_rtt_before = pace->min_rtt_now;
        pace->min_rtt_now = UINT64_MAX;
    }
    if (sample < pace->min_rtt_now)
        pace->min_rtt_now = sample;
    pace->min_rtt =
        pace->min_rtt_now < pace->min_rtt_before ? pace->min_rtt_now : pace->min_rtt_before;
}

static void note_answer(struct br_dgram_congestion *pace, uint64_t answer)
{
    uint64_t off;

    if (!pace->answer) {
        pace->answer = answer;
        pace->deviation = answer / 2;
    }
    off = answer > pace->answer ? answer - pace->answer : pace->answer - answer;
    pace->deviation = (3 * pace->deviation + off) / 4;
    pace->answer = (7 * pace->answer + answer) / 8;
}

void br_dgram_congestion_sample(struct br_dgram_congestion *pace, uint64_t sample, uint64_t answer,
                                uint64_t now)
{
    pace->rated = false;
    if (!sample)
        sample = 1;
    if (!pace->smoothed) {
        pace->smoothed = sample;
        pace->drained_at = now + DRAIN_FIRST - DRAIN_EVERY;
        pace->period_at = now;
    }
    note_answer(pace, answer);
    pace->smoothed = (7 * pace->smoothed + sample) / 8;
    if (sample < pace->round_delay)
        pace->round_delay = sample;
    update_min_rtt(pace, sample, now);
    if (pace->drain_until && now >= pace->drain_until) {
        pace->drain_until = 0;
        pace->drained_at = now;
    } else if (!pace->drain_until && should_drain(pace, sample, now)) {
        pace->drain_until = now + 2 * pace->smoothed + BR_MS;
    }
}

/* After Swift: more for small windows, so that many flows find room and shares become equal. */
static double path_target(const struct br_dgram_congestion *pace)
{
    double queueing = (double)pace->queueing, least = (double)pace->min_rtt;
    double scale = SCALING / sqrt(pace->window / pace->step);

    if (queueing < least / 2)
        queueing = least / 2;
    return least + queueing * (0.5 + (scale < SCALING ? scale : SCALING));
}

static void path_shrink(struct br_dgram_congestion *pace, double factor)
{
    pace->window *= factor;
    if (pace->window < LEAST_WINDOW)
        pace->window = LEAST_WINDOW;
    pace->threshold = pace->window;
}

/* Once a round (note 3). */
static void path_decide(struct br_dgram_congestion *pace)
{
    double delay = (double)pace->round_delay, aim = path_target(pace);

    if (pace->round_delay < UINT64_MAX && delay > aim && !pace->drain_until) {
        double excess = 0.8 * (delay - aim) / delay;

        path_shrink(pace, 1 - (excess < 0.5 ? excess : 0.5));
    } else if (pace->round_lost && pace->loss_rate > LOSS_TOLERATED) {
        path_shrink(pace, 0.7);
    } else if (pace->round_marked) {
        path_shrink(pace, 1 - pace->mark_rate / 2);
    } else if (pace->limited && pace->window >= pace->threshold && !pace->drain_until) {
        pace->window += pace->step * (pace->window < 1 ? pace->window : 1);
    }
    if (pace->window > pace->max_window)
        pace->window = pace->max_window;
}

void br_dgram_congestion_acked(struct br_dgram_congestion *pace, unsigned packets, unsigned marked,
                               uint64_t newest, uint64_t next)
{
    pace->rated = false;
    for (unsigned i = 0; i < packets && pace->loss_rate > 0; i++)
        pace->loss_rate -= pace->loss_rate / 256;
    if (pace->loss_rate < LEAST_RATE)
        pace->loss_rate = 0;
    pace->round_marked += marked;
    if (packets && (marked || pace->mark_rate > LEAST_RATE))
        pace->mark_rate +=
            ((double)(marked < packets ? marked : packets) / packets - pace->mark_rate) * packets /
            (packets + 64);
    if (pace->window < pace->threshold && pace->limited && !pace->drain_until) {
        pace->window += packets;
        if (pace->window > pace->threshold)
            pace->window = pace->threshold;
        if (pace->window > pace->max_window)
            pace->window = pace->max_window;
    }
    if (newest < pace->round_ends)
        return;
    path_decide(pace);
    pace->round_ends = next;
    pace->round_delay = UINT64_MAX;
    pace->round_lost = pace->round_marked = 0;
    pace->before = 0;
    pace->limited = false;
}

void br_dgram_congestion_lost(struct br_dgram_congestion *pace)
{
    pace->loss_rate += (1 - pace->loss_rate) / 256;
    pace->round_lost++;
}

void br_dgram_congestion_timeout(struct br_dgram_congestion *pace)
{
    pace->rated = false;
    if (pace->window <= 1)
        return;
    pace->before = pace->window;
    pace->threshold = pace->window / 2 > 2 ? pace->window / 2 : 2;
    pace->window = 1;
}

void br_dgram_congestion_spurious(struct br_dgram_congestion *pace)
{
    pace->rated = false;
    if (pace->before > pace->window)
        pace->window = pace->threshold = pace->before;
    pace->before = 0;
}

static double window_now(const struct br_dgram_congestion *pace)
{
    double quarter = pace->window / 4;

    if (!pace->drain_until)
        return pace->window;
    return quarter > 1 ? quarter : pace->window < 1 ? pace->window : 1;
}

bool br_dgram_congestion_available(const struct br_dgram_congestion *pace, uint32_t in_flight)
{
    /* A window below one packet lets one out, and pacing makes it rare. */
    return !in_flight || in_flight + 1 <= window_now(pace);
}

bool br_dgram_congestion_open(struct br_dgram_congestion *pace, uint32_t in_flight, uint64_t now)
{
    bool room = br_dgram_congestion_available(pace, in_flight);

    if (room && now >= pace->leave_at)
        return true;
    if (!room || pace->window < 1)
        pace->limited = true;
    return false;
}

/* What follows from window and round trip; not for each packet. */
static void path_set_rate(struct br_dgram_congestion *pace)
{
    double window = window_now(pace), gain = window < 1                       ? 1
                                             : pace->window < pace->threshold ? 2
                                                                              : 1.25;
    double wanted = (double)rtt_of(pace) / (window * gain);
    double between = wanted < (double)LONGEST ? wanted : (double)LONGEST;
    double most = between * BURST < (double)LOOK ? (double)LOOK / between : BURST;
    double burst = window / 4 < 1 ? 1 : window / 4 > most ? most : window / 4;

    pace->between = (uint64_t)between;
    pace->credit = (uint64_t)(between * (burst - 1));
    pace->rated = true;
}

void br_dgram_congestion_left(struct br_dgram_congestion *pace, uint64_t now)
{
    if (!pace->rated)
        path_set_rate(pace);
    if (pace->leave_at + pace->credit < now)
        pace->leave_at = now - pace->credit;
    pace->leave_at += pace->between;
    if (pace->leave_at > now + pace->between) /* a probe did not wait for its turn */
        pace->leave_at = now + pace->between;
}

uint64_t br_dgram_congestion_rto(const struct br_dgram_congestion *pace)
{
    uint64_t after = 2 * (pace->answer ? pace->answer : FIRST_ROUND_TRIP) + 4 * pace->deviation;

    return after < LEAST_TIMEOUT ? LEAST_TIMEOUT : after;
}
