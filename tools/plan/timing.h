/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The schedules of all ranks under the cost model, step by step: a message starts when both its
 * ends may start, earlier fragments and steps between the same two ranks first; messages of
 * different ranks share the ports they have in common. Pure; thread-safe.
 */
#ifndef BR_TOOLS_PLAN_TIMING_H
#define BR_TOOLS_PLAN_TIMING_H

#include "collectives/tuning/cost.h"

/* Seconds until the last rank has ended, for blocks of `bytes` bytes in `fragments` fragments (at
 * least 1). The schedules pass br_verify. -EINVAL with a message, -ENOMEM. */
int br_timing_run(const struct br_cost_model *model, const struct br_schedule *const *schedules,
                  double bytes, uint32_t fragments, double *seconds);

#endif
