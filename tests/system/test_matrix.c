/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every collective x type x reduction x number of ranks x size x in place x alignment x kind of memory x algorithm x way to
 * call it x back end, between real processes, against a reference in higher precision (tools/data.h), twice for the same bits.
 * With memory of the fake GPU, anywhere, the counters must say besides that each byte was copied once in each direction.
 * The product is sampled: BRAID_MATRIX_SEED and BRAID_MATRIX_CASES (a job) choose another or a larger sample. A failing case
 * says the seed; BRAID_MATRIX_RANKS and the name of a test as argument leave out the jobs of other sizes and kinds.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "collectives/schedule.h"
#include "collectives/type.h"
#include "tests/system/own_gpu.h"
#include "tests/system/ranks.h"
#include "tools/data.h"

#define SEED  1
#define CASES 30
#define MOST  (8u << 20) /* bytes of a buffer */
#define GUARD 64u        /* bytes on both sides that nobody may touch */
#define EDGE  0xa5

#define MOST_ALGORITHMS 8 /* of one collective */

enum way { WAY_BLOCK, WAY_WAIT, WAY_TEST, WAY_SHORT_WAITS, WAY_PERSISTENT, WAYS };

static const char *const way_names[] = {"blocking", "wait", "test", "short waits", "persistent"};

enum memory { PLAIN, ALLOCATED, OF_GPU, MEMORIES };

static const char *const memory_names[] = {"malloc", "braid_alloc", "a GPU"};

struct combination {
    enum br_collective collective;
    struct br_data data;
    size_t count;
    int root;
    bool in_place;
    enum memory send_memory, recv_memory; /* in place: that of the larger one counts for both */
    unsigned send_offset, recv_offset;
    struct braid_options options;
    enum way way;
};

/* Buffers of one rank, of one kind of memory. */
struct buffers {
    uint8_t *send, *recv;
};

struct rank {
    struct braid_comm *comm;
    int rank, size;
    uint64_t seed;
    int number;                       /* of the case */
    struct buffers buffers[MEMORIES]; /* OF_GPU: NULL where there is none */
    uint8_t *first;                   /* result of the first repetition */
};

/* What starts a job's cases. */
struct setup {
    uint64_t seed;
    bool with_gpu;
};

static long setting(const char *name, long fallback)
{
    const char *text = getenv(name);

    return text ? atol(text) : fallback;
}

/* ---- choosing ------------------------------------------------------------------------------- */

/* Around the limits of board, eager messages, slices, chunks and fragments; small ones are the most frequent. */
static size_t draw_count(struct br_random *random, size_t most)
{
    static const size_t counts[] = {0,      1,      2,      3,      7,      8,      9,     31,
                                    64,     255,    1000,   1023,   2047,   4096,   4097,  8191,
                                    8193,   16384,  16385,  32767,  32769,  65535,  65537, 100003,
                                    131072, 131073, 262145, 300007, 524289, 1000003};
    size_t n = sizeof counts / sizeof *counts, count;

    do {
        count = counts[br_random_below(random, n)];
        if (count > 70000 && br_random_below(random, 2))
            count = 1 + br_random_below(random, 70000);
    } while (count > most);
    return count;
}

static const char *draw_algorithm(struct br_random *random, enum br_collective collective)
{
    static const char *const names[BR_COLLECTIVES][MOST_ALGORITHMS] = {
        [BR_ALLREDUCE] = {"ring", "direct", "halving", "flat", "binary_tree", "double_tree", "doubling"},
        [BR_REDUCE_SCATTER] = {"ring", "direct", "halving"},
        [BR_ALLGATHER] = {"ring", "direct", "halving"},
        [BR_BROADCAST] = {"ring", "direct", "halving", "flat", "tree", "chain", "binary_tree", "double_tree"},
        [BR_REDUCE] = {"ring", "direct", "flat", "tree", "chain", "binary_tree", "double_tree"},
        [BR_ALLTOALL] = {"direct", "bruck"},
        [BR_GATHER] = {"flat", "tree"},
        [BR_SCATTER] = {"flat", "tree"},
        [BR_BARRIER] = {"dissemination"},
    };
    int n = 0;

    while (n < MOST_ALGORITHMS && names[collective][n])
        n++;
    return br_random_below(random, 2) ? NULL : names[collective][br_random_below(random, (uint64_t)n)];
}

