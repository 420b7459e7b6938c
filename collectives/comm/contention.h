/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Is it worth while to yield the core, or do other programs keep it then?
 *
 * A thread that waits yields where ranks share cores, as a yield costs less than to sleep and to be
 * woken. But in Linux who yields gives up the rest of its slice: beside a program that computes
 * each yield takes milliseconds, while a thread that is woken runs at once. So after a yield that
 * took long the next waits sleep instead, the more of them the more often yields have taken long
 * (doc/design/progress.md, section 5). Under the progress lock; no function blocks.
 */
#ifndef BR_COLLECTIVES_COMM_CONTENTION_H
#define BR_COLLECTIVES_COMM_CONTENTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

/* A yield that takes so long has met another program, and not only turns of other ranks. ns */
#define BR_CONTENTION_SLOW  (2 * BR_MS)
#define BR_CONTENTION_TURN  (64 * BR_US) /* more for each rank that shares the core */
#define BR_CONTENTION_LEAST 16u          /* sleeps after a yield that took long */
#define BR_CONTENTION_MOST  1024u

/* All zero but for `ranks`: nothing is known yet. */
struct br_contention {
    uint32_t ranks;  /* that share the core; 0: not known */
    uint32_t sleeps; /* before the next yield */
    uint32_t next;   /* sleeps after the next yield that takes long; 0: BR_CONTENTION_LEAST */
};

/* Returns whether to sleep where the thread would yield, and counts that. */
bool br_contention_sleeps(struct br_contention *contention);

/* A yield has taken `took` ns. */
void br_contention_yielded(struct br_contention *contention, uint64_t took);

#endif
