/* SPDX-License-Identifier: BSD-3-Clause */
/* The schedules of all ranks of one collective, for tests. */
#ifndef BR_TESTS_COLLECTIVES_SCHEDULES_H
#define BR_TESTS_COLLECTIVES_SCHEDULES_H

#include "collectives/schedule/algorithm.h"

enum in_place { IN_PLACE_NOBODY, IN_PLACE_ALL, IN_PLACE_SOME };

struct schedules {
    uint32_t n;
    struct br_schedule **of; /* of each rank */
};

/* Up to how many ranks everything is proved: 64, fewer under a sanitizer (BRAID_SANITIZE). */
uint32_t schedules_most_ranks(void);

/* Builds for request->n ranks; rank and in_place of the request are set here. Fails the test on an
 * error. */
void schedules_build(struct schedules *schedules, struct br_schedule_request request,
                     enum in_place in_place);
void schedules_free(struct schedules *schedules);
int schedules_verify(const struct schedules *schedules, uint32_t orders);

/* Builds, proves and frees, for every collective and some roots that the algorithm serves with n
 * ranks, with messages of one block and packed ones, in place, not in place and mixed (without a
 * shape and beyond 32 ranks: one of these each). Fails the test with the words. Returns how many
 * sets of schedules it has proved. */
uint32_t schedules_prove(enum br_algorithm algorithm, const struct br_shape *shape, uint32_t n);

#endif
