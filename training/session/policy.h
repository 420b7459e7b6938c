/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Policies: how the gradients of an iteration travel. Pure; thread-safe. Planning takes
 * milliseconds for a thousand layers.
 */
#ifndef BR_TRAINING_SESSION_POLICY_H
#define BR_TRAINING_SESSION_POLICY_H

#include "training/session/merge.h"
#include "training/session/timeline.h"

enum br_policy {
    BR_POLICY_LAYERWISE, /* WFBP: each layer as soon as it is there */
    BR_POLICY_SINGLE,    /* SyncEASGD: all layers as one, after the backward pass */
    BR_POLICY_BUCKET,    /* groups of a fixed size */
    BR_POLICY_MGWFBP,    /* MG-WFBP's Algorithm 1 */
    BR_POLICY_OPTIMAL,   /* the best merge plan without priorities */
    /* each layer alone; the one that the forward pass needs first overtakes the others */
    BR_POLICY_P3,
    BR_POLICY_AUTO, /* merge plan and priorities together: the shortest iteration that was found */
    BR_POLICIES
};

/* "layerwise", ...; and back: -EINVAL with a message that names all. */
const char *br_policy_name(enum br_policy policy);
int br_policy_find(const char *name, enum br_policy *policy);

/* A merge plan (merge.h), and whether its groups overtake. */
struct br_policy_plan {
    uint8_t *joins; /* the caller's, [work->n] */
    bool urgent;
    double iteration; /* s, predicted (timeline.h) */
};

/*
 * Plans. work has been checked (br_workload_check). AUTO takes the best of all other policies and
 * of merge plans of many bucket sizes, in order and urgent, then moves the borders of the best as
 * long as that makes the iteration shorter; its iteration is never longer than that of another
 * policy. -ENOMEM with a message.
 */
int br_policy_make(enum br_policy policy, const struct br_workload *work,
                   struct br_policy_plan *plan);

#endif
