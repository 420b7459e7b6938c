/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures the figures of the cost model on a live communicator: for each level of the network
 * latency, cost of a message and of a byte between neighbours, and what reducing and copying cost.
 *
 * All ranks exchange at once, each with the next one of its level, because that is what collectives
 * do: the figures contain what ranks that share a link, a memory or a core take from each other.
 * Start-up costs come from small messages, the cost of a byte from a line through the times of
 * large ones (cost_fit.h).
 */
#ifndef BR_TOOLS_CALIBRATE_MEASURE_H
#define BR_TOOLS_CALIBRATE_MEASURE_H

#include <braid/braid.h>

#include "collectives/tuning/calibration.h"

/* Collective; all ranks get the same figures, the medians over the ranks that have somebody to
 * measure with. Fills in what is not of single links or algorithms. Blocks for some seconds.
 * Errors: braid's, with a message. */
int br_measure(struct braid_comm *comm, struct br_calibration *calibration);

#endif
