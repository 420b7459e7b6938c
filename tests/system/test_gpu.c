/* SPDX-License-Identifier: BSD-3-Clause */
/* Real processes with memory of a fake GPU, over every way to connect ranks of a host: results, the path that the bytes took, errors. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <braid/parameters.h>
#include <braid/training.h>

#include "gpu/driver.h"
#include "gpu/image.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/system/ranks.h"

static void everywhere(int size, ranks_main *body)
{
    setenv("BRAID_CUDA_LIBRARY", FAKE_CUDA_LIBRARY, 1);
    for (int k = 0; k < RANKS_KINDS; k++) {
        struct ranks job = ranks_kinds[k];

        job.size = size;
        job.timeout_ms = 20000;
        ranks_run(&job, body, NULL);
    }
}

/* The application's own use of CUDA: its context stays current in this thread. */
static const struct br_cuda *start_cuda(void)
{
    const struct br_cuda *cuda;
    struct CUctx_st *context;

    return br_cuda_driver(&cuda) || br_cuda_context(0, &context) || br_cuda_enter(cuda, context) ? NULL
                                                                                                 : cuda;
}

static void *allocate(const struct br_cuda *cuda, size_t bytes)
{
    br_cuda_pointer memory;

    return cuda->memory_alloc(&memory, bytes) ? NULL : (void *)(uintptr_t)memory;
}

static void *view(const void *memory)
{
    return fake_cuda_bytes((uintptr_t)memory);
}

static void release(const struct br_cuda *cuda, void *memory)
{
    cuda->memory_free((uintptr_t)memory);
}

/* ---- collectives ---------------------------------------------------------------------------- */

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
    const struct br_cuda *cuda = start_cuda();
    struct braid_stats stats;
    struct braid_op *ops[4];
    float *data[4];
    uint64_t bytes = 0;

    (void)context;
    CHECK(cuda, "no fake driver");
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 4; i++) {
            data[i] = on_host ? malloc(counts[i] * sizeof(float)) : allocate(cuda, counts[i] * sizeof(float));
            RETURNS(0, sum(comm, data[i], view(data[i]), counts[i], round ? &ops[i] : NULL));
            bytes += on_host ? 0 : counts[i] * sizeof(float);
        }
        for (int i = 0; i < 4; i++) {
            if (round)
                RETURNS(0, braid_wait(ops[i], -1));
            if (check_sum(comm, view(data[i]), counts[i]))
                return 1;
            on_host ? free(data[i]) : release(cuda, data[i]);
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
    everywhere(3, all_reduce);
}

/* Small ones go over the host's board where there is one: every kind of collective has to find its way there. */
static int small_ones(struct braid_comm *comm, void *context)
{
    int rank = braid_rank(comm), size = braid_size(comm);
    const struct br_cuda *cuda = start_cuda();
    int32_t *in = allocate(cuda, 64), *out = allocate(cuda, 64);

    (void)context;
    for (int turn = 0; turn < 50; turn++) {
        for (int i = 0; i < 16; i++)
            ((int32_t *)view(in))[i] = 100 * rank + i + turn;
        RETURNS(0, braid_allgather(comm, in, out, 2, BRAID_INT32, NULL, NULL));
        for (int i = 0; i < 2 * size; i++)
            CHECK(((int32_t *)view(out))[i] == 100 * (i / 2) + i % 2 + turn, "all-gather %d", i);
        RETURNS(0, braid_alltoall(comm, in, out, 3, BRAID_INT32, NULL, NULL));
        for (int i = 0; i < 3 * size; i++)
            CHECK(((int32_t *)view(out))[i] == 100 * (i / 3) + 3 * rank + i % 3 + turn, "all-to-all %d", i);
        RETURNS(0, braid_broadcast(comm, in, in, 4, BRAID_INT32, turn % size, NULL, NULL));
        CHECK(((int32_t *)view(in))[3] == 100 * (turn % size) + 3 + turn, "broadcast");
        RETURNS(0, braid_reduce(comm, in, out, 4, BRAID_INT32, BRAID_MAX, 1, NULL, NULL));
        CHECK(rank != 1 || ((int32_t *)view(out))[3] == 100 * (turn % size) + 3 + turn, "reduce");
        RETURNS(0, braid_barrier(comm, NULL, NULL));
    }
    release(cuda, in);
    release(cuda, out);
    return 0;
}

