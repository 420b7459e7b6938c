/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which algorithm ran for which size, how often, how long, and why: what BRAID_REPORT prints when a
 * job ends. Under the context's lock. Recording costs a short search and touches no other memory.
 */
#ifndef BR_COLLECTIVES_STATS_ALGORITHM_REPORT_H
#define BR_COLLECTIVES_STATS_ALGORITHM_REPORT_H

#include <stdio.h>

#include "collectives/tuning/tuning.h"
#include "collectives/tuning/network.h"
#include "collectives/engine/operation.h"

#define BR_ALGORITHM_REPORT_ENTRIES 256

struct br_algorithm_report_entry {
    enum br_collective collective;
    size_t bytes; /* of a block */
    uint32_t ranks;
    bool by_name; /* by name, not chosen */
    struct br_tuning tuning;
    uint64_t count, ns;
};

struct br_algorithm_report {
    struct br_algorithm_report_entry entries[BR_ALGORITHM_REPORT_ENTRIES];
    uint32_t n;
    uint64_t overflowed; /* operations for which there was no entry left */
};

/* Counts an operation of `ranks` ranks that began at `began` and has ended without an error. */
void br_algorithm_report_add(struct br_algorithm_report *report, const struct br_operation *op,
                             uint32_t ranks, uint64_t began, uint64_t now);

/* Prints one line for each entry. model: that of the job; entries whose ranks are all of the job
 * also say what bounds them. */
void br_algorithm_report_print(const struct br_algorithm_report *report,
                               const struct br_cost_model *model, FILE *stream);

/* The same with a line about the network before, and `more` after it. path: "1" is stderr, anything
 * else a file. Logs a warning when the file cannot be written. */
void br_algorithm_report_write(const struct br_algorithm_report *report,
                               const struct br_network *network, const char *more,
                               const char *path);

#endif
