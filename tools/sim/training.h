/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Iterations of data-parallel training on a simulated job: every rank computes for the times of the
 * workload, its gradients travel in the groups of a merge plan, by the priorities that a session
 * gives them, and a layer's forward pass waits for its gradient.
 *
 * 1. A session's calls block, and nothing may block here. So the ranks are state machines that do
 *    what gradient.c does: groups, priorities and the all-reduces are the session's own
 *    (training/session/group.h).
 * 2. All ranks have their gradients in the same memory. The sums mean nothing then, but time is the
 *    same, and a thousand hosts need no more memory than one.
 */
#ifndef BR_TOOLS_SIM_TRAINING_H
#define BR_TOOLS_SIM_TRAINING_H

#include "tools/sim/job.h"
#include "training/session/timeline.h"

struct br_sim_training {
    const struct br_workload *work; /* line is not looked at */
    const uint8_t *joins;           /* merge plan (training/session/merge.h) */
    bool urgent;
    const char *algorithm; /* of the all-reduces; NULL: the engine chooses */
    /* at least 2: the first one does not count, as its memory is new to the engine */
    uint32_t iterations;
    /* [ranks] the timeline of each (base/trace.h), borrowed: gets the rank's operations, steps and
     * frames. Then the spans of `line` are not those of frames. NULL: none */
    struct br_trace **traces;
};

/*
 * Runs them. line: opened for the layers (timeline.h); becomes rank 0's last iteration, with
 * iteration and exposed of the slowest rank, the mean of all iterations that count. A group's spans
 * are when frames of it left rank 0: one that is overtaken has several, and those of groups that
 * share the links overlap. -errno with a message.
 */
int br_sim_training_run(struct br_sim_job *job, const struct br_sim_training *training,
                        struct br_timeline *line);

/* Seconds of an all-reduce of `bytes` that starts `after` seconds after a less urgent one of
 * `others` bytes. */
int br_sim_training_overtake(struct br_sim_job *job, const char *algorithm, uint64_t bytes,
                             uint64_t others, double after, double *seconds);

/* Seconds of one of `at_once` all-reduces of so many bytes, started together by all ranks. */
int br_sim_training_time(struct br_sim_job *job, const char *algorithm, uint64_t bytes,
                         uint32_t at_once, double *seconds);

#endif
