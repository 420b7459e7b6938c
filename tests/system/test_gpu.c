/* SPDX-License-Identifier: BSD-3-Clause */
/* Real processes with memory of a fake GPU, over every way to connect ranks of a host: results, the
 * path that the bytes took, errors. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/reduce.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/says.h"
#include "tests/system/app_gpu.h"
#include "tests/system/ranks.h"

/* ---- collectives ----------------------------------------------------------------------------- */

static int sum(struct braid_comm *comm, float *data, float *cpu, size_t count, struct braid_op **op)
{
    for (size_t i = 0; i < count; i++)
        cpu[i] = (float)(i % 1000 + (size_t)braid_rank(comm));
    return braid_allreduce(comm, data, data, count, BRAID_FLOAT32, BRAID_SUM, NULL, op);
}

static int check_sum(const struct braid_comm *comm, const float *cpu, size_t count)
{
    int size = braid_size(comm);

    for (size_t i = 0; i < count; i++)
        CHECK(cpu[i] == (float)(i % 1000) * (float)size + (float)(size * (size - 1) / 2),
              "element %zu of %zu: %g", i, count, (double)cpu[i]);
    return 0;
}

/* Blocking, and several at once; on the last rank the memory is the host's. */
static int all_reduce(struct braid_comm *comm, void *context)
{
    static const size_t counts[] = {1, 100, 5000, 300001};
    bool on_host = braid_rank(comm) == braid_size(comm) - 1;
    struct braid_stats stats = {0};
    struct braid_op *ops[4];
    float *data[4];
    uint64_t bytes = 0;

    (void)context;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 4; i++) {
            data[i] = on_host ? malloc(counts[i] * sizeof(float))
                              : own_gpu_alloc(counts[i] * sizeof(float));
            RETURNS(0,
                    sum(comm, data[i], own_gpu_view(data[i]), counts[i], round ? &ops[i] : NULL));
            bytes += on_host ? 0 : counts[i] * sizeof(float);
        }
        for (int i = 0; i < 4; i++) {
            if (round)
                RETURNS(0, braid_wait(ops[i], -1));
            if (check_sum(comm, own_gpu_view(data[i]), counts[i]))
                return 1;
            on_host ? free(data[i]) : own_gpu_free(data[i]);
        }
    }
    RETURNS(0, braid_stats(comm, &stats));
    CHECK(stats.gpu_to_host_bytes == bytes && stats.host_to_gpu_bytes == bytes,
          "%llu and %llu bytes, not %llu", (unsigned long long)stats.gpu_to_host_bytes,
          (unsigned long long)stats.host_to_gpu_bytes, (unsigned long long)bytes);
    CHECK(stats.downgrade_gpu_staging == !on_host, "%llu downgrades",
          (unsigned long long)stats.downgrade_gpu_staging);
    return 0;
}

static void gpu__all_reduce(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 3, all_reduce);
}

/* Small ones go over the host's shared segment where there is one: every kind of collective has to
 * find its way there. */
static int small_ones(struct braid_comm *comm, void *context)
{
    int rank = braid_rank(comm), size = braid_size(comm);
    int32_t *in = own_gpu_alloc(64), *out = own_gpu_alloc(64);

    (void)context;
    for (int turn = 0; turn < 50; turn++) {
        for (int i = 0; i < 16; i++)
            ((int32_t *)own_gpu_view(in))[i] = 100 * rank + i + turn;
        RETURNS(0, braid_allgather(comm, in, out, 2, BRAID_INT32, NULL, NULL));
        for (int i = 0; i < 2 * size; i++)
            CHECK(((int32_t *)own_gpu_view(out))[i] == 100 * (i / 2) + i % 2 + turn,
                  "all-gather %d", i);
        RETURNS(0, braid_alltoall(comm, in, out, 3, BRAID_INT32, NULL, NULL));
        for (int i = 0; i < 3 * size; i++)
            CHECK(((int32_t *)own_gpu_view(out))[i] == 100 * (i / 3) + 3 * rank + i % 3 + turn,
                  "all-to-all %d", i);
        RETURNS(0, braid_broadcast(comm, in, in, 4, BRAID_INT32, turn % size, NULL, NULL));
        CHECK(((int32_t *)own_gpu_view(in))[3] == 100 * (turn % size) + 3 + turn, "broadcast");
        RETURNS(0, braid_reduce(comm, in, out, 4, BRAID_INT32, BRAID_MAX, 1, NULL, NULL));
        CHECK(rank != 1 || ((int32_t *)own_gpu_view(out))[3] == 100 * (turn % size) + 3 + turn,
              "reduce");
        RETURNS(0, braid_barrier(comm, NULL, NULL));
    }
    own_gpu_free(in);
    own_gpu_free(out);
    return 0;
}

