/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of operations between real processes: many at once, threads, ranks that disagree,
 * aborts, ends. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/system/ranks.h"

/* ---- many at once ---------------------------------------------------------------------------- */

#define MANY 24

static size_t count_of(int i)
{
    return (size_t)(i % 4 == 0 ? 300000 : i % 4 == 1 ? 5 : i % 4 == 2 ? 4000 : 40000) + (size_t)i;
}

/* Waited for in another order on every rank; a part by polling. */
static int many_at_once(struct braid_comm *comm, void *context)
{
    int rank = braid_rank(comm), size = braid_size(comm);
    struct braid_op *ops[MANY];
    int32_t *data[MANY];

    (void)context;
    for (int i = 0; i < MANY; i++) {
        data[i] = malloc(count_of(i) * sizeof **data);
        for (size_t k = 0; k < count_of(i); k++)
            data[i][k] = (int32_t)k + rank;
    }
    for (int i = 0; i < MANY; i++) {
        struct braid_options options = {.priority = i % 5 - 2};

        RETURNS(0, braid_allreduce(comm, data[i], data[i], count_of(i), BRAID_INT32, BRAID_SUM,
                                   &options, &ops[i]));
    }
    for (int i = 0; i < MANY; i++) {
        int which = (i * 7 + rank * 5) % MANY, done = i % 2;

        if (done)
            RETURNS(0, braid_wait(ops[which], -1));
        while (!done)
            RETURNS(0, braid_test(ops[which], &done));
    }
    for (int i = 0; i < MANY; i++) {
        for (size_t k = 0; k < count_of(i); k++)
            CHECK(data[i][k] == (int32_t)k * size + size * (size - 1) / 2,
                  "operation %d element %zu", i, k);
        free(data[i]);
    }
    return 0;
}

static void operations__many_at_once(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 3, many_at_once);
}

static int persistent(struct braid_comm *comm, void *context)
{
    struct braid_op *op, *barrier;
    size_t count = 100000;
    float *data = braid_alloc(comm, count * sizeof *data);
    struct braid_stats stats = {.struct_size = sizeof stats};
    int done = 0;

    (void)context;
    RETURNS(0, braid_allreduce_init(comm, data, data, count, BRAID_FLOAT32, BRAID_AVG, NULL, &op));
    RETURNS(0, braid_barrier_init(comm, NULL, &barrier));
    SAYS(-EINVAL, "started", braid_wait(op, -1));
    SAYS(-EINVAL, "started", braid_test(op, &done));
    for (int i = 0; i < 20; i++) {
        for (size_t k = 0; k < count; k++)
            data[k] = (float)(i + braid_rank(comm));
        RETURNS(0, braid_start(op));
        SAYS(-EBUSY, "wait", braid_start(op));
        RETURNS(0, braid_wait(op, -1));
        CHECK(data[count - 1] == (float)i + 0.5f, "%g in repetition %d", (double)data[count - 1],
              i);
        RETURNS(0, braid_start(barrier));
        for (done = 0; !done;)
            RETURNS(0, braid_test(barrier, &done));
    }
    RETURNS(0, braid_start(op));
    RETURNS(0, braid_op_free(op)); /* while it runs: it ends all the same */
    SAYS(-EINVAL, "not there", braid_wait(op, -1));
    RETURNS(0, braid_op_free(barrier));
    do /* a barrier may overtake it */
        RETURNS(0, braid_stats(comm, &stats));
    while (stats.outstanding);
    CHECK(data[count - 1] == 19.5f, "%g in the last repetition", (double)data[count - 1]);
    return 0;
}

static void operations__persistent(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 2, persistent);
}

/* ---- deadlines and waits --------------------------------------------------------------------- */

static int wait_again(struct braid_comm *comm, void *context)
{
    struct braid_op *op;
    int32_t value = 1;

    (void)context;
    if (braid_rank(comm))
        ranks_await(0, 1);
    RETURNS(0, braid_allreduce(comm, &value, &value, 1, BRAID_INT32, BRAID_SUM, NULL, &op));
    if (!braid_rank(comm)) {
        SAYS(-ETIMEDOUT, "still running", braid_wait(op, 50));
        SAYS(-ETIMEDOUT, "still running", braid_wait(op, 0));
        ranks_tell(0);
    }
    RETURNS(0, braid_wait(op, -1));
    CHECK(value == 2, "%d", (int)value);
    return 0;
}

