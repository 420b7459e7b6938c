/* SPDX-License-Identifier: BSD-3-Clause */
/* The public calls whose operations stand in a stream (braid/gpu.h). What becomes of them:
 * collectives/gpu/stream.c. */
#include <braid/gpu.h>

#include <errno.h>

#include "base/error.h"
#include "base/process.h"
#include "collectives/comm/api.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/comm/gpu_ops.h"
#include "collectives/schedule/schedule.h"

static int on_stream(struct braid_comm *comm, const char *name, const struct br_api_even *c,
                     const struct braid_options *options, void *stream)
{
    BR_DISABLE_CANCELLATION;
    struct br_operation *op;
    int rc = br_api_make_even(comm, name, c, options, &op);

    if (rc)
        return rc;
    rc = comm->context->gpu->submit(op, stream);
    return rc ? br_error_prefix(rc, "%s: ", name) : 0;
}

int braid_allreduce_on_stream(struct braid_comm *comm, const void *send, void *recv, size_t count,
                              enum braid_type type, enum braid_reduction reduction,
                              const struct braid_options *options, void *stream)
{
    return on_stream(comm, "braid_allreduce_on_stream",
                     &(struct br_api_even){BR_ALLREDUCE, send, recv, count, type, reduction, 0},
                     options, stream);
}

int braid_reduce_scatter_on_stream(struct braid_comm *comm, const void *send, void *recv,
                                   size_t count, enum braid_type type,
                                   enum braid_reduction reduction,
                                   const struct braid_options *options, void *stream)
{
    return on_stream(
        comm, "braid_reduce_scatter_on_stream",
        &(struct br_api_even){BR_REDUCE_SCATTER, send, recv, count, type, reduction, 0}, options,
        stream);
}

int braid_allgather_on_stream(struct braid_comm *comm, const void *send, void *recv, size_t count,
                              enum braid_type type, const struct braid_options *options,
                              void *stream)
{
    return on_stream(comm, "braid_allgather_on_stream",
                     &(struct br_api_even){BR_ALLGATHER, send, recv, count, type, BRAID_SUM, 0},
                     options, stream);
}

int braid_broadcast_on_stream(struct braid_comm *comm, const void *send, void *recv, size_t count,
                              enum braid_type type, int root, const struct braid_options *options,
                              void *stream)
{
    return on_stream(comm, "braid_broadcast_on_stream",
                     &(struct br_api_even){BR_BROADCAST, send, recv, count, type, BRAID_SUM, root},
                     options, stream);
}

int braid_reduce_on_stream(struct braid_comm *comm, const void *send, void *recv, size_t count,
                           enum braid_type type, enum braid_reduction reduction, int root,
                           const struct braid_options *options, void *stream)
{
    return on_stream(comm, "braid_reduce_on_stream",
                     &(struct br_api_even){BR_REDUCE, send, recv, count, type, reduction, root},
                     options, stream);
}

int braid_alltoall_on_stream(struct braid_comm *comm, const void *send, void *recv, size_t count,
                             enum braid_type type, const struct braid_options *options,
                             void *stream)
{
    return on_stream(comm, "braid_alltoall_on_stream",
                     &(struct br_api_even){BR_ALLTOALL, send, recv, count, type, BRAID_SUM, 0},
                     options, stream);
}

int braid_gather_on_stream(struct braid_comm *comm, const void *send, void *recv, size_t count,
                           enum braid_type type, int root, const struct braid_options *options,
                           void *stream)
{
    return on_stream(comm, "braid_gather_on_stream",
                     &(struct br_api_even){BR_GATHER, send, recv, count, type, BRAID_SUM, root},
                     options, stream);
}

int braid_scatter_on_stream(struct braid_comm *comm, const void *send, void *recv, size_t count,
                            enum braid_type type, int root, const struct braid_options *options,
                            void *stream)
{
    return on_stream(comm, "braid_scatter_on_stream",
                     &(struct br_api_even){BR_SCATTER, send, recv, count, type, BRAID_SUM, root},
                     options, stream);
}

int braid_scan_on_stream(struct braid_comm *comm, const void *send, void *recv, size_t count,
                         enum braid_type type, enum braid_reduction reduction,
                         const struct braid_options *options, void *stream)
{
    return on_stream(comm, "braid_scan_on_stream",
                     &(struct br_api_even){BR_SCAN, send, recv, count, type, reduction, 0}, options,
                     stream);
}

int braid_exscan_on_stream(struct braid_comm *comm, const void *send, void *recv, size_t count,
                           enum braid_type type, enum braid_reduction reduction,
                           const struct braid_options *options, void *stream)
{
    return on_stream(comm, "braid_exscan_on_stream",
                     &(struct br_api_even){BR_EXSCAN, send, recv, count, type, reduction, 0},
                     options, stream);
}

int braid_barrier_on_stream(struct braid_comm *comm, const struct braid_options *options,
                            void *stream)
{
    return on_stream(comm, "braid_barrier_on_stream",
                     &(struct br_api_even){.collective = BR_BARRIER}, options, stream);
}
