/* SPDX-License-Identifier: BSD-3-Clause */
/* A fixed number of objects of one size, allocated once and zeroed; get and put never allocate. Not
 * thread-safe. */
#ifndef BR_BASE_POOL_H
#define BR_BASE_POOL_H

#include <stddef.h>
#include <stdint.h>

struct br_pool {
    void *memory; /* what was allocated */
    uint8_t *
        /* object in it, on a cache line. Zeroed by the system: pages that no object needs are never
         * touched */
        first;
    size_t size;     /* bytes from one object to the next, a multiple of 64 */
    uint32_t count;  /* objects in all */
    uint32_t n_free; /* that can be had */
    uint32_t n_back; /* of these, that were in use: they go first. The others have never been */
    uint32_t *free_; /* stack of indexes of the n_back */
};

int br_pool_init(struct br_pool *pool, size_t size, uint32_t count); /* -ENOMEM */
void br_pool_destroy(struct br_pool *pool);                          /* safe on a zeroed pool */
void *br_pool_get(struct br_pool *pool); /* NULL: all are in use; not cleared again */
void br_pool_put(struct br_pool *pool, void *object);

static inline uint32_t br_pool_index(const struct br_pool *pool, const void *object)
{
    return (uint32_t)((size_t)((const uint8_t *)object - pool->first) / pool->size);
}

/* Objects with indexes from here on have never been in use. */
static inline uint32_t br_pool_used(const struct br_pool *pool)
{
    return pool->count - (pool->n_free - pool->n_back);
}

static inline void *br_pool_at(const struct br_pool *pool, uint32_t index)
{
    return pool->first + pool->size * index;
}

#endif
