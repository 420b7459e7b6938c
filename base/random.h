/* SPDX-License-Identifier: BSD-3-Clause */
/* Seeded pseudo-random numbers (xoshiro256**), for the simulator, tests and fuzzing; never for
 * secrets. */
#ifndef BR_BASE_RANDOM_H
#define BR_BASE_RANDOM_H

#include <stdint.h>

struct br_random {
    uint64_t s[4];
};

void br_random_seed(struct br_random *random, uint64_t seed);
uint64_t br_random_next(struct br_random *random);
uint64_t br_random_below(struct br_random *random, uint64_t bound); /* 0..bound-1; bound > 0 */
double br_random_unit(struct br_random *random);                    /* [0, 1) */

#endif
