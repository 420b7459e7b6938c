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
#include "tests/fake_cuda/kernels_on_host.h"

#define BYTES 4096

/* The fake driver has the kernels, whatever is loaded; a build under a sanitizer has no image. */
static const struct br_gpu_image image = {"image", NULL, "sm_none"};

static const struct br_cuda *cuda;
static struct CUctx_st *context;
static struct br_reducer *reducer;
static struct CUstream_st *stream;
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
    assert_int_equal(br_cuda_enter(cuda, context), 0);
    assert_int_equal(cuda->stream_create(&stream, BR_CUDA_STREAM_NON_BLOCKING, 0), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fake_cuda()->fail[0] = 0;
    br_reducer_destroy(reducer);
    cuda->stream_destroy(stream);
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

static int submit(enum braid_reduction reduction, int n_src, size_t bytes, int divisor)
{
    struct br_gpu_reduction reduce = {
        .dst = arrays[3], .bytes = bytes, .n_src = n_src, .divisor = divisor};

    for (int s = 0; s < 3; s++)
        reduce.src[s] = arrays[s];
    return br_reducer_submit(reducer, stream, BRAID_FLOAT32, reduction, &reduce);
}

/* Submits, sees that nothing has happened yet, waits, and compares arrays[3] with k * factor. */
static void expect(enum braid_reduction reduction, int n_src, int divisor, float factor)
{
    fill();
    fake_cuda()->late = 2;
    assert_int_equal(submit(reduction, n_src, BYTES - 4, divisor), 0);
    assert_true(bytes_of(3)[5] == 20);
    assert_int_equal(cuda->stream_synchronize(stream), BR_CUDA_SUCCESS);
    for (int k = 0; k < BYTES / 4 - 1; k++)
        assert_true(bytes_of(3)[k] == (float)k * factor);
    assert_true(bytes_of(3)[BYTES / 4 - 1] == (float)(BYTES / 4 - 1) * 4); /* behind the end */
}

static void br_reducer_submit__sums_in_one_launch(void **state)
{
    uint64_t before = fake_cuda_counters().launches;

    (void)state;
    expect(BRAID_SUM, 3, 0, 1 + 2 + 3);
    assert_int_equal(fake_cuda_counters().launches - before, 1);
}

static void br_reducer_submit__average_divides_when_asked(void **state)
{
    (void)state;
    expect(BRAID_AVG, 3, 0, 6);
    expect(BRAID_AVG, 3, 3, 2);
    expect(BRAID_AVG, 1, 1, 1);
}

/* Without a kernel: the bits of a NaN stay as they are. */
static void br_reducer_submit__one_source_is_copied(void **state)
{
    (void)state;
    expect(BRAID_SUM, 1, 0, 1);
    assert_int_equal(fake_cuda_counters().launches, 0);
    assert_int_equal(fake_cuda_counters().on_device, BYTES - 4);
}

static void br_reducer_submit__of_nothing(void **state)
{
    (void)state;
    assert_int_equal(submit(BRAID_SUM, 2, 0, 0), 0);
    assert_int_equal(fake_cuda_counters().launches, 0);
}

static void br_reducer_submit__refuses(void **state)
{
    (void)state;
    assert_int_equal(submit((enum braid_reduction)9, 2, BYTES, 0), -EINVAL);
    assert_int_equal(submit(BRAID_SUM, 0, BYTES, 0), -EINVAL);
    assert_int_equal(submit(BRAID_SUM, BR_GPU_SOURCES + 1, BYTES, 0), -EINVAL);
    assert_non_null(strstr(br_error_message(), "256"));
    assert_int_equal(submit(BRAID_AVG, 2, BYTES, -1), -EINVAL);
    assert_int_equal(submit(BRAID_AVG, 2, BYTES, BR_GPU_DIVISOR + 1), -EINVAL);
}

static void fail_from_now(const char *symbol, br_cuda_result result)
{
    strcpy(fake_cuda()->fail, symbol);
    fake_cuda()->fail_result = result;
}

static void br_reducer_submit__says_what_failed(void **state)
{
    (void)state;
    fail_from_now("cuLaunchKernel", BR_CUDA_LAUNCH_FAILED);
    assert_int_equal(submit(BRAID_SUM, 2, BYTES, 0), -EIO);
    assert_non_null(strstr(br_error_message(), "braid_reduce_float32_sum of 4096 bytes"));
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

/* A fat binary begins with a magic number, a version, the size of this head and that of all behind
 * it. */
static void br_gpu_image__is_a_whole_fat_binary(void **state)
{
    uint32_t magic;
    uint16_t head;
    uint64_t rest;

    (void)state;
    if (!br_gpu_image.bytes) {
        assert_non_null(strstr(br_gpu_image.architectures, "nvcc")); /* how to get it */
        skip();
    }
    memcpy(&magic, br_gpu_image.bytes, sizeof magic);
    memcpy(&head, br_gpu_image.bytes + 6, sizeof head);
    memcpy(&rest, br_gpu_image.bytes + 8, sizeof rest);
    assert_int_equal(magic, 0xba55ed50);
    assert_int_equal(head + rest, br_gpu_image.end - br_gpu_image.bytes);
    assert_non_null(strstr(br_gpu_image.architectures, "PTX"));
}

/* The wider floats and the integers with the arithmetic reductions, once. */
static void br_gpu_kernels__name_all(void **state)
{
    int found[BRAID_TYPES][BRAID_REDUCTIONS] = {{0}};

    (void)state;
    for (int i = 0; i < BR_HOST_KERNELS; i++) {
        found[br_host_kernels[i].type][br_host_kernels[i].reduction]++;
        assert_ptr_equal(br_host_kernel_find(br_host_kernels[i].name), br_host_kernels[i].run);
    }
    for (int t = 0; t < BRAID_TYPES; t++)
        for (int o = 0; o < BRAID_REDUCTIONS; o++) {
            int expected = t < BRAID_BOOL && o <= BRAID_AVG;

            assert_int_equal(found[t][o], expected);
            assert_int_equal(br_gpu_has_kernel((enum braid_type)t, (enum braid_reduction)o),
                             expected);
        }
    assert_false(br_gpu_has_kernel(BRAID_FLOAT32, (enum braid_reduction)BRAID_REDUCTIONS));
    assert_null(br_host_kernel_find("braid_reduce_float8_sum"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(br_reducer_submit__sums_in_one_launch),
        TEST(br_reducer_submit__average_divides_when_asked),
        TEST(br_reducer_submit__one_source_is_copied),
        TEST(br_reducer_submit__of_nothing),
        TEST(br_reducer_submit__refuses),
        TEST(br_reducer_submit__says_what_failed),
        TEST(br_reducer_create__without_kernels),
        TEST(br_reducer_create__unwinds),
        cmocka_unit_test(br_gpu_image__is_a_whole_fat_binary),
        cmocka_unit_test(br_gpu_kernels__name_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
