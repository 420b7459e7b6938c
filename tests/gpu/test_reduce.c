/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/reduce.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/error.h"
#include "gpu/driver.h"
#include "gpu/kernels.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/fresh.h"

#define BYTES 4096

/* The fake driver has the kernels, whatever is loaded; a build under a sanitizer has no image. */
static const struct br_gpu_image image = {"image", NULL, "sm_none"};

static const struct br_cuda *cuda;
static struct CUctx_st *context;
static struct br_reducer *reducer;
static void *arrays[4]; /* in the GPU's memory */

static int set_up(void **state)
{
    (void)state;
    cuda = fake_fresh_gpu();
    assert_int_equal(br_cuda_context(0, &context), 0);
    for (int i = 0; i < 4; i++) {
        br_cuda_pointer at;

        assert_int_equal(cuda->memory_alloc(&at, BYTES), BR_CUDA_SUCCESS);
        arrays[i] = (void *)(uintptr_t)at;
    }
    br_cuda_leave(cuda);
    assert_int_equal(br_reducer_create(0, &image, &reducer), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fake_cuda()->fail[0] = 0;
    br_reducer_destroy(reducer);
    br_cuda_enter(cuda, context);
    for (int i = 0; i < 4; i++)
        cuda->memory_free((uintptr_t)arrays[i]);
    fake_leave_gpu(0);
    return 0;
}

static float *bytes_of(int i)
{
    return fake_cuda_bytes((uintptr_t)arrays[i]);
}

static void fill(void)
{
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < BYTES / 4; k++)
            bytes_of(i)[k] = (float)(k * (i + 1));
}

static int ask(enum braid_reduction reduction, int n_src, size_t bytes, int divisor,
               uint64_t *ticket)
{
    return br_reducer_reduce(reducer, BRAID_FLOAT32, reduction, arrays[3],
                             (const void *const *)arrays, n_src, bytes, divisor, ticket);
}

/* Asks, sees that nothing has happened yet, waits, and compares arrays[3] with k * factor. */
static void expect(enum braid_reduction reduction, int n_src, int divisor, float factor)
{
    uint64_t ticket;

    fill();
    fake_cuda()->late = 2;
    assert_int_equal(ask(reduction, n_src, BYTES - 4, divisor, &ticket), 0);
    assert_true(bytes_of(3)[5] == 20);
    assert_int_equal(br_reducer_done(reducer, ticket), 0);
    while (!br_reducer_done(reducer, ticket))
        continue;
    for (int k = 0; k < BYTES / 4 - 1; k++)
        assert_true(bytes_of(3)[k] == (float)k * factor);
    assert_true(bytes_of(3)[BYTES / 4 - 1] == (float)(BYTES / 4 - 1) * 4); /* behind the end */
}

static void br_reducer_reduce__sums_in_one_launch(void **state)
{
    uint64_t before = fake_cuda_counters().launches;

    (void)state;
    expect(BRAID_SUM, 3, 0, 1 + 2 + 3);
    assert_int_equal(fake_cuda_counters().launches - before, 1);
}

static void br_reducer_reduce__average_divides_when_asked(void **state)
{
    (void)state;
    expect(BRAID_AVG, 3, 0, 6);
    expect(BRAID_AVG, 3, 3, 2);
    expect(BRAID_AVG, 1, 1, 1);
}

/* Without a kernel: the bits of a NaN stay as they are. */
static void br_reducer_reduce__one_source_is_copied(void **state)
{
    (void)state;
    expect(BRAID_SUM, 1, 0, 1);
    assert_int_equal(fake_cuda_counters().launches, 0);
    assert_int_equal(fake_cuda_counters().on_device, BYTES - 4);
}

static void br_reducer_reduce__of_nothing(void **state)
{
    uint64_t ticket;

    (void)state;
    assert_int_equal(ask(BRAID_SUM, 2, 0, 0, &ticket), 0);
    assert_int_equal(br_reducer_done(reducer, ticket), 1);
    assert_int_equal(fake_cuda_counters().launches, 0);
}

static void br_reducer_reduce__tickets_run_out_and_come_back(void **state)
{
    uint64_t ticket, first = 0;

    (void)state;
    fill();
    for (int i = 0; i < BR_REDUCER_TICKETS; i++) {
        assert_int_equal(ask(BRAID_MAX, 2, BYTES, 0, &ticket), 0);
        if (!i)
            first = ticket;
    }
    assert_int_equal(ask(BRAID_MAX, 2, BYTES, 0, &ticket), -EAGAIN);
    assert_int_equal(br_reducer_done(reducer, first), 1);
    assert_int_equal(ask(BRAID_MAX, 2, BYTES, 0, &ticket), 0);
    assert_int_equal(br_reducer_done(reducer, ticket), 1);
}

