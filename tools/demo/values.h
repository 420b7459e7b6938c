/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Values for a demonstration that prove themselves: element i of rank r in filling f is a whole
 * number below 2^14, the upper bits of a product hash, so that the sum over up to 1,024 ranks is
 * exact in float32 and differs for every rank, element and filling. Checking costs a hash a rank
 * and element, and no memory. Pure; thread-safe.
 */
#ifndef BR_TOOLS_DEMO_VALUES_H
#define BR_TOOLS_DEMO_VALUES_H

#include <stddef.h>
#include <stdint.h>

#define BR_DEMO_RANKS 64

/* Which values: `buffer` and `filling` count from 0. */
struct br_demo_values {
    uint32_t filling, buffer;
};

void br_demo_fill(struct br_demo_values which, int rank, float *out, size_t count);

/* How many of got[0..count) are not the sum over `ranks` ranks, at most BR_DEMO_RANKS. */
uint64_t br_demo_wrong(struct br_demo_values which, int ranks, const float *got, size_t count);

#endif
