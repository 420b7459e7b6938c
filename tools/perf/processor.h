/* SPDX-License-Identifier: BSD-3-Clause */
/* How busy this machine's cores are, all processes together, as perftest counts it. Blocks on
 * /proc/stat. */
#ifndef BR_TOOLS_PERF_PROCESSOR_H
#define BR_TOOLS_PERF_PROCESSOR_H

/* Ticks since the start of the machine; zeros: not known. */
struct br_processor {
    unsigned long long all, idle;
};

struct br_processor br_processor_read(void);

/* Per cent of the time between the two that was not idle; below 0: not known. */
double br_processor_busy(struct br_processor before, struct br_processor after);

#endif
