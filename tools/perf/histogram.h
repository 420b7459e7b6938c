/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A histogram of any number of times from 0 to 2^48 ns, each known to a thousandth of its value, in
 * half a megabyte. Values below 2048 have a counter each; above, each power of two has 1,024
 * counters. Sums are exact. One thread. doc/design/dependencies.md says why this is not
 * HdrHistogram_c, whose text format it prints.
 */
#ifndef BR_TOOLS_PERF_HISTOGRAM_H
#define BR_TOOLS_PERF_HISTOGRAM_H

#include <stdint.h>
#include <stdio.h>

#define BR_HISTOGRAM_EXACT    2048u
#define BR_HISTOGRAM_HALF     1024u
#define BR_HISTOGRAM_COUNTERS (BR_HISTOGRAM_EXACT + (48 - 11) * BR_HISTOGRAM_HALF)

struct br_histogram {
    uint64_t counters[BR_HISTOGRAM_COUNTERS];
    uint64_t total, min, max;
    double sum, squares; /* of the values */
};

void br_histogram_init(struct br_histogram *histogram);
void br_histogram_add(struct br_histogram *histogram, uint64_t value);

/* The least counted value that at least `share` (0 to 1) of all values do not exceed; 0 when there
 * is none. */
uint64_t br_histogram_quantile(const struct br_histogram *histogram, double share);
double br_histogram_mean(const struct br_histogram *histogram);
double br_histogram_deviation(const struct br_histogram *histogram); /* of a sample: n - 1 */

/* The text that HdrHistogram's programs print and plot: value, percentile, count, 1/(1-percentile).
 * Values are multiplied by `scale`. */
void br_histogram_print(const struct br_histogram *histogram, double scale, FILE *out);

#endif
