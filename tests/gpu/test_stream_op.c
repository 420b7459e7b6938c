/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/stream_op.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/error.h"
#include "gpu/driver.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/fresh.h"
#include "tests/says.h"

#define BYTES 1000

static const struct br_cuda *cuda;
static struct br_stream_ops *ops;
static struct CUstream_st *stream;
static br_cuda_pointer memory;
static void *blocks[16];     /* of host memory that are out */
static unsigned left_before; /* what the fake driver had of tests that leave something */

static void *take(void *context, size_t bytes)
{
    size_t i = 0;

    (void)context;
    while (blocks[i])
        i++;
    return blocks[i] = aligned_alloc(4096, bytes);
}

static void give_back(void *context, void *block)
{
    (void)context;
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (blocks[i] == block)
            blocks[i] = NULL;
    free(block);
}

static int count_blocks(void)
{
    int n = 0;

    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        n += blocks[i] != NULL;
    return n;
}

static int enter(void **state)
{
    const struct br_stream_op_memory source = {take, give_back, NULL};

    (void)state;
    cuda = fake_fresh_gpu();
    left_before = fake_cuda_left();
    return br_stream_ops_create(&source, &ops) || cuda->memory_alloc(&memory, BYTES) ||
           cuda->stream_create(&stream, BR_CUDA_STREAM_NON_BLOCKING, 0);
}

/* How much is left pinned. */
static unsigned end(void)
{
    unsigned left;

    fake_cuda()->fail[0] = 0;
    cuda->stream_destroy(stream);
    br_stream_ops_destroy(ops);
    cuda->memory_free(memory);
    left = fake_cuda_left() - left_before;
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        cuda->host_unregister(blocks[i]);
        free(blocks[i]);
        blocks[i] = NULL;
    }
    br_cuda_leave(cuda);
    return left;
}

static int leave(void **state)
{
    (void)state;
    assert_int_equal(end(), 0);
    return 0;
}

static char *device(void)
{
    return fake_cuda_bytes(memory);
}

static struct br_stream_op_plan there_and_back(void)
{
    void *at = (void *)(uintptr_t)memory;

    return (struct br_stream_op_plan){
        .stream = stream, .send = at, .send_bytes = BYTES, .recv = at, .recv_bytes = BYTES};
}

static struct br_stream_op *begin_in(struct CUstream_st *in, br_cuda_pointer at, size_t bytes)
{
    struct br_stream_op_plan plan = {.stream = in,
                                     .send = (void *)(uintptr_t)at,
                                     .send_bytes = bytes,
                                     .recv = (void *)(uintptr_t)at,
                                     .recv_bytes = bytes};
    struct br_stream_op *op;

    assert_int_equal(br_stream_op_begin(ops, &plan, &op), 0);
    return op;
}

static struct br_stream_op *begin(size_t bytes)
{
    return begin_in(stream, memory, bytes);
}

static struct CUstream_st *another_stream(void)
{
    struct CUstream_st *other;

    assert_int_equal(cuda->stream_create(&other, BR_CUDA_STREAM_NON_BLOCKING, 0), BR_CUDA_SUCCESS);
    return other;
}

/* Lets the GPU do what it can. */
static void look(void)
{
    cuda->stream_query(stream);
}

static void begin__in_the_order_of_the_stream(void **state)
{
    struct br_stream_op *op;

    (void)state;
    cuda->set_bytes(memory, 1, BYTES, stream); /* before */
    op = begin(BYTES);
    cuda->copy_async(memory + BYTES / 2, memory, 1, stream); /* behind */
    assert_false(br_stream_op_arrived(op));
    look();
    assert_true(br_stream_op_arrived(op));
    assert_int_equal(((char *)br_stream_op_memory(op))[BYTES - 1], 1);
    assert_false(br_stream_ops_idle(ops));
    memset(br_stream_op_memory(op), 2, BYTES / 2);
    look();
    assert_int_equal(device()[0], 1); /* not before it is told */
    br_stream_op_release(op);
    assert_int_equal(device()[0], 1); /* and not by this call */
    look();
    assert_int_equal(device()[0], 2);
    assert_int_equal(device()[BYTES / 2], 2);
    assert_true(br_stream_ops_idle(ops));
}

static void begin__work_before_that_is_late(void **state)
{
    static _Atomic uint32_t gate;
    struct br_stream_op *op;

    (void)state;
    gate = 0;
    cuda->stream_wait_32(stream, (uintptr_t)&gate, 1, BR_CUDA_WAIT_GEQ);
    op = begin(BYTES);
    look();
    assert_false(br_stream_op_arrived(op));
    gate = 1;
    look();
    assert_true(br_stream_op_arrived(op));
    br_stream_op_release(op);
    look();
}

