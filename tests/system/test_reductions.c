/* SPDX-License-Identifier: BSD-3-Clause */
/* The order of the ranks, and reductions of the program's own, between real processes. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "collectives/engine/reduce.h"
#include "collectives/schedule/type.h"
#include "tests/system/app_gpu.h"
#include "tests/system/ranks.h"
#include "tools/common/data.h"

#define COUNT 70001u

static const struct ranks jobs[] = {
    {.size = 3, .backend = "tcp", .devices = "127.0.0.1,127.0.0.2", .timeout_ms = RANKS_PATIENCE},
    {.size = 4, .backend = "shm", .timeout_ms = RANKS_PATIENCE},
    {.size = 5, .backend = "auto", .devices = "127.0.0.1", .timeout_ms = RANKS_PATIENCE},
    {.size = 4,
     .backend = "tcp",
     .devices = "127.0.0.1,127.0.0.2",
     .topology = "bcube:2,2",
     .timeout_ms = RANKS_PATIENCE},
};
#define JOBS (sizeof jobs / sizeof *jobs)

/* ---- the order of the ranks ------------------------------------------------------------------ */

/* The same elements in calls of other sizes and by other algorithms; each must have the bits of
 * `want`. */
static int in_pieces(struct braid_comm *comm, const struct br_data *data,
                     const struct braid_options *by_rank, uint8_t *send, uint8_t *recv,
                     const uint8_t *want)
{
    static const size_t pieces[] = {1, 77, 1000, 4097, 30000};
    static const char *const algorithms[] = {NULL, "direct", "flat"};
    size_t size = br_type_size(data->type), first = 0;
    struct braid_op *ops[sizeof pieces / sizeof *pieces];

    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; first += pieces[i++])
        RETURNS(0, braid_allreduce(comm, send + first * size, recv + first * size, pieces[i],
                                   data->type, data->reduction, by_rank, &ops[i]));
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        RETURNS(0, braid_wait(ops[i], -1));
    CHECK(!memcmp(own_gpu_view(recv), want, first * size), "in pieces, %s",
          br_type_name(data->type));
    for (int a = 0; a < 3; a++) {
        struct braid_options options = {.order = BRAID_ORDER_RANKS, .algorithm = algorithms[a]};

        RETURNS(0, braid_allreduce(comm, send, recv, COUNT, data->type, data->reduction, &options,
                                   NULL));
        CHECK(!memcmp(own_gpu_view(recv), want, COUNT * size), "algorithm %d, %s", a,
              br_type_name(data->type));
    }
    return 0;
}

/* send, recv: of COUNT elements of any type, on a GPU or not. */
static int by_rank_from(struct braid_comm *comm, enum braid_type type,
                        const struct braid_options *by_rank, uint8_t *send, uint8_t *recv)
{
    int n = braid_size(comm), rank = braid_rank(comm);
    struct br_data data = {
        .seed = 4, .type = type, .reduction = type == BRAID_FLOAT16 ? BRAID_AVG : BRAID_SUM};
    size_t size = br_type_size(type), block = COUNT / (size_t)n;
    uint8_t *values[5] = {NULL}, *want = malloc(COUNT * size);
    const void *sources[5] = {NULL};

    for (int r = 0; r < n; r++) {
        sources[r] = values[r] = malloc(COUNT * size);
        br_data_fill(&data, r, 0, values[r], COUNT);
    }
    br_reduce(type, data.reduction, want, sources, n, COUNT, n);
    memcpy(own_gpu_view(send), values[rank], COUNT * size);
    if (in_pieces(comm, &data, by_rank, send, recv, want))
        return 1;
    RETURNS(0, braid_reduce(comm, send, recv, COUNT, type, data.reduction, 1, by_rank, NULL));
    CHECK(rank != 1 || !memcmp(own_gpu_view(recv), want, COUNT * size), "reduce");
    RETURNS(0, braid_reduce_scatter(comm, send, recv, block, type, data.reduction, by_rank, NULL));
    CHECK(!memcmp(own_gpu_view(recv), want + (size_t)rank * block * size, block * size),
          "reduce-scatter");
    for (int r = 0; r < n; r++)
        free(values[r]);
    free(want);
    return 0;
}

