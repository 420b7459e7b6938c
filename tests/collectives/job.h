/* SPDX-License-Identifier: BSD-3-Clause */
/* A job of n ranks in one process: worker and engine of each over the simulator. For tests of what
 * runs on engines. */
#ifndef BR_TESTS_COLLECTIVES_JOB_H
#define BR_TESTS_COLLECTIVES_JOB_H

#include "collectives/engine/backlog.h"
#include "collectives/engine/engine.h"
#include "transport/sim/sim.h"

struct job_region {
    struct br_region region;
    int gpu; /* that it lies on, as br_gpu_of() says; 0: host memory */
    int uses;
};

struct job_rank {
    struct br_worker *worker;
    struct br_engine *engine;
    struct job_region exposed; /* what region_find() offers, number 1; no memory: nothing */
    uint64_t next_order, next_sequence;
    struct br_backlog backlog; /* of collectives */
    struct br_list ended;      /* operations that nobody has looked at yet */
};

struct job {
    struct br_sim *sim;
    struct job_rank *ranks;
    int n;
    int ended; /* operations so far, all ranks */
};

struct job_options {
    int n, rails;
    struct br_sim_config network;
    struct br_engine_config engine;
    uint32_t eager_bytes; /* 0: 1024 */
    uint32_t max_slots;   /* 0: 1024 */
};

/* Everything connected, or the test fails. */
void job_create(struct job *job, const struct job_options *options);
void job_destroy(struct job *job);

/* Submits as the communicator does; timeout 0: 20 s of virtual time. Fails the test on an error. */
void job_submit(struct job *job, int rank, struct br_operation *op);
int job_try_submit(struct job *job, int rank, struct br_operation *op);

/* Memory of a rank that others put to and get from, all zero; the caller frees it. */
uint8_t *job_expose(struct job *job, int rank, size_t bytes);
/* A put to that memory. */
struct br_operation job_put(int rank, const uint8_t *from, size_t bytes, uint64_t offset);
/* Has every byte of such memory this value? */
bool job_is_all(const uint8_t *memory, size_t bytes, uint8_t value);

/* One turn of every rank, then on to the next event. false: nothing will ever happen. */
bool job_step(struct job *job);
/* Until `ended` operations have ended; fails the test when that does not happen. */
void job_run(struct job *job, int ended);

#endif