/* The same on every rank, but for the way to call and what lies on the GPU. */
static struct combination draw(const struct rank *r)
{
    struct br_random random, own;
    struct combination c = {0};
    size_t blocks;
    uint32_t n = (uint32_t)r->size;

    br_random_seed(&random, (r->seed * 100 + (uint64_t)r->size) * 1000003 + (uint64_t)r->number);
    c.collective = (enum br_collective)br_random_below(&random, BR_COLLECTIVES);
    c.data.type = (enum braid_type)br_random_below(&random, BRAID_TYPES);
    c.data.reduction = (enum braid_reduction)br_random_below(&random, BRAID_REDUCTIONS);
    c.data.seed = br_random_next(&random);
    blocks = br_collective_blocks(c.collective, n, BR_INPUT);
    if (blocks < br_collective_blocks(c.collective, n, BR_OUTPUT))
        blocks = n;
    c.count = draw_count(&random, MOST / br_type_size(c.data.type) / blocks);
    c.root = (int)br_random_below(&random, (uint64_t)r->size);
    c.in_place = br_random_below(&random, 2);
    c.send_memory = c.recv_memory = br_random_below(&random, 2) ? ALLOCATED : PLAIN;
    if (br_random_below(&random, 2)) {
        c.send_offset = (unsigned)br_random_below(&random, 16);
        c.recv_offset = (unsigned)br_random_below(&random, 16);
    }
    c.options.algorithm = draw_algorithm(&random, c.collective);
    c.options.priority = (int32_t)br_random_below(&random, 5) - 2;
    br_random_seed(&own, c.data.seed + (uint64_t)r->rank * 77);
    c.way = (enum way)br_random_below(br_random_below(&random, 2) ? &own : &random, WAYS);
    if (r->buffers[OF_GPU].send && br_random_below(&own, 3))
        c.send_memory = OF_GPU;
    if (r->buffers[OF_GPU].recv && br_random_below(&own, 3))
        c.recv_memory = OF_GPU;
    return c;
}

static int wrong(const struct rank *r, const struct combination *c, const char *what, size_t n)
{
    fprintf(stderr,
            "BRAID_MATRIX_SEED=%llu case %d, rank %d of %d: %s %s %s, %zu elements, root %d, %s, from %s to "
            "%s, offsets "
            "%u and %u, "
            "algorithm %s, priority %d, %s: %zu %s (%s)\n",
            (unsigned long long)r->seed, r->number, r->rank, r->size, br_collective_name(c->collective),
            br_type_name(c->data.type), br_reduction_name(c->data.reduction), c->count, c->root,
            c->in_place ? "in place" : "apart", memory_names[c->send_memory], memory_names[c->recv_memory],
            c->send_offset, c->recv_offset, c->options.algorithm ? c->options.algorithm : "auto",
            c->options.priority, way_names[c->way], n, what, braid_last_error());
    return 1;
}

/* ---- where things are ----------------------------------------------------------------------- */

static size_t block(const struct combination *c)
{
    return c->collective == BR_BARRIER ? 0 : c->count * br_type_size(c->data.type);
}

static size_t send_bytes(const struct rank *r, const struct combination *c)
{
    return block(c) * br_collective_blocks(c->collective, (uint32_t)r->size, BR_INPUT);
}

static size_t recv_bytes(const struct rank *r, const struct combination *c)
{
    return block(c) * br_collective_blocks(c->collective, (uint32_t)r->size, BR_OUTPUT);
}

static bool writes(const struct rank *r, const struct combination *c)
{
    return !br_collective_to_root(c->collective) || r->rank == c->root;
}