static void gpu__small_collectives(void **state)
{
    (void)state;
    everywhere(3, small_ones);
}

static int persistent(struct braid_comm *comm, void *context)
{
    const size_t count = 100000;
    const struct br_cuda *cuda = start_cuda();
    float *data = allocate(cuda, count * sizeof *data);
    struct braid_stats before, after;
    struct braid_op *op;

    (void)context;
    RETURNS(0, braid_allreduce_init(comm, data, data, count, BRAID_FLOAT32, BRAID_AVG, NULL, &op));
    for (int turn = 0; turn < 4; turn++) {
        for (size_t i = 0; i < count; i++)
            ((float *)view(data))[i] = (float)(turn + braid_rank(comm) * 2);
        RETURNS(0, braid_start(op));
        RETURNS(0, braid_wait(op, -1));
        for (size_t i = 0; i < count; i++)
            CHECK(((float *)view(data))[i] == (float)(turn + 2), "element %zu", i);
        RETURNS(0, braid_stats(comm, turn ? &after : &before));
    }
    CHECK(after.late_allocations == before.late_allocations, "memory was allocated later");
    RETURNS(0, braid_op_free(op));
    release(cuda, data);
    return 0;
}

static void gpu__persistent(void **state)
{
    (void)state;
    everywhere(3, persistent);
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
        getenv("BRAID_GPU_REDUCE") != NULL; /* else wherever it is faster, which says nothing here */
    const size_t count = 300001;
    const struct br_cuda *cuda = start_cuda();
    float *data = allocate(cuda, count * sizeof *data);
    bool refused = how->refuses || !br_gpu_image.bytes; /* a build under a sanitizer has none */
    struct braid_stats stats;

    if (how->foreign)
        fake_cuda_make_foreign((uintptr_t)data);
    if (how->refuses) {
        strcpy(fake_cuda()->fail, how->refuses);
        fake_cuda()->fail_result = BR_CUDA_NO_BINARY_FOR_GPU;
        fake_cuda()->fail_after = how->after;
    }
    RETURNS(0, sum(comm, data, view(data), count, NULL));
    if (check_sum(comm, view(data), count))
        return 1;
    RETURNS(0, braid_stats(comm, &stats));
    CHECK(stats.downgrade_gpu_reduction == refused &&
              (refused || !always || stats.gpu_reduced_bytes >= count * sizeof *data / 4),
          "%llu bytes on the GPU", (unsigned long long)stats.gpu_reduced_bytes);
    release(cuda, data);
    return 0;
}

static void gpu__reductions_on_the_gpu(void **state)
{
    /* Six launches are the trial's. */
    static struct combined ways[] = {
        {0}, {.foreign = true}, {.refuses = "cuModuleLoadData"}, {.refuses = "cuLaunchKernel", .after = 6}};

    (void)state;
    setenv("BRAID_CUDA_LIBRARY", FAKE_CUDA_LIBRARY, 1);
    setenv("BRAID_GPU_REDUCE", "gpu", 1);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        ranks_run(&(struct ranks){.size = 3, .backend = "uring", .devices = "127.0.0.1"}, combined, &ways[i]);
    unsetenv("BRAID_GPU_REDUCE");
    ranks_run(&(struct ranks){.size = 3, .backend = "uring", .devices = "127.0.0.1"}, combined, &ways[0]);
    setenv("BRAID_GPU_REDUCE", "cpu", 1);
}

/* ---- messages, accesses --------------------------------------------------------------------- */

