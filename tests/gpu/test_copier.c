/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/copier.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/error.h"
#include "gpu/driver.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/fresh.h"
#include "tests/says.h"

#define EVENTS_MADE 64 /* by br_copier_open(), of a GPU */

static const struct br_cuda *cuda;
static struct br_copier *copier;
static br_cuda_pointer memory;
static unsigned stays; /* what a lost GPU keeps */

static int enter(void **state)
{
    (void)state;
    stays = 0;
    cuda = fake_fresh_gpu();
    return br_copier_create(&copier) || cuda->memory_alloc(&memory, 100);
}

static int leave(void **state)
{
    (void)state;
    br_copier_destroy(copier);
    cuda->memory_free(memory);
    fake_leave_gpu(stays);
    return 0;
}

static void *device(void)
{
    return (void *)(uintptr_t)memory;
}

static void open__once(void **state)
{
    (void)state;
    assert_int_equal(br_copier_open(copier, 1), 1);
    assert_int_equal(br_copier_open(copier, 1), 0);
    assert_int_equal(br_copier_open(copier, 2), -ENODEV);
    assert_int_equal(br_copier_open(copier, 65), -ENODEV);
}

/* Whatever fails, nothing is left, the message names GPU and call, and another try may succeed. */
static void open__fails_cleanly(void **state)
{
    static const char *const symbols[] = {"cuCtxPushCurrent_v2",
                                          "cuCtxGetStreamPriorityRange",
                                          "cuStreamCreateWithPriority",
                                          "cuEventCreate",
                                          "cuMemAlloc_v2",
                                          "cuMemHostAlloc",
                                          "cuMemcpyHtoDAsync_v2",
                                          "cuMemcpyDtoHAsync_v2",
                                          "cuStreamSynchronize"};
    unsigned left = fake_cuda_left();

    (void)state;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        strcpy(fake_cuda()->fail, symbols[i]);
        fake_cuda()->fail_result = BR_CUDA_OUT_OF_MEMORY;
        fake_cuda()->fail_after = strcmp(symbols[i], "cuEventCreate") == 0 ? 3 : 0;
        assert_int_equal(br_copier_open(copier, 1), -ENOMEM);
        assert_non_null(strstr(br_error_message(), "GPU 0: "));
        assert_non_null(strstr(br_error_message(), "CUDA_ERROR_OUT_OF_MEMORY"));
        fake_cuda()->fail[0] = 0;
        assert_int_equal(fake_cuda_left(), left);
    }
    assert_int_equal(br_copier_open(copier, 1), 1);
}

static void copy__there_and_back(void **state)
{
    struct br_copy there = {0}, back = {0};
    char in[100] = "braid", out[100] = "";
    int n = 0;

    (void)state;
    assert_int_equal(br_copier_open(copier, 1), 1);
    fake_cuda()->late = 2;
    assert_int_equal(br_copier_done(copier, &there), 1);
    assert_int_equal(br_copier_copy(copier, 1, BR_COPY_TO_GPU, device(), in, 100), 0);
    assert_int_equal(br_copier_mark(copier, 1, BR_COPY_TO_GPU, &there), 0);
    while (br_copier_done(copier, &there) == 0)
        n++;
    assert_int_equal(n, 2);
    assert_int_equal(br_copier_copy(copier, 1, BR_COPY_TO_HOST, out, device(), 100), 0);
    assert_int_equal(br_copier_mark(copier, 1, BR_COPY_TO_HOST, &back), 0);
    assert_string_equal(out, "");
    while (br_copier_done(copier, &back) == 0)
        ;
    assert_string_equal(out, "braid");
    assert_int_equal(br_copier_counters(copier).to_host_bytes, 100);
    assert_int_equal(br_copier_counters(copier).to_gpu_bytes, 100);
}

