/* SPDX-License-Identifier: BSD-3-Clause */
/* Three or two ranks' views of one shared segment, in one process: what may go through it, in which
 * order, and who disagrees. */
#include "collectives/shm/executor.h"
#include "collectives/shm/round.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/random.h"
#include "collectives/comm/context.h"
#include "collectives/engine/group.h"
#include "protocol/worker.h"
#include "tests/says.h"

#define N          3      /* most ranks */
#define AHEAD_MOST 20000u /* elements */

static int n_ranks;
static struct br_shm_executor locals[N];
static int32_t in[N][64], out[N][N * 64];
static uint64_t read_bytes[N]; /* directly */

static int job_ranks[N] = {4, 7, 1};
static struct br_group group = {.number = 5, .size = N, .ranks = job_ranks};

static int open_segment_of(int ranks, bool in_places)
{
    int fd = -1;

    n_ranks = ranks;
    group.size = ranks;
    memset(locals, 0, sizeof locals);
    memset(out, 0xee, sizeof out);
    memset(read_bytes, 0, sizeof read_bytes);
    for (uint32_t r = 0; r < (uint32_t)n_ranks; r++) {
        struct br_shm_executor *shm = &locals[r];

        shm->group = &group;
        shm->rank = r;
        shm->n = (uint32_t)n_ranks;
        shm->max_bytes = 4096;
        shm->max_reduce_bytes = 6144;
        shm->max_copied_bytes = shm->max_exchange_bytes = shm->max_direct_bytes = 1u << 20;
        shm->direct =
            (struct br_shm_direct){.allowed = true, .token = 77 + r, .read_bytes = &read_bytes[r]};
        shm->split_bytes = shm->split_reduce_bytes = SIZE_MAX;
        br_list_init(&shm->queue);
        br_list_init(&shm->executor.ended);
        if (r ? br_shm_coll_attach(&shm->coll, shm->n, r, in_places, fd)
              : br_shm_coll_create(&shm->coll, shm->n, 0, in_places, &fd))
            return -1;
        for (int i = 0; i < 64; i++)
            in[r][i] = (int32_t)r * 1000 + i;
    }
    return close(fd);
}

static int open_segment(void **state)
{
    (void)state;
    return open_segment_of(N, false);
}

static int open_pair(void **state)
{
    (void)state;
    return open_segment_of(2, false);
}

static int open_pair_in_places(void **state)
{
    (void)state;
    return open_segment_of(2, true);
}

static int close_segment(void **state)
{
    (void)state;
    for (int r = 0; r < N; r++)
        br_shm_coll_close(&locals[r].coll);
    return 0;
}

static struct br_operation make(int rank, enum br_collective collective, size_t count, int root,
                                uint64_t sequence)
{
    return (struct br_operation){
        .kind = BR_OPERATION_COLLECTIVE,
        .group = &group,
        .collective = collective,
        .send = in[rank],
        .recv = out[rank],
        .count = count,
        .type = BRAID_INT32,
        .reduction = BRAID_SUM,
        .root = root,
        .sequence = sequence,
        .deadline = 1000 + sequence,
    };
}

static void takes__by_size_and_name(void **state)
{
    struct br_operation op = make(0, BR_ALLREDUCE, 1024, 0, 0);

    (void)state;
    assert_true(br_shm_executor_takes(&locals[0], &op));
    op.count = 1025;
    assert_false(br_shm_executor_takes(&locals[0], &op));
    strcpy(op.algorithm, "shm");
    assert_true(br_shm_executor_takes(&locals[0], &op));
    op.count = BR_SHM_COLL_BYTES / 4 + 1;
    assert_false(br_shm_executor_takes(&locals[0], &op));
    op.count = 1;
    strcpy(op.algorithm, "ring");
    assert_false(br_shm_executor_takes(&locals[0], &op));
    op.algorithm[0] = 0;
    op.kind = BR_OPERATION_SEND;
    assert_false(br_shm_executor_takes(&locals[0], &op));
    op = make(0, BR_REDUCE, 1536, 0, 0);
    assert_true(br_shm_executor_takes(&locals[0], &op));
    op.count = 1537;
    assert_false(br_shm_executor_takes(&locals[0], &op));
    for (int c = 0; c < BR_COLLECTIVES; c++) {
        bool block_of_each = c == BR_REDUCE_SCATTER || c == BR_ALLTOALL || c == BR_SCATTER;

        if (c == BR_ALLREDUCE || c == BR_REDUCE || c == BR_BARRIER || c == BR_SCAN ||
            c == BR_EXSCAN)
            continue;
        op = make(0, (enum br_collective)c, (1u << 18) / (block_of_each ? N : 1), 0, 0);
        assert_true(br_shm_executor_takes(&locals[0], &op));
        op.count++;
        assert_false(br_shm_executor_takes(&locals[0], &op));
    }
}

/* Two ranks: what the other one needs counts. */
static void takes__of_a_pair(void **state)
{
    (void)state;
    locals[0].max_pair_bytes = 2u << 20;
    for (int c = 0; c < BR_COLLECTIVES; c++) {
        struct br_operation op = make(0, (enum br_collective)c, 1u << 18, 0, 0);

        if (c == BR_BARRIER || c == BR_SCAN || c == BR_EXSCAN)
            continue;
        op.count = (br_collective_rooted((enum br_collective)c) ? BR_SHM_PIECES_BYTES : 2u << 20) /
                   sizeof(int32_t);
        assert_true(br_shm_executor_takes(&locals[0], &op));
        op.count++;
        assert_false(br_shm_executor_takes(&locals[0], &op));
    }
}

/* KiB that a rank gives, in a job without GPUs. */
static void set_limits__by_ranks_and_cores(void **state)
{
    static const struct {
        uint32_t n;
        bool crowded, direct;
        size_t allreduce, reduce, exchange, directly, others, pair, whole;
    } cases[] = {{2, false, true, 4, 8, 8, 8, 8, 2048, 0},
                 {2, true, true, 128, 128, 16384, 16384, 128, 0, 16},
                 {3, false, true, 4, 8, 8, 8, 8, 0, 0},
                 {4, false, true, 32, 32, 32, 32, 32, 0, 0},
                 {8, false, true, 32, 32, 32, 32, 32, 0, 0},
                 {16, false, true, 32, 16, 32, 32, 32, 0, 0},
                 {64, false, true, 32, 8, 32, 32, 32, 0, 0},
                 {3, true, true, 128, 8192, 16384, 16384, 128, 0, 36},
                 {4, true, true, 8192, 8192, 16384, 16384, 8192, 0, 64},
                 {8, true, true, 8192, 8192, 16384, 16384, 8192, 0, 256},
                 {64, true, true, 2048, 2048, 16384, 16384, 8192, 0, 2048},
                 {64, true, false, 2048, 2048, 16384, 256, 8192, 0, 2048}};
    struct br_context context = {.settings = {.shm_collective_bytes = BR_SHM_COLLECTIVE_BYTES,
                                              .shm_collective_default = true}};
    struct br_shm_executor shm = {.context = &context};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        shm.n = cases[i].n;
        shm.direct.allowed = cases[i].direct;
        context.crowded = cases[i].crowded;
        br_shm_executor_set_limits(&shm);
        assert_int_equal(shm.max_bytes, cases[i].allreduce << 10);
        assert_int_equal(shm.max_reduce_bytes, cases[i].reduce << 10);
        assert_int_equal(shm.max_exchange_bytes, cases[i].exchange << 10);
        assert_int_equal(shm.max_direct_bytes, cases[i].directly << 10);
        assert_int_equal(shm.max_copied_bytes, cases[i].others << 10);
        assert_int_equal(shm.max_pair_bytes, cases[i].pair << 10);
        assert_int_equal(shm.max_whole_bytes, cases[i].whole << 10);
    }
    context = (struct br_context){.settings = context.settings, .gpus = true};
    shm.n = 2;
    br_shm_executor_set_limits(&shm);
    assert_int_equal(shm.max_pair_bytes, 0);
    assert_int_equal(shm.max_reduce_bytes, BR_SHM_COLLECTIVE_BYTES);
    assert_int_equal(shm.max_copied_bytes, BR_SHM_COLLECTIVE_BYTES);
    context = (struct br_context){.settings = {.shm_collective_bytes = 5000}}; /* the user's */
    br_shm_executor_set_limits(&shm);
    assert_int_equal(shm.max_bytes, 5000);
    assert_int_equal(shm.max_reduce_bytes, 5000);
    assert_int_equal(shm.max_copied_bytes, 5000);
    assert_int_equal(shm.max_exchange_bytes, 5000);
    assert_int_equal(shm.max_direct_bytes, 5000);
    assert_int_equal(shm.max_pair_bytes, 0);
}

