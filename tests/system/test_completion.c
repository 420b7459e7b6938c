/* SPDX-License-Identifier: BSD-3-Clause */
/* How programs learn of ends, between real processes and over every back end. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/system/ranks.h"

#define MANY   300
#define COUNTS 4

/* ---- braid_options.done ---------------------------------------------------------------------- */

struct ends {
    atomic_int n, failed, last;
};

static void count_end(void *context, int result)
{
    struct ends *ends = context;

    if (result) {
        ends->last = result;
        ends->failed++;
    }
    ends->n++;
}

/* Nobody in the program drives. */
static int await_ends(const struct ends *ends, int n)
{
    double until = ranks_now_ms() + RANKS_PATIENCE;

    while (ends->n < n && ranks_now_ms() < until)
        sched_yield();
    CHECK(ends->n == n, "%d operations have ended, not %d", (int)ends->n, n);
    return 0;
}

/* Collectives of all sizes, messages and accesses, none of which anybody waits for. */
static int nobody_waits(struct braid_comm *comm, void *context)
{
    static const size_t counts[COUNTS] = {1, 700, 9000, 120000};
    static int32_t received[MANY], sent[MANY];
    static struct ends ends;
    const struct braid_options options = {.done = count_end, .context = &ends};
    int rank = braid_rank(comm), size = braid_size(comm), next = (rank + 1) % size;
    int before = (rank + size - 1) % size;
    uint64_t *word = braid_alloc(comm, sizeof *word), added[MANY];
    struct braid_key own, *keys = calloc((size_t)size, sizeof *keys);
    int32_t *data[COUNTS];

    (void)context;
    for (int c = 0; c < COUNTS; c++) {
        data[c] = malloc(counts[c] * sizeof **data);
        for (size_t k = 0; k < counts[c]; k++)
            data[c][k] = rank + (int32_t)k;
    }
    RETURNS(0, braid_key(comm, word, &own));
    RETURNS(0, braid_allgather(comm, &own, keys, sizeof own, BRAID_UINT8, NULL, NULL));
    for (int c = 0; c < COUNTS; c++)
        RETURNS(0, braid_allreduce(comm, data[c], data[c], counts[c], BRAID_INT32, BRAID_SUM,
                                   &options, NULL));
    for (int i = 0; i < MANY; i++) {
        sent[i] = 1000 * rank + i;
        RETURNS(0, braid_recv(comm, &received[i], sizeof received[i], before, &options, NULL));
        RETURNS(0, braid_send(comm, &sent[i], sizeof sent[i], next, &options, NULL));
        RETURNS(0, braid_fetch_add(comm, &added[i], 1, &keys[next], 0, &options, NULL));
    }
    if (await_ends(&ends, COUNTS + 3 * MANY))
        return 1;
    CHECK(!ends.failed, "%d failed, the last with %d", (int)ends.failed, (int)ends.last);
    for (int c = 0; c < COUNTS; c++) {
        for (size_t k = 0; k < counts[c]; k++)
            CHECK(data[c][k] == (int32_t)k * size + size * (size - 1) / 2, "all-reduce %d", c);
        free(data[c]);
    }
    for (int i = 0; i < MANY; i++)
        CHECK(received[i] == 1000 * before + i, "message %d is %d", i, received[i]);
    free(keys);
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    CHECK(*word == MANY, "%llu were added", (unsigned long long)*word);
    return 0;
}

static void done__of_all_kinds(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 3, nobody_waits);
}

