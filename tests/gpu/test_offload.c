/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/offload.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/downgrade.h"
#include "base/error.h"
#include "gpu/copier.h"
#include "gpu/driver.h"
#include "gpu/reduce.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/fresh.h"

/* Five arrays fit into the arena, and the sixth begins at its start again. */
#define BYTES (3u << 20)
#define COUNT (BYTES / sizeof(uint32_t))

/* The fake driver has the kernels, whatever is loaded; a build under a sanitizer has no image. */
static const struct br_gpu_image image = {"image", NULL, "sm_none"};
static const struct br_offload_cost gpu_always = {.start = -INFINITY};

static const struct br_cuda *cuda;
static struct br_copier *copier;
static struct br_offload *offload;
static uint32_t *host, *device; /* of COUNT elements; the other is an address of the GPU */

static int set_up(void **state)
{
    br_cuda_pointer memory;

    (void)state;
    cuda = fake_fresh_gpu();
    if (br_copier_create(&copier) || br_copier_open(copier, 1) != 1 ||
        br_offload_create(copier, &image, &offload))
        return -1;
    host = malloc(BYTES);
    assert_int_equal(cuda->memory_alloc(&memory, BYTES), 0);
    device = (uint32_t *)(uintptr_t)memory;
    for (uint32_t i = 0; i < COUNT; i++)
        ((uint32_t *)fake_cuda_bytes(memory))[i] = 1000 + i;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fake_cuda()->fail[0] = 0;
    br_offload_destroy(offload);
    br_copier_destroy(copier);
    cuda->memory_free((uintptr_t)device);
    free(host);
    fake_leave_gpu(0);
    return 0;
}

static void open_for_all(void)
{
    struct br_offload_cost cost;

    assert_int_equal(br_offload_open(offload, 1, &cost), 0);
    br_offload_set(offload, 1, &gpu_always);
}

/* host += device; the mark, or the error. */
static int add(size_t bytes, uint64_t *mark)
{
    const struct br_offload_source sources[] = {{host, false}, {device, true}};

    return br_offload_reduce(offload, 1, BRAID_UINT32, BRAID_SUM, host, sources, 2, bytes, 0, mark);
}

static void wait_for_all(void)
{
    struct br_copy copy = {0};

    assert_int_equal(br_copier_mark(copier, 1, BR_COPY_REDUCTION, &copy), 0);
    while (!br_copier_done(copier, &copy))
        continue;
}

static void br_offload_open__tries_and_measures(void **state)
{
    struct br_offload_cost cost = {.start = -1, .per_byte = -1};

    (void)state;
    assert_int_equal(br_offload_open(offload, 1, &cost), 0);
    assert_true(cost.start >= 0 && cost.per_byte >= 0 && cost.start + cost.per_byte > 0);
    /* before br_offload_set() */
    assert_false(br_offload_is_faster(offload, 1, BRAID_UINT32, BYTES, 2, 1));
    /* a trial does not count */
    assert_int_equal(br_copier_counters(copier).reduced_bytes, 0);
}

/* Whatever fails, with a message, and nothing is left over (tear_down). */
static void br_offload_open__fails(void **state)
{
    static const struct {
        const char *symbol;
        br_cuda_result result;
        int rc;
    } cases[] = {{"cuModuleLoadData", BR_CUDA_NO_BINARY_FOR_GPU, -EOPNOTSUPP},
                 {"cuModuleGetFunction", BR_CUDA_NOT_FOUND, -EIO},
                 {"cuMemAlloc_v2", BR_CUDA_OUT_OF_MEMORY, -ENOMEM},
                 {"cuMemHostAlloc", BR_CUDA_OUT_OF_MEMORY, -ENOMEM},
                 {"cuEventCreate", BR_CUDA_OUT_OF_MEMORY, -ENOMEM},
                 {"cuMemcpyAsync", BR_CUDA_UNKNOWN, -EIO},
                 {"cuEventRecord", BR_CUDA_ILLEGAL_ADDRESS, -EIO},
                 {"cuEventQuery", BR_CUDA_ILLEGAL_ADDRESS, -EIO},
                 {"cuLaunchKernel", BR_CUDA_LAUNCH_FAILED, -EIO}};
    struct br_offload_cost cost;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        strcpy(fake_cuda()->fail, cases[i].symbol);
        fake_cuda()->fail_result = cases[i].result;
        assert_int_equal(br_offload_open(offload, 1, &cost), cases[i].rc);
        assert_true(br_error_message()[0]);
        assert_false(br_offload_is_faster(offload, 1, BRAID_UINT32, BYTES, 2, 1));
        fake_cuda()->fail[0] = 0;
        br_offload_destroy(offload);
        assert_int_equal(br_offload_create(copier, &image, &offload), 0);
    }
}

