/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plans: schedules that the engine has built, kept for the next operation of the same kind. Choosing an
 * algorithm and building a schedule cost microseconds to milliseconds; a repeated operation finds both by
 * a short search, most recent first. Owned by one engine, not thread-safe.
 */
#ifndef BR_COLLECTIVES_PLAN_H
#define BR_COLLECTIVES_PLAN_H

#include "base/list.h"
#include "collectives/choice.h"

/* A way that has been chosen or named; each once, kept until br_plans_destroy. */
struct br_plan_way {
    struct br_list node;
    struct br_way way;
    uint64_t digest; /* of it */
    char name[BR_WAY_TEXT];
};

struct br_plan {
    struct br_list node;
    const struct br_plan_way *way;
    struct br_schedule_request request;
    struct br_schedule *schedule;
    uint16_t *readers; /* [n_steps]: sources that read a mapped RECV */
    uint32_t users;    /* operations under way: it is not dropped */
};

/* A way chosen for a size. */
struct br_plan_choice {
    const struct br_plan_way *way; /* NULL: this place is free */
    size_t bytes;
    enum br_collective collective;
    enum br_cost_class class;
    char text[BR_WAY_TEXT];         /* by which it was asked for */
    size_t chunk_bytes;             /* of its fragments (fragment.h) */
    double seconds;                 /* that it should take; 0: not estimated, as it was named */
    const struct br_forest *forest; /* when it was chosen */
};

#define BR_PLAN_CHOICES 256

struct br_plans {
    const struct br_cost_model *model; /* borrowed */
    uint32_t rank, n;
    struct br_topology flat; /* when the model has none */
    /* of the links that work, for the next choice (views.h); borrowed, NULL: not known */
    const struct br_forest *forest;
    /* of another rank in this process (a simulation), with the same model: what it chooses holds here too. Borrowed, or NULL */
    struct br_plans *like;
    struct br_list ways;
    struct br_list list; /* most recent first */
    uint32_t count;
    uint64_t built;                                 /* schedules, in all */
    struct br_plan_choice choices[BR_PLAN_CHOICES]; /* by hash */
};

void br_plans_init(struct br_plans *plans, const struct br_cost_model *model, uint32_t rank, uint32_t n);
void br_plans_destroy(struct br_plans *plans);

#define BR_FOREST_LEAST (256u << 10) /* bytes */

/* The way for blocks of `bytes` bytes: by name (way.h), or the cheapest for "" and "auto"; for all-reduces of BR_FOREST_LEAST and
 * more where links of a BCube are broken, a forest: the cost model knows whole networks only. The result stays until the next
 * call. -EINVAL, -E2BIG with words; -ENOMEM. */
int br_plans_choose(struct br_plans *plans, enum br_collective collective, enum br_cost_class class,
                    const char *text, size_t bytes, const struct br_plan_choice **choice);

/* The plan, held; give it back with br_plan_put(). root: 0 where the collective has none. -EINVAL (words;
 * the same on all ranks), -ENOMEM. */
int br_plans_get(struct br_plans *plans, enum br_collective collective, const struct br_plan_way *way,
                 uint32_t root, bool in_place, struct br_plan **plan);
void br_plan_put(struct br_plan *plan);

#endif
