/* SPDX-License-Identifier: BSD-3-Clause */
/* xoshiro256** and splitmix64 as published by D. Blackman and S. Vigna (public domain
 * algorithms). */
#include "base/random.h"

static uint64_t random_rotl(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

/* splitmix64 fills the state, so that seeds 0, 1, 2 ... give unrelated sequences and never the
 * all-zero state. */
void br_random_seed(struct br_random *random, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        uint64_t z = (seed += UINT64_C(0x9e3779b97f4a7c15));

        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        random->s[i] = z ^ (z >> 31);
    }
}

uint64_t br_random_next(struct br_random *random)
{
    uint64_t *s = random->s;
    uint64_t result = random_rotl(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = random_rotl(s[3], 45);
    return result;
}

/* Values below 2^64 mod bound are drawn again; without that small results would be a little more
 * likely. */
uint64_t br_random_below(struct br_random *random, uint64_t bound)
{
    uint64_t threshold = (0 - bound) % bound;
    uint64_t x;

    do {
        x = br_random_next(random);
    } while (x < threshold);
    return x % bound;
}

double br_random_unit(struct br_random *random)
{
    return (double)(br_random_next(random) >> 11) * 0x1.0p-53;
}
