/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verifier proves the schedules of all ranks of one collective without running them.
 *
 * - Form: everything that schedule.h promises about spans, edges, counts and flags.
 * - Conflicts, exactly: any two steps on one chunk of which one writes are ordered by the edges.
 * - Messages: every SEND has its RECV with the same pieces. There is no deadlock, though every SEND
 *   may wait for its RECV and, where receives are mapped, for the REDUCEs that read them.
 * - Values, symbolically, in random legal orders: every output chunk holds the input of each rank
 *   it should, exactly once, and passed exactly one REDUCE that was final.
 *
 * Pure; thread-safe; time grows with the square of the steps of a rank.
 */
#ifndef BR_TESTS_VERIFIER_VERIFIER_H
#define BR_TESTS_VERIFIER_VERIFIER_H

#include "collectives/schedule/schedule.h"

/* schedules[r] is that of rank r; there are schedules[0]->n of them. orders: how many random orders
 * to try, at least 1. Returns 0; -EINVAL with a message that names rank and step; or -ENOMEM. */
int br_verify(const struct br_schedule *const *schedules, uint32_t orders, uint64_t seed);

#endif
