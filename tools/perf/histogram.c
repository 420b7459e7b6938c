/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/histogram.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define TICKS 5 /* lines for each half of what is left above */

void br_histogram_init(struct br_histogram *h)
{
    memset(h, 0, sizeof *h);
    h->min = UINT64_MAX;
}

static uint32_t histogram_bucket(uint64_t value)
{
    uint32_t bits;

    if (value < BR_HISTOGRAM_EXACT)
        return (uint32_t)value;
    if (value >= UINT64_C(1) << 48)
        return BR_HISTOGRAM_COUNTERS - 1;
    bits = 63 - (uint32_t)__builtin_clzll(value); /* 11 to 47 */
    return BR_HISTOGRAM_EXACT + (bits - 11) * BR_HISTOGRAM_HALF + (uint32_t)(value >> (bits - 10)) -
           BR_HISTOGRAM_HALF;
}

/* The largest value of that place. */
static uint64_t value_at(uint32_t i)
{
    uint32_t shift;

    if (i < BR_HISTOGRAM_EXACT)
        return i;
    i -= BR_HISTOGRAM_EXACT;
    shift = i / BR_HISTOGRAM_HALF + 1;
    return ((uint64_t)(BR_HISTOGRAM_HALF + i % BR_HISTOGRAM_HALF + 1) << shift) - 1;
}

void br_histogram_add(struct br_histogram *h, uint64_t value)
{
    double v = (double)value;

    h->counters[histogram_bucket(value)]++;
    h->total++;
    h->sum += v;
    h->squares += v * v;
    h->min = value < h->min ? value : h->min;
    h->max = value > h->max ? value : h->max;
}

static uint64_t at_rank(const struct br_histogram *h, uint64_t rank, uint64_t *below)
{
    uint64_t seen = 0, value;

    for (uint32_t i = 0; i < BR_HISTOGRAM_COUNTERS; i++) {
        seen += h->counters[i];
        if (seen >= rank) {
            value = value_at(i);
            *below = seen;
            return value < h->max ? value : h->max;
        }
    }
    *below = h->total;
    return h->max;
}

uint64_t br_histogram_quantile(const struct br_histogram *h, double share)
{
    double rank = ceil(share * (double)h->total);
    uint64_t below;

    if (!h->total)
        return 0;
    return at_rank(h, rank < 1 ? 1 : (uint64_t)rank, &below);
}

double br_histogram_mean(const struct br_histogram *h)
{
    return h->total ? h->sum / (double)h->total : 0;
}

double br_histogram_deviation(const struct br_histogram *h)
{
    double n = (double)h->total, mean = br_histogram_mean(h);

    return h->total > 1 ? sqrt(fmax(h->squares - n * mean * mean, 0) / (n - 1)) : 0;
}

void br_histogram_print(const struct br_histogram *h, double scale, FILE *out)
{
    double share = 0;
    uint64_t seen = 0;

    fprintf(out, "%12s %14s %10s %14s\n\n", "Value", "Percentile", "TotalCount",
            "1/(1-Percentile)");
    while (seen < h->total) {
        double rank = fmax(ceil(share * (double)h->total), 1),
               value = (double)at_rank(h, (uint64_t)rank, &seen);

        if (seen < h->total)
            fprintf(out, "%12.3f %2.12f %10" PRIu64 " %14.2f\n", value * scale, share, seen,
                    1 / (1 - share));
        else
            fprintf(out, "%12.3f %2.12f %10" PRIu64 "\n", value * scale, 1.0, seen);
        share += (1 - share) / (2 * TICKS);
        if (1 - share < 1e-12)
            share = 1;
    }
    fprintf(out, "#[Mean    = %12.3f, StdDeviation   = %12.3f]\n", br_histogram_mean(h) * scale,
            br_histogram_deviation(h) * scale);
    fprintf(out, "#[Max     = %12.3f, Total count    = %12" PRIu64 "]\n", (double)h->max * scale,
            h->total);
    fprintf(out, "#[Buckets = %12u, SubBuckets     = %12u]\n", 48 - 10, BR_HISTOGRAM_EXACT);
}
