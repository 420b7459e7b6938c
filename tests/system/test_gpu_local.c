/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce of GPU memory between real processes of one host, which map each other's
 * (collectives/gpu/gpu_local.h), on the fake driver: results, which way the bytes took, and
 * refusals at each place, after which they go through host memory.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <braid/gpu.h>

#include "gpu/reduce.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/system/app_gpu.h"
#include "tests/system/ranks.h"

/* The fake driver has the kernels, whatever is loaded; a build under a sanitizer has no image, and
 * takes this one. */
const struct br_gpu_image br_gpu_image = {"image", NULL, "sm_none"};

#define RANKS 3

static int32_t *allocate(size_t count)
{
    return own_gpu_alloc(count * sizeof(int32_t));
}

static int32_t *view(const int32_t *memory)
{
    return own_gpu_view(memory);
}

static void run(ranks_main *body, void *context)
{
    setenv("BRAID_CUDA_LIBRARY", FAKE_CUDA_LIBRARY, 1);
    setenv("BRAID_GPU_REDUCE", "auto", 1);
    ranks_run(&(struct ranks){.size = RANKS, .backend = "shm", .timeout_ms = RANKS_PATIENCE}, body,
              context);
}

static int32_t given(size_t i, int rank)
{
    return (int32_t)(i % 1000) + 7 * rank;
}

/* Sums `count` elements, blocking, or not if op is not NULL. */
static int sum(struct braid_comm *comm, const int32_t *in, int32_t *out, size_t count,
               struct braid_op **op)
{
    for (size_t i = 0; i < count; i++)
        view(in)[i] = given(i, braid_rank(comm));
    return braid_allreduce(comm, in, out, count, BRAID_INT32, BRAID_SUM, NULL, op);
}

static int check(const int32_t *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        CHECK(view(out)[i] == 3 * given(i, 1), "element %zu of %zu: %d", i, count, view(out)[i]);
    return 0;
}

static int sum_and_check(struct braid_comm *comm, int32_t *data, size_t count)
{
    RETURNS(0, sum(comm, data, data, count, NULL));
    return check(data, count);
}

static uint64_t shared(struct braid_comm *comm)
{
    struct braid_stats stats = {0};

    return braid_stats(comm, &stats) ? 0 : stats.gpu_peer_bytes;
}

static uint64_t staged(struct braid_comm *comm)
{
    struct braid_stats stats = {0};

    return braid_stats(comm, &stats) ? 0 : stats.gpu_to_host_bytes + stats.host_to_gpu_bytes;
}

static uint64_t refused(struct braid_comm *comm)
{
    struct braid_stats stats = {0};

    return braid_stats(comm, &stats) ? 0 : stats.downgrade_gpu_sharing;
}

/* ---- results --------------------------------------------------------------------------------- */

/* In place or not, anywhere in allocations that come and go; each rank reads 2 (n-1)/n of the
 * buffer from others, and nothing is staged. */
static int results(struct braid_comm *comm, void *context)
{
    static const size_t counts[] = {1500, 3001, 100000, 1025};
    uint64_t before = 0;

    (void)context;
    for (int turn = 0; turn < 3; turn++)
        for (size_t i = 0; i < 4; i++) {
            size_t count = counts[i];
            int32_t *in = allocate(count + 100), *out = turn == 1 ? in : allocate(count + 10);
            uint64_t least = 2 * (RANKS - 1) * (count / RANKS) * sizeof *in;

            RETURNS(0, sum(comm, in + turn, out + turn, count, NULL));
            if (check(out + turn, count))
                return 1;
            for (size_t e = 0; e < count && out != in; e++)
                CHECK(view(in + turn)[e] == given(e, braid_rank(comm)), "the input has changed");
            CHECK(shared(comm) - before >= least && shared(comm) - before < least + 100,
                  "%llu bytes", (unsigned long long)(shared(comm) - before));
            before = shared(comm);
            own_gpu_free(in);
            if (out != in)
                own_gpu_free(out);
        }
    CHECK(!staged(comm) && !refused(comm), "something was staged");
    return 0;
}

static void gpu_local__results(void **state)
{
    (void)state;
    run(results, NULL);
}

