/* SPDX-License-Identifier: BSD-3-Clause */
/* The simulated side of `braid plan --model --simulate`: a network from the command line, a and b
 * as they are on it, and iterations on it. One thread; takes processor time in proportion to ranks,
 * bytes and iterations. */
#ifndef BR_TOOLS_PLAN_SIMULATE_H
#define BR_TOOLS_PLAN_SIMULATE_H

#include "tools/plan/settings.h"
#include "tools/sim/training.h"
#include "training/session/policy.h"

struct br_plan_simulation {
    struct br_sim_job_config config;
    const char *algorithm;
    uint32_t iterations;
    struct br_trace **traces; /* [config.topology->n], owned; NULL: not recorded */
};

/* model: its topology is the network's; its figures are replaced by those of the simulated links in
 * config.model. -EINVAL with a message. */
int br_plan_simulation_open(struct br_plan_simulation *simulation,
                            const struct br_plan_settings *set, const struct br_cost_model *model);

/* a and b of all-reduces of the sizes that groups of the workload may have. */
int br_plan_simulation_cost(const struct br_plan_simulation *simulation,
                            const struct br_workload *work, struct br_cost_line *cost);

/* What an urgent all-reduce takes longer while another is under way (workload.h); work->line is
 * known. */
int br_plan_simulation_overtake(const struct br_plan_simulation *simulation,
                                const struct br_workload *work, double *behind);

/* What BRAID_TRACE asks for (doc/trace.md): a file for each rank of the simulation, in virtual
 * time, with all details unless BRAID_TRACE_DETAIL says otherwise. traces stays NULL where
 * BRAID_TRACE is not set. Errors of the variables and of the files, with a message. */
int br_plan_simulation_open_traces(struct br_plan_simulation *simulation);
/* rc: of the work; if it is negative, older files stay as they were and rc is returned. Otherwise
 * 0, or a negative errno with a message: a file could not be written. Blocks on the disk. */
int br_plan_simulation_close_traces(struct br_plan_simulation *simulation, int rc);

/* Some iterations by a plan, on a network without a past; line: as in br_sim_training_run().
 * traces: writes simulation->traces, too; the times are the same. */
int br_plan_simulation_run(const struct br_plan_simulation *simulation,
                           const struct br_workload *work, const struct br_policy_plan *plan,
                           bool traces, struct br_timeline *line);

#endif
