/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The measuring loop that all drivers of bench/allreduce_peers.sh and bench/collectives_peers.sh
 * share, so that the same thing is timed for each: a collective over float32, out of place, over
 * the same two buffers, repeated. The root of rooted ones is rank 0.
 *
 * For each size: 3 calls that are not timed, 5 that give an estimate, then as many as fit in the
 * time budget (at least 7, at most 5,000, the same number on every rank), a quarter of that before
 * them as warm-up. Afterwards the whole result is compared.
 */
#ifndef BENCH_PEERS_LOOP_H
#define BENCH_PEERS_LOOP_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum peer_collective {
    PEER_BROADCAST,
    PEER_REDUCE,
    PEER_ALLREDUCE,
    PEER_ALLGATHER,
    PEER_REDUCE_SCATTER,
    PEER_ALLTOALL,
    PEER_SCATTER,
    PEER_GATHER,
    PEER_BARRIER,
    PEER_COLLECTIVES
};

/* What a library must offer to be measured. Functions return 0, or nonzero after printing why. */
struct peer {
    int rank, size;
    void *(*get)(size_t bytes); /* memory for a buffer; NULL: malloc */
    /* count: elements of one block, as in MPI: what a rank gives to or gets from one other; a
     * buffer of the collectives that have one for each rank has `size` blocks. A broadcast: the
     * root sends `in`, the others receive into `out`. */
    int (*collective)(enum peer_collective which, const float *in, float *out, size_t count);
    int (*maximum)(double *values, int count); /* in place over the ranks */
};

/*
 * argv: [--limit] [--collectives NAME,...] [--paces PACE,...] [--full-speed NS] MILLISECONDS
 * SIZE... in bytes of a block, ascending; default allreduce and each. With the full speed of the
 * cores (speed.h) a size is measured when all ranks have it, and again if they have it no more
 * afterwards, for at most ten times the budgets of all sizes. The paces:
 *   each     call after call, each timed; the median over calls of the maximum over the ranks
 *   barrier  the same, with a barrier before each call
 *   stream   call after call, timed as a whole until every rank has ended; a call's share
 * Rank 0 prints "COLLECTIVE PACE SIZE US MEMCPY_US BUSY_US" a size: MEMCPY_US is 0 without --limit,
 * BUSY_US is what all cores of the machine work for one call, waiting in a loop included. Sizes
 * whose buffers would take more than 4 GiB in all ranks together are left out. Returns the exit
 * code of the process.
 */
int peer_measure(const struct peer *peer, int argc, char **argv);

#ifdef __cplusplus
}
#endif

#endif
