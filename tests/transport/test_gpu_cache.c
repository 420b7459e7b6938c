/* SPDX-License-Identifier: BSD-3-Clause */
/* On the fake driver, and devices that only count. */
#include "transport/gpu_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "base/downgrade.h"
#include "base/error.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/fresh.h"

#define DEVICES 3

static struct device {
    struct br_device base;
    int registered, released;
    int fails, times; /* with this errno, so many times */
    int dmabuf;       /* of the last one */
    uint64_t offset;
    const char *no_dmabuf; /* as region_register() says */
} devices[DEVICES];
static const struct br_cuda *cuda;
static struct br_gpu_cache *cache;

static int region_register(struct br_device *base, struct br_region *region)
{
    struct device *device = (struct device *)base;

    if (device->times && device->times--)
        return br_error(device->fails, "no");
    device->registered++;
    region->gpu->no_dmabuf = device->no_dmabuf;
    device->dmabuf = region->gpu->dmabuf;
    device->offset = region->gpu->dmabuf_offset;
    assert_true(region->gpu->dmabuf < 0 || fcntl(region->gpu->dmabuf, F_GETFD) >= 0);
    assert_null(region->keys[base->index]);
    region->keys[base->index] = device;
    return 0;
}

static void region_release(struct br_device *base, struct br_region *region)
{
    assert_ptr_equal(region->keys[base->index], base);
    region->keys[base->index] = NULL;
    ((struct device *)base)->released++;
}

static int setup(void **state)
{
    static const struct br_transport_ops ops = {.region_register = region_register,
                                                .region_release = region_release};
    struct br_device *list[DEVICES];

    (void)state;
    memset(devices, 0, sizeof devices);
    for (int i = 0; i < DEVICES; i++) {
        devices[i].base = (struct br_device){.ops = &ops, .index = i};
        list[i] = &devices[i].base;
    }
    cuda = fake_fresh_gpu();
    return br_gpu_cache_open(list, DEVICES, &cache);
}

static int teardown(void **state)
{
    (void)state;
    br_gpu_cache_close(cache);
    for (int i = 0; i < DEVICES; i++)
        assert_int_equal(devices[i].registered, devices[i].released);
    fake_leave_gpu(0);
    return 0;
}

static void get__once_an_allocation(void **state)
{
    uint8_t *memory = fake_allocate(100000);
    struct br_region *first = br_gpu_cache_get(cache, memory + 70000, 30000, 5, true), *second;

    (void)state;
    assert_non_null(first);
    assert_ptr_equal(first->base, memory);
    assert_int_equal(first->bytes, 100000);
    assert_non_null(first->gpu);
    assert_non_null(first->keys[0]);
    assert_null(first->keys[1]); /* not in the mask */
    assert_non_null(first->keys[2]);
    assert_true(devices[0].dmabuf >= 0);
    assert_int_equal(devices[0].offset, (uintptr_t)memory % 4096);
    assert_int_equal(fcntl(devices[0].dmabuf, F_GETFD), -1); /* closed */
    second = br_gpu_cache_get(cache, memory, 1, 5, false);
    assert_ptr_equal(second, first);
    br_gpu_cache_put(cache, first);
    br_gpu_cache_put(cache, second);
    assert_ptr_equal(br_gpu_cache_get(cache, memory, 1, 5, true), first);
    br_gpu_cache_put(cache, first);
    assert_int_equal(devices[0].registered, 1);
    assert_int_equal(devices[1].registered, 0);
    fake_release(memory);
}

/* Another allocation at the same addresses: what was registered of them is not what stands there
 * now. */
static void get__never_a_stale_one(void **state)
{
    uint8_t *memory = fake_allocate(8192), *again;
    struct br_region *region = br_gpu_cache_get(cache, memory, 8192, 1, true), *other;

    (void)state;
    assert_non_null(region);
    fake_release(memory); /* the program's mistake, as it is still in use */
    again = fake_allocate(8192);
    assert_ptr_equal(again, memory); /* else this test says nothing */
    other = br_gpu_cache_get(cache, again, 8192, 1, true);
    assert_non_null(other);
    assert_ptr_not_equal(other, region);
    assert_int_equal(devices[0].registered, 2);
    assert_int_equal(devices[0].released, 0); /* in use */
    br_gpu_cache_put(cache, region);
    assert_int_equal(devices[0].released, 1);
    br_gpu_cache_put(cache, other);
    fake_release(again);
}

/* Memory that was freed is given back by uses of other memory. */
static void get__drops_what_is_gone(void **state)
{
    uint8_t *memory = fake_allocate(8192), *kept = fake_allocate(4096);
    struct br_region *region = br_gpu_cache_get(cache, memory, 8192, 1, true);

    (void)state;
    br_gpu_cache_put(cache, region);
    fake_release(memory);
    for (int i = 0; i < BR_GPU_CACHE_ENTRIES; i++)
        br_gpu_cache_put(cache, br_gpu_cache_get(cache, kept, 4096, 1, true));
    assert_int_equal(devices[0].registered, 2);
    assert_int_equal(devices[0].released, 1);
    fake_release(kept);
}

