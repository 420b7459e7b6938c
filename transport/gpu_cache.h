/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regions of GPUs' memory, for devices that reach it (gpudirect_check.h): what was registered for
 * one operation is kept for the next one, as cache.h does it with host memory. An entry is a whole
 * allocation. Calls are made under the worker's lock. All memory is allocated at open.
 *
 * The numbered notes are in doc/design/registration.md.
 */
#ifndef BR_TRANSPORT_GPU_CACHE_H
#define BR_TRANSPORT_GPU_CACHE_H

#include "transport/transport.h"

#define BR_GPU_CACHE_ENTRIES 256

struct br_gpu_cache;

/* Opens a cache for devices[0..n), which stay open until it is closed. Returns 0, or -ENOMEM with a
 * message. */
int br_gpu_cache_open(struct br_device *const *devices, int n, struct br_gpu_cache **out);
/* Closes a cache to which no reference is left. NULL allowed. */
void br_gpu_cache_close(struct br_gpu_cache *cache);

/* Returns a region that contains the memory, with keys of the devices in the mask, and takes a
 * reference to it, which br_gpu_cache_put() gives back. NULL: there is none. devices: one bit for
 * each index of devices[], always the same mask for one GPU. may_register: if false, only a region
 * that is registered already is returned. */
struct br_region *br_gpu_cache_get(struct br_gpu_cache *cache, const void *memory, size_t bytes,
                                   uint32_t devices, bool may_register);
void br_gpu_cache_put(struct br_gpu_cache *cache, struct br_region *region);

#endif
