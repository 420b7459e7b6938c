/* SPDX-License-Identifier: BSD-3-Clause */
#include "training/session/autotune.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define GAIN 0.01

static bool is_same(const struct br_autotune *trial, const struct br_autotune_plan *a,
                    const struct br_policy_plan *b)
{
    return a->urgent == b->urgent && !memcmp(a->joins, b->joins, trial->layers);
}

void br_autotune_add(struct br_autotune *trial, enum br_policy policy,
                     const struct br_policy_plan *plan, double exposed)
{
    struct br_autotune_plan *at = trial->plans;

    while (at < trial->plans + trial->n && !is_same(trial, at, plan))
        at++;
    at->policies |= 1u << policy;
    if (at < trial->plans + trial->n)
        return;
    trial->n++;
    at->iteration = plan->iteration;
    at->exposed = exposed;
    at->urgent = plan->urgent;
    memcpy(at->joins, plan->joins, trial->layers);
}

uint32_t br_autotune_left(const struct br_autotune *trial)
{
    return trial->n > 1 ? trial->n * BR_AUTOTUNE_TURNS - trial->done : 0;
}

const struct br_autotune_plan *br_autotune_next(const struct br_autotune *trial)
{
    return &trial->plans[(trial->done + trial->done / trial->n) % trial->n];
}

void br_autotune_note(struct br_autotune *trial, double seconds)
{
    trial->seconds[trial->done++] = seconds;
}

/* Each turn begins one plan later: what a program does every n-th iteration falls on another plan
 * each time. */
static double autotune_turn(const struct br_autotune *trial, uint32_t k, uint32_t p)
{
    uint32_t n = trial->n;

    return trial->seconds[k * n + (p + n - k % n) % n];
}

double br_autotune_seconds(const struct br_autotune *trial, uint32_t p)
{
    double a = autotune_turn(trial, 1, p), b = autotune_turn(trial, 2, p),
           c = autotune_turn(trial, 3, p);

    static_assert(BR_AUTOTUNE_TURNS == 4, "three turns count");
    return fmax(fmin(a, b), fmin(fmax(a, b), c));
}

uint32_t br_autotune_fastest(const struct br_autotune *trial)
{
    uint32_t fastest = 0;

    for (uint32_t p = 1; p < trial->n; p++)
        if (br_autotune_seconds(trial, p) < br_autotune_seconds(trial, fastest) * (1 - GAIN))
            fastest = p;
    return fastest;
}
