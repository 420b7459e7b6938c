/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce of GPU memory over two hosts of two ranks each (collectives/gpu/gpu_local.h, note 13),
 * on the fake driver: the host's GPUs first, then the network. The hosts are processes of this one
 * that see different boot IDs; between them goes TCP over loopback.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "gpu/reduce.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/system/app_gpu.h"
#include "tests/system/ranks.h"

/* The fake driver has the kernels, whatever is loaded; a build under a sanitizer has no image, and
 * takes this one. */
const struct br_gpu_image br_gpu_image = {"image", NULL, "sm_none"};

#define HOSTS    2
#define PER_HOST 2
#define RANKS    (HOSTS * PER_HOST)
#define LARGE    70001u /* elements: more than BR_GPU_HOSTS_MIN_BYTES */

static void run(ranks_main *body, void *context)
{
    setenv("BRAID_CUDA_LIBRARY", FAKE_CUDA_LIBRARY, 1);
    setenv("BRAID_GPU_REDUCE", "auto", 1);
    ranks_run(&(struct ranks){.size = RANKS,
                              .per_host = PER_HOST,
                              .backend = "auto",
                              .devices = "127.0.0.1",
                              .timeout_ms = RANKS_PATIENCE},
              body, context);
}

struct seen {
    uint64_t shared, up, down, refused, operations;
};

static struct seen look(struct braid_comm *comm)
{
    struct braid_stats stats = {0};

    braid_stats(comm, &stats);
    return (struct seen){stats.gpu_peer_bytes, stats.gpu_to_host_bytes, stats.host_to_gpu_bytes,
                         stats.downgrade_gpu_sharing, stats.operations};
}

static int32_t given(size_t i, int rank)
{
    return (int32_t)(i % 1000) + 7 * rank;
}

/* What all of them sum up to. */
static int32_t expected(size_t i)
{
    return RANKS * (int32_t)(i % 1000) + 7 * (RANKS * (RANKS - 1) / 2);
}

static void fill(void *memory, size_t count, int rank)
{
    for (size_t i = 0; i < count; i++)
        ((int32_t *)own_gpu_view(memory))[i] = given(i, rank);
}

static int check(const void *memory, size_t count)
{
    const int32_t *got = own_gpu_view(memory);

    for (size_t i = 0; i < count; i++)
        CHECK(got[i] == expected(i), "element %zu of %zu: %d", i, count, got[i]);
    return 0;
}

static int sum_and_check(struct braid_comm *comm, void *data, size_t count)
{
    fill(data, count, braid_rank(comm));
    RETURNS(0, braid_allreduce(comm, data, data, count, BRAID_INT32, BRAID_SUM, NULL, NULL));
    return check(data, count);
}

/* ---- results --------------------------------------------------------------------------------- */

/* 2 (n-1)/n of the buffer is read from the other rank of the host, 1/n is copied to the host and
 * back: that of the network. */
static int results(struct braid_comm *comm, void *context)
{
    (void)context;
    CHECK(look(comm).operations == 0, "the program has made no calls");
    for (int turn = 0; turn < 3; turn++) {
        size_t count = LARGE + (size_t)turn;
        int32_t *in = own_gpu_alloc(count * sizeof *in),
                *out = turn == 1 ? in : own_gpu_alloc(count * sizeof *in);
        struct seen before, after;

        if (!turn && sum_and_check(comm, in, 100)) /* opens the GPU, by the engine */
            return 1;
        before = look(comm);
        fill(in, count, braid_rank(comm));
        RETURNS(0, braid_allreduce(comm, in, out, count, BRAID_INT32, BRAID_SUM, NULL, NULL));
        if (check(out, count))
            return 1;
        after = look(comm);
        CHECK(after.shared - before.shared >= (count - 1) * 4 &&
                  after.shared - before.shared <= (count + 1) * 4,
              "%llu bytes shared", (unsigned long long)(after.shared - before.shared));
        CHECK(after.up - before.up <= (count / 2 + 1) * 4 && after.up - before.up >= count / 2 * 4,
              "%llu bytes to the host", (unsigned long long)(after.up - before.up));
        CHECK(after.down - before.down == after.up - before.up, "%llu bytes back",
              (unsigned long long)(after.down - before.down));
        CHECK(!after.refused, "a downgrade");
        for (size_t i = 0; i < count && out != in; i++)
            CHECK(((int32_t *)own_gpu_view(in))[i] == given(i, braid_rank(comm)),
                  "the input has changed");
        own_gpu_free(in);
        if (out != in)
            own_gpu_free(out);
    }
    return 0;
}

static void hosts__results(void **state)
{
    (void)state;
    run(results, NULL);
}

