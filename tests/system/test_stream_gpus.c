/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduces in streams that stay on the GPUs (braid_options.all_on_gpu), between real processes
 * on the fake driver: results, order in the stream, which way the bytes took, broken promises,
 * ranks that do not come, and refusals, after which they are staged.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <braid/gpu.h>

#include "gpu/driver.h"
#include "gpu/reduce.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/system/app_gpu.h"
#include "tests/system/ranks.h"

/* The fake driver has the kernels, whatever is loaded; a build under a sanitizer has no image, and
 * takes this one. */
const struct br_gpu_image br_gpu_image = {"image", NULL, "sm_none"};

#define MOST (1100u << 10) /* elements of int32: more than BR_STREAM_PEERS_WHOLE_BYTES */
#define SOME (300u << 10)
#define ONES 0x01010101

static const struct braid_options promise = {.struct_size = sizeof promise, .all_on_gpu = 1};
static const struct br_cuda *cuda;
static struct CUstream_st *stream, *second;
static int32_t *data, *seen; /* in the GPU's memory */
static _Atomic uint32_t gate;

static int open_streams(void)
{
    fake_cuda()->thread = true;
    cuda = own_gpu();
    data = own_gpu_alloc((2 * MOST + 1) * sizeof *data); /* one behind `seen` */
    seen = data + MOST;
    atomic_store(&gate, 0);
    return cuda->stream_create(&stream, BR_CUDA_STREAM_NON_BLOCKING, 0) != BR_CUDA_SUCCESS ||
           cuda->stream_create(&second, BR_CUDA_STREAM_NON_BLOCKING, 0) != BR_CUDA_SUCCESS;
}

static void run(int size, const char *bytes, ranks_main *body)
{
    setenv("BRAID_CUDA_LIBRARY", FAKE_CUDA_LIBRARY, 1);
    setenv("BRAID_GPU_REDUCE", "auto", 1);
    setenv("BRAID_GPU_STREAM_BYTES", bytes, 1);
    ranks_run(&(struct ranks){.size = size, .backend = "shm", .timeout_ms = RANKS_PATIENCE}, body,
              NULL);
}

static void *view(const void *memory)
{
    return own_gpu_view(memory);
}

static void fill(struct CUstream_st *in, const int32_t *at, int value, size_t count)
{
    cuda->set_bytes((uintptr_t)at, (unsigned char)value, count * sizeof *at, in);
}

static int sum(struct braid_comm *comm, size_t count, const struct braid_options *options)
{
    return braid_allreduce_on_stream(comm, data, data, count, BRAID_INT32, BRAID_SUM, options,
                                     stream);
}

static struct braid_stats stats_of(struct braid_comm *comm)
{
    struct braid_stats stats = {0};

    braid_stats(comm, &stats);
    return stats;
}

static int is_staged(struct braid_comm *comm, bool staged)
{
    struct braid_stats stats = stats_of(comm);

    CHECK((stats.gpu_to_host_bytes > 0) == staged && (stats.gpu_peer_bytes > 0) == !staged,
          "%llu bytes were staged, %llu shared", (unsigned long long)stats.gpu_to_host_bytes,
          (unsigned long long)stats.gpu_peer_bytes);
    return 0;
}

/* ---- results --------------------------------------------------------------------------------- */

/* Before: the input is written late. Behind: it sees the sum. Nothing of either has happened when
 * the calls return. Counts from those of one chunk to those that are combined in pieces. */
