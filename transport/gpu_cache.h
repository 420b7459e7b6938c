/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regions of GPUs' memory, for devices whose capabilities say gpu: what was registered for one
 * operation is kept for the next one, as cache.h does it with host memory. An entry is a whole
 * allocation. Calls are made under the worker's lock. All memory is allocated at open.
 *
 * The numbered notes are in doc/design/registration.md.
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