/* The short way on all ranks, one after the other; a rank is complete when those have published
 * that it needs. */
static void complete__every_collective(void **state)
{
    (void)state;
    for (int c = 0; c < BR_COLLECTIVES; c++) {
        struct br_operation ops[N];

        for (int r = 0; r < N; r++) {
            ops[r] = make(r, (enum br_collective)c, 4, 1, (uint64_t)c);
            assert_true(br_shm_executor_begin(&locals[r], &ops[r]));
            if (c == BR_ALLREDUCE || c == BR_BARRIER || c == BR_ALLTOALL)
                assert_int_equal(br_shm_executor_complete(&locals[r], &ops[r]), r == N - 1);
        }
        for (int r = 0; r < N; r++)
            if (locals[r].busy)
                assert_int_equal(br_shm_executor_complete(&locals[r], &ops[r]), 1);
        for (int r = 0; r < N; r++)
            for (int i = 0; i < 4; i++) {
                if (c == BR_ALLREDUCE || (c == BR_REDUCE && r == 1))
                    assert_int_equal(out[r][i], 3000 + 3 * i);
                if (c == BR_REDUCE_SCATTER)
                    assert_int_equal(out[r][i], 3000 + 3 * (i + 4 * r));
                if (c == BR_ALLGATHER)
                    assert_int_equal(out[r][i + 8], 2000 + i);
                if (c == BR_BROADCAST)
                    assert_int_equal(out[r][i], 1000 + i);
                if (c == BR_ALLTOALL)
                    assert_int_equal(out[r][i + 8], 2000 + i + 4 * r);
                if (c == BR_GATHER && r == 1)
                    assert_int_equal(out[r][i + 4], 1000 + i);
                if (c == BR_SCATTER)
                    assert_int_equal(out[r][i], 1000 + i + 4 * r);
            }
    }
    assert_int_equal(locals[0].operations, BR_COLLECTIVES);
}

/* Ranks 0 and 1 share a core: when both have published, they wait for rank 2 on another one. */
static void spins__when_its_core_has_published(void **state)
{
    struct br_operation ops[N];
    uint32_t spins = 0;

    (void)state;
    for (int r = 0; r < N; r++) {
        locals[r].first_beside = r < 2 ? 0 : 2;
        locals[r].end_beside = r < 2 ? 2 : 3;
        ops[r] = make(r, BR_ALLREDUCE, 4, 0, 0);
    }
    assert_true(br_shm_executor_begin(&locals[0], &ops[0]));
    assert_false(br_shm_executor_spins(&locals[0], &spins));
    assert_true(br_shm_executor_begin(&locals[1], &ops[1]));
    assert_true(br_shm_executor_spins(&locals[0], &spins));
    assert_true(br_shm_executor_spins(&locals[1], &spins));
    assert_int_equal(spins, 2);
    while (br_shm_executor_spins(&locals[0], &spins))
        ;
    assert_int_equal(spins, BR_SHM_SPINS);
    spins = 0;
    locals[0].end_beside = 0; /* nobody knows */
    assert_false(br_shm_executor_spins(&locals[0], &spins));
}

/* ---- ranks that run ahead -------------------------------------------------------------------- */

static void call(int rank, struct br_operation *op)
{
    assert_true(br_shm_executor_begin(&locals[rank], op));
    assert_int_equal(br_shm_executor_complete(&locals[rank], op), 1);
}

/* A root of broadcasts does not wait for the others until all slots are full; what it has given
 * stays as it was. */
static void ahead__until_the_slots_are_full(void **state)
{
    enum { AHEAD = BR_SHM_COLL_DEPTH - 1 };
    struct br_operation op;
    uint64_t sequence = 0;
    char text[120];

    (void)state;
    for (; sequence < AHEAD; sequence++) {
        in[0][0] = (int32_t)sequence;
        op = make(0, BR_BROADCAST, 2, 0, sequence);
        call(0, &op);
    }
    in[0][0] = 4711;
    op = make(0, BR_BROADCAST, 2, 0, sequence);
    assert_true(br_shm_executor_begin(&locals[0], &op)); /* it has the turn, and waits for room */
    assert_int_equal(br_shm_executor_complete(&locals[0], &op), 0);
    assert_int_equal(br_shm_executor_missing(&locals[0], &op), 1);
    assert_says(br_shm_executor_name_waited(&locals[0], &op, text, sizeof text), "rank 1");
    for (uint64_t s = 0; s < BR_SHM_COLL_DEPTH / 2; s++)
        for (int r = 1; r < N; r++) {
            struct br_operation theirs = make(r, BR_BROADCAST, 2, 0, s);

            assert_int_equal(br_shm_executor_complete(&locals[0], &op), 0);
            assert_int_equal(br_shm_executor_missing(&locals[0], &op), r);
            call(r, &theirs);
            assert_int_equal(out[r][0], (int32_t)s);
        }
    assert_int_equal(br_shm_executor_complete(&locals[0], &op), 1);
    for (int r = 1; r < N; r++)
        for (uint64_t s = BR_SHM_COLL_DEPTH / 2; s <= AHEAD; s++) {
            struct br_operation theirs = make(r, BR_BROADCAST, 2, 0, s);

            call(r, &theirs);
            assert_int_equal(out[r][0], s < AHEAD ? (int32_t)s : 4711);
        }
}

/* A call that waits for room and whose caller leaves goes on in the queue. */
static void ahead__goes_on_in_the_queue(void **state)
{
    struct br_operation op, other;

    (void)state;
    for (uint64_t s = 0; s + 1 < BR_SHM_COLL_DEPTH; s++) {
        op = make(1, BR_GATHER, 1, 0, s);
        call(1, &op);
    }
    op = make(1, BR_GATHER, 1, 0, BR_SHM_COLL_DEPTH - 1);
    assert_true(br_shm_executor_begin(&locals[1], &op));
    assert_int_equal(br_shm_executor_complete(&locals[1], &op), 0);
    br_shm_executor_go_on(&locals[1], &op);
    assert_int_equal(br_shm_executor_step(&locals[1], 0), 0);
    for (uint64_t s = 0; s < BR_SHM_COLL_DEPTH / 2; s++)
        for (int r = 0; r < N; r += 2) {
            other = make(r, BR_GATHER, 1, 0, s);
            assert_true(br_shm_executor_begin(&locals[r], &other));
            if (r) {
                assert_int_equal(br_shm_executor_complete(&locals[2], &other), 1);
                other = make(0, BR_GATHER, 1, 0, s);
                assert_int_equal(br_shm_executor_complete(&locals[0], &other), 1);
            }
        }
    assert_int_equal(br_shm_executor_step(&locals[1], 0), 1);
    assert_ptr_equal(br_operation_pop(&locals[1].executor.ended), &op);
}

/* One that ends with an error while it waits for room leaves the turn to nobody who has published.
 */
static void ahead__give_up(void **state)
{
    struct br_operation op;

    (void)state;
    for (uint64_t s = 0; s + 1 < BR_SHM_COLL_DEPTH; s++) {
        op = make(0, BR_SCATTER, 1, 0, s);
        call(0, &op);
    }
    op = make(0, BR_SCATTER, 1, 0, BR_SHM_COLL_DEPTH - 1);
    assert_true(br_shm_executor_begin(&locals[0], &op));
    br_shm_executor_give_up(&locals[0]);
    br_shm_executor_submit(&locals[0], &op);
    assert_int_equal(br_shm_executor_step(&locals[0], 0), 0);
    assert_int_equal(br_shm_executor_missing(&locals[0], NULL), 1);
    assert_int_equal(locals[0].epoch, BR_SHM_COLL_DEPTH - 1);
    br_shm_executor_fail(&locals[0], -ECANCELED, "enough", 0);
    assert_int_equal(op.status, -ECANCELED);
}

/* A call that all ranks make: which one follows from its number. */
static struct br_operation random_call(int rank, uint64_t sequence)
{
    static const enum br_collective rooted[2][2] = {{BR_BROADCAST, BR_SCATTER},
                                                    {BR_REDUCE, BR_GATHER}},
                                    others[4] = {BR_ALLREDUCE, BR_ALLGATHER, BR_REDUCE_SCATTER,
                                                 BR_ALLTOALL};
    struct br_random random;
    uint64_t kind, count;
    bool all;

