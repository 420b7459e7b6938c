/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of a table of cases in which every value of every axis meets every value of every other
 * axis, in some row. */
#ifndef BR_TESTS_COLLECTIVES_PAIRWISE_H
#define BR_TESTS_COLLECTIVES_PAIRWISE_H

#include <stdbool.h>
#include <stdint.h>

#define PAIRWISE_AXES   16
#define PAIRWISE_VALUES 64 /* of an axis */

struct pairwise {
    int axes, values[PAIRWISE_AXES]; /* values 0 to values[axis] - 1 */
    bool (*allowed)(const int *row,
                    /* NULL: everything is. A pair that no allowed row has is left out */
                    void *context);
    void *context;
    uint64_t seed; /* the same seed gives the same rows */
};

/* Returns the number of rows, of PAIRWISE_AXES numbers each; those that cover most come first. The
 * caller frees *rows. */
int pairwise_rows(const struct pairwise *of, int (**rows)[PAIRWISE_AXES]);

#endif
