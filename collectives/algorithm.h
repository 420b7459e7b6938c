/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The list of algorithms: from a request to the schedule of one rank. Pure; thread-safe; allocates only the
 * schedule. What an algorithm sends depends on (collective, n, root, algorithm, shape), which all ranks must
 * agree on.
 */
#ifndef BR_COLLECTIVES_ALGORITHM_H
#define BR_COLLECTIVES_ALGORITHM_H

#include "collectives/generators/dimensional.h"
#include "collectives/schedule.h"

enum br_algorithm {
    BR_FLAT,    /* allreduce, allgather, broadcast, reduce: all at once in one step */
    BR_TREE,    /* broadcast, reduce: binomial tree */
    BR_CHAIN,   /* broadcast, reduce: through all ranks in turn, pipelined by fragments */
    BR_DIRECT,  /* one dimension, everybody exchanges with everybody; broadcast, reduce: scatter, gather */
    BR_RING,    /* one dimension, a ring; likewise */
    BR_HALVING, /* recursive halving and doubling */
    BR_DIMENSIONAL,   /* the shape in the request */
    BR_DISSEMINATION, /* barrier */
    BR_ALGORITHMS,
};

struct br_schedule_request {
    enum br_collective collective;
    enum br_algorithm algorithm;
    uint32_t n, rank, root; /* root: 0 where the collective has none */
    bool in_place;
    struct br_shape shape; /* BR_DIMENSIONAL only */
};

const char *br_algorithm_name(enum br_algorithm algorithm);
int br_algorithm_find(const char *name, enum br_algorithm *algorithm); /* -EINVAL with words */

/* 0, or -EINVAL with words that say why this algorithm cannot serve this request. The rank is not looked at.
 */
int br_algorithm_check(const struct br_schedule_request *request);

/* The shape of an algorithm that the dimensional generator serves; false: it is none of those. */
bool br_algorithm_shape(const struct br_schedule_request *request, struct br_shape *shape);

/* The schedule of request->rank; the caller frees it. -EINVAL (words), -ENOMEM. */
int br_algorithm_build(const struct br_schedule_request *request, struct br_schedule **schedule);

#endif
