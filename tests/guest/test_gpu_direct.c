/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Real processes whose NICs read and write the memory of a fake GPU themselves: soft-RoCE knows it by ibv_reg_mr(), as where a peer-memory module answers
 * (FAKE_CUDA=peer_memory). When it is registered, the protection that the fake driver's memory has otherwise is put on: a CPU that touches it from
 * then on faults. Devices of the setup rails:2 (doc/guest.md).
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

#include "tests/fake_cuda/fake_cuda.h"
#include "tests/system/own_gpu.h"
#include "tests/system/ranks.h"

#define EAGER 4096u
#define LARGE (17u << 20) /* two parts of a message, the second a small one */
#define ROOM  (LARGE + 4096u)
#define MANY  16u /* messages of 4 MiB */

/* Bytes of message i. */
static uint8_t byte(uint32_t i, size_t at)
{
    return (uint8_t)(at * 31 + at / 4093 + i);
}

static void fill(const void *memory, uint32_t i, size_t bytes)
{
    uint8_t *view = own_gpu_view(memory);

    for (size_t at = 0; at < bytes; at++)
        view[at] = byte(i, at);
}

static int check(const void *memory, uint32_t i, size_t bytes)
{
    const uint8_t *view = own_gpu_view(memory);

    for (size_t at = 0; at < bytes; at++)
        CHECK(view[at] == byte(i, at), "message %u of %zu bytes is wrong at %zu", i, bytes, at);
    return 0;
}

/* Memory on both ranks that the NICs know, and that no CPU can touch: rank 0 has sent the other one of it. */
static int make_known(struct braid_comm *comm, size_t room, uint8_t **out)
{
    uint8_t *memory = own_gpu_alloc(room);
    int rank = braid_rank(comm);

    fill(memory, 99, 100000);
    RETURNS(0, rank ? braid_recv(comm, memory, 100000, 0, NULL, NULL)
                    : braid_send(comm, memory, 100000, 1, NULL, NULL));
    if (check(memory, 99, 100000))
        return 1;
    CHECK(!mprotect(memory, room, PROT_NONE), "the protection of the GPU's memory");
    *out = memory;
    return 0;
}

static int stats_since(const struct braid_comm *comm, const struct braid_stats *before,
                       struct braid_stats *now)
{
    RETURNS(0, braid_stats((struct braid_comm *)(uintptr_t)comm, now));
    now->nic_from_gpu_bytes -= before->nic_from_gpu_bytes;
    now->nic_to_gpu_bytes -= before->nic_to_gpu_bytes;
    now->gpu_to_host_bytes -= before->gpu_to_host_bytes;
    now->host_to_gpu_bytes -= before->host_to_gpu_bytes;
    return 0;
}

#define MOVED(before, from, to, to_host, to_gpu)                                                             \
    do {                                                                                                     \
        struct braid_stats now_;                                                                             \
                                                                                                             \
        if (stats_since(comm, before, &now_))                                                                \
            return 1;                                                                                        \
        CHECK(now_.nic_from_gpu_bytes == (from) && now_.nic_to_gpu_bytes == (to) &&                          \
                  now_.gpu_to_host_bytes == (to_host) && now_.host_to_gpu_bytes == (to_gpu),                 \
              "rank %d: NICs read %llu and wrote %llu, staged were %llu and %llu", braid_rank(comm),         \
              (unsigned long long)now_.nic_from_gpu_bytes, (unsigned long long)now_.nic_to_gpu_bytes,        \
              (unsigned long long)now_.gpu_to_host_bytes, (unsigned long long)now_.host_to_gpu_bytes);       \
    } while (0)

/* ---- messages -------------------------------------------------------------------------------- */

static int message(struct braid_comm *comm, uint8_t *memory, uint32_t i, size_t bytes)
{
    bool sends = !braid_rank(comm);

    memset(own_gpu_view(memory), 0xee, bytes + 1);
    if (sends)
        fill(memory, i, bytes);
    RETURNS(0, sends ? braid_send(comm, memory, bytes, 1, NULL, NULL)
                     : braid_recv(comm, memory, bytes, 0, NULL, NULL));
    CHECK(((uint8_t *)own_gpu_view(memory))[bytes] == 0xee, "a byte behind message %u", i);
    return check(memory, i, bytes);
}

