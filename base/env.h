/* SPDX-License-Identifier: BSD-3-Clause */
/* Values from the environment, with a clear error for a bad one instead of a guess. */
#ifndef BR_BASE_ENV_H
#define BR_BASE_ENV_H

#include <stdint.h>

/* *out = the number in NAME, or fallback when NAME is unset or empty. -EINVAL with a message naming
 * NAME, its value and the range when it is no whole number in [min, max]. */
int br_env_number(const char *name, int64_t min, int64_t max, int64_t fallback, int64_t *out);

/* Bytes, with an optional suffix K, M, G (powers of 1024), as in `256K`. */
int br_env_bytes(const char *name, uint64_t min, uint64_t max, uint64_t fallback, uint64_t *out);
int br_parse_bytes(const char *text, uint64_t *out); /* -EINVAL without a message */

/* Index of NAME's value in the NULL-terminated list of words. -EINVAL with a message listing the
 * choices. */
int br_env_choice(const char *name, const char *const *choices, int fallback, int *out);

#endif
