/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "tests/transport/cache_fake.h"

static void get__registers_once(void **state)
{
    struct br_region other;
    uint8_t *p;

    (void)state;
    cache_open(PAGES);
    p = cache_map_at(NULL, PAGES);
    for (int i = 0; i < 1000; i++)
        cache_use(p + 100 + i, 5 * PAGE);
    assert_int_equal(cache_fakes[0].registered, 1);
    assert_int_equal(cache_fakes[1].registered, 1);
    assert_int_equal(br_cache_counters(cache_tested)->hits, 999);
    assert_int_equal(br_cache_counters(cache_tested)->pinned_bytes, 2 * 6 * PAGE);
    assert_false(br_cache_owns(cache_tested, &other));
    assert_null(br_cache_get(cache_tested, p, 0));
    assert_null(br_cache_get(cache_tested, p, SIZE_MAX - 1));
    munmap(p, PAGES * PAGE);
}

static void get__overlaps_become_one(void **state)
{
    struct br_region *first;
    uint8_t *p;

    (void)state;
    cache_open(PAGES);
    p = cache_map_at(NULL, PAGES);
    first = cache_get(p, 4 * PAGE);
    cache_use(p + 3 * PAGE, 4 * PAGE); /* the first is in use: it stays pinned beside */
    assert_int_equal(br_cache_counters(cache_tested)->pinned_bytes, 2 * (4 + 7) * PAGE);
    cache_use(p + 7 * PAGE, PAGE); /* touches */
    assert_int_equal(cache_fakes[0].registered, 3);
    for (int i = 0; i < 10; i++) {
        cache_use(p, 4 * PAGE);
        cache_use(p + 3 * PAGE, 4 * PAGE);
    }
    assert_int_equal(cache_fakes[0].registered, 3);
    br_cache_put(cache_tested, first);
    assert_int_equal(br_cache_counters(cache_tested)->pinned_bytes, 2 * (7 + 1) * PAGE);
    cache_use(p + 6 * PAGE, 2 * PAGE);
    assert_int_equal(br_cache_counters(cache_tested)->pinned_bytes, 2 * 8 * PAGE);
    munmap(p, PAGES * PAGE);
}

static void get__bound_holds(void **state)
{
    struct br_region *held[2];
    uint8_t *p;

    (void)state;
    cache_open(8);
    p = cache_map_at(NULL, PAGES);
    for (size_t i = 0; i < 16; i++)
        cache_use(p + 2 * i * PAGE, 2 * PAGE);
    assert_int_equal(br_cache_counters(cache_tested)->pinned_bytes, 2 * 8 * PAGE);
    assert_int_equal(br_cache_counters(cache_tested)->evicted, 12);
    cache_use(p + 24 * PAGE, PAGE); /* the oldest that is left: now the youngest */
    cache_use(p, 2 * PAGE);
    cache_use(p + 24 * PAGE, PAGE);
    assert_int_equal(cache_fakes[0].registered, 17);
    held[0] = cache_get(p, 4 * PAGE);
    held[1] = cache_get(p + 8 * PAGE, 4 * PAGE);
    assert_null(cache_get(p + 20 * PAGE, PAGE)); /* all is in use */
    assert_null(cache_get(p, 9 * PAGE));         /* never */
    assert_int_equal(br_cache_counters(cache_tested)->refused, 2);
    br_cache_put(cache_tested, held[0]);
    cache_use(p + 20 * PAGE, PAGE);
    br_cache_put(cache_tested, held[1]);
    munmap(p, PAGES * PAGE);
}

/* The union would be too large, the memory alone is not. */
static void get__union_beyond_the_bound(void **state)
{
    uint8_t *p;

    (void)state;
    cache_open(8);
    p = cache_map_at(NULL, PAGES);
    cache_use(p, 6 * PAGE);
    cache_use(p + 5 * PAGE, 6 * PAGE);
    assert_int_equal(br_cache_counters(cache_tested)->pinned_bytes, 2 * 6 * PAGE);
    munmap(p, PAGES * PAGE);
}