static int order(struct braid_comm *comm, void *context)
{
    static const size_t counts[] = {SOME,   262144, SOME + 1,  MOST,
                                    262145, 270001, MOST - 77, 300000};
    int size = braid_size(comm), total = size * (size + 1) / 2;
    uint64_t read = 0;

    (void)context;
    RETURNS(0, open_streams());
    RETURNS(0, sum(comm, SOME, &promise)); /* the first call waits */
    cuda->stream_synchronize(stream);
    for (uint32_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        int32_t *out = i % 2 ? seen : data;
        size_t bytes = counts[i] * sizeof *data;
        bool pieces = size > 2 && bytes > 4u << 20;

        memset(view(data), 0x7f, (2 * MOST + 1) * sizeof *data);
        read = stats_of(comm).gpu_peer_bytes;
        cuda->stream_wait_32(stream, (uintptr_t)&gate, i + 1, BR_CUDA_WAIT_GEQ);
        fill(stream, data, braid_rank(comm) + 1, counts[i]);
        RETURNS(0, braid_allreduce_on_stream(comm, data, out, counts[i], BRAID_INT32, BRAID_SUM,
                                             &promise, stream));
        cuda->copy_async((uintptr_t)seen, (uintptr_t)out, bytes, stream);
        CHECK(((int32_t *)view(seen))[0] == 0x7f7f7f7f, "the stream did not wait");
        atomic_fetch_add(&gate, 1);
        cuda->stream_synchronize(stream);
        for (size_t e = 0; e < counts[i]; e++)
            CHECK(((int32_t *)view(seen))[e] == total * ONES, "element %zu of %zu: %x", e,
                  counts[i], (unsigned)((int32_t *)view(seen))[e]);
        CHECK(((int32_t *)view(seen))[counts[i]] == 0x7f7f7f7f, "it wrote beyond its end");
        RETURNS(0, braid_comm_error(comm));
        read = stats_of(comm).gpu_peer_bytes - read;
        CHECK(read == (size_t)(size - 1) * bytes * (pieces ? 2 : (size_t)size) / (size_t)size,
              "%zu elements: %llu bytes", counts[i], (unsigned long long)read);
    }
    return is_staged(comm, false);
}

static void stream_gpus__order(void **state)
{
    (void)state;
    run(2, "1M", order);
    run(3, "1M", order);
    run(4, "64M", order);
}

/* Sums of small numbers, which each type holds exactly, and averages of equal ones. */
static int types(struct braid_comm *comm, void *context)
{
    const size_t count = 300000;
    float *f = (float *)data;

    (void)context;
    RETURNS(0, open_streams());
    f = (float *)data;
    for (size_t i = 0; i < count; i++)
        ((float *)view(f))[i] = (float)(i % 1000) + 3.0f * (float)braid_rank(comm);
    RETURNS(0, braid_allreduce_on_stream(comm, f, f, count, BRAID_FLOAT32, BRAID_AVG, &promise,
                                         stream));
    cuda->stream_synchronize(stream);
    for (size_t i = 0; i < count; i++)
        CHECK(((float *)view(f))[i] == (float)(i % 1000) + 3.0f, "element %zu: %g", i,
              (double)((float *)view(f))[i]);
    for (size_t i = 0; i < count; i++)
        ((int64_t *)view(data))[i] = (int64_t)i * (braid_rank(comm) == 1 ? 2 : 1);
    RETURNS(0, braid_allreduce_on_stream(comm, data, data, count, BRAID_INT64, BRAID_MAX, &promise,
                                         stream));
    cuda->stream_synchronize(stream);
    for (size_t i = 0; i < count; i++)
        CHECK(((int64_t *)view(data))[i] == 2 * (int64_t)i, "element %zu", i);
    RETURNS(0, is_staged(comm, false));
    /* without a kernel, and small: staged */
    RETURNS(0, braid_allreduce_on_stream(comm, data, data, count, BRAID_INT64, BRAID_BOR, &promise,
                                         stream));
    fill(stream, data, 1, 10);
    RETURNS(0, sum(comm, 10, &promise));
    cuda->stream_synchronize(stream);
    CHECK(*(int32_t *)view(data) == 3 * ONES, "%x", *(unsigned *)view(data));
    CHECK(stats_of(comm).gpu_to_host_bytes == count * 8 + 40, "%llu bytes were staged",
          (unsigned long long)stats_of(comm).gpu_to_host_bytes);
    return 0;
}

static void stream_gpus__types(void **state)
{
    (void)state;
    run(3, "1M", types);
}

/* Many before any of them is done, by two communicators in a stream each, and by both streams of
 * one: slots are used again and again. */