/* The larger of the two buffers stands at its place, the other one is its block `rank` in place. */
static void locate(const struct rank *r, const struct combination *c, uint8_t **send, uint8_t **recv)
{
    size_t own = block(c) * (size_t)r->rank;

    *send = r->buffers[c->send_memory].send + GUARD + c->send_offset;
    *recv = r->buffers[c->recv_memory].recv + GUARD + c->recv_offset;
    if (!c->in_place)
        return;
    if (recv_bytes(r, c) < send_bytes(r, c))
        *recv = *send + own;
    else
        *send = send_bytes(r, c) < recv_bytes(r, c) ? *recv + own : *recv;
}

static bool guards_hold(const uint8_t *start, size_t bytes)
{
    for (unsigned i = 1; i <= GUARD / 2; i++)
        if (start[-(int)i] != EDGE || start[bytes + i - 1] != EDGE)
            return false;
    return true;
}

static void guard(uint8_t *start, size_t bytes)
{
    memset(start - GUARD / 2, EDGE, GUARD / 2);
    memset(start + bytes, EDGE, GUARD / 2);
}

/* ---- one case ------------------------------------------------------------------------------- */

static int submit(const struct rank *r, const struct combination *c, const void *send, void *recv,
                  struct braid_op **op)
{
    const struct braid_options *o = &c->options;
    enum braid_reduction by = c->data.reduction;
    enum braid_type type = c->data.type;
    bool keep = c->way == WAY_PERSISTENT;

    switch (c->collective) {
    case BR_ALLREDUCE:
        return (keep ? braid_allreduce_init : braid_allreduce)(r->comm, send, recv, c->count, type, by, o,
                                                               op);
    case BR_REDUCE_SCATTER:
        return (keep ? braid_reduce_scatter_init : braid_reduce_scatter)(r->comm, send, recv, c->count, type,
                                                                         by, o, op);
    case BR_ALLGATHER:
        return (keep ? braid_allgather_init : braid_allgather)(r->comm, send, recv, c->count, type, o, op);
    case BR_BROADCAST:
        return (keep ? braid_broadcast_init : braid_broadcast)(r->comm, send, recv, c->count, type, c->root,
                                                               o, op);
    case BR_REDUCE:
        return (keep ? braid_reduce_init : braid_reduce)(r->comm, send, recv, c->count, type, by, c->root, o,
                                                         op);
    case BR_ALLTOALL:
        return (keep ? braid_alltoall_init : braid_alltoall)(r->comm, send, recv, c->count, type, o, op);
    case BR_GATHER:
        return (keep ? braid_gather_init : braid_gather)(r->comm, send, recv, c->count, type, c->root, o, op);
    case BR_SCATTER:
        return (keep ? braid_scatter_init : braid_scatter)(r->comm, send, recv, c->count, type, c->root, o,
                                                           op);
    default:
        return (keep ? braid_barrier_init : braid_barrier)(r->comm, o, op);
    }
}

static int run(const struct rank *r, const struct combination *c, const void *send, void *recv)
{
    struct braid_op *op = NULL;
    int rc = submit(r, c, send, recv, c->way == WAY_BLOCK ? NULL : &op), done = 0;

    if (rc || c->way == WAY_BLOCK)
        return rc;
    switch (c->way) {
    case WAY_TEST:
        while (!rc && !done)
            rc = braid_test(op, &done);
        return rc;
    case WAY_SHORT_WAITS:
        for (int ms = 0;
             (rc = braid_wait(op, ms)) == -ETIMEDOUT && strstr(braid_last_error(), "still running");)
            ms = ms < 8 ? ms + 1 : ms;
        return rc;
    case WAY_PERSISTENT:
        rc = braid_start(op);
        if (!rc)
            rc = braid_wait(op, -1);
        done = braid_op_free(op);
        return rc ? rc : done;
    default:
        return braid_wait(op, -1);
    }
}

