/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How fast the calling thread's core computes right now. A virtual core takes up to 1.7 times as
 * long while another virtual machine uses the other hyperthread of the same core.
 */
#ifndef BENCH_PEERS_SPEED_H
#define BENCH_PEERS_SPEED_H

#include <time.h>

#define SPEED_LOOPS 9
#define SPEED_STEPS 300

/* Nanoseconds of a short loop that keeps several units of a core busy: the median of some. */
static inline double speed_ns(void)
{
    double took[SPEED_LOOPS];

    for (int i = 0; i < SPEED_LOOPS; i++) {
        struct timespec start, end;
        unsigned long a = 1, b = 2, c = 3, d = 4, e = 5, f = 6;
        int k = i;

        clock_gettime(CLOCK_MONOTONIC, &start);
        for (int step = 0; step < SPEED_STEPS; step++) {
            a += b, c += d, e += f, b ^= a, d ^= c, f ^= e;
            __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
            a ^= d, c ^= f, e ^= b, b += c, d += e, f += a;
            __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
        }
        clock_gettime(CLOCK_MONOTONIC, &end);
        double ns =
            (double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec);
        for (; k > 0 && took[k - 1] > ns; k--)
            took[k] = took[k - 1];
        took[k] = ns;
    }
    return took[SPEED_LOOPS / 2];
}

#endif
