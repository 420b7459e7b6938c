/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives of four real processes that stay on their (fake) GPUs: NICs read and write the memory
 * there themselves (nics.h), which no CPU can touch, and kernels combine it. Devices of the setup
 * bcube:4,1 (doc/guest.md). Counters are those of all ranks together: which of them sends how much
 * depends on the algorithm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "collectives/schedule/type.h"
#include "gpu/reduce.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/guest/nics.h"
#include "tests/system/collective.h"
#include "tests/system/app_gpu.h"
#include "tests/system/ranks.h"

#define RANKS 4
#define EAGER 4096u
#define ROOM  (4u << 20)

/* The fake driver has the kernels, whatever is loaded. */
const struct br_gpu_image br_gpu_image = {"image", NULL, "sm_none"};

/* ---- memory ---------------------------------------------------------------------------------- */

struct memory {
    uint8_t *in, *out; /* ROOM bytes each, of one allocation */
};

/* Memory that the NICs know, as well as all that braid has on the GPU, and no CPU can touch; and
 * the counters then. */
static int make_known(struct braid_comm *comm, struct memory *m, struct braid_stats *now)
{
    m->in = own_gpu_alloc((size_t)2 * ROOM);
    m->out = m->in + ROOM;
    RETURNS(0, braid_allgather(comm, m->in, m->out, EAGER + 4, BRAID_UINT8, NULL, NULL));
    fake_cuda_hide();
    RETURNS(0, braid_stats(comm, now));
    return 0;
}

/* All ranks' together: in host memory, by messages that are not counted. */
static int moved(struct braid_comm *comm, const struct braid_stats *before,
                 const uint64_t expected[5])
{
    struct braid_stats now = {0};

    if (nics_since(comm, before, &now))
        return 1;
    uint64_t all[] = {now.nic_from_gpu_bytes, now.nic_to_gpu_bytes, now.gpu_reduced_bytes,
                      now.gpu_to_host_bytes, now.host_to_gpu_bytes};

    RETURNS(0, braid_allreduce(comm, all, all, 5, BRAID_UINT64, BRAID_SUM, NULL, NULL));
    for (int i = 0; i < 5; i++)
        CHECK(all[i] == expected[i],
              "NICs read %llu and wrote %llu, kernels combined %llu, staged were %llu and %llu; "
              "expected %llu "
              "%llu %llu %llu %llu",
              (unsigned long long)all[0], (unsigned long long)all[1], (unsigned long long)all[2],
              (unsigned long long)all[3], (unsigned long long)all[4],
              (unsigned long long)expected[0], (unsigned long long)expected[1],
              (unsigned long long)expected[2], (unsigned long long)expected[3],
              (unsigned long long)expected[4]);
    return 0;
}

#define MOVED(before, nics, combined, to_host, to_gpu)                                             \
    do {                                                                                           \
        if (moved(comm, before, (const uint64_t[5]){nics, nics, combined, to_host, to_gpu}))       \
            return 1;                                                                              \
    } while (0)

/* ---- all-reduce ------------------------------------------------------------------------------ */

struct way {
    const char *algorithm;
    enum braid_type type;
    size_t count;
    bool in_place;
};

/* From `in` to `out`, either on the GPU or in host memory. */
static int all_reduce(struct braid_comm *comm, const struct way *way, uint8_t *in, uint8_t *out)
{
    const struct collective_call call = {.of = {.collective = BR_ALLREDUCE,
                                                .data = {.seed = way->count, .type = way->type},
                                                .count = way->count,
                                                .in_place = way->in_place},
                                         .options = {.algorithm = way->algorithm}};

    return collective_check(comm, &call, in + CASE_GUARD, out + CASE_GUARD, NULL);
}

/* Ring and halving send 2 (n - 1) / n of the buffer on each rank, and combine half of that. */
static int all_reduces(struct braid_comm *comm, void *context)
{
    static const struct way ways[] = {
        {"ring", BRAID_FLOAT32, 100000, true},     {"ring", BRAID_INT8, 100003, false},
        {"ring", BRAID_FLOAT64, 33331, false},     {"halving", BRAID_FLOAT32, 100000, false},
        {"halving", BRAID_INT8, 100003, true},     {"halving", BRAID_FLOAT64, 33331, true},
        {"direct", BRAID_INT32, 50001, true},      {"ring", BRAID_FLOAT32, 700001, true},
        {"halving", BRAID_FLOAT32, 700001, false},
    };
    struct braid_stats before = {0};
    struct memory m;

    (void)context;
    if (make_known(comm, &m, &before))
        return 1;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        uint64_t bytes = ways[i].count * br_type_size(ways[i].type);

        RETURNS(0, braid_stats(comm, &before));
        CHECK(before.downgrade_gpu_direct == 0 && before.downgrade_gpu_reduction == 0,
              "downgrades");
        if (all_reduce(comm, &ways[i], m.in, m.out))
            return 1;
        MOVED(&before, 6 * bytes, (strcmp(ways[i].algorithm, "direct") ? 3 : 1) * bytes, 0, 0);
    }
    own_gpu_free(m.in);
    return 0;
}

