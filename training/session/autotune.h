/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Autotuning: plans alternate over the program's own iterations, and the fastest stays. Pure and
 * without pointers; the caller measures the times and agrees with the other ranks. One thread.
 */
#ifndef BR_TRAINING_SESSION_AUTOTUNE_H
#define BR_TRAINING_SESSION_AUTOTUNE_H

#include <stddef.h>

#include <braid/training.h>

#include "training/session/policy.h"

/* Iterations of each plan. The first one does not count: buffers are allocated and memory is
 * registered in it. */
#define BR_AUTOTUNE_SAMPLES 4

struct br_autotune_plan {
    uint32_t policies;         /* a bit for each that makes it (enum br_policy) */
    double iteration, exposed; /* s, predicted */
    uint8_t urgent;
};

struct br_autotune {
    uint32_t layers, n; /* plans */
    uint32_t done;      /* iterations */
    struct br_autotune_plan plans[BR_POLICIES];
    double seconds[BR_AUTOTUNE_SAMPLES * BR_POLICIES]; /* of iteration i, by plan (i + i / n) % n */
    /* of plan p from p * layers on: behind all else, so that its beginning, which is what is in
     * use, can be sent to other ranks */
    uint8_t joins[BR_POLICIES * BRAID_SESSION_LAYERS];
};

static inline uint8_t *br_autotune_joins(struct br_autotune *autotune,
                                         const struct br_autotune_plan *plan)
{
    return autotune->joins + (size_t)(plan - autotune->plans) * autotune->layers;
}

/* Bytes in use. */
static inline size_t br_autotune_bytes(const struct br_autotune *autotune)
{
    return offsetof(struct br_autotune, joins) + (size_t)BR_POLICIES * autotune->layers;
}

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
