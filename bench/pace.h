/* SPDX-License-Identifier: BSD-3-Clause */
/* For benchmarks whose messages leave at a steady pace, whether earlier ones have ended or not. */
#ifndef BR_BENCH_PACE_H
#define BR_BENCH_PACE_H

#include <errno.h>
#include <stdint.h>
#include <time.h>

/* Sleeps until br_clock_now() is `ns`. */
static inline void bench_sleep_until(uint64_t ns)
{
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000ull),
                         .tv_nsec = (long)(ns % 1000000000ull)};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

#endif
