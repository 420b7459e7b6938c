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

static int allreduce(const float *in, float *out, size_t count)
{
    return said(braid_allreduce(comm, in, out, count, BRAID_FLOAT32, BRAID_SUM, &options, NULL),
                "all-reduce");
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
                        .allreduce = allreduce,
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