/* From one GPU to the other. */
static int messages(struct braid_comm *comm, void *context)
{
    static const size_t sizes[] = {EAGER + 1, 65536, 300007, 4 << 20, (16 << 20) + EAGER + 5};
    struct braid_stats before;
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
    struct braid_stats before;
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
    struct braid_stats before, after;
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

static int cable(const char *way)
{
    char command[512];

    snprintf(command, sizeof command, "bash '%s/tests/guest/net.sh' port 0 1 %s", getenv("BRAID_SOURCE"),
             way);
    return system(command);
}

/* The next job wants the port. */
static bool port_comes_up(void)
{
    char state[32] = "";

    for (int i = 0; i < 200 && !strstr(state, "ACTIVE"); i++) {
        FILE *file = fopen("/sys/class/infiniband/h0r1/ports/1/state", "re");

        ranks_sleep_ms(50);
        if (!file || !fgets(state, sizeof state, file))
            state[0] = 0;
        if (file)
            fclose(file);
    }
    return strstr(state, "ACTIVE");
}

/* A rail is lost under messages: what it took with it goes again by the other NIC, out of the GPU's memory and into it. */
static int rail_lost(struct braid_comm *comm, void *context)
{
    const uint32_t n = MANY, bytes = 4 << 20; /* it takes seconds, the cable less than one */
    bool sends = !braid_rank(comm);
    struct braid_rail_stats rails[2];
    struct braid_stats before, now;
    struct braid_op *ops[MANY];
    uint8_t *memory;

    (void)context;
    if (make_known(comm, (size_t)n * bytes, &memory))
        return 1;
    RETURNS(0, braid_stats(comm, &before));
    for (uint32_t i = 0; i < n && sends; i++)
        fill(memory + (size_t)i * bytes, i, bytes);
    for (uint32_t i = 0; i < n; i++)
        RETURNS(0, sends ? braid_send(comm, memory + (size_t)i * bytes, bytes, 1, NULL, &ops[i])
                         : braid_recv(comm, memory + (size_t)i * bytes, bytes, 0, NULL, &ops[i]));
    CHECK(!sends || !cable("down"), "the cable");
    for (uint32_t i = 0; i < n; i++)
        RETURNS(0, braid_wait(ops[i], -1));
    for (uint32_t i = 0; i < n; i++)
        if (check(memory + (size_t)i * bytes, i, bytes))
            return 1;
    CHECK(braid_rail_stats(comm, rails, 2) == 2, "two rails");
    CHECK(!sends || (rails[1].failures > 0 && rails[1].resent_slices > 0),
          "the rail was lost too late: nothing went again");
    if (stats_since(comm, &before, &now))
        return 1;
    CHECK((sends ? now.nic_from_gpu_bytes : now.nic_to_gpu_bytes) >= (uint64_t)n * bytes,
          "NICs moved too little");
    CHECK(now.gpu_to_host_bytes == 0 && now.host_to_gpu_bytes == 0, "something was staged");
    CHECK(!sends || (!cable("up") && port_comes_up()), "the cable");
    own_gpu_free(memory);
    return 0;
}

/* What the NICs have written is flushed before the operation ends, where the GPU promises no order. */
static int flushed(struct braid_comm *comm, void *context)
{
    uint64_t before;
    uint8_t *memory;

    (void)context;
    if (make_known(comm, ROOM, &memory))
        return 1;
    before = fake_cuda_counters().flushes;
    if (message(comm, memory, 1, 100000))
        return 1;
    CHECK(fake_cuda_counters().flushes - before == (uint64_t)braid_rank(comm), "%llu flushes",
          (unsigned long long)(fake_cuda_counters().flushes - before));
    own_gpu_free(memory);
    return 0;
}

/* It cannot be flushed: NICs read there, and do not write. */
static int only_read(struct braid_comm *comm, void *context)
{
    struct braid_stats stats;
    uint8_t *memory = own_gpu_alloc(ROOM);
    bool sends = !braid_rank(comm);

    (void)context;
    if (message(comm, memory, 1, 100000))
        return 1;
    MOVED(&(struct braid_stats){0}, sends ? 100000u : 0, 0, 0, sends ? 0 : 100000u);
    RETURNS(0, braid_stats(comm, &stats));
    CHECK(stats.downgrade_gpu_direct == 1, "%llu downgrades", (unsigned long long)stats.downgrade_gpu_direct);
    own_gpu_free(memory);
    return 0;
}

/* ---- put, get -------------------------------------------------------------------------------- */

static int put_and_get(struct braid_comm *comm, void *context)
{
    uint8_t *memory, *host = braid_alloc(comm, LARGE);
    struct braid_stats before;
    struct braid_key key;

    (void)context;
    CHECK(host, "memory");
    if (make_known(comm, ROOM, &memory))
        return 1;
    RETURNS(0, braid_stats(comm, &before));
    if (braid_rank(comm)) {
        RETURNS(0, braid_key(comm, host, &key));
        RETURNS(0, braid_send(comm, &key, sizeof key, 0, NULL, NULL));
        RETURNS(0, braid_barrier(comm, NULL, NULL));
        if (check(host, 5, LARGE))
            return 1;
        MOVED(&before, 0, 0, 0, 0);
    } else {
        RETURNS(0, braid_recv(comm, &key, sizeof key, 1, NULL, NULL));
        fill(memory, 5, LARGE);
        RETURNS(0, braid_put(comm, memory, LARGE, &key, 0, NULL, NULL));
        memset(own_gpu_view(memory), 0, LARGE);
        RETURNS(0, braid_get(comm, memory + 11, LARGE - 11, &key, 11, NULL, NULL));
        for (size_t at = 11; at < LARGE; at++)
            CHECK(((uint8_t *)own_gpu_view(memory))[at] == byte(5, at), "byte %zu of what was got", at);
        MOVED(&before, LARGE, LARGE - 11, 0, 0);
        /* The data of a small put travel in its request. */
        RETURNS(0, braid_put(comm, memory + 500, 100, &key, 500, NULL, NULL));
        MOVED(&before, LARGE, LARGE - 11, 100, 0);
        RETURNS(0, braid_barrier(comm, NULL, NULL));
    }
    own_gpu_free(memory);
    RETURNS(0, braid_free(comm, host));
    return 0;
}

/* ---- what is staged -------------------------------------------------------------------------- */

/* The context says how often a NIC must have been found unable. */
static int staged(struct braid_comm *comm, void *context)
{
    uint8_t *memory = own_gpu_alloc(ROOM);
    struct braid_stats stats;
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

/* Reductions: staged, whatever the NICs can. */
static int all_reduce(struct braid_comm *comm, void *context)
{
    float *memory = own_gpu_alloc(400000);

    (void)context;
    for (int i = 0; i < 100000; i++)
        ((float *)own_gpu_view(memory))[i] = (float)(i % 1000 + braid_rank(comm));
    RETURNS(0, braid_allreduce(comm, memory, memory, 100000, BRAID_FLOAT32, BRAID_SUM, NULL, NULL));
    for (int i = 0; i < 100000; i++)
        CHECK(((float *)own_gpu_view(memory))[i] == (float)(i % 1000 * 2 + 1), "element %d", i);
    MOVED(&(struct braid_stats){0}, 0, 0, 400000, 400000);
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

static int with_peer_memory(void **state)
{
    (void)state;
    memset(fake_cuda(), 0, sizeof *fake_cuda());
    *fake_cuda() = (struct fake_cuda_control){.devices = 1, .bytes = 1u << 30, .peer_memory = true};
    unsetenv("BRAID_GPU_DIRECT");
    return setenv("BRAID_CUDA_LIBRARY", FAKE_CUDA_LIBRARY, 1);
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
    run(rail_lost, NULL);
}

static void gpu_direct__flushed(void **state)
{
    (void)state;
    fake_cuda()->unordered = true;
    run(flushed, NULL);
    fake_cuda()->no_flush = true;
    run(only_read, NULL);
}

static void gpu_direct__collectives_are_staged(void **state)
{
    (void)state;
    run(all_reduce, NULL);
}

/* Neither way: soft-RoCE takes no dma-buf, and cannot pin what the CPU cannot touch. Both NICs say so. */
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
        cmocka_unit_test_setup(gpu_direct__messages, with_peer_memory),
        cmocka_unit_test_setup(gpu_direct__one_end, with_peer_memory),
        cmocka_unit_test_setup(gpu_direct__memory_that_was_freed, with_peer_memory),
        cmocka_unit_test_setup(gpu_direct__put_and_get, with_peer_memory),
        cmocka_unit_test_setup(gpu_direct__flushed, with_peer_memory),
        cmocka_unit_test_setup(gpu_direct__collectives_are_staged, with_peer_memory),
        cmocka_unit_test_setup(gpu_direct__refused, with_peer_memory),
        cmocka_unit_test_setup(gpu_direct__off, with_peer_memory),
        /* last: a port is not usable again at once */
        cmocka_unit_test_setup(gpu_direct__rail_lost, with_peer_memory),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
