/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/pool.h"

#include <errno.h>
#include <string.h>

static void pool_get__gives_each_object_once(void **state)
{
    struct br_pool pool;
    uint8_t taken[5] = {0};

    (void)state;
    assert_int_equal(br_pool_init(&pool, 24, 5), 0);
    for (int i = 0; i < 5; i++) {
        void *object = br_pool_get(&pool);

        assert_non_null(object);
        assert_int_equal((uintptr_t)object % 64, 0);
        assert_ptr_equal(br_pool_at(&pool, br_pool_index(&pool, object)), object);
        taken[br_pool_index(&pool, object)]++;
    }
    assert_memory_equal(taken, ((uint8_t[]){1, 1, 1, 1, 1}), 5);
    assert_null(br_pool_get(&pool));
    br_pool_destroy(&pool);
}

static void pool_get__objects_start_zeroed(void **state)
{
    static const uint8_t zero[100];
    struct br_pool pool;

    (void)state;
    assert_int_equal(br_pool_init(&pool, sizeof zero, 3), 0);
    for (int i = 0; i < 3; i++)
        assert_memory_equal(br_pool_get(&pool), zero, sizeof zero);
    br_pool_destroy(&pool);
}

static void pool_put__makes_it_available_again(void **state)
{
    struct br_pool pool;
    void *first, *second;

    (void)state;
    assert_int_equal(br_pool_init(&pool, 1, 2), 0);
    first = br_pool_get(&pool);
    second = br_pool_get(&pool);
    br_pool_put(&pool, first);
    assert_int_equal(pool.n_free, 1);
    assert_ptr_equal(br_pool_get(&pool), first);
    br_pool_put(&pool, second);
    assert_ptr_equal(br_pool_get(&pool), second);
    br_pool_destroy(&pool);
}

static void pool_init__of_nothing(void **state)
{
    struct br_pool pool;

    (void)state;
    assert_int_equal(br_pool_init(&pool, 64, 0), 0);
    assert_null(br_pool_get(&pool));
    br_pool_destroy(&pool);
    br_pool_destroy(&pool);
}

static void pool_init__too_large(void **state)
{
    struct br_pool pool;

    (void)state;
    assert_int_equal(br_pool_init(&pool, SIZE_MAX, 2), -ENOMEM);
    assert_int_equal(br_pool_init(&pool, SIZE_MAX / 4, 64), -ENOMEM);
    br_pool_destroy(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pool_get__gives_each_object_once),
        cmocka_unit_test(pool_get__objects_start_zeroed),
        cmocka_unit_test(pool_put__makes_it_available_again),
        cmocka_unit_test(pool_init__of_nothing),
        cmocka_unit_test(pool_init__too_large),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
