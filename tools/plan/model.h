/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `braid plan --model FILE`: how long an iteration of a network takes with each policy
 * (training/session/policy.h), and its time line. Rank 0 only; one thread; blocks on files.
 */
#ifndef BR_TOOLS_PLAN_MODEL_H
#define BR_TOOLS_PLAN_MODEL_H

#include "collectives/tuning/cost.h"
#include "tools/plan/settings.h"

/* The cost model has its topology; figures: text that says where its figures are from. 0, or -errno
 * with a message. */
int br_plan_model(const struct br_plan_settings *set, const struct br_cost_model *model,
                  const char *figures);

#endif
