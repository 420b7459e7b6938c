/* SPDX-License-Identifier: BSD-3-Clause */
/* Seeded pseudo-random numbers (xoshiro256**) for the simulator, tests and fuzzing; never for
 * secrets. One thread at a time for one generator. */
#ifndef BR_BASE_RANDOM_H
#define BR_BASE_RANDOM_H

#include <stdint.h>

struct br_random {
    uint64_t s[4];
};

/* Starts a sequence; the same seed gives the same one. Every seed is good. */
void br_random_seed(struct br_random *random, uint64_t seed);

/* Returns the next 64 bits. */
uint64_t br_random_next(struct br_random *random);

/* Returns a number from 0 to bound - 1, each equally likely. bound > 0. */
uint64_t br_random_below(struct br_random *random, uint64_t bound);

/* Returns a number from 0, included, to 1, excluded. */
double br_random_unit(struct br_random *random);

#endif