static void operations__wait_again(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 2, wait_again);
}

/* Rank 1 never calls: rank 0's operation ends at its deadline, blocking or not, small or large. */
static int deadline(struct braid_comm *comm, void *context)
{
    static int32_t data[200000];
    const int *how = context;
    struct braid_options options = {.timeout_ms = 300};
    struct braid_op *op = NULL;
    double start = ranks_now_ms(), took;
    int rc;

    if (braid_rank(comm)) {
        ranks_await(0, 1);
        rc = braid_barrier(comm, NULL, NULL);
        CHECK(rc < 0, "rank 0 has given up");
        return 0;
    }
    rc = braid_allreduce(comm, data, data, *how & 1 ? 200000 : 1, BRAID_INT32, BRAID_SUM, &options,
                         *how & 2 ? &op : NULL);
    if (op)
        rc = braid_wait(op, -1);
    took = ranks_now_ms() - start;
    ranks_tell(0);
    CHECK(rc == -ETIMEDOUT && strstr(braid_last_error(), "rank 1"), "got %d", rc);
    CHECK(took > 290 && took < RANKS_SOON, "300 ms took %.0f", took);
    rc = braid_barrier(comm, NULL, NULL);
    CHECK(rc < 0, "the communicator should have failed");
    return 0;
}

static void operations__deadline(void **state)
{
    (void)state;
    for (int k = 0; k < RANKS_KINDS; k += 2)
        for (int how = 0; how < 4; how++) {
            struct ranks job = ranks_kinds[k];

            job.size = 2;
            ranks_run(&job, deadline, &how);
        }
}

/* ---- disagreement ---------------------------------------------------------------------------- */

/* The last three: rank 2 has other numbers of elements, on the other side of what small collectives
 * in shared memory take. */
enum {
    OTHER_COUNT,
    OTHER_TYPE,
    OTHER_REDUCTION,
    OTHER_COLLECTIVE,
    OTHER_ROOT,
    OTHER_TARGET,
    LARGER_COUNT,
    SMALLER_COUNT,
    LARGER_BROADCAST,
    DISAGREEMENTS
};

/* What the message names: the difference, there and here, in either order. */
static const char *const named[DISAGREEMENTS][3] = {
    [OTHER_COUNT] = {"(count)", "", ""},
    [OTHER_TYPE] = {"(type)", "uint32", " int32"},
    [OTHER_REDUCTION] = {"(reduction)", "(max)", "(sum)"},
    [OTHER_COLLECTIVE] = {"(collective)", "broadcast of", "allreduce of"},
    [OTHER_ROOT] = {"(root)", "root 0", "root 1"},
    [OTHER_TARGET] = {"(root)", "root 0", "root 1"},
    [LARGER_COUNT] = {"(count)", "of 1000 ", "of 2000 "},
    [SMALLER_COUNT] = {"(count)", "of 1000 ", "of 2000 "},
    [LARGER_BROADCAST] = {"(count)", "broadcast of 1000 ", "broadcast of 2000 "},
};

struct disagreement {
    int what;
    size_t count;
};

