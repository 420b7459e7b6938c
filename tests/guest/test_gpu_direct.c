/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages, puts and gets of real processes whose NICs read and write the memory of a fake GPU
 * themselves (nics.h). Devices of the setup rails:2 (doc/guest.md).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "gpu/reduce.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/guest/nics.h"
#include "tests/system/app_gpu.h"
#include "tests/system/ranks.h"

/* The fake driver has the kernels, whatever is loaded. */
const struct br_gpu_image br_gpu_image = {"image", NULL, "sm_none"};

#define EAGER 4096u
#define LARGE (17u << 20) /* two parts of a message, the second a small one */
#define ROOM  (LARGE + 4096u)
#define MANY  16u /* messages of 4 MiB */

static int check(const void *memory, uint32_t i, size_t bytes)
{
    size_t at = own_gpu_wrong(memory, bytes, i);

    CHECK(at == bytes, "message %u of %zu bytes is wrong at %zu", i, bytes, at);
    return 0;
}

/* Memory on both ranks that the NICs know, and that no CPU can touch: rank 0 has sent the other one
 * of it. */
static int make_known(struct braid_comm *comm, size_t room, uint8_t **out)
{
    uint8_t *memory = own_gpu_alloc(room);
    int rank = braid_rank(comm);

    own_gpu_fill(memory, 100000, 99);
    RETURNS(0, rank ? braid_recv(comm, memory, 100000, 0, NULL, NULL)
                    : braid_send(comm, memory, 100000, 1, NULL, NULL));
    if (check(memory, 99, 100000))
        return 1;
    CHECK(!mprotect(memory, room, PROT_NONE), "the protection of the GPU's memory");
    *out = memory;
    return 0;
}

#define MOVED(before, from, to, to_host, to_gpu)                                                   \
    do {                                                                                           \
        struct braid_stats now_ = {0};                                                             \
                                                                                                   \
        if (nics_since(comm, before, &now_))                                                       \
            return 1;                                                                              \
        CHECK(now_.nic_from_gpu_bytes == (from) && now_.nic_to_gpu_bytes == (to) &&                \
                  now_.gpu_to_host_bytes == (to_host) && now_.host_to_gpu_bytes == (to_gpu),       \
              "rank %d: NICs read %llu and wrote %llu, staged were %llu and %llu",                 \
              braid_rank(comm), (unsigned long long)now_.nic_from_gpu_bytes,                       \
              (unsigned long long)now_.nic_to_gpu_bytes,                                           \
              (unsigned long long)now_.gpu_to_host_bytes,                                          \
              (unsigned long long)now_.host_to_gpu_bytes);                                         \
    } while (0)

/* ---- messages -------------------------------------------------------------------------------- */

static int message(struct braid_comm *comm, uint8_t *memory, uint32_t i, size_t bytes)
{
    bool sends = !braid_rank(comm);

    memset(own_gpu_view(memory), 0xee, bytes + 1);
    if (sends)
        own_gpu_fill(memory, bytes, i);
    RETURNS(0, sends ? braid_send(comm, memory, bytes, 1, NULL, NULL)
                     : braid_recv(comm, memory, bytes, 0, NULL, NULL));
    CHECK(((uint8_t *)own_gpu_view(memory))[bytes] == 0xee, "a byte behind message %u", i);
    return check(memory, i, bytes);
}

