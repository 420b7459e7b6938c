/* SPDX-License-Identifier: BSD-3-Clause */
#include "training/session/cost_line.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "collectives/tuning/cost_fit.h"

double br_cost_line_seconds(const struct br_cost_line *cost, double bytes)
{
    return cost->a + cost->b * bytes;
}

static bool cost_line_usable(double figure)
{
    return isfinite(figure) && figure >= 0;
}

int br_cost_line_law(const char *name, uint32_t n, const struct br_cost_line_links *links,
                     struct br_cost_line *cost)
{
    double ranks = n ? n : 1, lg = log2(ranks), alpha = links->alpha, beta = links->beta,
           gamma = links->gamma;

    if (!n || !cost_line_usable(alpha) || !cost_line_usable(beta) || !cost_line_usable(gamma))
        return br_error(
            EINVAL,
            "alpha, beta and gamma must be numbers that are not negative, and ranks 1 or more");
    if (!strcmp(name, "ring"))
        *cost = (struct br_cost_line){2 * (ranks - 1) * alpha,
                                      2 * (ranks - 1) / ranks * beta + (ranks - 1) / ranks * gamma};
    else if (!strcmp(name, "halving"))
        *cost = (struct br_cost_line){2 * lg * alpha, (2 * beta + gamma) * (ranks - 1) / ranks};
    else if (!strcmp(name, "binary_tree"))
        *cost = (struct br_cost_line){2 * alpha * lg, (2 * beta + gamma) * lg};
    else if (!strcmp(name, "doubling"))
        *cost = (struct br_cost_line){alpha * lg, (beta + gamma) * lg};
    else
        return br_error(EINVAL, "%s: no such law; there are ring, halving, binary_tree, doubling",
                        name);
    return 0;
}

int br_cost_line_measure(const struct br_cost_line_sample *samples, uint32_t n,
                         struct br_cost_line *cost)
{
    double x[BR_COST_FIT_POINTS], y[BR_COST_FIT_POINTS], slope = 0;
    struct br_cost_fit fit;

    if (!n || n > BR_COST_FIT_POINTS)
        return br_error(EINVAL, "a and b are fitted to 1 to %d samples, not to %u",
                        BR_COST_FIT_POINTS, n);
    for (uint32_t i = 0; i < n; i++) {
        x[i] = samples[i].bytes;
        y[i] = samples[i].seconds;
        if (!(y[i] > 0) || !isfinite(y[i]) || !cost_line_usable(x[i]))
            return br_error(EINVAL, "sample %u has no time: %g s for %g bytes", i, y[i], x[i]);
        slope += x[i] > 0 ? y[i] / x[i] / n : 0;
    }
    *cost = br_cost_fit_line(x, y, n, &fit) ? (struct br_cost_line){fit.start, fit.slope}
                                            : (struct br_cost_line){0, slope};
    return 0;
}
