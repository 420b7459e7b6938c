/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/gpu_cache.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/downgrade.h"
#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "gpu/direct.h"

struct entry {
    struct br_region region;        /* first: what the user of the entry has */
    struct br_region_gpu gpu;       /* devices 0: none can (note 3) */
    struct br_direct_memory memory; /* base NULL: the entry is free */
    int refs;
    bool listed;         /* can be found */
    struct br_list node; /* listed: in `known` */
};

struct br_gpu_cache {
    struct br_device *devices[BR_SLOT_DEVICES];
    int n_devices;
    struct entry entries[BR_GPU_CACHE_ENTRIES];
    struct br_list known; /* the one that was used last in front */
    int next;             /* place of the entry to be looked at next (note 1) */
    uint32_t next_id;
    bool logged;
    uint32_t by_module; /* devices that have not taken a dma-buf, a bit each; that is said once */
};

int br_gpu_cache_open(struct br_device *const *devices, int n, struct br_gpu_cache **out)
{
    struct br_gpu_cache *cache = calloc(1, sizeof *cache);

    if (!cache)
        return br_error(ENOMEM, "no memory for the regions of GPUs");
    for (int i = 0; i < n; i++)
        cache->devices[cache->n_devices++] = devices[i];
    /* apart from those of registered regions and of the cache of host memory */
    cache->next_id = 3u << 30;
    br_list_init(&cache->known);
    *out = cache;
    return 0;
}

/* ---- entries --------------------------------------------------------------------------------- */

/* On the first devices of the mask up to place n. */
static void gpu_cache_release(struct br_gpu_cache *cache, struct entry *entry, uint32_t devices,
                              int n)
{
    for (int i = n; i-- > 0;)
        if (devices >> i & 1)
            cache->devices[i]->ops->region_release(cache->devices[i], &entry->region);
}

static void gpu_cache_drop(struct br_gpu_cache *cache, struct entry *entry)
{
    gpu_cache_release(cache, entry, entry->gpu.devices, cache->n_devices);
    *entry = (struct entry){0};
}

/* Found by nobody from now on; gone with its last reference. */
static void gpu_cache_evict(struct br_gpu_cache *cache, struct entry *entry)
{
    br_list_remove(&entry->node);
    entry->listed = false;
    if (!entry->refs)
        gpu_cache_drop(cache, entry);
}

static bool gpu_cache_overlaps(const struct br_direct_memory *a, const struct br_direct_memory *b)
{
    uintptr_t start_a = (uintptr_t)a->base, start_b = (uintptr_t)b->base;

    return start_a < start_b + b->bytes && start_b < start_a + a->bytes;
}

/* The entry of this allocation; those that its addresses belonged to before are retired. */
static struct entry *gpu_cache_find(struct br_gpu_cache *cache,
                                    const struct br_direct_memory *memory)
{
    struct entry *found = NULL;

    br_list_for_each_safe (node, &cache->known) {
        struct entry *entry = br_container_of(node, struct entry, node);

        if (entry->memory.number == memory->number && entry->memory.gpu == memory->gpu) {
            found = entry;
            break;
        }
        if (gpu_cache_overlaps(&entry->memory, memory))
            gpu_cache_evict(cache, entry);
    }
    return found;
}

/* Note 1. */
static void look_at_one(struct br_gpu_cache *cache)
{
    struct entry *entry = &cache->entries[cache->next++ % BR_GPU_CACHE_ENTRIES];

    cache->next %= BR_GPU_CACHE_ENTRIES;
    if (entry->listed && !entry->refs && !br_direct_is_valid(&entry->memory))
        gpu_cache_evict(cache, entry);
}

/* The one that was not used for longest, of those that are not in use. */
static bool gpu_cache_evict_one(struct br_gpu_cache *cache)
{
    for (struct br_list *node = cache->known.prev; node != &cache->known; node = node->prev) {
        struct entry *entry = br_container_of(node, struct entry, node);

        if (!entry->refs) {
            gpu_cache_evict(cache, entry);
            return true;
        }
    }
    return false;
}

static struct entry *free_entry(struct br_gpu_cache *cache)
{
    do {
        for (int i = 0; i < BR_GPU_CACHE_ENTRIES; i++)
            if (!cache->entries[i].memory.base)
                return &cache->entries[i];
    } while (gpu_cache_evict_one(cache));
    return NULL;
}