static int disagree(struct braid_comm *comm, void *context)
{
    static int32_t data[400000], out[400000];
    const struct disagreement *d = context;
    int other = braid_rank(comm) == 2, rc;
    double start = ranks_now_ms();

    if (d->what == LARGER_BROADCAST)
        rc = braid_broadcast(comm, data, out, other ? 2000 : 1000, BRAID_INT32, 0, NULL, NULL);
    else if (d->what == LARGER_COUNT || d->what == SMALLER_COUNT)
        rc = braid_allreduce(comm, data, out, other == (d->what == LARGER_COUNT) ? 2000 : 1000,
                             BRAID_INT32, BRAID_SUM, NULL, NULL);
    else if (d->what == OTHER_ROOT)
        rc = braid_broadcast(comm, data, out, d->count, BRAID_INT32, other, NULL, NULL);
    else if (d->what == OTHER_TARGET)
        rc = braid_reduce(comm, data, out, d->count, BRAID_INT32, BRAID_SUM, other, NULL, NULL);
    else if (d->what == OTHER_COLLECTIVE && other)
        rc = braid_broadcast(comm, data, out, d->count, BRAID_INT32, 0, NULL, NULL);
    else
        rc = braid_allreduce(comm, data, out, d->count + (other && d->what == OTHER_COUNT ? 1 : 0),
                             other && d->what == OTHER_TYPE ? BRAID_UINT32 : BRAID_INT32,
                             other && d->what == OTHER_REDUCTION ? BRAID_MAX : BRAID_SUM, NULL,
                             NULL);
    if (!rc) /* a root or a leaf may have nothing to notice yet */
        rc = braid_barrier(comm, NULL, NULL);
    CHECK(rc == -EPROTO || rc == -ECANCELED, "disagreement %d, %zu elements: got %d", d->what,
          d->count, rc);
    CHECK(strstr(braid_last_error(), "disagree"), "the words do not say so");
    CHECK(ranks_now_ms() - start < RANKS_SOON, "noticed late");
    /* Digests are named instead by a rank that has not heard of the other's arguments for a second,
     * in which that one stood still (agree.c). */
    if (strstr(braid_last_error(), "digest"))
        return 0;
    /* not of the barrier that came next */
    if (strstr(braid_last_error(), " 0 (") || d->what >= LARGER_COUNT)
        for (int i = 0; i < 3; i++)
            CHECK(strstr(braid_last_error(), named[d->what][i]),
                  "disagreement %d: the words lack %s", d->what, named[d->what][i]);
    return 0;
}

static void operations__disagreement(void **state)
{
#ifdef __SANITIZE_THREAD__ /* a job each, and the sizes differ in no thread */
    static const size_t counts[] = {3000};
#else
    static const size_t counts[] = {3, 3000, 300000};
#endif

    (void)state;
    for (int k = 0; k < RANKS_KINDS; k += 2)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            for (int what = 0; what < DISAGREEMENTS; what++) {
                struct ranks job = ranks_kinds[k];
                struct disagreement d = {what, counts[c]};

                job.size = 3;
                job.timeout_ms = RANKS_PATIENCE;
                ranks_run(&job, disagree, &d);
            }
}

/* Rank 0, which has nothing to wait for in its broadcasts, is many calls ahead when rank 1 comes to
 * the one in which they differ: rank 1 makes it by messages, so nothing in shared memory shows it.
 * *ends_small: rank 0 waits in shared memory at last, otherwise by messages. */
static int disagree_ahead(struct braid_comm *comm, void *context)
{
    enum { AHEAD = 60, DIFFERENT = 30, LARGE = 300000 };
    static int32_t data[LARGE];
    const bool *ends_small = context;
    double start = ranks_now_ms();
    int rc = 0;

    for (int i = 0; i < AHEAD && !rc; i++)
        rc = braid_broadcast(comm, data, data, braid_rank(comm) && i == DIFFERENT ? LARGE : 2,
                             BRAID_INT32, 0, NULL, NULL);
    if (!rc && *ends_small)
        rc = braid_barrier(comm, NULL, NULL);
    else if (!rc)
        rc = braid_allreduce(comm, data, data, LARGE, BRAID_INT32, BRAID_SUM, NULL, NULL);
    CHECK(rc == -EPROTO || rc == -ECANCELED, "got %d", rc);
    CHECK(strstr(braid_last_error(), "disagree"), "the words do not say so");
    CHECK(ranks_now_ms() - start < RANKS_SOON, "noticed late");
    return 0;
}

static void operations__disagreement_of_one_that_is_ahead(void **state)
{
    (void)state;
    for (int size = 2; size < 4; size++)
        for (int small = 0; small < 2; small++)
            ranks_run(&(struct ranks){.size = size, .backend = "shm", .timeout_ms = RANKS_PATIENCE},
                      disagree_ahead, &(bool){small});
}

/* Rank 0 would go on and on: all slots are full, and it hears of the end of the others. */
static int abort_ahead(struct braid_comm *comm, void *context)
{
    int32_t data[2] = {0};
    double start = ranks_now_ms();
    int rc = 0;

    (void)context;
    if (braid_rank(comm)) {
        ranks_await(0, 1);
        RETURNS(0, braid_comm_abort(comm, "enough of it"));
        return 0;
    }
    for (int i = 0; i < 1000 && !rc; i++) {
        if (i == 20)
            ranks_tell(0);
        rc = braid_broadcast(comm, data, data, 2, BRAID_INT32, 0, NULL, NULL);
    }
    CHECK(rc == -ECANCELED || rc == -ECONNRESET, "got %d", rc);
    CHECK(ranks_now_ms() - start < RANKS_SOON, "noticed late");
    return 0;
}

