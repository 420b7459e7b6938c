/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BR_BASE_MEDIAN_H
#define BR_BASE_MEDIAN_H

#include <stddef.h>
#include <stdlib.h>

static inline int br_median_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Sorts the values in ascending order and returns the middle one of n, or the mean of the two in
 * the middle; 0 for n == 0. */
static inline double br_median(double *values, size_t n)
{
    if (!n)
        return 0;
    qsort(values, n, sizeof *values, br_median_compare);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

#endif
