/* SPDX-License-Identifier: BSD-3-Clause */
/* The shape that the dimensional generator works in. */
#ifndef BR_COLLECTIVES_GENERATORS_DIMENSIONAL_H
#define BR_COLLECTIVES_GENERATORS_DIMENSIONAL_H

#include <stdint.h>

#define BR_DIMENSIONS_MAX 32

enum br_method {
    BR_METHOD_DIRECT,  /* one exchange with every other member of the group */
    BR_METHOD_RING,    /* size - 1 exchanges with the neighbours in a ring */
    BR_METHOD_HALVING, /* lg(size) exchanges with one partner each; size must be a power of two */
};

struct br_dimension {
    uint32_t size; /* at least 1 */
    enum br_method method;
    uint8_t level; /* of the network, or BR_LEVEL_ANY */
};

/*
 * The ranks 0 .. core-1 are numbered by digits, dimension 0 the least significant; core = product of the
 * sizes. Each rank from core to n-1 hands its part to rank - core and gets its result from there, so core <=
 * n <= 2 core. Thread t works on its own share of the chunks, with dimension (w + t) mod n_dimensions in its
 * step w: with threads == n_dimensions, direct and equal sizes this is BML.
 */
struct br_shape {
    uint32_t n_dimensions;
    uint32_t threads; /* at least 1 */
    struct br_dimension dimensions[BR_DIMENSIONS_MAX];
};

#endif
