/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BR_TOOLS_PERF_CYCLES_H
#define BR_TOOLS_PERF_CYCLES_H

/* Cycles of the CPU's time-stamp counter in a ns, measured for 20 ms; 0: this processor has none
 * that we read. */
double br_cycles_per_ns(void);

#endif
