/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/driver.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/error.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/fresh.h"
#include "tests/says.h"

static int with(const char *library)
{
    setenv("BRAID_CUDA_LIBRARY", library, 1);
    br_cuda_forget();
    return 0;
}

static int fresh(void **state)
{
    (void)state;
    fake_fresh();
    return 0;
}

static void assert_message(const char *nouns)
{
    assert_says(br_error_message(), nouns);
}

static void library__loads_without_initialising(void **state)
{
    const struct br_cuda *cuda;
    unsigned kind;

    (void)state;
    assert_int_equal(br_cuda_library(&cuda), 0);
    assert_int_equal(cuda->pointer_attribute(&kind, BR_CUDA_POINTER_KIND, (uintptr_t)&kind),
                     BR_CUDA_NOT_INITIALIZED);
    assert_non_null(cuda->range_handle);
    assert_non_null(cuda->vmm_import);
}

static void library__missing_says_what_to_install(void **state)
{
    const struct br_cuda *cuda;

    (void)state;
    with("/nowhere/libcuda.so.1");
    assert_int_equal(br_cuda_library(&cuda), -ENOENT);
    assert_null(cuda);
    assert_message("apt-get install");
    assert_int_equal(br_cuda_driver(&cuda), -ENOENT);
}

static void library__none_means_none(void **state)
{
    const struct br_cuda *cuda;

    (void)state;
    with("none");
    assert_int_equal(br_cuda_driver(&cuda), -ENOENT);
    assert_message("BRAID_CUDA_LIBRARY");
}

static void library__another_library_is_too_old(void **state)
{
    const struct br_cuda *cuda;

    (void)state;
    with("libc.so.6");
    assert_int_equal(br_cuda_library(&cuda), -ENOSYS);
    assert_message("cuInit");
}

static void driver__without_a_gpu_says_so(void **state)
{
    const struct br_cuda *cuda;

    (void)state;
    fake_cuda()->devices = 0;
    assert_int_equal(br_cuda_driver(&cuda), -ENODEV);
    assert_message("nvidia-smi");
    fake_cuda()->devices = 1; /* the failure stays */
    assert_int_equal(br_cuda_driver(&cuda), -ENODEV);
    assert_int_equal(br_cuda_library(&cuda), 0);
}

static void driver__failure_names_the_remedy(void **state)
{
    static const struct {
        br_cuda_result result;
        int err;
        const char *message;
    } cases[] = {
        {BR_CUDA_STUB_LIBRARY, ENOSYS, "LD_LIBRARY_PATH"},
        {BR_CUDA_SYSTEM_DRIVER_MISMATCH, EIO, "nvidia"},
        {BR_CUDA_SYSTEM_NOT_READY, EIO, "fabricmanager"},
        {BR_CUDA_OPERATING_SYSTEM, EIO, "CUDA_ERROR_OPERATING_SYSTEM"},
    };
    const struct br_cuda *cuda;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        br_cuda_forget();
        strcpy(fake_cuda()->fail, "cuInit");
        fake_cuda()->fail_result = cases[i].result;
        assert_int_equal(br_cuda_driver(&cuda), -cases[i].err);
        assert_message(cases[i].message);
    }
}

static void error__has_the_drivers_words(void **state)
{
    const struct br_cuda *cuda;

    (void)state;
    assert_int_equal(br_cuda_driver(&cuda), 0);
    assert_int_equal(br_cuda_error(cuda, BR_CUDA_OUT_OF_MEMORY, "%d bytes", 7), -ENOMEM);
    assert_says(br_error_message(), "7 bytes|CUDA_ERROR_OUT_OF_MEMORY (2|fake driver");
    assert_int_equal(br_cuda_error(cuda, 12345, "x"), -EIO);
    assert_message("12345");
}

static void context__is_the_primary_one_and_is_left_again(void **state)
{
    struct CUctx_st *context, *again, *current;
    const struct br_cuda *cuda;
    br_cuda_pointer memory;

    (void)state;
    assert_int_equal(br_cuda_driver(&cuda), 0);
    assert_int_equal(br_cuda_context(0, &context), 0);
    assert_int_equal(br_cuda_context(0, &again), 0);
    assert_ptr_equal(context, again);
    assert_int_equal(cuda->memory_alloc(&memory, 64), BR_CUDA_INVALID_CONTEXT);
    assert_int_equal(br_cuda_enter(cuda, context), 0);
    assert_int_equal(cuda->memory_alloc(&memory, 64), 0);
    assert_int_equal(cuda->memory_free(memory), 0);
    br_cuda_leave(cuda);
    assert_int_equal(cuda->context_get(&current), 0);
    assert_null(current);
    assert_int_equal(br_cuda_context(7, &context), -ENODEV);
    assert_int_equal(br_cuda_context(-1, &context), -ENODEV);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(library__loads_without_initialising, fresh),
        cmocka_unit_test_setup(library__missing_says_what_to_install, fresh),
        cmocka_unit_test_setup(library__none_means_none, fresh),
        cmocka_unit_test_setup(library__another_library_is_too_old, fresh),
        cmocka_unit_test_setup(driver__without_a_gpu_says_so, fresh),
        cmocka_unit_test_setup(driver__failure_names_the_remedy, fresh),
        cmocka_unit_test_setup(error__has_the_drivers_words, fresh),
        cmocka_unit_test_setup(context__is_the_primary_one_and_is_left_again, fresh),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
