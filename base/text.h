/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Texts that come from other hosts and programs and may reach a terminal, a log or a report.
 * Whoever receives one cleans it once, where it comes in, so that nobody who prints it later needs
 * to know where it is from.
 */
#ifndef BR_BASE_TEXT_H
#define BR_BASE_TEXT_H

#include <stdbool.h>

/*
 * Replaces, in place, what a terminal could take for a command by '?': control characters (bytes
 * below 0x20 and 0x7f; U+0080 to U+009F in UTF-8) and bytes from 0x80 on that belong to no valid
 * UTF-8 character. A tab becomes a blank; a newline stays where `lines` is true and becomes a blank
 * otherwise. The length does not change. Pure.
 */
void br_text_clean(char *text, bool lines);

#endif