/* From one GPU to the other. */
static int messages(struct braid_comm *comm, void *context)
{
    static const size_t sizes[] = {EAGER + 1, 65536, 300007, 4 << 20, (16 << 20) + EAGER + 5};
    struct braid_stats before = {0};
    bool sends = !braid_rank(comm);
    uint64_t bytes = 0;
    uint8_t *memory;

    (void)context;
    if (make_known(comm, ROOM, &memory))
        return 1;
    RETURNS(0, braid_stats(comm, &before));
    CHECK(before.downgrade_gpu_direct == 0 && before.downgrade_gpu_staging == 0, "downgrades");
    for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (message(comm, memory + (size_t)65 * i, i, sizes[i]))
            return 1;
        bytes += sizes[i];
    }
    MOVED(&before, sends ? bytes : 0, sends ? 0 : bytes, 0, 0);
    /* What goes in one message the CPU copies: alone, and as the end of a long one. */
    RETURNS(0, braid_stats(comm, &before));
    if (message(comm, memory, 50, EAGER) || message(comm, memory, 51, (16 << 20) + 100))
        return 1;
    MOVED(&before, sends ? 16u << 20 : 0, sends ? 0 : 16u << 20, sends ? EAGER + 100 : 0,
          sends ? 0 : EAGER + 100);
    own_gpu_free(memory);
    return 0;
}

/* The other end has host memory. */
static int one_sided_choice(struct braid_comm *comm, void *context)
{
    bool sends = !braid_rank(comm), on_gpu = *(int *)context == braid_rank(comm);
    const size_t bytes = 3000000;
    static uint8_t other[3000001];
    struct braid_stats before = {0};
    uint8_t *memory;

    if (make_known(comm, ROOM, &memory))
        return 1;
    RETURNS(0, braid_stats(comm, &before));
    if (message(comm, on_gpu ? memory : other, 3, bytes))
        return 1;
    MOVED(&before, on_gpu && sends ? bytes : 0, on_gpu && !sends ? bytes : 0, 0, 0);
    own_gpu_free(memory);
    return 0;
}

/* Another allocation at the same address, which the NICs do not know. */
static int again(struct braid_comm *comm, void *context)
{
    struct braid_stats before = {0}, after = {0};
    uint8_t *memory, *first;

    (void)context;
    if (make_known(comm, ROOM, &first))
        return 1;
    RETURNS(0, braid_stats(comm, &before));
    own_gpu_free(first);
    memory = own_gpu_alloc(ROOM);
    CHECK(memory == first, "another address: this says nothing");
    if (message(comm, memory, 7, 1000000))
        return 1;
    RETURNS(0, braid_stats(comm, &after));
    CHECK(after.registrations == before.registrations + 2, "%llu registrations, not 2",
          (unsigned long long)(after.registrations - before.registrations));
    CHECK(after.pinned_bytes == before.pinned_bytes, "what was registered is not given back");
    own_gpu_free(memory);
    return 0;
}

/* Rank 1's memory for rank 0's puts and gets. */
static int offer(struct braid_comm *comm, void *memory, size_t bytes, struct braid_key *key)
{
    struct braid_region *region;

    if (!braid_rank(comm)) {
        RETURNS(0, braid_recv(comm, key, sizeof *key, 1, NULL, NULL));
        return 0;
    }
    RETURNS(0, braid_register(comm, memory, bytes, &region));
    RETURNS(0, braid_key(comm, memory, key));
    RETURNS(0, braid_send(comm, key, sizeof *key, 0, NULL, NULL));
    return 0;
}

/* n messages; or puts to where they would be received, which the other rank has nothing to do
 * for. */
static int many(struct braid_comm *comm, const struct braid_key *key, uint8_t *memory, size_t bytes,
                struct braid_op **ops)
{
    for (uint32_t i = 0; i < MANY; i++) {
        uint8_t *at = memory + i * bytes;

        ops[i] = NULL;
        if (!braid_rank(comm))
            RETURNS(0, key ? braid_put(comm, at, bytes, key, i * bytes, NULL, &ops[i])
                           : braid_send(comm, at, bytes, 1, NULL, &ops[i]));
        else if (!key)
            RETURNS(0, braid_recv(comm, at, bytes, 0, NULL, &ops[i]));
    }
    return 0;
}

/* A rail is lost under messages or puts (the context says which): what it took with it goes again
 * by the other NIC, out of the GPU's memory and into it. */
