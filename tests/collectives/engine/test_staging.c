/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations on memory of a (fake) GPU, over the simulator. */
#include "collectives/engine/staging.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/downgrade.h"
#include "base/error.h"
#include "tests/collectives/gpu_call.h"
#include "collectives/schedule/type.h"
#include "gpu/driver.h"
#include "protocol/message.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/says.h"

/* ---- collectives ----------------------------------------------------------------------------- */

static void every_collective(int n, size_t count, uint32_t chunk_bytes)
{
    struct job job;

    create(&job, n, chunk_bytes, NULL);
    for (int c = 0; c < BR_COLLECTIVES; c++)
        for (int turn = 0; turn < 4; turn++)
            run_on_gpu(&job,
                       (struct call){.collective = (enum br_collective)c,
                                     .count = c == BR_BARRIER ? 0 : count,
                                     .type = turn % 2 ? BRAID_INT32 : BRAID_FLOAT64,
                                     .in_place = turn == 1,
                                     .root = br_collective_rooted((enum br_collective)c)
                                                 ? (turn + 1) % n
                                                 : 0},
                       turn == 2   ? SEND
                       : turn == 3 ? RECV
                                   : SEND | RECV);
    job_destroy(&job);
}

static void collective__any_memory_on_a_gpu(void **state)
{
    (void)state;
    for (int n = 1; n <= 5; n += 2) {
        every_collective(n, 0, 0);
        every_collective(n, 7, 0);
        every_collective(n, 1001, 0);
    }
}

static void collective__many_fragments(void **state)
{
    struct fake_cuda_counters c;

    (void)state;
    fake_cuda()->late = 3;
    every_collective(3, 5001, 512);
    c = fake_cuda_counters();
    assert_int_equal(br_copier_counters(copier).to_host_bytes, c.to_host - 4096); /* the trial */
    assert_int_equal(br_copier_counters(copier).to_gpu_bytes, c.to_device - 4096);
}

/* Whatever the algorithm, each byte crosses once in each direction. */
static void collective__crosses_once(void **state)
{
    static const char *const algorithms[] = {"ring", "halving", "direct", "flat"};
    struct job job;

    (void)state;
    create(&job, 4, 4096, NULL);
    for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms; i++) {
        struct br_copier_counters before = br_copier_counters(copier), after;

        run_on_gpu(&job,
                   (struct call){.collective = BR_ALLREDUCE,
                                 .count = 10000,
                                 .type = BRAID_FLOAT32,
                                 .in_place = true,
                                 .algorithm = algorithms[i]},
                   SEND | RECV);
        after = br_copier_counters(copier);
        assert_int_equal(after.to_host_bytes - before.to_host_bytes, 4 * 40000);
        assert_int_equal(after.to_gpu_bytes - before.to_gpu_bytes, 4 * 40000);
    }
    job_destroy(&job);
}

static void collective__memory_is_kept(void **state)
{
    struct call c = {.collective = BR_ALLREDUCE, .count = 50000, .type = BRAID_FLOAT32};
    uint64_t grown, pinned;
    struct job job;

    (void)state;
    create(&job, 2, 0, NULL);
    run_on_gpu(&job, c, SEND | RECV);
    grown = br_engine_late_allocations(job.ranks[0].engine, br_engine_all(job.ranks[0].engine));
    pinned = fake_cuda_counters().host_allocations;
    for (int i = 0; i < 5; i++)
        run_on_gpu(&job, c, SEND | RECV);
    assert_int_equal(
        br_engine_late_allocations(job.ranks[0].engine, br_engine_all(job.ranks[0].engine)), grown);
    assert_int_equal(fake_cuda_counters().host_allocations, pinned);
    job_destroy(&job);
}

/* Scratch has to grow while a stream of the program's waits, perhaps for this worker: what is
 * pinned is not unpinned. Two runs, so that a third size finds none that is new. */
static void collective__grows_beside_a_stream_that_waits(void **state)
{
    static const size_t counts[] = {5000, 50000, 100000, 200000, 5000};
    static _Atomic uint32_t gate;
    struct CUstream_st *stream;
    struct job job;

    (void)state;
    gate = 0;
    job_create(&job, &(struct job_options){
                         .n = 2,
                         .rails = 1,
                         .network = {.seed = 1},
                         .engine = {.gpu_memory = gpu_memory_of(NULL),
                                    .chunk_bytes = 8 << 20,
                                    .max_fragments = 2},
                     });
    assert_int_equal(cuda->stream_create(&stream, BR_CUDA_STREAM_NON_BLOCKING, 0), 0);
    cuda->stream_wait_32(stream, (uintptr_t)&gate, 1, BR_CUDA_WAIT_GEQ);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        run_on_gpu(
            &job,
            (struct call){.collective = BR_ALLREDUCE, .count = counts[i], .type = BRAID_FLOAT32},
            SEND | RECV);
    gate = 1;
    assert_int_equal(cuda->stream_destroy(stream), 0);
    job_destroy(&job);
}

