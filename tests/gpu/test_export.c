/* SPDX-License-Identifier: BSD-3-Clause */
/* What of this process others may map: found anew at each use, and who has it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/error.h"
#include "gpu/extent.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/fresh.h"

#define GRAIN FAKE_CUDA_GRAIN
#define ROOM  (4 * GRAIN)

static const struct br_cuda *cuda;
static struct br_exports *exports;
static br_cuda_pointer at;
static struct br_extent found[BR_EXTENTS];
static uint32_t n;

static void make(br_cuda_pointer where, size_t bytes)
{
    assert_int_equal(fake_cuda_create(where, bytes, true), 0);
}

static void unmake(br_cuda_pointer where, size_t bytes)
{
    assert_int_equal(cuda->vmm_unmap(where, bytes), 0);
}

/* Two allocations, of one grain and of two, and a hole behind. */
static int set_up(void **state)
{
    (void)state;
    cuda = fake_fresh_gpu();
    assert_int_equal(cuda->vmm_reserve(&at, ROOM, 0, 0, 0), 0);
    make(at, GRAIN);
    make(at + GRAIN, 2 * GRAIN);
    return br_exports_create(200, &exports);
}

static int tear_down(void **state)
{
    (void)state;
    fake_cuda()->fail[0] = 0;
    br_exports_destroy(exports, cuda);
    unmake(at, GRAIN);
    unmake(at + GRAIN, 2 * GRAIN);
    assert_int_equal(cuda->vmm_unreserve(at, ROOM), 0);
    fake_leave_gpu(0);
    return 0;
}

static int find(br_cuda_pointer where, size_t bytes)
{
    br_cuda_pointer first = 0;
    int rc = br_exports_find(exports, cuda, where, bytes, found, &n, &first);

    assert_true(rc || (first <= where && where < first + found[0].bytes));
    return rc;
}

static void find__names_each_allocation_once(void **state)
{
    struct br_extent before[2];

    (void)state;
    assert_int_equal(find(at + 100, 2 * GRAIN), 0);
    assert_int_equal(n, 2);
    assert_int_equal(found[0].bytes, GRAIN);
    assert_int_equal(found[1].bytes, 2 * GRAIN);
    memcpy(before, found, sizeof before);
    assert_int_equal(find(at + GRAIN, 1), 0);
    assert_int_equal(n, 1);
    assert_memory_equal(found, &before[1], sizeof before[1]);
    assert_int_equal(find(at, GRAIN), 0);
    assert_int_equal(n, 1);
    assert_memory_equal(found, &before[0], sizeof before[0]);
}

static void find__refuses_with_a_message(void **state)
{
    (void)state;
    assert_true(find(at + 2 * GRAIN, GRAIN + 1) < 0); /* the hole */
    assert_non_null(strstr(br_error_message(), "not cuMemCreate()'s"));
    assert_int_equal(fake_cuda_create(at + 3 * GRAIN, GRAIN, false), 0);
    assert_true(find(at, ROOM) < 0);
    assert_non_null(strstr(br_error_message(), "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR"));
    unmake(at + 3 * GRAIN, GRAIN);
}

/* The driver gives the number of a handle again: it is not taken for the one of before, which is
 * kept as long. */
static void find__mapped_anew(void **state)
{
    struct br_extent before;

    (void)state;
    assert_int_equal(find(at, 2 * GRAIN), 0); /* the other one is looked at in passing */
    before = found[0];
    br_exports_sent(exports, 3, &before);
    unmake(at, GRAIN);
    make(at, GRAIN);
    assert_int_equal(find(at, 1), 0);
    assert_int_not_equal(found[0].serial, before.serial);
    assert_int_not_equal(found[0].slot, before.slot); /* rank 3 has not been told yet */
    assert_false(br_exports_has(exports, 3, &found[0]));
    assert_true(br_exports_open(exports, cuda, &before) < 0);
}

static void gone__is_told_to_whom_has_it(void **state)
{
    const int some[] = {1, 150}, one[] = {199};
    struct br_extent before, told[BR_EXTENTS_FREED];
    unsigned left;

    (void)state;
    assert_int_equal(find(at, 1), 0);
    before = found[0];
    br_exports_sent(exports, 150, &before);
    br_exports_sent(exports, 199, &before);
    assert_true(br_exports_has(exports, 150, &before));
    assert_false(br_exports_has(exports, 1, &before));
    assert_int_equal(br_exports_freed(exports, some, 2, told), 0);
    left = fake_cuda_left();
    unmake(at, GRAIN);
    for (int i = 0; i < 3; i++) /* uses of other memory find it */
        assert_int_equal(find(at + GRAIN, 1), 0);
    /* mapping and handle; the other one's handle */
    assert_int_equal(fake_cuda_left(), left - 2 + 1);
    assert_int_equal(br_exports_freed(exports, some, 2, told), 1);
    assert_memory_equal(&told[0], &before, sizeof before);
    assert_int_equal(br_exports_freed(exports, some, 2, told), 0);
    assert_int_equal(br_exports_freed(exports, one, 1, told), 1);
    make(at, GRAIN);
    assert_int_equal(find(at, 1), 0);
    assert_int_equal(found[0].slot, before.slot); /* free again */
}

static void open__gives_a_descriptor(void **state)
{
    unsigned long long handle;
    int fd;

    (void)state;
    assert_int_equal(find(at, 1), 0);
    fd = br_exports_open(exports, cuda, &found[0]);
    assert_true(fd >= 0);
    assert_int_equal(cuda->vmm_import(&handle, (void *)(intptr_t)fd, BR_CUDA_HANDLE_FD), 0);
    cuda->vmm_release(handle);
    close(fd);
}

/* As many as there may be of a buffer; one more is refused. */
static void find__too_many(void **state)
{
    const size_t bytes = (BR_EXTENTS + 1) * GRAIN;
    br_cuda_pointer many;

    (void)state;
    assert_int_equal(cuda->vmm_reserve(&many, bytes, 0, 0, 0), 0);
    for (uint32_t i = 0; i <= BR_EXTENTS; i++)
        make(many + i * GRAIN, GRAIN);
    assert_int_equal(find(many + GRAIN, bytes - GRAIN), 0);
    assert_int_equal(n, BR_EXTENTS);
    assert_int_equal(find(many, bytes), -E2BIG);
    for (uint32_t i = 0; i <= BR_EXTENTS; i++)
        unmake(many + i * GRAIN, GRAIN);
    assert_int_equal(cuda->vmm_unreserve(many, bytes), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(find__names_each_allocation_once),
        TEST(find__refuses_with_a_message),
        TEST(find__mapped_anew),
        TEST(gone__is_told_to_whom_has_it),
        TEST(open__gives_a_descriptor),
        TEST(find__too_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
