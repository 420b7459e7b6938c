/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/growing_pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static struct br_pool *chunk_of(const struct br_growing_pool *pool, uint32_t number)
{
    return atomic_load_explicit(&pool->chunks[number / pool->per_chunk], memory_order_relaxed);
}

static int growing_pool_grow(struct br_growing_pool *pool)
{
    uint32_t n = atomic_load_explicit(&pool->n, memory_order_relaxed);
    struct br_pool *chunk;
    int rc;

    if (n == pool->max_chunks)
        return br_error(ENOMEM, "all of %llu objects are in use",
                        (unsigned long long)pool->max_chunks * pool->per_chunk);
    chunk = malloc(sizeof *chunk);
    if (!chunk)
        return br_error(ENOMEM, "no memory for a pool");
    rc = br_pool_init(chunk, pool->size, pool->per_chunk);
    if (rc) {
        free(chunk);
        return rc;
    }
    atomic_store_explicit(&pool->chunks[n], chunk, memory_order_relaxed);
    atomic_store_explicit(&pool->n, n + 1, memory_order_release);
    pool->spare = n;
    return 0;
}

int br_growing_pool_init(struct br_growing_pool *pool, size_t size, uint32_t per_chunk,
                         uint32_t max_chunks)
{
    int rc;

    memset(pool, 0, sizeof *pool);
    pool->size = size;
    pool->per_chunk = per_chunk;
    pool->max_chunks = max_chunks;
    pool->chunks = calloc(max_chunks, sizeof *pool->chunks);
    if (!pool->chunks)
        return br_error(ENOMEM, "no memory for a pool of %u chunks", max_chunks);
    rc = growing_pool_grow(pool);
    if (rc)
        br_growing_pool_destroy(pool);
    return rc;
}

void br_growing_pool_destroy(struct br_growing_pool *pool)
{
    for (uint32_t i = 0; i < pool->n; i++) {
        br_pool_destroy(pool->chunks[i]);
        free(pool->chunks[i]);
    }
    free(pool->chunks);
    memset(pool, 0, sizeof *pool);
}

void *br_growing_pool_get(struct br_growing_pool *pool, uint32_t *number)
{
    struct br_pool *chunk;
    void *object;

    while (pool->first < pool->n && !pool->chunks[pool->first]->n_free)
        pool->first++;
    if (pool->first == pool->n) {
        if (growing_pool_grow(pool))
            return NULL;
        pool->grown++;
    }
    chunk = pool->chunks[pool->first];
    if (pool->spare == pool->first)
        pool->spare = BR_NO_CHUNK;
    object = br_pool_get(chunk);
    *number = pool->first * pool->per_chunk + br_pool_index(chunk, object);
    pool->n_used++;
    return object;
}

/* Of two empty chunks the first keeps its memory. */
static void growing_pool_emptied(struct br_growing_pool *pool, uint32_t index)
{
    uint32_t other = pool->spare;

    pool->spare = other < index ? other : index;
    if (other != BR_NO_CHUNK)
        br_pool_trim(pool->chunks[other < index ? index : other]);
}

void br_growing_pool_put(struct br_growing_pool *pool, uint32_t number)
{
    uint32_t index = number / pool->per_chunk;
    struct br_pool *chunk = chunk_of(pool, number);

    br_pool_put(chunk, br_pool_at(chunk, number % pool->per_chunk));
    pool->n_used--;
    if (index < pool->first)
        pool->first = index;
    if (chunk->n_free == chunk->count)
        growing_pool_emptied(pool, index);
}

void *br_growing_pool_at(const struct br_growing_pool *pool, uint32_t number)
{
    if (number / pool->per_chunk >= atomic_load_explicit(&pool->n, memory_order_acquire))
        return NULL;
    return br_pool_at(chunk_of(pool, number), number % pool->per_chunk);
}

void br_growing_pool_visit(const struct br_growing_pool *pool,
                           void (*visit)(void *object, void *context), void *context)
{
    for (uint32_t i = 0; i < pool->n; i++) {
        const struct br_pool *chunk = pool->chunks[i];

        for (uint32_t k = 0; k < br_pool_used(chunk); k++)
            visit(br_pool_at(chunk, k), context);
    }
}