static int rail_lost(struct braid_comm *comm, void *context)
{
    const uint32_t n = MANY, bytes = 4 << 20; /* it takes seconds, the cable less than one */
    bool sends = !braid_rank(comm), puts = *(bool *)context;
    struct braid_rail_stats rails[2] = {0};
    struct braid_stats before = {0}, now = {0};
    struct braid_op *ops[MANY];
    struct braid_key key;
    uint8_t *memory;

    if (make_known(comm, (size_t)n * bytes, &memory) ||
        offer(comm, memory, (size_t)n * bytes, &key))
        return 1;
    RETURNS(0, braid_stats(comm, &before));
    for (uint32_t i = 0; i < n && sends; i++)
        own_gpu_fill(memory + (size_t)i * bytes, bytes, i);
    if (many(comm, puts ? &key : NULL, memory, bytes, ops))
        return 1;
    CHECK(!sends || !nics_cable("down"), "the cable");
    for (uint32_t i = 0; i < n && (sends || !puts); i++)
        RETURNS(0, braid_wait(ops[i], -1));
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    for (uint32_t i = 0; i < n; i++)
        if (check(memory + (size_t)i * bytes, i, bytes))
            return 1;
    CHECK(braid_rail_stats(comm, rails, 2) == 2, "two rails");
    CHECK(!sends || (rails[1].failures > 0 && rails[1].resent_slices > 0),
          "the rail was lost too late: nothing went again");
    if (nics_since(comm, &before, &now))
        return 1;
    CHECK((sends ? now.nic_from_gpu_bytes : now.nic_to_gpu_bytes) >= (uint64_t)n * bytes,
          "NICs moved too little");
    CHECK(now.gpu_to_host_bytes == 0 && now.host_to_gpu_bytes == 0, "something was staged");
    CHECK(!sends || (!nics_cable("up") && nics_port_comes_up()), "the cable");
    own_gpu_free(memory);
    return 0;
}

/* The same under an all-reduce: what is sent again goes out of the GPUs' memory and into it, and is
 * combined there once. */
static int rail_lost_by_all_reduce(struct braid_comm *comm, void *context)
{
    const size_t count = 12 << 20;
    struct braid_rail_stats rails[2] = {0};
    struct braid_stats before = {0}, now = {0};
    struct braid_op *op;
    uint8_t *memory;
    int32_t *view;

    (void)context;
    if (make_known(comm, count * sizeof *view, &memory))
        return 1;
    RETURNS(0, braid_stats(comm, &before));
    view = own_gpu_view(memory);
    for (size_t i = 0; i < count; i++)
        view[i] = (int32_t)i * 2 + braid_rank(comm);
    RETURNS(0, braid_allreduce(comm, memory, memory, count, BRAID_INT32, BRAID_SUM, NULL, &op));
    CHECK(braid_rank(comm) || !nics_cable("down"), "the cable");
    RETURNS(0, braid_wait(op, -1));
    for (size_t i = 0; i < count; i++)
        CHECK(view[i] == (int32_t)i * 4 + 1, "element %zu is %d", i, (int)view[i]);
    CHECK(braid_rail_stats(comm, rails, 2) == 2, "two rails");
    CHECK(braid_rank(comm) || rails[1].failures > 0, "the rail was lost too late");
    if (nics_since(comm, &before, &now))
        return 1;
    CHECK(now.nic_from_gpu_bytes >= count * 4 && now.nic_to_gpu_bytes >= count * 4,
          "NICs moved too little");
    CHECK(now.gpu_to_host_bytes == 0 && now.host_to_gpu_bytes == 0, "something was staged");
    CHECK(now.gpu_reduced_bytes == count * 2, "%llu bytes were combined",
          (unsigned long long)now.gpu_reduced_bytes);
    CHECK(braid_rank(comm) || (!nics_cable("up") && nics_port_comes_up()), "the cable");
    own_gpu_free(memory);
    return 0;
}