/* With nothing to copy it is order alone. */
static void begin__without_memory(void **state)
{
    struct br_stream_op_plan plan = {.stream = stream};
    struct br_stream_op *op;

    (void)state;
    assert_int_equal(br_stream_op_begin(ops, &plan, &op), 0);
    look();
    assert_true(br_stream_op_arrived(op));
    assert_null(br_stream_op_memory(op));
    br_stream_op_release(op);
    look();
    assert_true(br_stream_ops_idle(ops));
}

static void begin__keeps_what_it_has(void **state)
{
    uint64_t allocations;

    (void)state;
    for (int turn = 0; turn < 5; turn++) {
        if (turn == 1)
            allocations = fake_cuda_counters().host_allocations;
        for (int i = 0; i < 3; i++)
            br_stream_op_release(begin(BYTES)); /* the GPU has not looked yet: three at once */
        look();
    }
    assert_int_equal(fake_cuda_counters().host_allocations, allocations);
    assert_int_equal(count_blocks(), 3);
}

static void begin__grows(void **state)
{
    struct br_stream_op_plan plan = there_and_back();
    struct br_stream_op *first = begin(BYTES), *second;
    void *before = br_stream_op_memory(first);

    (void)state;
    br_stream_op_release(first);
    look();
    assert_ptr_equal(br_stream_op_memory(first), before);
    plan.send_bytes = plan.recv_bytes = 100000; /* more than there is: the same passage gets more */
    plan.recv = NULL;
    plan.send = NULL;
    assert_int_equal(br_stream_op_begin(ops, &plan, &second), 0);
    assert_ptr_equal(br_stream_op_memory(second), before); /* nothing to copy needs no room */
    br_stream_op_release(second);
    look();
    plan.send = before; /* any memory of 100000 bytes that is not read: the stream is cut off */
    strcpy(fake_cuda()->fail, "cuMemcpyAsync");
    fake_cuda()->fail_result = BR_CUDA_INVALID_VALUE;
    assert_int_equal(br_stream_op_begin(ops, &plan, &second), -EINVAL);
    assert_int_equal(count_blocks(), 2);
    assert_true(br_stream_ops_idle(ops)); /* the stream has none of it */
}

/* Sides of other sizes: the result stands behind the input, and what it leaves as it is was copied
 * there. */
static void begin__input_and_result_apart(void **state)
{
    const struct br_stream_op_plan plan = {.stream = stream,
                                           .send = (void *)(uintptr_t)memory,
                                           .send_bytes = 100,
                                           .recv = (void *)(uintptr_t)(memory + 500),
                                           .recv_bytes = 300,
                                           .recv_at = 128,
                                           .recv_kept = true};
    struct br_stream_op *op;
    char *host;

    (void)state;
    cuda->set_bytes(memory, 1, BYTES, stream);
    cuda->set_bytes(memory + 500, 2, 300, stream);
    assert_int_equal(br_stream_op_begin(ops, &plan, &op), 0);
    while (!br_stream_op_arrived(op))
        look();
    host = br_stream_op_memory(op);
    for (int i = 0; i < 100; i++)
        assert_int_equal(host[i], 1);
    for (int i = 0; i < 300; i++)
        assert_int_equal(host[128 + i], 2);
    memset(host, 3, 128 + 200); /* the last 100 bytes stay */
    br_stream_op_release(op);
    look();
    for (int i = 0; i < BYTES; i++)
        assert_int_equal(device()[i], i < 500 ? 1 : i < 700 ? 3 : i < 800 ? 2 : 1);
}

/* What unpins beside one that is under way waits for it: the fake driver ends the process then. */
static void begin__grows_beside_one_under_way(void **state)
{
    struct CUstream_st *other = another_stream();
    struct br_stream_op *waits = begin(BYTES), *grows = begin_in(other, memory, BYTES);
    const size_t more = 100000;
    br_cuda_pointer large;

    (void)state;
    assert_int_equal(cuda->memory_alloc(&large, more), BR_CUDA_SUCCESS);
    br_stream_op_release(grows);
    look();
    assert_ptr_equal(begin_in(other, large, more), grows);
    memset(br_stream_op_memory(grows), 3, more);
    br_stream_op_release(grows);
    br_stream_op_release(waits);
    cuda->stream_destroy(other);
    cuda->memory_free(large);
}