/* Bytes of each of the two allocations that hold LARGE elements. */
#define HALF (8 * FAKE_CUDA_GRAIN)

/* Of cuMemCreate(), over two allocations: their descriptors go to the other rank of the host
 * alone. */
static int created(struct braid_comm *comm, void *context)
{
    char *at = own_gpu_reserve(2 * HALF);
    int32_t *data = (int32_t *)(void *)(at + HALF - 100000);

    (void)context;
    for (size_t i = 0; i < 2; i++)
        own_gpu_map(at + i * HALF, HALF, true);
    for (int turn = 0; turn < 2; turn++)
        if (sum_and_check(comm, data, LARGE))
            return 1;
    CHECK(look(comm).shared >= 2 * (LARGE - 1) * 4 && !look(comm).refused, "%llu bytes shared",
          (unsigned long long)look(comm).shared);
    for (size_t i = 0; i < 2; i++)
        own_gpu_unmap(at + i * HALF, HALF);
    own_gpu_unreserve(at, 2 * HALF);
    return 0;
}

static void hosts__memory_of_cuMemCreate(void **state)
{
    (void)state;
    run(created, NULL);
}

/* Floats, averages among them: the same bits on all ranks. Integers are divided once. */
static int averages(struct braid_comm *comm, void *context)
{
    float *data, *mine = malloc(LARGE * sizeof *mine);
    int32_t *integers;
    uint64_t shared;

    (void)context;
    CHECK(mine, "no memory");
    data = own_gpu_alloc(LARGE * sizeof *data);
    for (size_t i = 0; i < LARGE; i++)
        ((float *)own_gpu_view(data))[i] = (float)i / 3.0f + 0.1f * (float)braid_rank(comm);
    RETURNS(0, braid_allreduce(comm, data, data, LARGE, BRAID_FLOAT32, BRAID_AVG, NULL, NULL));
    shared = look(comm).shared;
    CHECK(shared, "nothing was shared");
    memcpy(mine, own_gpu_view(data), LARGE * sizeof *mine);
    for (size_t i = 0; i < LARGE; i++) {
        double wanted = (double)i / 3 + 0.15;

        CHECK((double)mine[i] > wanted - 1e-2 && (double)mine[i] < wanted + 1e-2, "element %zu: %g",
              i, (double)mine[i]);
    }
    RETURNS(0, braid_broadcast(comm, data, data, LARGE, BRAID_FLOAT32, 1, NULL, NULL));
    CHECK(memcmp(mine, own_gpu_view(data), LARGE * sizeof *mine) == 0, "other bits than on rank 1");
    integers = own_gpu_alloc(LARGE * sizeof *integers);
    for (size_t i = 0; i < LARGE; i++)
        ((int32_t *)own_gpu_view(integers))[i] =
            braid_rank(comm) % 2 ? 1 : 2; /* 6 / 4, not (3 / 2) and so on */
    RETURNS(0,
            braid_allreduce(comm, integers, integers, LARGE, BRAID_INT32, BRAID_AVG, NULL, NULL));
    CHECK(((int32_t *)own_gpu_view(integers))[7] == 1 && look(comm).shared == shared, "%d",
          ((int32_t *)own_gpu_view(integers))[7]);
    own_gpu_free(integers);
    own_gpu_free(data);
    free(mine);
    return 0;
}

static void hosts__averages(void **state)
{
    (void)state;
    run(averages, NULL);
}

/* One rank has host memory: its host says no, and all go through host memory, those of the other
 * host, too. Several at once, others between them. */
static int mixed(struct braid_comm *comm, void *context)
{
    struct braid_op *ops[8];
    uint64_t share = 0;
    void *data[8];

    (void)context;
    for (int i = 0; i < 8; i++) {
        bool on_host = i % 3 == 1 && braid_rank(comm) == i % RANKS;

        data[i] = on_host ? malloc(LARGE * 4) : own_gpu_alloc(LARGE * 4);
        fill(data[i], LARGE, braid_rank(comm));
        if (i % 4 == 3) {
            for (size_t e = 0; e < LARGE && braid_rank(comm) == i % RANKS; e++)
                ((int32_t *)own_gpu_view(data[i]))[e] = expected(e);
            RETURNS(0, braid_broadcast(comm, data[i], data[i], LARGE, BRAID_INT32, i % RANKS, NULL,
                                       &ops[i]));
        } else {
            share += i % 3 != 1;
            RETURNS(0, braid_allreduce(comm, data[i], data[i], LARGE, BRAID_INT32, BRAID_SUM, NULL,
                                       &ops[i]));
        }
    }
    for (int i = 7; i >= 0; i--) {
        RETURNS(0, braid_wait(ops[i], -1));
        if (check(data[i], LARGE))
            return 1;
        if (i % 3 == 1 && braid_rank(comm) == i % RANKS)
            free(data[i]);
        else
            own_gpu_free(data[i]);
    }
    CHECK(look(comm).shared >= share * (LARGE - 1) * 4 &&
              look(comm).shared <= share * (LARGE + 1) * 4,
          "%llu bytes shared", (unsigned long long)look(comm).shared);
    return 0;
}

