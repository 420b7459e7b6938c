/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory: braid_alloc() segments and the caller's own spans, found by address and by number; and what the registration
 * cache keeps of other memory, where a device wants keys. Memory up to eager_bytes is copied into messages anyhow.
 */
#include "collectives/comm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/process.h"
#include "collectives/reach.h"
#include "gpu/pointer.h"
#include "transport/cache.h"
#include "transport/region.h"
#include "transport/shm/segment.h"

#define LINGER BR_SEC /* memory that is to be freed waits as long for peers that are being served from it */

/* Index of the first region whose base is above address. */
static int upper(const struct br_family *family, const void *address)
{
    int low = 0, high = family->n_regions;

    while (low < high) {
        int middle = (low + high) / 2;

        if ((const char *)family->regions[middle]->region.base <= (const char *)address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct braid_region *br_region_containing(struct br_family *family, const void *memory, size_t bytes)
{
    int i = upper(family, memory);
    const struct br_region *r;
    size_t offset;

    if (!i)
        return NULL;
    r = &family->regions[i - 1]->region;
    offset = (size_t)((const char *)memory - (const char *)r->base);
    return offset <= r->bytes && bytes <= r->bytes - offset ? family->regions[i - 1] : NULL;
}

int br_region_find(void *context, uint32_t id, uint64_t offset, uint64_t bytes, void **memory,
                   struct br_region **region)
{
    struct br_family *family = context;

    for (int i = 0; i < family->n_regions; i++) {
        struct br_region *r = &family->regions[i]->region;

        if (r->id != id)
            continue;
        if (offset > r->bytes || bytes > r->bytes - offset)
            return -EACCES;
        *memory = (char *)r->base + offset;
        *region = r;
        atomic_fetch_add(&family->regions[i]->served, 1);
        return family->regions[i]->gpu;
    }
    return -EACCES;
}

void br_region_done(void *context, struct br_region *region)
{
    (void)context;
    atomic_fetch_sub(&br_container_of(region, struct braid_region, region)->served, 1);
}

/* Takes the lock. That a peer's get is through the peer may have told our program before our NIC has told us: it is not the program's
 * mistake if it frees the region then. Returns how many still use it. */
static int lock_unserved(struct braid_region *region)
{
    if (!atomic_load(&region->uses))
        br_progress_settle(region->family, &region->served, LINGER);
    br_gate_lock(region->family);
    return atomic_load(&region->uses) + atomic_load(&region->served);
}

/* Under the lock. The struct is filled in but for id and keys. */
static int insert(struct br_family *family, struct braid_region *region)
{
    struct br_region *r = &region->region;
    int at = upper(family, (char *)r->base + r->bytes - 1), rc;

    if (family->n_regions == BR_MAX_REGIONS)
        return br_error(ENOSPC, "rank %d: %d regions are registered, there is no room for more", family->rank,
                        BR_MAX_REGIONS);
    if (at > 0) {
        const struct br_region *before = &family->regions[at - 1]->region;

        if ((const char *)before->base + before->bytes > (const char *)r->base)
            return br_error(EEXIST, "rank %d: the span overlaps a region that is registered already",
                            family->rank);
    }
    r->id = ++family->next_region;
    rc = region->gpu ? 0 : br_region_register(family->worker->devices, family->worker->n_devices, r);
    if (rc)
        return br_error_prefix(rc, "rank %d, ", family->rank);
    if (region->gpu)
        br_reach_expect(family, r->base, r->bytes, region->gpu);
    memmove(&family->regions[at + 1], &family->regions[at],
            (size_t)(family->n_regions - at) * sizeof family->regions[0]);
    family->regions[at] = region;
    family->n_regions++;
    return 0;
}

/* Under the lock. */
static void take_out(struct braid_region *region)
{
    struct br_family *family = region->family;
    int at = upper(family, region->region.base) - 1;

    family->n_regions--;
    memmove(&family->regions[at], &family->regions[at + 1],
            (size_t)(family->n_regions - at) * sizeof family->regions[0]);
    if (!region->gpu)
        br_region_release(family->worker->devices, family->worker->n_devices, &region->region);
}

static void free_region(struct braid_region *region)
{
    if (region->allocated && !region->family->stays_pinned)
        br_segment_free(region->region.base, region->region.bytes, region->region.segment_fd);
    free(region);
}

/* Memory that ranks of this host, if there are others, may map. */
static int allocate(const struct br_family *family, size_t bytes, void **base, int *fd)
{
    return family->shares_host ? br_segment_alloc(bytes, -1, base, fd)
                               : br_segment_alloc_private(bytes, base, fd);
}

/* gpu: that the memory lies on, which is open; 0: host memory. */
static int add(struct br_family *family, void *base, size_t bytes, int gpu, int segment_fd, bool allocated,
               struct braid_region **out)
{
    struct braid_region *region = calloc(1, sizeof *region);
    int rc;

    if (!region)
        return br_error(ENOMEM, "rank %d: no memory to register a region", family->rank);
    region->family = family;
    region->allocated = allocated;
    region->gpu = gpu;
    region->region.base = base;
    region->region.bytes = bytes;
    region->region.segment_fd = segment_fd;
    region->handle = allocated ? 0 : br_handle_new(family, 0);
    br_gate_lock(family);
    rc = insert(family, region);
    br_gate_unlock(family);
    if (rc) {
        free(region);
        return rc;
    }
    *out = region;
    return 0;
}

int br_scratch_alloc(void *context, size_t bytes, void **memory, struct br_region **region)
{
    struct br_family *family = context;
    struct braid_region *r = calloc(1, sizeof *r);
    int rc;

    if (!r)
        return br_error(ENOMEM, "rank %d: no memory to register a region", family->rank);
    r->family = family;
    r->allocated = true;
    r->region.bytes = bytes;
    rc = allocate(family, bytes, &r->region.base, &r->region.segment_fd);
    if (!rc && (rc = insert(family, r)))
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
    BR_HOLD_CANCELLATION;
    struct braid_region *region;
    void *base;
    int fd;

    if (br_comm_check(comm, "braid_alloc"))
        return NULL;
    if (!bytes) {
        br_error(EINVAL, "braid_alloc: 0 bytes");
        return NULL;
    }
    if (allocate(comm->family, bytes, &base, &fd))
        return NULL;
    if (add(comm->family, base, bytes, 0, fd, true, &region)) {
        br_segment_free(base, bytes, fd);
        return NULL;
    }
    return base;
}

int braid_free(struct braid_comm *comm, void *memory)
{
    BR_HOLD_CANCELLATION;
    int rc = br_comm_check(comm, "braid_free");
    struct br_family *family;
    struct braid_region *region;
    int uses;

    if (rc || !memory)
        return rc;
    family = comm->family;
    br_gate_lock(family);
    region = br_region_containing(family, memory, 0);
    br_gate_unlock(family);
    if (!region || !region->allocated || region->region.base != memory)
        return br_error(EINVAL, "braid_free: %p is not from braid_alloc()", memory);
    uses = lock_unserved(region);
    if (uses)
        rc = br_error(EBUSY, "braid_free: %d operations still use the memory", uses);
    else
        take_out(region);
    br_gate_unlock(family);
    if (!rc)
        free_region(region);
    return rc;
}

int braid_register(struct braid_comm *comm, void *memory, size_t bytes, struct braid_region **region)
{
    BR_HOLD_CANCELLATION;
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
        return br_error(EINVAL, "braid_register: %zu bytes from %p on are more than there is memory", bytes,
                        memory);
    gpu = br_gpu_of(memory);
    if (gpu && br_gpu_of((const char *)memory + bytes - 1) != gpu)
        return br_error(EINVAL, "braid_register: %zu bytes from %p on do not all lie on GPU %d", bytes,
                        memory, gpu - 1);
    rc = br_gpus_open(comm->family, gpu);
    if (rc)
        return br_error_prefix(rc, "braid_register: ");
    rc = add(comm->family, memory, bytes, gpu, -1, false, &new);
    if (!rc)
        *region = (struct braid_region *)(uintptr_t) new->handle;
    return rc;
}

/* The program's region; NULL: it is none any more. */
static struct braid_region *find_handle(struct br_family *family, uint64_t handle)
{
    struct braid_region *region = NULL;

    br_gate_lock(family);
    for (int i = 0; i < family->n_regions && !region; i++)
        if (family->regions[i]->handle == handle)
            region = family->regions[i];
    br_gate_unlock(family);
    return region;
}

int braid_deregister(struct braid_region *handle)
{
    BR_HOLD_CANCELLATION;
    struct br_family *family = br_handle_family((uintptr_t)handle);
    struct braid_region *region;
    int rc = family ? br_comm_check(family->first, "braid_deregister") : 0;

    if (rc)
        return rc;
    region = family ? find_handle(family, (uintptr_t)handle) : NULL;
    if (!region)
        return br_error(
            EINVAL,
            "braid_deregister: not a region from braid_register(), or it has been deregistered before, "
            "or the job has been finalized");
    if (lock_unserved(region)) {
        br_gate_unlock(family);
        return br_error(EBUSY, "braid_deregister: an operation still uses the region");
    }
    take_out(region);
    br_gate_unlock(family);
    free_region(region);
    return 0;
}

int braid_key(struct braid_comm *comm, const void *memory, struct braid_key *key)
{
    BR_HOLD_CANCELLATION;
    int rc = br_comm_check(comm, "braid_key");
    struct br_family *family;
    struct braid_region *region;

    if (rc)
        return rc;
    if (!key)
        return br_error(EINVAL, "braid_key: nowhere to store the key");
    family = comm->family;
    br_gate_lock(family);
    region = br_region_containing(family, memory, 0);
    if (region)
        *key = (struct braid_key){.bytes = region->region.bytes,
                                  .rank = (uint32_t)family->rank,
                                  .id = region->region.id,
                                  .check = family->worker->config.check};
    br_gate_unlock(family);
    return region
               ? 0
               : br_error(EINVAL,
                          "braid_key: %p is in no registered region; use braid_alloc() or braid_register()",
                          memory);
}

void br_regions_free(struct br_family *family)
{
    while (family->n_regions) {
        struct braid_region *region = family->regions[family->n_regions - 1];

        take_out(region);
        free_region(region);
    }
}

void br_regions_abandon(struct br_family *family)
{
    for (int i = 0; i < family->n_regions; i++) {
        struct br_region *r = &family->regions[i]->region;

        if (family->regions[i]->allocated)
            br_segment_free(r->base, r->bytes, r->segment_fd);
    }
    family->n_regions = 0;
}

/* ---- the memory of operations ----------------------------------------------------------------------------- */

static bool any_pins(const struct br_family *family)
{
    bool pins = false;

    for (int d = 0; d < family->worker->n_devices; d++)
        pins |= family->worker->devices[d]->caps.pins;
    return pins;
}

int br_memory_open(struct br_family *family)
{
    const struct br_worker *w = family->worker;
    int rc;

    for (int r = 0; r < family->size; r++)
        family->shares_host = family->shares_host || br_comm_maps(family, r);
    if (!any_pins(family))
        return 0;
    if (!family->settings.cache_bytes) {
        br_log_warn("BRAID_CACHE_BYTES=0: memory that is in no region goes with a copy");
        return 0;
    }
    rc = br_cache_open(w->devices, w->n_devices, family->settings.cache_bytes, &family->cache);
    if (rc)
        br_log_warn(
            "no registration cache: %s. Memory that is in no region goes with a copy; braid_alloc() or "
            "braid_register() avoid it",
            br_error_words());
    return rc == -ENOMEM ? rc : 0;
}

void br_memory_close(struct br_family *family)
{
    br_cache_close(family->cache);
    family->cache = NULL;
}

/* Memory in no region of the user's. */
static struct br_region *use_other(struct br_family *family, const void *memory, size_t bytes)
{
    struct br_region *region = NULL;

    if (bytes <= family->settings.eager_bytes)
        return NULL;
    if (family->cache)
        region = br_cache_get(family->cache, memory, bytes);
    if (!region && any_pins(family))
        family->unregistered++;
    return region;
}

struct br_region *br_memory_use(struct br_family *family, const void *memory, size_t bytes)
{
    struct braid_region *region = bytes ? br_region_containing(family, memory, bytes) : NULL;

    if (family->cache)
        br_cache_tidy(family->cache);
    if (!region)
        return use_other(family, memory, bytes);
    atomic_fetch_add(&region->uses, 1);
    return &region->region;
}

void br_memory_unuse(struct br_family *family, struct br_region *region)
{
    if (!region)
        return;
    if (region->gpu)
        br_reach_unuse(family, region);
    else if (family->cache && br_cache_owns(family->cache, region))
        br_cache_put(family->cache, region);
    else
        atomic_fetch_sub(&br_container_of(region, struct braid_region, region)->uses, 1);
}

const char *br_memory_text(const struct br_family *family, char text[BR_MEMORY_TEXT])
{
    uint64_t registrations = 0, pinned = 0, copied = 0;
    const struct br_cache_counters none = {0}, *c = family->cache ? br_cache_counters(family->cache) : &none;

    text[0] = 0;
    for (int d = 0; d < family->worker->n_devices; d++) {
        const struct br_device_counters *counters = &family->worker->devices[d]->counters;

        registrations += counters->registrations;
        pinned += counters->pinned_bytes;
        copied += counters->tx_copied_bytes + counters->rx_copied_bytes;
    }
    if (any_pins(family))
        snprintf(text, BR_MEMORY_TEXT,
                 "# memory: %llu registrations, %llu KiB pinned now, %llu KiB copied; cache: %llu KiB of at "
                 "most %llu KiB, "
                 "%llu hits, %llu registered, %llu changed, %llu evicted, %llu uses without a region\n",
                 (unsigned long long)registrations, (unsigned long long)pinned >> 10,
                 (unsigned long long)copied >> 10, (unsigned long long)c->pinned_bytes >> 10,
                 (unsigned long long)family->settings.cache_bytes >> 10, (unsigned long long)c->hits,
                 (unsigned long long)c->registered, (unsigned long long)c->invalidated,
                 (unsigned long long)c->evicted, (unsigned long long)family->unregistered);
    return text;
}
