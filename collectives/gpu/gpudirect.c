/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/gpu/gpudirect.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/downgrade.h"
#include "base/error.h"
#include "base/log.h"
#include "collectives/comm/context.h"
#include "collectives/comm/progress_lock.h"
#include "collectives/engine/engine.h"
#include "collectives/engine/operation.h"
#include "collectives/engine/staging.h"
#include "collectives/gpu/cuda_memory.h"
#include "collectives/gpu/stream_block.h"
#include "protocol/worker.h"
#include "gpu/direct.h"
#include "gpu/driver.h"
#include "gpu/pointer.h"
#include "gpu/workspace.h"
#include "transport/gpu_cache.h"
#include "transport/gpudirect_check.h"

struct br_gpudirect {
    uint32_t capable_devices; /* devices that may take memory of GPUs, a bit each */
    struct br_gpu_cache *cache;
    bool warned_relayed; /* something went by other hosts: that is said once */
    struct br_gpudirect_gpu {
        uint32_t devices;                   /* of these those that reach the GPU */
        bool writable;                      /* they may write, too (note 6) */
        struct br_gpudirect_check *trial;   /* NULL: not opened yet */
        struct br_workspace *workspace;     /* NULL: there is none, or NICs do not know it */
        struct br_region *workspace_region; /* that it is */
    } gpus[BR_GPUS];                        /* written once, before the GPU's first operation */
};

int br_gpudirect_create(struct br_context *context)
{
    const struct br_worker *w = context->worker;
    struct br_gpudirect *gpudirect;
    uint32_t able = 0;
    int rc;

    for (int i = 0; i < w->n_devices; i++)
        able |= (uint32_t)w->devices[i]->caps.needs_rkey << i;
    if (!able || !context->settings.gpu_direct || !br_gpu_found())
        return 0;
    gpudirect = calloc(1, sizeof *gpudirect);
    if (!gpudirect)
        return br_error(ENOMEM, "rank %d: no memory for the regions of GPUs", context->rank);
    gpudirect->capable_devices = able;
    rc = br_gpu_cache_open(w->devices, w->n_devices, &gpudirect->cache);
    if (rc)
        free(gpudirect);
    else
        context->gpudirect = gpudirect;
    return rc;
}

