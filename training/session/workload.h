/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a plan is made for: the layers of a network with their times, and the cost of an all-reduce.
 * Layers count from 0 in the order of the forward pass; the backward pass runs from the last one to
 * layer 0.
 */
#ifndef BR_TRAINING_SESSION_WORKLOAD_H
#define BR_TRAINING_SESSION_WORKLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "training/session/cost_line.h"

#define BR_TRAINING_LAYERS      8192
#define BR_TRAINING_SLICE_BYTES (50000 * 4.0)    /* P3's best: 50,000 parameters */
#define BR_TRAINING_BUCKET      (25.0 * 1048576) /* as DistributedDataParallel */

struct br_layer {
    double bytes;             /* of its gradient */
    double forward, backward; /* s */
};

struct br_workload {
    const struct br_layer *layers; /* borrowed */
    uint32_t n;                    /* 1 to BR_TRAINING_LAYERS */
    struct br_cost_line cost;
    /* a more urgent all-reduce overtakes at the end of a slice; 0: at once */
    double slice_bytes;
    double bucket_bytes; /* of the policy `bucket` */
    /* s by which a more urgent all-reduce takes longer while others are under way: the messages of
     * each of its steps wait for frames that are on the links already, which serve the others
     * meanwhile */
    double overtake;
};

/* -EINVAL with a message, counting layers from 1: a number of layers, time or size that cannot
 * be. */
int br_workload_check(const struct br_workload *work);

/* Seconds of both passes without any communication. */
double br_workload_compute(const struct br_workload *work);

#endif
