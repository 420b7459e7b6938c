/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define KEPT       64u    /* plans; more only while operations hold them */
#define MOST_MATCH 65536u /* messages of one pair and direction: 16 bits in the tag */

void br_plans_init(struct br_plans *plans, const struct br_cost_model *model, uint32_t rank, uint32_t n)
{
    memset(plans, 0, sizeof *plans);
    plans->model = model;
    plans->rank = rank;
    plans->n = n;
    br_list_init(&plans->list);
}

static void drop(struct br_plans *plans, struct br_plan *plan)
{
    br_list_remove(&plan->node);
    plans->count--;
    br_schedule_free(plan->schedule);
    free(plan->readers);
    free(plan);
}

void br_plans_destroy(struct br_plans *plans)
{
    br_list_for_each_safe (node, &plans->list)
        drop(plans, br_container_of(node, struct br_plan, node));
}

/* ---- choosing ------------------------------------------------------------------------------- */

static struct br_plan_choice *choice_of(struct br_plans *plans, enum br_collective collective, size_t bytes)
{
    uint64_t hash = (bytes * 8 + (size_t)collective) * 0x9e3779b97f4a7c15ull;

    return &plans->choices[hash >> 56];
}

int br_plans_choose(struct br_plans *plans, enum br_collective collective, const char *name, size_t bytes,
                    enum br_algorithm *algorithm)
{
    struct br_plan_choice *known;
    struct br_choice choice;
    int rc;

    if (*name && strcmp(name, "auto") != 0)
        return br_algorithm_find(name, algorithm);
    known = choice_of(plans, collective, bytes);
    if (!known->known || known->collective != collective || known->bytes != bytes) {
        rc = br_choose(plans->model, collective, plans->n, (double)bytes, &choice);
        if (rc)
            return rc;
        *known = (struct br_plan_choice){bytes, (uint8_t)collective, true, choice.algorithm};
    }
    *algorithm = known->algorithm;
    return 0;
}

/* ---- building ------------------------------------------------------------------------------- */

static int count_readers(struct br_plan *plan)
{
    const struct br_schedule *s = plan->schedule;

    plan->readers = calloc(s->n_steps + 1, sizeof *plan->readers);
    if (!plan->readers)
        return br_error(ENOMEM, "no memory for the plan of rank %u", s->rank);
    for (uint32_t i = 0; i < s->n_sources; i++)
        if (s->sources[i].recv >= 0)
            plan->readers[s->sources[i].recv]++;
    for (uint32_t i = 0; i < s->n_steps; i++)
        if (s->steps[i].kind <= BR_STEP_RECV && s->steps[i].match >= MOST_MATCH)
            return br_error(EINVAL, "algorithm %s needs more than %u messages between two of %u ranks",
                            br_algorithm_name(plan->request.algorithm), MOST_MATCH, s->n);
    return 0;
}

static int build(struct br_plans *plans, const struct br_schedule_request *request, struct br_plan **out)
{
    struct br_plan *plan = calloc(1, sizeof *plan);
    int rc;

    if (!plan) {
        br_error(ENOMEM, "no memory for the plan of rank %u", request->rank);
        return -ENOMEM;
    }
    br_list_init(&plan->node);
    plan->request = *request;
    br_list_push_front(&plans->list, &plan->node);
    plans->count++;
    plans->built++;
    rc = br_algorithm_build(request, &plan->schedule);
    if (!rc)
        rc = count_readers(plan);
    if (rc) {
        drop(plans, plan);
        return rc;
    }
    *out = plan;
    return 0;
}

/* The plans used longest ago go. */
static void shrink(struct br_plans *plans)
{
    for (struct br_list *node = plans->list.prev; node != &plans->list && plans->count > KEPT;) {
        struct br_plan *plan = br_container_of(node, struct br_plan, node);

        node = node->prev;
        if (!plan->users)
            drop(plans, plan);
    }
}

int br_plans_get(struct br_plans *plans, enum br_collective collective, enum br_algorithm algorithm,
                 uint32_t root, bool in_place, struct br_plan **out)
{
    struct br_schedule_request request = {.collective = collective,
                                          .algorithm = algorithm,
                                          .n = plans->n,
                                          .rank = plans->rank,
                                          .root = root,
                                          .in_place = in_place};
    struct br_plan *plan = NULL;
    int rc;

    br_list_for_each (node, &plans->list) {
        const struct br_schedule_request *r = &br_container_of(node, struct br_plan, node)->request;

        if (r->collective == collective && r->algorithm == algorithm && r->root == root &&
            r->in_place == in_place) {
            plan = br_container_of(node, struct br_plan, node);
            break;
        }
    }
    if (plan) {
        br_list_remove(&plan->node);
        br_list_push_front(&plans->list, &plan->node);
    } else if ((rc = build(plans, &request, &plan))) {
        return rc;
    }
    plan->users++;
    shrink(plans);
    *out = plan;
    return 0;
}

void br_plan_put(struct br_plan *plan)
{
    plan->users--;
}
