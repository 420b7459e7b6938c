/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments of `braid plan`. */
#ifndef BR_TOOLS_PLAN_SETTINGS_H
#define BR_TOOLS_PLAN_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

struct br_plan_settings {
    int64_t ranks, min_bytes, max_bytes, factor, limit;
    const char *topology, *hosts, *collective, *calibration, *algorithm, *dot, *json, *measure;
    bool run, exact;
    /* The gradients of a network (model.h). */
    const char *model, *times, *speed, *cost, *links, *overtake, *policy, *svg, *trace;
    int64_t batch, slice, bucket;
    bool layers;
    /* In virtual time, too (training.h): a flat network or a BCube with these links. */
    bool simulate;
    const char *gbit, *latency;
    int64_t rails, iterations, seed;
};

/* Fills *s, defaults included; argv[0] is plan, or sim, which is plan --simulate. 0; 1: help was
 * printed; -EINVAL with a message, also for what does not go together. */
int br_plan_settings_read(struct br_plan_settings *s, int argc, char **argv);

/* Is this process a rank of a job? */
bool br_plan_in_job(void);

#endif