    br_random_seed(&random, sequence);
    all = !br_random_below(&random, 150); /* it holds up all ranks */
    kind = br_random_below(&random, 50) ? sequence / 200 % 2 : br_random_below(&random, 2);
    count = 1 + br_random_below(&random, br_random_below(&random, 4) ? 2 : 64);
    if (sequence % 50 == 7)
        count = AHEAD_MOST;
    return make(
        rank, all ? others[br_random_below(&random, 4)] : rooted[kind][br_random_below(&random, 2)],
        count, all ? 0 : (int)(sequence / 300 % N), sequence);
}

static int32_t ahead_in(int rank, uint64_t sequence, size_t i)
{
    return (int32_t)((uint32_t)rank * 7919u + (uint32_t)sequence * 104729u + (uint32_t)i);
}

static void check_ahead(const struct br_operation *op, int rank)
{
    const int32_t *recv = op->recv;
    bool root = rank == op->root;

    for (size_t i = 0; i < op->count; i++) {
        int32_t sum = 0;

        size_t own = (size_t)rank * op->count + i;

        for (int r = 0; r < N; r++) {
            bool scatters = op->collective == BR_REDUCE_SCATTER || op->collective == BR_ALLTOALL;
            int32_t word = ahead_in(r, op->sequence, scatters ? own : i);

            sum = (int32_t)((uint32_t)sum + (uint32_t)word);
            if ((op->collective == BR_GATHER && root) || op->collective == BR_ALLGATHER ||
                op->collective == BR_ALLTOALL)
                assert_int_equal(recv[(size_t)r * op->count + i], word);
        }
        if (op->collective == BR_ALLREDUCE || op->collective == BR_REDUCE_SCATTER ||
            (op->collective == BR_REDUCE && root))
            assert_int_equal(recv[i], sum);
        if (op->collective == BR_BROADCAST)
            assert_int_equal(recv[i], ahead_in(op->root, op->sequence, i));
        if (op->collective == BR_SCATTER)
            assert_int_equal(recv[i], ahead_in(op->root, op->sequence, own));
    }
}

/* Any mix of collectives and roots, ranks by turns of any length: all results are right, and ranks
 * are far ahead of each other. */
static void ahead__mixed_calls(void **state)
{
    enum { CALLS = 4000 };
    static int32_t send[N][N * AHEAD_MOST], recv[N][N * AHEAD_MOST];
    struct br_operation ops[N];
    uint64_t done[N] = {0}, ahead = 0;
    struct br_random random;

    (void)state;
    br_random_seed(&random, 5);
    locals[1].coll.window = BR_SHM_COLL_WINDOW;
    while (done[0] < CALLS || done[1] < CALLS || done[2] < CALLS) {
        int r = (int)br_random_below(&random, N);

        for (uint64_t turn = br_random_below(&random, 200); turn && done[r] < CALLS; turn--) {
            if (!locals[r].busy) {
                ops[r] = random_call(r, done[r]);
                ops[r].send = send[r];
                ops[r].recv = recv[r];
                for (size_t i = 0; i < N * ops[r].count; i++)
                    send[r][i] = ahead_in(r, done[r], i);
                assert_true(br_shm_executor_begin(&locals[r], &ops[r]));
            }
            if (!br_shm_executor_complete(&locals[r], &ops[r]))
                break;
            check_ahead(&ops[r], r);
            memset(send[r], 0xee, N * ops[r].count * sizeof send[r][0]); /* the program's again */
            done[r]++;
        }
        for (int other = 0; other < N; other++)
            if (done[r] > done[other] && done[r] - done[other] > ahead)
                ahead = done[r] - done[other];
    }
    assert_in_range(ahead, BR_SHM_COLL_DEPTH / 4, BR_SHM_COLL_DEPTH);
}

/* ---- several rounds -------------------------------------------------------------------------- */

/* Ranks are complete after the second round; the next operation begins in the third. */
static void complete__split(void **state)
{
    struct br_operation ops[2][N];
    char text[120];

    (void)state;
    for (int r = 0; r < N; r++) {
        locals[r].split_bytes = 64;
        ops[0][r] = make(r, BR_ALLREDUCE, 64, 0, 0);
        ops[1][r] = make(r, BR_ALLREDUCE, 15, 0, 1); /* in one round again */
        assert_true(br_shm_executor_begin(&locals[r], &ops[0][r]));
    }
    assert_int_equal(br_shm_executor_complete(&locals[0], &ops[0][0]), 0);
    assert_int_equal(locals[0].epoch, 2);
    assert_int_equal(br_shm_round_waits_for(&locals[0], &ops[0][0]), 1);
    assert_says(br_shm_executor_name_waited(&locals[0], &ops[0][0], text, sizeof text), "rank 1");
    assert_int_equal(br_shm_executor_complete(&locals[1], &ops[0][1]), 0);
    assert_int_equal(br_shm_executor_complete(&locals[2], &ops[0][2]), 1);
    /* a caller that waits no longer leaves its operation to the queue in between */
    br_shm_executor_go_on(&locals[0], &ops[0][0]);
    assert_int_equal(br_shm_executor_step(&locals[0], 0), 1);
    assert_int_equal(br_shm_executor_complete(&locals[1], &ops[0][1]), 1);
    for (int r = 0; r < N; r++)
        for (int i = 0; i < 64; i++)
            assert_int_equal(out[r][i], 3000 + 3 * i);
    for (int r = 0; r < N; r++)
        assert_true(br_shm_executor_begin(&locals[r], &ops[1][r]));
    for (int r = 0; r < N; r++)
        assert_int_equal(br_shm_executor_complete(&locals[r], &ops[1][r]), 1);
    assert_int_equal(locals[0].epoch, 3);
}

/* The others have their part in it, so nobody is complete before all have given the sums. */
static void complete__split_reduce(void **state)
{
    struct br_operation ops[N];

    (void)state;
    for (int r = 0; r < N; r++) {
        locals[r].split_reduce_bytes = 64;
        ops[r] = make(r, BR_REDUCE, 64, 0, 0);
        assert_true(br_shm_executor_begin(&locals[r], &ops[r]));
    }
    assert_int_equal(br_shm_executor_complete(&locals[1], &ops[1]), 0);
    assert_int_equal(br_shm_executor_complete(&locals[0], &ops[0]), 0);
    assert_int_equal(br_shm_round_waits_for(&locals[0], &ops[0]), 2);
    assert_int_equal(br_shm_executor_complete(&locals[2], &ops[2]), 1);
    assert_int_equal(br_shm_executor_complete(&locals[0], &ops[0]), 1);
    assert_int_equal(br_shm_executor_complete(&locals[1], &ops[1]), 1);
    for (int i = 0; i < 64; i++)
        assert_int_equal(out[0][i], 3000 + 3 * i);
    assert_int_equal(locals[0].epoch, 2);
}

static void complete__split_disagreement(void **state)
{
    struct br_operation ops[N];

    (void)state;
    for (int r = 0; r < N; r++) {
        locals[r].split_bytes = 64;
        ops[r] = make(r, BR_ALLREDUCE, r == 2 ? 48 : 64, 0, 0);
        assert_true(br_shm_executor_begin(&locals[r], &ops[r]));
    }
    memset(out[0], 0xee, sizeof out[0]);
    assert_int_equal(br_shm_executor_complete(&locals[0], &ops[0]), -EPROTO);
    assert_int_equal(out[0][0], (int32_t)0xeeeeeeee);
}

/* ---- operations that do not fit into one round ----------------------------------------------- */

#define LARGE 300001u /* elements of a block: 1.2 MB, and no whole number of lines */

static int32_t large_in(uint32_t rank, size_t i)
{
    return (int32_t)(rank * 1000003u + (uint32_t)i * 7u);
}

/* Memory of all ranks for an operation; in place an alltoall's `recv` is its `send`. */
static void make_large(struct br_operation *ops, enum br_collective collective, bool in_place,
                       size_t count)
{
    for (int r = 0; r < n_ranks; r++) {
        int32_t *send = malloc(N * count * sizeof *send),
                *recv = in_place ? send : malloc(N * count * sizeof *recv);

        assert_true(send && recv);
        for (size_t i = 0; i < N * count; i++)
            send[i] = large_in((uint32_t)r, i);
        ops[r] = make(r, collective, count, 1, 0);
        ops[r].send = send;
        ops[r].recv = recv;
    }
}

static void free_large(struct br_operation *ops)
{
    for (int r = 0; r < n_ranks; r++) {
        if (ops[r].send != ops[r].recv)
            free((void *)ops[r].send);
        free(ops[r].recv);
    }
}