void br_gpudirect_destroy(struct br_context *context)
{
    struct br_gpudirect *gpudirect = context->gpudirect;

    if (!gpudirect)
        return;
    for (int i = 0; i < BR_GPUS; i++)
        if (gpudirect->gpus[i].workspace_region)
            br_gpu_cache_put(gpudirect->cache, gpudirect->gpus[i].workspace_region);
    br_gpu_cache_close(gpudirect->cache);
    for (int i = 0; i < BR_GPUS; i++) {
        br_workspace_destroy(gpudirect->gpus[i].workspace);
        br_gpudirect_check_destroy(gpudirect->gpus[i].trial);
    }
    free(gpudirect);
    context->gpudirect = NULL;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void gpudirect_warn_unusable(const struct br_context *context, const char *device, int gpu)
{
    br_downgrade(gpu_direct);
    br_log_warn(
        "rank %d: %s does not reach the memory of GPU %d, which goes through host memory: %s",
        context->rank, device, gpu - 1, br_error_message());
}

static void try_device(struct br_context *context, struct br_gpudirect_gpu *way, int i, int gpu)
{
    const struct br_device *device = context->worker->devices[i];
    int rc = br_gpudirect_check_run(way->trial, device->ops, device->config);

    if (rc < 0) {
        gpudirect_warn_unusable(context, device->name, gpu);
        return;
    }
    way->devices |= 1u << i;
    br_log_info("rank %d: %s reads and writes memory of GPU %d itself, by %s: messages, put, get "
                "and collectives go "
                "that way",
                context->rank, device->name, gpu - 1, rc ? "the peer-memory module" : "dma-buf");
}

/* Scratch of direct runs. What NICs cannot be told of the cache has said. */
static void open_workspace(struct br_context *context, struct br_gpudirect_gpu *way, int gpu)
{
    struct br_workspace *workspace;

    if (br_workspace_create(context->copier, gpu, &workspace)) {
        br_downgrade(gpu_direct);
        br_log_warn(
            "rank %d: collectives of GPU %d's memory that need scratch go through host memory: %s",
            context->rank, gpu - 1, br_error_message());
        return;
    }
    way->workspace = workspace;
    br_progress_lock(context);
    way->workspace_region =
        br_gpu_cache_get(context->gpudirect->cache, br_workspace_memory(workspace),
                         BR_WORKSPACE_BYTES, way->devices, true);
    br_progress_unlock(context);
}

int br_gpudirect_open(struct br_context *context, int gpu)
{
    struct br_gpudirect_gpu *way = context->gpudirect ? &context->gpudirect->gpus[gpu - 1] : NULL;

    if (!way)
        return 0;
    if (br_gpudirect_check_create(context->copier, gpu, &way->trial)) {
        gpudirect_warn_unusable(context, "a NIC", gpu);
        return 0;
    }
    for (int i = 0; i < context->worker->n_devices; i++)
        if (context->gpudirect->capable_devices >> i & 1)
            try_device(context, way, i, gpu);
    way->writable = way->devices && !br_direct_can_flush(gpu);
    if (way->devices && !way->writable) {
        br_downgrade(gpu_direct);
        br_log_warn("rank %d: what arrives for GPU %d goes through host memory: %s", context->rank,
                    gpu - 1, br_error_message());
    }
    if (way->writable)
        open_workspace(context, way, gpu);
    return __builtin_popcount(way->devices);
}

/* ---- use ------------------------------------------------------------------------------------- */

/* Can frames of `bytes` between us and that rank of the job go by these devices alone? */
static bool gpudirect_reaches_peer(const struct br_context *context, int peer, size_t bytes,
                                   uint32_t devices)
{
    return peer != context->rank &&
           !br_transfer_is_eager(context->worker, peer, BR_TAG_P2P,
                                 bytes < BR_MAX_TRANSFER ? (uint32_t)bytes : BR_MAX_TRANSFER) &&
           br_worker_uses_only(context->worker, peer, devices);
}

/* Between us and the other end; of a collective, which peers it has is not known yet, and any will
 * do. */
static bool gpudirect_eligible(const struct br_context *context, const struct br_operation *op,
                               size_t bytes, uint32_t devices)
{
    switch (op->kind) {
    case BR_OPERATION_SEND:
    case BR_OPERATION_RECV:
        return op->peer >= 0 && op->peer < op->group->size &&
               gpudirect_reaches_peer(context, br_group_in_job(op->group, op->peer), bytes,
                                      devices);
    case BR_OPERATION_PUT:
        return op->key.rank < (uint32_t)context->size &&
               gpudirect_reaches_peer(context, (int)op->key.rank, bytes, devices);
    case BR_OPERATION_GET: /* note 4 */
        return op->key.rank < (uint32_t)context->size && (int)op->key.rank != context->rank &&
               br_worker_uses_only(context->worker, (int)op->key.rank, devices);
    case BR_OPERATION_COLLECTIVE:
        for (int r = 0; r < op->group->size; r++)
            if (gpudirect_reaches_peer(context, br_group_in_job(op->group, r), bytes, devices))
                return true;
        return false;
    default:
        return false;
    }
}

static struct br_region *gpudirect_get(struct br_context *context, const void *memory, size_t bytes,
                                       uint32_t devices)
{
    bool may = br_streams_block(context); /* note 7 */
    struct br_region *region =
        br_gpu_cache_get(context->gpudirect->cache, memory, bytes, devices, may);

    if (may)
        br_streams_unblock(context);
    return region;
}

/* That bytes may leave by, or arrive by; NULL: none. */
static const struct br_gpudirect_gpu *gpudirect_gpu_of(const struct br_context *context, int gpu,
                                                       bool arrives)
{
    const struct br_gpudirect_gpu *way =
        context->gpudirect ? &context->gpudirect->gpus[gpu - 1] : NULL;

    return way && way->devices && (way->writable || !arrives) ? way : NULL;
}

struct br_region *br_gpudirect_get_region(struct br_context *context, const struct br_operation *op,
                                          const void *memory, size_t bytes, int gpu, bool arrives)
{
    const struct br_gpudirect_gpu *way = gpudirect_gpu_of(context, gpu, arrives);

    return way && gpudirect_eligible(context, op, bytes, way->devices)
               ? gpudirect_get(context, memory, bytes, way->devices)
               : NULL;
}

struct br_region *br_gpudirect_get_peer_region(struct br_context *context, int peer,
                                               const void *memory, size_t bytes, int gpu,
                                               bool arrives)
{
    const struct br_gpudirect_gpu *way = gpudirect_gpu_of(context, gpu, arrives);

    return way && br_worker_uses_only(context->worker, peer, way->devices)
               ? gpudirect_get(context, memory, bytes, way->devices)
               : NULL;
}

void br_gpudirect_register(struct br_context *context, const void *memory, size_t bytes, int gpu)
{
    const struct br_gpudirect_gpu *way = gpudirect_gpu_of(context, gpu, false);
    struct br_region *region = way ? gpudirect_get(context, memory, bytes, way->devices) : NULL;

    if (region)
        br_gpudirect_put_region(context, region);
}

void br_gpudirect_put_region(struct br_context *context, struct br_region *region)
{
    br_gpu_cache_put(context->gpudirect->cache, region);
}

/* Note 2. Such memory is in a region, so its GPU is open. */
int br_gpudirect_copy(void *opaque, bool to_gpu, void *to, const void *from, uint32_t bytes)
{
    struct br_context *context = opaque;
    int gpu = br_gpu_of(to_gpu ? to : from);

    if (!gpu)
        return br_error(EFAULT, "memory of a GPU was freed while an operation used it");
    if (!context->gpudirect->warned_relayed) {
        context->gpudirect->warned_relayed = true;
        br_downgrade(gpu_direct);
        br_log_warn("rank %d: a rail is lost: memory of GPU %d goes by other hosts, and through "
                    "host memory, in "
                    "operations that have begun",
                    context->rank, gpu - 1);
    }
    return br_copier_copy_within(context->copier, gpu, to_gpu ? BR_COPY_TO_GPU : BR_COPY_TO_HOST,
                                 to, from, bytes, BR_STAGING_TIMEOUT_NS);
}

/* ---- scratch --------------------------------------------------------------------------------- */

static void *get_workspace(void *opaque, int gpu, size_t bytes, struct br_region **region)
{
    const struct br_context *context = opaque;
    const struct br_gpudirect_gpu *way = &context->gpudirect->gpus[gpu - 1];

    *region = way->workspace_region;
    return way->workspace_region ? br_workspace_take(way->workspace, bytes) : NULL;
}

static void put_workspace(void *opaque, int gpu, void *memory, size_t bytes)
{
    const struct br_context *context = opaque;

    br_workspace_put(context->gpudirect->gpus[gpu - 1].workspace, memory, bytes);
}

struct br_cuda_scratch br_gpudirect_scratch(struct br_context *context)
{
    return (struct br_cuda_scratch){get_workspace, put_workspace, context};
}
