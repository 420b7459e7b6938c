/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank calls braid_finalize() while others wait for it: they hear of it at once. What it sent
 * before arrives, and orderly ends raise no alarm. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/says.h"
#include "tests/system/ranks.h"

/* A call that has begun before rank 1 left, or begins later. The words name the rank that has left,
 * and the call. */
#define LEFT(name, call)                                                                           \
    do {                                                                                           \
        double began_ = ranks_now_ms();                                                            \
        int left_ = (call);                                                                        \
                                                                                                   \
        /* -ECANCELED: it was noticed before this call began */                                    \
        CHECK(left_ == -ECONNRESET || left_ == -ECANCELED, "got %d", left_);                       \
        CHECK(strstr(braid_last_error(), "rank 1") && says_all(braid_last_error(), "left"),        \
              "rank 1 is not named");                                                              \
        CHECK(strstr(braid_last_error(), name), "the operation is not named");                     \
        CHECK(ranks_now_ms() - began_ < RANKS_SOON, "after %.0f ms", ranks_now_ms() - began_);     \
    } while (0)

/* ---- collectives ----------------------------------------------------------------------------- */

/* On the shared-memory path and beyond it, where ranks share a host. */
static const size_t counts[] = {2, 1000, 2000, 65536};

/* Uneven data: rank 1 has less of it than the others. */
static int uneven(struct braid_comm *comm, void *context)
{
    size_t count = *(const size_t *)context;
    float *data = calloc(count, sizeof *data);
    int rc = 0, n = 0;

    for (; n < (braid_rank(comm) == 1 ? 10 : 12) && !rc; n++)
        rc = braid_allreduce(comm, data, data, count, BRAID_FLOAT32, BRAID_SUM, NULL, NULL);
    free(data);
    if (braid_rank(comm) == 1)
        return rc;
    /* The tenth may be cut off here: another rank may be through with it, and report the
     * eleventh. */
    CHECK(n >= 10, "number %d failed", n);
    LEFT("allreduce", rc);
    return 0;
}

/* The same without blocking calls: several wait for rank 1. */
static int uneven_at_once(struct braid_comm *comm, void *context)
{
    size_t count = *(const size_t *)context;
    float *data = calloc(3 * count, sizeof *data);
    struct braid_op *ops[3];
    int n = braid_rank(comm) == 1 ? 1 : 3, rc = 0;

    for (int i = 0; i < n; i++)
        RETURNS(0, braid_allreduce(comm, data + (size_t)i * count, data + (size_t)i * count, count,
                                   BRAID_FLOAT32, BRAID_SUM, NULL, &ops[i]));
    for (int i = 0; i < n; i++)
        if (i)
            LEFT("allreduce", braid_wait(ops[i], -1));
        else
            rc = braid_wait(ops[i], -1); /* may end before the others fail, or with them */
    free(data);
    CHECK(braid_rank(comm) != 1 || !rc, "got %d", rc);
    return 0;
}

static void leaving__uneven_calls(void **state)
{
    (void)state;
    for (int k = 0; k < RANKS_KINDS; k++)
        for (size_t i = 0; ranks_tried(k) && i < sizeof counts / sizeof counts[0]; i++) {
            struct ranks job = ranks_kinds[k];
            size_t count = counts[i];

            job.size = 3;
            job.timeout_ms = RANKS_PATIENCE;
            ranks_run(&job, uneven, &count);
            ranks_run(&job, uneven_at_once, &count);
        }
}

/* What rank 2 meets when rank 1 leaves fails the job: rank 0 has ended its calls before. */
static void rank_0_first(int rank)
{
    if (rank == 0)
        ranks_tell(0);
    else if (rank == 1)
        ranks_await(0, 1);
}

/* Rank 0 has made its broadcasts and leaves; the others read them afterwards. */
static int ahead(struct braid_comm *comm, void *context)
{
    (void)context;
    if (braid_rank(comm))
        ranks_await(0, 1);
    for (int i = 0; i < 100; i++) {
        int data[2] = {braid_rank(comm) ? -1 : i, i};

        RETURNS(0, braid_broadcast(comm, data, data, 2, BRAID_INT32, 0, NULL, NULL));
        CHECK(data[0] == i, "number %d: got %d", i, data[0]);
    }
    if (!braid_rank(comm))
        ranks_tell(0);
    return 0;
}

static void leaving__ahead_of_the_others(void **state)
{
    (void)state;
    ranks_run(&(struct ranks){.size = 3, .backend = "shm", .timeout_ms = RANKS_PATIENCE}, ahead,
              NULL);
}

static int uneven_part(struct braid_comm *comm, void *context)
{
    int rank = braid_rank(comm), rc = 0;
    struct braid_comm *part;
    static float data[2000];

    (void)context;
    RETURNS(0, braid_comm_split(comm, rank > 0, 0, &part));
    for (int i = 0; i < (rank == 1 ? 3 : 4) && !rc; i++)
        rc = braid_allreduce(part, data, data, 2000, BRAID_FLOAT32, BRAID_SUM, NULL, NULL);
    if (rank == 2)
        LEFT("communicator", rc);
    rank_0_first(rank);
    CHECK(rank == 2 || !rc, "got %d", rc);
    return 0;
}

