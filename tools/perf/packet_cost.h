/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * --packet_cost: what a packet costs this process, the kernel's work for it included where we may
 * see that.
 *
 * 1. Hardware counters come from perf_event_open(2). They are opened before the process has other
 *    threads, which inherit them.
 * 2. Many virtual machines have none. CPU time is always there, and waiting on a core without
 *    sleeping counts in both.
 */
#ifndef BR_TOOLS_PERF_PACKET_COST_H
#define BR_TOOLS_PERF_PACKET_COST_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <braid/braid.h>

/* Sums since some start, or between two readings. */
struct br_packet_cost {
    uint64_t packets;            /* sent and received, acknowledgements included */
    uint64_t cpu_ns;             /* of all threads */
    double cycles, instructions; /* below 0: not known */
};

struct br_packet_cost_counters {
    int cycles_fd, instructions_fd; /* -1: not there */
    int error;                      /* positive errno: why */
    bool kernel;                    /* they count in the kernel, too */
};

/* Before threads are made. Always succeeds; without counters, counters->error says why. */
void br_packet_cost_open(struct br_packet_cost_counters *counters);
void br_packet_cost_close(struct br_packet_cost_counters *counters);
struct br_packet_cost br_packet_cost_read(const struct br_packet_cost_counters *counters,
                                          struct braid_comm *comm);
struct br_packet_cost br_packet_cost_between(struct br_packet_cost before,
                                             struct br_packet_cost after);
/* A line, behind `#`. */
void br_packet_cost_print(const struct br_packet_cost_counters *counters,
                          const struct br_packet_cost *cost, FILE *out);

#endif
