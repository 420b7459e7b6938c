/* SPDX-License-Identifier: BSD-3-Clause */
/* How busy this machine's cores are, all processes together, as perftest counts it. Blocks on
 * /proc/stat. */
#ifndef BR_TOOLS_PERF_CPU_USAGE_H
#define BR_TOOLS_PERF_CPU_USAGE_H

/* Ticks since the start of the machine; zeros: not known. */
struct br_cpu_usage {
    unsigned long long all, idle;
};

struct br_cpu_usage br_cpu_usage_read(void);

/* Per cent of the time between the two that was not idle; below 0: not known. */
double br_cpu_usage_busy(struct br_cpu_usage before, struct br_cpu_usage after);

#endif