static void gpu__small_collectives(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 3, small_ones);
}

static int persistent(struct braid_comm *comm, void *context)
{
    const size_t count = 100000;
    float *data = own_gpu_alloc(count * sizeof *data);
    struct braid_stats before = {0}, after = {0};
    struct braid_op *op;

    (void)context;
    RETURNS(0, braid_allreduce_init(comm, data, data, count, BRAID_FLOAT32, BRAID_AVG, NULL, &op));
    for (int turn = 0; turn < 4; turn++) {
        for (size_t i = 0; i < count; i++)
            ((float *)own_gpu_view(data))[i] = (float)(turn + braid_rank(comm) * 2);
        RETURNS(0, braid_start(op));
        RETURNS(0, braid_wait(op, -1));
        for (size_t i = 0; i < count; i++)
            CHECK(((float *)own_gpu_view(data))[i] == (float)(turn + 2), "element %zu", i);
        RETURNS(0, braid_stats(comm, turn ? &after : &before));
    }
    CHECK(after.late_allocations == before.late_allocations, "memory was allocated later");
    RETURNS(0, braid_op_free(op));
    own_gpu_free(data);
    return 0;
}

static void gpu__persistent(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 3, persistent);
}

struct combined {
    const char *refuses; /* a call that is refused, then the CPU does it; NULL: none */
    unsigned after;
    bool foreign; /* memory of a context of the program's own */
};

static int combined(struct braid_comm *comm, void *context)
{
    const struct combined *how = context;
    bool always =
        /* else wherever it is faster, which says nothing here */
        getenv("BRAID_GPU_REDUCE") != NULL;
    const size_t count = 300001;
    float *data = own_gpu_alloc(count * sizeof *data);
    bool refused = how->refuses || !br_gpu_image.bytes; /* a build under a sanitizer has none */
    struct braid_stats stats = {0};

    if (how->foreign)
        fake_cuda_make_foreign((uintptr_t)data);
    if (how->refuses) {
        strcpy(fake_cuda()->fail, how->refuses);
        fake_cuda()->fail_result = BR_CUDA_NO_BINARY_FOR_GPU;
        fake_cuda()->fail_after = how->after;
    }
    RETURNS(0, sum(comm, data, own_gpu_view(data), count, NULL));
    if (check_sum(comm, own_gpu_view(data), count))
        return 1;
    RETURNS(0, braid_stats(comm, &stats));
    CHECK(stats.downgrade_gpu_reduction == refused &&
              (refused || !always || stats.gpu_reduced_bytes >= count * sizeof *data / 4),
          "%llu bytes on the GPU", (unsigned long long)stats.gpu_reduced_bytes);
    own_gpu_free(data);
    return 0;
}

