/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Do other programs keep a rank from the cores?
 *
 * A thread that waits yields, and in Linux who yields gives up the rest of its slice: beside a
 * program that computes each yield takes milliseconds. Yields also take milliseconds when other
 * ranks of the job have long turns; but then each rank has its share of the cores, cores / ranks.
 * So when yields take long, and this process has had far less than its share, other programs have
 * the rest, and threads that yield get a short slice (base/time_slice.h) until it has its share
 * again (doc/design/progress.md, section 5). Under the progress lock; no function blocks.
 */
#ifndef BR_COLLECTIVES_COMM_CONTENTION_H
#define BR_COLLECTIVES_COMM_CONTENTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define BR_CONTENTION_SLOW   (2 * BR_MS)  /* ns: yields that take so long are slow */
#define BR_CONTENTION_TURN   (64 * BR_US) /* more for each rank that shares the core */
#define BR_CONTENTION_WINDOW (20 * BR_MS) /* ns: the share is that of so long at least */

/* All zero but for `ranks` and `cores`: nothing is known yet. */
struct br_contention {
    uint32_t ranks;      /* of this job on the machine; 0: not known */
    uint32_t cores;      /* of the machine that this process may use; 0: not known */
    bool contended;      /* other programs keep us from the cores */
    bool open;           /* a window, which began at `since`, when the process had used `cpu` */
    uint64_t since, cpu; /* ns */
};

/* A yield has taken from `began` to `now`. Returns whether br_contention_judge() has to be called,
 * which needs the time that the process has used (br_clock_process()): a system call. A window that
 * was open for ten times as long as it should before that yield is of a program that was elsewhere:
 * then nothing is known, and a new one begins. */
bool br_contention_yielded(const struct br_contention *contention, uint64_t began, uint64_t now);
void br_contention_judge(struct br_contention *contention, uint64_t began, uint64_t now,
                         uint64_t cpu);

/* The thread has slept from `began` to `now`, which is no time of the window. */
void br_contention_slept(struct br_contention *contention, uint64_t began, uint64_t now);

#endif
