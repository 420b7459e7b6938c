/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers for test data that are exact in every type. */
#ifndef BR_TESTS_COLLECTIVES_PATTERN_H
#define BR_TESTS_COLLECTIVES_PATTERN_H

#include <stdint.h>

#include "braid/types.h"

/* Writes one element, unaligned. value: 0 to 5. */
void pattern_put(enum braid_type type, uint8_t *to, int value);

#endif
