/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/samples.h"

#include <math.h>
#include <stdlib.h>

struct br_perf_window br_perf_window_begin(uint64_t now, uint64_t duration, uint64_t margin)
{
    return (struct br_perf_window){.from = now + margin,
                                   .to = margin < duration ? now + duration - margin : now,
                                   .first_at = now,
                                   .final_at = now};
}

void br_perf_window_note(struct br_perf_window *w, uint64_t now, uint64_t ended)
{
    if (now < w->from) {
        w->first_at = now;
        w->first = ended;
    }
    if (now <= w->to) {
        w->final_at = now;
        w->final = ended;
    }
}

double br_perf_peak(const uint64_t *posts, const uint64_t *ends, size_t n)
{
    double least = INFINITY; /* ns a message */

    for (size_t i = 0; i < n; i++)
        for (size_t j = i; j < n; j++) {
            double each = (double)(ends[j] - posts[i]) / (double)(j - i + 1);

            least = each < least ? each : least;
        }
    return n && least > 0 ? 1e9 / least : 0;
}

static int samples_compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* The least value that at least this share does not exceed. */
static double samples_quantile(const uint64_t *sorted, size_t n, double share)
{
    size_t rank = (size_t)ceil(share * (double)n);

    return (double)sorted[rank ? rank - 1 : 0];
}

void br_perf_times(uint64_t *samples, size_t n, double scale, struct br_perf_row *row)
{
    size_t low = (n - 1) / 2, high = n / 2;
    double sum = 0, squares = 0, mean;

    qsort(samples, n, sizeof *samples, samples_compare);
    for (size_t i = 0; i < n; i++)
        sum += (double)samples[i];
    mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += ((double)samples[i] - mean) * ((double)samples[i] - mean);
    row->min = (double)samples[0] * scale;
    row->max = (double)samples[n - 1] * scale;
    row->median = ((double)samples[low] + (double)samples[high]) / 2 * scale;
    row->mean = mean * scale;
    row->stddev = n > 1 ? sqrt(squares / (double)(n - 1)) * scale : 0;
    row->p99 = samples_quantile(samples, n, 0.99) * scale;
    row->p999 = samples_quantile(samples, n, 0.999) * scale;
}

void br_perf_times_of(const struct br_histogram *h, double scale, struct br_perf_row *row)
{
    row->min = h->total ? (double)h->min * scale : 0;
    row->max = (double)h->max * scale;
    row->median = (double)br_histogram_quantile(h, 0.5) * scale;
    row->mean = br_histogram_mean(h) * scale;
    row->stddev = br_histogram_deviation(h) * scale;
    row->p99 = (double)br_histogram_quantile(h, 0.99) * scale;
    row->p999 = (double)br_histogram_quantile(h, 0.999) * scale;
}
