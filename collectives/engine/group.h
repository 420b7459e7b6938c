/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group: what the engine knows of a communicator. Which ranks of the job belong to it, in which
 * order, the number that keeps its messages apart from those of all others, and what is remembered
 * for its next operations.
 *
 * Operations count ranks within their group, transfers within the job: group.h is the one place
 * where the two meet. Not thread-safe: under the worker's lock.
 */
#ifndef BR_COLLECTIVES_ENGINE_GROUP_H
#define BR_COLLECTIVES_ENGINE_GROUP_H

#include "collectives/tuning/cost.h"
#include "collectives/engine/tag_sequence.h"
#include "collectives/tuning/plan_cache.h"

struct br_group {
    uint32_t number; /* in the tags of its messages (protocol/message.h); 0: all ranks of the job */
    int rank, size;  /* in the group */
    int *ranks;      /* [size]: in the job; NULL: the same */
    /* braid's: the program knows its ranks by their numbers in the job only */
    bool internal;
    struct br_cost_model model;
    struct br_plan_cache plan_cache;
    struct br_tag_sequences tag_sequences; /* of messages */
    /* What its all-reduces know of broken links (epochs.h): view `known` and the one before, by
     * number % 2. Zeros: nothing. */
    const struct br_disjoint_trees *epochs[2];
    uint64_t epoch;
    int64_t unreceived; /* messages sent less messages received */
};

/* ranks is copied; NULL: those of the job. -EINVAL (the model), -ENOMEM, with a message; then there
 * is nothing to destroy. */
int br_group_init(struct br_group *group, uint32_t number, int rank, int size, const int *ranks,
                  const struct br_cost_model *model);
/* no operation of it is under way; safe on a zeroed one */
void br_group_destroy(struct br_group *group);

static inline int br_group_in_job(const struct br_group *group, int rank)
{
    return group->ranks ? group->ranks[rank] : rank;
}

/* "rank 2", or "rank 2 of communicator 5 (rank 7 of the job)". rank: of the group. Returns text. */
const char *br_group_name_rank(const struct br_group *group, int rank, char *text, size_t bytes);
/* The same by rank in the job, which need not be in the group. */
const char *br_group_name_job_rank(const struct br_group *group, int rank, char *text,
                                   size_t bytes);

#endif
