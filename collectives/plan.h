/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plans: schedules that the engine has built, kept for the next operation of the same kind. Choosing an
 * algorithm and building a schedule cost microseconds to milliseconds; a repeated operation finds both by
 * a short search, most recent first. Owned by one engine, not thread-safe.
 */
#ifndef BR_COLLECTIVES_PLAN_H
#define BR_COLLECTIVES_PLAN_H

#include "base/list.h"
#include "collectives/algorithm.h"
#include "collectives/cost.h"

struct br_plan {
    struct br_list node;
    struct br_schedule_request request;
    struct br_schedule *schedule;
    uint16_t *readers; /* [n_steps]: sources that read a mapped RECV */
    uint32_t users;    /* operations under way: it is not dropped */
};

/* An algorithm chosen for a size. */
struct br_plan_choice {
    size_t bytes;
    uint8_t collective;
    bool known;
    enum br_algorithm algorithm;
};

#define BR_PLAN_CHOICES 256

struct br_plans {
    const struct br_cost_model *model; /* borrowed */
    uint32_t rank, n;
    struct br_list list; /* most recent first */
    uint32_t count;
    uint64_t built;                                 /* schedules, in all */
    struct br_plan_choice choices[BR_PLAN_CHOICES]; /* by hash */
};

void br_plans_init(struct br_plans *plans, const struct br_cost_model *model, uint32_t rank, uint32_t n);
void br_plans_destroy(struct br_plans *plans);

/* The algorithm for blocks of `bytes` bytes: by name, or the cheapest for "" and "auto". -EINVAL with
 * words. */
int br_plans_choose(struct br_plans *plans, enum br_collective collective, const char *name, size_t bytes,
                    enum br_algorithm *algorithm);

/* The plan, held; give it back with br_plan_put(). root: 0 where the collective has none. -EINVAL (words;
 * the same on all ranks), -ENOMEM. */
int br_plans_get(struct br_plans *plans, enum br_collective collective, enum br_algorithm algorithm,
                 uint32_t root, bool in_place, struct br_plan **plan);
void br_plan_put(struct br_plan *plan);

#endif
