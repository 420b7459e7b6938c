/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory: segments of braid_alloc() and spans of the program, found by address and by
 * number.
 */
#include "collectives/comm/memory.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/list.h"
#include "base/process.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/comm/gpu_ops.h"
#include "collectives/comm/handles.h"
#include "collectives/comm/posted.h"
#include "collectives/comm/progress.h"
#include "collectives/comm/progress_lock.h"
#include "transport/cache.h"
#include "transport/segment.h"

/* how long braid_free() waits for peers that still read the memory */
#define LINGER BR_SEC

#define FIRST_REGIONS 64 /* room at first */

enum { BY_ID, BY_HANDLE }; /* keys of regions_by_number */

/* Index of the first region whose base is above address. */
static int comm_memory_upper(const struct br_context *context, const void *address)
{
    int low = 0, high = context->n_regions;

    while (low < high) {
        int middle = (low + high) / 2;

        if ((const char *)context->regions[middle]->region.base <= (const char *)address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct braid_region *br_region_containing(struct br_context *context, const void *memory,
                                          size_t bytes)
{
    int i = comm_memory_upper(context, memory);
    const struct br_region *r;
    size_t offset;

    if (!i)
        return NULL;
    r = &context->regions[i - 1]->region;
    offset = (size_t)((const char *)memory - (const char *)r->base);
    return offset <= r->bytes && bytes <= r->bytes - offset ? context->regions[i - 1] : NULL;
}

int br_region_find(void *opaque, uint32_t id, uint64_t offset, uint64_t bytes, void **memory,
                   struct br_region **region)
{
    struct br_context *context = opaque;
    struct braid_region *found =
        context->n_regions ? br_table_find(&context->regions_by_number, id, BY_ID) : NULL;

    if (!found || offset > found->region.bytes || bytes > found->region.bytes - offset)
        return -EACCES;
    *memory = (char *)found->region.base + offset;
    *region = &found->region;
    atomic_fetch_add(&found->served, 1);
    return found->gpu;
}

void br_region_done(void *opaque, struct br_region *region)
{
    (void)opaque;
    atomic_fetch_sub(&br_container_of(region, struct braid_region, region)->served, 1);
}

/* Takes the lock, and waits for a while until the region is unused. A peer may tell the program
 * that its get has ended before our NIC tells us, so it is no mistake if the program frees the
 * region then. Returns how many still use it. */
static int memory_lock_when_unused(struct braid_region *region)
{
    struct br_context *context = region->context;

    if (!atomic_load(&region->uses))
        br_progress_wait_zero(context, &region->served, LINGER);
    br_progress_lock(context);
    br_posted_go_on(context, br_comm_now(context->world));
    return atomic_load(&region->uses) + atomic_load(&region->served);
}

/* Room for one region more. 0, or -ENOMEM with a message. */
static int comm_memory_grow(struct br_context *context)
{
    int most = context->max_regions ? 2 * context->max_regions : FIRST_REGIONS, rc = -ENOMEM;
    struct braid_region **grown;

    if (context->n_regions < context->max_regions)
        return 0;
    grown = realloc(context->regions, (size_t)most * sizeof(struct braid_region *));
    if (grown) {
        context->regions = grown;
        rc = context->max_regions ? br_table_grow(&context->regions_by_number)
                                  : br_table_init(&context->regions_by_number, 2 * FIRST_REGIONS);
    }
    if (rc)
        return br_error(ENOMEM, "rank %d: no memory for more than %d registered regions",
                        context->rank, context->n_regions);
    context->max_regions = most;
    return 0;
}

/* Under the lock. The struct is filled in but for id and keys. */
static int comm_memory_insert(struct br_context *context, struct braid_region *region)
{
    struct br_region *r = &region->region;
    int at = comm_memory_upper(context, (char *)r->base + r->bytes - 1), rc;

    if (at > 0) {
        const struct br_region *before = &context->regions[at - 1]->region;

        if ((const char *)before->base + before->bytes > (const char *)r->base)
            return br_error(EEXIST,
                            "rank %d: the span overlaps a region that is registered already",
                            context->rank);
    }
    rc = comm_memory_grow(context);
    if (rc)
        return rc;
    do /* they begin anew after 2^32, and some live long */
        r->id = ++context->next_region;
    while (!r->id || br_table_find(&context->regions_by_number, r->id, BY_ID));
    rc = region->gpu ? 0
                     : br_region_register(context->worker->devices, context->worker->n_devices, r);
    if (rc)
        return br_error_prefix(rc, "rank %d, ", context->rank);
    if (region->gpu)
        context->gpu->expose(context, r->base, r->bytes, region->gpu);
    memmove(&context->regions[at + 1], &context->regions[at],
            (size_t)(context->n_regions - at) * sizeof context->regions[0]);
    context->regions[at] = region;
    context->n_regions++;
    /* there is room, and both numbers are new */
    (void)br_table_insert(&context->regions_by_number, r->id, BY_ID, region);
    if (region->handle)
        (void)br_table_insert(&context->regions_by_number, region->handle, BY_HANDLE, region);
    return 0;
}

/* Under the lock. */
static void take_out(struct braid_region *region)
{
    struct br_context *context = region->context;
    int at = comm_memory_upper(context, region->region.base) - 1;

    context->n_regions--;
    br_table_remove(&context->regions_by_number, region->region.id, BY_ID);
    if (region->handle)
        br_table_remove(&context->regions_by_number, region->handle, BY_HANDLE);
    memmove(&context->regions[at], &context->regions[at + 1],
            (size_t)(context->n_regions - at) * sizeof context->regions[0]);
    if (!region->gpu)
        br_region_release(context->worker->devices, context->worker->n_devices, &region->region);
}

static void free_region(struct braid_region *region)
{
    if (region->allocated && !region->context->stays_pinned)
        br_segment_free(region->region.base, region->region.bytes, region->region.segment_fd);
    free(region);
}

/* Allocates memory that other ranks of this host, if there are any, can map. */
static int comm_memory_allocate(const struct br_context *context, size_t bytes, void **base,
                                int *fd)
{
    return context->shares_host ? br_segment_alloc(bytes, -1, base, fd)
                                : br_segment_alloc_private(bytes, base, fd);
}

/* gpu: the open GPU that the memory lies on; 0: host memory. */
static int comm_memory_add(struct br_context *context, void *base, size_t bytes, int gpu,
                           int segment_fd, bool allocated, struct braid_region **out)
{
    struct braid_region *region = calloc(1, sizeof *region);
    int rc;

    if (!region)
        return br_error(ENOMEM, "rank %d: no memory to register a region", context->rank);
    region->context = context;
    region->allocated = allocated;
    region->gpu = gpu;
    region->region.base = base;
    region->region.bytes = bytes;
    region->region.segment_fd = segment_fd;
    region->handle = allocated ? 0 : br_handle_new(context, 0);
    br_progress_lock(context);
    rc = comm_memory_insert(context, region);
    br_progress_unlock(context);
    if (rc) {
        free(region);
        return rc;
    }
    *out = region;
    return 0;
}

int br_memory_alloc_scratch(void *opaque, size_t bytes, void **memory, struct br_region **region)
{
    struct br_context *context = opaque;
    struct braid_region *r = calloc(1, sizeof *r);
    int rc;

    if (!r)
        return br_error(ENOMEM, "rank %d: no memory to register a region", context->rank);
    r->context = context;
    r->allocated = true;
    r->region.bytes = bytes;
    rc = comm_memory_allocate(context, bytes, &r->region.base, &r->region.segment_fd);
    if (!rc && (rc = comm_memory_insert(context, r)))
        br_segment_free(r->region.base, bytes, r->region.segment_fd);
    if (rc) {
        free(r);
        return rc;
    }
    *memory = r->region.base;
    *region = &r->region;
    return 0;
}

void br_memory_free_scratch(void *opaque, void *memory, struct br_region *region)
{
    struct braid_region *r = br_container_of(region, struct braid_region, region);

    (void)opaque, (void)memory;
    take_out(r);
    free_region(r);
}

void *braid_alloc(struct braid_comm *comm, size_t bytes)
{
    BR_DISABLE_CANCELLATION;
    struct braid_region *region;
    void *base;
    int fd;

    if (br_comm_check(comm, "braid_alloc"))
        return NULL;
    if (!bytes) {
        br_error(EINVAL, "braid_alloc: 0 bytes");
        return NULL;
    }
    if (comm_memory_allocate(comm->context, bytes, &base, &fd))
        return NULL;
    if (comm_memory_add(comm->context, base, bytes, 0, fd, true, &region)) {
        br_segment_free(base, bytes, fd);
        return NULL;
    }
    return base;
}

int braid_free(struct braid_comm *comm, void *memory)
{
    BR_DISABLE_CANCELLATION;
    int rc = br_comm_check(comm, "braid_free");
    struct br_context *context;
    struct braid_region *region;
    int uses;

    if (rc || !memory)
        return rc;
    context = comm->context;
    br_progress_lock(context);
    region = br_region_containing(context, memory, 0);
    br_progress_unlock(context);
    if (!region || !region->allocated || region->region.base != memory)
        return br_error(EINVAL, "braid_free: %p is not from braid_alloc()", memory);
    uses = memory_lock_when_unused(region);
    if (uses)
        rc = br_error(EBUSY, "braid_free: %d operations still use the memory", uses);
    else
        take_out(region);
    br_progress_unlock(context);
    if (!rc)
        free_region(region);
    return rc;
}

int braid_register(struct braid_comm *comm, void *memory, size_t bytes,
                   struct braid_region **region)
{
    BR_DISABLE_CANCELLATION;
    const struct br_gpu_ops *ops;
    struct braid_region *new = NULL;
    int rc = br_comm_check(comm, "braid_register"), gpu;

    if (region)
        *region = NULL;
    if (rc)
        return rc;
    if (!memory || !bytes || !region)
        return br_error(EINVAL, "braid_register: %s",
                        !region ? "nowhere to store the region" : "an empty span");
    if (bytes > UINTPTR_MAX - (uintptr_t)memory)
        return br_error(EINVAL,
                        "braid_register: %zu bytes from %p on are more than there is memory", bytes,
                        memory);
    ops = comm->context->gpu;
    gpu = ops->gpu_of(memory);
    if (gpu && ops->gpu_of((const char *)memory + bytes - 1) != gpu)
        return br_error(EINVAL, "braid_register: %zu bytes from %p on do not all lie on GPU %d",
                        bytes, memory, gpu - 1);
    rc = ops->use(comm->context, gpu, memory);
    if (rc)
        return br_error_prefix(rc, "braid_register: ");
    rc = comm_memory_add(comm->context, memory, bytes, gpu, -1, false, &new);
    if (!rc)
        *region = (struct braid_region *)(uintptr_t) new->handle;
    return rc;
}

/* Returns the region of a handle; NULL: there is none any more. */
static struct braid_region *find_handle(struct br_context *context, uint64_t handle)
{
    struct braid_region *region;

    br_progress_lock(context);
    region =
        context->n_regions ? br_table_find(&context->regions_by_number, handle, BY_HANDLE) : NULL;
    br_progress_unlock(context);
    return region;
}

int braid_deregister(struct braid_region *handle)
{
    BR_DISABLE_CANCELLATION;
    struct br_context *context = br_handle_context((uintptr_t)handle);
    struct braid_region *region;
    int rc = context ? br_comm_check(context->world, "braid_deregister") : 0;

    if (rc)
        return rc;
    region = context ? find_handle(context, (uintptr_t)handle) : NULL;
    if (!region)
        return br_error(EINVAL, "braid_deregister: not a region from braid_register(), or it has "
                                "been deregistered before, "
                                "or the job has been finalized");
    if (memory_lock_when_unused(region)) {
        br_progress_unlock(context);
        return br_error(EBUSY, "braid_deregister: an operation still uses the region");
    }
    take_out(region);
    br_progress_unlock(context);
    free_region(region);
    return 0;
}

int braid_key(struct braid_comm *comm, const void *memory, struct braid_key *key)
{
    BR_DISABLE_CANCELLATION;
    int rc = br_comm_check(comm, "braid_key");
    struct br_context *context;
    struct braid_region *region;

    if (rc)
        return rc;
    if (!key)
        return br_error(EINVAL, "braid_key: nowhere to store the key");
    context = comm->context;
    br_progress_lock(context);
    region = br_region_containing(context, memory, 0);
    if (region)
        *key = (struct braid_key){.bytes = region->region.bytes,
                                  .rank = (uint32_t)context->rank,
                                  .id = region->region.id,
                                  .check = context->worker->config.check};
    br_progress_unlock(context);
    return region ? 0
                  : br_error(EINVAL,
                             "braid_key: %p is in no registered region; use braid_alloc() or "
                             "braid_register()",
                             memory);
}

void br_regions_free(struct br_context *context)
{
    while (context->n_regions) {
        struct braid_region *region = context->regions[context->n_regions - 1];

        take_out(region);
        free_region(region);
    }
    br_table_destroy(&context->regions_by_number);
    free(context->regions);
    context->regions = NULL;
    context->max_regions = 0;
}

void br_regions_free_in_child(struct br_context *context)
{
    for (int i = 0; i < context->n_regions; i++) {
        struct br_region *r = &context->regions[i]->region;

        if (context->regions[i]->allocated)
            br_segment_free(r->base, r->bytes, r->segment_fd);
    }
    context->n_regions = 0;
}
