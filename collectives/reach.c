/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/reach.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/downgrade.h"
#include "base/error.h"
#include "base/log.h"
#include "collectives/comm.h"
#include "collectives/stage.h"
#include "gpu/direct.h"
#include "gpu/pointer.h"
#include "gpu/workspace.h"
#include "transport/gpu_cache.h"
#include "transport/gpu_trial.h"

#define GPUS 64

struct br_reach {
    uint32_t able; /* devices whose back ends take memory of GPUs, a bit each */
    struct br_gpu_cache *cache;
    bool goes_round; /* something went by other hosts: that is said once */
    struct br_gpu_way {
        uint32_t devices;               /* of these those that reach the GPU */
        bool arrives;                   /* they may write, too (note 6) */
        struct br_gpu_trial *trial;     /* NULL: not opened yet */
        struct br_workspace *workspace; /* NULL: there is none, or NICs do not know it */
        struct br_region *room;         /* that it is */
    } ways[GPUS];                       /* written once, before the GPU's first operation */
};

int br_reach_create(struct br_family *family)
{
    const struct br_worker *w = family->worker;
    struct br_reach *reach;
    uint32_t able = 0;
    int rc;

    for (int i = 0; i < w->n_devices; i++)
        able |= (uint32_t)w->devices[i]->caps.gpu << i;
    if (!able || !family->settings.gpu_direct || !br_gpu_found())
        return 0;
    reach = calloc(1, sizeof *reach);
    if (!reach)
        return br_error(ENOMEM, "rank %d: no memory for the regions of GPUs", family->rank);
    reach->able = able;
    rc = br_gpu_cache_open(w->devices, w->n_devices, &reach->cache);
    if (rc)
        free(reach);
    else
        family->reach = reach;
    return rc;
}

void br_reach_destroy(struct br_family *family)
{
    struct br_reach *reach = family->reach;

    if (!reach)
        return;
    for (int i = 0; i < GPUS; i++)
        if (reach->ways[i].room)
            br_gpu_cache_put(reach->cache, reach->ways[i].room);
    br_gpu_cache_close(reach->cache);
    for (int i = 0; i < GPUS; i++) {
        br_workspace_destroy(reach->ways[i].workspace);
        br_gpu_trial_destroy(reach->ways[i].trial);
    }
    free(reach);
    family->reach = NULL;
}

/* ---- opening ----------------------------------------------------------------------------------------------- */

static void cannot(const struct br_family *family, const char *device, int gpu)
{
    br_downgrade(gpu_direct);
    br_log_warn("rank %d: %s does not reach the memory of GPU %d, which goes through host memory: %s",
                family->rank, device, gpu - 1, br_error_words());
}

static void try_device(struct br_family *family, struct br_gpu_way *way, int i, int gpu)
{
    const struct br_device *device = family->worker->devices[i];
    int rc = br_gpu_trial_run(way->trial, device->ops, device->config);

    if (rc < 0) {
        cannot(family, device->name, gpu);
        return;
    }
    way->devices |= 1u << i;
    br_log_info(
        "rank %d: %s reads and writes memory of GPU %d itself, by %s: messages, put, get and collectives go "
        "that way",
        family->rank, device->name, gpu - 1, rc ? "the peer-memory module" : "dma-buf");
}

/* Scratch of direct runs. What NICs cannot be told of the cache has said. */
static void open_workspace(struct br_family *family, struct br_gpu_way *way, int gpu)
{
    struct br_workspace *workspace;

    if (br_workspace_create(family->copier, gpu, &workspace)) {
        br_downgrade(gpu_direct);
        br_log_warn("rank %d: collectives of GPU %d's memory that need scratch go through host memory: %s",
                    family->rank, gpu - 1, br_error_words());
        return;
    }
    way->workspace = workspace;
    br_gate_lock(family);
    way->room = br_gpu_cache_get(family->reach->cache, br_workspace_memory(workspace), BR_WORKSPACE_BYTES,
                                 way->devices, true);
    br_gate_unlock(family);
}

int br_reach_open(struct br_family *family, int gpu)
{
    struct br_gpu_way *way = family->reach ? &family->reach->ways[gpu - 1] : NULL;

    if (!way)
        return 0;
    if (br_gpu_trial_create(family->copier, gpu, &way->trial)) {
        cannot(family, "a NIC", gpu);
        return 0;
    }
    for (int i = 0; i < family->worker->n_devices; i++)
        if (family->reach->able >> i & 1)
            try_device(family, way, i, gpu);
    way->arrives = way->devices && !br_direct_can_flush(gpu);
    if (way->devices && !way->arrives) {
        br_downgrade(gpu_direct);
        br_log_warn("rank %d: what arrives for GPU %d goes through host memory: %s", family->rank, gpu - 1,
                    br_error_words());
    }
    if (way->arrives)
        open_workspace(family, way, gpu);
    return __builtin_popcount(way->devices);
}

/* ---- use --------------------------------------------------------------------------------------------------- */

