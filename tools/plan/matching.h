/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The steps of all ranks of one collective as one list, with each SEND and RECV knowing its other
 * end. The timing of schedules, their drawings and the verifier of the
 * tests use it.
 */
#ifndef BR_TOOLS_PLAN_MATCHING_H
#define BR_TOOLS_PLAN_MATCHING_H

#include "collectives/schedule/schedule.h"

struct br_matching {
    const struct br_schedule *const *schedules; /* borrowed */
    uint32_t n;                                 /* ranks */
    uint32_t n_steps;                           /* of all ranks */
    /* n + 1: step i of rank r has the number base[r] + i */
    uint32_t *base;
    uint32_t *rank; /* of each number */
    /* of each number of a SEND or RECV: that of the other end */
    uint32_t *partner;
};

/* Pairs the messages. schedules stays borrowed; free with br_matching_destroy, after an error
 * too. -EINVAL with a message: a message has one end only, or its ends have different pieces;
 * -ENOMEM. */
int br_matching_init(struct br_matching *matching, const struct br_schedule *const *schedules);
void br_matching_destroy(struct br_matching *matching);

static inline const struct br_step *br_matching_step(const struct br_matching *matching,
                                                     uint32_t number)
{
    uint32_t rank = matching->rank[number];

    return &matching->schedules[rank]->steps[number - matching->base[rank]];
}

#endif
