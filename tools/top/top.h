/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of `braid top`: the jobs of this host that serve statistics (doc/stats.md), and the
 * table of what has changed between two snapshots of each rank. */
#ifndef BR_TOOLS_TOP_TOP_H
#define BR_TOOLS_TOP_TOP_H

#include "collectives/stats/snapshot.h"

/* A rank's socket. */
struct br_rank_socket {
    char job[BR_JOB_TEXT];
    int rank, pid;
    char path[400];
    char name[BR_JOB_NAME]; /* of the job, by br_jobs_name(); "" before */
};

/* All sockets of the folder, by job and rank, for free(); those of processes that are gone are
 * removed instead, and counted in *gone. Returns how many, or -errno with a message. A folder that
 * is not there has none. */
int br_jobs_find(const char *folder, struct br_rank_socket **sockets, int *gone);

/* Asks the first rank of each job for its name; "" where it does not answer. */
void br_jobs_name(struct br_rank_socket *sockets, int n);

/* Asks each; ranks that do not answer within a second are left out, with a message on stderr. [n]
 * places; returns how many were filled. */
int br_jobs_ask(const struct br_rank_socket *sockets, int n, struct br_snapshot *snapshots);

/* Pure. before[n_before] need not have the same ranks as now[n]: a rank that is in one only has no
 * rates. rows: the most lines that the table may have; 0: any number. */
void br_top_print(const struct br_snapshot *before, int n_before, const struct br_snapshot *now,
                  int n, int rows, FILE *out);

#endif
