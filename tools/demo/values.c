/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/demo/values.h"

#define BLOCK 1024 /* elements; a constant, for the compiler to vectorise */

static uint32_t seed_of(struct br_demo_values which, int rank)
{
    return which.filling * 0x9e3779b9u + which.buffer * 0x85ebca6bu + (uint32_t)rank * 0xc2b2ae35u;
}

static uint32_t values_value(uint32_t seed, size_t i)
{
    return ((uint32_t)i * 0x2c1b3c6du + seed) * 0x9e3779b1u >> 18;
}

void br_demo_fill(struct br_demo_values which, int rank, float *out, size_t count)
{
    size_t whole = count - count % BLOCK;
    uint32_t seed = seed_of(which, rank);

    for (size_t from = 0; from < whole; from += BLOCK)
        for (size_t i = 0; i < BLOCK; i++)
            out[from + i] = (float)(int32_t)values_value(seed, from + i);
    for (size_t i = whole; i < count; i++)
        out[i] = (float)(int32_t)values_value(seed, i);
}

static uint64_t wrong_block(const uint32_t *seeds, int ranks, const float *got, size_t from,
                            size_t n)
{
    uint32_t sums[BLOCK] = {0};
    uint64_t wrong = 0;

    for (int r = 0; r < ranks; r++)
        for (size_t i = 0; i < BLOCK; i++)
            sums[i] += values_value(seeds[r], from + i);
    for (size_t i = 0; i < n; i++)
        wrong += got[from + i] != (float)(int32_t)sums[i];
    return wrong;
}

uint64_t br_demo_wrong(struct br_demo_values which, int ranks, const float *got, size_t count)
{
    uint32_t seeds[BR_DEMO_RANKS];
    uint64_t wrong = 0;

    for (int r = 0; r < ranks; r++)
        seeds[r] = seed_of(which, r);
    for (size_t from = 0; from < count; from += BLOCK)
        wrong += wrong_block(seeds, ranks, got, from, count - from < BLOCK ? count - from : BLOCK);
    return wrong;
}
