/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/cache.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "base/available.h"
#include "base/pool.h"
#include "transport/monitor.h"

#define ENTRIES 4096
/* Yields while somebody changes memory, before the operation goes without a region. */
#define PATIENCE 1000

struct entry {
    struct br_region region; /* first: what the user of the entry has */
    uintptr_t start, end;
    uint64_t cost; /* bytes pinned, over all devices */
    int refs;
    bool listed;         /* in the table */
    bool stale;          /* listed, and its pages have changed; under the monitor's lock */
    struct br_list node; /* in `idle` while listed and without references */
};

struct br_cache {
    struct br_watch watch;
    struct br_device *devices[BR_SLOT_DEVICES];
    int n_devices;
    uint64_t bound;
    uintptr_t page;
    struct br_pool entries;
    struct entry **table; /* by address; written by calls under the monitor's lock */
    int n;
    struct br_list idle;   /* the one that has not been used for longest in front */
    atomic_bool any_stale; /* set with each mark */
    uint32_t next_id;
    bool logged_room, logged_watch, logged_register;
    struct br_cache_counters counters;
};

/* ---- the table: under the monitor's lock ----------------------------------------------------- */

/* Index of the first entry that ends above address. */
static int first_above(const struct br_cache *cache, uintptr_t address)
{
    int low = 0, high = cache->n;

    while (low < high) {
        int middle = (low + high) / 2;

        if (cache->table[middle]->end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void cache_invalidate(struct br_watch *watch, uintptr_t start, uintptr_t end)
{
    struct br_cache *cache = br_container_of(watch, struct br_cache, watch);

    for (int i = first_above(cache, start); i < cache->n && cache->table[i]->start < end; i++) {
        cache->table[i]->stale = true;
        atomic_store_explicit(&cache->any_stale, true, memory_order_relaxed);
    }
}

static struct entry *cache_find(const struct br_cache *cache, uintptr_t start, uintptr_t end)
{
    int i = first_above(cache, start);

    return i < cache->n && cache->table[i]->start <= start && end <= cache->table[i]->end &&
                   !cache->table[i]->stale
               ? cache->table[i]
               : NULL;
}

static void cache_list(struct br_cache *cache, struct entry *entry)
{
    int at = first_above(cache, entry->start);

    memmove(&cache->table[at + 1], &cache->table[at],
            (size_t)(cache->n - at) * sizeof cache->table[0]);
    cache->table[at] = entry;
    cache->n++;
    entry->listed = true;
}

static void unlist_at(struct br_cache *cache, int at)
{
    cache->table[at]->listed = false;
    cache->n--;
    memmove(&cache->table[at], &cache->table[at + 1],
            (size_t)(cache->n - at) * sizeof cache->table[0]);
}

/* ---- entries --------------------------------------------------------------------------------- */

/* Not listed, not used. */
static void cache_drop(struct br_cache *cache, struct entry *entry)
{
    br_list_remove(&entry->node);
    br_region_release(cache->devices, cache->n_devices, &entry->region);
    cache->counters.pinned_bytes -= entry->cost;
    br_pool_put(&cache->entries, entry);
}

/* Takes it out of the table; it dies with its last reference. */
static void cache_evict(struct br_cache *cache, struct entry *entry)
{
    br_monitor_lock();
    unlist_at(cache, first_above(cache, entry->start));
    br_monitor_unlock();
    if (!entry->refs)
        cache_drop(cache, entry);
}

static struct entry *find_stale(struct br_cache *cache)
{
    struct entry *found = NULL;

    br_monitor_lock();
    for (int i = 0; i < cache->n && !found; i++)
        if (cache->table[i]->stale)
            found = cache->table[i];
    if (!found)
        atomic_store_explicit(&cache->any_stale, false, memory_order_relaxed);
    br_monitor_unlock();
    return found;
}

void br_cache_reclaim(struct br_cache *cache)
{
    struct entry *entry;

    if (!atomic_load_explicit(&cache->any_stale, memory_order_relaxed))
        return;
    while ((entry = find_stale(cache))) {
        cache->counters.invalidated++;
        cache_evict(cache, entry);
    }
}

static bool cache_evict_one(struct br_cache *cache)
{
    if (br_list_empty(&cache->idle))
        return false;
    cache->counters.evicted++;
    cache_evict(cache, br_container_of(cache->idle.next, struct entry, node));
    return true;
}

static bool cache_fits(const struct br_cache *cache, uint64_t cost)
{
    return cost <= cache->bound && cache->counters.pinned_bytes <= cache->bound - cost &&
           cache->entries.n_free && cache->n < ENTRIES;
}

static uint64_t cache_cost_of(const struct br_cache *cache, uintptr_t start, uintptr_t end)
{
    return (uint64_t)(end - start) * (uint64_t)cache->n_devices;
}

/* Note 2: [*start, *end) becomes what is to be registered, and nothing in the table overlaps it. */
static void cache_absorb(struct br_cache *cache, uintptr_t *start, uintptr_t *end)
{
    uintptr_t low = *start, high = *end;
    int i = first_above(cache, low);

    for (int j = i; j < cache->n && cache->table[j]->start < *end; j++) {
        low = cache->table[j]->start < low ? cache->table[j]->start : low;
        high = cache->table[j]->end > high ? cache->table[j]->end : high;
    }
    while (i < cache->n && cache->table[i]->start < *end) {
        cache->counters.evicted++;
        cache_evict(cache, cache->table[i]);
    }
    if (cache_cost_of(cache, low, high) <= cache->bound) {
        *start = low;
        *end = high;
    }
}

/* ---- a new entry ----------------------------------------------------------------------------- */

static void cache_log_once(bool *said, const char *why)
{
    if (!*said)
        br_log_warn("memory that is in no region goes with a copy: %s. braid_alloc() or "
                    "braid_register() avoid it",
                    why);
    *said = true;
}

/* Arms and pins a listed entry. -errno with a message, said. */
static int cache_pin(struct br_cache *cache, struct entry *entry)
{
    int rc = br_monitor_arm(entry->start, entry->end);

    if (rc) {
        cache_log_once(&cache->logged_watch, br_error_message());
        return rc;
    }
    rc = br_region_register(cache->devices, cache->n_devices, &entry->region);
    if (rc == -ENOMEM && cache_evict_one(cache)) {
        while (cache_evict_one(cache))
            ;
        rc = br_region_register(cache->devices, cache->n_devices, &entry->region);
    }
    if (rc)
        cache_log_once(&cache->logged_register, br_error_message());
    return rc;
}

static struct entry *new_entry(struct br_cache *cache, uintptr_t start, uintptr_t end)
{
    struct entry *entry = br_pool_get(&cache->entries);

    *entry = (struct entry){
        .start = start, .end = end, .cost = cache_cost_of(cache, start, end), .refs = 1};
    entry->region = (struct br_region){
        .base = (void *)start, .bytes = end - start, .segment_fd = -1, .id = cache->next_id++};
    br_list_init(&entry->node);
    return entry;
}

/* Locks the monitor. false, unlocked: somebody has been changing memory all the time. */
static bool lock_current(void)
{
    for (int i = 0; i < PATIENCE; i++) {
        br_monitor_lock();
        if (br_monitor_is_current())
            return true;
        br_monitor_unlock();
        sched_yield();
    }
    return false;
}

/* Note 5: did it stay as it was all the while? */
static bool is_sound(const struct entry *entry)
{
    bool sound = lock_current();

    if (sound) {
        sound = !entry->stale;
        br_monitor_unlock();
    }
    return sound;
}

static struct entry *cache_add(struct br_cache *cache, uintptr_t start, uintptr_t end)
{
    struct entry *entry;
    int rc;

    br_cache_reclaim(cache);
    cache_absorb(cache, &start, &end);
    while (!cache_fits(cache, cache_cost_of(cache, start, end)) && cache_evict_one(cache))
        ;
    if (!cache_fits(cache, cache_cost_of(cache, start, end))) {
        cache_log_once(&cache->logged_room, "it would exceed BRAID_CACHE_BYTES");
        return NULL;
    }
    entry = new_entry(cache, start, end);
    br_monitor_lock();
    cache_list(cache, entry);
    br_monitor_unlock();
    rc = cache_pin(cache, entry);
    if (!rc) {
        cache->counters.registered++;
        cache->counters.pinned_bytes += entry->cost;
        if (is_sound(entry))
            return entry;
        cache->counters.invalidated++;
    }
    entry->refs = 0;
    br_monitor_lock();
    unlist_at(cache, first_above(cache, entry->start));
    br_monitor_unlock();
    if (rc)
        br_pool_put(&cache->entries, entry);
    else
        cache_drop(cache, entry);
    return NULL;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* The whole pages that hold the memory; false: there is no such memory. */
static bool whole_pages(const struct br_cache *cache, const void *memory, size_t bytes,
                        uintptr_t *start, uintptr_t *end)
{
    *start = (uintptr_t)memory & ~(cache->page - 1);
    if (!bytes || __builtin_add_overflow((uintptr_t)memory, bytes, end) ||
        __builtin_add_overflow(*end, cache->page - 1, end))
        return false;
    *end &= ~(cache->page - 1);
    return true;
}

struct br_region *br_cache_get(struct br_cache *cache, const void *memory, size_t bytes)
{
    struct entry *entry = NULL;
    uintptr_t start, end;
    bool settled;

    if (!whole_pages(cache, memory, bytes, &start, &end))
        return NULL;
    settled = lock_current();
    if (settled) {
        entry = cache_find(cache, start, end);
        br_monitor_unlock();
    }
    if (entry) {
        cache->counters.hits++;
        br_list_remove(&entry->node);
        entry->refs++;
        return &entry->region;
    }
    entry = settled ? cache_add(cache, start, end) : NULL;
    if (!entry)
        cache->counters.refused++;
    return entry ? &entry->region : NULL;
}

void br_cache_put(struct br_cache *cache, struct br_region *region)
{
    struct entry *entry = (struct entry *)region;

    if (--entry->refs)
        return;
    if (entry->listed)
        br_list_push_back(&cache->idle, &entry->node);
    else
        cache_drop(cache, entry);
    br_cache_reclaim(cache);
}

bool br_cache_owns(const struct br_cache *cache, const struct br_region *region)
{
    const uint8_t *first = cache->entries.memory;

    return (const uint8_t *)region >= first &&
           (const uint8_t *)region < first + cache->entries.size * cache->entries.count;
}

const struct br_cache_counters *br_cache_counters(const struct br_cache *cache)
{
    return &cache->counters;
}

uint64_t br_cache_default_bytes(uint32_t ranks)
{
    uint64_t bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 4 /
                     (ranks ? ranks : 1);
    uint64_t limit = br_memlock("");

    if (limit != UINT64_MAX && limit / 2 < bytes)
        bytes = limit / 2;
    return bytes;
}

static void cache_destroy(struct br_cache *cache)
{
    br_pool_destroy(&cache->entries);
    free(cache->table);
    free(cache);
}

int br_cache_open(struct br_device *const *devices, int n, uint64_t bytes, struct br_cache **out)
{
    struct br_cache *cache = calloc(1, sizeof *cache);
    int rc;

    if (!cache)
        return br_error(ENOMEM, "no memory for the registration cache");
    for (int i = 0; i < n; i++)
        if (devices[i]->caps.needs_rkey)
            cache->devices[cache->n_devices++] = devices[i];
    cache->bound = bytes;
    cache->page = (uintptr_t)sysconf(_SC_PAGESIZE);
    cache->next_id = 1u << 31; /* apart from those of registered regions */
    cache->watch.invalidate = cache_invalidate;
    br_list_init(&cache->idle);
    cache->table = calloc(ENTRIES, sizeof(struct entry *));
    rc = cache->table ? br_pool_init(&cache->entries, sizeof(struct entry), 2 * ENTRIES) : -ENOMEM;
    if (rc)
        rc = br_error(-rc, "no memory for the registration cache");
    else
        rc = br_monitor_open(&cache->watch);
    if (rc) {
        cache_destroy(cache);
        return rc;
    }
    *out = cache;
    return 0;
}

void br_cache_close(struct br_cache *cache)
{
    if (!cache)
        return;
    br_monitor_close(&cache->watch);
    while (cache->n)
        cache_evict(cache, cache->table[0]);
    cache_destroy(cache);
}

int br_region_register(struct br_device *const *devices, int n, struct br_region *region)
{
    for (int i = 0; i < n; i++) {
        int rc = devices[i]->ops->region_register(devices[i], region);

        if (rc) {
            br_region_release(devices, i, region);
            return br_error_prefix(rc, "device %s: ", devices[i]->name);
        }
    }
    return 0;
}

void br_region_release(struct br_device *const *devices, int n, struct br_region *region)
{
    while (n-- > 0)
        devices[n]->ops->region_release(devices[n], region);
}