/* ---- registering ----------------------------------------------------------------------------- */

static void note_module(struct br_gpu_cache *cache, const struct entry *entry, int i)
{
    if (!entry->gpu.no_dmabuf || cache->by_module >> i & 1)
        return;
    cache->by_module |= 1u << i;
    br_downgrade(dmabuf);
    br_log_warn("%s: GPU memory goes through the peer-memory module: %s", cache->devices[i]->name,
                entry->gpu.no_dmabuf);
}

/* With all or with none. */
static int register_with(struct br_gpu_cache *cache, struct entry *entry, uint32_t devices)
{
    for (int i = 0; i < cache->n_devices; i++) {
        struct br_device *device = cache->devices[i];
        int rc;

        if (!(devices >> i & 1))
            continue;
        rc = device->ops->region_register(device, &entry->region);
        if (rc) {
            gpu_cache_release(cache, entry, devices, i);
            return br_error_prefix(rc, "device %s: ", device->name);
        }
        note_module(cache, entry, i);
    }
    return 0;
}

/* The descriptor is for registering alone: who has registered the memory holds it. */
static int export_and_register(struct br_gpu_cache *cache, struct entry *entry, uint32_t devices)
{
    int rc = br_direct_export(&entry->memory, &entry->gpu.dmabuf, &entry->gpu.dmabuf_offset);

    if (rc)
        return rc;
    rc = register_with(cache, entry, devices);
    if (rc == -ENOMEM && gpu_cache_evict_one(cache)) {
        while (gpu_cache_evict_one(cache))
            ;
        rc = register_with(cache, entry, devices);
    }
    if (entry->gpu.dmabuf >= 0)
        close(entry->gpu.dmabuf);
    entry->gpu.dmabuf = -1;
    return rc;
}

static void gpu_cache_refuse(struct br_gpu_cache *cache, const struct br_direct_memory *memory)
{
    br_downgrade(gpu_direct);
    if (!cache->logged)
        br_log_warn("%zu bytes of GPU %d go through host memory, as the NICs cannot be given them "
                    "(said once): %s",
                    memory->bytes, memory->gpu - 1, br_error_message());
    cache->logged = true;
}

static struct entry *gpu_cache_add(struct br_gpu_cache *cache,
                                   const struct br_direct_memory *memory, uint32_t devices)
{
    struct entry *entry = free_entry(cache);

    if (!entry)
        return NULL;
    *entry = (struct entry){.memory = *memory, .gpu.dmabuf = -1};
    entry->region = (struct br_region){.base = memory->base,
                                       .bytes = memory->bytes,
                                       .segment_fd = -1,
                                       .id = cache->next_id++,
                                       .gpu = &entry->gpu};
    br_list_init(&entry->node);
    if (export_and_register(cache, entry, devices))
        gpu_cache_refuse(cache, memory);
    else
        entry->gpu.devices = devices;
    br_list_push_front(&cache->known, &entry->node);
    entry->listed = true;
    return entry;
}

/* ---- calls ----------------------------------------------------------------------------------- */

struct br_region *br_gpu_cache_get(struct br_gpu_cache *cache, const void *memory, size_t bytes,
                                   uint32_t devices, bool may_register)
{
    struct br_direct_memory allocation;
    struct entry *entry;

    if (br_direct_find(memory, bytes, &allocation)) {
        if (may_register) /* else it is asked again */
            gpu_cache_refuse(cache,
                             &(struct br_direct_memory){.bytes = bytes, .gpu = allocation.gpu});
        return NULL;
    }
    look_at_one(cache);
    entry = gpu_cache_find(cache, &allocation);
    if (!entry && may_register)
        entry = gpu_cache_add(cache, &allocation, devices);
    if (!entry || !entry->gpu.devices)
        return NULL;
    br_list_remove(&entry->node);
    br_list_push_front(&cache->known, &entry->node);
    entry->refs++;
    return &entry->region;
}

void br_gpu_cache_put(struct br_gpu_cache *cache, struct br_region *region)
{
    struct entry *entry = (struct entry *)region;

    if (!--entry->refs && !entry->listed)
        gpu_cache_drop(cache, entry);
}

void br_gpu_cache_close(struct br_gpu_cache *cache)
{
    if (!cache)
        return;
    while (gpu_cache_evict_one(cache))
        ;
    free(cache);
}
