/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/tuning/cost_fit.h"

#include <math.h>

#include "base/median.h"

#define DEVIATIONS 3
#define LEAST_OFF  0.01 /* relative */

/* 97.5 % quantile of Student's t. */
static double cost_fit_student(uint32_t freedom)
{
    static const double table[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365,
                                   2.306,  2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
                                   2.131,  2.120, 2.110, 2.101, 2.093, 2.086};

    return freedom <= sizeof table / sizeof *table ? table[freedom - 1] : 1.96 + 2.5 / freedom;
}

/* Relative error of a point, of the larger of both: a time of nearly nothing is not more wrong than
 * one of nothing. */
static double cost_fit_off(const struct br_cost_fit *f, double x, double y)
{
    double line = f->start + f->slope * x;

    return (y - line) / fmax(y, line);
}

static double all_off(const struct br_cost_fit *f, const double *x, const double *y, uint32_t n)
{
    double sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += fabs(cost_fit_off(f, x[i], y[i]));
    return sum;
}

/* The line through two points; lines that fall or begin below 0 are bent up. */
static bool cost_fit_through(const double *x, const double *y, uint32_t i, uint32_t j,
                             struct br_cost_fit *f)
{
    if (x[i] == x[j])
        return false;
    f->slope = fmax((y[i] - y[j]) / (x[i] - x[j]), 0);
    f->start = y[i] - f->slope * x[i];
    if (f->start < 0) {
        f->start = 0;
        f->slope = x[i] > 0 ? y[i] / x[i] : y[j] / x[j];
    }
    return true;
}

static bool cost_fit_first_line(const double *x, const double *y, uint32_t n,
                                struct br_cost_fit *best)
{
    double least = INFINITY;

    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++) {
            struct br_cost_fit f = {0};
            double sum;

            if (!cost_fit_through(x, y, i, j, &f) || !((sum = all_off(&f, x, y, n)) < least))
                continue;
            least = sum;
            *best = f;
        }
    return isfinite(least);
}

static uint32_t find_outliers(const struct br_cost_fit *f, const double *x, const double *y,
                              uint32_t n)
{
    double sizes[BR_COST_FIT_POINTS], scale;
    uint32_t outliers = 0;

    for (uint32_t i = 0; i < n; i++)
        sizes[i] = fabs(cost_fit_off(f, x[i], y[i]));
    /* two points leave nothing */
    scale = 1.4826 * br_median(sizes, n) * (n > 2 ? 1 + 5.0 / (n - 2) : 1);
    for (uint32_t i = 0; i < n; i++) {
        double size = fabs(cost_fit_off(f, x[i], y[i]));

        if (size > DEVIATIONS * scale && size > LEAST_OFF)
            outliers |= 1u << i;
    }
    return outliers;
}

struct sums {
    double w, x, y, xx, xy, yy;
};

static struct sums cost_fit_sum_up(const struct br_cost_fit *f, const double *x, const double *y,
                                   uint32_t n)
{
    struct sums s = {0};

    for (uint32_t i = 0; i < n; i++) {
        double w = 1 / (y[i] * y[i]);

        if (f->outliers & 1u << i)
            continue;
        s.w += w;
        s.x += w * x[i];
        s.y += w * y[i];
        s.xx += w * x[i] * x[i];
        s.xy += w * x[i] * y[i];
        s.yy += w * y[i] * y[i];
    }
    return s;
}

/* Least squares of what is no outlier; keeps the first line where these have one x alone. */
static void cost_fit_refine(const double *x, const double *y, uint32_t n, struct br_cost_fit *f)
{
    struct sums s = cost_fit_sum_up(f, x, y, n);
    double spread = s.w * s.xx - s.x * s.x, left = 0, total = s.yy - s.y * s.y / s.w, variance;
    bool straight = spread > 1e-12 * s.w * s.xx, from_zero = false;

    if (straight) {
        f->slope = (s.w * s.xy - s.x * s.y) / spread;
        f->start = (s.y - f->slope * s.x) / s.w;
    }
    if (straight && f->slope < 0) {
        f->slope = 0;
        f->start = s.y / s.w;
    }
    if (straight && f->start < 0) {
        from_zero = true;
        f->start = 0;
        f->slope = s.xy / s.xx;
    }
    for (uint32_t i = 0; i < n; i++)
        if (!(f->outliers & 1u << i))
            left += cost_fit_off(f, x[i], y[i]) * cost_fit_off(f, x[i], y[i]);
    f->r2 = total > 0 ? fmax(1 - left / total, 0) : 1;
    if (f->n < 3 || !straight)
        return;
    variance = left / (f->n - 2);
    f->slope_error =
        cost_fit_student(f->n - 2) * sqrt(variance * (from_zero ? 1 / s.xx : s.w / spread));
    f->start_error = from_zero ? 0 : cost_fit_student(f->n - 2) * sqrt(variance * s.xx / spread);
}

bool br_cost_fit_line(const double *x, const double *y, uint32_t n, struct br_cost_fit *fit)
{
    *fit = (struct br_cost_fit){0};
    if (n < 2 || n > BR_COST_FIT_POINTS)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (!isfinite(x[i]) || !isfinite(y[i]) || y[i] <= 0)
            return false;
    if (!cost_fit_first_line(x, y, n, fit))
        return false;
    fit->outliers = find_outliers(fit, x, y, n);
    fit->n = n - (uint32_t)__builtin_popcount(fit->outliers);
    cost_fit_refine(x, y, n, fit);
    return true;
}
