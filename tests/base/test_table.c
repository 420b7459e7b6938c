/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/random.h"
#include "base/table.h"

#include <errno.h>
#include <string.h>

static void table_find__tag_and_peer_both_count(void **state)
{
    struct br_table table;
    int a, b;

    (void)state;
    assert_int_equal(br_table_init(&table, 4), 0);
    assert_int_equal(br_table_insert(&table, 7, 1, &a), 0);
    assert_int_equal(br_table_insert(&table, 7, 2, &b), 0);
    assert_ptr_equal(br_table_find(&table, 7, 1), &a);
    assert_ptr_equal(br_table_find(&table, 7, 2), &b);
    assert_null(br_table_find(&table, 8, 1));
    br_table_destroy(&table);
}

static void table_insert__twice(void **state)
{
    struct br_table table;
    int a, b;

    (void)state;
    assert_int_equal(br_table_init(&table, 4), 0);
    assert_int_equal(br_table_insert(&table, 7, 1, &a), 0);
    assert_int_equal(br_table_insert(&table, 7, 1, &b), -EEXIST);
    assert_ptr_equal(br_table_find(&table, 7, 1), &a);
    br_table_destroy(&table);
}

static void table_insert__full(void **state)
{
    struct br_table table;
    int value;

    (void)state;
    assert_int_equal(br_table_init(&table, 8), 0);
    for (uint64_t tag = 0; tag < 8; tag++)
        assert_int_equal(br_table_insert(&table, tag, 0, &value), 0);
    assert_int_equal(br_table_insert(&table, 8, 0, &value), -ENOSPC);
    assert_ptr_equal(br_table_remove(&table, 3, 0), &value);
    assert_int_equal(br_table_insert(&table, 8, 0, &value), 0);
    br_table_destroy(&table);
}

/* The entry that has this value. */
static uint32_t place_of(const struct br_table *table, const void *value)
{
    uint32_t i = 0;

    while (table->entries[i].value != value)
        assert_true(i++ < table->mask);
    return i;
}

/* As the tags of messages and of accesses do, so that few pages are touched. */
static void table_insert__tags_that_count_stand_side_by_side(void **state)
{
    enum { TAGS = 32 };
    static const struct {
        uint64_t first, step;
    } kinds[] = {{7, UINT64_C(1) << 32}, {UINT64_C(3) << 62 | 7, 8}};
    char values[TAGS];

    (void)state;
    for (int k = 0; k < 2; k++) {
        struct br_table table;

        assert_int_equal(br_table_init(&table, 1024), 0);
        for (uint64_t i = 0; i < TAGS; i++)
            assert_int_equal(
                br_table_insert(&table, kinds[k].first + i * kinds[k].step, 2, &values[i]), 0);
        for (uint32_t i = 1; i < TAGS; i++)
            assert_int_equal(place_of(&table, &values[i]),
                             (place_of(&table, &values[0]) + i) & table.mask);
        br_table_destroy(&table);
    }
}

static void table_init__holds_what_was_asked(void **state)
{
    (void)state;
    for (uint32_t capacity = 1; capacity < 70; capacity++) {
        struct br_table table;
        int value;

        assert_int_equal(br_table_init(&table, capacity), 0);
        for (uint64_t tag = 0; tag < capacity; tag++)
            assert_int_equal(br_table_insert(&table, tag, 0, &value), 0);
        br_table_destroy(&table);
    }
}

static void table_init__too_large(void **state)
{
    struct br_table table;

    (void)state;
    assert_int_equal(br_table_init(&table, UINT32_MAX), -ENOMEM);
    br_table_destroy(&table);
}

static void table_remove__unknown(void **state)
{
    struct br_table table;

    (void)state;
    assert_int_equal(br_table_init(&table, 4), 0);
    assert_null(br_table_remove(&table, 1, 1));
    assert_int_equal(table.count, 0);
    br_table_destroy(&table);
}

/* Against a plain array, through many insertions and removals at full load: backward shift loses
 * nobody. */
static void table_remove__keeps_all_others(void **state)
{
    enum { KEYS = 64, CAPACITY = 32 };
    struct br_random random;
    struct br_table table;
    char values[KEYS];
    uint8_t present[KEYS] = {0};
    uint32_t count = 0;

    (void)state;
    br_random_seed(&random, 1);
    assert_int_equal(br_table_init(&table, CAPACITY), 0);
    for (int i = 0; i < 20000; i++) {
        uint32_t key = (uint32_t)br_random_below(&random, KEYS);

        if (present[key]) {
            assert_ptr_equal(br_table_remove(&table, key / 4, key % 4), &values[key]);
            present[key] = 0;
            count--;
        } else {
            int rc = br_table_insert(&table, key / 4, key % 4, &values[key]);

            assert_int_equal(rc, count < CAPACITY ? 0 : -ENOSPC);
            present[key] = rc == 0;
            count += rc == 0;
        }
        assert_int_equal(table.count, count);
        for (uint32_t k = 0; k < KEYS; k++)
            assert_ptr_equal(br_table_find(&table, k / 4, k % 4), present[k] ? &values[k] : NULL);
    }
    br_table_destroy(&table);
}

static void table_grow__keeps_all(void **state)
{
    static int values[1000];
    struct br_table table;

    (void)state;
    assert_int_equal(br_table_init(&table, 4), 0);
    for (uint64_t tag = 0; tag < 1000; tag++) {
        if (br_table_insert(&table, tag * tag, (uint32_t)tag % 3, &values[tag]) == -ENOSPC) {
            assert_int_equal(table.count, table.mask / 2 + 1); /* not before it is full */
            assert_int_equal(br_table_grow(&table), 0);
            assert_int_equal(br_table_insert(&table, tag * tag, (uint32_t)tag % 3, &values[tag]),
                             0);
        }
    }
    assert_int_equal(table.count, 1000);
    assert_int_equal(table.mask, 2047);
    for (uint64_t tag = 0; tag < 1000; tag++)
        assert_ptr_equal(br_table_remove(&table, tag * tag, (uint32_t)tag % 3), &values[tag]);
    assert_int_equal(table.count, 0);
    br_table_destroy(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_find__tag_and_peer_both_count),
        cmocka_unit_test(table_insert__twice),
        cmocka_unit_test(table_insert__full),
        cmocka_unit_test(table_insert__tags_that_count_stand_side_by_side),
        cmocka_unit_test(table_grow__keeps_all),
        cmocka_unit_test(table_init__holds_what_was_asked),
        cmocka_unit_test(table_init__too_large),
        cmocka_unit_test(table_remove__unknown),
        cmocka_unit_test(table_remove__keeps_all_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
