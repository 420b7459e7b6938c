/* SPDX-License-Identifier: BSD-3-Clause */
/* Small collectives of one host, each run by its caller until it has ended. */
#ifndef BR_COLLECTIVES_COMM_PROGRESS_SHM_H
#define BR_COLLECTIVES_COMM_PROGRESS_SHM_H

#include <stdbool.h>

struct braid_comm;
struct br_api_even;
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

enum br_small { BR_SMALL_NOT_BEGUN, BR_SMALL_BEGUN, BR_SMALL_COMPLETE };

/* Runs a small call on the shared segment without an operation (shm/small.h). comm->shm: not NULL.
 * NOT_BEGUN: it is none, or that is not possible now. BEGUN: others are not as far yet, and the
 * calling thread has the lock: it makes an operation of the call and gives that to
 * br_progress_small_go_on(), which releases the lock. */
enum br_small br_progress_small(struct braid_comm *comm, const struct br_api_even *call);
void br_progress_small_go_on(struct braid_comm *comm, struct br_operation *op);

#endif