static void get__no_memory_empties_the_cache(void **state)
{
    uint8_t *p;

    (void)state;
    cache_open(PAGES);
    p = cache_map_at(NULL, PAGES);
    cache_fakes[1].limit = 8 * PAGE;
    cache_use(p, 3 * PAGE);
    cache_use(p + 4 * PAGE, 3 * PAGE);
    cache_use(p + 10 * PAGE, 6 * PAGE); /* not beside the others */
    assert_int_equal(cache_fakes[1].pinned, 6 * PAGE);
    assert_null(cache_get(p + 20 * PAGE, 9 * PAGE));
    assert_int_equal(cache_fakes[0].pinned, 0); /* undone there, too */
    cache_use(p + 20 * PAGE, 8 * PAGE);
    munmap(p, PAGES * PAGE);
}

/* Until nothing is pinned. A change returns when the monitor's thread has read of it, which is
 * before it has told the cache. */
static void tidy_up(void)
{
    for (int ms = 0; cache_fakes[0].pinned && ms < 10000; ms++) {
        br_cache_reclaim(cache_tested);
        usleep(1000);
    }
    assert_int_equal(cache_fakes[0].pinned, 0);
}

static void get__changed_pages_are_registered_anew(void **state)
{
    struct br_region *held;
    uint8_t *p;

    (void)state;
    cache_open(PAGES);
    p = cache_map_at(NULL, PAGES);
    held = cache_get(p, 8 * PAGE);
    assert_int_equal(munmap(p + 4 * PAGE, (PAGES - 4) * PAGE), 0);
    cache_use(p, 4 * PAGE); /* the other half is still there, but not in the old entry */
    assert_int_equal(cache_fakes[0].registered, 2);
    assert_int_equal(cache_fakes[0].released, 0); /* somebody is still at work with it */
    br_cache_put(cache_tested, held);
    assert_int_equal(cache_fakes[0].released, 1);
    cache_map_at(p, 4);
    cache_use(p, 4 * PAGE);
    assert_int_equal(br_cache_counters(cache_tested)->invalidated, 2);
    madvise(p, PAGE, MADV_DONTNEED);
    tidy_up(); /* nobody needs to come back for it */
    munmap(p, 4 * PAGE);
}

static void get__moved_pages_are_registered_anew(void **state)
{
    uint8_t *p, *to;

    (void)state;
    cache_open(PAGES);
    p = cache_map_at(NULL, 8);
    to = cache_map_at(NULL, 8);
    cache_use(p, 8 * PAGE);
    cache_use(to, 8 * PAGE);
    assert_ptr_equal(mremap(p, 8 * PAGE, 8 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to), to);
    tidy_up(); /* what stood here and what stood there are gone */
    cache_use(to, 8 * PAGE);
    assert_int_equal(br_cache_counters(cache_tested)->invalidated, 2);
    munmap(to, 8 * PAGE);
}

static uint8_t *victim;

static void replace_victim(void)
{
    cache_map_at(victim + PAGE, 1);
}

/* Another thread replaces a page after it has been pinned and before the entry is handed out. */
static void get__changed_while_it_registers(void **state)
{
    (void)state;
    cache_open(PAGES);
    victim = cache_map_at(NULL, PAGES);
    cache_fakes[0].meanwhile = replace_victim;
    assert_null(br_cache_get(cache_tested, victim, 4 * PAGE));
    assert_int_equal(cache_fakes[0].pinned, 0);
    cache_use(victim, 4 * PAGE);
    cache_fakes[1].meanwhile = replace_victim;
    assert_null(br_cache_get(cache_tested, victim, 8 * PAGE));
    cache_use(victim, 8 * PAGE);
    munmap(victim, PAGES * PAGE);
}

static void get__what_cannot_be_watched(void **state)
{
    uint8_t *p;

    (void)state;
    cache_open(PAGES);
    p = cache_map_at(NULL, PAGES);
    munmap(p, PAGES * PAGE);
    assert_null(br_cache_get(cache_tested, p, 4 * PAGE)); /* nothing is mapped there */
    assert_int_equal(br_cache_counters(cache_tested)->refused, 1);
    assert_int_equal(cache_fakes[0].registered, 0);
}

