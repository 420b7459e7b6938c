/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Part of the verifier: runs the schedules of all ranks on symbols. The value of a chunk is the set
 * of ranks whose inputs it holds, so any sum that lacks one or has one twice is seen, and any step
 * on the wrong chunk. Pure.
 */
#ifndef BR_COLLECTIVES_SCHEDULE_VERIFY_VALUES_H
#define BR_COLLECTIVES_SCHEDULE_VERIFY_VALUES_H

#include "collectives/schedule/matching.h"

/* Runs all steps in one random legal order and checks every output. Form and matching have been
 * checked. -EINVAL with a message that names rank and step or chunk; -ENOMEM. */
int br_verify_values(const struct br_matching *matching, uint64_t seed);

#endif
