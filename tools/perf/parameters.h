/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What both sides of a test must agree on, as text: a line "name value" each. Pure.
 *
 * The client's options count. What the server's user did not say, the server takes from them; what
 * its user did say must be the same. So a server without options serves any client, and perftest's
 * way, the same options on both sides, works as well. Messages under way, receives posted ahead and
 * the like (-t, -r, -l, -Q) are taken too, but may differ where the server's user says so. All else
 * (output, devices, limits, sleeping) is each side's own.
 */
#ifndef BR_TOOLS_PERF_PARAMETERS_H
#define BR_TOOLS_PERF_PARAMETERS_H

#include <stddef.h>

#include "tools/perf/settings.h"

#define BR_PERF_TEXT 4096 /* bytes of one message of the exchange, the final zero included */

void br_perf_parameters_write(const struct br_perf_settings *settings, char text[BR_PERF_TEXT]);

/* The server: *agreed becomes what was asked with what the client's text adds, complete. 0; 1: that
 * does not go together, and `text` says why; -EPROTO with a message: `client` is no such text, or
 * has figures that no client could be given. */
int br_perf_parameters_agree(const struct br_perf_settings *asked, const char *client,
                             struct br_perf_settings *agreed, char text[BR_PERF_TEXT]);

/* 0; 1: they differ, and `text` says in what ("-s: 64 at the server, 128 at the client"); -EPROTO
 * with a message: `theirs` is no such text. */
int br_perf_parameters_compare(const char *server, const char *client, char text[BR_PERF_TEXT]);

/* The value of a line of such a text; NULL: there is none. Ends at the line's end: *length. */
const char *br_perf_parameters_find(const char *text, const char *name, size_t *length);

#endif
