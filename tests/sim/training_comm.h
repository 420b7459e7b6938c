/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What training/ calls of a communicator, in virtual time: the linker replaces those functions
 * (--wrap, in tests/CMakeLists.txt), and operations go to a simulated job. A rank may not block
 * there, so braid_wait() takes only operations that have ended.
 */
#ifndef TESTS_SIM_TRAINING_COMM_H
#define TESTS_SIM_TRAINING_COMM_H

#include "collectives/comm/comm.h"
#include "collectives/engine/operation.h"
#include "tools/sim/job.h"

/* The job of the test that runs; a communicator of it only needs `rank` and `size`. */
extern struct br_sim_job training_job;

/* Submits a copy of the operation for the communicator's rank, with the priority and tag of
 * `options`. *op is freed by braid_wait(). */
int training_submit(struct braid_comm *comm, struct br_operation like,
                    const struct braid_options *options, struct braid_op **op);

/* The job's callback `ended`. */
void training_ended(void *with, uint32_t rank, struct br_operation *op, uint64_t now);

bool training_has_ended(const struct braid_op *op);

#endif
