/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Merge plans: which layers' gradients travel as one all-reduce. Pure; thread-safe.
 *
 * A plan is an array of one byte a layer: joins[l] = 1 when layer l travels together with layer
 * l-1; joins[0] is 0. So a plan cuts the layers into groups of neighbours, and a group can leave
 * when the backward pass has done its first layer.
 */
#ifndef BR_TRAINING_SESSION_MERGE_H
#define BR_TRAINING_SESSION_MERGE_H

#include "training/session/workload.h"

/* All of these fill joins[0..work->n). Layerwise (WFBP): each layer travels alone. Single
 * (SyncEASGD): all layers travel as one. */
void br_merge_layerwise(const struct br_workload *work, uint8_t *joins);
void br_merge_single(const struct br_workload *work, uint8_t *joins);
/* In the order of the backward pass, a group ends with the layer that fills it. 0 bytes: each layer
 * travels alone. */
void br_merge_bucket(const struct br_workload *work, double bytes, uint8_t *joins);
/* MG-WFBP's Algorithm 1. */
void br_merge_greedy(const struct br_workload *work, uint8_t *joins);
/* The plan whose last all-reduce ends first, among all 2^(n-1), when groups travel one after the
 * other. O(n^2). -ENOMEM with a message. */
int br_merge_optimal(const struct br_workload *work, uint8_t *joins);

#endif