static void get__makes_room(void **state)
{
    static uint8_t *memory[BR_GPU_CACHE_ENTRIES + 1];
    static struct br_region *regions[BR_GPU_CACHE_ENTRIES];

    (void)state;
    for (int i = 0; i <= BR_GPU_CACHE_ENTRIES; i++)
        memory[i] = fake_allocate(4096);
    for (int i = 0; i < BR_GPU_CACHE_ENTRIES; i++)
        assert_non_null(regions[i] = br_gpu_cache_get(cache, memory[i], 1, 1, true));
    /* all are in use */
    assert_null(br_gpu_cache_get(cache, memory[BR_GPU_CACHE_ENTRIES], 1, 1, true));
    br_gpu_cache_put(cache, regions[7]);
    regions[7] = br_gpu_cache_get(cache, memory[BR_GPU_CACHE_ENTRIES], 1, 1, true);
    assert_non_null(regions[7]);
    assert_int_equal(devices[0].released, 1);
    for (int i = 0; i < BR_GPU_CACHE_ENTRIES; i++)
        br_gpu_cache_put(cache, regions[i]);
    for (int i = 0; i <= BR_GPU_CACHE_ENTRIES; i++)
        fake_release(memory[i]);
}

static void get__empties_itself_for_room_at_the_device(void **state)
{
    uint8_t *idle = fake_allocate(4096), *memory = fake_allocate(4096);
    struct br_region *region = br_gpu_cache_get(cache, idle, 1, 3, true);

    (void)state;
    br_gpu_cache_put(cache, region);
    devices[1].fails = ENOMEM;
    devices[1].times = 1;
    region = br_gpu_cache_get(cache, memory, 1, 3, true);
    assert_non_null(region);
    assert_int_equal(devices[1].released, 1);
    assert_int_equal(devices[0].registered,
                     3); /* the second failed with the other device, and was taken back there */
    br_gpu_cache_put(cache, region);
    fake_release(idle);
    fake_release(memory);
}

/* Refused once, it is not tried again while the allocation lives. */
static void get__remembers_what_was_refused(void **state)
{
    uint64_t before = atomic_load(&br_downgrades.downgrade_gpu_direct);
    uint8_t *memory = fake_allocate(4096), *pool = fake_allocate(4096);

    (void)state;
    devices[0].fails = EFAULT;
    devices[0].times = 1;
    assert_null(br_gpu_cache_get(cache, memory, 1, 1, true));
    assert_null(br_gpu_cache_get(cache, memory, 1, 1, true));
    assert_int_equal(devices[0].registered, 0);
    assert_int_equal(atomic_load(&br_downgrades.downgrade_gpu_direct) - before, 1);
    strcpy(fake_cuda()->fail, "cuPointerSetAttribute");
    fake_cuda()->fail_result = BR_CUDA_INVALID_VALUE;
    assert_null(br_gpu_cache_get(cache, pool, 1, 1, true));
    fake_cuda()->fail[0] = 0;
    assert_null(br_gpu_cache_get(cache, pool, 1, 1, true));
    assert_int_equal(atomic_load(&br_downgrades.downgrade_gpu_direct) - before, 2);
    fake_release(pool);
    fake_release(memory);
}

static void get__registers_nothing_unless_it_may(void **state)
{
    uint64_t before = atomic_load(&br_downgrades.downgrade_gpu_direct);
    uint8_t *memory = fake_allocate(4096);
    struct br_region *region;

    (void)state;
    assert_null(br_gpu_cache_get(cache, memory, 1, 1, false));
    region = br_gpu_cache_get(cache, memory, 1, 1, true);
    assert_non_null(region);
    br_gpu_cache_put(cache, region);
    assert_int_equal(atomic_load(&br_downgrades.downgrade_gpu_direct), before);
    fake_release(memory);
}

/* Said and counted once a device. */
static void get__by_the_peer_memory_module(void **state)
{
    uint64_t before = atomic_load(&br_downgrades.downgrade_dmabuf);

    (void)state;
    devices[0].no_dmabuf = devices[2].no_dmabuf = "the driver is old";
    for (int i = 0; i < 2; i++) {
        uint8_t *memory = fake_allocate(100000);
        struct br_region *region = br_gpu_cache_get(cache, memory, 1, 7, true);

        assert_non_null(region);
        assert_int_equal(atomic_load(&br_downgrades.downgrade_dmabuf) - before, 2);
        br_gpu_cache_put(cache, region);
        fake_release(memory);
    }
    assert_int_equal(devices[0].registered, 2);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(get__once_an_allocation, setup, teardown),
        cmocka_unit_test_setup_teardown(get__never_a_stale_one, setup, teardown),
        cmocka_unit_test_setup_teardown(get__drops_what_is_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(get__makes_room, setup, teardown),
        cmocka_unit_test_setup_teardown(get__empties_itself_for_room_at_the_device, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(get__remembers_what_was_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(get__registers_nothing_unless_it_may, setup, teardown),
        cmocka_unit_test_setup_teardown(get__by_the_peer_memory_module, setup, teardown),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
