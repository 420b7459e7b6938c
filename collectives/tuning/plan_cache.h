/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plans: schedules that the engine has built, kept for the next operation of the same kind.
 * Choosing an algorithm and building a schedule cost microseconds to milliseconds; a repeated
 * operation finds both by a short search, most recent first. Owned by one engine, not thread-safe.
 */
#ifndef BR_COLLECTIVES_TUNING_PLAN_CACHE_H
#define BR_COLLECTIVES_TUNING_PLAN_CACHE_H

#include <braid/braid.h>

#include "base/list.h"
#include "collectives/tuning/tuning.h"

/* A configuration that has been chosen or named; each is here once, until
 * br_plan_cache_destroy(). */
struct br_plan_config {
    struct br_list node;
    struct br_algorithm_config config;
    uint64_t digest; /* of it */
    char name[BR_ALGORITHM_TEXT];
};

/* A call with blocks of one size, and what the plan makes of it. */
struct br_plan_call {
    enum braid_type type;
    enum braid_reduction reduction;
    size_t count, chunk_bytes; /* elements of a block; bytes of the chunks of its fragments */
    uint32_t fragments;        /* 0: no such call yet */
    uint16_t check;            /* digest of what the ranks must agree on */
};

struct br_plan {
    struct br_list node;
    const struct br_plan_config *config;
    struct br_schedule_request request;
    struct br_schedule *schedule;
    uint16_t *readers;        /* [n_steps]: sources that read a mapped RECV */
    uint32_t users;           /* references; a plan with any is not dropped */
    struct br_plan_call last; /* most calls are like the one before */
};

/* A configuration chosen for a size. */
struct br_plan_tuning {
    const struct br_plan_config *config; /* NULL: this place is free */
    size_t bytes;
    enum br_collective collective;
    enum br_cost_class class;
    char text[BR_ALGORITHM_TEXT]; /* by which it was asked for */
    size_t chunk_bytes;           /* of its fragments (schedule.h) */
    double seconds;               /* that it should take; 0: not estimated, as it was named */
    bool packed;                  /* where the blocks allow it (br_algorithm_can_pack) */
    const struct br_disjoint_trees *disjoint_trees; /* when it was chosen */
    bool by_rank;                                   /* as the cache had it */
};

#define BR_PLAN_TUNINGS 256

struct br_plan_cache {
    const struct br_cost_model *model; /* borrowed */
    uint32_t rank, n;
    struct br_topology flat; /* when the model has none */
    /* of the links that work, for the next choice (epochs.h); borrowed, NULL: not known */
    const struct br_disjoint_trees *disjoint_trees;
    /* the next choice is among those that combine in the order of the ranks */
    bool by_rank;
    /* of another rank in this process (a simulation), with the same model: what it chooses holds
     * here too. Borrowed, or NULL */
    struct br_plan_cache *shared_with;
    struct br_list configs;
    struct br_list plans; /* most recent first */
    uint32_t count;
    uint64_t built;                                 /* schedules, in all */
    uint32_t replaced;                              /* choices, by others */
    struct br_plan_tuning tunings[BR_PLAN_TUNINGS]; /* by hash */
};

void br_plan_cache_init(struct br_plan_cache *cache, const struct br_cost_model *model,
                        uint32_t rank, uint32_t n);
void br_plan_cache_destroy(struct br_plan_cache *cache);

#define BR_DISJOINT_TREES_MIN_BYTES (256u << 10)

/*
 * Finds the configuration for blocks of `bytes` bytes: the one that text names
 * (algorithm_config.h), or for "" and "auto" the cheapest. All-reduces of
 * BR_DISJOINT_TREES_MIN_BYTES and more take disjoint trees where links of a BCube are broken,
 * because the cost model knows whole networks only. With cache->by_rank only algorithms that
 * combine in the order of the ranks are taken; -EINVAL if text names another one. *tuning is valid
 * until the next call. Returns 0, -EINVAL or -E2BIG with a message, or -ENOMEM.
 */
int br_plan_cache_choose(struct br_plan_cache *cache, enum br_collective collective,
                         enum br_cost_class class, const char *text, size_t bytes,
                         const struct br_plan_tuning **tuning);

/* Finds or builds a plan and takes a reference to it, which br_plan_put() gives back. root: 0 where
 * the collective has none. Returns 0, -EINVAL with a message (the same on all ranks), or
 * -ENOMEM. */
int br_plan_cache_get(struct br_plan_cache *cache, enum br_collective collective,
                      const struct br_plan_config *config, uint32_t root, bool in_place,
                      bool packed, struct br_plan **plan);
static inline void br_plan_put(struct br_plan *plan)
{
    plan->users--;
}

#endif
