/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/pool.h"

#include "base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* objects start on a cache line, so that neighbours in use by two threads do not share one */
#define LINE 64

int br_pool_init(struct br_pool *pool, size_t size, uint32_t count)
{
    size_t stride = size ? (size + LINE - 1) & ~(size_t)(LINE - 1) : LINE;
    size_t n = count ? count : 1;
    size_t bytes;

    memset(pool, 0, sizeof *pool);
    if (stride < size || __builtin_mul_overflow(stride, n, &bytes) ||
        __builtin_add_overflow(bytes, LINE - 1, &bytes))
        return br_error(ENOMEM, "a pool of %u objects of %zu bytes exceeds the address space",
                        count, size);
    pool->memory = calloc(1, bytes);
    pool->free_ = malloc(n * sizeof *pool->free_);
    if (!pool->memory || !pool->free_) {
        br_pool_destroy(pool);
        return br_error(ENOMEM, "no memory for a pool of %u objects of %zu bytes", count, size);
    }
    pool->first = (uint8_t *)(((uintptr_t)pool->memory + LINE - 1) & ~(uintptr_t)(LINE - 1));
    pool->size = stride;
    pool->count = count;
    pool->n_free = count;
    return 0;
}

void br_pool_destroy(struct br_pool *pool)
{
    free(pool->free_);
    free(pool->memory);
    memset(pool, 0, sizeof *pool);
}

void br_pool_trim(struct br_pool *pool)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)pool->first,
              to = from + pool->size * pool->count;

    from = (from + page - 1) / page * page;
    to = to / page * page;
    if (from < to) /* an error leaves the pages as they are, which is allowed */
        (void)madvise((void *)from, to - from, MADV_DONTNEED);
    pool->n_back = 0;
}
