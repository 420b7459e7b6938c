/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Epochs: what the ranks of a BCube know together of its broken links, so that they all plan
 * all-reduces around them in the same way. They belong to the communicator of all ranks. All
 * functions are called under the context's lock and never block. doc/design/epochs.md says how the
 * ranks agree.
 */
#ifndef BR_COLLECTIVES_COMM_EPOCHS_H
#define BR_COLLECTIVES_COMM_EPOCHS_H

#include "bcube/disjoint_trees.h"
#include "collectives/engine/group.h"
#include "collectives/engine/operation.h"

#define BR_EPOCHS_BYTES (16u << 20)
#define BR_EPOCHS_GROUP (BR_MAX_GROUPS - 1) /* its number */
/* rounds that are due and have not ended; each has operations under way that wait for it */
#define BR_EPOCHS_MAX_ROUNDS 2048u

struct br_context;

struct br_epochs {
    struct br_group group;
    struct br_operation op; /* the round under way */
    /* what it gathers: br_worker_broken_links() of each rank */
    uint64_t local_links, *all_links;
    /* rounds; as many as group.epoch of the ranks' communicator have ended */
    uint64_t due_rounds, begun_rounds;
    uint64_t orders[BR_EPOCHS_MAX_ROUNDS];     /* of the rounds, by number */
    uint64_t bytes;                            /* of all-reduces since the last one was due */
    struct br_disjoint_trees **disjoint_trees; /* all that there have been: plans hold them */
    uint32_t n_disjoint_trees;
};

/* Called before anything is submitted. Does nothing where the job is no BCube, or too large a one.
 * Returns 0 or -ENOMEM. */
int br_epochs_create(struct br_context *context);
/* No operation may be under way. */
void br_epochs_destroy(struct br_context *context);

/* Called for an operation that is about to be submitted to the engine where there are epochs. If it
 * is an all-reduce of all ranks, sets its epoch, and begins a round if one is due. */
void br_epochs_assign(struct br_context *context, struct br_operation *op, uint64_t now);
/* Called when the operation of the round has ended. */
void br_epochs_round_ended(struct br_context *context, uint64_t now);

/* Adds the NICs that explain the broken links of the ranks, those with the most broken links first;
 * of a link with two candidates that of the lower host. broken[r]: br_worker_broken_links() of rank
 * r. Pure. Returns 0 or -ENOMEM. */
int br_epochs_failures(const struct br_bcube *cube, const uint64_t *broken,
                       struct br_failures *failures);

#endif
