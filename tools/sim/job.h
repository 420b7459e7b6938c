/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job of any number of ranks in this process: the engine and the protocol as they are, over the
 * simulator (transport/sim), in virtual time. One thread. A program that runs on it may not block:
 * it has a turn whenever something has happened to its rank.
 *
 *     br_sim_job_open(&job, &config);
 *     br_sim_job_connect(&job);
 *     job.program = ...;
 *     while (!done && !rc)
 *         rc = br_sim_job_advance(&job);
 *     br_sim_job_close(&job);
 */
#ifndef BR_TOOLS_SIM_JOB_H
#define BR_TOOLS_SIM_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "collectives/engine/engine.h"
#include "transport/sim/sim.h"

struct br_sim_job_config {
    /* FLAT, everybody linked with everybody, or BCUBE, neighbours only; borrowed */
    const struct br_topology *topology;
    uint32_t rails; /* FLAT: to each peer, 1 or more */
    struct br_sim_config network;
    struct br_cost_model model;        /* of the topology; the engine chooses by it */
    uint32_t chunk_bytes;              /* of a fragment (engine.h); 0: the default */
    uint32_t slice_bytes, eager_bytes; /* 0: the defaults of a communicator */
    uint32_t max_slots;                /* of each rank; 0: 2048, as there may be many ranks */
    /* BCUBE: for the algorithm of this name; borrowed, NULL: there is none */
    const struct br_disjoint_trees *trees;
};

/* What runs on each rank. NULL functions are not called. now: what the rank's clock shows. */
struct br_sim_job_program {
    void *with;
    void (*ended)(void *with, uint32_t rank, struct br_operation *op, uint64_t now);
    /* Returns when it wants the next turn at the latest; UINT64_MAX: when something has
     * happened. */
    uint64_t (*progress)(void *with, uint32_t rank, uint64_t now);
};

struct br_sim_job_rank {
    struct br_worker *worker;
    struct br_engine *engine;
    struct br_list ended; /* operations that the program has not heard of yet */
    uint64_t submitted;   /* operations so far */
};

struct br_sim_job {
    struct br_sim_job_config config;
    struct br_sim *sim;
    struct br_sim_job_rank *ranks;
    uint32_t n, leaves; /* leaves: n, up to the next power of two */
    /* [2 * leaves] tree of virtual times: the rank's next turn at the latest, at leaves + rank; at
     * i the smaller one of 2i and 2i + 1 */
    uint64_t *wake;
    struct br_sim_job_program program;
};

/* 0 and br_sim_job_close() afterwards, or -errno with a message and nothing to close. */
int br_sim_job_open(struct br_sim_job *job, const struct br_sim_job_config *config);
void br_sim_job_close(struct br_sim_job *job);

/* Links everybody with everybody, or in a BCube with its neighbours; returns when all links are
 * up. */
int br_sim_job_connect(struct br_sim_job *job);

/* In a FLAT job only the links that this collective takes, as far as they are missing: among
 * thousands of hosts all of them have no room. op: as for br_sim_job_submit(), the same for all
 * ranks; only looked at. In a BCube as br_sim_job_connect(). */
int br_sim_job_connect_for(struct br_sim_job *job, const struct br_operation *op);

/* The rank has something to do at the next advance. */
void br_sim_job_wake(struct br_sim_job *job, uint32_t rank);

/* Gives the rank an operation: kind, arguments, memory, priority, algorithm are the caller's;
 * order, sequence and deadline are set here. Every rank must submit the same collectives in the
 * same order. The operation is the job's until `ended`. */
int br_sim_job_submit(struct br_sim_job *job, uint32_t rank, struct br_operation *op);

/* Turns for all who have something to do, then on to the next moment at which something happens.
 * -ETIMEDOUT with a message: nobody had something to do, and nothing will happen within an hour of
 * virtual time. */
int br_sim_job_advance(struct br_sim_job *job);

#endif
