/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/cycles.h"

#include "base/clock.h"

#if defined(__x86_64__)
#include <x86intrin.h>

double br_cycles_per_ns(void)
{
    uint64_t start = br_clock_now(), first = __rdtsc(), now, last;

    do {
        now = br_clock_now();
        last = __rdtsc();
    } while (now - start < 20 * BR_MS);
    return (double)(last - first) / (double)(now - start);
}
#else
double br_cycles_per_ns(void)
{
    return 0;
}
#endif
