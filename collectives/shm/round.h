/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One round of an operation on the shared segment: what a rank publishes, whose data it needs, and
 * what it makes of them. When operations take their rounds is the executor's (executor.h). All
 * under the lock, but for the functions that stand here.
 */
#ifndef BR_COLLECTIVES_SHM_ROUND_H
#define BR_COLLECTIVES_SHM_ROUND_H

#include "collectives/schedule/type.h"
#include "collectives/shm/executor.h"

/* Bytes of a block; 0 of a barrier. */
static inline size_t br_shm_round_block_bytes(const struct br_operation *op)
{
    return op->collective == BR_BARRIER ? 0 : op->count * br_type_size(op->type);
}

/* Blocks that a rank publishes which gives any: all of its input; one of two ranks what the other
 * one needs. */
static inline uint32_t br_shm_round_blocks(uint32_t n, enum br_collective collective)
{
    return n == 2 ? 1 : br_collective_blocks(collective, n, BR_INPUT);
}

/* What such a rank publishes in all. */
static inline size_t br_shm_round_bytes(uint32_t n, const struct br_operation *op)
{
    return br_shm_round_block_bytes(op) * br_shm_round_blocks(n, op->collective);
}

/* Is an operation of a block of so many bytes split (split.h) that fits into one round as well? */
static inline bool br_shm_round_splits(const struct br_shm_executor *shm,
                                       enum br_collective collective, size_t block)
{
    return shm->n > 2 && ((collective == BR_ALLREDUCE && block >= shm->split_bytes) ||
                          (collective == BR_REDUCE && block >= shm->split_reduce_bytes));
}

/* Where do ranks give blocks of so many bytes? Few ranks with a core each give what all others need
 * to each of them. Of many what does not fit into a round leaves the caches (coll.h, note 16). */
static inline enum br_shm_place br_shm_round_place(const struct br_shm_executor *shm,
                                                   enum br_collective collective, size_t block)
{
    if (block <= BR_SHM_COLL_SMALL || br_collective_rooted(collective))
        return BR_SHM_IN_RING;
    if (collective == BR_ALLTOALL || collective == BR_REDUCE_SCATTER ||
        (shm->coll.beside == 1 && shm->n <= BR_SHM_COLL_EACH))
        return BR_SHM_IN_CELLS;
    if (!br_shm_coll_has_common(&shm->coll) ||
        (shm->n > BR_SHM_COLL_EACH && block > BR_SHM_COLL_COMMON))
        return BR_SHM_IN_RING;
    return BR_SHM_IN_COMMON;
}

/* Does an operation of a block of so many bytes go in pieces, each in the ring's next place: of two
 * ranks one gives and does not wait for the other? */
static inline bool br_shm_round_in_pieces(const struct br_shm_executor *shm,
                                          enum br_collective collective, size_t block)
{
    return shm->coll.places && br_collective_rooted(collective) && block > BR_SHM_PIECE_BYTES;
}

/* Are cells so large that an alltoall of any size goes in chunks, not by direct reads? */
static inline bool br_shm_round_in_cells(const struct br_shm_executor *shm)
{
    return shm->coll.cell_bytes >= BR_SHM_EXCHANGE_CELL;
}

/* Does this rank need what `rank` publishes? */
bool br_shm_round_needs(const struct br_shm_executor *shm, const struct br_operation *op,
                        uint32_t rank);

/* What the ranks must agree on, in 16 bits that are published with the data. reduction: 0 of what
 * does not reduce; root: 0 where there is none. It is part of the smallest calls, so it is a few
 * multiplications by odd numbers that are otherwise of no meaning. */
static inline uint16_t br_shm_call_digest(uint32_t collective, uint32_t type, uint32_t reduction,
                                          uint32_t root, uint64_t sequence, uint64_t count)
{
    uint64_t digest = ((uint64_t)reduction << 32 | type << 16 | collective) * 0x9e3779b97f4a7c15u;

    digest = (digest ^ digest >> 32 ^ root) * 0xd6e8feb86659fd93u;
    digest = (digest ^ digest >> 32 ^ sequence) * 0x9e3779b97f4a7c15u;
    digest = (digest ^ digest >> 32 ^ count) * 0xd6e8feb86659fd93u;
    return (uint16_t)(digest >> 48);
}

/* The same of an operation, and in words. */
uint16_t br_shm_round_digest(const struct br_operation *op);
struct br_call br_shm_round_call(const struct br_operation *op);

/* Publishes for an operation, whose turn it is, in the next round. false: there is no room, as a
 * rank is too far behind (coll.h). begin: what op itself gives, of several rounds for the first. */
bool br_shm_round_begin(struct br_shm_executor *shm, const struct br_operation *op);
bool br_shm_round_publish(struct br_shm_executor *shm, const struct br_operation *op,
                          const void *data, size_t bytes);
/* The lowest rank that op, which has published, still waits for; -1: there is none. */
int br_shm_round_waits_for(const struct br_shm_executor *shm, const struct br_operation *op);
/* Have the ranks whose data are needed, as far as they have published them, made the same call?
 * Nobody's data are used before that is known. 0, or -EPROTO with a message. */
int br_shm_round_check(const struct br_shm_executor *shm, const struct br_operation *op);
/* Of an operation that br_shm_round_begin() has begun, again and again: 1: it is complete; 0: not
 * yet; -EPROTO with a message: the ranks disagree. Of one that yields, shm->next: the ranks have
 * agreed which operation comes next, when this one is complete or, with 0, instead of shm->round,
 * with which this one goes on later. */
int br_shm_round_complete(struct br_shm_executor *shm, const struct br_operation *op);

#endif