#define FLUSHED(before, n)                                                                         \
    CHECK(fake_cuda_counters().flushes - (before) == (uint64_t)(n), "rank %d: %llu flushes",       \
          braid_rank(comm), (unsigned long long)(fake_cuda_counters().flushes - (before)))

/* What the NICs have written is flushed before the operation ends, of whoever's it is, where the
 * GPU promises no order. */
static int flushed(struct braid_comm *comm, void *context)
{
    struct braid_key key;
    uint64_t before;
    uint8_t *memory;
    bool asks = !braid_rank(comm);

    (void)context;
    if (make_known(comm, ROOM, &memory) || offer(comm, memory, ROOM, &key))
        return 1;
    before = fake_cuda_counters().flushes;
    if (message(comm, memory, 1, 100000))
        return 1;
    FLUSHED(before, asks ? 0 : 1);
    RETURNS(0, braid_barrier(comm, NULL, NULL)); /* the put must not come before it has counted */
    if (asks)
        RETURNS(0, braid_put(comm, memory, 100000, &key, 0, NULL, NULL));
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    FLUSHED(before, asks ? 0 : 2);
    if (asks)
        RETURNS(0, braid_get(comm, memory, 100000, &key, 0, NULL, NULL));
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    FLUSHED(before, asks ? 1 : 2);
    own_gpu_free(memory);
    return 0;
}

/* It cannot be flushed: NICs read there, and do not write. */
static int only_read(struct braid_comm *comm, void *context)
{
    struct braid_stats stats = {0};
    uint8_t *memory = own_gpu_alloc(ROOM);
    bool sends = !braid_rank(comm);
    struct braid_key key;

    (void)context;
    if (message(comm, memory, 1, 100000))
        return 1;
    MOVED(&(struct braid_stats){0}, sends ? 100000u : 0, 0, 0, sends ? 0 : 100000u);
    if (offer(comm, memory, ROOM, &key))
        return 1;
    if (sends) {
        RETURNS(0, braid_put(comm, memory, 100000, &key, 0, NULL, NULL));
        RETURNS(0, braid_get(comm, memory, 50000, &key, 0, NULL, NULL));
    }
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    MOVED(&(struct braid_stats){0}, sends ? 200000u : 50000, 0, 0, sends ? 50000 : 200000u);
    RETURNS(0, braid_stats(comm, &stats));
    CHECK(stats.downgrade_gpu_direct == 1, "%llu downgrades",
          (unsigned long long)stats.downgrade_gpu_direct);
    own_gpu_free(memory);
    return 0;
}

/* ---- put, get -------------------------------------------------------------------------------- */

/* The other rank's is host memory; a GPU's on both: system/gpu_paths. */
static int put_and_get(struct braid_comm *comm, void *context)
{
    static uint8_t host[LARGE];
    struct braid_stats before = {0};
    struct braid_key key;
    uint8_t *memory;

    (void)context;
    if (make_known(comm, ROOM, &memory) || offer(comm, host, LARGE, &key))
        return 1;
    RETURNS(0, braid_stats(comm, &before));
    if (braid_rank(comm)) {
        RETURNS(0, braid_barrier(comm, NULL, NULL));
        if (check(host, 5, LARGE))
            return 1;
        MOVED(&before, 0, 0, 0, 0);
    } else {
        own_gpu_fill(memory, LARGE, 5);
        RETURNS(0, braid_put(comm, memory, LARGE, &key, 0, NULL, NULL));
        memset(own_gpu_view(memory + 11), 0, LARGE - 11);
        RETURNS(0, braid_get(comm, memory + 11, LARGE - 11, &key, 11, NULL, NULL));
        if (check(memory, 5, LARGE))
            return 1;
        MOVED(&before, LARGE, LARGE - 11, 0, 0);
        /* The data of a small put travel in its request. */
        RETURNS(0, braid_put(comm, memory + 500, 100, &key, 500, NULL, NULL));
        MOVED(&before, LARGE, LARGE - 11, 100, 0);
        RETURNS(0, braid_barrier(comm, NULL, NULL));
    }
    own_gpu_free(memory);
    return 0;
}

