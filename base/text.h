/* SPDX-License-Identifier: BSD-3-Clause */
/* Texts that people or other hosts write. All functions may be called from any thread. */
#ifndef BR_BASE_TEXT_H
#define BR_BASE_TEXT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Makes a text that came from another host or program safe for a terminal, a log or a report.
 * Whoever receives such a text cleans it once, where it comes in, so that nobody who prints it
 * later needs to know where it came from.
 *
 * Replaces in place by '?' what a terminal could take for a command: control characters (bytes
 * below 0x20 and 0x7f; U+0080 to U+009F in UTF-8) and bytes from 0x80 on that belong to no valid
 * UTF-8 character. A tab becomes a blank. A newline stays where `lines` is true and becomes a blank
 * otherwise. The length does not change.
 */
void br_text_clean(char *text, bool lines);

#define BR_RATE_TEXT 32 /* bytes of a rate as text, the final zero included */

/* Reads the rate of a link as `tc` writes it: a number followed by gbit, mbit, kbit or bit. *rate
 * is in bit/s. Returns 0, or -EINVAL with a message; then *rate is unchanged. */
int br_rate_parse(const char *text, uint64_t *rate);

/* Writes the shortest exact form of a rate into out, which holds BR_RATE_TEXT bytes. Returns
 * out. */
char *br_rate_print(uint64_t rate, char *out);

#endif
