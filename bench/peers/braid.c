/* SPDX-License-Identifier: BSD-3-Clause */
/* braid. BENCH_MEMORY=malloc (default) or alloc: where the buffers come from; BENCH_ALGORITHM:
 * default auto. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <braid/braid.h>

#include "loop.h"

static struct braid_comm *comm;
static struct braid_options options;

static int said(int rc, const char *what)
{
    if (rc)
        fprintf(stderr, "rank %d: %s: %s\n", comm ? braid_rank(comm) : -1, what,
                braid_last_error());
    return rc != 0;
}

static int run(enum peer_collective which, const float *in, float *out, size_t count)
{
    const struct braid_options *o = &options;
    float *received = braid_rank(comm) ? out : (float *)in; /* of a broadcast */

    switch (which) {
    case PEER_BROADCAST:
        return braid_broadcast(comm, in, received, count, BRAID_FLOAT32, 0, o, NULL);
    case PEER_REDUCE:
        return braid_reduce(comm, in, out, count, BRAID_FLOAT32, BRAID_SUM, 0, o, NULL);
    case PEER_ALLREDUCE:
        return braid_allreduce(comm, in, out, count, BRAID_FLOAT32, BRAID_SUM, o, NULL);
    case PEER_ALLGATHER:
        return braid_allgather(comm, in, out, count, BRAID_FLOAT32, o, NULL);
    case PEER_REDUCE_SCATTER:
        return braid_reduce_scatter(comm, in, out, count, BRAID_FLOAT32, BRAID_SUM, o, NULL);
    case PEER_ALLTOALL:
        return braid_alltoall(comm, in, out, count, BRAID_FLOAT32, o, NULL);
    case PEER_SCATTER:
        return braid_scatter(comm, in, out, count, BRAID_FLOAT32, 0, o, NULL);
    case PEER_GATHER:
        return braid_gather(comm, in, out, count, BRAID_FLOAT32, 0, o, NULL);
    default:
        return braid_barrier(comm, NULL, NULL);
    }
}

static int collective(enum peer_collective which, const float *in, float *out, size_t count)
{
    return said(run(which, in, out, count), "a collective");
}

static int maximum(double *values, int count)
{
    return said(
        braid_allreduce(comm, values, values, (size_t)count, BRAID_FLOAT64, BRAID_MAX, NULL, NULL),
        "maximum");
}

static void *get(size_t bytes)
{
    return braid_alloc(comm, bytes);
}

int main(int argc, char **argv)
{
    const char *memory = getenv("BENCH_MEMORY");
    options.algorithm = getenv("BENCH_ALGORITHM");
    if (memory && strcmp(memory, "malloc") && strcmp(memory, "alloc")) {
        fprintf(stderr, "BENCH_MEMORY is '%s': must be malloc or alloc\n", memory);
        return 2;
    }
    if (said(braid_init(NULL, &comm), "braid_init"))
        return 1;
    struct peer peer = {.rank = braid_rank(comm),
                        .size = braid_size(comm),
                        .collective = collective,
                        .maximum = maximum};
    if (memory && !strcmp(memory, "alloc"))
        peer.get = get;
    int code = peer_measure(&peer, argc, argv);
    if (code) {
        braid_comm_abort(comm, "a rank of the benchmark failed");
        braid_finalize(comm);
        return code;
    }
    return said(braid_finalize(comm), "braid_finalize");
}