/* Can frames of `bytes` between us and that rank of the job go by these devices alone? */
static bool goes_to(const struct br_family *family, int peer, size_t bytes, uint32_t devices)
{
    return peer != family->rank &&
           !br_transfer_is_eager(family->worker, peer,
                                 bytes < BR_MAX_TRANSFER ? (uint32_t)bytes : BR_MAX_TRANSFER) &&
           br_worker_goes_by(family->worker, peer, devices);
}

/* Between us and the other end; of a collective, which peers it has is not known yet, and any will do. */
static bool may_go(const struct br_family *family, const struct br_operation *op, size_t bytes,
                   uint32_t devices)
{
    switch (op->kind) {
    case BR_OPERATION_SEND:
    case BR_OPERATION_RECV:
        return op->peer >= 0 && op->peer < op->group->size &&
               goes_to(family, br_group_in_job(op->group, op->peer), bytes, devices);
    case BR_OPERATION_PUT:
        return op->key.rank < (uint32_t)family->size && goes_to(family, (int)op->key.rank, bytes, devices);
    case BR_OPERATION_GET: /* note 4 */
        return op->key.rank < (uint32_t)family->size && (int)op->key.rank != family->rank &&
               br_worker_goes_by(family->worker, (int)op->key.rank, devices);
    case BR_OPERATION_COLLECTIVE:
        for (int r = 0; r < op->group->size; r++)
            if (goes_to(family, br_group_in_job(op->group, r), bytes, devices))
                return true;
        return false;
    default:
        return false;
    }
}

static struct br_region *get(struct br_family *family, const void *memory, size_t bytes, uint32_t devices)
{
    bool may = br_streams_bar(family); /* note 7 */
    struct br_region *region = br_gpu_cache_get(family->reach->cache, memory, bytes, devices, may);

    if (may)
        br_streams_admit(family);
    return region;
}

/* That bytes may leave by, or arrive by; NULL: none. */
static const struct br_gpu_way *way_of(const struct br_family *family, int gpu, bool arrives)
{
    const struct br_gpu_way *way = family->reach ? &family->reach->ways[gpu - 1] : NULL;

    return way && way->devices && (way->arrives || !arrives) ? way : NULL;
}

struct br_region *br_reach_use(struct br_family *family, const struct br_operation *op, const void *memory,
                               size_t bytes, int gpu, bool arrives)
{
    const struct br_gpu_way *way = way_of(family, gpu, arrives);

    return way && may_go(family, op, bytes, way->devices) ? get(family, memory, bytes, way->devices) : NULL;
}

struct br_region *br_reach_serve(struct br_family *family, int peer, const void *memory, size_t bytes,
                                 int gpu, bool arrives)
{
    const struct br_gpu_way *way = way_of(family, gpu, arrives);

    return way && br_worker_goes_by(family->worker, peer, way->devices)
               ? get(family, memory, bytes, way->devices)
               : NULL;
}

void br_reach_expect(struct br_family *family, const void *memory, size_t bytes, int gpu)
{
    const struct br_gpu_way *way = way_of(family, gpu, false);
    struct br_region *region = way ? get(family, memory, bytes, way->devices) : NULL;

    if (region)
        br_reach_unuse(family, region);
}

void br_reach_unuse(struct br_family *family, struct br_region *region)
{
    br_gpu_cache_put(family->reach->cache, region);
}

/* Note 2. Such memory is in a region, so its GPU is open. */
int br_reach_copy(void *context, bool to_gpu, void *to, const void *from, uint32_t bytes)
{
    struct br_family *family = context;
    int gpu = br_gpu_of(to_gpu ? to : from);

    if (!gpu)
        return br_error(EFAULT, "memory of a GPU was freed while an operation used it");
    if (!family->reach->goes_round) {
        family->reach->goes_round = true;
        br_downgrade(gpu_direct);
        br_log_warn(
            "rank %d: a rail is lost: memory of GPU %d goes by other hosts, and through host memory, in "
            "operations that have begun",
            family->rank, gpu - 1);
    }
    return br_copier_copy_within(family->copier, gpu, to_gpu ? BR_COPY_TO_GPU : BR_COPY_TO_HOST, to, from,
                                 bytes, BR_STAGE_PATIENCE);
}

/* ---- scratch ----------------------------------------------------------------------------------------------- */

static void *take_room(void *context, int gpu, size_t bytes, struct br_region **region)
{
    const struct br_family *family = context;
    const struct br_gpu_way *way = &family->reach->ways[gpu - 1];

    *region = way->room;
    return way->room ? br_workspace_take(way->workspace, bytes) : NULL;
}

static void put_room(void *context, int gpu, void *memory, size_t bytes)
{
    const struct br_family *family = context;

    br_workspace_put(family->reach->ways[gpu - 1].workspace, memory, bytes);
}

struct br_engine_workspace br_reach_workspace(struct br_family *family)
{
    return (struct br_engine_workspace){take_room, put_room, family};
}
