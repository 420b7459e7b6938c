/* SPDX-License-Identifier: BSD-3-Clause */
/* Workloads for tests of the planners: drawn ones, and the real tables' first layers. */
#ifndef BR_TESTS_TRAINING_SESSION_WORKLOADS_H
#define BR_TESTS_TRAINING_SESSION_WORKLOADS_H

#include "base/random.h"
#include "training/session/workload.h"

#define WORK_MOST 1024

struct work {
    struct br_workload load;
    struct br_layer layers[WORK_MOST];
};

/* n layers of all orders of magnitude, and a line that matters; some start-ups and times are 0. */
void work_draw(struct work *work, uint32_t n, struct br_random *random);

/* Layers of ResNet-50's sizes on a device like the MG-WFBP paper's, 8 hosts at 10 Gb/s. n: the last
 * ones of it, at most 16. */
void work_resnet50(struct work *work, uint32_t n);

/* When the last group has been reduced by the paper's recurrence: tau_c(1) + t_c(1), from the start
 * of the backward pass. */
double work_end(const struct br_workload *load, const uint8_t *joins);

/* The least of it over all plans. Exponential. */
double work_least_end(const struct br_workload *load);

#endif