/* Rank 1 gives up; all that waits for it ends with an error, and each `done` is called once. */
static int one_aborts(struct braid_comm *comm, void *context)
{
    static int32_t data[MANY][2000];
    static struct ends ends;
    const struct braid_options options = {.done = count_end, .context = &ends};
    struct braid_op *handle;

    (void)context;
    if (braid_rank(comm)) {
        ranks_await(0, 1);
        RETURNS(0, braid_comm_abort(comm, "enough"));
        return 0;
    }
    for (int i = 0; i < MANY; i++)
        RETURNS(0, braid_allreduce(comm, data[i], data[i], i % 2 ? 2000 : 2, BRAID_INT32, BRAID_SUM,
                                   &options, NULL));
    RETURNS(0, braid_recv(comm, data[0], 8, 1, &options, &handle));
    ranks_tell(0);
    RETURNS(-ECANCELED, braid_wait(handle, -1));
    if (await_ends(&ends, MANY + 1))
        return 1;
    CHECK(ends.failed == MANY + 1 && ends.last == -ECANCELED, "%d failed, the last with %d",
          (int)ends.failed, (int)ends.last);
    return 0;
}

static void done__after_an_abort(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 2, one_aborts);
}

/* ---- braid_comm_fd() ------------------------------------------------------------------------- */

/* An event loop, which sleeps whenever nothing is to be found: braid's own thread drives. */
static int event_loop(struct braid_comm *comm, void *context)
{
    static int32_t data[MANY][3000], received[MANY];
    static struct braid_op *ops[3 * MANY];
    int rank = braid_rank(comm), size = braid_size(comm), next = (rank + 1) % size;
    int before = (rank + size - 1) % size, fd = braid_comm_fd(comm), ended = 0;

    (void)context;
    CHECK(fd >= 0, "no descriptor");
    for (int i = 0; i < MANY; i++) {
        size_t count = i % 2 ? 3000 : 1;

        data[i][0] = i + rank;
        RETURNS(0, braid_recv(comm, &received[i], 4, before, NULL, &ops[i]));
        RETURNS(0, braid_send(comm, &i, 4, next, NULL, &ops[MANY + i]));
        RETURNS(0, braid_allreduce(comm, data[i], data[i], count, BRAID_INT32, BRAID_SUM, NULL,
                                   &ops[2 * MANY + i]));
        /* i is on the stack: the message is gone before the next turn */
        RETURNS(0, braid_wait(ops[MANY + i], -1));
        ops[MANY + i] = NULL;
    }
    while (ended < 2 * MANY) {
        struct pollfd pollfd = {.fd = fd, .events = POLLIN};
        uint64_t count;

        CHECK(poll(&pollfd, 1, RANKS_PATIENCE) == 1, "asleep after %d ends", ended);
        CHECK(read(fd, &count, sizeof count) == sizeof count, "not readable");
        for (size_t index;; ended++) {
            RETURNS(0, braid_test_any(ops, 3 * MANY, &index));
            if (index == 3 * MANY)
                break;
        }
    }
    for (int i = 0; i < MANY; i++) {
        CHECK(received[i] == i, "message %d is %d", i, received[i]);
        CHECK(data[i][0] == i * size + size * (size - 1) / 2, "all-reduce %d", i);
    }
    return 0;
}

static void fd__event_loop(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 3, event_loop);
}

/* The same of accesses that end within their call (access.c), with a handle and without one: the
 * loop sleeps after each of them. */
static int put_loop(struct braid_comm *comm, void *context)
{
    enum { PUTS = 30, PATIENCE = 60000 };
    const struct braid_options patient = {.struct_size = sizeof patient, .wait_ms = PATIENCE};
    uint64_t *memory = braid_alloc(comm, sizeof *memory), count;
    struct braid_stats stats = {.struct_size = sizeof stats};
    struct braid_key key;
    int fd = braid_comm_fd(comm);

    (void)context;
    CHECK(fd >= 0, "no descriptor");
    RETURNS(0, braid_key(comm, memory, &key));
    RETURNS(0, braid_broadcast(comm, &key, &key, sizeof key, BRAID_UINT8, 1, NULL, NULL));
    for (uint64_t i = 1; !braid_rank(comm) && i <= PUTS; i++) {
        struct pollfd pollfd = {.fd = fd, .events = POLLIN};
        struct braid_op *op = NULL, **out = i % 3 == 1 ? NULL : &op;

        while (read(fd, &count, sizeof count) == sizeof count)
            ;
        RETURNS(0, braid_put(comm, &i, sizeof i, &key, 0, i % 3 == 2 ? &patient : NULL, out));
        CHECK(i % 3 ? !op : !!op, "put %d", (int)i);
        do {
            CHECK(poll(&pollfd, 1, PATIENCE) == 1, "asleep after put %d", (int)i);
            CHECK(read(fd, &count, sizeof count) == sizeof count, "not readable");
            for (size_t index = 0; !index;)
                RETURNS(0, braid_test_any(&op, 1, &index));
        } while (op);
    }
    RETURNS(0, braid_stats(comm, &stats));
    CHECK(braid_rank(comm) || stats.mapped_bytes, "all of them went another way");
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    CHECK(!braid_rank(comm) || *memory == PUTS, "%llu", (unsigned long long)*memory);
    return 0;
}