/* Rank 1 has host memory: of what the others send it, and it them, half is read and written on
 * GPUs. */
static int mixed(struct braid_comm *comm, void *context)
{
    static const struct way way = {"ring", BRAID_FLOAT32, 100000, true};
    static uint8_t host[400000 + 2 * CASE_GUARD];
    struct braid_stats before = {0};
    struct memory m;

    (void)context;
    if (make_known(comm, &m, &before))
        return 1;
    if (all_reduce(comm, &way, braid_rank(comm) == 1 ? host : m.in,
                   braid_rank(comm) == 1 ? host : m.in))
        return 1;
    MOVED(&before, 6u * 400000 / 4 * 3, 3u * 400000 / 4 * 3, 0, 0);
    own_gpu_free(m.in);
    return 0;
}

/* What is too small goes in messages that the CPU copies. */
static int small(struct braid_comm *comm, void *context)
{
    static const struct way way = {"ring", BRAID_FLOAT32, EAGER, true};
    struct braid_stats before = {0};
    struct memory m;

    (void)context;
    if (make_known(comm, &m, &before))
        return 1;
    if (all_reduce(comm, &way, m.in, m.in))
        return 1;
    MOVED(&before, 0, 0, 4 * 4 * EAGER, 4 * 4 * EAGER);
    own_gpu_free(m.in);
    return 0;
}

/* Two hosts of two ranks: each rank combines half of its host's values (CUDA IPC), and has that
 * half combined with the other host's by NICs: by doubling, which sends and combines all of it on
 * both sides. */
static int two_hosts(struct braid_comm *comm, void *context)
{
    static const struct way way = {NULL, BRAID_FLOAT32, 200000, false};
    struct braid_stats before = {0};
    struct memory m;

    (void)context;
    if (make_known(comm, &m, &before))
        return 1;
    if (all_reduce(comm, &way, m.in, m.out))
        return 1;
    MOVED(&before, 4u * 400000, 4u * 400000 + 4u * 400000, 0, 0);
    own_gpu_free(m.in);
    return 0;
}

/* ---- the others ------------------------------------------------------------------------------ */

#define BLOCK 50001u /* bytes; odd, so that blocks begin anywhere */

static int bytes_of(struct braid_comm *comm, enum br_collective collective, int root,
                    const char *algorithm, const struct memory *m)
{
    const struct collective_call call = {
        .of = {.collective = collective,
               .data = {.seed = (uint64_t)collective, .type = BRAID_UINT8},
               .count = BLOCK,
               .root = root},
        .options = {.algorithm = algorithm},
    };

    return collective_check(comm, &call, m->in + CASE_GUARD, m->out + CASE_GUARD, NULL);
}

/* Moves each block to three ranks, and one block to three ranks. */
static int spread(struct braid_comm *comm, const struct memory *m)
{
    return bytes_of(comm, BR_ALLGATHER, 0, "ring", m) || bytes_of(comm, BR_BROADCAST, 2, NULL, m);
}

static int without_reduction(struct braid_comm *comm, void *context)
{
    struct braid_stats before = {0};
    struct memory m;

    (void)context;
    if (make_known(comm, &m, &before) || spread(comm, &m))
        return 1;
    MOVED(&before, (12 + 3) * BLOCK, 0, 0, 0);
    RETURNS(0, braid_stats(comm, &before));
    if (bytes_of(comm, BR_ALLTOALL, 0, NULL, &m))
        return 1;
    MOVED(&before, 12 * BLOCK, 0, 0, 0);
    RETURNS(0, braid_stats(comm, &before));
    if (bytes_of(comm, BR_GATHER, 1, NULL, &m) || bytes_of(comm, BR_SCATTER, 1, NULL, &m))
        return 1;
    MOVED(&before, 2 * 3 * BLOCK, 0, 0, 0);
    /* By a tree a rank passes on what it has gathered, in scratch. */
    RETURNS(0, braid_stats(comm, &before));
    if (bytes_of(comm, BR_GATHER, 1, "tree", &m))
        return 1;
    MOVED(&before, 4 * BLOCK, 0, 0, 0);
    own_gpu_free(m.in);
    return 0;
}

