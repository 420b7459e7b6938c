/* SPDX-License-Identifier: BSD-3-Clause */
/* The counters of a running rank on a local socket, for `braid top` and Prometheus. */
#ifndef BR_COLLECTIVES_STATS_STATS_SERVER_H
#define BR_COLLECTIVES_STATS_STATS_SERVER_H

struct br_context;

/* Starts the server and its thread, unless BRAID_STATS is off. Always returns 0: what is not
 * possible is logged. */
int br_stats_server_open(struct br_context *context);

/* Ends the thread and waits for it. */
void br_stats_server_close(struct br_context *context);

#endif
