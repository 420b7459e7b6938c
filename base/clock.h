/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Time is nanoseconds in a uint64_t, from a monotonic clock or from the simulator. Only base/,
 * transport/, the thread shell of a worker and the tools read a clock; everything else is handed
 * `now`.
 */
#ifndef BR_BASE_CLOCK_H
#define BR_BASE_CLOCK_H

#include <stdint.h>

#define BR_US  ((uint64_t)1000)
#define BR_MS  ((uint64_t)1000000)
#define BR_SEC ((uint64_t)1000000000)

uint64_t br_clock_now(void);     /* CLOCK_MONOTONIC, ns */
uint64_t br_clock_process(void); /* CPU time of this process, ns; a system call */

#endif
