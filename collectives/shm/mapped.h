/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An operation of two ranks in memory of braid_alloc(), which both map: each takes its part from
 * where the other one has it, in place of two copies through the segment. In the first round each
 * rank that gives something says where that is. Only if all do they read, and say in a second round
 * how it has ended, as in direct.h; else the operation goes on in chunks or pieces
 * (doc/design/shared_collectives.md, round.h, notes 7 and 8).
 */
#ifndef BR_COLLECTIVES_SHM_MAPPED_H
#define BR_COLLECTIVES_SHM_MAPPED_H

#include "collectives/shm/executor.h"

/* What a rank publishes in the first round. */
struct br_shm_mapped_offer {
    uint32_t region; /* in which all lies that it gives; 0: in none that the other one may read */
    uint64_t offset; /* there */
};

/* Could this operation, of more than one round, go so? All ranks find the same. */
bool br_shm_mapped_suits(const struct br_shm_executor *shm, const struct br_operation *op);

/* Begins an operation: what this rank publishes. */
struct br_shm_mapped_offer br_shm_mapped_offer(struct br_shm_executor *shm,
                                               const struct br_operation *op);

/* Does `rank` give the other one anything? */
static inline bool br_shm_mapped_gives(const struct br_operation *op, uint32_t rank)
{
    return !br_collective_rooted(op->collective) ||
           br_collective_from_root(op->collective) == (rank == (uint32_t)op->root);
}

/* Those that give something have published the first round. Have they named a region? */
bool br_shm_mapped_offered(const struct br_shm_executor *shm, const struct br_operation *op);

/* Where the other rank has what this one needs of a rooted operation; NULL: not here, or not any
 * more. */
const void *br_shm_mapped_there(const struct br_shm_executor *shm, const struct br_operation *op);

/* Of an allgather or an alltoall: copies what this rank needs, 1 MiB or less of the other rank's in
 * each call. Returns whether that is over; shm->direct.outcome says how. */
bool br_shm_mapped_read(struct br_shm_executor *shm, const struct br_operation *op);

#endif