static void hosts__not_all_have_a_gpu(void **state)
{
    (void)state;
    run(mixed, NULL);
}

/* ---- refusals and errors --------------------------------------------------------------------- */

/* On rank 3: both hosts go through host memory; said and counted there. */
static int refusing(struct braid_comm *comm, void *context)
{
    bool one = braid_rank(comm) == 3;
    void *data;

    data = own_gpu_alloc(LARGE * 4);
    if (one) {
        strcpy(fake_cuda()->fail, context);
        fake_cuda()->fail_result = BR_CUDA_NOT_SUPPORTED;
    }
    for (int turn = 0; turn < 2; turn++)
        if (sum_and_check(comm, data, LARGE))
            return 1;
    CHECK(!look(comm).shared && look(comm).up == 2 * LARGE * 4, "%llu bytes to the host",
          (unsigned long long)look(comm).up);
    CHECK(look(comm).refused == one, "%llu downgrades", (unsigned long long)look(comm).refused);
    fake_cuda()->fail[0] = 0;
    own_gpu_free(data);
    return 0;
}

static void hosts__refused(void **state)
{
    static const char *const symbols[] = {"cuIpcGetMemHandle", "cuIpcOpenMemHandle_v2"};

    (void)state;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        run(refusing, (void *)(uintptr_t)symbols[i]);
}

struct fault {
    const char *symbol;
    /* so many calls; of copies two go to the host, a fragment each, two come back, and one fetches
     * the other GPU's piece */
    unsigned after;
    const char *expected; /* that say which call it was; NULL: any */
};

/* A kernel fails on rank 0, or a copy: to the host and back between hosts, and from the other GPU.
 * The job ends with the driver's message, everywhere. */
static int failing(struct braid_comm *comm, void *context)
{
    const struct fault *fault = context;
    void *data;
    int rc;

    data = own_gpu_alloc(LARGE * 4);
    if (sum_and_check(comm, data, LARGE)) /* opens the GPU, which tries the kernels */
        return 1;
    if (braid_rank(comm) == 0) {
        strcpy(fake_cuda()->fail, fault->symbol);
        fake_cuda()->fail_result = BR_CUDA_LAUNCH_FAILED;
        fake_cuda()->fail_after = fault->after;
    }
    fill(data, LARGE, braid_rank(comm));
    rc = braid_allreduce(comm, data, data, LARGE, BRAID_INT32, BRAID_SUM, NULL, NULL);
    /* From the first copy back on the other host may have all it needs. */
    CHECK(rc < 0 || (fault->after >= 2 && braid_rank(comm) >= PER_HOST), "got %d", rc);
    CHECK(braid_rank(comm) != 0 || strstr(braid_last_error(), "CUDA_ERROR_LAUNCH_FAILED"), "why");
    CHECK(braid_rank(comm) != 0 || !fault->expected || strstr(braid_last_error(), fault->expected),
          "other than %s: %s", fault->expected, braid_last_error());
    fake_cuda()->fail[0] = 0;
    own_gpu_free(data);
    return 0;
}

static void hosts__fails(void **state)
{
    static const struct fault faults[] = {{"cuLaunchKernel", 0, NULL},
                                          {"cuMemcpyAsync", 0, "to the host"},
                                          {"cuMemcpyAsync", 2, "from the host"},
                                          {"cuMemcpyAsync", 4, "of another process"},
                                          {"cuEventQuery", 0, NULL}};

    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        run(failing, (void *)(uintptr_t)&faults[i]);
}

/* A rank of the other host does not come: its deadline ends it everywhere; or it dies, and that
 * does. */
static int missing(struct braid_comm *comm, void *context)
{
    struct braid_options hasty = {.timeout_ms = 500};
    bool dies = context != NULL;
    void *data;
    int rc;

    data = own_gpu_alloc(LARGE * 4);
    if (sum_and_check(comm, data, LARGE))
        return 1;
    ranks_tell(1);
    ranks_await(1, RANKS); /* nobody needs rank 3 for that any more */
    if (braid_rank(comm) == 3 && dies)
        _exit(0);
    if (braid_rank(comm) == 3) {
        ranks_await(0, RANKS - 1);
    } else {
        rc = braid_allreduce(comm, data, data, LARGE, BRAID_INT32, BRAID_SUM, dies ? NULL : &hasty,
                             NULL);
        CHECK(rc < 0, "got %d", rc);
        /* of what the program called, whichever part of it is late */
        CHECK(dies || (strstr(braid_last_error(), "allreduce of 70001 ") &&
                       !strstr(braid_last_error(), " of communicator ")),
              "%s", braid_last_error());
        ranks_tell(0);
    }
    own_gpu_free(data);
    return 0;
}