/* ---- what is staged -------------------------------------------------------------------------- */

/* Kernels are not to be used: nothing is direct but what combines nothing. */
static int without_kernels(struct braid_comm *comm, void *context)
{
    static const struct way way = {"ring", BRAID_FLOAT32, 100000, true};
    struct braid_stats before = {0};
    struct memory m;

    (void)context;
    if (make_known(comm, &m, &before))
        return 1;
    if (all_reduce(comm, &way, m.in, m.in))
        return 1;
    MOVED(&before, 0, 0, 4 * 400000, 4 * 400000);
    RETURNS(0, braid_stats(comm, &before));
    if (spread(comm, &m))
        return 1;
    MOVED(&before, (12 + 3) * BLOCK, 0, 0, 0);
    own_gpu_free(m.in);
    return 0;
}

/* The GPU has no memory for scratch: said and counted once; what needs none stays direct. */
static int without_workspace(struct braid_comm *comm, void *context)
{
    static const struct way ways[] = {{"ring", BRAID_FLOAT32, 100000, true},
                                      {"halving", BRAID_FLOAT32, 100000, true}};
    struct braid_stats before = {0}, after = {0};
    struct memory m;

    (void)context;
    if (make_known(comm, &m, &before))
        return 1;
    CHECK(before.downgrade_gpu_direct == 1, "%llu downgrades",
          (unsigned long long)before.downgrade_gpu_direct);
    for (int i = 0; i < 2; i++)
        if (all_reduce(comm, &ways[i], m.in, m.in))
            return 1;
    MOVED(&before, 0, 0, 8 * 400000, 8 * 400000);
    RETURNS(0, braid_stats(comm, &before));
    if (spread(comm, &m))
        return 1;
    MOVED(&before, (12 + 3) * BLOCK, 0, 0, 0);
    RETURNS(0, braid_stats(comm, &after));
    CHECK(after.downgrade_gpu_direct == 1, "%llu downgrades",
          (unsigned long long)after.downgrade_gpu_direct);
    own_gpu_free(m.in);
    return 0;
}

/* ---- the cases ------------------------------------------------------------------------------- */

static void run(ranks_main *body)
{
    const struct ranks job = {.size = RANKS,
                              .backend = "verbs",
                              .devices = "h#r0",
                              .eager_bytes = EAGER,
                              .timeout_ms = 40000,
                              .peer_timeout_ms = 30000};

    ranks_run(&job, body, NULL);
}

static int setup(void **state)
{
    setenv("BRAID_GPU_REDUCE", "auto", 1);
    return nics_setup(state);
}

static void gpu_collectives__all_reduce(void **state)
{
    (void)state;
    run(all_reduces);
}

static void gpu_collectives__two_hosts(void **state)
{
    const struct ranks job = {.size = RANKS,
                              .per_host = 2,
                              .devices = "h#r0",
                              .eager_bytes = EAGER,
                              .timeout_ms = 40000,
                              .peer_timeout_ms = 30000};

    (void)state;
    ranks_run(&job, two_hosts, NULL);
}

static void gpu_collectives__mixed(void **state)
{
    (void)state;
    run(mixed);
}

static void gpu_collectives__small(void **state)
{
    (void)state;
    run(small);
}

static void gpu_collectives__without_reduction(void **state)
{
    (void)state;
    fake_cuda()->unordered = true; /* all is flushed */
    run(without_reduction);
}

static void gpu_collectives__without_kernels(void **state)
{
    (void)state;
    setenv("BRAID_GPU_REDUCE", "cpu", 1);
    run(without_kernels);
}

static void gpu_collectives__without_workspace(void **state)
{
    (void)state;
    fake_cuda()->bytes = 64u << 20; /* its own size: there is other memory, too */
    run(without_workspace);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup(gpu_collectives__all_reduce, setup),
        cmocka_unit_test_setup(gpu_collectives__two_hosts, setup),
        cmocka_unit_test_setup(gpu_collectives__mixed, setup),
        cmocka_unit_test_setup(gpu_collectives__small, setup),
        cmocka_unit_test_setup(gpu_collectives__without_reduction, setup),
        cmocka_unit_test_setup(gpu_collectives__without_kernels, setup),
        cmocka_unit_test_setup(gpu_collectives__without_workspace, setup),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
