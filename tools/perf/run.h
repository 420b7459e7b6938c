/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One size of a test, by both sides. bandwidth.c has the streams, latency.c the trips.
 *
 * 1. Who is active measures; the other serves. Server and client are both active with -b.
 * 2. A row is filled as far as it was measured also when the run fails: Ctrl-C at the other side,
 *    or its death, do not take away what is known. row->iterations is 0 when there is nothing.
 */
#ifndef BR_TOOLS_PERF_RUN_H
#define BR_TOOLS_PERF_RUN_H

#include "tools/perf/live.h"
#include "tools/perf/pair.h"

struct br_perf_run {
    struct br_pair *pair;
    struct br_live *live;
    size_t bytes;
    uint64_t messages;         /* to send; UINT64_MAX: until the time is over, or Ctrl-C */
    uint64_t duration, margin; /* ns; duration 0: by count, or until Ctrl-C */
    uint64_t period;           /* ns between two reports; 0: none */
    void (*report)(void *context, const struct br_perf_row *row);
    void *context;
    /* Room for two of each message. Bandwidth: all posts, then all ends, for the peak; latency: the
     * trips, ns there and back, then the same sorted. NULL: not kept; latency then needs a
     * histogram. */
    uint64_t *samples;
    struct br_histogram *histogram; /* of trips; NULL: none */
};

/* 0, or a negative errno with a message. *over: Ctrl-C here or there. */
int br_perf_run_bandwidth(struct br_perf_run *run, struct br_perf_row *row, bool *over);
int br_perf_run_latency(struct br_perf_run *run, struct br_perf_row *row, bool *over);

#endif