/* Neither way, so it counts as none; the message names what it was. */
static void move__within_the_memory(void **state)
{
    struct br_copy moved = {0};
    char *view = fake_cuda_bytes(memory);

    (void)state;
    assert_int_equal(br_copier_open(copier, 1), 1);
    strcpy(view, "braid");
    assert_int_equal(br_copier_move(copier, 1, (char *)device() + 50, device(), 6), 0);
    assert_int_equal(br_copier_mark(copier, 1, BR_COPY_TO_GPU, &moved), 0);
    while (br_copier_done(copier, &moved) == 0)
        ;
    assert_string_equal(view + 50, "braid");
    assert_int_equal(
        br_copier_counters(copier).to_gpu_bytes + br_copier_counters(copier).to_host_bytes, 0);
    strcpy(fake_cuda()->fail, "cuMemcpyAsync");
    fake_cuda()->fail_result = BR_CUDA_LAUNCH_FAILED;
    assert_int_equal(br_copier_move(copier, 1, device(), device(), 6), -EIO);
    assert_says(br_error_message(), "GPU 0|6 bytes|within");
}

static void copy__now(void **state)
{
    char in[100] = "now", out[100];

    (void)state;
    assert_int_equal(br_copier_open(copier, 1), 1);
    assert_int_equal(br_copier_copy_now(copier, 1, BR_COPY_TO_GPU, device(), in, 100), 0);
    assert_int_equal(br_copier_copy_now(copier, 1, BR_COPY_TO_HOST, out, device(), 100), 0);
    assert_string_equal(out, "now");
}

/* The program captures a graph in the default mode, in whichever thread: what we call is allowed
 * there and leaves the mode alone. */
static void copy__while_the_program_captures(void **state)
{
    static char host[8192];
    struct br_copy copies[200] = {0}; /* more than events are kept: some are made and destroyed */
    struct CUstream_st *stream;
    struct CUctx_st *context;
    unsigned int mode = 0;
    char in[100] = "graph", out[100] = "";

    (void)state;
    br_cuda_leave(cuda); /* this thread is the program's, in its own mode */
    assert_int_equal(br_cuda_context(0, &context), 0);
    assert_int_equal(cuda->context_push(context), 0);
    assert_int_equal(cuda->stream_create(&stream, BR_CUDA_STREAM_NON_BLOCKING, 0), 0);
    fake_cuda_capture(stream, BR_CUDA_CAPTURE_ACTIVE);
    assert_int_equal(cuda->host_register(host, sizeof host, 0), BR_CUDA_CAPTURE_UNSUPPORTED);
    assert_int_equal(br_copier_open(copier, 1), 1);
    assert_true(br_copier_pin(copier, 1, host, sizeof host));
    assert_int_equal(br_copier_copy_now(copier, 1, BR_COPY_TO_GPU, device(), in, 100), 0);
    assert_int_equal(br_copier_copy(copier, 1, BR_COPY_TO_HOST, out, device(), 100), 0);
    for (int i = 0; i < 200; i++)
        assert_int_equal(br_copier_mark(copier, 1, BR_COPY_TO_HOST, &copies[i]), 0);
    for (int i = 0; i < 200; i++)
        assert_int_equal(br_copier_done(copier, &copies[i]), 1);
    assert_string_equal(out, "graph");
    br_copier_unpin(copier, 1, host);
    br_copier_destroy(copier);
    assert_int_equal(cuda->capture_mode(&mode), 0);
    assert_int_equal(mode, 0);
    fake_cuda_capture(stream, BR_CUDA_CAPTURE_NONE);
    assert_int_equal(cuda->stream_destroy(stream), 0);
    assert_int_equal(cuda->context_pop(&context), 0);
    assert_int_equal(br_copier_create(&copier), 0); /* for leave() */
    assert_int_equal(br_cuda_enter(cuda, context), 0);
}

/* More marks at once than events were made. */
static void mark__as_many_as_wanted(void **state)
{
    static struct br_copy copies[300];

    (void)state;
    assert_int_equal(br_copier_open(copier, 1), 1);
    for (int i = 0; i < 300; i++)
        assert_int_equal(
            br_copier_mark(copier, 1, i % 2 ? BR_COPY_TO_GPU : BR_COPY_TO_HOST, &copies[i]), 0);
    for (int i = 0; i < 300; i++)
        assert_int_equal(br_copier_done(copier, &copies[i]), 1);
}

