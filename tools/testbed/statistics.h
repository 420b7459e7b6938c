/* SPDX-License-Identifier: BSD-3-Clause */
/* Statistics that a few wild values do not move. Pure. */
#ifndef BR_TOOLS_TESTBED_STATISTICS_H
#define BR_TOOLS_TESTBED_STATISTICS_H

#include <stdbool.h>

/* Median of a set, its median absolute deviation, its ends. */
struct br_spread {
    int count;
    double median, mad, min, max;
};

/* Sorts and then overwrites the values. */
struct br_spread br_spread_of(double *values, int count);

/* More than 5 robust standard deviations and more than `least` times the median away from it. */
bool br_spread_outlier(const struct br_spread *spread, double value, double least);

/* Straight line by Theil and Sen, for what begins below zero, as times behind a shaper do
 * (collectives/tuning/cost_fit.h has none such): the median of all slopes, then the median of what
 * is left. false: fewer than 2 different x, or more than 64 points. */
bool br_cost_line_fit(const double *x, const double *y, int count, double *slope,
                      double *intercept);

#endif