static void gpu__reductions_on_the_gpu(void **state)
{
    /* Six launches are the trial's. */
    static struct combined ways[] = {{0},
                                     {.foreign = true},
                                     {.refuses = "cuModuleLoadData"},
                                     {.refuses = "cuLaunchKernel", .after = 6}};

    (void)state;
    setenv("BRAID_GPU_REDUCE", "gpu", 1);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        ranks_run(&(struct ranks){.size = 3, .backend = "tcp", .devices = "127.0.0.1"}, combined,
                  &ways[i]);
    unsetenv("BRAID_GPU_REDUCE");
    ranks_run(&(struct ranks){.size = 3, .backend = "tcp", .devices = "127.0.0.1"}, combined,
              &ways[0]);
    setenv("BRAID_GPU_REDUCE", "cpu", 1);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static int no_stream(struct braid_comm *comm, void *context)
{
    float *data = own_gpu_alloc(4096);
    struct braid_region *region;

    (void)context;
    strcpy(fake_cuda()->fail, "cuStreamCreateWithPriority");
    fake_cuda()->fail_result = BR_CUDA_OUT_OF_MEMORY;
    SAYS(-ENOMEM, "braid_register|GPU 0|CUDA_ERROR_OUT_OF_MEMORY",
         braid_register(comm, data, 4096, &region));
    SAYS(-ENOMEM, "braid_allreduce|GPU 0|CUDA_ERROR_OUT_OF_MEMORY",
         braid_allreduce(comm, data, data, 1024, BRAID_FLOAT32, BRAID_SUM, NULL, NULL));
    fake_cuda()->fail[0] = 0; /* nothing has left: the next one is well */
    RETURNS(0, braid_allreduce(comm, data, data, 1024, BRAID_FLOAT32, BRAID_SUM, NULL, NULL));
    own_gpu_free(data);
    return 0;
}

static void gpu__out_of_memory_at_the_first_use(void **state)
{
    (void)state;
    ranks_run(&(struct ranks){.size = 2, .backend = "tcp", .devices = "127.0.0.1"}, no_stream,
              NULL);
}

static int sum_small(struct braid_comm *comm, void *data, const struct braid_options *options)
{
    return braid_allreduce(comm, data, data, 16, BRAID_INT32, BRAID_SUM, options, NULL);
}

/* What rank 0 cannot fetch from its GPU does not reach the others by the shared segment: no rank
 * takes it for a result. context: the call that fails. */
static int no_copy_for_shm_coll(struct braid_comm *comm, void *context)
{
    int32_t host[16] = {0};
    void *data = braid_rank(comm) == 0 ? own_gpu_alloc(64) : host;
    int rc;

    if (braid_rank(comm) == 0) {
        strcpy(fake_cuda()->fail, context);
        fake_cuda()->fail_result = BR_CUDA_ILLEGAL_ADDRESS;
    }
    rc = sum_small(comm, data, NULL);
    CHECK(rc < 0, "got %d", rc);
    CHECK(braid_rank(comm) != 0 || strstr(braid_last_error(), "CUDA_ERROR_ILLEGAL_ADDRESS"), "why");
    fake_cuda()->fail[0] = 0;
    if (data != host)
        own_gpu_free(data);
    return 0;
}

static void gpu__shm_coll_copies_that_fail(void **state)
{
    static const char *const symbols[] = {"cuMemcpyAsync", "cuEventQuery"};

    (void)state;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        ranks_run(&(struct ranks){.size = 2, .backend = "shm"}, no_copy_for_shm_coll,
                  (void *)(uintptr_t)symbols[i]);
}

/* The copies before (context: 0) or behind the shared segment (1) never end: the deadline does. */
static int late_shm_coll(struct braid_comm *comm, void *context)
{
    /* either may stand still before the copy that hangs */
    struct braid_options hasty = {.timeout_ms = 2000};
    void *data = own_gpu_alloc(64);
    struct braid_op *op;

    if (braid_rank(comm) == 0) {
        ranks_await(0, 1);
        strcpy(fake_cuda()->fail, "cuEventQuery");
        fake_cuda()->fail_result = BR_CUDA_NOT_READY;
        fake_cuda()->fail_after = *(unsigned *)context;
        SAYS(-ETIMEDOUT, "deadline|2000 ms|copies|GPU 0", sum_small(comm, data, &hasty));
        fake_cuda()->fail[0] = 0;
    } else {
        /* Comes first, so that rank 0 waits for its GPU alone. Its own is well, or ends with rank
         * 0's. */
        RETURNS(0, braid_allreduce(comm, data, data, 16, BRAID_INT32, BRAID_SUM, NULL, &op));
        RETURNS(-ETIMEDOUT, braid_wait(op, 10));
        ranks_tell(0);
        braid_wait(op, -1);
    }
    own_gpu_free(data);
    return 0;
}

static void gpu__shm_coll_copies_that_hang(void **state)
{
    (void)state;
    for (unsigned queries = 0; queries < 2; queries++)
        ranks_run(&(struct ranks){.size = 2, .backend = "shm"}, late_shm_coll, &queries);
}

/* ---- memory that another rank reaches for ---------------------------------------------------- */

/* Rank 1's, on its GPU. */
static int offer(struct braid_comm *comm, size_t bytes, uint8_t **memory,
                 struct braid_region **region, struct braid_key *key)
{
    if (braid_rank(comm) == 0) {
        RETURNS(0, braid_recv(comm, key, sizeof *key, 1, NULL, NULL));
        return 0;
    }
    *memory = own_gpu_alloc(bytes);
    RETURNS(0, braid_register(comm, *memory, bytes, region));
    RETURNS(0, braid_key(comm, *memory, key));
    return 0;
}

static int registered(struct braid_comm *comm, void *context)
{
    struct braid_region *region, *another;
    struct braid_key key;
    uint8_t *memory;

    (void)context;
    if (braid_rank(comm) == 0)
        return 0;
    if (offer(comm, 8192, &memory, &region, &key))
        return 1;
    CHECK(key.bytes == 8192 && key.rank == 1, "the key");
    SAYS(-EINVAL, "GPU 0", braid_register(comm, memory + 4096, 1 << 30, &another));
    RETURNS(-EEXIST, braid_register(comm, memory + 4096, 10, &another));
    RETURNS(0, braid_deregister(region));
    RETURNS(-EINVAL, braid_key(comm, memory, &key));
    own_gpu_free(memory);
    return 0;
}

static void gpu__registered_memory(void **state)
{
    (void)state;
    ranks_run(&(struct ranks){.size = 2, .backend = "tcp", .devices = "127.0.0.1"}, registered,
              NULL);
}

/* Rank 1's copies never end. It waits for a message (context: false), or leaves at once (true):
 * neither rank hangs. */
static int hangs_at_the_target(struct braid_comm *comm, void *context)
{
    struct braid_options hasty = {.timeout_ms = 2000};
    bool leaves = *(bool *)context;
    struct braid_region *region;
    uint8_t *memory, host[5000] = {0};
    struct braid_key key;
    struct braid_op *op;
    int rc;

    if (offer(comm, sizeof host, &memory, &region, &key))
        return 1;
    if (braid_rank(comm) == 0) {
        RETURNS(0, braid_put(comm, host, sizeof host, &key, 0, leaves ? NULL : &hasty, &op));
        ranks_tell(0);
        rc = braid_wait(op, -1);
        CHECK(rc == (leaves ? -ECANCELED : -ETIMEDOUT), "got %d", rc);
        CHECK(
            says_all(braid_last_error(), leaves ? "rank 1|copies|GPU" : "deadline|2000 ms|rank 1"),
            "why");
        return 0;
    }
    strcpy(fake_cuda()->fail, "cuEventQuery");
    fake_cuda()->fail_result = BR_CUDA_NOT_READY;
    RETURNS(0, braid_send(comm, &key, sizeof key, 0, NULL, NULL));
    if (leaves)
        ranks_await(0, 1);
    else
        RETURNS(-ETIMEDOUT, braid_recv(comm, host, 1, 0, NULL, NULL));
    return 0;
}

static void gpu__copies_for_another_rank_that_hang(void **state)
{
    (void)state;
    for (int leaves = 0; leaves < 2; leaves++)
        ranks_run(
            &(struct ranks){
                .size = 2, .backend = "tcp", .devices = "127.0.0.1", .timeout_ms = RANKS_PATIENCE},
            hangs_at_the_target, &(bool){leaves});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpu__all_reduce),
        cmocka_unit_test(gpu__reductions_on_the_gpu),
        cmocka_unit_test(gpu__small_collectives),
        cmocka_unit_test(gpu__persistent),
        cmocka_unit_test(gpu__out_of_memory_at_the_first_use),
        cmocka_unit_test(gpu__shm_coll_copies_that_fail),
        cmocka_unit_test(gpu__shm_coll_copies_that_hang),
        cmocka_unit_test(gpu__registered_memory),
        cmocka_unit_test(gpu__copies_for_another_rank_that_hang),
    };

    setenv("BRAID_CUDA_LIBRARY", FAKE_CUDA_LIBRARY, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
