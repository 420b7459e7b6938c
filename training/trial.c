/* SPDX-License-Identifier: BSD-3-Clause */
#include "training/trial.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define GAIN 0.01

static bool is_same(const struct br_trial *trial, const struct br_trial_plan *a,
                    const struct br_policy_plan *b)
{
    return a->urgent == b->urgent && !memcmp(a->joins, b->joins, trial->layers);
}

void br_trial_add(struct br_trial *trial, enum br_policy policy, const struct br_policy_plan *plan,
                  double exposed)
{
    struct br_trial_plan *at = trial->plans;

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

uint32_t br_trial_left(const struct br_trial *trial)
{
    return trial->n > 1 ? trial->n * BR_TRIAL_TURNS - trial->done : 0;
}

const struct br_trial_plan *br_trial_next(const struct br_trial *trial)
{
    return &trial->plans[(trial->done + trial->done / trial->n) % trial->n];
}

void br_trial_note(struct br_trial *trial, double seconds)
{
    trial->seconds[trial->done++] = seconds;
}

/* Each turn begins one plan later: what a program does every n-th iteration falls on another plan each time. */
static double turn(const struct br_trial *trial, uint32_t k, uint32_t p)
{
    uint32_t n = trial->n;

    return trial->seconds[k * n + (p + n - k % n) % n];
}

double br_trial_seconds(const struct br_trial *trial, uint32_t p)
{
    double a = turn(trial, 1, p), b = turn(trial, 2, p), c = turn(trial, 3, p);

    static_assert(BR_TRIAL_TURNS == 4, "three turns count");
    return fmax(fmin(a, b), fmin(fmax(a, b), c));
}

uint32_t br_trial_fastest(const struct br_trial *trial)
{
    uint32_t fastest = 0;

    for (uint32_t p = 1; p < trial->n; p++)
        if (br_trial_seconds(trial, p) < br_trial_seconds(trial, fastest) * (1 - GAIN))
            fastest = p;
    return fastest;
}
