/* SPDX-License-Identifier: BSD-3-Clause */
/* What GPUs bring to a context, by CUDA (gpu_ops.h). */
#include "collectives/comm/gpu_ops.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/downgrade.h"
#include "base/error.h"
#include "base/log.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/comm/settings.h"
#include "collectives/engine/reduce.h"
#include "collectives/engine/staging.h"
#include "collectives/gpu/cuda_memory.h"
#include "collectives/gpu/gpu_hosts.h"
#include "collectives/gpu/gpu_local.h"
#include "collectives/gpu/gpudirect.h"
#include "collectives/gpu/stream.h"
#include "collectives/gpu/stream_local.h"
#include "collectives/schedule/type.h"
#include "collectives/shm/executor.h"
#include "gpu/ipc.h"
#include "gpu/offload.h"
#include "gpu/pointer.h"
#include "gpu/reduce.h"
#include "gpu/stream_op.h"
#include "gpu/stream_peers.h"

static bool gpu_may_share(const struct br_context *context)
{
    return context->settings.gpu_reduce != BR_GPU_REDUCE_CPU && br_gpu_image.bytes &&
           br_gpu_found();
}

static void gpu_close(struct br_context *context)
{
    context->stays_pinned = br_copier_has_lost(context->copier);
    br_gpudirect_destroy(context);
    br_ipc_destroy(context->ipc, context->stays_pinned);
    br_offload_destroy(context->offload);
    br_copier_destroy(context->copier);
    free(context->gpu_memory);
}

static int gpu_open(struct br_context *context)
{
    struct br_cuda_memory *memory = calloc(1, sizeof *memory);
    struct br_cuda_scratch scratch;
    int rc = memory ? br_copier_create(&context->copier)
                    : br_error(ENOMEM, "rank %d: no memory for GPUs", context->rank);

    if (!rc)
        rc = br_offload_create(context->copier, &br_gpu_image, &context->offload);
    if (!rc)
        rc = br_ipc_create(context->size, &context->ipc);
    if (!rc)
        rc = br_gpudirect_create(context);
    if (rc) {
        br_ipc_destroy(context->ipc, false);
        br_offload_destroy(context->offload);
        br_copier_destroy(context->copier);
        free(memory);
        return rc;
    }
    scratch = br_gpudirect_scratch(context);
    br_cuda_memory_init(memory, context->copier, context->offload, &scratch);
    context->gpu_memory = &memory->memory;
    return 0;
}

/* Every stream goes on; what GPUs copy out of our memory should be through before that goes. Before
 * the engine ends, which unpins, too. */
static void gpu_close_streams(struct br_context *context)
{
    uint64_t until = br_clock_now() + BR_STAGING_TIMEOUT_NS;
    struct timespec nap = {0, 50000};

    while (!br_stream_ops_idle(context->stream_ops) && br_clock_now() < until)
        nanosleep(&nap, NULL);
    if (!br_stream_ops_idle(context->stream_ops)) {
        br_log_error("rank %d: a kernel hangs before operations in streams: what is pinned for "
                     "GPUs stays pinned and allocated to the end of the process",
                     context->rank);
        br_copier_set_all_lost(context->copier);
    }
    while (context->n_stream_peers)
        br_stream_peers_destroy(context->stream_peers[--context->n_stream_peers],
                                !br_stream_ops_idle(context->stream_ops));
    br_stream_ops_destroy(context->stream_ops);
    pthread_mutex_destroy(&context->stream_lock);
}

/* ---- where values are combined --------------------------------------------------------------- */

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

/* ---- calls ----------------------------------------------------------------------------------- */

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
static int gpu_use(struct br_context *context, int gpu, const void *memory)
{
    /* others br_copier_open() refuses */
    uint64_t bit = gpu > 0 && gpu <= 64 ? 1ull << (gpu - 1) : 0;
    int rc = 0;

    if (!gpu)
        return 0;
    if (!(atomic_load_explicit(&context->opened_gpus, memory_order_acquire) & bit)) {
        pthread_mutex_lock(&context->stream_lock);
        rc = open_now(context, gpu);
        if (!rc)
            atomic_fetch_or(&context->opened_gpus, bit);
        pthread_mutex_unlock(&context->stream_lock);
    }
    if (!rc)
        br_gpu_settle(memory);
    return rc;
}

static bool gpu_reaches(const struct br_context *context, int gpu, const void *memory)
{
    return br_offload_reaches(context->offload, gpu, memory);
}

static int gpu_copy(struct br_context *context, int gpu, void *to, const void *from, size_t bytes)
{
    enum br_copy_direction direction = br_gpu_of(to) ? BR_COPY_TO_GPU : BR_COPY_TO_HOST;

    return br_copier_copy_now(context->copier, gpu, direction, to, from, bytes);
}

static struct br_gpu_counters gpu_counters(const struct br_context *context)
{
    struct br_copier_counters c = br_copier_counters(context->copier);

    return (struct br_gpu_counters){c.to_host_bytes, c.to_gpu_bytes, c.reduced_bytes,
                                    c.shared_bytes};
}

/* ---- executors ------------------------------------------------------------------------------- */

static int gpu_add_executors(struct braid_comm *comm)
{
    int rc = comm->shm && comm->context->gpu_local_possible ? br_gpu_local_create(comm->shm) : 0;

    if (!rc && br_gpu_found())
        br_stream_order_init(comm);
    if (!rc && comm->shm && comm->shm->guest)
        rc = br_stream_local_create(comm);
    return rc;
}

static void gpu_remove_executors(struct braid_comm *comm)
{
    if (comm->shm)
        br_gpu_local_destroy(comm->shm->guest);
    br_stream_local_destroy(comm);
}

const struct br_gpu_ops br_gpu_cuda = {.probe = br_gpu_look,
                                       .may_share = gpu_may_share,
                                       .open = gpu_open,
                                       .close = gpu_close,
                                       .open_streams = br_streams_create,
                                       .close_streams = gpu_close_streams,
                                       .open_hosts = br_gpu_hosts_create,
                                       .close_hosts = br_gpu_hosts_destroy,
                                       .add_executors = gpu_add_executors,
                                       .remove_executors = gpu_remove_executors,
                                       .gpu_of = br_gpu_of,
                                       .use = gpu_use,
                                       .reaches = gpu_reaches,
                                       .copy = gpu_copy,
                                       .submit = br_stream_submit,
                                       .map = br_gpudirect_get_region,
                                       .unmap = br_gpudirect_put_region,
                                       .expose = br_gpudirect_register,
                                       .region_copy = br_gpudirect_copy,
                                       .counters = gpu_counters};
