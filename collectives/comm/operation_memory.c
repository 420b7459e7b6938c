/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of operations: the region that each lies in, from the program's or from the
 * registration cache, and the GPU that it lies on. Memory of up to eager_bytes is copied into
 * messages in any case.
 */
#include "collectives/comm/operation_memory.h"

#include <errno.h>
#include <stdio.h>

#include "base/copy.h"
#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "base/process.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/comm/gpu_ops.h"
#include "collectives/comm/memory.h"
#include "collectives/engine/operation.h"
#include "transport/cache.h"

static bool any_pins(const struct br_context *context)
{
    bool any = false;

    for (int d = 0; d < context->worker->n_devices; d++)
        any |= context->worker->devices[d]->caps.needs_rkey;
    return any;
}

int br_memory_open(struct br_context *context)
{
    const struct br_worker *w = context->worker;
    int rc;

    for (int r = 0; r < context->size; r++)
        context->shares_host = context->shares_host || br_comm_maps(context, r);
    if (!any_pins(context))
        return 0;
    if (!context->settings.cache_bytes) {
        br_log_warn("BRAID_CACHE_BYTES=0: memory that is in no region goes with a copy");
        return 0;
    }
    rc = br_cache_open(w->devices, w->n_devices, context->settings.cache_bytes, &context->cache);
    if (rc)
        br_log_warn("no registration cache: %s. Memory that is in no region goes with a copy; "
                    "braid_alloc() or "
                    "braid_register() avoid it",
                    br_error_message());
    return rc == -ENOMEM ? rc : 0;
}

void br_memory_close(struct br_context *context)
{
    br_cache_close(context->cache);
    context->cache = NULL;
}

/* For memory that lies in no region of the program. */
static struct br_region *use_other(struct br_context *context, const void *memory, size_t bytes)
{
    struct br_region *region = NULL;

    if (bytes <= context->settings.eager_bytes)
        return NULL;
    if (context->cache)
        region = br_cache_get(context->cache, memory, bytes);
    if (!region && any_pins(context))
        context->unregistered++;
    return region;
}

struct br_region *br_memory_use(struct br_context *context, const void *memory, size_t bytes)
{
    struct braid_region *region = bytes ? br_region_containing(context, memory, bytes) : NULL;

    if (context->cache)
        br_cache_reclaim(context->cache);
    if (!region)
        return use_other(context, memory, bytes);
    atomic_fetch_add(&region->uses, 1);
    return &region->region;
}

void br_memory_unuse(struct br_context *context, struct br_region *region)
{
    if (!region)
        return;
    if (region->gpu)
        context->gpu->unmap(context, region);
    else if (context->cache && br_cache_owns(context->cache, region))
        br_cache_put(context->cache, region);
    else
        atomic_fetch_sub(&br_container_of(region, struct braid_region, region)->uses, 1);
}

const char *br_memory_text(const struct br_context *context, char text[BR_MEMORY_TEXT])
{
    uint64_t registrations = 0, pinned = 0, copied = 0;
    const struct br_cache_counters none = {0},
                                   *c = context->cache ? br_cache_counters(context->cache) : &none;

    text[0] = 0;
    for (int d = 0; d < context->worker->n_devices; d++) {
        const struct br_device_counters *counters = &context->worker->devices[d]->counters;

        registrations += counters->registrations;
        pinned += counters->pinned_bytes;
        copied += counters->tx_copied_bytes + counters->rx_copied_bytes;
    }
    if (any_pins(context))
        snprintf(
            text, BR_MEMORY_TEXT,
            "# memory: %llu registrations, %llu KiB pinned now, %llu KiB copied; cache: %llu KiB "
            "of at "
            "most %llu KiB, "
            "%llu hits, %llu registered, %llu changed, %llu evicted, %llu uses without a region\n",
            (unsigned long long)registrations, (unsigned long long)pinned >> 10,
            (unsigned long long)copied >> 10, (unsigned long long)c->pinned_bytes >> 10,
            (unsigned long long)context->settings.cache_bytes >> 10, (unsigned long long)c->hits,
            (unsigned long long)c->registered, (unsigned long long)c->invalidated,
            (unsigned long long)c->evicted, (unsigned long long)context->unregistered);
    return text;
}

/* ---- of a call ------------------------------------------------------------------------------- */

int br_comm_copy(struct braid_comm *comm, void *to, const void *from, size_t bytes)
{
    const struct br_gpu_ops *ops = comm->context->gpu;
    int to_gpu = ops->gpu_of(to), gpu = to_gpu ? to_gpu : ops->gpu_of(from);
    int rc;

    if (!gpu) {
        br_copy(to, from, bytes);
        return 0;
    }
    rc = ops->use(comm->context, gpu, to_gpu ? to : from);
    return rc ? rc : ops->copy(comm->context, gpu, to, from, bytes);
}

static bool is_foreign(const struct br_context *context, int gpu, const void *memory)
{
    return gpu && !context->gpu->reaches(context, gpu, memory);
}

/* Apart, as it may come to a cancellation point (base/process.h, note 5). */
__attribute__((noinline)) static int memory_probe_gpus(const char *name, struct br_operation *op)
{
    BR_DISABLE_CANCELLATION;
    struct br_context *context = op->comm->context;
    const struct br_gpu_ops *ops = context->gpu;
    int rc;

    op->send_gpu = op->send_bytes ? ops->gpu_of(op->send) : 0;
    op->recv_gpu = op->recv_bytes ? ops->gpu_of(op->recv) : 0;
    if (!op->send_gpu && !op->recv_gpu)
        return 0;
    if (op->kind == BR_OPERATION_ADD || op->kind == BR_OPERATION_SWAP)
        return br_error(EINVAL, "%s: the value from before goes into host memory, not into a GPU's",
                        name);
    rc = ops->use(context, op->send_gpu, op->send);
    if (!rc)
        rc = ops->use(context, op->recv_gpu, op->recv);
    if (rc)
        return br_error_prefix(rc, "%s: ", name);
    op->foreign =
        is_foreign(context, op->send_gpu, op->send) || is_foreign(context, op->recv_gpu, op->recv);
    return 0;
}

int br_comm_probe_memory(const char *name, struct br_operation *op)
{
    return op->comm->context->gpus ? memory_probe_gpus(name, op) : 0;
}

void br_comm_use_memory(struct braid_comm *comm, struct br_operation *op)
{
    struct br_context *context = comm->context;

    op->send_region =
        op->send_gpu ? context->gpu->map(context, op, op->send, op->send_bytes, op->send_gpu, false)
                     : br_memory_use(context, op->send, op->send_bytes);
    op->recv_region =
        op->recv_gpu ? context->gpu->map(context, op, op->recv, op->recv_bytes, op->recv_gpu, true)
                     : br_memory_use(context, op->recv, op->recv_bytes);
}

void br_comm_unuse_memory(struct braid_comm *comm, struct br_operation *op)
{
    if (op->send_region)
        br_memory_unuse(comm->context, op->send_region);
    if (op->recv_region)
        br_memory_unuse(comm->context, op->recv_region);
    op->send_region = op->recv_region = NULL;
}
