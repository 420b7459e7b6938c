/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/direct.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/error.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/fresh.h"

static const struct br_cuda *cuda;

static int fresh(void **state)
{
    (void)state;
    cuda = fake_fresh_gpu();
    return 0;
}

static int leave(void **state)
{
    (void)state;
    fake_leave_gpu(0);
    return 0;
}

static void find__the_allocation_around(void **state)
{
    uint8_t *memory = fake_allocate(10000);
    struct br_direct_memory found;
    int here = 0;

    (void)state;
    assert_int_equal(br_direct_find(memory + 9000, 1000, &found), 0);
    assert_ptr_equal(found.base, memory);
    assert_int_equal(found.bytes, 10000);
    assert_int_equal(found.gpu, 1);
    assert_int_equal(br_direct_find(memory + 9000, 1001, &found), -EOPNOTSUPP);
    assert_int_equal(br_direct_find(&here, sizeof here, &found), -EOPNOTSUPP);
    fake_release(memory);
}

static void find__not_of_another_context(void **state)
{
    uint8_t *memory = fake_allocate(4096);
    struct br_direct_memory found;

    (void)state;
    fake_cuda_make_foreign((uintptr_t)memory);
    assert_int_equal(br_direct_find(memory, 1, &found), -EOPNOTSUPP);
    assert_non_null(strstr(br_error_message(), "context"));
    fake_release(memory);
}

static void lives__not_after_a_free(void **state)
{
    uint8_t *memory = fake_allocate(4096), *again;
    struct br_direct_memory found, other;

    (void)state;
    assert_int_equal(br_direct_find(memory, 4096, &found), 0);
    assert_true(br_direct_is_valid(&found));
    fake_release(memory);
    assert_false(br_direct_is_valid(&found));
    again = fake_allocate(4096); /* mostly at the same address */
    assert_int_equal(br_direct_find(again, 4096, &other), 0);
    assert_int_not_equal(other.number, found.number);
    assert_false(br_direct_is_valid(&found));
    fake_release(again);
}

static void export__whole_pages(void **state)
{
    uint8_t *memory = fake_allocate(10000); /* does not begin at a page */
    struct br_direct_memory found;
    uint64_t offset;
    int fd;

    (void)state;
    assert_int_equal(br_direct_find(memory, 10000, &found), 0);
    assert_int_equal(br_direct_export(&found, &fd, &offset), 0);
    assert_true(fd >= 0);
    assert_int_equal(offset, (uintptr_t)memory % 4096);
    assert_int_not_equal(offset, 0);
    close(fd);
    fake_cuda()->no_dmabuf = true;
    assert_int_equal(br_direct_export(&found, &fd, &offset), 0);
    assert_int_equal(fd, -1);
    fake_release(memory);
}

static void export__wants_sync_memops(void **state)
{
    uint8_t *memory = fake_allocate(4096);
    struct br_direct_memory found;
    uint64_t offset;
    int fd;

    (void)state;
    assert_int_equal(br_direct_find(memory, 4096, &found), 0);
    strcpy(fake_cuda()->fail, "cuPointerSetAttribute");
    fake_cuda()->fail_result = BR_CUDA_INVALID_VALUE;
    assert_int_equal(br_direct_export(&found, &fd, &offset), -EINVAL);
    assert_non_null(strstr(br_error_message(), "SYNC_MEMOPS"));
    assert_int_equal(fd, -1);
    fake_cuda()->fail[0] = 0;
    fake_release(memory);
}

static void flush__only_where_nothing_is_promised(void **state)
{
    (void)state;
    assert_int_equal(br_direct_can_flush(1), 0);
    assert_int_equal(br_direct_flush(1), 0);
    assert_int_equal(fake_cuda_counters().flushes, 0);
    fake_cuda()->unordered = true;
    assert_int_equal(br_direct_can_flush(1), 0);
    assert_int_equal(br_direct_flush(1), 0);
    assert_int_equal(fake_cuda_counters().flushes, 1);
    fake_cuda()->no_flush = true;
    assert_int_equal(br_direct_can_flush(1), -EOPNOTSUPP);
    assert_non_null(strstr(br_error_message(), "GPU 0"));
    strcpy(fake_cuda()->fail, "cuFlushGPUDirectRDMAWrites");
    fake_cuda()->fail_result = BR_CUDA_ILLEGAL_ADDRESS;
    assert_int_equal(br_direct_flush(1), -EIO);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(find__the_allocation_around, fresh, leave),
        cmocka_unit_test_setup_teardown(find__not_of_another_context, fresh, leave),
        cmocka_unit_test_setup_teardown(lives__not_after_a_free, fresh, leave),
        cmocka_unit_test_setup_teardown(export__whole_pages, fresh, leave),
        cmocka_unit_test_setup_teardown(export__wants_sync_memops, fresh, leave),
        cmocka_unit_test_setup_teardown(flush__only_where_nothing_is_promised, fresh, leave),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
