/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a job knows of its network for choosing algorithms: the topology, which each rank derives
 * from what all have published (bootstrap.c), and the figures of the cost model, which come from
 * rank 0: its calibration (BRAID_CALIBRATION) or the defaults. So all ranks have the same to the
 * bit.
 */
#ifndef BR_COLLECTIVES_TUNING_NETWORK_H
#define BR_COLLECTIVES_TUNING_NETWORK_H

#include "collectives/tuning/cost.h"

struct br_store;

struct br_network {
    struct br_topology topology; /* owned */
    /* all ranks share fewer cores of one machine: known before br_network_init, of a BCube too */
    bool oversubscribed;
    struct br_cost_model model; /* on the topology */
    bool measured;              /* the figures are from a calibration */
    /* messages go over links of which no calibration tells: one is measured (link_trial.h) */
    bool tries_link;
    /* what it has of them, which the models borrow; owned by the job's network, or NULL */
    struct br_cost_measured *measured_configs;
};

/*
 * Fills in the model; the topology stands, but for its cores, which rank 0 knows, and so does
 * `oversubscribed`. place and rails: for the defaults (br_cost_model_on). Rank 0 reads the
 * calibration file ("": none), warns when it is stale (devices: its rails, as in a calibration),
 * and puts the figures into the store, the others get them there. store NULL: a job of one. Blocks
 * until the deadline at most. Errors of the store; of the file, with the same message on all ranks.
 */
int br_network_init(struct br_network *network, int rank, enum br_cost_locality place,
                    uint32_t rails, const char *calibration, const char *devices,
                    struct br_store *store, uint64_t deadline);
void br_network_destroy(struct br_network *network);

/* The other rank of the link that rank 0 tries: the first one on another host. */
int br_network_tried(const struct br_network *network);

/* The model has the link that rank 0 has measured, on all ranks. *link: of rank 0, alpha with all
 * that a message takes. What the model counts for a message anyway, as of the processors at its
 * ends, is taken off, and each figure becomes the power of two next to it, so that jobs on one
 * network choose alike although no two measurements are. Collective; blocks until the deadline at
 * most. Errors of the store; -EPROTO. */
int br_network_agree_on_link(struct br_network *network, int rank, const struct br_cost_level *link,
                             struct br_store *store, uint64_t deadline);

/* What `n` of its ranks have between them, with the whole's figures; each of them finds the same.
 * Hosts stay hosts; of a BCube nothing but the whole is one, other parts count as FLAT and as slow
 * as its slowest level. -ENOMEM with a message. */
int br_network_part(const struct br_network *whole, const int *ranks, int n,
                    struct br_network *part);

/* ---- is the calibration still right? --------------------------------------------------------- */

/*
 * A window of operations says that a calibration no longer predicts what operations take when all
 * of them are off by more than the bound, to the same side: so one that waited for others, or was
 * lucky, decides nothing. Under the context's lock.
 */
#define BR_CALIBRATION_DRIFT_WINDOW 32

struct br_calibration_drift {
    double bound;       /* a factor; 0: nothing is watched, nor after it was told once */
    uint32_t n;         /* operations in the window */
    double least, most; /* measured / predicted, of these */
};

/* An operation took so many seconds. Returns 0; or, once, by how much all of a window were off:
 * above 1 when they took longer than predicted, below 1 when they took less. */
double br_calibration_drift_add(struct br_calibration_drift *drift, double predicted,
                                double measured);

#endif
