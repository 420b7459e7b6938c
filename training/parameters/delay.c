/* SPDX-License-Identifier: BSD-3-Clause */
#include "training/parameters/delay.h"

#include <math.h>

#define WORTH 0.03

double br_delay_ssgd(const struct br_delay_times *t)
{
    return t->forward + fmax(t->backward, t->last_backward + t->communication);
}

double br_delay_iteration(const struct br_delay_times *t, int k)
{
    double compute = t->forward + t->backward + t->local;
    double steady = fmax(compute, t->push);
    /* Communication of the pulling iteration hides behind the rest of its backward pass and the
     * next iteration. */
    double excess = t->communication + t->last_backward - t->backward - steady;

    return steady + fmax(excess, 0) / k;
}

double br_delay_shared(const struct br_delay_times *t, int k)
{
    return fmax(br_delay_iteration(t, k), t->push + (t->communication - t->push) / k);
}

int br_delay_choose(const struct br_delay_times *t)
{
    int k = 1;

    while (k < BR_DELAY_MAX && br_delay_shared(t, k + 1) < br_delay_shared(t, k) * (1 - WORTH))
        k++;
    return k;
}