static int messages(struct braid_comm *comm, void *context)
{
    const size_t bytes = 3000000;
    int rank = braid_rank(comm), other = 1 - rank;
    const struct br_cuda *cuda = start_cuda();
    uint8_t *mine = allocate(cuda, bytes), *got = allocate(cuda, bytes), *shared = braid_alloc(comm, bytes);
    struct braid_key key, theirs;
    struct braid_op *op;

    (void)context;
    for (size_t n = 1; n <= bytes; n = n * 100 + 7) {
        memset(view(mine), rank + 1, n);
        RETURNS(0, braid_send(comm, mine, n, other, NULL, &op));
        RETURNS(0, braid_recv(comm, got, n, other, NULL, NULL));
        RETURNS(0, braid_wait(op, -1));
        CHECK(((uint8_t *)view(got))[n - 1] == other + 1, "message of %zu bytes", n);
    }
    RETURNS(0, braid_key(comm, shared, &key));
    RETURNS(0, braid_send(comm, &key, sizeof key, other, NULL, &op));
    RETURNS(0, braid_recv(comm, &theirs, sizeof theirs, other, NULL, NULL));
    RETURNS(0, braid_wait(op, -1));
    memset(view(mine), 40 + rank, bytes);
    RETURNS(0, braid_put(comm, mine, bytes, &theirs, 0, NULL, NULL));
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    CHECK(shared[bytes - 1] == 40 + other, "put");
    RETURNS(0, braid_get(comm, got, bytes, &theirs, 0, NULL, NULL));
    CHECK(((uint8_t *)view(got))[bytes - 1] == 40 + rank, "get");
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    release(cuda, mine);
    release(cuda, got);
    return 0;
}

static void gpu__messages_and_accesses(void **state)
{
    (void)state;
    everywhere(2, messages);
}

/* ---- gradient sessions ---------------------------------------------------------------------- */

#define LAYERS 6

static int train(struct braid_comm *comm, void *context)
{
    const char *policy = context;
    struct braid_session_options options = {
        .type = BRAID_FLOAT32, .reduction = BRAID_AVG, .policy = policy, .warmup = 2};
    const struct br_cuda *cuda = start_cuda();
    struct braid_layer layers[LAYERS] = {0};
    struct braid_session *session;
    struct braid_stats stats;
    uint64_t bytes = 0; /* each gradient once an iteration, merged or not */

    for (int l = 0; l < LAYERS; l++) {
        layers[l].count = (size_t)(1000 + 7000 * l);
        layers[l].gradient = allocate(cuda, layers[l].count * sizeof(float));
    }
    RETURNS(0, braid_session_create(comm, layers, LAYERS, &options, &session));
    for (int turn = 0; turn < 5; turn++) {
        for (int l = LAYERS - 1; l >= 0; l--) {
            for (size_t i = 0; i < layers[l].count; i++)
                ((float *)view(layers[l].gradient))[i] = (float)(turn + l + 2 * braid_rank(comm));
            RETURNS(0, braid_gradient_ready(session, l));
            bytes += layers[l].count * sizeof(float);
        }
        for (int l = 0; l < LAYERS; l++) {
            RETURNS(0, braid_gradient_wait(session, l));
            for (size_t i = 0; i < layers[l].count; i++)
                CHECK(((float *)view(layers[l].gradient))[i] == (float)(turn + l + 2),
                      "%s: layer %d element %zu", policy, l, i);
        }
        RETURNS(0, braid_session_step(session));
    }
    RETURNS(0, braid_stats(comm, &stats));
    CHECK(stats.gpu_to_host_bytes == bytes && stats.host_to_gpu_bytes == bytes,
          "%s: %llu and %llu bytes were copied, not %llu", policy,
          (unsigned long long)stats.gpu_to_host_bytes, (unsigned long long)stats.host_to_gpu_bytes,
          (unsigned long long)bytes);
    RETURNS(0, braid_session_free(session));
    for (int l = 0; l < LAYERS; l++)
        release(cuda, layers[l].gradient);
    return 0;
}

static void gpu__gradient_sessions(void **state)
{
    static const char *const policies[] = {"layerwise", "single", "bucket", "mgwfbp",
                                           "optimal",   "p3",     "auto"};

    (void)state;
    setenv("BRAID_CUDA_LIBRARY", FAKE_CUDA_LIBRARY, 1);
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
        ranks_run(&(struct ranks){.size = 3,
                                  .backend = i % 2 ? "shm" : "uring",
                                  .devices = i % 2 ? NULL : "127.0.0.1"},
                  train, (void *)(uintptr_t)policies[i]);
}