static void fd__accesses_within_their_call(void **state)
{
    const struct ranks two = {.size = 2, .backend = "shm", .timeout_ms = RANKS_PATIENCE};

    (void)state;
    ranks_run(&two, put_loop, NULL);
}

/* ---- braid_options.wait_ms ------------------------------------------------------------------- */

/* Rank 0 comes first and does not wait for the others, which come only when it has said that it
 * goes on; all collectives have the same results as if it had. done is told of what goes on and of
 * nothing else. */
static int wait_for_a_while(struct braid_comm *comm, void (*done)(void *context, int result))
{
    static const size_t counts[] = {1, 700, 120000};
    struct ends ends = {0};
    const struct braid_options brief = {.struct_size = sizeof brief,
                                        .wait_ms = 20,
                                        .done = done,
                                        .context = &ends},
                               patient = {.struct_size = sizeof patient,
                                          .wait_ms = RANKS_PATIENCE,
                                          .done = done,
                                          .context = &ends},
                               wrong = {.struct_size = sizeof wrong, .wait_ms = -1};
    int rank = braid_rank(comm), size = braid_size(comm);
    int32_t sum = size * (size - 1) / 2, *data = malloc(120000 * sizeof *data), go = 1, one = 1;
    struct braid_op *op, *second = NULL;

    for (int c = 0; c < 3; c++) {
        for (size_t k = 0; k < counts[c]; k++)
            data[k] = rank;
        if (rank == 0) {
            RETURNS(0, braid_allreduce(comm, data, data, counts[c], BRAID_INT32, BRAID_SUM, &brief,
                                       &op));
            CHECK(op, "%zu elements: nobody else has come, but it has ended", counts[c]);
            RETURNS(0, braid_allreduce(comm, &one, &one, 1, BRAID_INT32, BRAID_SUM, NULL, &second));
            for (int r = 1; r < size; r++)
                RETURNS(0, braid_send(comm, &go, sizeof go, r, NULL, NULL));
            RETURNS(0, braid_wait(second, -1));
            RETURNS(0, braid_wait(op, -1));
            CHECK(ends.n == (done ? c + 1 : 0) && !ends.failed, "turn %d: done was called %d times",
                  c, ends.n);
        } else {
            RETURNS(0, braid_recv(comm, &go, sizeof go, 0, &patient, &op));
            CHECK(!op, "a handle of what has ended");
            RETURNS(0, braid_allreduce(comm, data, data, counts[c], BRAID_INT32, BRAID_SUM,
                                       &patient, &op));
            CHECK(!op, "a handle of what has ended");
            RETURNS(0, braid_allreduce(comm, &one, &one, 1, BRAID_INT32, BRAID_SUM, NULL, NULL));
            CHECK(ends.n == 0, "done was called for what had ended within the call");
        }
        for (size_t k = 0; k < counts[c]; k++)
            CHECK(data[k] == sum, "element %zu of %zu is %d", k, counts[c], data[k]);
        CHECK(one == size, "the one behind is %d", one);
        one = 1;
    }
    RETURNS(-EINVAL, braid_barrier(comm, &wrong, &op));
    free(data);
    return 0;
}