static void operations__abort_of_one_that_is_ahead(void **state)
{
    (void)state;
    ranks_run(&(struct ranks){.size = 2, .backend = "shm", .timeout_ms = RANKS_PATIENCE},
              abort_ahead, NULL);
}

/* ---- threads --------------------------------------------------------------------------------- */

struct thread {
    struct braid_comm *comm;
    uint32_t tag;
    int failed;
};

/* Messages need no order between threads: two pairs of threads exchange with tags of their own. */
static int exchange(struct braid_comm *comm, uint32_t tag)
{
    struct braid_options options = {.tag = tag};
    int other = 1 - braid_rank(comm);
    static const size_t sizes[] = {8, 3000, 70000, 0, 1000000};
    uint8_t *in = malloc(1000000), *out = malloc(1000000);

    for (int i = 0; i < 100; i++) {
        size_t bytes = sizes[(size_t)i % 5];
        struct braid_op *op;

        memset(out, i + (int)tag, bytes);
        RETURNS(0, braid_send(comm, out, bytes, other, &options, &op));
        RETURNS(0, braid_recv(comm, in, bytes, other, &options, NULL));
        RETURNS(0, braid_wait(op, -1));
        CHECK(!memcmp(in, out, bytes), "message %d of tag %u", i, tag);
    }
    free(in);
    free(out);
    return 0;
}

static void *exchanging(void *argument)
{
    struct thread *t = argument;

    t->failed = exchange(t->comm, t->tag);
    return NULL;
}

static int two_threads(struct braid_comm *comm, void *context)
{
    struct thread threads[2] = {{comm, 7, 0}, {comm, 1u << 31, 0}};
    pthread_t ids[2];

    (void)context;
    for (int i = 0; i < 2; i++)
        CHECK(!pthread_create(&ids[i], NULL, exchanging, &threads[i]), "no thread");
    for (int i = 0; i < 2; i++)
        pthread_join(ids[i], NULL);
    return threads[0].failed || threads[1].failed;
}

static void operations__two_threads(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 2, two_threads);
}

static void *blocking(void *argument)
{
    struct thread *t = argument;
    int32_t value = 1;

    t->failed = braid_allreduce(t->comm, &value, &value, 1, BRAID_INT32, BRAID_SUM, NULL, NULL) ||
                value != 2;
    return NULL;
}

/* Another thread submits, allocates and asks while one waits in a blocking call for a rank that
 * comes late; rank 1 makes the same calls in the same order, one after the other. */
static int beside_a_blocking_call(struct braid_comm *comm, void *context)
{
    struct thread first = {comm, 0, 0};
    int32_t value = 10;
    struct braid_stats stats = {0};
    struct braid_op *op;
    pthread_t id;
    void *memory;

    (void)context;
    if (braid_rank(comm)) { /* the blocking call of rank 0 cannot end before */
        ranks_await(0, 1);
        blocking(&first);
        RETURNS(0, braid_allreduce(comm, &value, &value, 1, BRAID_INT32, BRAID_MAX, NULL, NULL));
        CHECK(!first.failed && value == 20, "%d", (int)value);
        return 0;
    }
    value = 20;
    CHECK(!pthread_create(&id, NULL, blocking, &first), "no thread");
    do /* the thread's operation is the first */
        RETURNS(0, braid_stats(comm, &stats));
    while (!stats.outstanding);
    memory = braid_alloc(comm, 4096);
    CHECK(memory, "no memory");
    RETURNS(0, braid_free(comm, memory));
    RETURNS(0, braid_allreduce(comm, &value, &value, 1, BRAID_INT32, BRAID_MAX, NULL, &op));
    ranks_tell(0);
    RETURNS(0, braid_wait(op, -1));
    pthread_join(id, NULL);
    CHECK(!first.failed && value == 20, "%d", (int)value);
    return 0;
}

static void operations__beside_a_blocking_call(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 2, beside_a_blocking_call);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void *aborting(void *argument)
{
    struct thread *t = argument;
    struct braid_stats stats = {0};

    do /* the blocking call */
        t->failed = braid_stats(t->comm, &stats);
    while (!t->failed && !stats.outstanding);
    t->failed |= braid_comm_abort(t->comm, "enough of it");
    return NULL;
}

