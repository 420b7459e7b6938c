/* SPDX-License-Identifier: BSD-3-Clause */
/* Real processes that share cores and submit all-reduces of several chunks and others, each rank
 * with priorities of its own: whichever of them overtakes (collectives/shm/round.h), all sums are
 * right. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/random.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/comm/progress_lock.h"
#include "collectives/shm/executor.h"
#include "tests/system/ranks.h"

#define CALLS  6
#define ROUNDS 20
#define MOST   262144u /* int32: 1 MiB, of which 6 chunks are made with 4 ranks */

static uint32_t value(int rank, size_t i, uint32_t call)
{
    return (uint32_t)rank * 1000003u + (uint32_t)i * 7u + call;
}

static int check(const struct braid_comm *comm, const uint32_t *data, size_t count, uint32_t call)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t sum = 0;

        for (int r = 0; r < braid_size(comm); r++)
            sum += value(r, i, call);
        CHECK(data[i] == sum, "element %zu of %zu of call %u", i, count, call);
    }
    return 0;
}

/* In place. The last call of a round waits for its end at once. */
static int overtake(struct braid_comm *comm, void *context)
{
    uint32_t *data = malloc(sizeof *data * CALLS * MOST);
    struct br_random shared, own;
    struct braid_stats before = {0}, after = {0};

    (void)context;
    CHECK(data, "no memory");
    br_random_seed(&shared, 5);
    br_random_seed(&own, 77 + (uint64_t)braid_rank(comm));
    RETURNS(0, braid_stats(comm, &before));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct braid_op *ops[CALLS] = {0};
        size_t counts[CALLS];

        for (uint32_t c = 0; c < CALLS; c++) {
            struct braid_options options = {.struct_size = sizeof options,
                                            .priority = (int32_t)br_random_below(&own, 4)};
            uint32_t *of = data + (size_t)c * MOST;

            counts[c] = 1 + br_random_below(&shared, c % 2 ? 1000 : MOST);
            for (size_t i = 0; i < counts[c]; i++)
                of[i] = value(braid_rank(comm), i, c);
            RETURNS(0, braid_allreduce(comm, of, of, counts[c], BRAID_UINT32, BRAID_SUM, &options,
                                       c < CALLS - 1 ? &ops[c] : NULL));
        }
        for (uint32_t c = 0; c < CALLS; c++) {
            if (ops[c])
                RETURNS(0, braid_wait(ops[c], -1));
            RETURNS(0, check(comm, data + (size_t)c * MOST, counts[c], c));
        }
    }
    RETURNS(0, braid_stats(comm, &after));
    CHECK(after.shm_operations == before.shm_operations + ROUNDS * CALLS, "not in the segment");
    free(data);
    return 0;
}

/* ---- a call that is overtaken ---------------------------------------------------------------- */

#define OVERTAKEN 6 /* calls of each kind */

/* A call of the first thread, in place, in its round. */
struct call {
    struct braid_comm *comm;
    uint32_t *data, round;
    int result;
};

/* How it waits: for as long as it takes, for long, or hardly. */
static const int waits[] = {0, RANKS_PATIENCE, 1};
#define WAITS (sizeof waits / sizeof waits[0])

static void count_done(void *context, int result)
{
    atomic_fetch_add((atomic_int *)context, result ? 1000 : 1);
}

static int call_and_wait(struct call *call)
{
    int wait_ms = waits[call->round % WAITS];
    atomic_int done = 0;
    struct braid_options options = {.struct_size = sizeof options,
                                    .wait_ms = wait_ms,
                                    .done = wait_ms ? count_done : NULL,
                                    .context = &done};
    struct braid_op *op = NULL;
    bool goes_on;

    RETURNS(0, braid_allreduce(call->comm, call->data, call->data, MOST, BRAID_UINT32, BRAID_SUM,
                               &options, wait_ms ? &op : NULL));
    goes_on = op != NULL;
    CHECK(!goes_on || wait_ms < RANKS_PATIENCE, "a handle of what should have been waited for");
    if (op)
        RETURNS(0, braid_wait(op, -1));
    CHECK(done == goes_on, "done was called %d times", done);
    return check(call->comm, call->data, MOST, call->round);
}

static void *calling(void *context)
{
    struct call *call = context;

    call->result = call_and_wait(call);
    return NULL;
}

