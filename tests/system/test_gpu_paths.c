/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of a fake GPU at both ends, over every back end: messages, put and get from either side,
 * all-reduce. To the byte: what arrives, and by which way, by the counters.
 *
 * BRAID_TEST_PATH=name runs one row only; those that need devices of a guest (tests/guest/list) run
 * by their names alone.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "tests/fake_cuda/fake_cuda.h"
#include "tests/system/collective.h"
#include "tests/system/memif.h"
#include "tests/system/app_gpu.h"
#include "tests/system/ranks.h"

#define EAGER 4096u
#define PART  (16u << 20) /* as BR_MAX_TRANSFER */
#define ROOM  (PART + 8192u)
#define AHEAD 77u /* offset in registered memory */

struct way {
    const char *name; /* of the back end, too, up to the first '-' */
    const char *devices;
    bool nics;  /* read and write the memory themselves what does not travel in one message */
    bool guest; /* by its name alone */
};

static const struct way ways[] = {
    {"tcp", "127.0.0.1", false, false},
    {"tcp-two", "127.0.0.1,127.0.0.2", false, false},
    {"shm", NULL, false, false},
    {"auto", "127.0.0.1", false, false},
    {"udp", "127.0.0.1,127.0.0.2", false, false},
    {"dpdk", NULL, false, false},
    {"verbs", "h#r0,h#r1", true, true},
    {"verbs-staged", "h#r0,h#r1", false, true},
};
#define WAYS (int)(sizeof ways / sizeof *ways)

/* ---- what is counted ------------------------------------------------------------------------- */

/* Of this rank: what NICs read and wrote on its GPU, and what was copied from there and to
 * there. */
struct tally {
    bool nics;
    uint64_t nic_from, nic_to, from, to;
};

/* So many bytes left the GPU, or arrived there, in parts; small: what is small travels in one
 * message. */
static void moved(struct tally *tally, bool leave, size_t bytes, bool small)
{
    for (size_t part; bytes; bytes -= part) {
        part = bytes < PART ? bytes : PART;
        if (tally->nics && (part > EAGER || !small))
            *(leave ? &tally->nic_from : &tally->nic_to) += part;
        else
            *(leave ? &tally->from : &tally->to) += part;
    }
}

