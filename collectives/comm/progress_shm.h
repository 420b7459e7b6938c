/* SPDX-License-Identifier: BSD-3-Clause */
/* Small collectives of one host, each run by its caller until it has ended. */
#ifndef BR_COLLECTIVES_COMM_PROGRESS_SHM_H
#define BR_COLLECTIVES_COMM_PROGRESS_SHM_H

#include <stdbool.h>

struct braid_comm;
struct br_operation;

/* For a caller of br_progress_shm() that does not wait for longer than op->wait. */
struct br_going_on {
    /* under the lock: an operation of the pool that is the same call; NULL: there is none, so wait
     * on */
    struct br_operation *(*make)(struct br_going_on *going_on);
    /* made, and under way; NULL: the operation has ended. Its `wait` is what is left of the
     * caller's, and it has no `done` yet: the caller asks for that when it does not wait any
     * longer (br_completion_ask()) */
    struct br_operation *op;
};

/* Runs a small collective of one host in the calling thread (executor.h). Returns false when that
 * is not possible now; then the operation is submitted like any other. going_on: NULL if the caller
 * waits for as long as it takes. */
bool br_progress_shm(struct braid_comm *comm, struct br_operation *op,
                     struct br_going_on *going_on);

#endif