/* The copy before it is through, the kernel never: one of the program's has the GPU. */
static void br_offload_open__beside_a_kernel_that_waits(void **state)
{
    struct br_offload_cost cost;

    (void)state;
    strcpy(fake_cuda()->fail, "cuEventQuery");
    fake_cuda()->fail_result = BR_CUDA_NOT_READY;
    fake_cuda()->fail_after = 1;
    assert_int_equal(br_offload_open(offload, 1, &cost), -ETIMEDOUT);
    assert_false(br_offload_is_faster(offload, 1, BRAID_UINT32, BYTES, 2, 1));
}

static void br_offload_reduce__from_host_and_gpu(void **state)
{
    uint64_t mark;

    (void)state;
    open_for_all();
    fake_cuda()->late = 2;
    for (uint32_t i = 0; i < COUNT; i++)
        host[i] = i;
    assert_int_equal(add(BYTES, &mark), 0);
    wait_for_all();
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(host[i], 1000 + 2 * i);
    assert_int_equal(br_copier_counters(copier).to_gpu_bytes, BYTES);
    assert_int_equal(br_copier_counters(copier).to_host_bytes, BYTES);
    assert_int_equal(br_copier_counters(copier).reduced_bytes, BYTES);
}

static atomic_bool opened;

static void *open_second(void *rc)
{
    struct br_offload_cost cost;

    *(int *)rc = br_offload_open(offload, 2, &cost);
    atomic_store(&opened, true);
    return NULL;
}

/* ThreadSanitizer looks on. */
static void br_offload_reduce__while_another_gpu_is_opened(void **state)
{
    pthread_t thread;
    uint64_t mark;
    int rc = -1;

    (void)state;
    fake_cuda()->devices = 2;
    assert_int_equal(br_copier_open(copier, 2), 1);
    open_for_all();
    memset(host, 0, BYTES);
    atomic_store(&opened, false);
    assert_int_equal(pthread_create(&thread, NULL, open_second, &rc), 0);
    while (!atomic_load(&opened)) {
        assert_int_equal(add(4096, &mark), 0);
        wait_for_all();
        br_offload_end(offload, 1, mark);
    }
    pthread_join(thread, NULL);
    assert_int_equal(rc, 0);
}

/* The arena is full, and comes free in order, over its end. */
static void br_offload_reduce__until_the_arena_is_full(void **state)
{
    uint64_t marks[8], mark;

    (void)state;
    open_for_all();
    memset(host, 0, BYTES);
    for (int i = 0; i < 5; i++)
        assert_int_equal(add(BYTES, &marks[i]), 0);
    assert_int_equal(add(BYTES, &mark), -EAGAIN);
    wait_for_all();
    assert_int_equal(add(BYTES, &mark), -EAGAIN);
    br_offload_end(offload, 1, marks[0]);
    assert_int_equal(add(BYTES, &mark), 0);
    assert_int_equal(add(BYTES, &mark), -EAGAIN);
    br_offload_end(offload, 1, marks[4]);
    assert_int_equal(add(BYTES, &mark), 0);
    wait_for_all();
    assert_int_equal(host[5], 7 * 1005);
}

/* Empty in its middle: what is larger than either side of that has room, too. */
static void br_offload_reduce__all_of_an_empty_arena(void **state)
{
    const struct br_offload_source from_host = {host, false},
                                   sources[] = {from_host, from_host, from_host, from_host};
    uint64_t mark;

    (void)state;
    open_for_all();
    for (uint32_t i = 0; i < COUNT; i++)
        host[i] = i;
    for (int i = 0; i < 2; i++)
        assert_int_equal(add(BYTES, &mark), 0);
    wait_for_all();
    br_offload_end(offload, 1, mark);
    assert_int_equal(
        br_offload_reduce(offload, 1, BRAID_UINT32, BRAID_SUM, host, sources, 4, BYTES, 0, &mark),
        0);
    wait_for_all();
    assert_int_equal(host[5], 4 * (5 + 2 * 1005));
}

