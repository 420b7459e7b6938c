/* SPDX-License-Identifier: BSD-3-Clause */
/* A cluster of workers over the simulator, for the tests of the protocol: n ranks, r rails each; or
 * a BCube. */
#ifndef BR_TESTS_PROTOCOL_CLUSTER_H
#define BR_TESTS_PROTOCOL_CLUSTER_H

#include "protocol/worker.h"
#include "transport/sim/sim.h"

/* The workers' where a test gives none. */
extern const struct br_worker_config cluster_defaults;

struct cluster {
    struct br_sim *sim;
    struct br_worker **workers; /* [n] */
    int n, rails;               /* rails: of a mesh; levels of a cube */
    struct br_bcube cube;       /* hosts 0: a mesh */
    int done;                   /* transfers ended so far, all ranks */
};

/* Everything connected, or the test fails. config: of the network; worker: NULL for the defaults,
 * rank and size are filled in. */
void cluster_create(struct cluster *c, int n, int rails, const struct br_sim_config *config,
                    const struct br_worker_config *worker);
/* The same as a BCube(n,k): device i of a rank is level i, and only neighbours have rails. */
void cluster_create_bcube(struct cluster *c, int n, int k, const struct br_sim_config *config,
                          const struct br_worker_config *worker);
void cluster_destroy(struct cluster *c);
/* One turn of every worker that has something to do, then on to the next event. false: nothing will
 * ever happen. */
bool cluster_step(struct cluster *c);
/* Steps until `done` transfers have ended, a worker has failed or `until` (virtual ns) has come. */
void cluster_run(struct cluster *c, int done, uint64_t until);

#endif