/* Averages and floats; the bits are the same on all ranks. */
static int floats(struct braid_comm *comm, void *context)
{
    const size_t count = 5000;
    float *data, mine[5000];
    double expected;

    (void)context;
    data = (float *)allocate(count);
    for (size_t i = 0; i < count; i++)
        ((float *)view((int32_t *)data))[i] = (float)i / 3.0f + 0.1f * (float)braid_rank(comm);
    RETURNS(0, braid_allreduce(comm, data, data, count, BRAID_FLOAT32, BRAID_AVG, NULL, NULL));
    memcpy(mine, view((int32_t *)data), sizeof mine);
    for (size_t i = 0; i < count; i++) {
        expected = (double)i / 3 + 0.1;
        CHECK((double)mine[i] > expected - 1e-2 && (double)mine[i] < expected + 1e-2,
              "element %zu: %g", i, (double)mine[i]);
    }
    RETURNS(0, braid_broadcast(comm, data, data, count, BRAID_FLOAT32, 1, NULL, NULL));
    CHECK(memcmp(mine, view((int32_t *)data), sizeof mine) == 0, "other bits than on rank 1");
    CHECK(shared(comm) > 0, "nothing was shared");
    own_gpu_free((int32_t *)data);
    return 0;
}

static void gpu_local__averages(void **state)
{
    (void)state;
    run(floats, NULL);
}

/* One rank has host memory: all go through it, and the next time not. Several are under way at
 * once, with others of the engine's between. */
static int mixed(struct braid_comm *comm, void *context)
{
    const size_t count = 20000;
    struct braid_op *ops[8];
    int32_t *data[8], root;

    (void)context;
    for (int i = 0; i < 8; i++) {
        bool on_host = i % 3 == 1 && braid_rank(comm) == i % RANKS;

        data[i] = on_host ? malloc(count * sizeof(int32_t)) : allocate(count);
        root = i % RANKS;
        if (i % 4 == 3) {
            for (size_t e = 0; e < count && braid_rank(comm) == root; e++)
                view(data[i])[e] = 3 * given(e, 1);
            RETURNS(0, braid_broadcast(comm, data[i], data[i], count, BRAID_INT32, root, NULL,
                                       &ops[i]));
        } else {
            RETURNS(0, sum(comm, data[i], data[i], count, &ops[i]));
        }
    }
    for (int i = 7; i >= 0; i--) {
        RETURNS(0, braid_wait(ops[i], -1));
        if (check(data[i], count))
            return 1;
        if (i % 3 == 1 && braid_rank(comm) == i % RANKS)
            free(data[i]);
        else
            own_gpu_free(data[i]);
    }
    CHECK(shared(comm) >= 2 * (RANKS - 1) * (count / RANKS) * 3 * sizeof(int32_t) && staged(comm),
          "%llu bytes shared", (unsigned long long)shared(comm));
    return 0;
}

static void gpu_local__not_all_have_a_gpu(void **state)
{
    (void)state;
    run(mixed, NULL);
}

/* ---- refusals -------------------------------------------------------------------------------- */

/* On rank 1: all go through host memory, said and counted there once. */
static int refusing(struct braid_comm *comm, void *context)
{
    const size_t count = 10000;
    bool one = braid_rank(comm) == 1;
    int32_t *data;

    data = allocate(count);
    if (one) {
        strcpy(fake_cuda()->fail, context);
        fake_cuda()->fail_result = BR_CUDA_NOT_SUPPORTED;
    }
    for (int turn = 0; turn < 2; turn++)
        if (sum_and_check(comm, data, count))
            return 1;
    CHECK(shared(comm) == 0 && staged(comm) == 4 * count * sizeof *data, "%llu bytes staged",
          (unsigned long long)staged(comm));
    CHECK(refused(comm) == one, "%llu downgrades", (unsigned long long)refused(comm));
    fake_cuda()->fail[0] = 0;
    own_gpu_free(data);
    return 0;
}

static void gpu_local__refused(void **state)
{
    static const char *const symbols[] = {"cuIpcGetMemHandle", "cuMemGetAddressRange_v2",
                                          "cuIpcOpenMemHandle_v2"};

    (void)state;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        run(refusing, (void *)(uintptr_t)symbols[i]);
}

static int not_wanted(struct braid_comm *comm, void *context)
{
    int32_t *data;

    (void)context;
    data = allocate(5000);
    if (sum_and_check(comm, data, 5000))
        return 1;
    CHECK(!shared(comm) && !refused(comm) && staged(comm), "it was shared");
    own_gpu_free(data);
    return 0;
}