/* A copy without a mark would go on in memory that its operation has given back: where there is no
 * event for the mark, none is asked for. */
static void copy__needs_a_mark(void **state)
{
    static struct br_copy copies[EVENTS_MADE];
    uint64_t before;
    char out[100];

    (void)state;
    assert_int_equal(br_copier_open(copier, 1), 1);
    for (int i = 0; i < EVENTS_MADE; i++)
        assert_int_equal(br_copier_mark(copier, 1, BR_COPY_TO_HOST, &copies[i]), 0);
    before = fake_cuda_counters().to_host;
    strcpy(fake_cuda()->fail, "cuEventCreate");
    fake_cuda()->fail_result = BR_CUDA_OUT_OF_MEMORY;
    assert_int_equal(br_copier_copy(copier, 1, BR_COPY_TO_HOST, out, device(), 100), -ENOMEM);
    fake_cuda()->fail[0] = 0;
    for (int i = 0; i < EVENTS_MADE; i++)
        assert_int_equal(br_copier_done(copier, &copies[i]), 1);
    assert_int_equal(fake_cuda_counters().to_host, before);
}

static void done__says_what_failed(void **state)
{
    struct br_copy copy;

    (void)state;
    assert_int_equal(br_copier_open(copier, 1), 1);
    assert_int_equal(br_copier_mark(copier, 1, BR_COPY_TO_HOST, &copy), 0);
    strcpy(fake_cuda()->fail, "cuEventQuery");
    fake_cuda()->fail_result = BR_CUDA_ILLEGAL_ADDRESS;
    assert_int_equal(br_copier_done(copier, &copy), -EIO);
    assert_non_null(strstr(br_error_message(), "CUDA_ERROR_ILLEGAL_ADDRESS"));
    assert_null(copy.event);
}

/* From then on nothing is called that would wait for it. */
static void forget__gives_up_the_gpu(void **state)
{
    static char host[8192];
    struct br_copy copy = {0};

    (void)state;
    assert_int_equal(br_copier_open(copier, 1), 1);
    assert_true(br_copier_pin(copier, 1, host, sizeof host));
    assert_int_equal(br_copier_copy(copier, 1, BR_COPY_TO_HOST, host, device(), 100), 0);
    assert_int_equal(br_copier_mark(copier, 1, BR_COPY_TO_HOST, &copy), 0);
    br_copier_forget(copier, &copy);
    assert_null(copy.event);
    assert_int_equal(br_copier_copy(copier, 1, BR_COPY_TO_HOST, host, device(), 100), -EIO);
    assert_non_null(strstr(br_error_message(), "GPU 0 is lost"));
    strcpy(fake_cuda()->fail, "cuStreamSynchronize");
    fake_cuda()->fail_after = 10; /* counts its calls down */
    assert_true(br_copier_has_lost(copier));
    assert_false(br_copier_unpin(copier, 1, host));
    br_copier_destroy(copier);
    stays = 2; /* the trial's memory, on both sides */
    assert_int_equal(fake_cuda()->fail_after, 10);
    fake_cuda()->fail[0] = 0;
    assert_int_equal(cuda->host_unregister(host), 0);
    assert_int_equal(br_copier_create(&copier), 0); /* for leave() */
}