static void collective__without_pinning(void **state)
{
    struct call c = {.collective = BR_ALLREDUCE, .count = 5000, .type = BRAID_INT64};
    struct job job;
    uint64_t said;

    (void)state;
    strcpy(fake_cuda()->fail, "cuMemHostRegister_v2");
    fake_cuda()->fail_result = BR_CUDA_OUT_OF_MEMORY;
    create(&job, 2, 0, NULL);
    run_on_gpu(&job, c, SEND | RECV);
    said = atomic_load(&br_downgrades.downgrade_gpu_pinning);
    assert_true(said > 0);
    for (int i = 0; i < 3; i++) /* what cannot be pinned is not tried again */
        run_on_gpu(&job, c, SEND | RECV);
    assert_int_equal(atomic_load(&br_downgrades.downgrade_gpu_pinning), said);
    job_destroy(&job);
}

/* A copy fails: the operation does, with the driver's message; nothing is left under way. */
static void failing(const char *symbol, br_cuda_result result, const char *text)
{
    struct call c = {
        .collective = BR_ALLREDUCE, .count = 5000, .type = BRAID_INT64, .in_place = true};
    uint8_t *devices[2];
    struct job job;

    create(&job, 2, 0, NULL);
    call_create(&c, &job);
    for (int r = 0; r < 2; r++) {
        call_prepare(&c, &job, r);
        devices[r] = to_gpu(&c, &job, r, SEND | RECV);
    }
    strcpy(fake_cuda()->fail, symbol);
    fake_cuda()->fail_result = result;
    for (int r = 0; r < 2; r++)
        job_submit(&job, r, &c.ops[r]);
    job_run(&job, 2);
    fake_cuda()->fail[0] = 0;
    for (int r = 0; r < 2; r++) {
        assert_true(c.ops[r].status < 0);
        assert_says(c.ops[r].message, text);
        assert_false(br_staging_busy(job.ranks[r].engine));
        release(devices[r]);
    }
    call_destroy(&c, &job);
    job_destroy(&job);
}