/* By turns, until all are complete. */
static void run_large(struct br_operation *ops)
{
    int complete = 0;

    for (int r = 0; r < n_ranks; r++)
        assert_true(br_shm_executor_begin(&locals[r], &ops[r]));
    for (int turn = 0; turn < 1000 && complete < n_ranks; turn++)
        for (int r = 0; r < n_ranks; r++)
            if (locals[r].busy) {
                int rc = br_shm_executor_complete(&locals[r], &ops[r]);

                assert_true(rc >= 0);
                complete += rc;
            }
    assert_int_equal(complete, n_ranks);
}

static int32_t large_sum(size_t i)
{
    uint32_t sum = 0;

    for (uint32_t r = 0; r < (uint32_t)n_ranks; r++)
        sum += (uint32_t)large_in(r, i);
    return (int32_t)sum;
}

static void check_large(const struct br_operation *ops, size_t count)
{
    for (uint32_t r = 0; r < (uint32_t)n_ranks; r++) {
        const int32_t *recv = ops[r].recv;
        bool root = r == 1;

        for (size_t i = 0; i < count; i++)
            switch (ops[r].collective) {
            case BR_ALLREDUCE:
                assert_int_equal(recv[i], large_sum(i));
                break;
            case BR_REDUCE:
                assert_int_equal(root ? recv[i] : large_sum(i), large_sum(i));
                break;
            case BR_REDUCE_SCATTER:
                assert_int_equal(recv[i], large_sum(r * count + i));
                break;
            case BR_BROADCAST:
                assert_int_equal(recv[i], large_in(1, i));
                break;
            case BR_SCATTER:
                assert_int_equal(recv[i], large_in(1, r * count + i));
                break;
            default:
                for (uint32_t k = 0;
                     k < (uint32_t)n_ranks && (root || ops[r].collective != BR_GATHER); k++)
                    assert_int_equal(
                        recv[k * count + i],
                        large_in(k, (ops[r].collective == BR_ALLTOALL ? r * count : 0) + i));
                break;
            }
    }
}

/* ---- an all-reduce that is overtaken --------------------------------------------------------- */

static struct br_operation *head(int rank)
{
    return br_container_of(locals[rank].queue.next, struct br_operation, node);
}

/* One step of each rank, or on the short way one look. Which operations have ended on a rank goes
 * to its row of `ended`. */
static void turn_of_all(struct br_operation *first, struct br_operation *ended[N][3],
                        size_t n_ended[N])
{
    for (int r = 0; r < n_ranks; r++) {
        struct br_operation *op;

        if (locals[r].busy) {
            int rc = br_shm_executor_complete(&locals[r], &first[r]);

            assert_true(rc >= 0);
            if (rc)
                ended[r][n_ended[r]++] = &first[r];
        }
        if (br_shm_executor_is_overtaken(&locals[r]))
            br_shm_executor_go_on(&locals[r], &first[r]);
        assert_true(br_shm_executor_step(&locals[r], 0) >= 0);
        while ((op = br_operation_pop(&locals[r].executor.ended)))
            ended[r][n_ended[r]++] = op;
    }
}

#define LONG (2 * LARGE) /* of so many chunks that there is time to overtake it */

/* Three operations: one that is under way, one that is submitted behind it and one that is more
 * urgent, by the priority of rank 0. The last rank submits it late: until then nobody can begin
 * it. short_way: bit r: rank r takes it with the first. */
static void check_overtaking(unsigned short_way, bool in_place, enum br_collective slow,
                             enum br_collective urgent, size_t count)
{
    struct br_operation first[N], behind[N], ahead[N], *ended[N][3];
    size_t n_ended[N] = {0};
    uint64_t before = locals[0].submitted;
    bool overtaken = false;
    char text[120];

    make_large(first, slow, in_place, LONG);
    make_large(behind, slow, in_place, LONG);
    make_large(ahead, urgent, false, count);
    for (int r = 0; r < n_ranks; r++) {
        first[r].sequence = before;
        behind[r].sequence = before + 1;
        ahead[r].sequence = before + 2;
        ahead[r].priority = r ? -r : 1;
        first[r].order = 10;
        behind[r].order = 12;
        ahead[r].order = 14;
        if (short_way >> r & 1)
            assert_true(br_shm_executor_begin(&locals[r], &first[r]));
        else
            br_shm_executor_submit(&locals[r], &first[r]);
        br_shm_executor_submit(&locals[r], &behind[r]);
        if (r < n_ranks - 1)
            br_shm_executor_submit(&locals[r], &ahead[r]);
    }
    for (int turn = 0; turn < 4; turn++)
        turn_of_all(first, ended, n_ended);
    assert_int_equal(locals[0].busy, short_way & 1);
    assert_ptr_equal(head(0), short_way & 1 ? &behind[0] : &first[0]);
    br_shm_executor_submit(&locals[n_ranks - 1], &ahead[n_ranks - 1]);
    for (int turn = 0; turn < 1000 && n_ended[0] + n_ended[1] + n_ended[2] < 3 * (size_t)n_ranks;
         turn++) {
        turn_of_all(first, ended, n_ended);
        if (br_list_empty(&locals[0].queue) || head(0) != &ahead[0])
            continue;
        overtaken = true;
        assert_says(br_shm_executor_name_waited(&locals[0], &first[0], text, sizeof text),
                    "urgent");
    }
    assert_true(overtaken || count < LARGE); /* one round may be over within a turn */
    for (int r = 0; r < n_ranks; r++) {
        assert_int_equal(n_ended[r], 3);
        assert_ptr_equal(ended[r][0], &ahead[r]);
        assert_ptr_equal(ended[r][1], &first[r]);
        assert_ptr_equal(ended[r][2], &behind[r]);
        assert_int_equal(locals[r].epoch, locals[0].epoch);
    }
    check_large(first, LONG);
    check_large(behind, LONG);
    check_large(ahead, count);
    free_large(first);
    free_large(behind);
    free_large(ahead);
}

static void step__urgent_overtakes(void **state)
{
    (void)state;
    for (int in_place = 0; in_place < 2; in_place++) {
        check_overtaking(0, in_place, BR_ALLREDUCE, BR_ALLREDUCE, 100); /* of one round */
        check_overtaking(0, in_place, BR_ALLREDUCE, BR_ALLREDUCE,
                         LARGE); /* could be overtaken as well */
        check_overtaking(0, in_place, BR_ALLREDUCE, BR_ALLGATHER, LARGE); /* in chunks */
        check_overtaking(0, in_place, BR_ALLREDUCE, BR_ALLTOALL, LARGE);
        check_overtaking(0, in_place, BR_ALLREDUCE, BR_SCATTER, LARGE); /* by direct reads */
        check_overtaking(0, in_place, BR_REDUCE, BR_ALLREDUCE, LARGE);
        check_overtaking(0, in_place, BR_ALLREDUCE, BR_REDUCE, LARGE);
    }
}

/* Ranks on the short way leave it. */
static void complete__overtaken(void **state)
{
    (void)state;
    for (unsigned short_way = 1; short_way < 1u << N; short_way++) {
        check_overtaking(short_way, false, BR_ALLREDUCE, BR_ALLREDUCE, 100);
        check_overtaking(short_way, true, BR_ALLREDUCE, BR_ALLGATHER, LARGE);
        check_overtaking(short_way, true, BR_REDUCE, BR_REDUCE, LARGE);
    }
}

/* One is submitted, and there are always two more that are more urgent and can be overtaken
 * themselves, `before` of which are submitted before it: it ends all the same, though not soon. */
