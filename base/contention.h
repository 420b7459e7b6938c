/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Does another program, or a rank that computes, need the core on which a thread waits?
 *
 * A thread that spins hears of it by the clock: a look that found nothing, or a sched_yield(), took
 * as long as a time slice. Who spins on such a core uses up its share of it, and gets it back late
 * when there is something to do; who sleeps is woken at once. So the thread sleeps at once instead
 * of spinning or yielding, for a while, and then spins again to see whether the core is still
 * wanted. The while is doubled each time that it is, so that looking costs little.
 */
#ifndef BR_BASE_CONTENTION_H
#define BR_BASE_CONTENTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define BR_CONTENTION_SLICE (500 * BR_US) /* shorter than a slice, longer than what a look takes   \
                                           */
#define BR_CONTENTION_LEAST (20 * BR_MS)
#define BR_CONTENTION_MOST  (1280 * BR_MS)

/* All zeros: nobody was seen. One thread at a time. */
struct br_contention {
    uint64_t until, period; /* ns */
};

/* Is the core wanted? now: of br_clock_now(). */
static inline bool br_contention_is(const struct br_contention *contention, uint64_t now)
{
    return now < contention->until;
}

/* A look that found nothing, or a yield, has taken `time` ns and ends now. */
void br_contention_note(struct br_contention *contention, uint64_t time, uint64_t now);

#endif
