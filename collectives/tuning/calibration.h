/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A calibration: the figures of the cost model as somebody has measured them, in a JSON file
 * (doc/calibrate.md). Not thread-safe; blocks on the file.
 */
#ifndef BR_COLLECTIVES_TUNING_CALIBRATION_H
#define BR_COLLECTIVES_TUNING_CALIBRATION_H

#include "braid/types.h"
#include "collectives/tuning/cost.h"

#define BR_CALIBRATION_TEXT       128
#define BR_CALIBRATION_STALE_TEXT 400

/* One link while no other one is busy. */
struct br_calibration_link {
    uint32_t from, to; /* ranks */
    uint8_t level;
    uint32_t n_trips, n_streams;
    double trip_bytes[BR_COST_FIT_POINTS], trip_seconds[BR_COST_FIT_POINTS];
    double stream_bytes[BR_COST_FIT_POINTS], stream_seconds[BR_COST_FIT_POINTS];
    struct br_cost_fit trips; /* start: alpha. Half of there and back over its bytes */
    /* start: overhead, slope: beta. A message that follows another over its bytes */
    struct br_cost_fit streams;
};

/* Seconds a byte between neighbours of a level; 0: not measured. */
struct br_calibration_congestion {
    double alone;  /* the median of its links, one at a time */
    double level;  /* while all ranks send on this level */
    double levels; /* while all ranks send on all levels */
};

struct br_calibration {
    char topology[BR_TOPOLOGY_TEXT]; /* on which it was measured (br_topology_text) */
    char version[16];                /* of braid */
    char date[32];                   /* "2026-11-21T15:04:05Z" */
    /* of rank 0: "Linux 6.18.1 x86_64"; "": not known, as the next */
    char system[BR_CALIBRATION_TEXT];
    char devices[BR_CALIBRATION_TEXT]; /* of rank 0's rails, with commas: "tcp:eth0,tcp:eth1" */
    struct br_cost_model model;        /* its topology and what it has measured of ways are NULL */
    double types[BRAID_TYPES];         /* s for a byte of a sum; 0: not measured */
    struct br_calibration_congestion congestion[BR_COST_LEVELS];
    uint32_t n_measured;
    struct br_cost_measured measured[BR_COST_MEASURED];
    /* for br_calibration_write(); borrowed. br_calibration_read() sets NULL */
    const struct br_calibration_link *links;
    uint32_t n_links;
};

/* Read and write a file. Return 0; -EINVAL with a message that names the file and what is wrong in
 * it; -ENOMEM; or an error of the file, with a message. */
int br_calibration_read(const char *path, struct br_calibration *calibration);
int br_calibration_write(const char *path, const struct br_calibration *calibration);

/* Returns 0 if a job on this topology may use the calibration, which has to be of the same kind
 * with as many levels; else -EINVAL with a message. */
int br_calibration_check(const struct br_calibration *calibration,
                         const struct br_topology *topology);

/* Writes what has changed since the calibration was measured, for a warning. Returns false when
 * nothing has. devices: as in the calibration; "": not known. oversubscribed: do all ranks share
 * fewer cores of one machine? NULL: not known. */
bool br_calibration_stale(const struct br_calibration *calibration,
                          const struct br_topology *topology, const char *devices,
                          const bool *oversubscribed, char text[BR_CALIBRATION_STALE_TEXT]);

#endif
