/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/tuning/plan_cache.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define KEPT       64u    /* plans; more only while operations hold them */
#define WAYS       4u     /* places for a choice */
#define MOST_MATCH 65536u /* messages of one pair and direction: 16 bits in the tag */

void br_plan_cache_init(struct br_plan_cache *cache, const struct br_cost_model *model,
                        uint32_t rank, uint32_t n)
{
    memset(cache, 0, sizeof *cache);
    cache->model = model;
    cache->rank = rank;
    cache->n = n;
    br_topology_flat(&cache->flat, n);
    br_list_init(&cache->configs);
    br_list_init(&cache->plans);
}

static void plan_cache_drop(struct br_plan_cache *cache, struct br_plan *plan)
{
    br_list_remove(&plan->node);
    cache->count--;
    br_schedule_free(plan->schedule);
    free(plan->readers);
    free(plan);
}

void br_plan_cache_destroy(struct br_plan_cache *cache)
{
    br_list_for_each_safe (node, &cache->plans)
        plan_cache_drop(cache, br_container_of(node, struct br_plan, node));
    br_list_for_each_safe (node, &cache->configs)
        free(br_container_of(node, struct br_plan_config, node));
}

/* ---- choosing -------------------------------------------------------------------------------- */

static bool is_kept(const struct br_plan_cache *cache, const struct br_plan_tuning *place,
                    enum br_collective collective, enum br_cost_class class, const char *text,
                    size_t bytes)
{
    return place->config && place->collective == collective && place->class == class &&
           place->bytes == bytes && place->disjoint_trees == cache->disjoint_trees &&
           place->by_rank == cache->by_rank && strcmp(place->text, text) == 0;
}

/* *known: is the choice kept? Returns the place where it is, or else the one where it is to be
 * kept, which may hold another one. To choose takes as long as a small collective, so up to four
 * choices that fall on the same places do not push each other out. */
static struct br_plan_tuning *plan_cache_find(struct br_plan_cache *cache,
                                              enum br_collective collective,
                                              enum br_cost_class class, const char *text,
                                              size_t bytes, bool *known)
{
    uint64_t hash =
        (bytes * BR_COLLECTIVES + (size_t)collective) * BR_COST_CLASSES + (size_t) class;
    struct br_plan_tuning *free_place = NULL, *place = NULL;

    for (const char *c = text; *c; c++)
        hash = hash * 31 + (unsigned char)*c;
    hash = hash * 0x9e3779b97f4a7c15ull >> 56;
    for (unsigned way = 0; way < WAYS; way++) {
        place = &cache->tunings[(hash + way) % BR_PLAN_TUNINGS];
        *known = is_kept(cache, place, collective, class, text, bytes);
        if (*known)
            return place;
        if (!place->config && !free_place)
            free_place = place;
    }
    if (free_place)
        return free_place;
    return &cache->tunings[(hash + cache->replaced++ % WAYS) % BR_PLAN_TUNINGS];
}

static const struct br_plan_config *plan_cache_keep(struct br_plan_cache *cache,
                                                    const struct br_algorithm_config *config)
{
    struct br_plan_config *kept;

    br_list_for_each (node, &cache->configs) {
        kept = br_container_of(node, struct br_plan_config, node);
        if (br_algorithm_config_equal(&kept->config, config))
            return kept;
    }
    kept = calloc(1, sizeof *kept);
    if (!kept)
        return NULL;
    kept->config = *config;
    kept->digest = br_algorithm_config_digest(config);
    br_algorithm_config_name(config, kept->name);
    br_list_push_front(&cache->configs, &kept->node);
    return kept;
}

static bool is_auto(const char *text)
{
    return !*text || strcmp(text, "auto") == 0;
}

static int plan_cache_reuse(const struct br_plan_cache *cache, enum br_collective collective,
                            enum br_cost_class class, const char *text, size_t bytes,
                            struct br_tuning *tuning)
{
    const struct br_plan_tuning *theirs;
    int rc;

    cache->shared_with->disjoint_trees = cache->disjoint_trees;
    cache->shared_with->by_rank = cache->by_rank;
    rc = br_plan_cache_choose(cache->shared_with, collective, class, text, bytes, &theirs);
    if (!rc)
        *tuning = (struct br_tuning){.config = theirs->config->config,
                                     .packed = theirs->packed,
                                     .chunk_bytes = theirs->chunk_bytes,
                                     .seconds = theirs->seconds};
    return rc;
}

/* Takes the algorithm if it is the cheapest so far. */
static int plan_cache_try(const struct br_plan_cache *cache, const struct br_cost_model *model,
                          enum br_collective collective, enum br_algorithm algorithm, size_t bytes,
                          struct br_tuning *tuning)
{
    struct br_algorithm_config config;
    struct br_tuning trial = {.fragments = 0};
    int rc;

    if (!br_algorithm_by_rank(algorithm, collective))
        return 0;
    rc = br_algorithm_config_parse(model->topology, br_algorithm_name(algorithm), &config);
    if (!rc)
        rc = br_tuning_choose_methods(model, collective, cache->n, (double)bytes, &config, &trial);
    if (!rc && trial.seconds < tuning->seconds)
        *tuning = trial;
    return rc;
}

/* The cheapest one that combines in the order of the ranks. */
static int plan_cache_choose_by_rank(const struct br_plan_cache *cache,
                                     const struct br_cost_model *model,
                                     enum br_collective collective, size_t bytes,
                                     struct br_tuning *tuning)
{
    int rc = 0;

    tuning->seconds = INFINITY;
    for (int a = 0; a < BR_ALGORITHMS && !rc; a++)
        rc = plan_cache_try(cache, model, collective, (enum br_algorithm)a, bytes, tuning);
    return rc;
}

