/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of GPUs at the calls, in the program's threads; what happens to it then: staging.h. */
#include "collectives/gpu/gpu.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/downgrade.h"
#include "base/error.h"
#include "base/log.h"
#include "collectives/gpu/gpudirect.h"
#include "collectives/engine/reduce.h"
#include "collectives/schedule/type.h"
#include "gpu/reduce.h"
#include "gpu/ipc.h"
#include "gpu/offload.h"
#include "gpu/pointer.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/comm/settings.h"
#include "collectives/engine/operation.h"

int br_gpus_probe(struct br_context *context)
{
    (void)context;
    br_gpu_look(); /* it has said what is missing; who has no memory of a GPU needs none of it */
    return 0;
}

bool br_gpus_may_share(const struct br_context *context)
{
    return context->settings.gpu_reduce != BR_GPU_REDUCE_CPU && br_gpu_image.bytes &&
           br_gpu_found();
}

int br_gpus_create(struct br_context *context)
{
    int rc = br_copier_create(&context->copier);

    if (rc)
        return rc;
    rc = br_offload_create(context->copier, &br_gpu_image, &context->offload);
    if (!rc)
        rc = br_ipc_create(context->size, &context->ipc);
    if (!rc)
        rc = br_gpudirect_create(context);
    if (rc) {
        br_ipc_destroy(context->ipc, false);
        br_offload_destroy(context->offload);
        br_copier_destroy(context->copier);
    }
    return rc;
}

void br_gpus_destroy(struct br_context *context)
{
    context->stays_pinned = br_copier_has_lost(context->copier);
    br_gpudirect_destroy(context);
    br_ipc_destroy(context->ipc, context->stays_pinned);
    br_offload_destroy(context->offload);
    br_copier_destroy(context->copier);
}

/* ---- where values are combined
 * ---------------------------------------------------------------- */

/* Bytes of an array: what a step of a collective combines, about. */
#define TRIAL ((size_t)128 << 10)
#define TRIES 5

/* Seconds of a sum on the CPU, for each byte read or written: the least of several. */
static double measure_type(enum braid_type type, uint8_t *arrays)
{
    const void *sources[] = {arrays, arrays + TRIAL};
    size_t size = br_type_size(type), count = size ? TRIAL / size : 0;
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < TRIES; i++) {
        uint64_t began = br_clock_now(), spent;

        if (br_reduce(type, BRAID_SUM, arrays, sources, 2, count, 0))
            return 0;
        spent = br_clock_now() - began;
        least = spent < least ? spent : least;
    }
    return (double)least * 1e-9 / (3.0 * TRIAL);
}

/* 0: there is no memory to try. */
static void measure_cpu(double per_byte[BRAID_TYPES])
{
    uint8_t *arrays = malloc(2 * TRIAL);

    if (arrays) /* about 1 in the small types; what nobody has written would all be one page */
        memset(arrays, 0x3c, 2 * TRIAL);
    for (int type = 0; type < BRAID_TYPES; type++)
        per_byte[type] = arrays ? measure_type((enum braid_type)type, arrays) : 0;
    free(arrays);
}

/* Opens reductions on a GPU, if its kernels work; which way a step goes then is chosen by what both
 * have taken here. */
static void open_reductions(struct br_context *context, int gpu)
{
    struct br_offload_cost cost;

    if (context->settings.gpu_reduce == BR_GPU_REDUCE_CPU)
        return;
    if (br_offload_open(context->offload, gpu, &cost)) {
        br_downgrade(gpu_reduction);
        br_log_warn("rank %d: values of GPU %d are combined on the CPU: %s", context->rank, gpu - 1,
                    br_error_message());
        return;
    }
    measure_cpu(cost.cpu_per_byte);
    br_log_info("rank %d: a reduction on GPU %d takes %.0f us and %.3f ns a byte copied, on the "
                "CPU %.3f ns a "
                "byte of float32%s",
                context->rank, gpu - 1, cost.start * 1e6, cost.per_byte * 1e9,
                cost.cpu_per_byte[BRAID_FLOAT32] * 1e9,
                context->settings.gpu_reduce == BR_GPU_REDUCE_GPU
                    ? "; BRAID_GPU_REDUCE=gpu chooses the GPU"
                    : "");
    if (context->settings.gpu_reduce == BR_GPU_REDUCE_GPU)
        cost.start = -INFINITY;
    br_offload_set(context->offload, gpu, &cost);
}

/* ---- calls
 * ------------------------------------------------------------------------------------- */

static int open_now(struct br_context *context, int gpu)
{
    int rc = br_copier_open(context->copier, gpu);

    if (rc <= 0)
        return rc;
    if (!br_gpudirect_open(context, gpu)) {
        br_downgrade(gpu_staging);
        br_log_warn("rank %d: memory of GPU %d goes through pinned host memory (doc/gpu.md)",
                    context->rank, gpu - 1);
    }
    open_reductions(context, gpu);
    return 0;
}

/* Meanwhile no thread puts an operation into a stream, nor begins to with this GPU: kernels are
 * loaded, which may wait for all that stands in streams (stream_op.h, note 7). */
int br_gpus_open(struct br_context *context, int gpu)
{
    /* others br_copier_open() refuses */
    uint64_t bit = gpu > 0 && gpu <= 64 ? 1ull << (gpu - 1) : 0;
    int rc;

    if (!gpu || atomic_load_explicit(&context->opened_gpus, memory_order_acquire) & bit)
        return 0;
    pthread_mutex_lock(&context->stream_lock);
    rc = open_now(context, gpu);
    if (!rc)
        atomic_fetch_or(&context->opened_gpus, bit);
    pthread_mutex_unlock(&context->stream_lock);
    return rc;
}

int br_comm_copy(struct braid_comm *comm, void *to, const void *from, size_t bytes)
{
    int to_gpu = br_gpu_of(to), gpu = to_gpu ? to_gpu : br_gpu_of(from), rc;

    if (!gpu) {
        memcpy(to, from, bytes);
        return 0;
    }
    rc = br_gpus_open(comm->context, gpu);
    if (rc)
        return rc;
    return br_copier_copy_now(comm->context->copier, gpu, to_gpu ? BR_COPY_TO_GPU : BR_COPY_TO_HOST,
                              to, from, bytes);
}

static bool is_foreign(const struct br_context *context, int gpu, const void *memory)
{
    return gpu && !br_offload_reaches(context->offload, gpu, memory);
}

int br_comm_probe_memory(const char *name, struct br_operation *op)
{
    int rc;

    op->send_gpu = op->send_bytes ? br_gpu_of(op->send) : 0;
    op->recv_gpu = op->recv_bytes ? br_gpu_of(op->recv) : 0;
    if (!op->send_gpu && !op->recv_gpu)
        return 0;
    if (op->kind == BR_OPERATION_ADD || op->kind == BR_OPERATION_SWAP)
        return br_error(EINVAL, "%s: the value from before goes into host memory, not into a GPU's",
                        name);
    rc = br_gpus_open(op->comm->context, op->send_gpu);
    if (!rc)
        rc = br_gpus_open(op->comm->context, op->recv_gpu);
    if (rc)
        return br_error_prefix(rc, "%s: ", name);
    op->foreign = is_foreign(op->comm->context, op->send_gpu, op->send) ||
                  is_foreign(op->comm->context, op->recv_gpu, op->recv);
    return 0;
}
