/* SPDX-License-Identifier: BSD-3-Clause */
/* What both sides of a test must agree on, as text: a line "name value" each. Pure. */
#ifndef BR_TOOLS_PERF_PARAMETERS_H
#define BR_TOOLS_PERF_PARAMETERS_H

#include <stddef.h>

#include "tools/perf/settings.h"

#define BR_PERF_TEXT 4096 /* bytes of one message of the exchange, the final zero included */

void br_perf_parameters_write(const struct br_perf_settings *settings, char text[BR_PERF_TEXT]);

/* 0; 1: they differ, and `words` says in what ("-s: 64 at the server, 128 at the client"); -EPROTO with words: `theirs` is
 * no such text. */
int br_perf_parameters_compare(const char *server, const char *client, char words[BR_PERF_TEXT]);

/* The value of a line of such a text; NULL: there is none. Ends at the line's end: *length. */
const char *br_perf_parameters_find(const char *text, const char *name, size_t *length);

#endif
