/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/copy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define PAGE  4096u
#define GUARD 0xee

static _Alignas(PAGE) uint8_t from[4 * PAGE], to[5 * PAGE];

static void fill(void)
{
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (uint8_t)(i * 7 + i / 256);
}

/* No byte more or less, wherever source and target begin and end. */
static void check(void (*copy)(void *to, const void *from, size_t bytes), size_t at, size_t start,
                  size_t bytes)
{
    memset(to, GUARD, sizeof to);
    copy(to + PAGE + at, from + start, bytes);
    assert_memory_equal(to + PAGE + at, from + start, bytes);
    assert_int_equal(to[PAGE + at - 1], GUARD);
    assert_int_equal(to[PAGE + at + bytes], GUARD);
}

static void copy__any_distance(void **state)
{
    static const size_t sizes[] = {0,    1,    64,   2112, 2113, 2175, 2176, 2177,
                                   2240, 2241, 4096, 4500, 8192, 8193, 9000};

    (void)state;
    fill();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t start = 0; start < 64; start += 7)
            for (size_t behind = 0; behind < 34; behind++)
                check(br_copy, start + behind, start, sizes[i]);
}

static void copy_by_vectors__any_length(void **state)
{
    (void)state;
    fill();
    for (size_t bytes = 128; bytes <= 600; bytes++)
        for (size_t at = 0; at < 64; at += 3)
            check(br_copy_by_vectors, at, bytes % 64, bytes);
}

static void copy_uncached__all_places(void **state)
{
    (void)state;
    fill();
    for (size_t at = 0; at < 64; at += 5)
        for (size_t start = 0; start < 64; start += 3)
            for (size_t bytes = 0; bytes <= 400; bytes += bytes < 70 ? 1 : 23)
                check(br_copy_uncached, at, start, bytes);
}

static void cache_share__of_more_processes_is_less(void **state)
{
    size_t alone = br_copy_cache_share(1), many = br_copy_cache_share(1000);

    (void)state;
    assert_true(many >= 1024);
    assert_true(alone >= many);
}

/* Those that share the cores share the caches. */
static void cache_share__of_processes_that_share_cores(void **state)
{
    uint32_t cores = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    size_t one_each = br_copy_cache_share(cores);

    (void)state;
    if (one_each != SIZE_MAX)
        assert_true(br_copy_cache_share(4 * cores) <= one_each / 4);
}

static void second_cache__is_less_than_both(void **state)
{
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/cache/index2/size", "re");
    unsigned long kibibytes = 0;

    (void)state;
    if (file && fscanf(file, "%luK", &kibibytes) != 1)
        kibibytes = 0;
    if (file)
        fclose(file);
    assert_true(br_copy_second_cache() <= kibibytes * 1024);
    assert_int_equal(!br_copy_second_cache(), !kibibytes);
    assert_true(br_copy_second_cache() < br_copy_cache_share(1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copy__any_distance),
        cmocka_unit_test(copy_by_vectors__any_length),
        cmocka_unit_test(copy_uncached__all_places),
        cmocka_unit_test(cache_share__of_more_processes_is_less),
        cmocka_unit_test(cache_share__of_processes_that_share_cores),
        cmocka_unit_test(second_cache__is_less_than_both),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
