/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group: what the engine knows of a communicator. Which ranks of the job belong to it, in which
 * order, the number that keeps its messages apart from those of all others, and what is remembered
 * for its next operations.
 *
 * Operations number ranks within their group, transfers within the job; br_group_in_job() is where
 * one becomes the other. The functions do not block. They are called under the worker's lock.
 */
#ifndef BR_COLLECTIVES_ENGINE_GROUP_H
#define BR_COLLECTIVES_ENGINE_GROUP_H

#include "collectives/tuning/cost.h"
#include "collectives/engine/tag_sequence.h"
#include "collectives/tuning/plan_cache.h"

struct br_group {
    /* In the tags of its messages (protocol/message.h); 0 for the group of all ranks of the job. */
    uint32_t number;
    int rank, size; /* This rank's number in the group, and how many ranks the group has. */
    int *ranks;     /* The ranks' numbers in the job, owned; NULL when they are the same. */
    /* The group belongs to braid: messages name its ranks by their numbers in the job only. */
    bool internal;
    struct br_cost_model model;
    struct br_plan_cache plan_cache;
    struct br_tag_sequences tag_sequences; /* For the tags of messages. */
    /* What its all-reduces know of broken links (epochs.h): the current view and the one before, by
     * number modulo 2. NULL for none. */
    const struct br_disjoint_trees *epochs[2];
    uint64_t epoch;     /* The number of the current view. */
    int64_t unreceived; /* Messages sent, less messages received. */
};

/* Makes a group. number, rank, size: as in br_group. ranks: `size` numbers, copied; NULL when they
 * are those in the job. model: copied. Returns 0, and the caller calls br_group_destroy(); or with
 * a message -EINVAL when the model is bad, or -ENOMEM, and there is nothing to destroy. */
int br_group_init(struct br_group *group, uint32_t number, int rank, int size, const int *ranks,
                  const struct br_cost_model *model);
/* Frees what the group owns. No operation of it is under way. Allowed on a group that is all zero.
 */
void br_group_destroy(struct br_group *group);

/* Returns the number in the job of a rank of the group. */
static inline int br_group_in_job(const struct br_group *group, int rank)
{
    return group->ranks ? group->ranks[rank] : rank;
}

/* Returns the number in the group of a rank of the job; -1: it is no member. */
static inline int br_group_rank_of(const struct br_group *group, int in_job)
{
    if (!group->ranks)
        return in_job;
    for (int r = 0; r < group->size; r++)
        if (group->ranks[r] == in_job)
            return r;
    return -1;
}

/* Writes the name of a rank of the group, for messages, to text[0..bytes): "rank 2", or "rank 2 of
 * communicator 5 (rank 7 of the job)". Returns text. */
const char *br_group_name_rank(const struct br_group *group, int rank, char *text, size_t bytes);
/* The same for a rank's number in the job. The rank need not be in the group. */
const char *br_group_name_job_rank(const struct br_group *group, int rank, char *text,
                                   size_t bytes);

#endif