static int plan_cache_decide(struct br_plan_cache *cache, enum br_collective collective,
                             enum br_cost_class class, const char *text, size_t bytes,
                             struct br_tuning *tuning)
{
    struct br_cost_model model = *cache->model;
    struct br_topology topology = model.topology ? *model.topology : cache->flat;
    struct br_algorithm_config config;
    int rc;

    if (cache->shared_with)
        return plan_cache_reuse(cache, collective, class, text, bytes, tuning);
    topology.disjoint_trees = cache->disjoint_trees;
    model.topology = &topology;
    model.gamma = br_cost_gamma(cache->model, class);
    if (class != BR_COST_4_BYTES && br_collective_reduces(collective)) /* measured was float32 */
        model.n_measured = 0;
    if (is_auto(text) && cache->by_rank)
        return plan_cache_choose_by_rank(cache, &model, collective, bytes, tuning);
    if (is_auto(text) && collective == BR_ALLREDUCE && bytes >= BR_DISJOINT_TREES_MIN_BYTES &&
        cache->disjoint_trees && cache->disjoint_trees->broken)
        text = br_algorithm_name(BR_DISJOINT_TREES);
    if (is_auto(text))
        return br_tuning_choose(&model, collective, cache->n, (double)bytes, tuning);
    rc = br_algorithm_config_parse(&topology, text, &config);
    if (!rc && cache->by_rank && !br_algorithm_by_rank(config.algorithm, collective))
        rc = br_error(EINVAL,
                      "algorithm %s does not combine in the order of the ranks, which "
                      "BRAID_ORDER_RANKS asks for; auto chooses one that does: direct or flat, of "
                      "scans chain",
                      br_algorithm_name(config.algorithm));
    if (rc)
        return rc;
    return br_tuning_choose_methods(&model, collective, cache->n, (double)bytes, &config, tuning);
}

int br_plan_cache_choose(struct br_plan_cache *cache, enum br_collective collective,
                         enum br_cost_class class, const char *text, size_t bytes,
                         const struct br_plan_tuning **out)
{
    bool known;
    struct br_plan_tuning *place = plan_cache_find(cache, collective, class, text, bytes, &known);
    const struct br_plan_config *config;
    struct br_tuning tuning;
    int rc;

    if (!known) {
        rc = plan_cache_decide(cache, collective, class, text, bytes, &tuning);
        if (rc)
            return rc;
        config = plan_cache_keep(cache, &tuning.config);
        if (!config)
            return br_error(ENOMEM, "no memory for the choice of rank %u", cache->rank);
        *place = (struct br_plan_tuning){config,
                                         bytes,
                                         collective,
                                         class,
                                         "",
                                         tuning.chunk_bytes,
                                         tuning.seconds,
                                         tuning.packed,
                                         cache->disjoint_trees,
                                         cache->by_rank};
        snprintf(place->text, sizeof place->text, "%s", text);
    }
    *out = place;
    return 0;
}

/* ---- building -------------------------------------------------------------------------------- */

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
            return br_error(EINVAL,
                            "algorithm %s needs more than %u messages between two of %u ranks",
                            plan->config->name, MOST_MATCH, s->n);
    return 0;
}

static int plan_cache_build(struct br_plan_cache *cache, const struct br_plan_config *config,
                            const struct br_schedule_request *request, struct br_plan **out)
{
    struct br_plan *plan = calloc(1, sizeof *plan);
    int rc;

    if (!plan) {
        br_error(ENOMEM, "no memory for the plan of rank %u", request->rank);
        return -ENOMEM;
    }
    br_list_init(&plan->node);
    plan->config = config;
    plan->request = *request;
    br_list_push_front(&cache->plans, &plan->node);
    cache->count++;
    cache->built++;
    rc = br_algorithm_build(request, &plan->schedule);
    if (!rc)
        rc = count_readers(plan);
    if (rc) {
        plan_cache_drop(cache, plan);
        return rc;
    }
    *out = plan;
    return 0;
}

/* Drops the plans that were used longest ago. */
static void plan_cache_shrink(struct br_plan_cache *cache)
{
    for (struct br_list *node = cache->plans.prev; node != &cache->plans && cache->count > KEPT;) {
        struct br_plan *plan = br_container_of(node, struct br_plan, node);

        node = node->prev;
        if (!plan->users)
            plan_cache_drop(cache, plan);
    }
}

int br_plan_cache_get(struct br_plan_cache *cache, enum br_collective collective,
                      const struct br_plan_config *config, uint32_t root, bool in_place,
                      bool packed, struct br_plan **out)
{
    struct br_plan *plan = NULL;

    br_list_for_each (node, &cache->plans) {
        struct br_plan *known = br_container_of(node, struct br_plan, node);
        const struct br_schedule_request *r = &known->request;

        if (known->config == config && r->collective == collective && r->root == root &&
            r->in_place == in_place && r->packed == packed) {
            plan = known;
            break;
        }
    }
    if (plan) {
        br_list_remove(&plan->node);
        br_list_push_front(&cache->plans, &plan->node);
    } else {
        struct br_schedule_request request = {.collective = collective,
                                              .algorithm = config->config.algorithm,
                                              .n = cache->n,
                                              .rank = cache->rank,
                                              .root = root,
                                              .in_place = in_place,
                                              .packed = packed,
                                              .shape = config->config.shape,
                                              .disjoint_trees = config->config.disjoint_trees};
        int rc = plan_cache_build(cache, config, &request, &plan);

        if (rc)
            return rc;
    }
    plan->users++;
    plan_cache_shrink(cache);
    *out = plan;
    return 0;
}