static void begin__more_than_there_can_be(void **state)
{
    struct br_stream_op_plan plan = there_and_back();
    struct br_stream_op *op;

    (void)state;
    plan.recv_bytes = SIZE_MAX;
    assert_int_equal(br_stream_op_begin(ops, &plan, &op), -ENOMEM);
    assert_says(br_error_message(), "memory");
    assert_int_equal(count_blocks(), 0);
}

/* A kernel hangs before one: all that is pinned stays, the memory of those that are idle, too. */
static void destroy__beside_one_under_way(void **state)
{
    static _Atomic uint32_t gate;
    struct CUstream_st *other = another_stream();
    struct br_stream_op *idle = begin_in(other, memory, BYTES);

    (void)state;
    gate = 0;
    br_stream_op_release(idle);
    look();
    cuda->stream_wait_32(stream, (uintptr_t)&gate, 1, BR_CUDA_WAIT_GEQ);
    assert_ptr_equal(begin(BYTES), idle);
    br_stream_op_release(idle);
    br_stream_op_release(begin_in(other, memory, BYTES));
    look();
    br_stream_ops_destroy(ops);
    ops = NULL;
    gate = 1; /* it goes on after all */
    look();
    cuda->stream_destroy(other);
    assert_int_equal(end(), 3); /* two blocks and the words */
}

/* More than there is room for at first. */
static void begin__many_under_way(void **state)
{
    struct br_stream_op_plan plan = {.stream = stream};
    struct br_stream_op *all[BR_STREAM_OPS_CHUNK + 5];
    int n = (int)(sizeof all / sizeof *all);

    (void)state;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < n; i++) {
            assert_int_equal(br_stream_op_begin(ops, &plan, &all[i]), 0);
            assert_false(br_stream_ops_idle(ops));
        }
        for (int i = 0; i < n; i++)
            br_stream_op_release(all[i]);
        look();
        assert_true(br_stream_ops_idle(ops));
    }
}

static void begin__capture_is_refused(void **state)
{
    struct br_stream_op_plan plan = there_and_back();
    struct br_stream_op *op;

    (void)state;
    fake_cuda_capture(stream, BR_CUDA_CAPTURE_ACTIVE);
    for (int legacy = 0; legacy < 2; legacy++) {
        plan.stream = legacy ? NULL : stream;
        assert_int_equal(br_stream_op_begin(ops, &plan, &op), -EOPNOTSUPP);
        assert_says(br_error_message(), "capture");
    }
    fake_cuda_capture(stream, BR_CUDA_CAPTURE_NONE);
    assert_int_equal(count_blocks(), 0);
}

/* NULL and cudaStreamPerThread mean something in a context only; every other stream brings its
 * own. */
static void begin__default_streams(void **state)
{
    struct br_stream_op_plan plan = there_and_back();
    struct br_stream_op *op;
    struct CUctx_st *context;

    (void)state;
    for (uintptr_t handle = 0; handle < 3; handle++) {
        plan.stream = (void *)handle;
        assert_int_equal(br_stream_op_begin(ops, &plan, &op), 0);
        br_stream_op_release(op);
        cuda->stream_synchronize(NULL);
    }
    assert_int_equal(cuda->context_pop(&context), BR_CUDA_SUCCESS);
    assert_int_equal(br_stream_op_begin(ops, &plan, &op), -EINVAL);
    assert_non_null(strstr(br_error_message(), "cudaSetDevice()"));
    plan.stream = stream;
    assert_int_equal(br_stream_op_begin(ops, &plan, &op), 0);
    br_stream_op_release(op);
    assert_int_equal(cuda->context_push(context), BR_CUDA_SUCCESS);
    look();
}

/* Memory of one GPU, a stream of another. */
static void begin__stream_of_another_gpu(void **state)
{
    struct br_stream_op_plan plan = there_and_back();
    struct br_stream_op *op;
    struct CUstream_st *other;
    struct CUctx_st *context;

    (void)state;
    fake_cuda()->devices = 2;
    assert_int_equal(br_cuda_context(1, &context), 0);
    assert_int_equal(br_cuda_enter(cuda, context), 0);
    assert_int_equal(cuda->stream_create(&other, BR_CUDA_STREAM_NON_BLOCKING, 0), BR_CUDA_SUCCESS);
    br_cuda_leave(cuda);
    plan.stream = other;
    assert_int_equal(br_stream_op_begin(ops, &plan, &op), 0);
    cuda->stream_query(other);
    assert_true(br_stream_op_arrived(op));
    br_stream_op_release(op);
    br_stream_op_release(begin(BYTES)); /* the next one may be of the first */
    assert_int_equal(cuda->stream_destroy(other), BR_CUDA_SUCCESS);
    look();
    assert_true(br_stream_ops_idle(ops));
}