static void check_fairness(enum br_collective collective, int before)
{
    enum { COUNT = 140000, MOST_ROUNDS = 80 };
    struct br_operation urgent[2][N], oldest[N], *ended[N][3];
    uint64_t sequence[N] = {0};
    size_t n_oldest = 0, n_urgent = 0;

    for (int u = 0; u < 2; u++)
        make_large(urgent[u], BR_ALLREDUCE, false, COUNT);
    make_large(oldest, collective, false, LARGE);
    for (int r = 0; r < n_ranks; r++) {
        struct br_operation *ops[] = {before ? &urgent[1][r] : &oldest[r],
                                      before ? &oldest[r] : &urgent[1][r], &urgent[0][r]};

        for (int i = 0; i < 3; i++, sequence[r]++) {
            ops[i]->priority = i != before;
            ops[i]->sequence = ops[i]->order = sequence[r];
            br_shm_executor_submit(&locals[r], ops[i]);
        }
    }
    while (n_oldest < (size_t)n_ranks) {
        size_t n_ended[N] = {0};

        assert_true(locals[0].epoch < MOST_ROUNDS);
        turn_of_all(NULL, ended, n_ended);
        for (int r = 0; r < n_ranks; r++)
            for (size_t i = 0; i < n_ended[r]; i++) {
                n_oldest += ended[r][i] == &oldest[r];
                if (ended[r][i] == &oldest[r])
                    continue;
                n_urgent++;
                ended[r][i]->shm_round = 0;
                ended[r][i]->sequence = ended[r][i]->order = sequence[r]++;
                br_shm_executor_submit(&locals[r], ended[r][i]);
            }
    }
    assert_true(n_urgent > (size_t)4 * (size_t)n_ranks);
    if (collective == BR_ALLREDUCE)
        check_large(oldest, LARGE);
    for (int u = 0; u < 2; u++)
        free_large(urgent[u]);
    free_large(oldest);
}

static void step__oldest_ends_in_the_end(void **state)
{
    (void)state;
    check_fairness(BR_ALLREDUCE, 0);
}

static void step__barrier_ends_in_the_end(void **state)
{
    (void)state;
    check_fairness(BR_BARRIER, 1);
}

static void complete__in_chunks(void **state)
{
    (void)state;
    for (int c = 0; c < BR_COLLECTIVES; c++) {
        struct br_operation ops[N];

        if (c == BR_BARRIER || c == BR_SCAN || c == BR_EXSCAN)
            continue;
        for (int r = 0; r < N; r++)
            locals[r].direct.allowed = false;
        make_large(ops, (enum br_collective)c, false, LARGE);
        run_large(ops);
        check_large(ops, LARGE);
        free_large(ops);
    }
    for (int in_place = 0; in_place < 2; in_place++) { /* 2 rounds, the last of 1 element */
        struct br_operation ops[N];
        size_t count = locals[0].coll.cell_bytes / sizeof(int32_t) + 1;
        uint64_t before = locals[0].epoch;

        make_large(ops, BR_ALLTOALL, in_place, count);
        run_large(ops);
        check_large(ops, count);
        free_large(ops);
        assert_int_equal(locals[0].epoch - before, 2);
    }
}

/* Of two ranks each writes where it has read; one round and many, one call behind the other. */
static void check_pair(void)
{
    static const size_t counts[] = {
        5, 100, 100, 99, 2000, 20000, BR_SHM_COLL_BYTES / 4, BR_SHM_COLL_BYTES / 4 + 1, LARGE, 700};

    for (size_t i = 0; i < 3 * sizeof counts / sizeof *counts; i++)
        for (int c = 0; c < BR_COLLECTIVES; c++) {
            struct br_operation ops[N];
            size_t count = counts[i % (sizeof counts / sizeof *counts)];
            bool in_place = i % 3 == 1 && (c == BR_ALLREDUCE || c == BR_ALLTOALL);

            if (c == BR_BARRIER || c == BR_SCAN || c == BR_EXSCAN)
                continue;
            for (int r = 0; r < n_ranks; r++)
                locals[r].direct.allowed = false;
            make_large(ops, (enum br_collective)c, in_place, count);
            run_large(ops);
            check_large(ops, count);
            free_large(ops);
        }
}

static void complete__of_a_pair(void **state)
{
    (void)state;
    check_pair();
}

/* Who gives in pieces waits for nobody while there is room, and then for the other one. */
static void complete__of_pieces(void **state)
{
    const size_t piece = BR_SHM_COLL_PLACE / sizeof(int32_t),
                 room = BR_SHM_COLL_FEWEST_PLACES / 2 * piece;
    struct br_shm_executor *root = &locals[1], *other = &locals[0];
    struct br_operation ops[N];
    int rc[2] = {0};

    (void)state;
    /* fewer than an operation may have, whatever caches this machine has */
    root->coll.places = BR_SHM_COLL_FEWEST_PLACES;
    make_large(ops, BR_BROADCAST, false, room);
    assert_true(br_shm_executor_begin(root, &ops[1]));
    assert_int_equal(br_shm_executor_complete(root, &ops[1]), 1);
    assert_true(br_shm_executor_begin(other, &ops[0]));
    assert_int_equal(br_shm_executor_complete(other, &ops[0]), 1);
    check_large(ops, room);
    free_large(ops);
    make_large(ops, BR_BROADCAST, false, room + 2 * piece + 1);
    assert_true(br_shm_executor_begin(root, &ops[1]));
    assert_int_equal(br_shm_executor_complete(root, &ops[1]), 0);
    assert_int_equal(br_shm_executor_missing(root, &ops[1]), 0);
    assert_true(br_shm_executor_begin(other, &ops[0]));
    assert_int_equal(br_shm_executor_complete(other, &ops[0]), 0);
    assert_int_equal(br_shm_executor_missing(other, &ops[0]), 1);
    for (int turn = 0; turn < 10 && !(rc[0] && rc[1]); turn++) {
        rc[1] = rc[1] ? rc[1] : br_shm_executor_complete(root, &ops[1]);
        rc[0] = rc[0] ? rc[0] : br_shm_executor_complete(other, &ops[0]);
    }
    assert_true(rc[0] == 1 && rc[1] == 1);
    check_large(ops, room + 2 * piece + 1);
    free_large(ops);
}

/* Who gives much says first whether its memory is mapped: here it is not. */
static void complete__of_pieces_unmapped(void **state)
{
    static const enum br_collective collectives[] = {BR_BROADCAST, BR_REDUCE, BR_SCATTER,
                                                     BR_GATHER};
    struct br_context context = {0};
    size_t count = BR_SHM_PIECES_BYTES / sizeof(int32_t) - 1;

    (void)state;
    for (int r = 0; r < n_ranks; r++) {
        locals[r].context = &context;
        locals[r].max_pair_bytes = BR_SHM_PAIR_BYTES;
    }
    for (int i = 0; i < 4; i++) {
        struct br_operation ops[N];
        uint64_t epoch = locals[0].epoch;

        make_large(ops, collectives[i], false, count);
        run_large(ops);
        check_large(ops, count);
        free_large(ops);
        assert_int_equal(locals[0].epoch, epoch + 1 + 16); /* pieces of 32 KiB */
    }
}

/* What only copies asks first whether both have mapped memory: here neither has. */
static void complete__of_a_pair_unmapped(void **state)
{
    struct br_context context = {0};
    struct br_operation ops[N];
    uint64_t epoch;

    (void)state;
    for (int r = 0; r < n_ranks; r++) {
        locals[r].context = &context;
        locals[r].max_pair_bytes = BR_SHM_PAIR_BYTES;
    }
    check_pair();
    epoch = locals[0].epoch;
    make_large(ops, BR_ALLGATHER, false, BR_SHM_COLL_BYTES / 2);
    run_large(ops);
    check_large(ops, BR_SHM_COLL_BYTES / 2);
    free_large(ops);
    assert_int_equal(locals[0].epoch, epoch + 3); /* the question and two chunks */
}

/* Each gives only what the other one needs. */
static void publish__of_a_pair(void **state)
{
    static const enum br_collective collectives[] = {BR_ALLTOALL, BR_REDUCE_SCATTER, BR_SCATTER};

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct br_operation ops[N];
        const struct br_shm_coll *coll = &locals[0].coll;
        const int32_t *given;

        make_large(ops, collectives[i], false, BR_SHM_COLL_BYTES / 4);
        run_large(ops);
        assert_int_equal(locals[0].epoch, i + 1); /* one round */
        given = collectives[i] == BR_SCATTER
                    ? br_shm_coll_data(coll, 1, locals[0].epoch, BR_SHM_COLL_BYTES)
                    : (const void *)br_shm_coll_cell(coll, 1, 0);
        for (size_t k = 0; k < BR_SHM_COLL_BYTES / 4; k++)
            assert_int_equal(given[k], large_in(1, k));
        free_large(ops);
    }
}

/* Whatever the processor reduces at: both need all that the other one gives. */
static void complete__pair_does_not_split(void **state)
{
    struct br_operation ops[N];

    (void)state;
    for (int r = 0; r < n_ranks; r++)
        locals[r].split_bytes = 64;
    make_large(ops, BR_ALLREDUCE, false, 2000);
    run_large(ops);
    check_large(ops, 2000);
    free_large(ops);
    assert_int_equal(locals[0].epoch, 1);
}

