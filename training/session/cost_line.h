/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an all-reduce of M bytes takes: T(M) = a + b M, MG-WFBP's law. Pure; thread-safe.
 */
#ifndef BR_TRAINING_SESSION_COST_LINE_H
#define BR_TRAINING_SESSION_COST_LINE_H

#include <stdint.h>

struct br_cost_line {
    double a; /* s: start-up of one all-reduce */
    double b; /* s for a byte of the buffer */
};

/* T(bytes) in seconds. */
double br_cost_line_seconds(const struct br_cost_line *cost, double bytes);

/* Figures of the links from which the laws of the algorithms make a and b. */
struct br_cost_line_links {
    double alpha; /* s, latency of a message */
    double beta;  /* s for a byte sent */
    double gamma; /* s for a byte added up */
};

/* The line of an algorithm for n ranks (1: nothing to do, exactly 0 and 0): "ring", "halving",
 * "binary_tree", "doubling". -EINVAL with a message: no such law, or a figure is negative or no
 * number. */
int br_cost_line_law(const char *name, uint32_t n, const struct br_cost_line_links *links,
                     struct br_cost_line *cost);

/* One all-reduce, or the mean of several of one size. */
struct br_cost_line_sample {
    double bytes, seconds; /* seconds > 0 */
};

/* The line through 1 to BR_COST_FIT_POINTS samples (collectives/tuning/cost_fit.h), a and b not
 * negative. With samples of one size only all of it is b. -EINVAL with a message: another number of
 * samples, or one without a time. */
int br_cost_line_measure(const struct br_cost_line_sample *samples, uint32_t n,
                         struct br_cost_line *cost);

#endif
