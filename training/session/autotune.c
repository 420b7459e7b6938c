/* SPDX-License-Identifier: BSD-3-Clause */
#include "training/session/autotune.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define GAIN 0.01

static bool is_same(struct br_autotune *autotune, const struct br_autotune_plan *a,
                    const struct br_policy_plan *b)
{
    return a->urgent == b->urgent &&
           !memcmp(br_autotune_joins(autotune, a), b->joins, autotune->layers);
}

void br_autotune_add(struct br_autotune *autotune, enum br_policy policy,
                     const struct br_policy_plan *plan, double exposed)
{
    struct br_autotune_plan *at = autotune->plans;

    while (at < autotune->plans + autotune->n && !is_same(autotune, at, plan))
        at++;
    at->policies |= 1u << policy;
    if (at < autotune->plans + autotune->n)
        return;
    autotune->n++;
    at->iteration = plan->iteration;
    at->exposed = exposed;
    at->urgent = plan->urgent;
    memcpy(br_autotune_joins(autotune, at), plan->joins, autotune->layers);
}

uint32_t br_autotune_left(const struct br_autotune *autotune)
{
    return autotune->n > 1 ? autotune->n * BR_AUTOTUNE_SAMPLES - autotune->done : 0;
}

const struct br_autotune_plan *br_autotune_next(const struct br_autotune *autotune)
{
    return &autotune->plans[(autotune->done + autotune->done / autotune->n) % autotune->n];
}

void br_autotune_note(struct br_autotune *autotune, double seconds)
{
    autotune->seconds[autotune->done++] = seconds;
}

/* Each round begins one plan later: what a program does every n-th iteration falls on another plan
 * each time. */
static double autotune_sample(const struct br_autotune *autotune, uint32_t k, uint32_t p)
{
    uint32_t n = autotune->n;

    return autotune->seconds[k * n + (p + n - k % n) % n];
}

double br_autotune_seconds(const struct br_autotune *autotune, uint32_t p)
{
    double a = autotune_sample(autotune, 1, p), b = autotune_sample(autotune, 2, p),
           c = autotune_sample(autotune, 3, p);

    static_assert(BR_AUTOTUNE_SAMPLES == 4, "three rounds count");
    return fmax(fmin(a, b), fmin(fmax(a, b), c));
}

uint32_t br_autotune_fastest(const struct br_autotune *autotune)
{
    uint32_t fastest = 0;

    for (uint32_t p = 1; p < autotune->n; p++)
        if (br_autotune_seconds(autotune, p) < br_autotune_seconds(autotune, fastest) * (1 - GAIN))
            fastest = p;
    return fastest;
}
