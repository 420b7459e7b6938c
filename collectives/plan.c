/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/plan.h"

#include <errno.h>
#include <stdio.h>
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
    br_topology_flat(&plans->flat, n);
    br_list_init(&plans->ways);
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
    br_list_for_each_safe (node, &plans->ways)
        free(br_container_of(node, struct br_plan_way, node));
}

/* ---- choosing ------------------------------------------------------------------------------- */

static struct br_plan_choice *choice_of(struct br_plans *plans, enum br_collective collective,
                                        const char *text, size_t bytes)
{
    uint64_t hash = bytes * 8 + (size_t)collective;

    for (; *text; text++)
        hash = hash * 31 + (unsigned char)*text;
    return &plans->choices[hash * 0x9e3779b97f4a7c15ull >> 56];
}

static const struct br_plan_way *keep(struct br_plans *plans, const struct br_way *way)
{
    struct br_plan_way *kept;

    br_list_for_each (node, &plans->ways) {
        kept = br_container_of(node, struct br_plan_way, node);
        if (br_way_equal(&kept->way, way))
            return kept;
    }
    kept = calloc(1, sizeof *kept);
    if (!kept)
        return NULL;
    kept->way = *way;
    kept->digest = br_way_digest(way);
    br_way_name(way, kept->name);
    br_list_push_front(&plans->ways, &kept->node);
    return kept;
}

static bool is_auto(const char *text)
{
    return !*text || strcmp(text, "auto") == 0;
}

static int decide_alike(const struct br_plans *plans, enum br_collective collective, enum br_cost_class class,
                        const char *text, size_t bytes, struct br_choice *choice)
{
    const struct br_plan_choice *theirs;
    int rc;

    plans->like->forest = plans->forest;
    rc = br_plans_choose(plans->like, collective, class, text, bytes, &theirs);
    if (!rc)
        *choice = (struct br_choice){
            .way = theirs->way->way, .chunk_bytes = theirs->chunk_bytes, .seconds = theirs->seconds};
    return rc;
}

static int decide(struct br_plans *plans, enum br_collective collective, enum br_cost_class class,
                  const char *text, size_t bytes, struct br_choice *choice)
{
    struct br_cost_model model = *plans->model;
    struct br_topology topology = model.topology ? *model.topology : plans->flat;
    struct br_way way;
    int rc;

    if (plans->like)
        return decide_alike(plans, collective, class, text, bytes, choice);
    topology.forest = plans->forest;
    model.topology = &topology;
    model.gamma = br_cost_gamma(plans->model, class);
    if (class != BR_COST_4_BYTES && br_collective_reduces(collective)) /* measured was float32 */
        model.n_measured = 0;
    if (is_auto(text) && collective == BR_ALLREDUCE && bytes >= BR_FOREST_LEAST && plans->forest &&
        plans->forest->broken)
        text = br_algorithm_name(BR_FOREST);
    if (is_auto(text))
        return br_choose(&model, collective, plans->n, (double)bytes, choice);
    rc = br_way_parse(&topology, text, &way);
    if (rc)
        return rc;
    return br_choose_methods(&model, collective, plans->n, (double)bytes, &way, choice);
}

int br_plans_choose(struct br_plans *plans, enum br_collective collective, enum br_cost_class class,
                    const char *text, size_t bytes, const struct br_plan_choice **out)
{
    struct br_plan_choice *known = choice_of(plans, collective, text, bytes);
    const struct br_plan_way *way;
    struct br_choice choice;
    int rc;

    if (!known->way || known->collective != collective || known->class != class || known->bytes != bytes ||
        known->forest != plans->forest || strcmp(known->text, text) != 0) {
        rc = decide(plans, collective, class, text, bytes, &choice);
        if (rc)
            return rc;
        way = keep(plans, &choice.way);
        if (!way)
            return br_error(ENOMEM, "no memory for the choice of rank %u", plans->rank);
        *known = (struct br_plan_choice){
            way, bytes, collective, class, "", choice.chunk_bytes, choice.seconds, plans->forest};
        snprintf(known->text, sizeof known->text, "%s", text);
    }
    *out = known;
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
                            plan->way->name, MOST_MATCH, s->n);
    return 0;
}

static int build(struct br_plans *plans, const struct br_plan_way *way,
                 const struct br_schedule_request *request, struct br_plan **out)
{
    struct br_plan *plan = calloc(1, sizeof *plan);
    int rc;

    if (!plan) {
        br_error(ENOMEM, "no memory for the plan of rank %u", request->rank);
        return -ENOMEM;
    }
    br_list_init(&plan->node);
    plan->way = way;
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

int br_plans_get(struct br_plans *plans, enum br_collective collective, const struct br_plan_way *way,
                 uint32_t root, bool in_place, struct br_plan **out)
{
    struct br_schedule_request request = {.collective = collective,
                                          .algorithm = way->way.algorithm,
                                          .n = plans->n,
                                          .rank = plans->rank,
                                          .root = root,
                                          .in_place = in_place,
                                          .shape = way->way.shape,
                                          .forest = way->way.forest};
    struct br_plan *plan = NULL;
    int rc;

    br_list_for_each (node, &plans->list) {
        struct br_plan *known = br_container_of(node, struct br_plan, node);
        const struct br_schedule_request *r = &known->request;

        if (known->way == way && r->collective == collective && r->root == root && r->in_place == in_place) {
            plan = known;
            break;
        }
    }
    if (plan) {
        br_list_remove(&plan->node);
        br_list_push_front(&plans->list, &plan->node);
    } else if ((rc = build(plans, way, &request, &plan))) {
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