static void br_reducer_reduce__refuses(void **state)
{
    uint64_t ticket;

    (void)state;
    assert_int_equal(ask((enum braid_reduction)9, 2, BYTES, 0, &ticket), -EINVAL);
    assert_int_equal(ask(BRAID_SUM, 0, BYTES, 0, &ticket), -EINVAL);
    assert_int_equal(ask(BRAID_SUM, BR_GPU_SOURCES + 1, BYTES, 0, &ticket), -EINVAL);
    assert_non_null(strstr(br_error_message(), "256"));
    assert_int_equal(ask(BRAID_AVG, 2, BYTES, -1, &ticket), -EINVAL);
}

static void fail_from_now(const char *symbol, br_cuda_result result)
{
    strcpy(fake_cuda()->fail, symbol);
    fake_cuda()->fail_result = result;
}

static void br_reducer_reduce__says_what_failed(void **state)
{
    uint64_t ticket;

    (void)state;
    fail_from_now("cuLaunchKernel", BR_CUDA_LAUNCH_FAILED);
    assert_int_equal(ask(BRAID_SUM, 2, BYTES, 0, &ticket), -EIO);
    assert_non_null(strstr(br_error_message(), "braid_reduce_float32_sum of 4096 bytes"));
    fake_cuda()->fail[0] = 0;
    assert_int_equal(ask(BRAID_SUM, 2, BYTES, 0, &ticket), 0);
    fail_from_now("cuEventQuery", BR_CUDA_ILLEGAL_ADDRESS);
    assert_int_equal(br_reducer_done(reducer, ticket), -EIO);
}

static void br_reducer_reduce__makes_its_stream(void **state)
{
    unsigned left = fake_cuda_left();
    uint64_t ticket;

    (void)state;
    fail_from_now("cuStreamCreateWithPriority", BR_CUDA_UNKNOWN);
    assert_int_equal(ask(BRAID_SUM, 2, BYTES, 0, &ticket), -EIO);
    fail_from_now("cuEventCreate", BR_CUDA_UNKNOWN);
    fake_cuda()->fail_after = 3;
    assert_int_equal(ask(BRAID_SUM, 2, BYTES, 0, &ticket), -EIO);
    assert_int_equal(fake_cuda_left(), left + 1 + 3);
    fake_cuda()->fail[0] = 0;
    expect(BRAID_SUM, 2, 0, 1 + 2);
    assert_int_equal(fake_cuda_left(), left + 1 + BR_REDUCER_TICKETS);
}

static void br_reducer_create__without_kernels(void **state)
{
    static const struct br_gpu_image none = {.architectures = "install nvcc"};
    struct br_reducer *other;

    (void)state;
    assert_int_equal(br_reducer_create(0, &none, &other), -EOPNOTSUPP);
    assert_non_null(strstr(br_error_message(), "install nvcc"));
    fail_from_now("cuModuleLoadData", BR_CUDA_NO_BINARY_FOR_GPU);
    assert_int_equal(br_reducer_create(0, &image, &other), -EOPNOTSUPP);
    assert_non_null(strstr(br_error_message(), "sm_none"));
}

/* Whatever fails, nothing is left over. */
static void br_reducer_create__unwinds(void **state)
{
    static const char *const symbols[] = {"cuDeviceGetAttribute", "cuModuleLoadData",
                                          "cuModuleGetFunction",
                                          "cuOccupancyMaxActiveBlocksPerMultiprocessor"};
    unsigned left = fake_cuda_left();
    struct br_reducer *other;

    (void)state;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        fail_from_now(symbols[i], BR_CUDA_UNKNOWN);
        fake_cuda()->fail_after = i == 2 ? 3 : 0;
        assert_int_equal(br_reducer_create(0, &image, &other), -EIO);
        assert_int_equal(fake_cuda_left(), left);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(br_reducer_reduce__sums_in_one_launch),
        TEST(br_reducer_reduce__average_divides_when_asked),
        TEST(br_reducer_reduce__one_source_is_copied),
        TEST(br_reducer_reduce__of_nothing),
        TEST(br_reducer_reduce__tickets_run_out_and_come_back),
        TEST(br_reducer_reduce__refuses),
        TEST(br_reducer_reduce__says_what_failed),
        TEST(br_reducer_reduce__makes_its_stream),
        TEST(br_reducer_create__without_kernels),
        TEST(br_reducer_create__unwinds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