struct handle {
    struct braid_op *op;
    atomic_int result, done;
};

static void free_handle(void *context, int result)
{
    struct handle *handle = context;

    (void)result;
    handle->result = handle->op ? braid_op_free(handle->op) : -ENOENT;
    handle->done = 1;
}

/* done finds the handle where the call was told to write it. */
static int done_takes_the_handle(struct braid_comm *comm)
{
    struct handle handle = {0};
    const struct braid_options brief = {
        .struct_size = sizeof brief, .wait_ms = 1, .done = free_handle, .context = &handle};
    int32_t one = 1, go = 1;

    if (braid_rank(comm)) {
        RETURNS(0, braid_recv(comm, &go, sizeof go, 0, NULL, NULL));
        RETURNS(0, braid_allreduce(comm, &one, &one, 1, BRAID_INT32, BRAID_SUM, NULL, NULL));
        return 0;
    }
    RETURNS(0, braid_allreduce(comm, &one, &one, 1, BRAID_INT32, BRAID_SUM, &brief, &handle.op));
    for (int r = 1; r < braid_size(comm); r++)
        RETURNS(0, braid_send(comm, &go, sizeof go, r, NULL, NULL));
    while (!handle.done)
        sched_yield();
    RETURNS(0, handle.result);
    return 0;
}

static int waits_for_a_while(struct braid_comm *comm, void *context)
{
    (void)context;
    return wait_for_a_while(comm, NULL) || wait_for_a_while(comm, count_end) ||
           done_takes_the_handle(comm);
}

static void wait_ms__goes_on_behind_it(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 3, waits_for_a_while);
}

/* The deadline passes first: the result is that, and there is no handle. */
static int misses_its_deadline(struct braid_comm *comm, void *context)
{
    const struct braid_options options = {
        .struct_size = sizeof options, .timeout_ms = 100, .wait_ms = RANKS_PATIENCE};
    struct braid_op *op = NULL;
    int rc;

    (void)context;
    if (braid_rank(comm) == 0) {
        RETURNS(-ETIMEDOUT, braid_barrier(comm, &options, &op));
        CHECK(!op, "a handle of what has ended");
        return 0;
    }
    while (!(rc = braid_comm_error(comm))) /* rank 0 tells */
        sched_yield();
    return 0;
}

static void wait_ms__deadline_first(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 2, misses_its_deadline);
}

/* It passes after the wait: the operation still has one. */
static int misses_it_later(struct braid_comm *comm, void *context)
{
    const struct braid_options options = {
        .struct_size = sizeof options, .timeout_ms = 2000, .wait_ms = 20};
    struct braid_op *op = NULL;

    (void)context;
    if (braid_rank(comm) == 0) {
        RETURNS(0, braid_barrier(comm, &options, &op));
        CHECK(op, "no handle of what goes on");
        RETURNS(-ETIMEDOUT, braid_wait(op, -1));
        return 0;
    }
    while (!braid_comm_error(comm)) /* rank 0 tells */
        sched_yield();
    return 0;
}

static void wait_ms__deadline_later(void **state)
{
    (void)state;
    for (int k = 0; k < RANKS_KINDS; k += 2) { /* tcp, shm, udp: each waits for its deadline */
        struct ranks job = ranks_kinds[k];

        job.size = 2;
        job.timeout_ms = RANKS_PATIENCE;
        ranks_run(&job, misses_it_later, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(done__of_all_kinds),
        cmocka_unit_test(done__after_an_abort),
        cmocka_unit_test(fd__event_loop),
        cmocka_unit_test(fd__accesses_within_their_call),
        cmocka_unit_test(wait_ms__goes_on_behind_it),
        cmocka_unit_test(wait_ms__deadline_first),
        cmocka_unit_test(wait_ms__deadline_later),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
