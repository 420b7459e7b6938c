/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/growing_pool.h"

#define PER_CHUNK 16u
#define CHUNKS    8u
#define BYTES     4096u /* so that a chunk has whole pages */

static struct br_growing_pool pool;
static void *objects[PER_CHUNK * CHUNKS];

static int create(void **state)
{
    (void)state;
    return br_growing_pool_init(&pool, BYTES, PER_CHUNK, CHUNKS);
}

static int destroy(void **state)
{
    (void)state;
    br_growing_pool_destroy(&pool);
    return 0;
}

/* Takes n objects, which have the numbers from 0 on, and writes on them. */
static void take(uint32_t n)
{
    for (uint32_t i = 0, number; i < n; i++) {
        objects[i] = br_growing_pool_get(&pool, &number);
        assert_non_null(objects[i]);
        assert_int_equal(number, i);
        memset(objects[i], 0xff, BYTES);
    }
}

static void get__grows_until_there_is_no_more(void **state)
{
    uint32_t number;

    (void)state;
    take(PER_CHUNK);
    assert_int_equal(pool.grown, 0);
    for (uint32_t i = PER_CHUNK; i < PER_CHUNK * CHUNKS; i++)
        assert_non_null(br_growing_pool_get(&pool, &number));
    assert_int_equal(number, PER_CHUNK * CHUNKS - 1);
    assert_int_equal(pool.grown, CHUNKS - 1);
    assert_int_equal(pool.n_used, PER_CHUNK * CHUNKS);
    assert_null(br_growing_pool_get(&pool, &number));
    br_growing_pool_put(&pool, 3);
    assert_ptr_equal(br_growing_pool_get(&pool, &number), objects[3]);
    assert_int_equal(number, 3);
}

static void at__finds_the_same_object_for_ever(void **state)
{
    (void)state;
    assert_null(br_growing_pool_at(&pool, PER_CHUNK)); /* not there yet */
    take(PER_CHUNK * 3);
    for (uint32_t i = 0; i < PER_CHUNK * 3; i++)
        assert_ptr_equal(br_growing_pool_at(&pool, i), objects[i]);
    for (uint32_t i = 0; i < PER_CHUNK * 3; i++)
        br_growing_pool_put(&pool, i);
    for (uint32_t i = 0; i < PER_CHUNK * 3; i++)
        assert_ptr_equal(br_growing_pool_at(&pool, i), objects[i]);
    assert_null(br_growing_pool_at(&pool, PER_CHUNK * 3));
    assert_null(br_growing_pool_at(&pool, UINT32_MAX));
}

/* How many objects still have the bytes that take() wrote. */
static uint32_t kept(uint32_t n)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < n; i++)
        found += *(const uint8_t *)objects[i] == 0xff;
    return found;
}

static void put__gives_the_memory_of_empty_chunks_back(void **state)
{
    uint32_t number;

    (void)state;
    take(PER_CHUNK * 4);
    for (uint32_t i = PER_CHUNK * 4; i-- > 1;)
        br_growing_pool_put(&pool, i);
    assert_true(kept(PER_CHUNK * 4) >= PER_CHUNK * 2);     /* the first, and a spare one */
    assert_true(kept(PER_CHUNK * 4) <= PER_CHUNK * 2 + 2); /* and pages at the edges */
    assert_int_equal(pool.spare, 1);
    assert_int_equal(pool.n_used, 1);
    for (uint32_t i = 1; i < PER_CHUNK * 2; i++) { /* the first chunk's first */
        assert_non_null(br_growing_pool_get(&pool, &number));
        assert_true(number < PER_CHUNK * 2);
    }
    assert_non_null(br_growing_pool_get(&pool, &number));
    assert_int_equal(number / PER_CHUNK, 2);
    assert_int_equal(pool.grown, 3);
}

static void count(void *object, void *context)
{
    (void)object;
    ++*(uint32_t *)context;
}

static void visit__what_has_contents(void **state)
{
    uint32_t n = 0;

    (void)state;
    br_growing_pool_visit(&pool, count, &n);
    assert_int_equal(n, 0);
    take(PER_CHUNK * 2 + 5);
    br_growing_pool_visit(&pool, count, &n);
    assert_int_equal(n, PER_CHUNK * 2 + 5);
    br_growing_pool_put(&pool, PER_CHUNK * 2);
    n = 0;
    br_growing_pool_visit(&pool, count, &n);
    assert_int_equal(n, PER_CHUNK * 2 + 5); /* it has its contents still */
    for (uint32_t i = 0; i < PER_CHUNK * 2 + 5; i++)
        if (i != PER_CHUNK * 2)
            br_growing_pool_put(&pool, i);
    n = 0;
    br_growing_pool_visit(&pool, count, &n);
    assert_int_equal(n, PER_CHUNK); /* the first chunk keeps its memory */
}

int main(void)
{
#define EACH(name) cmocka_unit_test_setup_teardown(name, create, destroy)
    const struct CMUnitTest tests[] = {
        EACH(get__grows_until_there_is_no_more),
        EACH(at__finds_the_same_object_for_ever),
        EACH(put__gives_the_memory_of_empty_chunks_back),
        EACH(visit__what_has_contents),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
