/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/rate.h"

#include "base/error.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define RATE_MAX 1e15

static const struct unit {
    const char *name;
    uint64_t bits;
} units[] = {{"gbit", 1000000000}, {"mbit", 1000000}, {"kbit", 1000}, {"bit", 1}};
#define N_UNITS (sizeof units / sizeof *units)

int br_rate_parse(const char *text, uint64_t *rate)
{
    const char *unit = text + strspn(text, "0123456789.");
    char *end = NULL;
    double number = isdigit((unsigned char)*text) ? strtod(text, &end) : -1;

    for (size_t i = 0; i < N_UNITS && number >= 0; i++) {
        double bits = number * (double)units[i].bits;

        if (end == unit && !strcasecmp(unit, units[i].name) && bits >= 1 && bits <= RATE_MAX) {
            *rate = (uint64_t)(bits + 0.5);
            return 0;
        }
    }
    return br_error(EINVAL, "'%s' is no rate: write it as 500mbit, 2.5gbit or 64kbit", text);
}

char *br_rate_print(uint64_t rate, char *out)
{
    size_t i = 0;

    while (i + 1 < N_UNITS && (rate == 0 || rate % units[i].bits))
        i++;
    snprintf(out, BR_RATE_TEXT, "%" PRIu64 "%s", rate / units[i].bits, units[i].name);
    return out;
}
