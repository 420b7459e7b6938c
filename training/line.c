/* SPDX-License-Identifier: BSD-3-Clause */
#include "training/line.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/error.h"

double br_line_seconds(const struct br_line *line, double bytes)
{
    return line->a + line->b * bytes;
}

static bool usable(double figure)
{
    return isfinite(figure) && figure >= 0;
}

int br_line_law(const char *name, uint32_t n, const struct br_line_links *links, struct br_line *line)
{
    double ranks = n ? n : 1, lg = log2(ranks), alpha = links->alpha, beta = links->beta,
           gamma = links->gamma;

    if (!n || !usable(alpha) || !usable(beta) || !usable(gamma))
        return br_error(EINVAL,
                        "alpha, beta and gamma must be numbers that are not negative, and ranks 1 or more");
    if (!strcmp(name, "ring"))
        *line = (struct br_line){2 * (ranks - 1) * alpha,
                                 2 * (ranks - 1) / ranks * beta + (ranks - 1) / ranks * gamma};
    else if (!strcmp(name, "halving"))
        *line = (struct br_line){2 * lg * alpha, 2 * beta - (2 * beta + gamma) / ranks + gamma};
    else if (!strcmp(name, "binary_tree"))
        *line = (struct br_line){2 * alpha * lg, (2 * beta + gamma) * lg};
    else if (!strcmp(name, "doubling"))
        *line = (struct br_line){alpha * lg, (beta + gamma) * lg};
    else
        return br_error(EINVAL, "%s: no such law; there are ring, halving, binary_tree, doubling", name);
    return 0;
}

/* The slope alone, or the start-up alone, that fits best. */
static double only(const struct br_line_sample *samples, uint32_t n, bool slope)
{
    double above = 0, below = 0;

    for (uint32_t i = 0; i < n; i++) {
        double x = slope ? samples[i].bytes / samples[i].seconds : 1 / samples[i].seconds;

        above += x;
        below += x * x;
    }
    return below > 0 ? above / below : 0;
}

int br_line_measure(const struct br_line_sample *samples, uint32_t n, struct br_line *line)
{
    double s = 0, sx = 0, sxx = 0, sy = 0, sxy = 0, determinant;

    if (!n)
        return br_error(EINVAL, "no samples to fit a and b");
    for (uint32_t i = 0; i < n; i++) {
        double y = samples[i].seconds, x = samples[i].bytes, w;

        if (!(y > 0) || !isfinite(y) || !usable(x))
            return br_error(EINVAL, "sample %u has no time: %g s for %g bytes", i, y, x);
        w = 1 / (y * y);
        s += w;
        sx += w * x;
        sxx += w * x * x;
        sy += w * y;
        sxy += w * x * y;
    }
    determinant = s * sxx - sx * sx;
    *line = (struct br_line){0, only(samples, n, true)};
    if (determinant <= 1e-9 * s * sxx)
        return 0;
    double a = (sxx * sy - sx * sxy) / determinant, b = (s * sxy - sx * sy) / determinant;

    if (b < 0)
        *line = (struct br_line){only(samples, n, false), 0};
    else if (a >= 0)
        *line = (struct br_line){a, b};
    return 0;
}
