/* SPDX-License-Identifier: BSD-3-Clause */
/* All-reduces of simulated ranks whose results can be checked to the bit, and what is wrong. */
#ifndef BR_TESTS_SIM_EXACT_H
#define BR_TESTS_SIM_EXACT_H

#include <stdbool.h>
#include <stdint.h>

#define EXACT_TEXT 300

/* Whole numbers, small enough that the sum of all ranks is exact. */
static inline float exact_number(uint32_t rank, uint32_t i)
{
    return (float)((rank * 7 + i) % 13);
}

/* Writes what is wrong, unless something is already; returns false. */
bool exact_wrong(char text[EXACT_TEXT], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
