/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/comm/memory.h"
#include "collectives/comm/operation_memory.h"
#include "collectives/comm/progress_lock.h"
#include "tests/collectives/comm/single_rank.h"

static int pins, unpins;

static int pin(struct br_device *device, struct br_region *region)
{
    pins++;
    device->counters.registrations++;
    device->counters.pinned_bytes += region->bytes;
    return 0;
}

static void unpin(struct br_device *device, struct br_region *region)
{
    unpins++;
    device->counters.pinned_bytes -= region->bytes;
}

static int nothing_comes(struct br_device *device, uint64_t now, struct br_event *events, int max)
{
    (void)device, (void)now, (void)events, (void)max;
    return 0;
}

static int must_be_polled(struct br_device *device)
{
    (void)device;
    return -EOPNOTSUPP;
}

static const struct br_transport_ops nic_ops = {.name = "nic",
                                                .region_register = pin,
                                                .region_release = unpin,
                                                .poll = nothing_comes,
                                                .arm = must_be_polled};
static struct br_device nic = {.ops = &nic_ops, .caps.needs_rkey = true, .name = "nic0"};

/* A communicator with a device that wants its memory registered. */
static int join_with_nic(void **state)
{
    int rc = join(state);

    pins = unpins = 0;
    memset(&nic.counters, 0, sizeof nic.counters);
    if (rc)
        return rc;
    br_progress_lock(comm->context);
    comm->context->worker->devices[comm->context->worker->n_devices++] = &nic;
    rc = br_memory_open(comm->context);
    br_progress_unlock(comm->context);
    return rc;
}

static int leave_with_nic(void **state)
{
    br_progress_lock(comm->context);
    br_memory_close(comm->context);
    comm->context->worker->n_devices--;
    br_progress_unlock(comm->context);
    return pins == unpins ? leave(state) : -1;
}

static void memory_use__registers_once_for_all_operations(void **state)
{
    size_t bytes = 1 << 20;
    uint8_t *input =
        mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t *output = input + bytes;
    struct braid_stats stats = {0};
    char text[BR_MEMORY_TEXT], small[4] = {0};

    (void)state;
    if (!comm->context->cache)
        skip();
    assert_ptr_not_equal(input, MAP_FAILED);
    memset(input, 1, bytes);
    for (int i = 0; i < 10; i++)
        assert_int_equal(
            braid_allreduce(comm, input, output, bytes, BRAID_UINT8, BRAID_SUM, NULL, NULL), 0);
    assert_int_equal(braid_stats(comm, &stats), 0);
    assert_int_equal(stats.registrations, 2);
    assert_int_equal(stats.pinned_bytes, 2 * bytes);
    assert_int_equal(stats.unregistered, 0);
    assert_non_null(strstr(br_memory_text(comm->context, text), "2 registrations"));
    munmap(input, 2 * bytes); /* noticed soon, also when only small operations follow */
    for (int ms = 0; stats.pinned_bytes && ms < 10000; ms++) {
        assert_int_equal(braid_allreduce(comm, small, text, 4, BRAID_UINT8, BRAID_SUM, NULL, NULL),
                         0);
        assert_int_equal(braid_stats(comm, &stats), 0);
        usleep(1000);
    }
    assert_int_equal(stats.pinned_bytes, 0);
}

static void memory_use__regions_and_small_memory_are_not_cached(void **state)
{
    static uint8_t small[1024];
    uint8_t *memory = braid_alloc(comm, 1 << 20);
    struct br_region *region;

    (void)state;
    assert_int_equal(pins, 1);
    region = br_memory_use(comm->context, memory + 100, 1 << 19);
    assert_ptr_equal(region, &br_region_containing(comm->context, memory, 1)->region);
    assert_int_equal(braid_free(comm, memory), -EBUSY);
    br_memory_unuse(comm->context, region);
    assert_int_equal(braid_free(comm, memory), 0);
    assert_null(br_memory_use(comm->context, small, sizeof small));
    assert_null(br_memory_use(comm->context, NULL, 0));
    br_memory_unuse(comm->context, NULL);
    assert_int_equal(pins, 1);
    assert_int_equal(comm->context->unregistered, 0);
}

/* A bound of nothing: no cache, and each use is counted. */
static void memory_use__without_a_cache(void **state)
{
    static uint8_t memory[1 << 20];

    (void)state;
    br_progress_lock(comm->context);
    br_memory_close(comm->context);
    comm->context->settings.cache_bytes = 0;
    assert_int_equal(br_memory_open(comm->context), 0);
    br_progress_unlock(comm->context);
    assert_null(comm->context->cache);
    assert_null(br_memory_use(comm->context, memory, sizeof memory));
    assert_int_equal(comm->context->unregistered, 1);
    assert_int_equal(pins, 0);
}

static void memory__nobody_wants_keys(void **state)
{
    static uint8_t memory[1 << 20];
    char text[BR_MEMORY_TEXT];

    (void)state;
    assert_null(comm->context->cache);
    assert_null(br_memory_use(comm->context, memory, sizeof memory));
    assert_int_equal(comm->context->unregistered, 0);
    assert_string_equal(br_memory_text(comm->context, text), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(memory_use__registers_once_for_all_operations,
                                        join_with_nic, leave_with_nic),
        cmocka_unit_test_setup_teardown(memory_use__regions_and_small_memory_are_not_cached,
                                        join_with_nic, leave_with_nic),
        cmocka_unit_test_setup_teardown(memory_use__without_a_cache, join_with_nic, leave_with_nic),
        cmocka_unit_test_setup_teardown(memory__nobody_wants_keys, join, leave),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
