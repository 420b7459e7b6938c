/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The steps of all ranks of one collective as one list, with each SEND and RECV knowing its other
 * end. For the verifier and the cost model.
 */
#ifndef BR_COLLECTIVES_SCHEDULE_MATCHING_H
#define BR_COLLECTIVES_SCHEDULE_MATCHING_H

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

/* Whether all steps end when each SEND waits for its RECV to start and, where that may be mapped,
 * for the REDUCEs that read it. -EINVAL with a message that names a rank and step of the deadlock;
 * -ENOMEM. */
int br_verify_progress(const struct br_matching *matching);

#endif
