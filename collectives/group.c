/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/group.h"

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
    br_plans_init(&group->plans, &group->model, (uint32_t)rank, (uint32_t)size);
    if (!rc && ranks) {
        group->ranks = malloc((size_t)size * sizeof *ranks);
        if (group->ranks)
            memcpy(group->ranks, ranks, (size_t)size * sizeof *ranks);
        else
            rc = br_error(ENOMEM, "no memory for a communicator of %d ranks", size);
    }
    if (!rc)
        rc = br_numbers_init(&group->numbers);
    if (rc)
        br_group_destroy(group);
    return rc;
}

void br_group_destroy(struct br_group *group)
{
    if (!group->size)
        return;
    br_numbers_destroy(&group->numbers);
    br_plans_destroy(&group->plans);
    free(group->ranks);
    *group = (struct br_group){0};
}

const char *br_group_name_rank(const struct br_group *group, int rank, char *words, size_t bytes)
{
    if (!group->number || group->own)
        snprintf(words, bytes, "rank %d", br_group_in_job(group, rank));
    else
        snprintf(words, bytes, "rank %d of communicator %u (rank %d of the job)", rank, group->number,
                 br_group_in_job(group, rank));
    return words;
}

const char *br_group_name_job_rank(const struct br_group *group, int rank, char *words, size_t bytes)
{
    for (int r = 0; group->number && r < group->size; r++)
        if (br_group_in_job(group, r) == rank)
            return br_group_name_rank(group, r, words, bytes);
    snprintf(words, bytes, group->number ? "rank %d of the job" : "rank %d", rank);
    return words;
}
