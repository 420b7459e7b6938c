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

/* A bound for one of `ranks` processes of this machine: its share of a quarter of the memory, and
 * half of what it may lock, so that regions and bounce buffers have room, too. */
uint64_t br_cache_default_bytes(uint32_t ranks);

/* Of those of devices[0..n) whose caps.pins is set. bytes: the bound. Both as in struct
 * br_cache_counters. -ENOMEM, or what the monitor says when it cannot be had (with a message); then
 * there is nothing to close. May block. */
int br_cache_open(struct br_device *const *devices, int n, uint64_t bytes, struct br_cache **out);
/* No reference is left and the devices are still open. NULL: nothing. */
void br_cache_close(struct br_cache *cache);

/* A region with keys that holds the memory, and a reference to it; NULL: this memory goes without
 * one. Never blocks for long, but for a registration. */
struct br_region *br_cache_get(struct br_cache *cache, const void *memory, size_t bytes);
void br_cache_put(struct br_cache *cache, struct br_region *region);
/* Is it one of the cache's? */
bool br_cache_owns(const struct br_cache *cache, const struct br_region *region);
/* Deregisters what has changed and is no longer in use. Cheap when there is nothing. */
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
