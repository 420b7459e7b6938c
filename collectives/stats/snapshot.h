/* SPDX-License-Identifier: BSD-3-Clause */
/* The counters of one rank at one moment, as text and back. Everything here follows the tables of
 * braid/stats.h; no clock, no lock. */
#ifndef BR_COLLECTIVES_STATS_SNAPSHOT_H
#define BR_COLLECTIVES_STATS_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <braid/braid.h>

#define BR_JOB_TEXT 17 /* hexadecimal, with the final zero */
#define BR_JOB_NAME 64 /* braid_job_name() */

#define BR_RANK_SOCKET "%s.%d.%d.sock" /* of the socket of a rank: job, rank, process */

/* Takes the name of a socket apart. Returns false if it is not one of a rank. */
bool br_socket_parse(const char *name, char job[BR_JOB_TEXT], int *rank, int *pid);

struct br_snapshot {
    char job[BR_JOB_TEXT];  /* the same on all ranks of a job */
    char name[BR_JOB_NAME]; /* what people call it; "": it has none */
    int rank, size, pid;
    uint64_t at; /* ns, as br_clock_now() of its host */
    struct braid_stats stats;
    int n_peers, n_rails;
    struct braid_peer_stats *peers; /* [n_peers] */
    struct braid_rail_stats *rails; /* [n_rails] */
};

struct br_counter {
    const char *name; /* of the field */
    size_t offset;    /* of its uint64_t */
    bool gauge;
    const char *help;
};

/* In the order of their structs; NULL names end them. */
extern const struct br_counter br_counters_rank[], br_counters_peer[], br_counters_rail[];

/* Frees what is in it, not the struct. */
void br_snapshot_free(struct br_snapshot *snapshot);

/* Returns the snapshot as JSON, which the caller frees; NULL: no memory. */
char *br_snapshot_json(const struct br_snapshot *snapshot);
/* Reads what br_snapshot_json() has written; missing fields are 0. On success br_snapshot_free()
 * frees it. Returns 0, -EPROTO with a message for any other text, or -ENOMEM. */
int br_snapshot_parse(const char *json, struct br_snapshot *snapshot);

/* Writes all snapshots in Prometheus' text format, version 0.0.4; each metric once, with the ranks
 * as labels. */
void br_snapshot_prometheus(const struct br_snapshot *snapshots, int n, FILE *out);

#endif