static void step__urgent_overtakes_in_a_pair(void **state)
{
    static const enum br_collective slow[] = {BR_ALLREDUCE, BR_ALLGATHER, BR_REDUCE_SCATTER,
                                              BR_ALLTOALL};

    (void)state;
    for (int i = 0; i < 4; i++)
        for (unsigned short_way = 0; short_way < 4; short_way++) {
            for (int r = 0; r < n_ranks; r++)
                locals[r].direct.allowed = false;
            check_overtaking(short_way, slow[i] == BR_ALLREDUCE, slow[i], BR_ALLREDUCE, 100);
            check_overtaking(short_way, false, slow[i], BR_ALLREDUCE, LARGE);
            check_overtaking(short_way, false, slow[i], BR_BROADCAST, LARGE);
        }
}

/* The result stands where the rank's own block was. */
static void complete__reduce_scatter_in_place(void **state)
{
    struct br_operation ops[N];

    (void)state;
    make_large(ops, BR_REDUCE_SCATTER, true, LARGE);
    for (uint32_t r = 0; r < N; r++)
        ops[r].recv = (int32_t *)ops[r].recv + r * LARGE;
    run_large(ops);
    check_large(ops, LARGE);
    for (int r = 0; r < N; r++)
        ops[r].recv = (void *)ops[r].send;
    free_large(ops);
}

/* The root's next chunk waits until all have published for the one before. */
static void complete__chunk_waits_for_all(void **state)
{
    struct br_operation ops[N];

    (void)state;
    make_large(ops, BR_BROADCAST, false, LARGE);
    assert_true(br_shm_executor_begin(&locals[1], &ops[1]));
    assert_int_equal(br_shm_executor_complete(&locals[1], &ops[1]), 0);
    assert_int_equal(br_shm_round_waits_for(&locals[1], &ops[1]), 0);
    assert_true(br_shm_executor_begin(&locals[0], &ops[0]));
    assert_int_equal(br_shm_executor_complete(&locals[0], &ops[0]), 0);
    assert_int_equal(br_shm_round_waits_for(&locals[0], &ops[0]), 2);
    assert_int_equal(br_shm_executor_complete(&locals[1], &ops[1]), 0);
    assert_int_equal(br_shm_round_waits_for(&locals[1], &ops[1]), 2);
    assert_int_equal(locals[1].epoch, 1);
    assert_true(br_shm_executor_begin(&locals[2], &ops[2]));
    assert_int_equal(br_shm_executor_complete(&locals[2], &ops[2]), 0);
    assert_int_equal(locals[2].epoch, 2);
    assert_int_equal(br_shm_executor_complete(&locals[1], &ops[1]), 0);
    assert_int_equal(locals[1].epoch, 2);
    free_large(ops);
}

/* A scatter of more than a chunk in one round: its root is done before the others begin, and ahead
 * by as many as its ring has halves. */
static void complete__scatter_whole(void **state)
{
    static const size_t counts[] = {BR_SHM_COLL_HALF / N / sizeof(int32_t), 5, 60001, 11000};
    struct br_operation ops[4][N];

    (void)state;
    for (int r = 0; r < N; r++)
        locals[r].max_whole_bytes = BR_SHM_COLL_HALF;
    for (int i = 0; i < 4; i++) {
        make_large(ops[i], BR_SCATTER, false, counts[i]);
        for (int r = 0; r < N; r++)
            ops[i][r].sequence = (uint64_t)i;
        assert_true(br_shm_executor_begin(&locals[1], &ops[i][1])); /* the root */
        assert_int_equal(br_shm_executor_complete(&locals[1], &ops[i][1]), i < 3);
    }
    for (int i = 0; i < 4; i++) {
        for (int r = 0; r < N; r += 2) {
            assert_true(br_shm_executor_begin(&locals[r], &ops[i][r]));
            assert_int_equal(br_shm_executor_complete(&locals[r], &ops[i][r]), 1);
        }
        if (i == 2) /* now there is room */
            assert_int_equal(br_shm_executor_complete(&locals[1], &ops[3][1]), 1);
    }
    for (int i = 0; i < 4; i++) {
        check_large(ops[i], counts[i]);
        free_large(ops[i]);
    }
    assert_int_equal(locals[0].epoch, 4);
    assert_int_equal(read_bytes[0], 0);
}

/* With many ranks cells are small, so that alltoalls are read directly. */
static void make_cells_small(void)
{
    for (int r = 0; r < n_ranks; r++)
        locals[r].coll.cell_bytes = BR_SHM_EXCHANGE_CELL / 2;
}

/* Two rounds, whatever the size; the reader has its turns. */
static void complete__direct(void **state)
{
    static const enum br_collective collectives[] = {BR_ALLTOALL, BR_SCATTER};

    (void)state;
    make_cells_small();
    for (size_t c = 0; c < 2; c++) {
        struct br_operation ops[N];
        uint64_t before = locals[0].epoch, read = read_bytes[0], block;

        make_large(ops, collectives[c], false, LARGE);
        run_large(ops);
        check_large(ops, LARGE);
        free_large(ops);
        assert_int_equal(locals[0].epoch - before, BR_SHM_DIRECT_ROUNDS);
        assert_true(locals[0].direct.allowed);
        block = LARGE * sizeof(int32_t);
        assert_int_equal(read_bytes[0] - read, c ? block : (N - 1) * block); /* the root is 1 */
    }
}

/* An alltoall of few rounds goes in the cells: each block would be read by the kernel. */
static void complete__few_rounds_not_direct(void **state)
{
    (void)state;
    make_cells_small();
    for (size_t more = 0; more < 2; more++) {
        struct br_operation ops[N];
        uint64_t before = locals[0].epoch, read = read_bytes[0];
        size_t count = BR_SHM_EXCHANGE_ROUNDS * locals[0].coll.cell_bytes / sizeof(int32_t) + more;

        make_large(ops, BR_ALLTOALL, false, count);
        run_large(ops);
        check_large(ops, count);
        free_large(ops);
        assert_int_equal(locals[0].epoch - before,
                         more ? BR_SHM_DIRECT_ROUNDS : BR_SHM_EXCHANGE_ROUNDS);
        assert_int_equal(read_bytes[0] - read, more * (N - 1) * count * sizeof(int32_t));
    }
}

/* As far as it goes without the others; returns as br_shm_executor_complete(). */
static int read_all(int r, struct br_operation *op)
{
    int rc;

    do {
        rc = br_shm_executor_complete(&locals[r], op);
    } while (!rc && locals[r].reads);
    return rc;
}

/* Who has read from the root says so before all ranks have begun, and then waits for them. */
static void complete__direct_says_at_once(void **state)
{
    struct br_operation ops[N];

    (void)state;
    make_large(ops, BR_SCATTER, false, LARGE); /* the root is 1 */
    for (int r = 0; r < 2; r++)
        assert_true(br_shm_executor_begin(&locals[r], &ops[r]));
    for (int r = 0; r < 2; r++) {
        assert_int_equal(read_all(r, &ops[r]), 0);
        assert_int_equal(locals[r].epoch, 2);
        assert_int_equal(br_shm_round_waits_for(&locals[r], &ops[r]), r ? 2 : 1);
    }
    assert_true(br_shm_executor_begin(&locals[2], &ops[2]));
    assert_int_equal(read_all(2, &ops[2]), 1);
    for (int r = 0; r < 2; r++)
        assert_int_equal(read_all(r, &ops[r]), 1);
    check_large(ops, LARGE);
    free_large(ops);
}

/* Not beyond the slots of one that has not begun for long. */
static void complete__direct_without_room(void **state)
{
    struct br_operation ops[N], small;

    (void)state;
    for (uint64_t s = 0; s < BR_SHM_COLL_DEPTH - 2; s++) {
        small = make(1, BR_BROADCAST, 1, 1, s);
        assert_true(br_shm_executor_begin(&locals[1], &small));
        assert_int_equal(br_shm_executor_complete(&locals[1], &small), 1);
    }
    make_large(ops, BR_SCATTER, false, LARGE);
    for (int r = 0; r < N; r++)
        ops[r].sequence = BR_SHM_COLL_DEPTH - 2;
    assert_true(br_shm_executor_begin(&locals[1], &ops[1]));
    assert_int_equal(br_shm_executor_complete(&locals[1], &ops[1]), 0);
    assert_int_equal(locals[1].epoch, BR_SHM_COLL_DEPTH - 1); /* and not the one behind it */
    for (int r = 0; r < N; r += 2) {
        for (uint64_t s = 0; s < BR_SHM_COLL_DEPTH - 2; s++) {
            small = make(r, BR_BROADCAST, 1, 1, s);
            assert_true(br_shm_executor_begin(&locals[r], &small));
            assert_int_equal(br_shm_executor_complete(&locals[r], &small), 1);
        }
        assert_true(br_shm_executor_begin(&locals[r], &ops[r]));
    }
    for (int turn = 0, complete = 0; complete < N; turn++) {
        assert_true(turn < 1000);
        for (int r = 0; r < N; r++)
            complete += locals[r].busy && br_shm_executor_complete(&locals[r], &ops[r]) == 1;
    }
    check_large(ops, LARGE);
    free_large(ops);
}

