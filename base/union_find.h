/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sets of the numbers 0 to n-1 that only merge (union-find). parent[i] leads to the smallest number
 * of i's set, so that the same merges in any order give the same roots. The caller owns the array.
 * Not thread-safe.
 */
#ifndef BR_BASE_UNION_FIND_H
#define BR_BASE_UNION_FIND_H

#include <stddef.h>
#include <stdint.h>

/* Makes each number a set of its own. */
static inline void br_union_find_init(uint32_t *parent, size_t n)
{
    for (size_t i = 0; i < n; i++)
        parent[i] = (uint32_t)i;
}

/* Returns the smallest number of the set that i is in. */
static inline uint32_t br_union_find_root(uint32_t *parent, uint32_t i)
{
    while (parent[i] != i)
        i = parent[i] = parent[parent[i]];
    return i;
}

/* Merges the sets that a and b are in. */
static inline void br_union_find_join(uint32_t *parent, uint32_t a, uint32_t b)
{
    a = br_union_find_root(parent, a);
    b = br_union_find_root(parent, b);
    parent[a > b ? a : b] = a > b ? b : a;
}

#endif
