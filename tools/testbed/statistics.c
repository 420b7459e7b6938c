/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/testbed/statistics.h"

#include <math.h>

#include "base/median.h"

#define POINTS 64
#define SIGMA  1.4826 /* MAD to standard deviation, for normal values */

struct br_spread br_spread_of(double *values, int count)
{
    struct br_spread spread = {.count = count, .median = br_median(values, (size_t)count)};
    if (!count)
        return spread;
    spread.min = values[0];
    spread.max = values[count - 1];
    for (int i = 0; i < count; i++)
        values[i] = fabs(values[i] - spread.median);
    spread.mad = br_median(values, (size_t)count);
    return spread;
}

bool br_spread_outlier(const struct br_spread *spread, double value, double least)
{
    double away = fabs(value - spread->median);
    return spread->count > 2 && away > 5 * SIGMA * spread->mad &&
           away > least * fabs(spread->median);
}

bool br_cost_line_fit(const double *x, const double *y, int count, double *slope, double *intercept)
{
    double slopes[POINTS * (POINTS - 1) / 2], rest[POINTS];
    int pairs = 0;
    if (count > POINTS)
        return false;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            if (x[i] < x[j] || x[i] > x[j])
                slopes[pairs++] = (y[i] - y[j]) / (x[i] - x[j]);
    if (!pairs)
        return false;
    *slope = br_median(slopes, (size_t)pairs);
    for (int i = 0; i < count; i++)
        rest[i] = y[i] - *slope * x[i];
    *intercept = br_median(rest, (size_t)count);
    return true;
}