/* What each gives every other one lies in cells, also in place, and where the result has no room in
 * the caches. */
static void complete__alltoall_in_chunks(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct br_operation ops[N];

        for (int r = 0; r < N; r++)
            locals[r].cache_share = i < 2 ? SIZE_MAX : 1;
        make_large(ops, BR_ALLTOALL, i % 2, LARGE);
        run_large(ops);
        check_large(ops, LARGE);
        free_large(ops);
    }
    for (int r = 0; r < N; r++)
        assert_int_equal(read_bytes[r], 0);
}

/* The root takes one way or the other, call by call: the first time it looks at direct reads, then
 * it goes by chunks until it knows of both. */
static void complete__gather_chooses(void **state)
{
    const uint64_t block = LARGE * sizeof(int32_t);
    struct br_operation ops[N];

    (void)state;
    make_large(ops, BR_GATHER, false, LARGE);
    for (int k = 0; k < 20; k++) {
        uint64_t before = locals[0].epoch, read = read_bytes[1], rounds;

        memset(ops[1].recv, 0xee, N * block);
        run_large(ops);
        check_large(ops, LARGE);
        read = read_bytes[1] - read;
        rounds = locals[0].epoch - before;
        assert_int_equal(read, rounds == BR_SHM_DIRECT_ROUNDS ? (N - 1) * block : 0);
        assert_true(k > 1 || (rounds == BR_SHM_DIRECT_ROUNDS) == (k == 0));
    }
    for (int r = 0; r < N; r++)
        assert_true(locals[r].direct.allowed);
    for (int k = 0; k < 300 && locals[1].direct.allowed; k++) { /* rank 0 may not be read */
        memset(ops[1].recv, 0xee, N * block);
        for (int r = 0; r < N; r++)
            assert_true(br_shm_executor_begin(&locals[r], &ops[r]));
        locals[0].direct.token++;
        for (int turn = 0, complete = 0; complete < N; turn++) {
            assert_true(turn < 1000);
            for (int r = 0; r < N; r++)
                complete += locals[r].busy && br_shm_executor_complete(&locals[r], &ops[r]) == 1;
        }
        check_large(ops, LARGE);
    }
    assert_false(locals[1].direct.allowed);
    free_large(ops);
}

/* What is overwritten in place is not read by others; the next operation is read directly again. */
static void complete__direct_in_place(void **state)
{
    struct br_operation ops[N];

    (void)state;
    make_cells_small();
    make_large(ops, BR_ALLTOALL, true, LARGE);
    run_large(ops);
    check_large(ops, LARGE);
    free_large(ops);
    assert_true(locals[0].epoch > BR_SHM_DIRECT_ROUNDS);
    for (int r = 0; r < N; r++)
        assert_true(locals[r].direct.allowed);
}

/* One rank cannot read: all take chunks, now and from now on. */
static void complete__direct_refused(void **state)
{
    struct br_operation ops[N];
    uint64_t epoch;

    (void)state;
    make_cells_small();
    make_large(ops, BR_ALLTOALL, false, LARGE);
    for (int r = 0; r < N; r++)
        assert_true(br_shm_executor_begin(&locals[r], &ops[r]));
    locals[2].direct.token++; /* as if its number were that of another process */
    for (int turn = 0, complete = 0; complete < N; turn++) {
        assert_true(turn < 1000);
        for (int r = 0; r < N; r++)
            complete += locals[r].busy && br_shm_executor_complete(&locals[r], &ops[r]) == 1;
    }
    check_large(ops, LARGE);
    for (int r = 0; r < N; r++)
        assert_false(locals[r].direct.allowed);
    epoch = locals[0].epoch;
    run_large(ops);
    check_large(ops, LARGE);
    assert_int_equal(locals[0].epoch - epoch, epoch - BR_SHM_DIRECT_ROUNDS);
    free_large(ops);
}

/* A rank whose call has failed has its buffer again, and may write there: who was to read it still
 * does not end well. */
static void fail__ends_reading(void **state)
{
    struct br_operation ops[N];

    (void)state;
    make_cells_small();
    make_large(ops, BR_ALLTOALL, false, LARGE);
    br_shm_executor_submit(&locals[0], &ops[0]);
    for (int r = 1; r < N; r++)
        assert_true(br_shm_executor_begin(&locals[r], &ops[r]));
    for (int turn = 0; locals[0].form != BR_SHM_OUTCOMES; turn++) {
        assert_true(turn < 1000);
        assert_true(br_shm_executor_step(&locals[0], 0) >= 0);
    }
    br_shm_executor_fail(&locals[0], ECANCELED, "rank 0 fails", 0);
    assert_ptr_equal(br_operation_pop(&locals[0].executor.ended), &ops[0]);
    assert_int_equal(ops[0].status, ECANCELED);
    for (int turn = 0; turn < 1000; turn++)
        for (int r = 1; r < N; r++)
            assert_int_equal(br_shm_executor_complete(&locals[r], &ops[r]), 0);
    assert_int_equal(locals[N - 1].direct.outcome, BR_SHM_REFUSED);
    free_large(ops);
}

/* The queue waits for the short way's round, and takes no round away from it. */
static void step__waits_for_the_short_way(void **state)
{
    struct br_operation first[N], second[N];

    (void)state;
    for (int r = 0; r < N; r++) {
        first[r] = make(r, BR_ALLREDUCE, 1, 0, 0);
        second[r] = make(r, BR_ALLREDUCE, 2, 0, 1);
    }
    assert_true(br_shm_executor_begin(&locals[0], &first[0]));
    br_shm_executor_submit(&locals[0], &second[0]);
    assert_int_equal(br_shm_executor_step(&locals[0], 0), 0);
    assert_false(br_shm_executor_begin(&locals[0], &second[0]));
    for (int r = 1; r < N; r++) {
        br_shm_executor_submit(&locals[r], &first[r]);
        br_shm_executor_submit(&locals[r], &second[r]);
        br_shm_executor_step(&locals[r], 0);
    }
    assert_int_equal(br_shm_executor_step(&locals[0], 0), 0);
    assert_int_equal(br_shm_executor_complete(&locals[0], &first[0]), 1);
    assert_int_equal(out[0][0], 3000);
    for (int turn = 0; turn < 4; turn++)
        for (int r = 0; r < N; r++)
            assert_true(br_shm_executor_step(&locals[r], 0) >= 0);
    assert_ptr_equal(br_operation_pop(&locals[0].executor.ended), &second[0]);
    assert_int_equal(out[0][1], 3003);
    assert_ptr_equal(br_operation_pop(&locals[1].executor.ended), &first[1]);
    assert_ptr_equal(br_operation_pop(&locals[1].executor.ended), &second[1]);
    assert_null(br_operation_pop(&locals[1].executor.ended));
}

static void complete__disagreement(void **state)
{
    struct br_operation good[N], odd;

    (void)state;
    for (int what = 0; what < 6; what++) {
        for (int r = 0; r < N; r++)
            good[r] = make(r, BR_REDUCE, 4, 0, (uint64_t)what);
        odd = good[2];
        odd.collective = what == 0 ? BR_ALLREDUCE : odd.collective;
        odd.count = what == 1 ? 5 : odd.count;
        odd.type = what == 2 ? BRAID_UINT32 : odd.type;
        odd.reduction = what == 3 ? BRAID_MAX : odd.reduction;
        odd.root = what == 4 ? 2 : odd.root;
        odd.sequence += what == 5;
        assert_true(br_shm_executor_begin(&locals[0], &good[0]));
        assert_true(br_shm_executor_begin(&locals[1], &good[1]));
        assert_true(br_shm_executor_begin(&locals[2], &odd));
        memset(out[0], 0xee, sizeof out[0]);
        assert_int_equal(br_shm_executor_complete(&locals[0], &good[0]), -EPROTO);
        assert_says(br_error_message(), "communicator 5");
        assert_int_equal(out[0][0], (int32_t)0xeeeeeeee);
        assert_int_equal(br_shm_executor_complete(&locals[1], &good[1]), 1); /* needs nobody */
        locals[2].busy = false;
    }
}

