/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Texts of callers that are kept, each once, in a table of fixed size: no allocation when one is
 * added, and its address holds until the table is freed. Safe from any thread.
 */
#ifndef BR_BASE_TITLES_H
#define BR_BASE_TITLES_H

#define BR_TITLES      2048u /* different ones */
#define BR_TITLE_BYTES 64u   /* of one, with its end; longer ones are cut */

struct br_titles;

/* -ENOMEM with a message. */
int br_titles_open(struct br_titles **titles);
void br_titles_close(struct br_titles *titles); /* NULL allowed */

/* The kept copy, in which whatever is not printable ASCII, or would end a string of JSON, is '?'.
 * NULL: the text is empty, or the table is full. */
const char *br_titles_keep(struct br_titles *titles, const char *text);

#endif
