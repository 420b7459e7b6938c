/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A collective of two rounds on the shared segment, in which ranks read each other's memory: in the
 * first each publishes where its buffer is, and who needs something of it copies it from there
 * (process_vm_readv()). In the second each says how that has ended; then nobody reads any more. If
 * a rank could not read, the operation begins anew, through the segment
 * (doc/design/shared_collectives.md).
 */
#ifndef BR_COLLECTIVES_SHM_DIRECT_H
#define BR_COLLECTIVES_SHM_DIRECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ways.h"
#include "collectives/engine/operation.h"
#include "collectives/shm/coll.h"

#define BR_SHM_DIRECT_ROUNDS 2u
/* Bytes that are read in one call, under the context's lock: 0.1 to 0.3 ms. */
#define BR_SHM_DIRECT_TURN ((size_t)1 << 20)

/* What a rank says in the second round: it has what it needs; it is a gather's root, and chunks
 * cost it less; it would have read what its owner may overwrite, whose call is in place; the kernel
 * does not let it read. */
enum br_shm_outcome { BR_SHM_READ, BR_SHM_BY_CHUNKS, BR_SHM_IN_PLACE, BR_SHM_REFUSED };

/* Of one rank, for as long as it has the segment. */
struct br_shm_direct {
    bool allowed;   /* all ranks agree: rank 0 has found it so, and no rank was refused since */
    uint64_t token; /* random: a reader compares it, so the process is the one that has published */
    /* of the operation: how many of the ranks that it reads from are done with, bytes of the next
     * one's block that have been read, and how it goes */
    uint32_t ranks_done;
    size_t bytes_done;
    enum br_shm_outcome outcome;
    bool offered;         /* of two ranks all that give have named memory that the other one maps */
    const void *there;    /* that memory, of a rooted operation */
    uint64_t *read_bytes; /* grows by what is read in other processes; not owned */
    /* of gathers of which this rank is the root: what chunks (BR_WAY_PIPE) and direct reads have
     * cost; and of the one that runs its way, burst 0: there is none */
    struct br_ways ways;
    struct br_ways_frame gather;
};

/* What a rank publishes in the first round. */
struct br_shm_offer {
    uint64_t address; /* of what it gives; 0: nobody may read it */
    uint64_t token_address, token;
    uint64_t process;
};

/* Does this system let processes of one user read each other's memory, as far as one of them can
 * tell? */
bool br_shm_direct_possible(void);

/* May collectives of this kind be read directly? Those in which each byte is read by one rank:
 * that is one copy instead of two. What all ranks read is copied once into the segment, and read
 * there from the cache. A gather's root decides for each call. */
static inline bool br_shm_direct_suits(enum br_collective collective)
{
    return collective == BR_ALLTOALL || collective == BR_SCATTER || collective == BR_GATHER;
}

/* Begins an operation: what this rank publishes. */
void br_shm_direct_offer(struct br_shm_direct *direct, const struct br_operation *op,
                         struct br_shm_offer *offer);

/* Reads what this rank needs of the operation, whose offers are in `epoch`; in each call 1 MiB or
 * less. Returns whether that is over; direct->outcome says how. */
bool br_shm_direct_read(struct br_shm_direct *direct, const struct br_shm_coll *coll,
                        const struct br_operation *op, uint64_t epoch);

/* The operation has ended well, and `gather` is not empty: the root learns what its way has cost.
 */
void br_shm_direct_ended(struct br_shm_direct *direct, const struct br_operation *op);

/* All ranks have published the second round, in `epoch`. Returns whether all have read what they
 * need; if the kernel has refused one, no more is read directly. */
bool br_shm_direct_agreed(struct br_shm_direct *direct, const struct br_shm_coll *coll,
                          uint64_t epoch);

#endif
