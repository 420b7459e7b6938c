/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regions of GPUs' memory, for devices with caps.gpu: what was registered for one operation is kept
 * for the next one, as cache.h does it with host memory. Different from there:
 *
 * 1. An entry is an allocation, whole, whatever part of it an operation wants (gpu/direct.h, note
 *    1). Nothing tells that it was freed, so each use asks the driver for its number, by which
 *    entries are found; one whose addresses another allocation has is found by nobody any more. A
 *    use also looks at one other entry that is not in use, in turn, and drops it when its memory is
 *    gone: what a dma-buf is made of stays taken until then.
 * 2. Bound: BR_GPU_CACHE_ENTRIES. Nothing of the host's memory is pinned for them, and what the NIC
 *    or the GPU has no room for it refuses: then what is not in use goes, and it is tried once
 *    more. BRAID_CACHE_BYTES does not count them.
 * 3. An allocation that cannot be registered is remembered as that, and not tried again while it
 *    lives. Said once, with the message of the first, and counted for each (downgrade_gpu_direct).
 *    What is no allocation of the primary context, or a span over two, has no entry, and is counted
 *    at each use.
 *
 * Calls are made under the worker's lock. All memory is allocated at open.
 */
#ifndef BR_TRANSPORT_GPU_CACHE_H
#define BR_TRANSPORT_GPU_CACHE_H

#include "transport/transport.h"

#define BR_GPU_CACHE_ENTRIES 256

struct br_gpu_cache;

/* For devices[0..n), which stay open while it is. -ENOMEM with a message. */
int br_gpu_cache_open(struct br_device *const *devices, int n, struct br_gpu_cache **out);
/* No reference is left. NULL: nothing. */
void br_gpu_cache_close(struct br_gpu_cache *cache);

/* A region that holds the memory, with keys of the devices in the mask (a bit each, by place in
 * devices[]; always the same for a GPU), and a reference to it. NULL: there is none. may_register:
 * else only one that is registered already. */
struct br_region *br_gpu_cache_get(struct br_gpu_cache *cache, const void *memory, size_t bytes,
                                   uint32_t devices, bool may_register);
void br_gpu_cache_put(struct br_gpu_cache *cache, struct br_region *region);

#endif