static const enum braid_type types[] = {BRAID_FLOAT32, BRAID_FLOAT16, BRAID_BFLOAT16};

/* context: NULL: the environment asks for the order. */
static int by_rank(struct braid_comm *comm, void *context)
{
    uint8_t *send = malloc(COUNT * 4), *recv = braid_alloc(comm, COUNT * 4);

    for (int t = 0; t < 3; t++)
        if (by_rank_from(comm, types[t], context, send, recv))
            return 1;
    free(send);
    return 0;
}

static void order__same_bits_on_every_back_end(void **state)
{
    struct braid_options options = {.order = BRAID_ORDER_RANKS};

    (void)state;
    for (size_t i = 0; i < JOBS; i++)
        ranks_run(&jobs[i], by_rank, &options);
}

static void order__of_the_environment(void **state)
{
    (void)state;
    setenv("BRAID_ORDER", "ranks", 1);
    ranks_run(&jobs[0], by_rank, NULL);
    unsetenv("BRAID_ORDER");
}

/* Staged, or by the GPU's kernels; between the processes of the host, too. */
static int by_rank_on_gpu(struct braid_comm *comm, void *context)
{
    uint8_t *send = own_gpu_alloc(COUNT * 4), *recv = own_gpu_alloc(COUNT * 4);
    struct braid_options options = {.order = BRAID_ORDER_RANKS};

    (void)context;
    for (int t = 0; t < 3; t++)
        if (by_rank_from(comm, types[t], &options, send, recv))
            return 1;
    own_gpu_free(send);
    own_gpu_free(recv);
    return 0;
}

static void order__from_gpus(void **state)
{
    static const char *const places[] = {"auto", "cpu", "gpu"};

    (void)state;
    setenv("BRAID_CUDA_LIBRARY", FAKE_CUDA_LIBRARY, 1);
    for (int i = 0; i < 3; i++) {
        setenv("BRAID_GPU_REDUCE", places[i], 1);
        ranks_run(&jobs[i], by_rank_on_gpu, NULL);
    }
    unsetenv("BRAID_GPU_REDUCE");
    unsetenv("BRAID_CUDA_LIBRARY");
}

static int refused(struct braid_comm *comm, void *context)
{
    struct braid_options wrong = {.order = (enum braid_order)2},
                         ring = {.order = BRAID_ORDER_RANKS, .algorithm = "ring"};
    float x = 1;

    (void)context;
    SAYS(-EINVAL, "order 2",
         braid_allreduce(comm, &x, &x, 1, BRAID_FLOAT32, BRAID_SUM, &wrong, NULL));
    SAYS(-EINVAL, "ring|direct",
         braid_allreduce(comm, &x, &x, 1, BRAID_FLOAT32, BRAID_SUM, &ring, NULL));
    return 0;
}

static void order__what_cannot_be(void **state)
{
    (void)state;
    ranks_run(&jobs[0], refused, NULL);
}

/* ---- the program's own ----------------------------------------------------------------------- */

struct best {
    float value;
    int32_t rank;
};

static void least(void *context, const void *in, void *inout, size_t count, enum braid_type type)
{
    const struct best *a = in;
    struct best *b = inout;

    (void)context;
    (void)type;
    for (size_t i = 0; i < count; i++)
        if (a[i].value < b[i].value || (a[i].value == b[i].value && a[i].rank < b[i].rank))
            b[i] = a[i];
}

/* Of what is written in base 10, one behind the other: "first" then "second". 0 is nothing. */
static void append(void *context, const void *in, void *inout, size_t count, enum braid_type type)
{
    const uint64_t *a = in;
    uint64_t *b = inout;

    (void)type;
    for (size_t i = 0; i < count; i++) {
        uint64_t shift = 1;

        while (shift <= b[i])
            shift *= 10;
        b[i] += a[i] * shift;
    }
    ++*(int *)context;
}