/* Weights and gradients of parameter servers lie in braid's own host memory; the first weights may come from a GPU. */
static int serve(struct braid_comm *comm, void *context)
{
    const struct br_cuda *cuda = start_cuda();
    const size_t count = 5000;
    float *initial = allocate(cuda, count * sizeof *initial);
    struct braid_parameter_layer layer = {.count = count, .initial = initial};
    struct braid_parameters *parameters;
    struct braid_stats stats;

    (void)context;
    for (size_t i = 0; i < count; i++)
        ((float *)view(initial))[i] = (float)(i % 97);
    RETURNS(0, braid_parameters_create(comm, &layer, 1, &(struct braid_parameters_options){.rate = 1},
                                       &parameters));
    release(cuda, initial);
    for (int turn = 0; turn < 3; turn++) {
        RETURNS(0, braid_parameters_wait(parameters, 0));
        for (size_t i = 0; i < count; i++) {
            CHECK(braid_parameters_weight(parameters, 0)[i] == (float)(i % 97) - (float)turn,
                  "turn %d, weight %zu", turn, i);
            braid_parameters_gradient(parameters, 0)[i] = (float)(2 * braid_rank(comm));
        }
        RETURNS(0, braid_parameters_push(parameters, 0));
    }
    RETURNS(0, braid_stats(comm, &stats));
    CHECK(stats.gpu_to_host_bytes == (braid_rank(comm) == 0) * count * sizeof(float) &&
              !stats.host_to_gpu_bytes,
          "%llu and %llu bytes were copied", (unsigned long long)stats.gpu_to_host_bytes,
          (unsigned long long)stats.host_to_gpu_bytes);
    return braid_parameters_free(parameters);
}

static void gpu__parameter_servers(void **state)
{
    (void)state;
    setenv("BRAID_CUDA_LIBRARY", FAKE_CUDA_LIBRARY, 1);
    ranks_run(&(struct ranks){.size = 2, .backend = "shm"}, serve, NULL);
}

/* Rank 0 cannot read the first weights: the others learn it at once. */
static int no_weights(struct braid_comm *comm, void *context)
{
    const struct br_cuda *cuda = start_cuda();
    struct braid_parameter_layer layer = {.count = 100, .initial = allocate(cuda, 400)};
    struct braid_parameters_options options = {.rate = 1};
    struct braid_parameters *parameters;

    (void)context;
    strcpy(fake_cuda()->fail, "cuMemcpyAsync");
    fake_cuda()->fail_result = BR_CUDA_ILLEGAL_ADDRESS;
    SAYS(braid_rank(comm) ? -EPROTO : -EIO,
         braid_rank(comm) ? "another rank has failed" : "initial: GPU 0: a copy of 400 bytes to the host",
         braid_parameters_create(comm, &layer, 1, &options, &parameters));
    fake_cuda()->fail[0] = 0;
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    release(cuda, (void *)(uintptr_t)layer.initial);
    return 0;
}

static void gpu__weights_that_cannot_be_read(void **state)
{
    (void)state;
    setenv("BRAID_CUDA_LIBRARY", FAKE_CUDA_LIBRARY, 1);
    ranks_run(&(struct ranks){.size = 2, .backend = "uring", .devices = "127.0.0.1"}, no_weights, NULL);
}

/* ---- errors --------------------------------------------------------------------------------- */

static int no_stream(struct braid_comm *comm, void *context)
{
    const struct br_cuda *cuda = start_cuda();
    float *data = allocate(cuda, 4096);
    struct braid_region *region;

    (void)context;
    SAYS(-EOPNOTSUPP, "memory of GPU 0", braid_register(comm, data, 4096, &region));
    strcpy(fake_cuda()->fail, "cuStreamCreateWithPriority");
    fake_cuda()->fail_result = BR_CUDA_OUT_OF_MEMORY;
    SAYS(-ENOMEM, "braid_allreduce: GPU 0: a stream for copies: CUDA_ERROR_OUT_OF_MEMORY",
         braid_allreduce(comm, data, data, 1024, BRAID_FLOAT32, BRAID_SUM, NULL, NULL));
    fake_cuda()->fail[0] = 0; /* nothing has left: the next one is well */
    RETURNS(0, braid_allreduce(comm, data, data, 1024, BRAID_FLOAT32, BRAID_SUM, NULL, NULL));
    release(cuda, data);
    return 0;
}

