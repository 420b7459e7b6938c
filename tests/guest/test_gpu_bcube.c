/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A BCube of four real processes whose memory lies on (fake) GPUs: neighbours' NICs read and write
 * it themselves (nics.h), which no CPU can touch; what goes by other hosts is staged, or copied
 * where a rail is lost. Devices of the setup bcube:2,2 (doc/guest.md). Counters are those of all
 * ranks together.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "gpu/reduce.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/guest/nics.h"
#include "tests/system/app_gpu.h"
#include "tests/system/ranks.h"

#define RANKS 4
#define EAGER 4096u

/* The fake driver has the kernels, whatever is loaded. */
const struct br_gpu_image br_gpu_image = {"image", NULL, "sm_none"};

/* Memory that the NICs know, as well as all that braid has on the GPU, and no CPU can touch; and
 * the counters then. */
static int make_known(struct braid_comm *comm, size_t count, int32_t **memory,
                      struct braid_stats *now)
{
    *memory = own_gpu_alloc(count * sizeof **memory);
    RETURNS(
        0, braid_allreduce(comm, *memory, *memory, 10 * EAGER, BRAID_INT32, BRAID_SUM, NULL, NULL));
    fake_cuda_hide();
    RETURNS(0, braid_stats(comm, now));
    return 0;
}

/* Of all ranks: what NICs read, what they wrote, what was staged or copied, and how often the way
 * was not that of NICs. */
static int moved(struct braid_comm *comm, const struct braid_stats *before, uint64_t all[4])
{
    struct braid_stats now = {0};

    if (nics_since(comm, before, &now))
        return 1;
    all[0] = now.nic_from_gpu_bytes;
    all[1] = now.nic_to_gpu_bytes;
    all[2] = now.gpu_to_host_bytes + now.host_to_gpu_bytes;
    all[3] = now.downgrade_gpu_direct;
    RETURNS(0, braid_allreduce(comm, all, all, 4, BRAID_UINT64, BRAID_SUM, NULL, NULL));
    return 0;
}

static void fill(struct braid_comm *comm, int32_t *memory, size_t count)
{
    int32_t *view = own_gpu_view(memory);

    for (size_t i = 0; i < count; i++)
        view[i] = (int32_t)i * 2 + braid_rank(comm);
}

static int check(const char *algorithm, int32_t *memory, size_t count)
{
    const int32_t *view = own_gpu_view(memory);

    for (size_t i = 0; i < count; i++)
        CHECK(view[i] == (int32_t)i * 2 * RANKS + RANKS * (RANKS - 1) / 2, "%s: element %zu is %d",
              algorithm, i, (int)view[i]);
    return 0;
}

static int all_reduces(struct braid_comm *comm, void *context)
{
    static const char *const algorithms[] = {"bml", "blueconnect", "ring", "halving", "auto"};
    const size_t count = 700001;
    struct braid_stats before = {0};
    int32_t *memory;

    (void)context;
    if (make_known(comm, count, &memory, &before))
        return 1;
    for (size_t i = 0; i < sizeof algorithms / sizeof algorithms[0]; i++) {
        const struct braid_options options = {.algorithm = algorithms[i]};
        uint64_t all[4];

        RETURNS(0, braid_stats(comm, &before));
        fill(comm, memory, count);
        RETURNS(0, braid_allreduce(comm, memory, memory, count, BRAID_INT32, BRAID_SUM, &options,
                                   NULL));
        if (check(algorithms[i], memory, count) || moved(comm, &before, all))
            return 1;
        CHECK(all[0] == all[1] && all[0] >= 6 * count * sizeof *memory,
              "%s: NICs read %llu and wrote %llu", algorithms[i], (unsigned long long)all[0],
              (unsigned long long)all[1]);
        CHECK(all[2] == 0 && all[3] == 0, "%s: %llu bytes were staged", algorithms[i],
              (unsigned long long)all[2]);
    }
    own_gpu_free(memory);
    return 0;
}

