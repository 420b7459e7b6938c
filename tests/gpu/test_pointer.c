/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/pointer.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/error.h"
#include "gpu/driver.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/fresh.h"

static int fresh(void **state)
{
    (void)state;
    fake_fresh();
    return br_gpu_look();
}

static const struct br_cuda *enter(int device)
{
    const struct br_cuda *cuda;
    struct CUctx_st *context;

    assert_int_equal(br_cuda_driver(&cuda), 0);
    assert_int_equal(br_cuda_context(device, &context), 0);
    assert_int_equal(br_cuda_enter(cuda, context), 0);
    return cuda;
}

static void gpu_of__says_which(void **state)
{
    br_cuda_pointer memory, managed;
    const struct br_cuda *cuda;
    void *pinned;

    (void)state;
    fake_cuda()->devices = 2;
    cuda = enter(1);
    assert_int_equal(cuda->memory_alloc(&memory, 100), 0);
    assert_int_equal(cuda->host_alloc(&pinned, 100, 0), 0);
    assert_int_equal(fake_cuda_managed(&managed, 100), 0);
    assert_int_equal(br_gpu_of((void *)(uintptr_t)(memory + 99)), 2);
    assert_int_equal(br_gpu_of(pinned), 0);
    assert_int_equal(br_gpu_of((void *)(uintptr_t)managed), 0);
    assert_int_equal(br_gpu_of(&memory), 0);
    assert_int_equal(br_gpu_of(NULL), 0);
    cuda->memory_free(memory);
    cuda->memory_free(managed);
    cuda->host_free(pinned);
    br_cuda_leave(cuda);
}

static void gpu_is_in__the_context_of_the_allocation(void **state)
{
    const struct br_cuda *cuda = enter(0);
    struct CUctx_st *primary;
    br_cuda_pointer memory;

    (void)state;
    assert_int_equal(br_cuda_context(0, &primary), 0);
    assert_int_equal(cuda->memory_alloc(&memory, 100), 0);
    assert_true(br_gpu_is_in((void *)(uintptr_t)(memory + 99), primary));
    fake_cuda_make_foreign(memory);
    assert_false(br_gpu_is_in((void *)(uintptr_t)(memory + 99), primary));
    assert_int_equal(br_gpu_of((void *)(uintptr_t)memory), 1);
    cuda->memory_free(memory);
    br_cuda_leave(cuda);
}

static char byte_of(br_cuda_pointer memory)
{
    return *(char *)fake_cuda_bytes(memory);
}

static void gpu_settle__copies_before_it_and_after(void **state)
{
    const struct br_cuda *cuda = enter(0);
    char values[2][100];
    br_cuda_pointer memory;

    (void)state;
    memset(values[0], 1, 100);
    memset(values[1], 2, 100);
    assert_int_equal(cuda->memory_alloc(&memory, 100), 0);
    assert_int_equal(cuda->copy(memory, (uintptr_t)values[0], 100), 0);
    assert_int_not_equal(byte_of(memory), 1); /* as the real one: told too early */
    br_gpu_settle((void *)(uintptr_t)(memory + 50));
    assert_int_equal(byte_of(memory), 1);
    assert_int_equal(cuda->copy(memory, (uintptr_t)values[1], 100), 0);
    assert_int_equal(byte_of(memory), 2);
    cuda->memory_free(memory);
    br_cuda_leave(cuda);
}

/* Memory of cuMemCreate() has no such attribute; a host's address is nobody's. */
static void gpu_settle__of_other_memory_does_nothing(void **state)
{
    const struct br_cuda *cuda = enter(0);
    br_cuda_pointer at;

    (void)state;
    assert_int_equal(cuda->vmm_reserve(&at, FAKE_CUDA_GRAIN, 0, 0, 0), 0);
    assert_int_equal(fake_cuda_create(at, FAKE_CUDA_GRAIN, true), 0);
    br_gpu_settle((void *)(uintptr_t)at);
    br_gpu_settle(&at);
    br_gpu_settle(NULL);
    assert_int_equal(cuda->vmm_unmap(at, FAKE_CUDA_GRAIN), 0);
    assert_int_equal(cuda->vmm_unreserve(at, FAKE_CUDA_GRAIN), 0);
    br_cuda_leave(cuda);
}

static void gpu_of__before_the_program_has_used_cuda(void **state)
{
    int here = 0;

    (void)state;
    assert_int_equal(br_gpu_of(&here), 0);
}

static void gpu_of__without_a_driver(void **state)
{
    int here = 0;

    (void)state;
    setenv("BRAID_CUDA_LIBRARY", "/nowhere.so", 1);
    br_cuda_forget();
    assert_int_equal(br_gpu_look(), -ENOENT);
    assert_non_null(strstr(br_error_message(), "/nowhere.so"));
    assert_int_equal(br_gpu_of(&here), 0);
    assert_int_equal(br_gpu_check(), -ENOENT);
    assert_non_null(strstr(br_error_message(), "/nowhere.so"));
    setenv("BRAID_CUDA_LIBRARY", "none", 1);
    br_cuda_forget();
    assert_int_equal(br_gpu_look(), 0);
    assert_int_equal(br_gpu_of(&here), 0);
    assert_int_equal(br_gpu_check(), -ENOENT);
    setenv("BRAID_CUDA_LIBRARY", FAKE_CUDA_LIBRARY, 1);
    br_cuda_forget();
    assert_int_equal(br_gpu_check(), -ENODEV); /* there is one now, but nobody has looked again */
    assert_int_equal(br_gpu_look(), 0);
    assert_int_equal(br_gpu_check(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(gpu_of__says_which, fresh),
        cmocka_unit_test_setup(gpu_settle__copies_before_it_and_after, fresh),
        cmocka_unit_test_setup(gpu_settle__of_other_memory_does_nothing, fresh),
        cmocka_unit_test_setup(gpu_is_in__the_context_of_the_allocation, fresh),
        cmocka_unit_test_setup(gpu_of__before_the_program_has_used_cuda, fresh),
        cmocka_unit_test_setup(gpu_of__without_a_driver, fresh),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
