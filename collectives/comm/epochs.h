/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Views: what the ranks of a BCube know together of its broken links, so that they plan all-reduces
 * around them, all in the same way. Belongs to the communicator of all ranks. Under the context's
 * lock; never blocks.
 *
 * 1. In rounds. Round r is an all-gather, in a group of its own, of the neighbours whose rails are
 *    down; from it each rank makes view r, a forest (bcube/disjoint_trees.h), the same on all
 *    ranks. View 0 is the whole cube.
 * 2. When is common knowledge, as all ranks make the same calls: a round is due whenever
 *    all-reduces that may be planned by a forest come to BR_EPOCHS_BYTES. What is submitted after
 *    round r was due and before round r + 1 is, is planned by view r - 1. So nobody waits for a
 *    round that is fast enough; who does not yet know its view keeps the operation until it does.
 * 3. A round begins when the one before has ended here. A view that is wrong by now (a rail has
 *    broken since, or has come back) costs time alone: what is not reached directly is relayed, as
 *    always.
 * 4. A round's order is the next behind the operation that has made it due, which all ranks agree
 *    on, whenever that or the round begins (an operation that waits for a stream begins late). So
 *    it is older than whatever waits for it, and what is kept for the oldest operation
 *    (admission.c; doc/design/rails.md, section 4) serves it when its turn has come; also its
 *    messages that have to go again, after it has ended here. Rejected: the youngest of all, which
 *    has what is kept while the oldest waits for its view: when a rail is lost just after a round
 *    has ended here, its messages have to go again behind those of later operations, which the
 *    other end, waiting for the round, does not take.
 *
 * Rejected: who sees a fault tells the others at once. That the ranks know is not enough, they have
 * to begin with it at the same operation. Rejected: a coordinator that stops all and asks how far
 * they are: two messages more, with rules of their own for ranks that do not answer. Rejected:
 * plans of single ranks, by other weights of relays: hosts that have lost a NIC still own as many
 * pieces as the others, and cannot get below 1.8 T_F.
 */
#ifndef BR_COLLECTIVES_COMM_EPOCHS_H
#define BR_COLLECTIVES_COMM_EPOCHS_H

#include "bcube/disjoint_trees.h"
#include "collectives/engine/group.h"
#include "collectives/engine/operation.h"

#define BR_EPOCHS_BYTES (16u << 20)
#define BR_EPOCHS_GROUP (BR_MAX_GROUPS - 1) /* its number */
/* rounds that are due and have not ended: each has operations of its own that wait for it */
#define BR_EPOCHS_MAX_ROUNDS 2048u

struct br_context;

struct br_epochs {
    struct br_group group;
    struct br_operation op; /* the round under way */
    /* what it gathers: br_worker_broken_links() of each rank */
    uint64_t local_links, *all_links;
    /* rounds; as many as group.known of the ranks' communicator have ended */
    uint64_t due_rounds, begun_rounds;
    uint64_t orders[BR_EPOCHS_MAX_ROUNDS];     /* of the rounds, by number */
    uint64_t bytes;                            /* of all-reduces since the last one was due */
    struct br_disjoint_trees **disjoint_trees; /* all that there have been: plans hold them */
    uint32_t n_disjoint_trees;
};

/* Nothing but 0 where the job is no BCube, or too large a one. Called before anything is submitted.
 * -ENOMEM. */
int br_epochs_create(struct br_context *context);
void br_epochs_destroy(struct br_context *context); /* no operation is under way */

/* An operation is about to be submitted. If it is an all-reduce of all ranks: sets its view; begins
 * a round if one is due. */
void br_epochs_assign(struct br_context *context, struct br_operation *op, uint64_t now);
/* The round has ended. */
void br_epochs_round_ended(struct br_context *context, uint64_t now);

/* Pure: the NICs that explain what the ranks miss, each as br_worker_broken_links() says: those
 * with the most broken links first. Of a link with two candidates the lower host's. -ENOMEM. */
int br_epochs_failures(const struct br_bcube *cube, const uint64_t *broken,
                       struct br_failures *failures);

#endif