static void gpu_local__not_on_the_cpu(void **state)
{
    (void)state;
    setenv("BRAID_CUDA_LIBRARY", FAKE_CUDA_LIBRARY, 1);
    setenv("BRAID_GPU_REDUCE", "cpu", 1);
    ranks_run(&(struct ranks){.size = RANKS, .backend = "shm", .timeout_ms = RANKS_PATIENCE},
              not_wanted, NULL);
}

/* Mapping waits for all streams: not while an operation of another communicator stands in one. Then
 * it goes on as if nothing had been. */
static int beside_a_stream(struct braid_comm *comm, void *context)
{
    static _Atomic uint32_t gate;
    const size_t count = 10000;
    struct CUstream_st *stream;
    struct braid_comm *other;
    int32_t *data, *streamed;

    (void)context;
    fake_cuda()->thread = true;
    RETURNS(0, braid_comm_split(comm, 0, braid_rank(comm), &other));
    data = allocate(count);
    streamed = allocate(count);
    CHECK(!own_gpu()->stream_create(&stream, BR_CUDA_STREAM_NON_BLOCKING, 0), "no stream");
    if (sum_and_check(comm, data, 10)) /* opens the GPU */
        return 1;
    own_gpu()->stream_wait_32(stream, (uintptr_t)&gate, 1, BR_CUDA_WAIT_GEQ);
    for (size_t i = 0; i < count; i++)
        view(streamed)[i] = given(i, braid_rank(comm));
    RETURNS(0, braid_allreduce_on_stream(other, streamed, streamed, count, BRAID_INT32, BRAID_SUM,
                                         NULL, stream));
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    if (sum_and_check(comm, data, count))
        return 1;
    CHECK(!shared(comm) && !refused(comm), "it was mapped");
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    gate = 1;
    own_gpu()->stream_synchronize(stream);
    if (check(streamed, count))
        return 1;
    for (int tries = 0; tries < 1000 && !shared(comm); tries++) /* the copy back has to be seen */
        if (sum_and_check(comm, data, count))
            return 1;
    CHECK(shared(comm), "it is never mapped");
    RETURNS(0, braid_finalize(other));
    own_gpu()->stream_destroy(stream);
    own_gpu_free(data);
    own_gpu_free(streamed);
    return 0;
}

