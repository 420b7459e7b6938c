/* SPDX-License-Identifier: BSD-3-Clause */
/* Rails without links and without a worker, and a link of any rate that keeps one busy: for tests
 * of what a rail measures. */
#ifndef BR_TESTS_PROTOCOL_RAIL_BENCH_H
#define BR_TESTS_PROTOCOL_RAIL_BENCH_H

#include "protocol/internal.h"

struct bench {
    struct br_device device;
    struct br_rail rails[3];
    struct br_peer peer;
};

extern uint64_t bench_most_in_flight; /* that bench_drive() has seen */
/* What the link lets through at once after an idle time, in ns of its rate. */
extern uint64_t bench_bucket;

/* Rails of a byte stream, UP, all to one peer. The bench need not be initialized. */
void bench_set_up(struct bench *b, int n_rails);

/* Keeps a link of `rate` bytes/s and round trip `rtt` as full as its window allows; returns when
 * `end` has come. Everything that is asked for is acknowledged in order, one rtt after it has been
 * delivered. */
void bench_drive(struct br_rail *rail, uint64_t rate, uint64_t rtt, uint64_t *now, uint64_t end);

#endif