static void hosts__a_rank_is_missing(void **state)
{
    (void)state;
    run(missing, NULL);
    run(missing, "dies");
}

/* ---- disagreement ---------------------------------------------------------------------------- */

/* What some ranks call where the others sum LARGE elements by their GPUs' memory and the network;
 * words: what all ranks must read of it. */
struct other {
    const char *words;
    /* the ranks from this one on make the other call: rank 3 alone, or all of its host */
    int first;
    size_t count;
    enum braid_reduction reduction;
    const char *algorithm;
    bool broadcasts;
};

static int disagree(struct braid_comm *comm, void *context)
{
    const struct other *other = context;
    struct braid_options options = {0};
    double start;
    int32_t *data;
    int rc;

    data = own_gpu_alloc(2 * LARGE * sizeof *data);
    if (sum_and_check(comm, data, LARGE)) /* opens the GPU and maps the memory */
        return 1;
    ranks_tell(0);
    ranks_await(0, RANKS); /* all have ended that one */
    start = ranks_now_ms();
    if (other->algorithm)
        options.algorithm = other->algorithm;
    if (braid_rank(comm) < other->first)
        rc = braid_allreduce(comm, data, data, LARGE, BRAID_INT32, BRAID_SUM, NULL, NULL);
    else if (other->broadcasts)
        rc = braid_broadcast(comm, data, data, other->count, BRAID_INT32, 0, NULL, NULL);
    else
        rc = braid_allreduce(comm, data, data, other->count, BRAID_INT32, other->reduction,
                             &options, NULL);
    /* Ranks of one host find out at once: the job may have failed before others have called. */
    CHECK(rc == -EPROTO || rc == -ECANCELED, "%s: got %d", other->words, rc);
    CHECK(ranks_now_ms() - start < RANKS_SOON, "%s: noticed late", other->words);
    CHECK(says_all(braid_last_error(), other->words), "the message does not name all of %s",
          other->words);
    /* It is about what the program has called, whichever part of it has shown the difference. */
    CHECK(!strstr(braid_last_error(), " of communicator "), "not the program's communicator");
    own_gpu_free(data);
    return 0;
}

static void hosts__disagreement(void **state)
{
    static const struct other others[] = {
        {"count|allreduce of 70001 int32|100", 3, 100, BRAID_SUM, NULL, false},
        {"count|allreduce of 70001 int32|60000", 3, 60000, BRAID_SUM, NULL, false},
        {"count|allreduce of 70001 int32|80000", 3, 80000, BRAID_SUM, NULL, false},
        {"reduction|allreduce of 70001 int32 (sum)|(avg)", 3, LARGE, BRAID_AVG, NULL, false},
        {"algorithm|messages|GPU", 3, LARGE, BRAID_SUM, "ring", false},
        {"collective|allreduce of 70001 int32|broadcast of 70001 int32", 3, LARGE, BRAID_SUM, NULL,
         true},
        {"count|allreduce of 70001 int32|100", 2, 100, BRAID_SUM, NULL, false},
        {"count|allreduce of 70001 int32|60000", 2, 60000, BRAID_SUM, NULL, false},
        {"count|allreduce of 70001 int32|80000", 2, 80000, BRAID_SUM, NULL, false},
        {"reduction|allreduce of 70001 int32 (sum)|(avg)", 2, LARGE, BRAID_AVG, NULL, false},
        {"reduction|allreduce of 70001 int32 (sum)|(max)", 2, LARGE, BRAID_MAX, NULL, false},
        {"algorithm|messages|GPU", 2, LARGE, BRAID_SUM, "ring", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        run(disagree, (void *)(uintptr_t)&others[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts__results),           cmocka_unit_test(hosts__memory_of_cuMemCreate),
        cmocka_unit_test(hosts__averages),          cmocka_unit_test(hosts__not_all_have_a_gpu),
        cmocka_unit_test(hosts__refused),           cmocka_unit_test(hosts__fails),
        cmocka_unit_test(hosts__a_rank_is_missing), cmocka_unit_test(hosts__disagreement),
    };

    if (geteuid()) {
        puts("needs root: hosts are told apart by what is mounted over the boot ID");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