static int check_tally(struct braid_comm *comm, const struct tally *expected)
{
    struct braid_stats s = {0};

    RETURNS(0, braid_stats(comm, &s));
    CHECK(s.nic_from_gpu_bytes == expected->nic_from && s.nic_to_gpu_bytes == expected->nic_to &&
              s.gpu_to_host_bytes == expected->from && s.host_to_gpu_bytes == expected->to,
          "NICs read %llu and wrote %llu, not %llu and %llu; copied were %llu and %llu, not %llu "
          "and %llu",
          (unsigned long long)s.nic_from_gpu_bytes, (unsigned long long)s.nic_to_gpu_bytes,
          (unsigned long long)expected->nic_from, (unsigned long long)expected->nic_to,
          (unsigned long long)s.gpu_to_host_bytes, (unsigned long long)s.host_to_gpu_bytes,
          (unsigned long long)expected->from, (unsigned long long)expected->to);
    return 0;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static int check(const char *what, const void *memory, size_t bytes, uint32_t seed)
{
    size_t at = own_gpu_wrong(memory, bytes, seed);

    CHECK(at == bytes, "%s of %zu bytes is wrong at %zu", what, bytes, at);
    CHECK(((uint8_t *)own_gpu_view(memory))[bytes] == 0xee, "%s of %zu bytes: one behind them",
          what, bytes);
    return 0;
}

static const size_t sizes[] = {1, EAGER, EAGER + 1, 300007, PART + EAGER + 5, PART + 100};
#define SIZES (sizeof sizes / sizeof *sizes)

/* ---- what every way has to do ---------------------------------------------------------------- */

/* From rank 0 to rank 1, and back. */
static int messages(struct braid_comm *comm, struct tally *tally, uint8_t *memory)
{
    for (uint32_t i = 0; i < 2 * SIZES; i++) {
        size_t bytes = sizes[i / 2];
        bool sends = braid_rank(comm) == (int)(i % 2);

        memset(own_gpu_view(memory), 0xee, ROOM);
        if (sends) {
            own_gpu_fill(memory, bytes, i);
            RETURNS(0, braid_send(comm, memory, bytes, (int)(1 - i % 2), NULL, NULL));
        } else {
            RETURNS(0, braid_recv(comm, memory, bytes, (int)(i % 2), NULL, NULL));
            if (check("a message", memory, bytes, i))
                return 1;
        }
        moved(tally, sends, bytes, true);
    }
    return 0;
}

static int exchange_keys(struct braid_comm *comm, const void *window, struct braid_key *theirs)
{
    struct braid_key key;
    struct braid_op *op;
    int other = 1 - braid_rank(comm);

    RETURNS(0, braid_key(comm, window, &key));
    RETURNS(0, braid_send(comm, &key, sizeof key, other, NULL, &op));
    RETURNS(0, braid_recv(comm, theirs, sizeof *theirs, other, NULL, NULL));
    RETURNS(0, braid_wait(op, -1));
    return 0;
}

/* Registered; what NICs know no CPU can touch from then on (fake_cuda.h, note 7). */
static int make_known(struct braid_comm *comm, const struct tally *tally, uint8_t **memory,
                      struct braid_region **region)
{
    *memory = own_gpu_alloc(ROOM);
    RETURNS(0, braid_register(comm, *memory, ROOM, region));
    CHECK(!tally->nics || !mprotect(*memory, ROOM, PROT_NONE),
          "the protection of the GPU's memory");
    return 0;
}

/* What both ranks reach for in each other's memory, and from where; on a GPU or not. */
struct ends {
    uint8_t *memory, *window;
    bool memory_on_gpu, window_on_gpu;
    struct braid_key theirs;
};

/* By us, and by the other rank, which does the same with our registered memory. */
static void accessed(struct tally *tally, const struct ends *ends, bool put, size_t bytes)
{
    if (ends->memory_on_gpu)
        moved(tally, put, bytes, put);
    if (ends->window_on_gpu)
        moved(tally, !put, bytes, put);
}

/* What the other rank has put there stands there when it says so. */
static int put(struct braid_comm *comm, struct tally *tally, const struct ends *ends, size_t bytes,
               uint32_t seed)
{
    uint32_t rank = (uint32_t)braid_rank(comm);

    memset(own_gpu_view(ends->window), 0xee, ROOM);
    own_gpu_fill(ends->memory, bytes, seed + rank);
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    RETURNS(0, braid_put(comm, ends->memory, bytes, &ends->theirs, AHEAD, NULL, NULL));
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    if (check("a put", ends->window + AHEAD, bytes, seed + 1 - rank))
        return 1;
    CHECK(((uint8_t *)own_gpu_view(ends->window))[AHEAD - 1] == 0xee, "a put: the byte before it");
    accessed(tally, ends, true, bytes);
    return 0;
}

static int get(struct braid_comm *comm, struct tally *tally, const struct ends *ends, size_t bytes,
               uint32_t seed)
{
    uint32_t rank = (uint32_t)braid_rank(comm);

    memset(own_gpu_view(ends->memory), 0xee, ROOM);
    own_gpu_fill(ends->window + AHEAD, bytes, seed + rank);
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    RETURNS(0, braid_get(comm, ends->memory, bytes, &ends->theirs, AHEAD, NULL, NULL));
    if (check("a get", ends->memory, bytes, seed + 1 - rank))
        return 1;
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    accessed(tally, ends, false, bytes);
    return 0;
}

static int put_and_get(struct braid_comm *comm, struct tally *tally, struct ends *ends, size_t step)
{
    if (exchange_keys(comm, ends->window, &ends->theirs))
        return 1;
    for (uint32_t i = 0; i < SIZES; i += (uint32_t)step)
        if (put(comm, tally, ends, sizes[i], 3 * i) || get(comm, tally, ends, sizes[i], 5 * i))
            return 1;
    return 0;
}

/* Both ranks at once: from GPU to GPU, and with host memory at one end. */
static int accesses(struct braid_comm *comm, struct tally *tally, uint8_t *memory)
{
    uint8_t *window, *host = braid_alloc(comm, ROOM);
    struct braid_region *region;
    struct ends ends;
    uint64_t before;

    CHECK(host, "memory");
    if (make_known(comm, tally, &window, &region))
        return 1;
    ends = (struct ends){memory, window, true, true, {0}};
    if (put_and_get(comm, tally, &ends, 1))
        return 1;
    SAYS(-EOPNOTSUPP, "GPU|fetch-and-add",
         braid_fetch_add(comm, &before, 1, &ends.theirs, 0, NULL, NULL));
    ends = (struct ends){memory, host, true, false, {0}};
    if (put_and_get(comm, tally, &ends, 3))
        return 1;
    ends = (struct ends){host, window, false, true, {0}};
    if (put_and_get(comm, tally, &ends, 3))
        return 1;
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    RETURNS(0, braid_deregister(region));
    RETURNS(0, braid_free(comm, host));
    own_gpu_free(window);
    return 0;
}

/* One that fits into a message and a large one. */
static int all_reduce(struct braid_comm *comm, struct tally *tally, uint8_t *memory)
{
    const size_t counts[] = {100, 300001};

    for (int k = 0; k < 2; k++) {
        const struct collective_call call = {
            .of = {.collective = BR_ALLREDUCE,
                   .data = {.seed = counts[k], .type = BRAID_FLOAT32},
                   .count = counts[k],
                   .in_place = true}};

        if (collective_check(comm, &call, memory + CASE_GUARD, memory + CASE_GUARD, NULL))
            return 1;
        tally->from += counts[k] * sizeof(float);
        tally->to += counts[k] * sizeof(float);
    }
    return 0;
}

static int everything(struct braid_comm *comm, void *context)
{
    const struct way *way = context;
    struct tally tally = {.nics = way->nics};
    struct braid_region *region;
    struct braid_stats s = {0};
    uint8_t *memory;

    if (make_known(comm, &tally, &memory, &region) || messages(comm, &tally, memory) ||
        check_tally(comm, &tally) || accesses(comm, &tally, memory) || check_tally(comm, &tally) ||
        all_reduce(comm, &tally, memory) || check_tally(comm, &tally))
        return 1;
    RETURNS(0, braid_stats(comm, &s));
    CHECK(s.downgrade_gpu_staging == !way->nics, "%llu downgrades",
          (unsigned long long)s.downgrade_gpu_staging);
    RETURNS(0, braid_deregister(region));
    own_gpu_free(memory);
    return 0;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void run(const struct way *way)
{
    struct ranks job = {.size = 2,
                        .devices = way->devices,
                        .eager_bytes = EAGER,
                        .timeout_ms = RANKS_PATIENCE,
                        .peer_timeout_ms = 30000};
    char backend[16];

    if (strncmp(way->name, "dpdk", 4) == 0 && !memif_ports())
        return;
    snprintf(backend, sizeof backend, "%.*s", (int)strcspn(way->name, "-"), way->name);
    job.backend = backend;
    *fake_cuda() = (struct fake_cuda_control){
        .devices = 1, .bytes = 1u << 30, .late = 1, .peer_memory = way->nics};
    ranks_run(&job, everything, (void *)(uintptr_t)way);
    if (strncmp(way->name, "dpdk", 4) == 0)
        memif_remove();
}

static void gpu_ways__everything_to_the_byte(void **state)
{
    const char *only = getenv("BRAID_TEST_PATH");
    int n = 0;

    (void)state;
    for (int i = 0; i < WAYS; i++)
        if (only ? strcmp(only, ways[i].name) == 0 : !ways[i].guest) {
            run(&ways[i]);
            n++;
        }
    assert_true(n > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpu_ways__everything_to_the_byte),
    };

    setenv("BRAID_CUDA_LIBRARY", FAKE_CUDA_LIBRARY, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
