/* SPDX-License-Identifier: BSD-3-Clause */
/* From what was measured to a line of the table. Pure, one thread; times are ns. */
#ifndef BR_TOOLS_PERF_SAMPLES_H
#define BR_TOOLS_PERF_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

#include "tools/perf/packet_cost.h"
#include "tools/perf/histogram.h"

/* A line. Sides of one version send it to each other as it is. */
struct br_perf_row {
    uint64_t bytes, iterations;
    double peak, average; /* bytes/s; peak 0: not looked for */
    /* messages/s; round trips/s of a latency test */
    double rate;
    double min, max, median, mean, stddev, p99, p999; /* ns */
    double cpu;                 /* % of this side's cores that were busy; below 0: not known */
    struct br_packet_cost cost; /* of this side; packets 0: not asked for, or none */
};

/*
 * What ended between the margins of a test by time. Both ends of what is counted are the last
 * message that had ended by then: messages may end in bursts, when the other side says of many that
 * they are there, and from the first of a burst to the end of a later one there is one burst too
 * many in too short a time.
 */
struct br_perf_window {
    uint64_t from, to;                         /* ns: the margins */
    uint64_t first_at, first, final_at, final; /* ns, and messages that had ended by then */
};

/* The window of a test that begins now. margin: at both ends. */
struct br_perf_window br_perf_window_begin(uint64_t now, uint64_t duration, uint64_t margin);
/* So many have ended. */
void br_perf_window_note(struct br_perf_window *window, uint64_t now, uint64_t ended);

/* The highest rate at which a run of messages went: most of (j-i+1) / (ends[j] - posts[i]), in
 * messages a second. n messages, both in order. */
double br_perf_peak(const uint64_t *posts, const uint64_t *ends, size_t n);

/* Fills the times of *row, each sample times `scale`. Sorts the samples. n > 0. */
void br_perf_times(uint64_t *samples, size_t n, double scale, struct br_perf_row *row);
/* The same of a histogram. */
void br_perf_times_of(const struct br_histogram *histogram, double scale, struct br_perf_row *row);

#endif
