/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Time is nanoseconds in a uint64_t, from a monotonic clock or from the simulator. Only base/,
 * transport/, the thread shell of a worker and the tools read a clock. All other code gets the time
 * as a parameter, `now`. The functions may be called from any thread and cannot fail.
 */
#ifndef BR_BASE_CLOCK_H
#define BR_BASE_CLOCK_H

#include <stdint.h>

#define BR_US  ((uint64_t)1000)
#define BR_MS  ((uint64_t)1000000)
#define BR_SEC ((uint64_t)1000000000)

/* Returns the time of CLOCK_MONOTONIC, without a system call. */
uint64_t br_clock_now(void);

/* Returns the CPU time that this process has used, all threads together; a system call. */
uint64_t br_clock_process(void);

/* Returns the CPU time that the calling thread has used; a system call. */
uint64_t br_clock_thread(void);

#endif