static size_t count_wrong(const struct rank *r, const struct combination *c, const uint8_t *recv)
{
    size_t n = 0;

    switch (c->collective) {
    case BR_REDUCE_SCATTER:
        return br_data_wrong_reduced(&c->data, r->size, c->count * (size_t)r->rank, recv, c->count);
    case BR_ALLGATHER:
    case BR_GATHER:
    case BR_ALLTOALL:
        for (int i = 0; i < r->size; i++)
            n +=
                br_data_wrong_copy(&c->data, i, c->collective == BR_ALLTOALL ? c->count * (size_t)r->rank : 0,
                                   recv + block(c) * (size_t)i, c->count);
        return n;
    case BR_SCATTER:
        return br_data_wrong_copy(&c->data, c->root, c->count * (size_t)r->rank, recv, c->count);
    case BR_BROADCAST:
        return br_data_wrong_copy(&c->data, c->root, 0, recv, c->count);
    case BR_BARRIER:
        return 0;
    default:
        return br_data_wrong_reduced(&c->data, r->size, 0, recv, c->count);
    }
}

/* Which way the bytes went. */
static int check_copies(const struct rank *r, const struct combination *c, const struct braid_stats *before,
                        const uint8_t *send, const uint8_t *recv)
{
    bool reads = !br_collective_from_root(c->collective) || r->rank == c->root;
    size_t to_host = reads && own_gpu_view((uint8_t *)(uintptr_t)send) != send ? send_bytes(r, c) : 0;
    size_t to_gpu = writes(r, c) && own_gpu_view((uint8_t *)(uintptr_t)recv) != recv ? recv_bytes(r, c) : 0;
    struct braid_stats after;

    if (braid_stats(r->comm, &after))
        return wrong(r, c, "stats", 1);
    after.gpu_to_host_bytes -= before->gpu_to_host_bytes;
    after.host_to_gpu_bytes -= before->host_to_gpu_bytes;
    /* Off the board the own block is fetched both as input and as output. */
    if (c->in_place && to_host > recv_bytes(r, c) && after.gpu_to_host_bytes == to_host + recv_bytes(r, c))
        to_host += recv_bytes(r, c);
    if (after.gpu_to_host_bytes != to_host)
        return wrong(r, c, "bytes were copied from the GPU, another number than are read",
                     after.gpu_to_host_bytes);
    if (after.host_to_gpu_bytes != to_gpu)
        return wrong(r, c, "bytes were copied to the GPU, another number than are written",
                     after.host_to_gpu_bytes);
    return 0;
}

static int once(const struct rank *r, const struct combination *c, bool again)
{
    size_t n_send = send_bytes(r, c), n_recv = writes(r, c) ? recv_bytes(r, c) : 0, n;
    bool whole_send = !c->in_place || n_send >= recv_bytes(r, c); /* not a block of the other buffer */
    bool whole_recv = !c->in_place || recv_bytes(r, c) >= n_send;
    uint8_t *given_send, *given_recv, *send, *recv;
    struct braid_stats before;
    int rc;

    locate(r, c, &given_send, &given_recv);
    send = own_gpu_view(given_send);
    recv = own_gpu_view(given_recv);
    if (braid_stats(r->comm, &before))
        return wrong(r, c, "stats", 1);
    memset(recv, 0xee, recv_bytes(r, c));
    br_data_fill(&c->data, r->rank, 0, send, n_send / br_type_size(c->data.type));
    if (whole_send)
        guard(send, n_send);
    if (whole_recv)
        guard(recv, recv_bytes(r, c));
    rc = run(r, c, given_send, given_recv);
    if (rc)
        return wrong(r, c, "was returned", (size_t)-rc);
    if (check_copies(r, c, &before, given_send, given_recv))
        return 1;
    n = writes(r, c) ? count_wrong(r, c, recv) : 0;
    if (n)
        return wrong(r, c, "elements are wrong", n);
    if (!c->in_place &&
        (n = br_data_wrong_copy(&c->data, r->rank, 0, send, n_send / br_type_size(c->data.type))))
        return wrong(r, c, "elements of the input have changed", n);
    if (whole_send && !guards_hold(send, n_send))
        return wrong(r, c, "something was written around the input", 1);
    if (whole_recv && !guards_hold(recv, recv_bytes(r, c)))
        return wrong(r, c, "something was written around the output", 1);
    if (again && n_recv && memcmp(r->first, recv, n_recv))
        return wrong(r, c, "the second result has other bits than the first", 1);
    if (n_recv)
        memcpy(r->first, recv, n_recv);
    return 0;
}

