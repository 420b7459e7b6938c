/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory of a context: what braid_alloc() has allocated, what the program has
 * registered, and the scratch memory of the engine. All functions here are called under the
 * context's lock unless they say otherwise.
 */
#ifndef BR_COLLECTIVES_COMM_MEMORY_H
#define BR_COLLECTIVES_COMM_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/transport.h"

struct br_context;

struct braid_region {
    struct br_region region;
    struct br_context *context;
    uint64_t handle;    /* the program's (handles.h); 0: it has none */
    bool allocated;     /* by braid_alloc() or as scratch: the memory is freed with the region */
    int gpu;            /* as br_gpu_of() says; no device knows such a region. 0: host memory */
    _Atomic int uses;   /* this rank's own operations under way */
    _Atomic int served; /* accesses by key: those of peers, and puts and gets to oneself */
};

/* The region that [memory, memory + bytes) lies in; NULL: there is none. The region belongs to the
 * context. */
struct braid_region *br_region_containing(struct br_context *context, const void *memory,
                                          size_t bytes);

/* Callbacks of the worker (br_worker_config); opaque is the context. find: the memory at `offset`
 * of region `id` for a peer's access, and counts that access in `served`, which done() undoes.
 * Returns 0, or a negative errno when the key or the span is none of ours. */
int br_region_find(void *opaque, uint32_t id, uint64_t offset, uint64_t bytes, void **memory,
                   struct br_region **region);
void br_region_done(void *opaque, struct br_region *region);

/* Callbacks of the engine; opaque is the context. alloc: scratch memory that peers of the host can
 * read in place; returns 0 or -ENOMEM and others with a message. */
int br_memory_alloc_scratch(void *opaque, size_t bytes, void **memory, struct br_region **region);
void br_memory_free_scratch(void *opaque, void *memory, struct br_region *region);

/* Frees all regions of the context, and the memory of those that were allocated. Nothing may be
 * under way. */
void br_regions_free(struct br_context *context);

/* The same in a child of fork(): unmaps allocated memory and tells no device. Takes no lock. */
void br_regions_free_in_child(struct br_context *context);

#endif