/* Ranks 0 and 3 share no level. */
static int no_neighbours(struct braid_comm *comm, void *context)
{
    const size_t count = 300001, bytes = count * sizeof(int32_t);
    int rank = braid_rank(comm);
    struct braid_stats before = {0};
    int32_t *memory;
    uint64_t all[4];

    (void)context;
    if (make_known(comm, count, &memory, &before))
        return 1;
    if (rank == 0) {
        fill(comm, memory, count);
        RETURNS(0, braid_send(comm, memory, bytes, 3, NULL, NULL));
    } else if (rank == 3) {
        RETURNS(0, braid_recv(comm, memory, bytes, 0, NULL, NULL));
        for (size_t i = 0; i < count; i++)
            CHECK(((int32_t *)own_gpu_view(memory))[i] == (int32_t)i * 2, "element %zu", i);
    }
    if (moved(comm, &before, all))
        return 1;
    CHECK(all[0] + all[1] == 0 && all[2] == 2 * bytes, "NICs moved %llu bytes, %llu were staged",
          (unsigned long long)(all[0] + all[1]), (unsigned long long)all[2]);
    own_gpu_free(memory);
    return 0;
}

/* Host 0's level link is lost under an all-reduce: what is left of it goes to the neighbour by
 * other hosts, out of the GPU's memory and into it; and the next one is staged as far as it goes
 * there. */
static int rail_lost(struct braid_comm *comm, void *context)
{
    const size_t count = 12 << 20; /* it takes seconds, the cable less than one */
    struct braid_stats before = {0};
    struct braid_op *op;
    int32_t *memory;
    uint64_t all[4];

    (void)context;
    if (make_known(comm, count, &memory, &before))
        return 1;
    fill(comm, memory, count);
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    RETURNS(0, braid_allreduce(comm, memory, memory, count, BRAID_INT32, BRAID_SUM, NULL, &op));
    CHECK(braid_rank(comm) || !nics_cable("down"), "the cable");
    RETURNS(0, braid_wait(op, -1));
    if (check("a rail is lost", memory, count) || moved(comm, &before, all))
        return 1;
    CHECK(all[0] > 0 && all[1] > 0 && all[2] > 0, "NICs moved %llu bytes, %llu went by other hosts",
          (unsigned long long)(all[0] + all[1]), (unsigned long long)all[2]);
    CHECK(all[3] == 2, "%llu ends said so", (unsigned long long)all[3]);
    fill(comm, memory, count / 8);
    RETURNS(0,
            braid_allreduce(comm, memory, memory, count / 8, BRAID_INT32, BRAID_SUM, NULL, NULL));
    if (check("without the rail", memory, count / 8))
        return 1;
    CHECK(braid_rank(comm) || (!nics_cable("up") && nics_port_comes_up()), "the cable");
    own_gpu_free(memory);
    return 0;
}

static void run(ranks_main *body)
{
    const struct ranks job = {.size = RANKS,
                              .per_host = 1,
                              .backend = "verbs",
                              .devices = "h#r0,h#r1",
                              .topology = "bcube:2,2",
                              .eager_bytes = EAGER,
                              .timeout_ms = 50000,
                              .peer_timeout_ms = 40000};

    ranks_run(&job, body, NULL);
}

static int setup(void **state)
{
    setenv("BRAID_GPU_REDUCE", "auto", 1);
    return nics_setup(state);
}

static void gpu_bcube__all_reduce(void **state)
{
    (void)state;
    run(all_reduces);
}

static void gpu_bcube__no_neighbours(void **state)
{
    (void)state;
    run(no_neighbours);
}

static void gpu_bcube__rail_lost(void **state)
{
    (void)state;
    run(rail_lost);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup(gpu_bcube__all_reduce, setup),
        cmocka_unit_test_setup(gpu_bcube__no_neighbours, setup),
        cmocka_unit_test_setup(gpu_bcube__rail_lost, setup),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
