/* SPDX-License-Identifier: BSD-3-Clause */
/* The window of a rail that transfers of several priorities share: doc/design/rails.md, section 7.
 */
#include "protocol/internal.h"

#include <math.h>

#include "base/clock.h"

#define LATE        1.5           /* times what is expected: an answer that is late */
#define PERIOD      (100 * BR_MS) /* without a sign of an idle link: the delay is halved */
#define STREAM_PART 4             /* of the target: the least on a byte stream */

/* What is in flight on a shared rail takes so long to drain at least, ns. */
static uint64_t least_delay(uint64_t delay, uint64_t min_rtt, bool stream)
{
    return stream && 2 * min_rtt < delay / STREAM_PART ? delay / STREAM_PART : 2 * min_rtt;
}

/* The same with what late ends have added. Turns do not count: where ends are late, what is urgent
 * must not wait behind a window of so many. */
static uint64_t shared_delay(const struct br_rail *rail)
{
    uint64_t delay = br_rail_target(rail), least;

    if (!rail->min_rtt)
        return delay;
    least = least_delay(delay, rail->min_rtt, !rail->device->caps.sent_means_arrived);
    if (least < rail->shared_delay)
        least = rail->shared_delay;
    return least < delay ? least : delay;
}

uint64_t br_rail_shared_window(double rate, uint64_t min_rtt)
{
    uint64_t delay = 2 * min_rtt > BR_TARGET_DELAY ? 2 * min_rtt : BR_TARGET_DELAY;
    double window = rate * (double)least_delay(delay, min_rtt, true) / 1e9;

    return (uint64_t)fmin(fmax(window, BR_WINDOW_LEAST),
                          (double)br_rail_most_window(2e-9 * rate * (double)min_rtt));
}

uint64_t br_rail_shared_part(const struct br_rail *rail)
{
    uint64_t delay = br_rail_delay(rail);

    return delay ? (uint64_t)((double)rail->volume * (double)shared_delay(rail) / (double)delay)
                 : rail->volume;
}

static void set_shared_delay(struct br_rail *rail, uint64_t delay, uint64_t now)
{
    rail->shared_delay = delay;
    rail->shared_from = rail->tx_bytes;
    rail->shared_at = now;
}

void br_rail_shared_posted(struct br_rail *rail, uint64_t now)
{
    if (rail->device->caps.sent_means_arrived && rail->stall == BR_STALL_WINDOW &&
        rail->acked_bytes > rail->shared_from && br_rail_in_flight(rail) <= rail->window / 4)
        set_shared_delay(rail, 2 * shared_delay(rail), now);
}

void br_rail_shared_answer(struct br_rail *rail, const struct br_probe *probe, uint64_t now)
{
    uint64_t delay = shared_delay(rail);
    double expected = rail->rate ? (double)probe->in_flight * 1e9 / (double)rail->rate : 0;

    if (expected < (double)delay)
        expected = (double)delay;
    if (!rail->device->caps.sent_means_arrived && probe->tx_bytes > rail->shared_from &&
        (double)(now - probe->posted_at) > LATE * expected)
        set_shared_delay(rail, 2 * delay, now);
    else if (rail->shared_delay && now - rail->shared_at > PERIOD)
        set_shared_delay(rail, rail->shared_delay / 2, now);
}
