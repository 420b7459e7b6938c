/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/text.h"

#include <stddef.h>
#include <stdint.h>

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