static void begin__without_the_functions(void **state)
{
    struct br_stream_op_plan plan = there_and_back();
    struct br_stream_op *op;
    struct br_cuda *table = (struct br_cuda *)(uintptr_t)cuda;

    (void)state;
    fake_cuda()->no_memory_operations = true;
    assert_int_equal(br_stream_op_begin(ops, &plan, &op), -EOPNOTSUPP);
    assert_non_null(strstr(br_error_message(), "CUDA_ERROR_NOT_SUPPORTED"));
    table->stream_wait_32 = NULL;
    assert_int_equal(br_stream_op_begin(ops, &plan, &op), -EOPNOTSUPP);
    assert_non_null(strstr(br_error_message(), "CUDA 11.7"));
    assert_int_equal(cuda->stream_query(stream), BR_CUDA_SUCCESS); /* it waits for nothing */
    assert_true(br_stream_ops_idle(ops));
}

/* Whatever fails, the stream goes on. */
static void begin__fails(void **state)
{
    static const struct {
        const char *symbol;
        unsigned after;
    } cases[] = {
        {"cuStreamIsCapturing", 0},
        {"cuStreamGetCtx", 0},
        {"cuCtxGetDevice", 0},
        {"cuCtxPushCurrent_v2", 0},
        {"cuCtxPushCurrent_v2", 1},
        {"cuMemHostAlloc", 0},
        {"cuMemHostRegister_v2", 0},
        {"cuCtxPushCurrent_v2", 2},
        {"cuMemHostGetDevicePointer_v2", 0},
        {"cuStreamWaitValue32_v2", 0}, /* the trial */
        {"cuMemcpyAsync", 0},
        {"cuStreamWriteValue32_v2", 0},
        {"cuStreamWaitValue32_v2", 0},
        {"cuMemcpyAsync", 1},
        {"cuStreamWriteValue32_v2", 1},
    };
    struct br_stream_op_plan plan = there_and_back();
    struct br_stream_op *op;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        strcpy(fake_cuda()->fail, cases[i].symbol);
        fake_cuda()->fail_result = BR_CUDA_OUT_OF_MEMORY;
        fake_cuda()->fail_after = cases[i].after;
        assert_int_equal(br_stream_op_begin(ops, &plan, &op), -ENOMEM);
        assert_non_null(strstr(br_error_message(), "CUDA_ERROR_OUT_OF_MEMORY"));
        fake_cuda()->fail[0] = 0;
        look();
        assert_int_equal(cuda->stream_query(stream), BR_CUDA_SUCCESS);
    }
    br_stream_op_release(begin(BYTES));
    look();
    assert_int_equal(count_blocks(), 5); /* four that the stream took half of */
    assert_false(br_stream_ops_idle(ops));
    assert_int_equal(end(), 6); /* all stay pinned, and the words */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(begin__in_the_order_of_the_stream, enter, leave),
        cmocka_unit_test_setup_teardown(begin__work_before_that_is_late, enter, leave),
        cmocka_unit_test_setup_teardown(begin__without_memory, enter, leave),
        cmocka_unit_test_setup_teardown(begin__keeps_what_it_has, enter, leave),
        cmocka_unit_test_setup_teardown(begin__grows, enter, leave),
        cmocka_unit_test_setup_teardown(begin__input_and_result_apart, enter, leave),
        cmocka_unit_test_setup_teardown(begin__grows_beside_one_under_way, enter, leave),
        cmocka_unit_test_setup_teardown(begin__more_than_there_can_be, enter, leave),
        cmocka_unit_test_setup_teardown(destroy__beside_one_under_way, enter, NULL),
        cmocka_unit_test_setup_teardown(begin__many_under_way, enter, leave),
        cmocka_unit_test_setup_teardown(begin__capture_is_refused, enter, leave),
        cmocka_unit_test_setup_teardown(begin__default_streams, enter, leave),
        cmocka_unit_test_setup_teardown(begin__stream_of_another_gpu, enter, leave),
        cmocka_unit_test_setup_teardown(begin__without_the_functions, enter, leave),
        cmocka_unit_test_setup_teardown(begin__fails, enter, NULL),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