#define SMALL 3u
#define LARGE 20000u

/* MINLOC by any algorithm; and in the order of the ranks, what depends on it. */
static int own_reductions(struct braid_comm *comm, void *context)
{
    static const char *const algorithms[] = {NULL, "ring", "direct", "doubling", "double_tree"};
    static struct best pairs[LARGE], result[LARGE];
    static uint64_t digits[LARGE], all[LARGE];
    int rank = braid_rank(comm), n = braid_size(comm), calls = 0;
    enum braid_reduction minimum, concatenation, again;
    uint64_t want = 0;

    (void)context;
    RETURNS(0, braid_reduction_create(comm, least, NULL, 1, &minimum));
    RETURNS(0, braid_reduction_create(comm, append, &calls, 0, &concatenation));
    for (uint32_t i = 0; i < LARGE; i++) {
        pairs[i] = (struct best){(float)((i + 3 * (uint32_t)rank) % 7), rank};
        digits[i] = (uint64_t)rank + 1;
    }
    for (int r = 0; r < n; r++)
        want = want * 10 + (uint64_t)r + 1;
    for (int k = 0; k < 10; k++) {
        struct braid_options options = {.algorithm = algorithms[k / 2]};
        uint32_t count = k % 2 ? LARGE : SMALL;

        RETURNS(0, braid_allreduce(comm, pairs, result, count, BRAID_COMPLEX64, minimum, &options,
                                   NULL));
        for (uint32_t i = 0; i < count; i++) {
            struct best right = {100, 0};

            for (int r = 0; r < n; r++) {
                float value = (float)((i + 3 * (uint32_t)r) % 7);

                if (value < right.value)
                    right = (struct best){value, r};
            }
            CHECK(!memcmp(&right, &result[i], sizeof right), "element %u, algorithm %d", i, k / 2);
        }
        RETURNS(0,
                braid_allreduce(comm, digits, all, count, BRAID_UINT64, concatenation, NULL, NULL));
        for (uint32_t i = 0; i < count; i++)
            CHECK(all[i] == want, "element %u is %llu", i, (unsigned long long)all[i]);
    }
    CHECK(calls > 0, "nobody called the function");
    RETURNS(0, braid_reduction_free(comm, minimum));
    SAYS(-EINVAL, "freed", braid_reduction_free(comm, minimum));
    SAYS(-EINVAL, "freed",
         braid_allreduce(comm, pairs, result, 1, BRAID_COMPLEX64, minimum, NULL, NULL));
    RETURNS(0, braid_reduction_create(comm, least, NULL, 1, &again));
    CHECK(again != minimum && again != concatenation, "a number is used twice");
    SAYS(-EINVAL, "ring|direct",
         braid_allreduce(comm, digits, all, LARGE, BRAID_UINT64, concatenation,
                         &(struct braid_options){.algorithm = "ring"}, NULL));
    return 0;
}

static void reductions__of_the_program(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++)
        ranks_run(&jobs[i], own_reductions, NULL);
}

/* On a GPU's memory the CPU combines. */
static int own_on_gpu(struct braid_comm *comm, void *context)
{
    uint64_t *digits = own_gpu_alloc(LARGE * 8), *all = own_gpu_alloc(LARGE * 8);
    enum braid_reduction concatenation;
    uint64_t want = 0;
    int calls = 0;

    (void)context;
    RETURNS(0, braid_reduction_create(comm, append, &calls, 0, &concatenation));
    for (int r = 0; r < braid_size(comm); r++)
        want = want * 10 + (uint64_t)r + 1;
    for (uint32_t i = 0; i < LARGE; i++)
        ((uint64_t *)own_gpu_view(digits))[i] = (uint64_t)braid_rank(comm) + 1;
    for (uint32_t count = SMALL; count <= LARGE; count += LARGE - SMALL) {
        RETURNS(0,
                braid_allreduce(comm, digits, all, count, BRAID_UINT64, concatenation, NULL, NULL));
        for (uint32_t i = 0; i < count; i++)
            CHECK(((uint64_t *)own_gpu_view(all))[i] == want, "element %u", i);
    }
    CHECK(calls > 0, "nobody called the function");
    own_gpu_free(digits);
    own_gpu_free(all);
    return 0;
}