static void br_offload_reduce__refused_is_not_asked_again(void **state)
{
    uint64_t said = atomic_load(&br_downgrades.downgrade_gpu_reduction), mark;

    (void)state;
    open_for_all();
    memset(host, 0, BYTES);
    assert_true(br_offload_is_faster(offload, 1, BRAID_UINT32, BYTES, 2, 1));
    strcpy(fake_cuda()->fail, "cuLaunchKernel");
    fake_cuda()->fail_result = BR_CUDA_NO_BINARY_FOR_GPU;
    assert_int_equal(add(BYTES, &mark), 1); /* what is in host memory is on its way up */
    fake_cuda()->fail[0] = 0;
    wait_for_all();
    br_offload_end(offload, 1, mark);
    assert_int_equal(host[5], 0);
    assert_false(br_offload_is_faster(offload, 1, BRAID_UINT32, BYTES, 2, 1));
    assert_int_equal(atomic_load(&br_downgrades.downgrade_gpu_reduction), said + 1);
}

/* Part of it is under way: nothing, the copy up, or the kernel, too. */
static void br_offload_reduce__refused_half_way(void **state)
{
    struct fake_cuda_counters before;
    uint64_t mark;

    (void)state;
    for (unsigned after = 0; after < 2; after++) {
        open_for_all();
        memset(host, 0, BYTES);
        before = fake_cuda_counters();
        strcpy(fake_cuda()->fail, "cuMemcpyAsync");
        fake_cuda()->fail_result = BR_CUDA_OUT_OF_MEMORY;
        fake_cuda()->fail_after = after;
        assert_int_equal(add(BYTES, &mark), after ? 1 : -ENOMEM);
        fake_cuda()->fail[0] = 0;
        wait_for_all();
        assert_int_equal(fake_cuda_counters().launches - before.launches, after);
        assert_int_equal(host[5], 0);
        br_offload_destroy(offload);
        assert_int_equal(br_offload_create(copier, &image, &offload), 0);
    }
}

static void br_offload_pays__where_it_is_faster(void **state)
{
    const struct br_offload_cost cost = {
        .start = 1e-5, .per_byte = 1e-10, .cpu_per_byte = {[BRAID_UINT32] = 2e-10}};
    struct br_offload_cost measured;

    (void)state;
    assert_int_equal(br_offload_open(offload, 1, &measured), 0);
    br_offload_set(offload, 1, &cost);
    /* 10 us + 0.1 ns * 2 arrays < 0.2 ns * 3 arrays from 25,000 bytes on */
    assert_false(br_offload_is_faster(offload, 1, BRAID_UINT32, 24000, 2, 1));
    assert_true(br_offload_is_faster(offload, 1, BRAID_UINT32, 26000, 2, 1));
    assert_false(br_offload_is_faster(offload, 1, BRAID_UINT32, 26000, 2, 2));
    /* which the CPU does faster */
    assert_false(br_offload_is_faster(offload, 1, BRAID_INT32, 26000, 2, 1));
    assert_false(br_offload_is_faster(offload, 2, BRAID_UINT32, 26000, 2, 1)); /* not open */
    /* larger than the arena */
    assert_false(br_offload_is_faster(offload, 1, BRAID_UINT32, 17u << 20, 2, 1));
    assert_false(br_offload_is_faster(offload, 1, BRAID_UINT32, 26000, 300, 1));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(br_offload_open__tries_and_measures),
        TEST(br_offload_open__fails),
        TEST(br_offload_open__beside_a_kernel_that_waits),
        TEST(br_offload_reduce__from_host_and_gpu),
        TEST(br_offload_reduce__while_another_gpu_is_opened),
        TEST(br_offload_reduce__until_the_arena_is_full),
        TEST(br_offload_reduce__all_of_an_empty_arena),
        TEST(br_offload_reduce__refused_is_not_asked_again),
        TEST(br_offload_reduce__refused_half_way),
        TEST(br_offload_pays__where_it_is_faster),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
