/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Values of environment variables. A bad value is an error rather than a guess. An unset and an
 * empty variable both mean `fallback`, which need not lie in the range. Functions that read the
 * environment may be called from any thread as long as no thread changes it.
 */
#ifndef BR_BASE_ENV_H
#define BR_BASE_ENV_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the variable is set and not empty. */
bool br_env_is_set(const char *name);

/* The name that counts: `own` where it is set, else `other`. */
const char *br_env_pick(const char *own, const char *other);

/* Reads a whole number from min to max. Returns 0, or -EINVAL with a message that names the
 * variable, its value and the range; then *out is the fallback. */
int br_env_number(const char *name, int64_t min, int64_t max, int64_t fallback, int64_t *out);

/* The same for a number of bytes with an optional suffix K, M or G (powers of 1024): "256K". */
int br_env_bytes(const char *name, uint64_t min, uint64_t max, uint64_t fallback, uint64_t *out);

/* Reads such a number of bytes from a text. Returns 0, or -EINVAL without a message; then *out is
 * unchanged. */
int br_parse_bytes(const char *text, uint64_t *out);

/* Finds the variable's value in a NULL-terminated list of words; *out is its index. Returns 0, or
 * -EINVAL with a message that lists the choices; then *out is the fallback. */
int br_env_choice(const char *name, const char *const *choices, int fallback, int *out);

#endif
