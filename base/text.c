/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"

/* Bytes of the valid UTF-8 character at `at`, which is longer than one byte; 0: it is none, or a
 * control character. */
static size_t text_character(const uint8_t *at)
{
    size_t n = at[0] >= 0xf0 && at[0] <= 0xf4 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    uint32_t code = at[0] & (0xffu >> (n + 1));

    if (at[0] < 0xc2 || at[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0; /* also the final zero: nothing behind it is read */
        code = code << 6 | (at[i] & 0x3f);
    }
    if (code < 0xa0 || (n == 3 && code < 0x800) ||
        (n == 4 && (code < 0x10000 || code > 0x10ffff)) ||
        (code >= 0xd800 && code <= 0xdfff)) /* written too long, or no character */
        return 0;
    return n;
}

void br_text_clean(char *text, bool lines)
{
    uint8_t *at = (uint8_t *)text;

    while (*at) {
        size_t n = *at >= 0x80 ? text_character(at) : 0;

        if (n) {
            at += n;
            continue;
        }
        if (*at == '\t' || (*at == '\n' && !lines))
            *at = ' ';
        else if ((*at < 0x20 && *at != '\n') || *at >= 0x7f)
            *at = '?';
        at++;
    }
}

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
