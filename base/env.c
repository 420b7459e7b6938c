/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/env.h"

#include "base/error.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN 60 /* characters of a bad value that an error repeats */

/* NULL when the variable is unset or empty, which both mean "use the fallback". */
static const char *env_value_of(const char *name)
{
    const char *text = getenv(name);

    return text && *text ? text : NULL;
}

bool br_env_is_set(const char *name)
{
    return env_value_of(name) != NULL;
}

const char *br_env_pick(const char *own, const char *other)
{
    return br_env_is_set(own) ? own : other;
}

int br_env_number(const char *name, int64_t min, int64_t max, int64_t fallback, int64_t *out)
{
    const char *text = env_value_of(name);
    long long number;
    char *end;

    *out = fallback;
    if (!text)
        return 0;
    errno = 0;
    number = strtoll(text, &end, 10);
    if (errno || end == text || *end || isspace((unsigned char)*text) || number < min ||
        number > max)
        return br_error(EINVAL, "%s=%.*s is not a whole number from %" PRId64 " to %" PRId64, name,
                        SHOWN, text, min, max);
    *out = number;
    return 0;
}

/* The power of two behind a size suffix, or -1. */
static int shift_of(const char *suffix)
{
    static const char letters[] = "KMG";
    const char *letter;

    if (!*suffix)
        return 0;
    letter = strchr(letters, toupper((unsigned char)*suffix));
    return letter && !suffix[1] ? 10 * (int)(letter - letters + 1) : -1;
}

int br_parse_bytes(const char *text, uint64_t *out)
{
    unsigned long long number;
    char *end;
    int shift;

    if (!isdigit((unsigned char)*text)) /* strtoull would take "-1" and " 1" */
        return -EINVAL;
    errno = 0;
    number = strtoull(text, &end, 10);
    shift = shift_of(end);
    if (errno || shift < 0 || number > UINT64_MAX >> shift)
        return -EINVAL;
    *out = (uint64_t)number << shift;
    return 0;
}

int br_env_bytes(const char *name, uint64_t min, uint64_t max, uint64_t fallback, uint64_t *out)
{
    const char *text = env_value_of(name);
    uint64_t bytes;

    *out = fallback;
    if (!text)
        return 0;
    if (br_parse_bytes(text, &bytes) < 0 || bytes < min || bytes > max)
        return br_error(EINVAL,
                        "%s=%.*s is not a number of bytes from %" PRIu64 " to %" PRIu64
                        " (K, M, G may follow)",
                        name, SHOWN, text, min, max);
    *out = bytes;
    return 0;
}

int br_env_choice(const char *name, const char *const *choices, int fallback, int *out)
{
    const char *text = env_value_of(name);
    char list[BR_ERROR_BYTES] = "";
    size_t at = 0;

    *out = fallback;
    if (!text)
        return 0;
    for (int i = 0; choices[i]; i++) {
        if (strcmp(text, choices[i]) == 0) {
            *out = i;
            return 0;
        }
        if (at < sizeof list)
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", choices[i]);
    }
    return br_error(EINVAL, "%s=%.*s is none of: %s", name, SHOWN, text, list);
}