static int rows(struct braid_comm *comm, void *context)
{
    struct braid_comm *other;
    uint32_t expected = 1;

    (void)context;
    RETURNS(0, open_streams());
    RETURNS(0, braid_comm_split(comm, 0, 0, &other));
    RETURNS(0, sum(comm, SOME, &promise));
    RETURNS(0, braid_allreduce_on_stream(other, data, data, SOME, BRAID_INT32, BRAID_SUM, &promise,
                                         stream));
    cuda->stream_wait_32(stream, (uintptr_t)&gate, 1, BR_CUDA_WAIT_GEQ);
    cuda->stream_wait_32(second, (uintptr_t)&gate, 1, BR_CUDA_WAIT_GEQ);
    fill(stream, data, 1, SOME);
    fill(second, seen, 1, SOME);
    for (int i = 0; i < 12; i++) {
        struct braid_comm *by = i % 4 == 3 ? comm : other;

        RETURNS(0, sum(comm, i % 2 ? SOME : 20000, i % 5 ? &promise : NULL));
        if (i % 2 == 0)
            RETURNS(0, braid_allreduce_on_stream(comm, data + 20000, data + 20000, SOME - 20000,
                                                 BRAID_INT32, BRAID_SUM, &promise, stream));
        RETURNS(0, braid_allreduce_on_stream(by, seen, seen, SOME, BRAID_INT32, BRAID_SUM, &promise,
                                             second));
        expected *= 2;
    }
    atomic_store(&gate, 1);
    cuda->stream_synchronize(stream);
    cuda->stream_synchronize(second);
    RETURNS(0, braid_comm_error(comm));
    for (size_t e = 0; e < SOME; e++)
        CHECK(((uint32_t *)view(data))[e] == expected * ONES &&
                  ((uint32_t *)view(seen))[e] == expected * ONES,
              "element %zu: %x, %x", e, ((uint32_t *)view(data))[e], ((uint32_t *)view(seen))[e]);
    return braid_finalize(other);
}

static void stream_gpus__many_in_a_row(void **state)
{
    (void)state;
    run(2, "2M", rows);
}

/* braid_finalize() waits for it. */
static int leaves(struct braid_comm *comm, void *context)
{
    (void)context;
    RETURNS(0, open_streams());
    RETURNS(0, sum(comm, MOST, &promise));
    return sum(comm, MOST, &promise);
}

static void stream_gpus__finalize_with_one_under_way(void **state)
{
    (void)state;
    run(3, "1M", leaves);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static int staged(struct braid_comm *comm, void *context)
{
    int size = braid_size(comm);

    (void)context;
    RETURNS(0, open_streams());
    RETURNS(0, sum(comm, 1, NULL)); /* opens the GPU */
    cuda->stream_synchronize(stream);
    if (braid_rank(comm) == 1) {
        strcpy(fake_cuda()->fail, getenv("REFUSED"));
        fake_cuda()->fail_result = BR_CUDA_NOT_SUPPORTED;
    }
    for (int i = 0; i < 2; i++) {
        fill(stream, data, 1, SOME);
        RETURNS(0, sum(comm, SOME, &promise));
        cuda->stream_synchronize(stream);
        fake_cuda()->fail[0] = 0;
        CHECK(((int32_t *)view(data))[SOME - 1] == size * ONES, "%x",
              (unsigned)((int32_t *)view(data))[SOME - 1]);
    }
    CHECK(stats_of(comm).downgrade_gpu_sharing ==
              (braid_rank(comm) == 1 && getenv("REFUSED")[0] ? 1 : 0),
          "it was said where it was not refused, or not at all");
    return is_staged(comm, true);
}

static void stream_gpus__refused(void **state)
{
    static const char *const symbols[] = {"cuMemAlloc_v2", "cuIpcGetMemHandle",
                                          "cuIpcOpenMemHandle_v2"};

    (void)state;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        setenv("REFUSED", symbols[i], 1);
        run(3, "1M", staged);
    }
    setenv("REFUSED", "", 1);
    run(2, "0", staged);
}