static void copy_within__waits_and_gives_up(void **state)
{
    static char host[8192] = "braid";

    (void)state;
    assert_int_equal(br_copier_open(copier, 1), 1);
    fake_cuda()->late = 3;
    assert_int_equal(
        br_copier_copy_within(copier, 1, BR_COPY_TO_GPU, device(), host, 6, UINT64_MAX), 0);
    assert_string_equal(fake_cuda_bytes(memory), "braid");
    assert_int_equal(
        br_copier_copy_within(copier, 1, BR_COPY_TO_HOST, host + 10, device(), 6, UINT64_MAX), 0);
    assert_string_equal(host + 10, "braid");
    assert_int_equal(br_copier_copy_within(copier, 1, BR_COPY_TO_GPU, device(), host, 0, 0), 0);
    assert_int_equal(br_copier_counters(copier).to_gpu_bytes, 6);
    strcpy(fake_cuda()->fail, "cuMemcpyAsync");
    fake_cuda()->fail_result = BR_CUDA_LAUNCH_FAILED;
    assert_int_equal(
        br_copier_copy_within(copier, 1, BR_COPY_TO_GPU, device(), host, 6, UINT64_MAX), -EIO);
    fake_cuda()->fail[0] = 0;
    assert_false(br_copier_has_lost(copier));
    fake_cuda()->late = UINT32_MAX;
    assert_int_equal(br_copier_copy_within(copier, 1, BR_COPY_TO_GPU, device(), host, 6, 1000000),
                     -ETIMEDOUT);
    assert_says(br_error_message(), "GPU 0|6 bytes");
    assert_true(br_copier_is_lost(copier, 1));
    stays = 2; /* the trial's memory, on both sides */
}

/* A GPU is opened while an operation stands in a stream of it: nothing is freed, as that would
 * wait. */
static void open__beside_work_that_waits(void **state)
{
    static _Atomic uint32_t gate;
    struct CUstream_st *stream;

    (void)state;
    gate = 0;
    assert_int_equal(cuda->stream_create(&stream, BR_CUDA_STREAM_NON_BLOCKING, 0), 0);
    cuda->stream_wait_32(stream, (uintptr_t)&gate, 1, BR_CUDA_WAIT_GEQ);
    assert_int_equal(br_copier_open(copier, 1), 1);
    gate = 1;
    assert_int_equal(cuda->stream_destroy(stream), 0);
}

/* The same of all that is to be closed, once somebody knows that a kernel hangs. */
static void lose__waits_for_nothing(void **state)
{
    static _Atomic uint32_t gate;
    static char host[8192];
    struct CUstream_st *stream;

    (void)state;
    gate = 0;
    assert_int_equal(br_copier_open(copier, 1), 1);
    assert_true(br_copier_pin(copier, 1, host, sizeof host));
    assert_false(br_copier_has_lost(copier));
    assert_int_equal(cuda->stream_create(&stream, BR_CUDA_STREAM_NON_BLOCKING, 0), 0);
    cuda->stream_wait_32(stream, (uintptr_t)&gate, 1, BR_CUDA_WAIT_GEQ);
    br_copier_set_all_lost(copier);
    assert_true(br_copier_has_lost(copier));
    assert_false(br_copier_unpin(copier, 1, host));
    br_copier_destroy(copier);
    stays = 2;
    gate = 1;
    assert_int_equal(cuda->stream_destroy(stream), 0);
    assert_int_equal(cuda->host_unregister(host), 0);
    assert_int_equal(br_copier_create(&copier), 0); /* for leave() */
}

static void pin__or_not(void **state)
{
    static char host[8192];

    (void)state;
    assert_int_equal(br_copier_open(copier, 1), 1);
    assert_true(br_copier_pin(copier, 1, host, sizeof host));
    assert_false(br_copier_pin(copier, 1, host, sizeof host));
    assert_true(br_copier_unpin(copier, 1, host));
    assert_true(br_copier_pin(copier, 1, host, sizeof host));
    assert_true(br_copier_unpin(copier, 1, host));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, enter, leave)
    const struct CMUnitTest tests[] = {
        CASE(open__once),
        CASE(open__fails_cleanly),
        CASE(copy__there_and_back),
        CASE(move__within_the_memory),
        CASE(copy__now),
        CASE(mark__as_many_as_wanted),
        CASE(copy__needs_a_mark),
        CASE(done__says_what_failed),
        CASE(pin__or_not),
        CASE(copy__while_the_program_captures),
        CASE(forget__gives_up_the_gpu),
        CASE(copy_within__waits_and_gives_up),
        CASE(open__beside_work_that_waits),
        CASE(lose__waits_for_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
