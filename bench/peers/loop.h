/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The measuring loop that all drivers of bench/allreduce_peers.sh share, so that the same thing is
 * timed for each: an out-of-place float32 sum over the same two buffers, repeated.
 *
 * For each size: 3 calls that are not timed, 5 that give an estimate, then as many as fit in the
 * time budget (at least 7, at most 5,000, the same number on every rank), a tenth of that before
 * them as warm-up. An iteration's time is the maximum over the ranks; rank 0 prints the median.
 * Afterwards the whole result is compared.
 */
#ifndef BENCH_PEERS_LOOP_H
#define BENCH_PEERS_LOOP_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a library must offer to be measured. Functions return 0, or nonzero after printing why. */
struct peer {
    int rank, size;
    void *(*get)(size_t bytes); /* memory for a buffer; NULL: malloc */
    int (*allreduce)(const float *in, float *out, size_t count);
    int (*maximum)(double *values, int count); /* in place over the ranks */
};

/* argv: [--limit] MILLISECONDS SIZE... in bytes, ascending. Rank 0 prints "SIZE MEDIAN_US MEMCPY_US
 * BUSY_US" a size: MEMCPY_US is 0 without --limit, BUSY_US is what all cores of the machine work
 * for one call, waiting in a loop included. Returns the exit code of the process. */
int peer_measure(const struct peer *peer, int argc, char **argv);

#ifdef __cplusplus
}
#endif

#endif
