/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The registration cache: regions for memory that the user has not registered. Registering pins
 * pages and costs up to milliseconds, so what was registered for one operation is kept for the next
 * one, until its pages change (monitor.h) or room is needed. Calls are made under the worker's
 * lock. All memory is allocated at open.
 *
 * The numbered notes are in doc/design/registration.md.
 */
#ifndef BR_TRANSPORT_CACHE_H
#define BR_TRANSPORT_CACHE_H

#include "transport/transport.h"

struct br_cache;

struct br_cache_counters {
    uint64_t hits;
    uint64_t registered;   /* entries made */
    uint64_t invalidated;  /* their pages changed */
    uint64_t evicted;      /* for room, or into a union */
    uint64_t refused;      /* uses that go with a copy instead */
    uint64_t pinned_bytes; /* now, see note 4 */
};

/* Returns a bound for one of `ranks` processes of this machine: the smaller one of its share of a
 * quarter of the memory and half of what it may lock, which leaves room for regions and bounce
 * buffers. */
uint64_t br_cache_default_bytes(uint32_t ranks);

/* Opens a cache for those of devices[0..n) whose capabilities say that they pin; the devices stay
 * open until it is closed. bytes: the bound, as pinned_bytes counts. Returns 0, or with a message
 * -ENOMEM or the error of br_monitor_open(); then there is nothing to close. May block. */
int br_cache_open(struct br_device *const *devices, int n, uint64_t bytes, struct br_cache **out);
/* Closes a cache to which no reference is left. NULL allowed. May block. */
void br_cache_close(struct br_cache *cache);

/* Returns a region with keys that contains the memory, and takes a reference to it, which
 * br_cache_put() gives back. NULL: the memory is not registered, and goes through bounce buffers.
 * Blocks only for a registration. */
struct br_region *br_cache_get(struct br_cache *cache, const void *memory, size_t bytes);
void br_cache_put(struct br_cache *cache, struct br_region *region);
/* Returns whether the region is one of the cache's. */
bool br_cache_owns(const struct br_cache *cache, const struct br_region *region);
/* Deregisters entries whose pages have changed and that are no longer in use. Costs a load when
 * there are none. */
void br_cache_reclaim(struct br_cache *cache);
const struct br_cache_counters *br_cache_counters(const struct br_cache *cache);

/*
 * Registers a region with n devices, with all of them or with none. Returns 0, or the error of the
 * first device that cannot, with a message that names it. Under the worker's lock, and not on the
 * data path, as pinning memory takes its time.
 */
int br_region_register(struct br_device *const *devices, int n, struct br_region *region);

/* Releases a region's keys of n devices, as region_release of each does. */
void br_region_release(struct br_device *const *devices, int n, struct br_region *region);

#endif
