/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The line start + slope * x through measured times, by which alpha and beta are found. Errors
 * count in proportion to the time, because the sizes spread over powers of ten and a clock's noise
 * grows with what it measures. Pure; thread-safe.
 *
 * 1. The first line is the one through two of the points that leaves the least sum of relative
 *    errors: few wild points do not move it. All pairs are tried; there are few.
 * 2. A point is an outlier when it is off by more than 3 robust standard deviations of what that
 *    line leaves, and by more than 1 %.
 * 3. The result is the weighted least squares of the others, with the half widths of its 95 %
 *    confidence intervals.
 *
 * Rejected: Theil and Sen, whose start is the median of what is left: that is noise of the large
 * sizes.
 */
#ifndef BR_COLLECTIVES_TUNING_COST_FIT_H
#define BR_COLLECTIVES_TUNING_COST_FIT_H

#include <stdbool.h>
#include <stdint.h>

#define BR_COST_FIT_POINTS 32

struct br_cost_fit {
    double start, slope; /* neither below 0 */
    /* half of the 95 % interval; 0: fewer than 3 points are left */
    double start_error, slope_error;
    /* share of the weighted variance that the line explains, without the outliers */
    double r2;
    uint32_t outliers; /* bit i: point i */
    uint32_t n;        /* points without the outliers */
};

/* Fits a line to n points, 2 to BR_COST_FIT_POINTS, with y above 0. Returns false when there are
 * fewer than two different x, or values that are not finite. */
bool br_cost_fit_line(const double *x, const double *y, uint32_t n, struct br_cost_fit *fit);

#endif