static void reductions__on_gpus(void **state)
{
    (void)state;
    setenv("BRAID_CUDA_LIBRARY", FAKE_CUDA_LIBRARY, 1);
    ranks_run(&jobs[0], own_on_gpu, NULL);
    ranks_run(&jobs[1], own_on_gpu, NULL);
    unsetenv("BRAID_CUDA_LIBRARY");
}

/* A function that calls braid gets an error, and the job goes on. */
static void calls_back(void *context, const void *in, void *inout, size_t count,
                       enum braid_type type)
{
    struct braid_comm *comm = *(struct braid_comm **)context;

    (void)in;
    (void)type;
    for (size_t i = 0; i < count; i++)
        ((int32_t *)inout)[i] = braid_barrier(comm, NULL, NULL);
}

static int misuse(struct braid_comm *comm, void *context)
{
    enum braid_reduction reductions[64], one_more;
    int32_t x = 1;

    (void)context;
    RETURNS(-EINVAL, braid_reduction_create(comm, NULL, NULL, 1, &one_more));
    RETURNS(-EINVAL, braid_reduction_create(comm, least, NULL, 1, NULL));
    RETURNS(-EINVAL, braid_reduction_free(comm, BRAID_SUM));
    RETURNS(-EINVAL, braid_reduction_free(comm, BRAID_REDUCTION_USER));
    for (int i = 0; i < 64; i++)
        RETURNS(0, braid_reduction_create(comm, calls_back, &comm, 1, &reductions[i]));
    SAYS(-ENOSPC, "64", braid_reduction_create(comm, calls_back, &comm, 1, &one_more));
    RETURNS(0, braid_allreduce(comm, &x, &x, 1, BRAID_INT32, reductions[63], NULL, NULL));
    CHECK(x == -EDEADLK, "a call inside returned %d", x);
    return 0;
}

static void reductions__misuse(void **state)
{
    (void)state;
    ranks_run(&jobs[1], misuse, NULL);
}

/* Rank 0 has created another one before. */
static int disagree(struct braid_comm *comm, void *context)
{
    enum braid_reduction reduction;
    int32_t x[5000] = {1};
    int rc;

    (void)context;
    if (!braid_rank(comm))
        RETURNS(0, braid_reduction_create(comm, least, NULL, 1, &reduction));
    RETURNS(0, braid_reduction_create(comm, least, NULL, 1, &reduction));
    rc = braid_allreduce(comm, x, x, 5000, BRAID_INT32, reduction, NULL, NULL);
    CHECK((rc == -EPROTO || rc == -ECANCELED) && strstr(braid_last_error(), "reduction"), "got %d",
          rc);
    return 0;
}

static void reductions__ranks_that_disagree(void **state)
{
    (void)state;
    ranks_run(&(struct ranks){.size = 2, .backend = "tcp", .devices = "127.0.0.1"}, disagree, NULL);
    ranks_run(&(struct ranks){.size = 2, .backend = "shm"}, disagree, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order__same_bits_on_every_back_end),
        cmocka_unit_test(order__of_the_environment),
        cmocka_unit_test(order__from_gpus),
        cmocka_unit_test(order__what_cannot_be),
        cmocka_unit_test(reductions__of_the_program),
        cmocka_unit_test(reductions__on_gpus),
        cmocka_unit_test(reductions__misuse),
        cmocka_unit_test(reductions__ranks_that_disagree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
