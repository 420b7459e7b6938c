/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A split all-reduce or reduce on the shared segment: each rank reduces a part of the elements for
 * all, where in one round every rank, or the root, would reduce all of them. Of a reduce the root
 * has no part. The operation is cut into chunks. In round i a rank publishes its values of chunk i
 * and the sums of its part of chunk i - 1, so that c chunks take c + 1 rounds
 * (doc/design/shared_collectives.md).
 *
 * Values are combined in the order of the ranks, as in one round: both have the same bits.
 */
#ifndef BR_COLLECTIVES_SHM_SPLIT_H
#define BR_COLLECTIVES_SHM_SPLIT_H

#include "collectives/engine/operation.h"
#include "collectives/shm/coll.h"
#include "collectives/shm/rate.h"
#include "collectives/tuning/cost.h"

/* A reduce that fits into one round is split where a part has so many bytes: then it is at most a
 * third slower behind a barrier where cores are near each other, and up to twice as fast where they
 * are far (note 10). */
#define BR_SHM_SPLIT_PART (16u << 10)

/* From how many bytes on an all-reduce is faster split than in one round; it may be SIZE_MAX. The
 * model says what a round costs, `rate` what reducing and copying do. */
size_t br_shm_split_threshold(const struct br_cost_model *model, struct br_shm_rate rate,
                              uint32_t ranks);

/* Where the sums lie: of a reduce, the root alone reads them. */
static inline enum br_shm_place br_shm_split_sums_place(const struct br_shm_coll *coll,
                                                        const struct br_operation *op)
{
    if (op->collective == BR_REDUCE)
        return BR_SHM_IN_CELLS;
    return br_shm_coll_has_common(coll) ? BR_SHM_IN_COMMON : BR_SHM_IN_RING;
}

/* How many rounds an operation takes, at least 2. */
uint32_t br_shm_split_rounds(const struct br_shm_coll *coll, const struct br_operation *op);

/* Writes what this rank publishes in a round, whose epoch is `epoch`: its values into cells
 * (br_shm_coll_cell()), its sums where br_shm_split_sums_place() says. The round
 * has sums unless it is first_round, with which the operation begins, or goes on after it was
 * overtaken: then this rank may publish an epoch. Otherwise all ranks have published the round
 * before, and br_shm_split_read() has read it. */
void br_shm_split_write(struct br_shm_coll *coll, const struct br_operation *op, uint32_t round,
                        uint32_t first_round, uint64_t epoch);

/* All ranks have published a round that has sums: copies them into the result. */
void br_shm_split_read(const struct br_shm_coll *coll, const struct br_operation *op,
                       uint32_t round, uint64_t epoch);

#endif
