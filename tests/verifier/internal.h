/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of the verifier. Pure functions; each returns 0, -EINVAL with a message that names rank
 * and step or chunk, or -ENOMEM. */
#ifndef BR_TESTS_VERIFIER_INTERNAL_H
#define BR_TESTS_VERIFIER_INTERNAL_H

#include "tools/plan/matching.h"

/* The exact conflict check of one rank: any two steps on one chunk of which one writes must be
 * ordered by the edges. The form of the schedule has been checked. */
int br_verify_order(const struct br_schedule *schedule);

/* Do all steps end when each SEND waits for its RECV to start and, where that may be mapped, for
 * the REDUCEs that read it? */
int br_verify_progress(const struct br_matching *matching);

/* Runs all steps in one random legal order and checks every output. Form and matching have been
 * checked. */
int br_verify_values(const struct br_matching *matching, uint64_t seed);

#endif