static void fail__ends_all(void **state)
{
    struct br_operation ops[2] = {make(0, BR_BARRIER, 0, 0, 0), make(0, BR_BARRIER, 0, 0, 1)};

    (void)state;
    br_shm_executor_submit(&locals[0], &ops[0]);
    br_shm_executor_submit(&locals[0], &ops[1]);
    assert_int_equal(br_shm_executor_step(&locals[0], 0), 0);
    assert_int_equal(br_shm_round_waits_for(&locals[0], &ops[0]), 1);
    assert_null(br_shm_executor_overdue(&locals[0], 999));
    assert_ptr_equal(br_shm_executor_overdue(&locals[0], 1000), &ops[0]);
    br_shm_executor_fail(&locals[0], -ECANCELED, "enough", 0);
    for (int i = 0; i < 2; i++) {
        assert_ptr_equal(br_operation_pop(&locals[0].executor.ended), &ops[i]);
        assert_int_equal(ops[i].status, -ECANCELED);
        assert_string_equal(ops[i].message, "enough");
    }
    assert_null(br_shm_executor_overdue(&locals[0], 2000));
}

/* A guest that leaves the queue whenever it is stepped, as it does after a failure. */
static int leave_at_once(struct br_executor *executor, uint64_t now)
{
    (void)executor, (void)now;
    br_shm_executor_leave(&locals[0],
                          br_container_of(locals[0].queue.next, struct br_operation, node));
    return 1;
}

static void fail__what_is_behind_the_guest_does_not_begin(void **state)
{
    static const struct br_executor_ops ops = {.step = leave_at_once};
    struct br_operation first = make(0, BR_ALLREDUCE, 1, 0, 0),
                        second = make(0, BR_BARRIER, 0, 0, 1);
    struct br_executor guest = {.ops = &ops};
    struct br_worker worker = {.failed = -ECANCELED};
    struct br_context context = {.worker = &worker};

    (void)state;
    locals[0].context = &context;
    locals[0].guest = &guest;
    first.shm_role = BR_SHM_ROLE_GPU_LOCAL;
    br_shm_executor_submit(&locals[0], &first);
    br_shm_executor_submit(&locals[0], &second);
    assert_int_equal(br_shm_executor_step(&locals[0], 0), 0);
    assert_int_equal(locals[0].epoch, 0); /* nothing was published */
    br_shm_executor_fail(&locals[0], -ECANCELED, "enough", 0);
    assert_ptr_equal(br_operation_pop(&locals[0].executor.ended), &second);
    assert_int_equal(second.status, -ECANCELED);
    assert_true(br_list_empty(&locals[0].queue));
}

static void assert_waited(const struct br_operation *op, const char *expected)
{
    char text[120];

    assert_says(br_shm_executor_name_waited(&locals[0], op, text, sizeof text), expected);
}

static void name_waited__rank_or_gpu(void **state)
{
    struct br_operation ops[2] = {make(0, BR_BROADCAST, 1, 0, 0), make(0, BR_ALLREDUCE, 1, 0, 1)};
    struct br_staging_buffer buffer;

    (void)state;
    for (int i = 0; i < 2; i++) {
        ops[i].group = &group;
        br_shm_executor_submit(&locals[0], &ops[i]);
    }
    ops[1].shm_staging.buffer = &buffer; /* its copies are under way */
    ops[1].shm_staging.batch.copy = (struct br_copy){.event = (void *)&buffer, .gpu = 3};
    br_list_push_back(&locals[1].executor.ended, &ops[1].shm_staging.batch.node);
    assert_int_equal(br_shm_executor_step(&locals[0], 0), 1); /* the root needs nobody */
    assert_waited(&ops[1], "copies|GPU 2");
    br_list_remove(&ops[1].shm_staging.batch.node);
    ops[1].shm_staging.buffer = NULL;
    /* nor has anybody published the round before */
    assert_int_equal(br_shm_executor_step(&locals[0], 0), 0);
    assert_waited(&ops[1], "rank 1 of communicator 5|rank 7 of the job|level 0|shm0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(takes__by_size_and_name, open_segment, close_segment),
        cmocka_unit_test_setup_teardown(takes__of_a_pair, open_pair, close_segment),
        cmocka_unit_test(set_limits__by_ranks_and_cores),
        cmocka_unit_test_setup_teardown(complete__every_collective, open_segment, close_segment),
        cmocka_unit_test_setup_teardown(spins__when_its_core_has_published, open_segment,
                                        close_segment),
        cmocka_unit_test_setup_teardown(ahead__until_the_slots_are_full, open_segment,
                                        close_segment),
        cmocka_unit_test_setup_teardown(ahead__goes_on_in_the_queue, open_segment, close_segment),
        cmocka_unit_test_setup_teardown(ahead__give_up, open_segment, close_segment),
        cmocka_unit_test_setup_teardown(ahead__mixed_calls, open_segment, close_segment),
        cmocka_unit_test_setup_teardown(complete__split, open_segment, close_segment),
        cmocka_unit_test_setup_teardown(complete__split_reduce, open_segment, close_segment),
        cmocka_unit_test_setup_teardown(complete__split_disagreement, open_segment, close_segment),
        cmocka_unit_test_setup_teardown(complete__in_chunks, open_segment, close_segment),
        cmocka_unit_test_setup_teardown(complete__of_a_pair, open_pair, close_segment),
        cmocka_unit_test_setup_teardown(complete__of_a_pair, open_pair_in_places, close_segment),
        cmocka_unit_test_setup_teardown(complete__of_pieces_unmapped, open_pair_in_places,
                                        close_segment),
        cmocka_unit_test_setup_teardown(complete__of_pieces, open_pair_in_places, close_segment),
        cmocka_unit_test_setup_teardown(complete__of_a_pair_unmapped, open_pair, close_segment),
        cmocka_unit_test_setup_teardown(publish__of_a_pair, open_pair, close_segment),
        cmocka_unit_test_setup_teardown(complete__pair_does_not_split, open_pair, close_segment),
        cmocka_unit_test_setup_teardown(step__urgent_overtakes_in_a_pair, open_pair, close_segment),
        cmocka_unit_test_setup_teardown(complete__reduce_scatter_in_place, open_segment,
                                        close_segment),
        cmocka_unit_test_setup_teardown(complete__chunk_waits_for_all, open_segment, close_segment),
        cmocka_unit_test_setup_teardown(step__urgent_overtakes, open_segment, close_segment),
        cmocka_unit_test_setup_teardown(complete__overtaken, open_segment, close_segment),
        cmocka_unit_test_setup_teardown(step__oldest_ends_in_the_end, open_segment, close_segment),
        cmocka_unit_test_setup_teardown(step__barrier_ends_in_the_end, open_segment, close_segment),
        cmocka_unit_test_setup_teardown(complete__scatter_whole, open_segment, close_segment),
        cmocka_unit_test_setup_teardown(complete__direct, open_segment, close_segment),
        cmocka_unit_test_setup_teardown(complete__few_rounds_not_direct, open_segment,
                                        close_segment),
        cmocka_unit_test_setup_teardown(complete__direct_says_at_once, open_segment, close_segment),
        cmocka_unit_test_setup_teardown(complete__direct_without_room, open_segment, close_segment),
        cmocka_unit_test_setup_teardown(complete__gather_chooses, open_segment, close_segment),
        cmocka_unit_test_setup_teardown(complete__alltoall_in_chunks, open_segment, close_segment),
        cmocka_unit_test_setup_teardown(complete__direct_in_place, open_segment, close_segment),
        cmocka_unit_test_setup_teardown(complete__direct_refused, open_segment, close_segment),
        cmocka_unit_test_setup_teardown(fail__ends_reading, open_segment, close_segment),
        cmocka_unit_test_setup_teardown(step__waits_for_the_short_way, open_segment, close_segment),
        cmocka_unit_test_setup_teardown(complete__disagreement, open_segment, close_segment),
        cmocka_unit_test_setup_teardown(fail__ends_all, open_segment, close_segment),
        cmocka_unit_test_setup_teardown(fail__what_is_behind_the_guest_does_not_begin, open_segment,
                                        close_segment),
        cmocka_unit_test_setup_teardown(name_waited__rank_or_gpu, open_segment, close_segment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