/* ---- what is staged -------------------------------------------------------------------------- */

/* The context says how often a NIC must have been found unable. */
static int staged(struct braid_comm *comm, void *context)
{
    uint8_t *memory = own_gpu_alloc(ROOM);
    struct braid_stats stats = {0};
    bool sends = !braid_rank(comm);

    if (message(comm, memory, 2, 1000000) || message(comm, memory, 3, 500000))
        return 1;
    MOVED(&(struct braid_stats){0}, 0, 0, sends ? 1500000u : 0, sends ? 0 : 1500000u);
    RETURNS(0, braid_stats(comm, &stats));
    CHECK(stats.downgrade_gpu_direct == *(uint64_t *)context, "%llu downgrades",
          (unsigned long long)stats.downgrade_gpu_direct);
    CHECK(stats.downgrade_gpu_staging == 1, "%llu downgrades",
          (unsigned long long)stats.downgrade_gpu_staging);
    own_gpu_free(memory);
    return 0;
}

/* ---- the cases ------------------------------------------------------------------------------- */

static void run(ranks_main *body, void *context)
{
    const struct ranks job = {.size = 2,
                              .backend = "verbs",
                              .devices = "h#r0,h#r1",
                              .eager_bytes = EAGER,
                              .timeout_ms = 40000,
                              .peer_timeout_ms = 30000};

    ranks_run(&job, body, context);
}

static void gpu_direct__messages(void **state)
{
    (void)state;
    run(messages, NULL);
}

static void gpu_direct__one_end(void **state)
{
    (void)state;
    for (int rank = 0; rank < 2; rank++)
        run(one_sided_choice, &rank);
}

static void gpu_direct__memory_that_was_freed(void **state)
{
    (void)state;
    run(again, NULL);
}

static void gpu_direct__put_and_get(void **state)
{
    (void)state;
    run(put_and_get, NULL);
}

static void gpu_direct__rail_lost(void **state)
{
    (void)state;
    for (int puts = 0; puts < 2; puts++)
        run(rail_lost, &(bool){puts});
}

static void gpu_direct__rail_lost_by_all_reduce(void **state)
{
    (void)state;
    setenv("BRAID_GPU_REDUCE", "auto", 1);
    run(rail_lost_by_all_reduce, NULL);
}

static void gpu_direct__flushed(void **state)
{
    (void)state;
    fake_cuda()->unordered = true;
    run(flushed, NULL);
    fake_cuda()->no_flush = true;
    run(only_read, NULL);
}

/* Neither way: soft-RoCE takes no dma-buf, and cannot pin what the CPU cannot touch. Both NICs say
 * so. */
static void gpu_direct__refused(void **state)
{
    uint64_t nics = 2;

    (void)state;
    fake_cuda()->peer_memory = false;
    run(staged, &nics);
}

static void gpu_direct__off(void **state)
{
    uint64_t none = 0;

    (void)state;
    setenv("BRAID_GPU_DIRECT", "off", 1);
    run(staged, &none);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup(gpu_direct__messages, nics_setup),
        cmocka_unit_test_setup(gpu_direct__one_end, nics_setup),
        cmocka_unit_test_setup(gpu_direct__memory_that_was_freed, nics_setup),
        cmocka_unit_test_setup(gpu_direct__put_and_get, nics_setup),
        cmocka_unit_test_setup(gpu_direct__flushed, nics_setup),
        cmocka_unit_test_setup(gpu_direct__refused, nics_setup),
        cmocka_unit_test_setup(gpu_direct__off, nics_setup),
        /* last: a port is not usable again at once */
        cmocka_unit_test_setup(gpu_direct__rail_lost, nics_setup),
        cmocka_unit_test_setup(gpu_direct__rail_lost_by_all_reduce, nics_setup),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
