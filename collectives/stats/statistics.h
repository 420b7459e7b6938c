/* SPDX-License-Identifier: BSD-3-Clause */
/* The counters of a communicator. */
#ifndef BR_COLLECTIVES_STATS_STATISTICS_H
#define BR_COLLECTIVES_STATS_STATISTICS_H

struct braid_comm;
struct br_snapshot;

/* Fills *snapshot. Under the context's lock. n_peers and n_rails of *snapshot say how many entries
 * there is room for. */
void br_statistics_take(struct braid_comm *comm, struct br_snapshot *snapshot);

#endif