static int uneven_small_part(struct braid_comm *comm, void *context)
{
    int rank = braid_rank(comm), rc = 0;
    struct braid_comm *part;
    float data[2] = {0};

    (void)context;
    RETURNS(0, braid_comm_split(comm, rank > 0, 0, &part));
    for (int i = 0; i < (rank == 1 ? 3 : 4) && !rc; i++)
        rc = braid_allreduce(part, data, data, 2, BRAID_FLOAT32, BRAID_SUM, NULL, NULL);
    if (rank == 2)
        LEFT("", rc);
    rank_0_first(rank);
    CHECK(rank == 2 || !rc, "got %d", rc);
    return 0;
}

static void leaving__a_part_of_the_job(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 3, uneven_part);
    ranks_everywhere(RANKS_KINDS, 3, uneven_small_part);
}

/* ---- messages -------------------------------------------------------------------------------- */

#define MESSAGES 20

static char memory[MESSAGES][100000];

static int never_sent(struct braid_comm *comm, void *context)
{
    size_t bytes = *(const size_t *)context;

    if (braid_rank(comm) == 0)
        LEFT("receive", braid_recv(comm, memory[0], bytes, 1, NULL, NULL));
    return 0;
}

static int never_received(struct braid_comm *comm, void *context)
{
    (void)context;
    if (braid_rank(comm) == 0)
        LEFT("send", braid_send(comm, memory[0], sizeof memory[0], 1, NULL, NULL));
    return 0;
}

static void leaving__messages(void **state)
{
    static const size_t sizes[] = {8, 1000, sizeof memory[0]};

    (void)state;
    for (int k = 0; k < RANKS_KINDS; k++) {
        struct ranks job = ranks_kinds[k];

        job.size = 2;
        job.timeout_ms = RANKS_PATIENCE;
        for (size_t i = 0; ranks_tried(k) && i < sizeof sizes / sizeof sizes[0]; i++) {
            size_t bytes = sizes[i];

            ranks_run(&job, never_sent, &bytes);
        }
        ranks_run(&job, never_received, NULL);
    }
}

static size_t bytes_of(int i)
{
    return i % 3 == 0 ? 8 : i % 3 == 1 ? 1500 : sizeof memory[0];
}

/* Rank 1 leaves as soon as its messages are on their way. Rank 0 has posted its receives; rank 2
 * comes later to those that need no receive to leave. */
static int sends_and_leaves(struct braid_comm *comm, void *context)
{
    int rank = braid_rank(comm);
    struct braid_op *ops[MESSAGES];

    (void)context;
    for (int i = 0; i < MESSAGES && rank == 0; i++)
        RETURNS(0, braid_recv(comm, memory[i], bytes_of(i), 1, NULL, &ops[i]));
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    for (int i = 0; i < MESSAGES && rank == 1; i++) {
        memset(memory[i], i + 1, bytes_of(i));
        RETURNS(0, braid_send(comm, memory[i], bytes_of(i), 0, NULL, &ops[i]));
    }
    for (int i = 0; i < MESSAGES && rank < 2; i++) {
        RETURNS(0, braid_wait(ops[i], -1));
        CHECK(memory[i][0] == i + 1 && memory[i][bytes_of(i) - 1] == i + 1, "message %d", i);
    }
    for (int i = 0; i < 4 && rank == 1; i++)
        RETURNS(0, braid_send(comm, memory[i], 8, 2, NULL, NULL));
    if (rank == 1)
        ranks_tell(0);
    if (rank == 2) {
        ranks_await(0, 1);
        ranks_sleep_ms(30); /* it may have left by now, or not: both are well */
        for (int i = 0; i < 4; i++) {
            RETURNS(0, braid_recv(comm, memory[i], 8, 1, NULL, NULL));
            CHECK(memory[i][0] == i + 1, "message %d", i);
        }
    }
    return 0;
}

static void leaving__what_was_sent_before_arrives(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        ranks_everywhere(RANKS_KINDS, 3, sends_and_leaves);
}

/* ---- orderly ends ---------------------------------------------------------------------------- */

static int orderly(struct braid_comm *comm, void *context)
{
    static float data[40000];

    (void)context;
    for (size_t n = 1; n <= 40000; n *= 200)
        RETURNS(0, braid_allreduce(comm, data, data, n, BRAID_FLOAT32, BRAID_SUM, NULL, NULL));
    RETURNS(0, braid_broadcast(comm, data, data, 40000, BRAID_FLOAT32, 2, NULL, NULL));
    RETURNS(0, braid_broadcast(comm, data, data, 10, BRAID_FLOAT32, 1, NULL, NULL));
    RETURNS(0, braid_reduce(comm, data, data, 3000, BRAID_FLOAT32, BRAID_SUM, 0, NULL, NULL));
    return 0;
}

/* Ranks that are not waited for any more end at once, while others still work on what they have
 * sent. */
static void leaving__orderly_ends_raise_no_alarm(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++)
        ranks_everywhere(RANKS_KINDS, 4, orderly);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaving__uneven_calls),
        cmocka_unit_test(leaving__ahead_of_the_others),
        cmocka_unit_test(leaving__a_part_of_the_job),
        cmocka_unit_test(leaving__messages),
        cmocka_unit_test(leaving__what_was_sent_before_arrives),
        cmocka_unit_test(leaving__orderly_ends_raise_no_alarm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