/* Until the first thread's call is under way. Is it on the short way? */
static bool await_call(struct braid_comm *comm, uint64_t sequence)
{
    bool begun = false, short_way = false;

    while (!begun) {
        br_progress_lock(comm->context);
        begun = comm->next_sequence > sequence;
        short_way = comm->shm->busy;
        br_progress_unlock(comm->context);
        sched_yield();
    }
    return short_way;
}

static uint64_t next_sequence(struct braid_comm *comm)
{
    uint64_t sequence;

    br_progress_lock(comm->context);
    sequence = comm->next_sequence;
    br_progress_unlock(comm->context);
    return sequence;
}

static void number_end(void *context, int result)
{
    static int ends;

    *(int *)context = result ? -1 : ++ends;
}

static int submit(struct braid_comm *comm, uint32_t *data, size_t count, int32_t priority, int *end,
                  struct braid_op **op)
{
    struct braid_options options = {
        .struct_size = sizeof options, .priority = priority, .done = number_end, .context = end};

    return braid_allreduce(comm, data, data, count, BRAID_UINT32, BRAID_SUM, &options, op);
}

/* The last rank comes when all others are under way and have submitted what is more urgent, and
 * submits both at once: while it holds the lock, nobody takes the first one alone. So the urgent
 * one overtakes. */
static int come_last(struct braid_comm *comm, uint32_t *first, uint32_t *urgent, size_t count)
{
    struct braid_op *ops[2];
    int ends[2] = {0}, rcs[2];

    br_progress_lock(comm->context);
    rcs[0] = submit(comm, first, MOST, 0, &ends[0], &ops[0]);
    rcs[1] = submit(comm, urgent, count, 1, &ends[1], &ops[1]);
    br_progress_unlock(comm->context);
    for (int i = 0; i < 2; i++) {
        RETURNS(0, rcs[i]);
        RETURNS(0, braid_wait(ops[i], -1));
    }
    CHECK(ends[1] < ends[0], "ends: the first one %d, the urgent one %d", ends[0], ends[1]);
    return 0;
}

static int be_overtaken(struct braid_comm *comm, void *context)
{
    uint32_t *first = malloc(sizeof *first * MOST), *urgent = malloc(sizeof *urgent * MOST);
    int rank = braid_rank(comm), others = braid_size(comm) - 1;
    uint32_t short_ways[WAITS] = {0};

    (void)context;
    CHECK(first && urgent, "no memory");
    for (uint32_t round = 0; round < OVERTAKEN * WAITS; round++) {
        struct call call = {.comm = comm, .data = first, .round = round};
        size_t count = round % 2 ? 100 : MOST;
        struct braid_op *op;
        pthread_t thread;
        int end;

        for (size_t i = 0; i < MOST; i++) {
            first[i] = value(rank, i, round);
            urgent[i] = value(rank, i, round + 1);
        }
        if (rank == others) {
            ranks_await(0, others * (int)(round + 1));
            RETURNS(0, come_last(comm, first, urgent, count));
            RETURNS(0, check(comm, first, MOST, round));
        } else {
            uint64_t sequence = next_sequence(comm);

            CHECK(!pthread_create(&thread, NULL, calling, &call), "no thread");
            short_ways[round % WAITS] += await_call(comm, sequence);
            RETURNS(0, submit(comm, urgent, count, 1, &end, &op));
            ranks_tell(0);
            RETURNS(0, braid_wait(op, -1));
            pthread_join(thread, NULL);
            RETURNS(0, call.result);
        }
        RETURNS(0, check(comm, urgent, count, round + 1));
    }
    for (size_t w = 0; w < 2 && rank != others; w++) /* the last kind leaves it soon */
        CHECK(short_ways[w], "no call of %d ms took the short way", waits[w]);
    free(first);
    free(urgent);
    return 0;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static void run(ranks_main *body)
{
    int size = (int)sysconf(_SC_NPROCESSORS_ONLN) + 1;

    if (size > RANKS_MOST)
        skip(); /* on so many cores a job does not share them */
    ranks_run(&(struct ranks){.size = size < (int)BR_SHM_MANY ? (int)BR_SHM_MANY : size,
                              .backend = "shm",
                              .timeout_ms = RANKS_PATIENCE},
              body, NULL);
}

static void overtake__all_sums(void **state)
{
    (void)state;
    run(overtake);
}

static void overtake__calls_on_the_short_way(void **state)
{
    (void)state;
    run(be_overtaken);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overtake__all_sums),
        cmocka_unit_test(overtake__calls_on_the_short_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
