/* SPDX-License-Identifier: BSD-3-Clause */
/* Routes by looking at everything: what the tests of bcube/ compare with. */
#ifndef BR_TESTS_BCUBE_EXHAUSTIVE_H
#define BR_TESTS_BCUBE_EXHAUSTIVE_H

#include "base/random.h"
#include "bcube/failures.h"

/* distance[h]: hops of the shortest working route from `from`, by breadth-first search; UINT32_MAX:
 * there is none. */
void exhaustive_distances(const struct br_bcube *cube, const struct br_failures *failures,
                          uint32_t from, uint32_t *distance);

/* Adds so many random NICs, hosts and switches. */
void random_failures(const struct br_bcube *cube, struct br_random *random, uint32_t count,
                     struct br_failures *failures);

#endif