static int all_cases(struct braid_comm *comm, void *context)
{
    const struct setup *setup = context;
    long cases = setting("BRAID_MATRIX_CASES", CASES);
    size_t bytes = MOST + 4 * GUARD;
    struct rank r = {
        .comm = comm,
        .rank = braid_rank(comm),
        .size = braid_size(comm),
        .seed = setup->seed,
        .buffers = {[PLAIN] = {malloc(bytes), malloc(bytes)},
                    [ALLOCATED] = {braid_alloc(comm, bytes), braid_alloc(comm, bytes)}},
        .first = malloc(bytes),
    };
    int rc = !r.buffers[PLAIN].send || !r.buffers[PLAIN].recv || !r.buffers[ALLOCATED].send ||
             !r.buffers[ALLOCATED].recv || !r.first;

    if (setup->with_gpu)
        r.buffers[OF_GPU] = (struct buffers){own_gpu_alloc(bytes), own_gpu_alloc(bytes)};
    for (; r.number < cases && !rc; r.number++) {
        struct combination c = draw(&r);

        rc = once(&r, &c, false) || once(&r, &c, true);
    }
    if (setup->with_gpu) {
        own_gpu_free(r.buffers[OF_GPU].send);
        own_gpu_free(r.buffers[OF_GPU].recv);
    }
    free(r.first);
    free(r.buffers[PLAIN].recv);
    free(r.buffers[PLAIN].send);
    return rc;
}

/* Small slices and eager limits put more boundaries into the same sizes. */
static void ranks_of(int kind, int n, bool with_gpu)
{
    struct setup setup = {(uint64_t)setting("BRAID_MATRIX_SEED", SEED), with_gpu};
    struct ranks job = ranks_kinds[kind];

    job.size = n;
    if (n % 3 == 2) {
        job.slice_bytes = 20000;
        job.eager_bytes = 1000;
    }
    ranks_run(&job, all_cases, &setup);
}

static void all_numbers_of_ranks(int kind)
{
    int only = (int)setting("BRAID_MATRIX_RANKS", 0);

    for (int n = only ? only : 1; n <= (only ? only : 9); n++)
        ranks_of(kind, n, false);
}

static void matrix__uring(void **state)
{
    (void)state;
    all_numbers_of_ranks(0);
}

static void matrix__uring_two_rails(void **state)
{
    (void)state;
    all_numbers_of_ranks(1);
}

static void matrix__shm(void **state)
{
    (void)state;
    all_numbers_of_ranks(2);
}

static void matrix__auto(void **state)
{
    (void)state;
    all_numbers_of_ranks(3);
}

static void matrix__udp_two_rails(void **state)
{
    (void)state;
    for (int n = 2; n <= 8; n += 3) /* what is udp's own, all of them would not show better */
        ranks_of(4, n, false);
}

/* Staging is the same over all of them; with the board (2, 3) and without, more ranks than cores, small slices (5). */
static void matrix__gpu(void **state)
{
    static const int kinds[] = {2, 0, 2, 3, 4};

    (void)state;
    setenv("BRAID_CUDA_LIBRARY", FAKE_CUDA_LIBRARY, 1);
    for (int n = 1; n <= 5; n++)
        ranks_of(kinds[n - 1], n, true);
    unsetenv("BRAID_CUDA_LIBRARY");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrix__uring),         cmocka_unit_test(matrix__uring_two_rails),
        cmocka_unit_test(matrix__shm),           cmocka_unit_test(matrix__auto),
        cmocka_unit_test(matrix__udp_two_rails), cmocka_unit_test(matrix__gpu),
    };

    if (argc == 2)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
