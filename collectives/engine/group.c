/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/engine/group.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

int br_group_init(struct br_group *group, uint32_t number, int rank, int size, const int *ranks,
                  const struct br_cost_model *model)
{
    int rc = br_cost_model_check(model);

    *group = (struct br_group){.number = number, .rank = rank, .size = size, .model = *model};
    br_plan_cache_init(&group->plan_cache, &group->model, (uint32_t)rank, (uint32_t)size);
    if (!rc && ranks) {
        group->ranks = malloc((size_t)size * sizeof *ranks);
        if (group->ranks)
            memcpy(group->ranks, ranks, (size_t)size * sizeof *ranks);
        else
            rc = br_error(ENOMEM, "no memory for a communicator of %d ranks", size);
    }
    if (!rc)
        rc = br_tag_sequences_init(&group->tag_sequences);
    if (rc)
        br_group_destroy(group);
    return rc;
}

void br_group_destroy(struct br_group *group)
{
    if (!group->size)
        return;
    br_tag_sequences_destroy(&group->tag_sequences);
    br_plan_cache_destroy(&group->plan_cache);
    free(group->ranks);
    *group = (struct br_group){0};
}

const char *br_group_name_rank(const struct br_group *group, int rank, char *text, size_t bytes)
{
    if (!group->number || group->internal)
        snprintf(text, bytes, "rank %d", br_group_in_job(group, rank));
    else
        snprintf(text, bytes, "rank %d of communicator %u (rank %d of the job)", rank,
                 group->number, br_group_in_job(group, rank));
    return text;
}

const char *br_group_name_job_rank(const struct br_group *group, int rank, char *text, size_t bytes)
{
    for (int r = 0; group->number && r < group->size; r++)
        if (br_group_in_job(group, r) == rank)
            return br_group_name_rank(group, r, text, bytes);
    snprintf(text, bytes, group->number ? "rank %d of the job" : "rank %d", rank);
    return text;
}
