/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pool of objects of one size (pool.h) that grows by chunks when all are in use. Objects have
 * numbers and never move, so any thread may turn a number into an object at any time, also one that
 * has been given back. All other functions: one thread at a time.
 *
 * 1. The memory of a chunk without an object in use goes back to the system, but for one such
 * chunk, so that a program that goes up and down at a limit does not ask the system each time. Its
 *    addresses stay, and the objects there read as zero or as they were: whoever looks up a number
 *    that is void needs no lock.
 * 2. The objects of the first chunks are taken first, so that the last ones become empty.
 */
#ifndef BR_BASE_GROWING_POOL_H
#define BR_BASE_GROWING_POOL_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/pool.h"

#define BR_NO_CHUNK UINT32_MAX

struct br_growing_pool {
    struct br_pool *_Atomic *chunks; /* [max_chunks]; the first `n` are there */
    _Atomic uint32_t n;
    uint32_t max_chunks, per_chunk;
    size_t size;     /* bytes of an object */
    uint32_t first;  /* no chunk before this one has a free object */
    uint32_t spare;  /* a chunk without an object in use that keeps its memory, or BR_NO_CHUNK */
    uint64_t n_used; /* objects in use */
    uint64_t grown;  /* chunks that were allocated after the first */
};

/* Allocates the first chunk. Objects: `size` bytes, zero, per_chunk in a chunk, at most max_chunks
 * chunks. Returns 0, or -ENOMEM with a message; then the pool is all zero. */
int br_growing_pool_init(struct br_growing_pool *pool, size_t size, uint32_t per_chunk,
                         uint32_t max_chunks);

/* Frees the pool, objects in use included. An all-zero pool is allowed. */
void br_growing_pool_destroy(struct br_growing_pool *pool);

/* Returns an object and its number, below per_chunk * max_chunks; it has undefined contents if it
 * was in use before. Allocates a chunk when all are in use. NULL with a message: no memory, or
 * max_chunks are there. */
void *br_growing_pool_get(struct br_growing_pool *pool, uint32_t *number);

/* Gives the object of this number back. */
void br_growing_pool_put(struct br_growing_pool *pool, uint32_t number);

/* The object of a number, in use or not; NULL: there has never been one. Any thread. */
void *br_growing_pool_at(const struct br_growing_pool *pool, uint32_t number);

/* Calls `visit` for all objects that are in use, and for those that have been since the memory of
 * their chunk was given back last. It may put the object. */
void br_growing_pool_visit(const struct br_growing_pool *pool,
                           void (*visit)(void *object, void *context), void *context);

#endif
