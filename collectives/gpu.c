/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of GPUs at the calls, in the program's threads; what happens to it then: stage.h. */
#include "collectives/comm.h"

#include <errno.h>
#include <string.h>

#include "base/downgrade.h"
#include "base/error.h"
#include "base/log.h"
#include "gpu/pointer.h"

static int open_gpu(struct br_family *family, int gpu)
{
    int rc = gpu ? br_copier_open(family->copier, gpu) : 0;

    if (rc <= 0)
        return rc;
    br_downgrade(gpu_staging);
    br_log_warn("rank %d: memory of GPU %d goes through pinned host memory (doc/gpu.md)", family->rank,
                gpu - 1);
    return 0;
}

int br_comm_copy(struct braid_comm *comm, void *to, const void *from, size_t bytes)
{
    int to_gpu = br_gpu_of(to), gpu = to_gpu ? to_gpu : br_gpu_of(from), rc;

    if (!gpu) {
        memcpy(to, from, bytes);
        return 0;
    }
    rc = open_gpu(comm->family, gpu);
    if (rc)
        return rc;
    return br_copier_copy_now(comm->family->copier, gpu, to_gpu ? BR_COPY_TO_GPU : BR_COPY_TO_HOST, to, from,
                              bytes);
}

int br_comm_look_at_memory(const char *name, struct br_operation *op)
{
    int rc;

    op->send_gpu = op->send_bytes ? br_gpu_of(op->send) : 0;
    op->recv_gpu = op->recv_bytes ? br_gpu_of(op->recv) : 0;
    if (!op->send_gpu && !op->recv_gpu)
        return 0;
    if (op->kind == BR_OPERATION_ADD || op->kind == BR_OPERATION_SWAP)
        return br_error(EINVAL, "%s: the value from before goes into host memory, not into a GPU's", name);
    rc = open_gpu(op->comm->family, op->send_gpu);
    if (!rc)
        rc = open_gpu(op->comm->family, op->recv_gpu);
    return rc ? br_error_prefix(rc, "%s: ", name) : 0;
}