/* Rank 0 waits in a blocking call, small (tag 1) or large, for a rank that waits for something
 * else: another thread aborts. */
static int abort_beside(struct braid_comm *comm, void *context)
{
    static int32_t data[200000];
    struct thread t = {comm, 0, 0};
    const size_t *count = context;
    double start = ranks_now_ms();
    pthread_t id;

    if (braid_rank(comm)) {
        SAYS(-ECANCELED, "enough of it", braid_recv(comm, data, sizeof data, 0, NULL, NULL));
    } else {
        CHECK(!pthread_create(&id, NULL, aborting, &t), "no thread");
        SAYS(-ECANCELED, "enough of it",
             braid_allreduce(comm, data, data, *count, BRAID_INT32, BRAID_SUM, NULL, NULL));
        pthread_join(id, NULL);
    }
    CHECK(!t.failed && ranks_now_ms() - start < RANKS_SOON, "took %.0f ms", ranks_now_ms() - start);
    CHECK(braid_barrier(comm, NULL, NULL) < 0, "the communicator should have failed");
    return 0;
}

static void operations__abort_beside_a_blocking_call(void **state)
{
    size_t counts[] = {1, 200000};

    (void)state;
    for (int k = 0; k < RANKS_KINDS; k += 2)
        for (int c = 0; c < 2; c++) {
            struct ranks job = ranks_kinds[k];

            job.size = 2;
            ranks_run(&job, abort_beside, &counts[c]);
        }
}

/* Nobody waits for what was submitted: braid_finalize() does. */
static int finalize_under_way(struct braid_comm *comm, void *context)
{
    static int32_t data[500000];
    struct braid_op *ops[3];

    (void)context;
    RETURNS(0, braid_allreduce(comm, data, data, 500000, BRAID_INT32, BRAID_SUM, NULL, &ops[0]));
    RETURNS(0, braid_allreduce(comm, data, data, 1, BRAID_INT32, BRAID_SUM, NULL, &ops[1]));
    RETURNS(0, braid_barrier(comm, NULL, &ops[2]));
    return 0;
}

static void operations__finalize_under_way(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 3, finalize_under_way);
}

static int free_in_use(struct braid_comm *comm, void *context)
{
    uint8_t *memory = braid_alloc(comm, 100000);
    struct braid_region *region;
    static uint8_t own[100000];
    struct braid_op *a, *b;

    (void)context;
    if (braid_rank(comm)) /* comes late, so that nothing has ended on rank 0 */
        ranks_await(0, 1);
    RETURNS(0, braid_register(comm, own, sizeof own, &region));
    RETURNS(0, braid_allreduce(comm, memory, own, 100000, BRAID_INT8, BRAID_MAX, NULL, &a));
    RETURNS(0, braid_allreduce(comm, memory, memory, 3, BRAID_INT8, BRAID_MAX, NULL, &b));
    if (!braid_rank(comm)) {
        SAYS(-EBUSY, "use", braid_free(comm, memory));
        SAYS(-EBUSY, "uses", braid_deregister(region));
        ranks_tell(0);
    }
    RETURNS(0, braid_wait(a, -1));
    RETURNS(0, braid_wait(b, -1));
    RETURNS(0, braid_free(comm, memory));
    RETURNS(0, braid_deregister(region));
    return 0;
}

static void operations__free_in_use(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 2, free_in_use);
}

