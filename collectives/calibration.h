/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A calibration: the figures of the cost model as somebody has measured them, in a JSON file (doc/plan.md). Not thread-safe;
 * blocks on the file.
 */
#ifndef BR_COLLECTIVES_CALIBRATION_H
#define BR_COLLECTIVES_CALIBRATION_H

#include "collectives/cost.h"

struct br_calibration {
    char topology[BR_TOPOLOGY_TEXT]; /* on which it was measured (br_topology_text) */
    char version[16];                /* of braid */
    char date[32];                   /* "2026-11-21T15:04:05Z" */
    struct br_cost_model model;      /* its topology is NULL */
};

/* -ENOENT and others, -EINVAL with words that name the file and what is wrong in it; -ENOMEM. */
int br_calibration_read(const char *path, struct br_calibration *calibration);
int br_calibration_write(const char *path, const struct br_calibration *calibration);

/* May a job on this topology use it? It has to be of the same kind with as many levels. -EINVAL with words. */
int br_calibration_check(const struct br_calibration *calibration, const struct br_topology *topology);

#endif
