/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BR_BASE_MEDIAN_H
#define BR_BASE_MEDIAN_H

#include <stddef.h>

/* The middle one of n values, or the mean of the two in the middle; 0 of none. Sorts the values,
 * the smallest first. Thread-safe. */
double br_median(double *values, size_t n);

#endif