/* A kernel that is refused: the call says so, and no stream waits for ever. */
static int wait_for_error(struct braid_comm *comm)
{
    double until = ranks_now_ms() + RANKS_SOON;
    int rc;

    while (!(rc = braid_comm_error(comm)) && ranks_now_ms() < until)
        ranks_sleep_ms(1);
    return rc;
}

static int refused_kernel(struct braid_comm *comm, void *context)
{
    const struct braid_options hasty = {.timeout_ms = 1000, .all_on_gpu = 1};

    (void)context;
    RETURNS(0, open_streams());
    RETURNS(0, sum(comm, SOME, &promise));
    cuda->stream_synchronize(stream);
    if (braid_rank(comm) == 0) {
        strcpy(fake_cuda()->fail, "cuLaunchKernel");
        fake_cuda()->fail_result = BR_CUDA_LAUNCH_FAILED;
        SAYS(-EIO, "CUDA_ERROR_LAUNCH_FAILED", sum(comm, SOME, &promise));
        fake_cuda()->fail[0] = 0;
    } else {
        int rc = sum(comm, SOME, &hasty);

        CHECK(!rc || rc == -ECANCELED, "got %d", rc);
    }
    RETURNS(0, (int)cuda->stream_synchronize(stream));
    CHECK(wait_for_error(comm) < 0, "the communicator has not failed");
    return 0;
}

static void stream_gpus__refused_kernel(void **state)
{
    (void)state;
    run(2, "1M", refused_kernel);
}

/* ---- errors ---------------------------------------------------------------------------------- */

enum broken { PLAIN, HOST, STAGED, LARGER, NAMED, BROADCAST, BROKEN };

/* Rank 1 makes another call than the others have been promised, at the first call or later: an
 * error on all ranks, and every stream goes on. */
static int broken_promise(struct braid_comm *comm, void *context)
{
    static int32_t host[SOME];
    const struct braid_options ring = {.algorithm = "ring", .all_on_gpu = 1};
    int what = atoi(getenv("BROKEN")), first = atoi(getenv("FIRST")), rc;

    (void)context;
    RETURNS(0, open_streams());
    if (!first)
        RETURNS(0, sum(comm, SOME, &promise));
    if (braid_rank(comm) != 1)
        rc = sum(comm, SOME, &promise);
    else if (what == PLAIN)
        rc = braid_allreduce(comm, data, data, SOME, BRAID_INT32, BRAID_SUM, NULL, NULL);
    else if (what == HOST)
        rc = braid_allreduce(comm, host, host, SOME, BRAID_INT32, BRAID_SUM, NULL, NULL);
    else if (what == BROADCAST)
        rc = braid_broadcast(comm, data, data, SOME, BRAID_INT32, 0, NULL, NULL);
    else
        rc = sum(comm, what == LARGER ? MOST : SOME,
                 what == STAGED  ? NULL
                 : what == NAMED ? &ring
                                 : &promise);
    if (first && what == LARGER) { /* that is no other call of the first time */
        RETURNS(0, rc);
    }
    if (!rc)
        rc = wait_for_error(comm);
    CHECK(rc == -EPROTO || rc == -ECANCELED || rc == -ECONNRESET, "form %d: got %d", what, rc);
    CHECK(strstr(braid_last_error(), "disagree"), "form %d: no reason", what);
    RETURNS(0, (int)cuda->stream_synchronize(stream));
    return 0;
}

static void stream_gpus__broken_promise(void **state)
{
    static const char *const forms[] = {"0", "1", "2", "3", "4", "5"};

    (void)state;
    for (int first = 0; first < 2; first++)
        for (int i = 0; i < BROKEN; i++) {
            setenv("BROKEN", forms[i], 1);
            setenv("FIRST", forms[first], 1);
            run(3, "1M", broken_promise);
        }
}

