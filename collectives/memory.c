/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered memory: braid_alloc() segments and the caller's own spans, found by address and by number. */
#include "collectives/comm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "transport/shm/segment.h"

/* Index of the first region whose base is above address. */
static int upper(const struct braid_comm *comm, const void *address)
{
    int low = 0, high = comm->n_regions;

    while (low < high) {
        int middle = (low + high) / 2;

        if ((const char *)comm->regions[middle]->region.base <= (const char *)address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct braid_region *br_region_containing(struct braid_comm *comm, const void *memory, size_t bytes)
{
    int i = upper(comm, memory);
    const struct br_region *r;
    size_t offset;

    if (!i)
        return NULL;
    r = &comm->regions[i - 1]->region;
    offset = (size_t)((const char *)memory - (const char *)r->base);
    return offset <= r->bytes && bytes <= r->bytes - offset ? comm->regions[i - 1] : NULL;
}

int br_region_find(void *context, uint32_t id, uint64_t offset, uint64_t bytes, void **memory,
                   struct br_region **region)
{
    struct braid_comm *comm = context;

    for (int i = 0; i < comm->n_regions; i++) {
        struct br_region *r = &comm->regions[i]->region;

        if (r->id != id)
            continue;
        if (offset > r->bytes || bytes > r->bytes - offset)
            return -EACCES;
        *memory = (char *)r->base + offset;
        *region = r;
        atomic_fetch_add(&comm->regions[i]->uses, 1);
        return 0;
    }
    return -EACCES;
}

void br_region_done(void *context, struct br_region *region)
{
    (void)context;
    atomic_fetch_sub(&br_container_of(region, struct braid_region, region)->uses, 1);
}

static void release_devices(struct braid_comm *comm, struct br_region *r, int n)
{
    while (n-- > 0)
        comm->worker->devices[n]->ops->region_release(comm->worker->devices[n], r);
}

/* Under the lock. The struct is filled in but for id and keys. */
static int insert(struct braid_comm *comm, struct braid_region *region)
{
    struct br_region *r = &region->region;
    int at = upper(comm, (char *)r->base + r->bytes - 1), rc;

    if (comm->n_regions == BR_MAX_REGIONS)
        return br_error(ENOSPC, "rank %d: %d regions are registered, there is no room for more", comm->rank,
                        BR_MAX_REGIONS);
    if (at > 0) {
        const struct br_region *before = &comm->regions[at - 1]->region;

        if ((const char *)before->base + before->bytes > (const char *)r->base)
            return br_error(EEXIST, "rank %d: the span overlaps a region that is registered already",
                            comm->rank);
    }
    r->id = ++comm->next_region;
    for (int d = 0; d < comm->worker->n_devices; d++) {
        rc = comm->worker->devices[d]->ops->region_register(comm->worker->devices[d], r);
        if (rc) {
            release_devices(comm, r, d);
            return br_error_prefix(rc, "rank %d, device %s: ", comm->rank, comm->worker->devices[d]->name);
        }
    }
    memmove(&comm->regions[at + 1], &comm->regions[at],
            (size_t)(comm->n_regions - at) * sizeof comm->regions[0]);
    comm->regions[at] = region;
    comm->n_regions++;
    return 0;
}

/* Under the lock. */
static void take_out(struct braid_region *region)
{
    struct braid_comm *comm = region->comm;
    int at = upper(comm, region->region.base) - 1;

    comm->n_regions--;
    memmove(&comm->regions[at], &comm->regions[at + 1],
            (size_t)(comm->n_regions - at) * sizeof comm->regions[0]);
    release_devices(comm, &region->region, comm->worker->n_devices);
}

static void free_region(struct braid_region *region)
{
    if (region->allocated)
        br_segment_free(region->region.base, region->region.bytes, region->region.segment_fd);
    free(region);
}

static int add(struct braid_comm *comm, void *base, size_t bytes, int segment_fd, bool allocated,
               struct braid_region **out)
{
    struct braid_region *region = calloc(1, sizeof *region);
    int rc;

    if (!region)
        return br_error(ENOMEM, "rank %d: no memory to register a region", comm->rank);
    region->comm = comm;
    region->allocated = allocated;
    region->region.base = base;
    region->region.bytes = bytes;
    region->region.segment_fd = segment_fd;
    br_progress_lock(comm);
    rc = insert(comm, region);
    br_progress_unlock(comm);
    if (rc) {
        free(region);
        return rc;
    }
    *out = region;
    return 0;
}

int br_scratch_alloc(void *context, size_t bytes, void **memory, struct br_region **region)
{
    struct braid_comm *comm = context;
    struct braid_region *r = calloc(1, sizeof *r);
    int rc;

    if (!r)
        return br_error(ENOMEM, "rank %d: no memory to register a region", comm->rank);
    r->comm = comm;
    r->allocated = true;
    r->region.bytes = bytes;
    rc = br_segment_alloc(bytes, -1, &r->region.base, &r->region.segment_fd);
    if (!rc && (rc = insert(comm, r)))
        br_segment_free(r->region.base, bytes, r->region.segment_fd);
    if (rc) {
        free(r);
        return rc;
    }
    *memory = r->region.base;
    *region = &r->region;
    return 0;
}

void br_scratch_free(void *context, void *memory, struct br_region *region)
{
    struct braid_region *r = br_container_of(region, struct braid_region, region);

    (void)context, (void)memory;
    take_out(r);
    free_region(r);
}

void *braid_alloc(struct braid_comm *comm, size_t bytes)
{
    struct braid_region *region;
    void *base;
    int fd;

    if (!comm || !bytes) {
        br_error(EINVAL, "braid_alloc: %s", comm ? "0 bytes" : "no communicator");
        return NULL;
    }
    if (br_segment_alloc(bytes, -1, &base, &fd))
        return NULL;
    if (add(comm, base, bytes, fd, true, &region)) {
        br_segment_free(base, bytes, fd);
        return NULL;
    }
    return base;
}

int braid_free(struct braid_comm *comm, void *memory)
{
    struct braid_region *region;
    int rc = 0;

    if (!comm)
        return br_error(EINVAL, "braid_free: no communicator");
    if (!memory)
        return 0;
    br_progress_lock(comm);
    region = br_region_containing(comm, memory, 0);
    if (!region || !region->allocated || region->region.base != memory)
        rc = br_error(EINVAL, "braid_free: %p is not from braid_alloc() of this communicator", memory);
    else if (atomic_load(&region->uses))
        rc = br_error(EBUSY, "braid_free: %d operations still use the memory", atomic_load(&region->uses));
    else
        take_out(region);
    br_progress_unlock(comm);
    if (!rc)
        free_region(region);
    return rc;
}

int braid_register(struct braid_comm *comm, void *memory, size_t bytes, struct braid_region **region)
{
    if (!comm || !memory || !bytes || !region)
        return br_error(EINVAL, "braid_register: %s",
                        !comm     ? "no communicator"
                        : !region ? "nowhere to store the region"
                                  : "an empty span");
    if (bytes > UINTPTR_MAX - (uintptr_t)memory)
        return br_error(EINVAL, "braid_register: %zu bytes from %p on are more than there is memory", bytes,
                        memory);
    return add(comm, memory, bytes, -1, false, region);
}

int braid_deregister(struct braid_region *region)
{
    struct braid_comm *comm;

    if (!region || region->allocated)
        return br_error(EINVAL, "braid_deregister: not a region from braid_register()");
    comm = region->comm;
    br_progress_lock(comm);
    if (atomic_load(&region->uses)) {
        br_progress_unlock(comm);
        return br_error(EBUSY, "braid_deregister: an operation still uses the region");
    }
    take_out(region);
    br_progress_unlock(comm);
    free_region(region);
    return 0;
}

int braid_key(struct braid_comm *comm, const void *memory, struct braid_key *key)
{
    struct braid_region *region;

    if (!comm || !key)
        return br_error(EINVAL, "braid_key: an argument is missing");
    br_progress_lock(comm);
    region = br_region_containing(comm, memory, 0);
    if (region)
        *key = (struct braid_key){.bytes = region->region.bytes,
                                  .rank = (uint32_t)comm->rank,
                                  .id = region->region.id,
                                  .check = comm->worker->config.check};
    br_progress_unlock(comm);
    return region
               ? 0
               : br_error(EINVAL,
                          "braid_key: %p is in no registered region; use braid_alloc() or braid_register()",
                          memory);
}

void br_regions_free(struct braid_comm *comm)
{
    while (comm->n_regions) {
        struct braid_region *region = comm->regions[comm->n_regions - 1];

        take_out(region);
        free_region(region);
    }
}
