/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives of up to BR_SHM_COLLECTIVE_BYTES bytes, straight from the call. Most of them are
 * complete after a look or two at the segment, and an operation would cost several times what they
 * do. What a rank publishes and reads is what it would in an operation's round (round.h), so ranks
 * need not agree on who takes this path: one that finds the data of others missing makes an
 * operation after all, which goes on with the round.
 *
 * All under the context's lock, but for br_shm_small_takes().
 */
#ifndef BR_COLLECTIVES_SHM_SMALL_H
#define BR_COLLECTIVES_SHM_SMALL_H

#include "collectives/shm/executor.h"

struct br_api_even;

/* A call, which has been checked, and what follows from it. */
struct br_shm_small {
    const struct br_api_even *call;
    const uint8_t *send;     /* what this rank gives begins here, if bytes is not 0 */
    size_t bytes;            /* that it gives in its slot or ring */
    size_t given;            /* that each rank gives which gives any */
    size_t block;            /* bytes of a block */
    enum br_shm_place place; /* of what a rank gives */
    /* Where the block that counts for this rank begins in what another one has published and in
     * this rank's own buffer. */
    size_t theirs, own;
    uint32_t first, end; /* the ranks whose data are needed, this one perhaps among them */
};

/* Is it such a call? Any thread. */
bool br_shm_small_takes(const struct br_shm_executor *shm, const struct br_api_even *call,
                        struct br_shm_small *small);

/* Publishes what this rank gives, as collective number `sequence` of the segment's group. false:
 * others are before it, or there is no room. */
bool br_shm_small_begin(struct br_shm_executor *shm, const struct br_shm_small *small,
                        uint64_t sequence);

/* Looks at what others have published, so many times at most, and completes the call. false: some
 * of it is not there yet, or is another call's. */
bool br_shm_small_complete(struct br_shm_executor *shm, const struct br_shm_small *small,
                           uint32_t looks);

/* An operation that is the same call goes on with what br_shm_small_begin() has published: it is on
 * the short way now (executor.h). */
void br_shm_small_go_on(struct br_shm_executor *shm, const struct br_operation *op);

#endif