static void collective__fails_with_the_drivers_words(void **state)
{
    (void)state;
    failing("cuMemcpyAsync", BR_CUDA_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS");
    failing("cuEventRecord", BR_CUDA_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED");
    failing("cuEventQuery", BR_CUDA_LAUNCH_FAILED, "copies");
}

/* Copies that never end: the deadline ends the operation, and the patience with the GPU what waits
 * for it. */
static void collective__gpu_that_hangs(void **state)
{
    struct call c = {
        .collective = BR_ALLREDUCE, .count = 5000, .type = BRAID_INT64, .in_place = true};
    uint8_t *devices[2];
    struct job job;

    (void)state;
    create_kept(&job, 2, NULL);
    call_create(&c, &job);
    strcpy(fake_cuda()->fail, "cuEventQuery");
    fake_cuda()->fail_result = BR_CUDA_NOT_READY;
    for (int r = 0; r < 2; r++) {
        call_prepare(&c, &job, r);
        devices[r] = to_gpu(&c, &job, r, SEND | RECV);
        c.ops[r].timeout = 10 * BR_MS;
        job_submit(&job, r, &c.ops[r]);
    }
    job_run(&job, 2);
    fake_cuda()->fail[0] = 0;
    assert_true(says_all(c.ops[0].message, "waits|copies|GPU 0") ||
                says_all(c.ops[1].message, "waits|copies|GPU 0"));
    for (int r = 0; r < 2; r++) {
        assert_true(c.ops[r].status < 0);
        release(devices[r]);
    }
    call_destroy(&c, &job);
    job_destroy(&job);
    stays = 2; /* the trial's memory, on both sides */
    free_kept();
}

/* ---- messages and accesses ------------------------------------------------------------------- */

static void message(size_t bytes, bool from_gpu_memory, bool to_gpu_memory, int peer)
{
    struct br_operation send = {.kind = BR_OPERATION_SEND, .peer = peer, .count = bytes, .tag = 3},
                        recv = {.kind = BR_OPERATION_RECV, .peer = 0, .count = bytes, .tag = 3};
    uint8_t *in = from_gpu_memory ? allocate(bytes + 1) : malloc(bytes + 1),
            *out = to_gpu_memory ? allocate(bytes + 1) : malloc(bytes + 1);
    uint8_t *input = bytes_of(in);
    struct job job;

    create(&job, 2, 0, NULL);
    for (size_t i = 0; i < bytes; i++)
        input[i] = (uint8_t)(i * 31 + i / 251);
    send.send = in;
    send.send_gpu = from_gpu_memory;
    recv.recv = out;
    recv.recv_gpu = to_gpu_memory;
    job_submit(&job, peer, &recv);
    job_submit(&job, 0, &send);
    job_run(&job, 2);
    assert_int_equal(send.status, 0);
    assert_int_equal(recv.status, 0);
    assert_memory_equal(input, bytes_of(out), bytes);
    job_destroy(&job);
    from_gpu_memory ? release(in) : free(in);
    to_gpu_memory ? release(out) : free(out);
}

static void message__of_any_size_between_any_memory(void **state)
{
    static const size_t sizes[] = {0, 1, 1000, 70000, BR_MAX_TRANSFER + (1u << 20) + 5};

    (void)state;
    fake_cuda()->late = 1;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        message(sizes[i], true, true, 1);
        message(sizes[i], true, false, 1);
        message(sizes[i], false, true, 1);
    }
}

static void message__to_oneself(void **state)
{
    (void)state;
    message(5000, true, true, 0);
    message(5000, false, true, 0);
    message(5000, true, false, 0);
    message(0, true, true, 0);
}

static void access_one(struct job *job, bool put, int owner, size_t bytes)
{
    uint8_t *theirs = malloc(bytes), *device = allocate(bytes),
            *from = put ? bytes_of(device) : theirs;
    struct br_operation op = {
        .kind = put ? BR_OPERATION_PUT : BR_OPERATION_GET,
        .count = bytes,
        .key = {.bytes = bytes, .rank = (uint32_t)owner, .id = 1, .check = 77}};

    job->ranks[owner].exposed.region =
        (struct br_region){.base = theirs, .bytes = bytes, .id = 1, .segment_fd = -1};
    for (size_t i = 0; i < bytes; i++)
        from[i] = (uint8_t)(i * 13 + 5);
    if (put) {
        op.send = device;
        op.send_gpu = 1;
    } else {
        op.recv = device;
        op.recv_gpu = 1;
    }
    job_submit(job, 0, &op);
    job_run(job, job->ended + 1);
    if (op.status)
        fail_msg("%s", op.message);
    assert_memory_equal(theirs, bytes_of(device), bytes);
    job->ranks[owner].exposed.region.base = NULL;
    release(device);
    free(theirs);
}

static void access__of_memory_of_a_gpu(void **state)
{
    struct job job;

    (void)state;
    create(&job, 2, 0, NULL);
    for (int owner = 0; owner < 2; owner++)
        for (int put = 0; put < 2; put++) {
            access_one(&job, put, owner, 100);
            access_one(&job, put, owner, BR_MAX_TRANSFER + (1u << 20) + 3);
        }
    job_destroy(&job);
}

static void access__refused(void **state)
{
    struct br_operation op = {.kind = BR_OPERATION_GET,
                              .count = 5000,
                              .recv_gpu = 1,
                              .key = {.bytes = 5000, .rank = 1, .id = 9, .check = 77}};
    struct job job;

    (void)state;
    create(&job, 2, 0, NULL);
    op.recv = allocate(5000);
    job_submit(&job, 0, &op);
    job_run(&job, 1);
    assert_int_equal(op.status, -EACCES);
    release(op.recv);
    job_destroy(&job);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_gpu, close_gpu)
    const struct CMUnitTest tests[] = {
        CASE(collective__any_memory_on_a_gpu),
        CASE(collective__many_fragments),
        CASE(collective__crosses_once),
        CASE(collective__memory_is_kept),
        CASE(collective__grows_beside_a_stream_that_waits),
        CASE(collective__without_pinning),
        CASE(collective__fails_with_the_drivers_words),
        CASE(collective__gpu_that_hangs),
        CASE(message__of_any_size_between_any_memory),
        CASE(message__to_oneself),
        CASE(access__of_memory_of_a_gpu),
        CASE(access__refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
