/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/datagram/path.h"

#include <math.h>

#include "base/clock.h"

#define FIRST_WINDOW     16.0
#define LEAST_WINDOW     0.05
#define MOST_WINDOW      ((double)BR_DGRAM_PACKETS / 2)
#define FIRST_ROUND_TRIP (25 * BR_MS) /* before anything is known */
#define LEAST_TIMEOUT    (2 * BR_MS)
#define LEAST_AGE        (1000 * BR_MS) /* then the least round trip is measured anew */
#define QUEUEING         (200 * BR_US)  /* what to aim at, unless configured */
#define SCALING          4.0            /* most of flow scaling, in units of the queueing */
#define LOSS_TOLERATED   0.06
#define BURST            32.0

void br_dgram_pace_init(struct br_dgram_pace *pace, uint64_t queueing, unsigned paths)
{
    *pace = (struct br_dgram_pace){
        .queueing = queueing ? queueing : QUEUEING,
        .window = FIRST_WINDOW / paths > 2 ? FIRST_WINDOW / paths : 2,
        .threshold = MOST_WINDOW,
        .step = 1.0 / paths,
        .least = UINT64_MAX,
        .round_delay = UINT64_MAX,
    };
}

static uint64_t round_trip_of(const struct br_dgram_pace *pace)
{
    return pace->smoothed ? pace->smoothed : FIRST_ROUND_TRIP;
}

static void drain(struct br_dgram_pace *pace, uint64_t sample, uint64_t now)
{
    if (!pace->drain_until) {
        pace->drain_until = now + 2 * pace->smoothed + BR_MS;
        pace->drained = UINT64_MAX;
        return;
    }
    /* What comes back in the first round trip was sent before. */
    if (now + pace->smoothed > pace->drain_until && sample < pace->drained)
        pace->drained = sample;
    if (now < pace->drain_until)
        return;
    pace->least = pace->drained < UINT64_MAX ? pace->drained : sample;
    pace->least_at = now;
    pace->drain_until = 0;
}

void br_dgram_pace_sample(struct br_dgram_pace *pace, uint64_t sample, uint64_t now)
{
    uint64_t off;

    if (!sample)
        sample = 1;
    if (!pace->smoothed) {
        pace->smoothed = sample;
        pace->deviation = sample / 2;
    }
    off = sample > pace->smoothed ? sample - pace->smoothed : pace->smoothed - sample;
    pace->deviation = (3 * pace->deviation + off) / 4;
    pace->smoothed = (7 * pace->smoothed + sample) / 8;
    if (sample < pace->round_delay)
        pace->round_delay = sample;
    if (pace->drain_until || (pace->least < UINT64_MAX && now - pace->least_at > LEAST_AGE))
        drain(pace, sample, now);
    /* An eighth of what is aimed at is noise: then the queue was empty, too. */
    if (pace->least == UINT64_MAX || sample <= pace->least + pace->queueing / 8)
        pace->least_at = now;
    if (sample < pace->least)
        pace->least = sample;
}

/* Swift's target: more for small windows, so that many flows find room and shares become equal. */
static double target(const struct br_dgram_pace *pace)
{
    double queueing = (double)pace->queueing, least = (double)pace->least;
    double scale = (1 / sqrt(pace->window) - 0.1) / (1 / sqrt(0.1) - 0.1);

    if (queueing < least / 2)
        queueing = least / 2;
    scale = scale < 0 ? 0 : scale > 1 ? 1 : scale;
    return least + queueing * (1 + SCALING * scale);
}

static void shrink(struct br_dgram_pace *pace, double factor)
{
    pace->window *= factor;
    if (pace->window < LEAST_WINDOW)
        pace->window = LEAST_WINDOW;
    pace->threshold = pace->window;
}

/* Once a round (note 3). */
static void decide(struct br_dgram_pace *pace)
{
    double delay = (double)pace->round_delay, aim = target(pace);

    if (pace->round_delay < UINT64_MAX && delay > aim && !pace->drain_until) {
        double excess = 0.8 * (delay - aim) / delay;

        shrink(pace, 1 - (excess < 0.5 ? excess : 0.5));
    } else if (pace->round_lost && pace->loss_rate > LOSS_TOLERATED) {
        shrink(pace, 0.7);
    } else if (pace->mark_rate > 0.01) {
        shrink(pace, 1 - pace->mark_rate / 2);
    } else if (pace->limited && pace->window >= pace->threshold && !pace->drain_until) {
        pace->window += pace->step * (pace->window < 1 ? pace->window : 1);
    }
    if (pace->window > MOST_WINDOW)
        pace->window = MOST_WINDOW;
}

void br_dgram_pace_acked(struct br_dgram_pace *pace, unsigned packets, unsigned marked, uint64_t newest,
                         uint64_t next)
{
    for (unsigned i = 0; i < packets; i++)
        pace->loss_rate -= pace->loss_rate / 256;
    if (packets)
        pace->mark_rate += ((double)(marked < packets ? marked : packets) / packets - pace->mark_rate) *
                           packets / (packets + 64);
    if (pace->window < pace->threshold && pace->limited && !pace->drain_until) {
        pace->window += packets;
        if (pace->window > pace->threshold)
            pace->window = pace->threshold;
    }
    if (newest < pace->round_ends)
        return;
    decide(pace);
    pace->round_ends = next;
    pace->round_delay = UINT64_MAX;
    pace->round_lost = 0;
    pace->limited = false;
}

void br_dgram_pace_lost(struct br_dgram_pace *pace)
{
    pace->loss_rate += (1 - pace->loss_rate) / 256;
    pace->round_lost++;
}

void br_dgram_pace_timeout(struct br_dgram_pace *pace)
{
    if (pace->window <= 1)
        return;
    pace->threshold = pace->window / 2 > 2 ? pace->window / 2 : 2;
    pace->window = 1;
}

static double window_now(const struct br_dgram_pace *pace)
{
    double quarter = pace->window / 4;

    if (!pace->drain_until)
        return pace->window;
    return quarter > 1 ? quarter : pace->window < 1 ? pace->window : 1;
}

bool br_dgram_pace_room(const struct br_dgram_pace *pace, uint32_t in_flight)
{
    /* A window below one packet lets one out, and pacing makes it rare. */
    return !in_flight || in_flight + 1 <= window_now(pace);
}

bool br_dgram_pace_open(struct br_dgram_pace *pace, uint32_t in_flight, uint64_t now)
{
    bool room = br_dgram_pace_room(pace, in_flight);

    if (room && now >= pace->leave_at)
        return true;
    if (!room || pace->window < 1)
        pace->limited = true;
    return false;
}

void br_dgram_pace_left(struct br_dgram_pace *pace, uint64_t now)
{
    double window = window_now(pace), gain = window < 1 ? 1 : pace->window < pace->threshold ? 2 : 1.25;
    double between = (double)round_trip_of(pace) / window / gain;
    double burst = window / 4 < 1 ? 1 : window / 4 > BURST ? BURST : window / 4;
    uint64_t credit = (uint64_t)(between * (burst - 1));

    if (pace->leave_at + credit < now)
        pace->leave_at = now - credit;
    pace->leave_at += (uint64_t)between;
}

uint64_t br_dgram_pace_timeout_after(const struct br_dgram_pace *pace)
{
    uint64_t after = 2 * round_trip_of(pace) + 4 * pace->deviation;

    return after < LEAST_TIMEOUT ? LEAST_TIMEOUT : after;
}