static void open__without_userfaultfd(void **state)
{
    struct rlimit before, none;
    struct br_cache *refused = NULL;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_true(br_cache_open(cache_devices, 2, 1 << 20, &refused) < 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_null(refused);
    br_cache_close(NULL);
}

static void default_bytes__shares(void **state)
{
    struct rlimit before, small;
    int status;
    pid_t pid;

    (void)state;
    assert_true(br_cache_default_bytes(1) > 0);
    assert_true(br_cache_default_bytes(4) <= br_cache_default_bytes(1));
    assert_int_equal(br_cache_default_bytes(0), br_cache_default_bytes(1));
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        getrlimit(RLIMIT_MEMLOCK, &before);
        small = before;
        small.rlim_cur = 2 << 20;
        _exit(setrlimit(RLIMIT_MEMLOCK, &small) || (!geteuid() && setuid(65534)) ||
              br_cache_default_bytes(1) != 1 << 20);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static int region_refuses; /* the device that does; -1: none */

static int region_pin(struct br_device *device, struct br_region *region)
{
    if (device->index == region_refuses)
        return br_error(EFAULT, "no such memory");
    assert_null(region->keys[device->index]);
    region->keys[device->index] = device;
    return 0;
}

static void region_unpin(struct br_device *device, struct br_region *region)
{
    assert_ptr_equal(region->keys[device->index], device);
    region->keys[device->index] = NULL;
}

static const struct br_transport_ops region_ops = {.region_register = region_pin,
                                                   .region_release = region_unpin};
static struct br_device region_nics[3] = {{.ops = &region_ops, .name = "nic0", .index = 0},
                                          {.ops = &region_ops, .name = "nic1", .index = 1},
                                          {.ops = &region_ops, .name = "nic2", .index = 2}};
static struct br_device *const region_devices[3] = {&region_nics[0], &region_nics[1],
                                                    &region_nics[2]};

static int region_n_keys(const struct br_region *region)
{
    int n = 0;

    for (int i = 0; i < 3; i++)
        n += region->keys[i] != NULL;
    return n;
}

static void region_register__with_all_devices(void **state)
{
    struct br_region region = {0};

    (void)state;
    region_refuses = -1;
    assert_int_equal(br_region_register(region_devices, 3, &region), 0);
    assert_int_equal(region_n_keys(&region), 3);
    br_region_release(region_devices, 3, &region);
    assert_int_equal(region_n_keys(&region), 0);
}

static void region_register__or_with_none(void **state)
{
    struct br_region region = {0};

    (void)state;
    for (region_refuses = 0; region_refuses < 3; region_refuses++) {
        assert_int_equal(br_region_register(region_devices, 3, &region), -EFAULT);
        assert_int_equal(region_n_keys(&region), 0);
        assert_non_null(strstr(br_error_message(), "device nic"));
        assert_non_null(strstr(br_error_message(), region_nics[region_refuses].name));
    }
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(get__registers_once, cache_setup, cache_teardown),
        cmocka_unit_test_setup_teardown(get__overlaps_become_one, cache_setup, cache_teardown),
        cmocka_unit_test_setup_teardown(get__bound_holds, cache_setup, cache_teardown),
        cmocka_unit_test_setup_teardown(get__union_beyond_the_bound, cache_setup, cache_teardown),
        cmocka_unit_test_setup_teardown(get__no_memory_empties_the_cache, cache_setup,
                                        cache_teardown),
        cmocka_unit_test_setup_teardown(get__changed_pages_are_registered_anew, cache_setup,
                                        cache_teardown),
        cmocka_unit_test_setup_teardown(get__moved_pages_are_registered_anew, cache_setup,
                                        cache_teardown),
        cmocka_unit_test_setup_teardown(get__changed_while_it_registers, cache_setup,
                                        cache_teardown),
        cmocka_unit_test_setup_teardown(get__what_cannot_be_watched, cache_setup, cache_teardown),
        cmocka_unit_test_setup_teardown(open__without_userfaultfd, cache_setup, cache_teardown),
        cmocka_unit_test_setup_teardown(default_bytes__shares, cache_setup, cache_teardown),
        cmocka_unit_test(region_register__with_all_devices),
        cmocka_unit_test(region_register__or_with_none),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