static void gpu_local__beside_a_stream(void **state)
{
    (void)state;
    run(beside_a_stream, NULL);
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* A kernel that is refused when all have agreed, or fails, ends the job with the driver's message.
 */
static int failing(struct braid_comm *comm, void *context)
{
    const char *symbol = context;
    int32_t *data;
    int rc;

    data = allocate(10000);
    if (sum_and_check(comm, data, 10000)) /* opens the GPU, which tries the kernels */
        return 1;
    if (braid_rank(comm) == 0) {
        strcpy(fake_cuda()->fail, symbol);
        fake_cuda()->fail_result = BR_CUDA_LAUNCH_FAILED;
    }
    rc = sum(comm, data, data, 10000, NULL);
    CHECK(rc < 0, "got %d", rc);
    CHECK(braid_rank(comm) != 0 || strstr(braid_last_error(), "CUDA_ERROR_LAUNCH_FAILED"), "why");
    fake_cuda()->fail[0] = 0;
    own_gpu_free(data);
    return 0;
}

static void gpu_local__fails(void **state)
{
    static const char *const symbols[] = {"cuLaunchKernel", "cuMemcpyAsync", "cuEventQuery",
                                          "cuEventRecord"};

    (void)state;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        run(failing, (void *)(uintptr_t)symbols[i]);
}

/* A kernel that never ends: the deadline does. It begins when the others have answered, and they
 * may stand still for a moment: time for that. */
static int hanging(struct braid_comm *comm, void *context)
{
    struct braid_options hasty = {.timeout_ms = 3000};
    int32_t *data;
    int rc;

    (void)context;
    data = allocate(10000);
    if (sum_and_check(comm, data, 10000))
        return 1;
    if (braid_rank(comm) == 0) {
        strcpy(fake_cuda()->fail, "cuEventQuery");
        fake_cuda()->fail_result = BR_CUDA_NOT_READY;
        SAYS(-ETIMEDOUT, "deadline|3000 ms|reduction|GPU 0",
             braid_allreduce(comm, data, data, 10000, BRAID_INT32, BRAID_SUM, &hasty, NULL));
        fake_cuda()->fail[0] = 0;
    } else {
        rc = sum(comm, data, data, 10000, NULL);
        CHECK(rc < 0, "got %d", rc);
    }
    own_gpu_free(data);
    return 0;
}

static void gpu_local__hangs(void **state)
{
    (void)state;
    run(hanging, NULL);
}

/* One rank does not come: the others name it. */
static int late(struct braid_comm *comm, void *context)
{
    struct braid_options hasty = {.timeout_ms = 300};
    int32_t *data;

    (void)context;
    data = allocate(10000);
    if (braid_rank(comm) == 1) {
        ranks_await(0, RANKS - 1);
    } else {
        int rc = braid_allreduce(comm, data, data, 10000, BRAID_INT32, BRAID_SUM, &hasty, NULL);

        CHECK(rc == -ETIMEDOUT || rc == -ECONNRESET || rc == -ECONNABORTED || rc < 0, "got %d", rc);
        CHECK(rc != -ETIMEDOUT || strstr(braid_last_error(), "rank 1"), "who");
        ranks_tell(0);
    }
    own_gpu_free(data);
    return 0;
}

static void gpu_local__waits_for_a_rank(void **state)
{
    (void)state;
    run(late, NULL);
}

/* ---- disagreement ---------------------------------------------------------------------------- */

enum { LARGER, SMALL, NAMED, BROADCAST, ON_HOST, DISAGREEMENTS };

/* Rank 1 makes another call than the others, whose all-reduce goes by the memory of their GPUs; its
 * own goes each way there is. */
static int disagree(struct braid_comm *comm, void *context)
{
    static const char *const names[] = {
        "count|allreduce of 10000 int32|20000", "count|allreduce of 10000 int32|100",
        "rank 1|algorithm|messages|GPU",
        "collective|allreduce of 10000 int32|broadcast of 10000 int32",
        "count|allreduce of 10000 int32|300"};
    static int32_t host[300];
    const struct braid_options ring = {.algorithm = "ring"};
    int what = *(const int *)context, rc;
    double start = ranks_now_ms();
    int32_t *data = allocate(20000);

    if (braid_rank(comm) != 1)
        rc = braid_allreduce(comm, data, data, 10000, BRAID_INT32, BRAID_SUM, NULL, NULL);
    else if (what == LARGER || what == SMALL)
        rc = braid_allreduce(comm, data, data, what == LARGER ? 20000 : 100, BRAID_INT32, BRAID_SUM,
                             NULL, NULL);
    else if (what == NAMED)
        rc = braid_allreduce(comm, data, data, 10000, BRAID_INT32, BRAID_SUM, &ring, NULL);
    else if (what == BROADCAST)
        rc = braid_broadcast(comm, data, data, 10000, BRAID_INT32, 0, NULL, NULL);
    else
        rc = braid_allreduce(comm, host, host, 300, BRAID_INT32, BRAID_SUM, NULL, NULL);
    if (!rc) /* a leaf of a broadcast may have nothing to notice yet */
        rc = braid_barrier(comm, NULL, NULL);
    CHECK(rc == -EPROTO || rc == -ECANCELED, "disagreement %d: got %d", what, rc);
    CHECK(ranks_now_ms() - start < RANKS_SOON, "disagreement %d: noticed late", what);
    CHECK(says_all(braid_last_error(), names[what]),
          "disagreement %d: the message does not name all of %s", what, names[what]);
    own_gpu_free(data);
    return 0;
}

static void gpu_local__disagreement(void **state)
{
    (void)state;
    for (int what = 0; what < DISAGREEMENTS; what++)
        run(disagree, &what);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpu_local__results),
        cmocka_unit_test(gpu_local__averages),
        cmocka_unit_test(gpu_local__not_all_have_a_gpu),
        cmocka_unit_test(gpu_local__refused),
        cmocka_unit_test(gpu_local__not_on_the_cpu),
        cmocka_unit_test(gpu_local__beside_a_stream),
        cmocka_unit_test(gpu_local__fails),
        cmocka_unit_test(gpu_local__hangs),
        cmocka_unit_test(gpu_local__waits_for_a_rank),
        cmocka_unit_test(gpu_local__disagreement),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