static void gpu__out_of_memory_at_the_first_use(void **state)
{
    (void)state;
    setenv("BRAID_CUDA_LIBRARY", FAKE_CUDA_LIBRARY, 1);
    ranks_run(&(struct ranks){.size = 2, .backend = "uring", .devices = "127.0.0.1"}, no_stream, NULL);
}

static int sum_small(struct braid_comm *comm, void *data, const struct braid_options *options)
{
    return braid_allreduce(comm, data, data, 16, BRAID_INT32, BRAID_SUM, options, NULL);
}

/* What rank 0 cannot fetch from its GPU does not reach the others by the board: no rank takes it for a result. context: the call that fails. */
static int no_copy_for_the_board(struct braid_comm *comm, void *context)
{
    const struct br_cuda *cuda = start_cuda();
    int32_t host[16] = {0};
    void *data = braid_rank(comm) == 0 ? allocate(cuda, 64) : host;
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
        release(cuda, data);
    return 0;
}

static void gpu__copies_for_the_board_that_fail(void **state)
{
    static const char *const symbols[] = {"cuMemcpyAsync", "cuEventQuery"};

    (void)state;
    setenv("BRAID_CUDA_LIBRARY", FAKE_CUDA_LIBRARY, 1);
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        ranks_run(&(struct ranks){.size = 2, .backend = "shm"}, no_copy_for_the_board,
                  (void *)(uintptr_t)symbols[i]);
}

/* The copies before (context: 0) or behind the board (1) never end: the deadline does. */
static int late_board(struct braid_comm *comm, void *context)
{
    const struct br_cuda *cuda = start_cuda();
    struct braid_options hasty = {.timeout_ms = 200};
    void *data = allocate(cuda, 64);
    struct braid_op *op;

    if (braid_rank(comm) == 0) {
        ranks_await(0, 1);
        strcpy(fake_cuda()->fail, "cuEventQuery");
        fake_cuda()->fail_result = BR_CUDA_NOT_READY;
        fake_cuda()->fail_after = *(unsigned *)context;
        SAYS(-ETIMEDOUT, "missed its deadline of 200 ms: waits for copies of GPU 0",
             sum_small(comm, data, &hasty));
        fake_cuda()->fail[0] = 0;
    } else {
        /* Comes first, so that rank 0 waits for its GPU alone. Its own is well, or ends with rank 0's. */
        RETURNS(0, braid_allreduce(comm, data, data, 16, BRAID_INT32, BRAID_SUM, NULL, &op));
        RETURNS(-ETIMEDOUT, braid_wait(op, 10));
        ranks_tell(0);
        braid_wait(op, -1);
    }
    release(cuda, data);
    return 0;
}

static void gpu__copies_of_the_board_that_hang(void **state)
{
    (void)state;
    setenv("BRAID_CUDA_LIBRARY", FAKE_CUDA_LIBRARY, 1);
    for (unsigned queries = 0; queries < 2; queries++)
        ranks_run(&(struct ranks){.size = 2, .backend = "shm"}, late_board, &queries);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpu__all_reduce),
        cmocka_unit_test(gpu__reductions_on_the_gpu),
        cmocka_unit_test(gpu__small_collectives),
        cmocka_unit_test(gpu__persistent),
        cmocka_unit_test(gpu__messages_and_accesses),
        cmocka_unit_test(gpu__gradient_sessions),
        cmocka_unit_test(gpu__parameter_servers),
        cmocka_unit_test(gpu__weights_that_cannot_be_read),
        cmocka_unit_test(gpu__out_of_memory_at_the_first_use),
        cmocka_unit_test(gpu__copies_for_the_board_that_fail),
        cmocka_unit_test(gpu__copies_of_the_board_that_hang),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
