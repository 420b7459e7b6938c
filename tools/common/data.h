/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test data of the tools: element i of rank r is a function of (seed, r, i), so that any rank can
 * tell what every other rank sent without being told. Pure; callable from any thread.
 */
#ifndef BR_TOOLS_COMMON_DATA_H
#define BR_TOOLS_COMMON_DATA_H

#include <stddef.h>
#include <stdint.h>

#include <braid/types.h>

/* What one buffer holds: `count` elements starting at element `first` of a rank's stream. */
struct br_data {
    uint64_t seed;
    enum braid_type type;
    enum braid_reduction reduction; /* chooses the range: factors of a product stay near 1 */
};

/* Writes elements [first, first + count) of rank's stream to `buffer`. */
void br_data_fill(const struct br_data *data, int rank, size_t first, void *buffer, size_t count);

/* How many elements of buffer are not exactly elements [first, first + count) of rank's stream. */
size_t br_data_wrong_copy(const struct br_data *data, int rank, size_t first, const void *buffer,
                          size_t count);

/*
 * How many elements of buffer are not the reduction over ranks 0..ranks-1 of elements [first, first
 * + count). Integers, minimum and maximum must be exact. Rounded sums and products may differ from
 * the reference (double; long double for float64) by what any order of ranks - 1 roundings can
 * cost: (ranks - 1) u sum|x| for a sum, (ranks - 1) u |prod| for a product, u being half a unit in
 * the last place, and u |avg| more a rank for the division of an average.
 */
size_t br_data_wrong_reduced(const struct br_data *data, int ranks, size_t first,
                             const void *buffer, size_t count);

#endif
