/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Autotuning: plans alternate over the program's own iterations, and the fastest stays. Pure and
 * without pointers; the caller measures the times and agrees with the other ranks. One thread.
 */
#ifndef BR_TRAINING_SESSION_AUTOTUNE_H
#define BR_TRAINING_SESSION_AUTOTUNE_H

#include <braid/training.h>

#include "training/session/policy.h"

/* Iterations of each plan. The first one does not count: buffers are allocated and memory is
 * registered in it. */
#define BR_AUTOTUNE_SAMPLES 4

struct br_autotune_plan {
    uint32_t policies;         /* a bit for each that makes it (enum br_policy) */
    double iteration, exposed; /* s, predicted */
    uint8_t urgent, joins[BRAID_SESSION_LAYERS];
};

struct br_autotune {
    uint32_t layers, n; /* plans */
    uint32_t done;      /* iterations */
    struct br_autotune_plan plans[BR_POLICIES];
    double seconds[BR_AUTOTUNE_SAMPLES * BR_POLICIES]; /* of iteration i, by plan (i + i / n) % n */
};

/* Adds the plan of a policy; one that is there already gets the policy's bit. */
void br_autotune_add(struct br_autotune *autotune, enum br_policy policy,
                     const struct br_policy_plan *plan, double exposed);

/* Iterations that are still to be measured; 0 with one plan or none. */
uint32_t br_autotune_left(const struct br_autotune *autotune);

/* The plan of the next iteration, after at least one was added; and what that iteration took. */
const struct br_autotune_plan *br_autotune_next(const struct br_autotune *autotune);
void br_autotune_note(struct br_autotune *autotune, double seconds);

/* When no iteration is left: what an iteration of plan p took, the median of those that count; and
 * the fastest plan. An earlier plan wins over one that is less than 1 % faster. */
double br_autotune_seconds(const struct br_autotune *autotune, uint32_t p);
uint32_t br_autotune_fastest(const struct br_autotune *autotune);

#endif
