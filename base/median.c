/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/median.h"

#include <stdlib.h>

static int median_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double br_median(double *values, size_t n)
{
    if (!n)
        return 0;
    qsort(values, n, sizeof *values, median_compare);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}