/* Buffers of a rank that overlap otherwise than in place; the calls reach no other rank. */
static int overlapping(struct braid_comm *comm, void *context)
{
    enum { COUNT = 8, MOST = 2 * COUNT };
    int32_t memory[4 * MOST] = {0}, *x = memory + MOST;
    const enum braid_type type = BRAID_INT32;
    int rank = braid_rank(comm);
    int32_t *own = x + rank * COUNT, *other = x + (1 - rank) * COUNT;
    struct braid_op *op;

    (void)context;
    SAYS(-EINVAL, "braid_allreduce: send (32 bytes",
         braid_allreduce(comm, x, x + 1, COUNT, type, BRAID_SUM, NULL, NULL));
    SAYS(-EINVAL, "overlap",
         braid_allreduce(comm, x + COUNT - 1, x, COUNT, type, BRAID_SUM, NULL, &op));
    SAYS(-EINVAL, "braid_allreduce_init: send",
         braid_allreduce_init(comm, x, x + 1, COUNT, type, BRAID_SUM, NULL, &op));
    SAYS(-EINVAL, "braid_reduce_scatter: send (64 bytes",
         braid_reduce_scatter(comm, x, other, COUNT, type, BRAID_SUM, NULL, NULL));
    SAYS(-EINVAL, "recv == send + rank * count",
         braid_reduce_scatter(comm, x, own + 1, COUNT, type, BRAID_SUM, NULL, NULL));
    SAYS(-EINVAL, "overlap",
         braid_reduce_scatter(comm, x, x - 1, COUNT, type, BRAID_SUM, NULL, NULL));
    SAYS(-EINVAL, "braid_allgather: send (32 bytes",
         braid_allgather(comm, other, x, COUNT, type, NULL, NULL));
    SAYS(-EINVAL, "send == recv + rank * count",
         braid_allgather(comm, own - 1, x, COUNT, type, NULL, NULL));
    SAYS(-EINVAL, "braid_alltoall: send (64 bytes",
         braid_alltoall(comm, x, x + COUNT, COUNT, type, NULL, NULL));
    SAYS(-EINVAL, "braid_broadcast: send",
         braid_broadcast(comm, x, x + 1, COUNT, type, rank, NULL, NULL));
    SAYS(-EINVAL, "braid_reduce: send",
         braid_reduce(comm, x, x - 1, COUNT, type, BRAID_SUM, rank, NULL, NULL));
    SAYS(-EINVAL, "braid_gather: send (32 bytes",
         braid_gather(comm, other, x, COUNT, type, rank, NULL, NULL));
    SAYS(-EINVAL, "braid_scatter: send (64 bytes",
         braid_scatter(comm, x, other, COUNT, type, rank, NULL, NULL));

    /* in place, side by side, or where only one of them counts */
    RETURNS(0, braid_allreduce(comm, x, x, COUNT, type, BRAID_SUM, NULL, NULL));
    RETURNS(0, braid_allreduce(comm, x, x + COUNT, COUNT, type, BRAID_SUM, NULL, NULL));
    RETURNS(0, braid_reduce_scatter(comm, x, own, COUNT, type, BRAID_SUM, NULL, NULL));
    RETURNS(0, braid_reduce_scatter(comm, x, x + MOST, COUNT, type, BRAID_SUM, NULL, NULL));
    RETURNS(0, braid_allgather(comm, own, x, COUNT, type, NULL, NULL));
    RETURNS(0, braid_allgather(comm, x - COUNT, x, COUNT, type, NULL, NULL));
    RETURNS(0, braid_alltoall(comm, x, x, COUNT, type, NULL, NULL));
    RETURNS(0, braid_broadcast(comm, rank ? x + 1 : x, x, COUNT, type, 0, NULL, NULL));
    RETURNS(0, braid_reduce(comm, x, rank ? x + 1 : x, COUNT, type, BRAID_SUM, 0, NULL, NULL));
    RETURNS(0, braid_gather(comm, rank ? x + 1 : own, x, COUNT, type, 0, NULL, NULL));
    RETURNS(0, braid_scatter(comm, x, rank ? x + 1 : own, COUNT, type, 0, NULL, NULL));
    RETURNS(0, braid_comm_error(comm));
    return 0;
}

static void operations__overlapping_buffers(void **state)
{
    (void)state;
    ranks_run(&(struct ranks){.size = 2, .backend = "shm", .timeout_ms = RANKS_PATIENCE},
              overlapping, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations__many_at_once),
        cmocka_unit_test(operations__persistent),
        cmocka_unit_test(operations__overlapping_buffers),
        cmocka_unit_test(operations__wait_again),
        cmocka_unit_test(operations__deadline),
        cmocka_unit_test(operations__disagreement),
        cmocka_unit_test(operations__disagreement_of_one_that_is_ahead),
        cmocka_unit_test(operations__abort_of_one_that_is_ahead),
        cmocka_unit_test(operations__two_threads),
        cmocka_unit_test(operations__beside_a_blocking_call),
        cmocka_unit_test(operations__abort_beside_a_blocking_call),
        cmocka_unit_test(operations__finalize_under_way),
        cmocka_unit_test(operations__free_in_use),
    };

    if (argc == 2)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