static int host_memory(struct braid_comm *comm, void *context)
{
    static int32_t host[SOME];

    (void)context;
    RETURNS(0, open_streams());
    for (int i = 0; i < 2; i++) { /* the first call, and a later one */
        for (size_t e = 0; e < SOME; e++)
            host[e] = braid_rank(comm) + 1;
        RETURNS(0, braid_allreduce_on_stream(comm, host, data, SOME, BRAID_INT32, BRAID_SUM,
                                             &promise, stream));
        cuda->stream_synchronize(stream);
        for (size_t e = 0; e < SOME; e++)
            CHECK(((int32_t *)view(data))[e] == 3, "element %zu is wrong", e);
    }
    return 0;
}

/* More calls than a stream's queue may have room for. */
static int too_large(struct braid_comm *comm, void *context)
{
    const size_t count = 4u << 20;

    (void)context;
    RETURNS(0, open_streams());
    data = own_gpu_alloc(count * sizeof *data);
    fill(stream, data, braid_rank(comm) + 1, count);
    RETURNS(0, sum(comm, count, &promise));
    cuda->stream_synchronize(stream);
    for (size_t e = 0; e < count; e++)
        CHECK(((int32_t *)view(data))[e] == 3 * ONES, "element %zu is wrong", e);
    return is_staged(comm, true);
}

static void stream_gpus__too_large(void **state)
{
    (void)state;
    run(2, "1M", too_large);
}

static void stream_gpus__host_memory(void **state)
{
    (void)state;
    run(2, "1M", host_memory);
}

/* Rank 1 does not call, or its stream does not get there: the others name it. */
static int late(struct braid_comm *comm, void *context)
{
    const struct braid_options hasty = {.timeout_ms = 300, .all_on_gpu = 1};
    bool calls = atoi(getenv("CALLS"));

    (void)context;
    RETURNS(0, open_streams());
    RETURNS(0, sum(comm, SOME, &promise));
    cuda->stream_synchronize(stream);
    if (braid_rank(comm) == 1) {
        cuda->stream_wait_32(stream, (uintptr_t)&gate, 1, BR_CUDA_WAIT_GEQ);
        if (calls)
            RETURNS(0, sum(comm, SOME, &promise));
        ranks_await(0, 1);
    } else {
        RETURNS(0, sum(comm, SOME, &hasty));
        SAYS(-ETIMEDOUT, "deadline|rank 1", wait_for_error(comm));
        RETURNS(0, (int)cuda->stream_synchronize(stream));
        ranks_tell(0);
    }
    atomic_store(&gate, 1);
    RETURNS(0, (int)cuda->stream_synchronize(stream));
    return 0;
}

static void stream_gpus__waits_for_a_rank(void **state)
{
    (void)state;
    setenv("CALLS", "0", 1);
    run(2, "1M", late);
    setenv("CALLS", "1", 1);
    run(2, "1M", late);
}

/* Rank 1 dies in the midst of many. */
static int dies(struct braid_comm *comm, void *context)
{
    (void)context;
    RETURNS(0, open_streams());
    RETURNS(0, sum(comm, MOST, &promise));
    if (braid_rank(comm) == 1) {
        cuda->stream_synchronize(stream);
        _exit(0);
    }
    for (int i = 0; i < 5; i++)
        if (sum(comm, MOST, &promise)) /* it is known already */
            break;
    CHECK(wait_for_error(comm) < 0 && strstr(braid_last_error(), "rank 1"), "who");
    RETURNS(0, (int)cuda->stream_synchronize(stream));
    return 0;
}

static void stream_gpus__a_rank_dies(void **state)
{
    (void)state;
    run(3, "1M", dies);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stream_gpus__order),
        cmocka_unit_test(stream_gpus__types),
        cmocka_unit_test(stream_gpus__many_in_a_row),
        cmocka_unit_test(stream_gpus__finalize_with_one_under_way),
        cmocka_unit_test(stream_gpus__refused),
        cmocka_unit_test(stream_gpus__refused_kernel),
        cmocka_unit_test(stream_gpus__broken_promise),
        cmocka_unit_test(stream_gpus__host_memory),
        cmocka_unit_test(stream_gpus__too_large),
        cmocka_unit_test(stream_gpus__waits_for_a_rank),
        cmocka_unit_test(stream_gpus__a_rank_dies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
