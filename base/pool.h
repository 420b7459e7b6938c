/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pool of a fixed number of objects of one size. The memory is allocated once, so that getting
 * and putting an object never allocates. Not thread-safe.
 */
#ifndef BR_BASE_POOL_H
#define BR_BASE_POOL_H

#include <stddef.h>
#include <stdint.h>

struct br_pool {
    void *memory;   /* what was allocated; zeroed, and pages that no object needs are not touched */
    uint8_t *first; /* the first object in it, on a cache line */
    size_t size;    /* bytes from one object to the next, a multiple of 64 */
    uint32_t count; /* objects in all */
    uint32_t n_free; /* objects that are not in use */
    uint32_t n_back; /* those of them that have been in use before; they are given out first */
    uint32_t *free_; /* stack of the indexes of the n_back */
};

/* Allocates `count` objects of `size` bytes, all zero. Returns 0, or -ENOMEM with a message; then
 * the pool is all zero. */
int br_pool_init(struct br_pool *pool, size_t size, uint32_t count);

/* Frees the pool, objects in use included. An all-zero pool is allowed. */
void br_pool_destroy(struct br_pool *pool);

/* Gives the memory of a pool of which no object is in use back to the system. The objects, which
 * count as never used, read as zero or as they were. */
void br_pool_trim(struct br_pool *pool);

static inline uint32_t br_pool_index(const struct br_pool *pool, const void *object)
{
    return (uint32_t)((size_t)((const uint8_t *)object - pool->first) / pool->size);
}

/* Returns how many objects have ever been in use: objects with indexes from here on have not. */
static inline uint32_t br_pool_used(const struct br_pool *pool)
{
    return pool->count - (pool->n_free - pool->n_back);
}

static inline void *br_pool_at(const struct br_pool *pool, uint32_t index)
{
    return pool->first + pool->size * index;
}

/* Returns an object, or NULL when all are in use. An object that was in use before still has its
 * old contents. */
static inline void *br_pool_get(struct br_pool *pool)
{
    uint32_t index;

    if (pool->n_free == 0)
        return NULL;
    index = pool->n_back ? pool->free_[--pool->n_back] : br_pool_used(pool);
    pool->n_free--;
    return br_pool_at(pool, index);
}

/* Gives an object back that br_pool_get() returned. */
static inline void br_pool_put(struct br_pool *pool, void *object)
{
    pool->free_[pool->n_back++] = br_pool_index(pool, object);
    pool->n_free++;
}

#endif
