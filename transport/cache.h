/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The registration cache: regions for memory that the user has not registered. Registering pins
 * pages and costs up to milliseconds, so what was registered for one operation is kept for the next
 * one, until its pages change (monitor.h) or room is needed.
 *
 * 1. It is asked once an operation for the whole of its memory, not once a frame: one entry a
 *    buffer instead of one for each frame, all devices at once, and frames carry a region that they
 *    need not look up. Rejected: a cache in each device (frames are cut anew every time, so their
 *    spans match no entry; two rails would watch and evict the same buffer twice).
 * 2. Entries are whole pages and never overlap. One that contains the memory is a hit. Else what
 *    overlaps it goes, and the union of all of it is registered anew, so that spans which overlap
 *    come to rest in one entry instead of driving each other out; where the union exceeds the
 *    bound, the memory alone. Entries that merely touch stay apart. A part of an entry that changes
 *    ends all of it: a registration cannot be made smaller.
 * 3. An operation holds a reference. An entry whose pages have changed, or that made room for a
 *    union, is found by nobody any more at once, and deregistered when the last reference goes:
 *    those operations' own pages are still there (who unmaps memory that he has handed to braid has
 *    lost it anyhow), and the NIC may be working on them.
 * 4. Bound: the sum over all devices of the bytes of all entries, also of those that wait for note
 *    3. What has not been used for longest goes first. What does not fit while everything is in use
 *    is not registered, and goes through the back end's bounce buffers with a copy; also what
 *    cannot be watched, and everything where userfaultfd is not to be had. Counted, and logged once
 *    each. A registration that fails for want of memory empties the cache and is tried once more.
 * 5. A new entry is in the table, hence told of changes, before its range is armed, and armed
 *    before it is pinned. If it has changed when all is done, it is thrown away.
 * 6. Calls are made under the worker's lock. The monitor's lock guards the table and `stale`,
 *    against the callback: it marks, the next call does the rest. Registering and deregistering
 *    happen outside of it (monitor.h, note 3). All memory is allocated at open.
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
