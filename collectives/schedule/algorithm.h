/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The list of algorithms: from a request to the schedule of one rank. Pure; thread-safe; allocates
 * only the schedule. What an algorithm sends depends on (collective, n, root, algorithm, shape),
 * which all ranks must agree on.
 */
#ifndef BR_COLLECTIVES_SCHEDULE_ALGORITHM_H
#define BR_COLLECTIVES_SCHEDULE_ALGORITHM_H

#include "bcube/disjoint_trees.h"
#include "collectives/schedule/generators/dimensional.h"
#include "collectives/schedule/schedule.h"

enum br_algorithm {
    BR_FLAT, /* allreduce, barrier, and where there is a root: all at once in one step */
    /* barrier, allgather, reduce-scatter, alltoall, and where there is a root: binomial tree; digit
       by digit where the request has a shape */
    BR_TREE,
    BR_CHAIN, /* broadcast, reduce, scans: through all ranks in turn, pipelined by fragments */
    BR_BINARY_TREE, /* allreduce, broadcast, reduce: binary tree, pipelined by fragments */
    BR_DOUBLE_TREE, /* the same, halves of the buffer on two trees */
    BR_DOUBLING,    /* allreduce, scans: recursive doubling of whole sums */
    BR_HOST_TREE,   /* allreduce: binary trees in hosts, doubling between them; the shape says ranks
                       of a host, hosts */
    BR_CORE_TREE,   /* allreduce, barrier, allgather, reduce-scatter: a rank of each core collects,
                       they exchange, and it passes on; the shape says ranks of a core, cores */
    BR_DIRECT,  /* one dimension, everybody exchanges with everybody; broadcast, reduce: scatter,
                   gather */
    BR_RING,    /* one dimension, a ring */
    BR_HALVING, /* recursive halving and doubling */
    BR_BRUCK,   /* alltoall: lg n rounds of packed blocks */
    BR_DIMENSIONAL,    /* by the shape in the request, as the next two (algorithm_config.h) */
    BR_BML,            /* a thread for each level of a BCube, each starting on another level */
    BR_BLUECONNECT,    /* a stage for each factor of the number of ranks */
    BR_DISJOINT_TREES, /* allreduce: the edge-disjoint trees in the request, over links that work */
    BR_DISSEMINATION,  /* barrier */
    BR_ALGORITHMS,
};

struct br_schedule_request {
    enum br_collective collective;
    enum br_algorithm algorithm;
    uint32_t n, rank, root; /* root: 0 where the collective has none */
    bool in_place;
    /* blocks that travel together are one message (br_algorithm_can_pack()); all ranks alike */
    bool packed;
    /* BR_DIMENSIONAL, BR_BML, BR_BLUECONNECT; BR_RING: a cycle, or empty for the order of the
     * ranks */
    struct br_shape shape;
    const struct br_disjoint_trees *disjoint_trees; /* BR_DISJOINT_TREES; borrowed */
};

const char *br_algorithm_name(enum br_algorithm algorithm);
/* Finds an algorithm by name. "server" is known too: parameter servers spread over all ranks (push,
 * sum, pull) are BR_DIRECT. Returns 0, or -EINVAL with a message. */
int br_algorithm_find(const char *name, enum br_algorithm *algorithm);

/* Returns 0, or -EINVAL with a message that says why this algorithm cannot serve this request. The
 * rank is ignored. */
int br_algorithm_check(const struct br_schedule_request *request);

/* Does the algorithm do this collective, which reduces, and combine the values of all ranks from
 * left to right in their order, so that the bits of an element depend on nothing else? All in one
 * step, but for scans: each rank adds its own to the result of the one before. */
bool br_algorithm_by_rank(enum br_algorithm algorithm, enum br_collective collective);

/* Does the algorithm go digit by digit where the request has a shape (direct dimensions with all
 * ranks), as in a BCube? */
bool br_algorithm_digits(enum br_algorithm algorithm);

/* Writes the shape of an algorithm that the dimensional generator serves. Returns false if it is
 * none of those. */
bool br_algorithm_shape(const struct br_schedule_request *request, struct br_shape *shape);

/* Into how many pieces its schedules cut each block. The request has passed br_algorithm_check. */
uint32_t br_algorithm_pieces(const struct br_schedule_request *request);

/* Has the request, as reduce_scatter or allgather by a shape or a tree, messages that can be
 * packed? Then request->packed may be true, whatever it is: that takes fewer messages, often a copy
 * of all blocks, one fragment (br_schedule.uncut) and blocks of one size that br_algorithm_pieces()
 * divides. The request has passed br_algorithm_check without. */
bool br_algorithm_can_pack(const struct br_schedule_request *request);

/* How many blocks a message of them holds at most (br_schedule.packed). */
uint32_t br_algorithm_packed(const struct br_schedule_request *request);

/* Builds the schedule of request->rank, which the caller frees with br_schedule_free(). Returns 0,
 * -EINVAL with a message, or -ENOMEM. */
int br_algorithm_build(const struct br_schedule_request *request, struct br_schedule **schedule);

#endif
