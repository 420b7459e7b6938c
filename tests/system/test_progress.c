/* SPDX-License-Identifier: BSD-3-Clause */
/* Whatever a program calls, and however it waits: somebody drives progress for what is under
 * way. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/comm/progress_lock.h"
#include "tests/system/ranks.h"

/* Looks again and again, and never waits: large enough to take many turns. */
static int only_looks(struct braid_comm *comm, void *context)
{
    enum { COUNT = 1 << 20 };
    float *values = braid_alloc(comm, COUNT * sizeof *values);
    double start = ranks_now_ms();
    struct braid_op *op;
    int rc;

    (void)context;
    RETURNS(0, braid_allreduce(comm, values, values, COUNT, BRAID_FLOAT32, BRAID_SUM, NULL, &op));
    while ((rc = braid_wait(op, 0)) == -ETIMEDOUT)
        CHECK(ranks_now_ms() - start < RANKS_SOON, "nobody drives");
    RETURNS(0, rc);
    return 0;
}

static void driving__only_looks(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 2, only_looks);
}

enum { SPIN_MS = 100, WAITING = 0, RECEIVED };

struct waiter {
    struct braid_comm *comm;
    uint32_t tag;
    double late; /* ms after it was sent */
    int rc;
};

static void *receive(void *argument)
{
    struct waiter *x = argument;
    double sent = 0;

    ranks_tell(WAITING);
    x->rc =
        braid_recv(x->comm, &sent, sizeof sent, 1, &(struct braid_options){.tag = x->tag}, NULL);
    x->late = ranks_now_ms() - sent;
    ranks_tell(RECEIVED);
    return NULL;
}

/* Two threads of rank 0 sleep in the same devices. What comes for one wakes both, and the other one
 * turns on for as long as a waiter spins: it must let the first have its message before that, and
 * does in a round in which nobody else has the cores. */
static int two_sleepers(struct braid_comm *comm, void *context)
{
    enum { ROUNDS = 30 };
    double least[2] = {1e9, 1e9};
    int in_time = 0; /* as rank 0 says */

    (void)context;
    for (int round = 0; round < ROUNDS && !in_time; round++) {
        struct waiter x[2] = {{.comm = comm, .tag = 0}, {.comm = comm, .tag = 1}};
        uint32_t first = (uint32_t)round % 2;
        pthread_t thread;

        if (braid_rank(comm)) {
            for (uint32_t i = 0; i < 2; i++) {
                double now;

                ranks_await(i ? RECEIVED : WAITING, 2 * round + 2 - (int)i);
                if (!i)
                    /* one after the other they turn, spin, and fall asleep */
                    ranks_sleep_ms(4 * SPIN_MS);
                now = ranks_now_ms();
                RETURNS(0, braid_send(comm, &now, sizeof now, 0,
                                      &(struct braid_options){.tag = first ^ i}, NULL));
            }
            RETURNS(0, braid_recv(comm, &in_time, sizeof in_time, 0, NULL, NULL));
            continue;
        }
        CHECK(!pthread_create(&thread, NULL, receive, &x[1]), "no thread");
        receive(&x[0]);
        pthread_join(thread, NULL);
        RETURNS(0, x[0].rc);
        RETURNS(0, x[1].rc);
        if (x[first].late < least[first])
            least[first] = x[first].late;
        in_time = least[0] < SPIN_MS && least[1] < SPIN_MS;
        RETURNS(0, braid_send(comm, &in_time, sizeof in_time, 1, NULL, NULL));
    }
    CHECK(in_time, "each message lay for %.0f and %.0f ms or more", least[0], least[1]);
    return 0;
}

static void driving__two_sleepers(void **state)
{
    (void)state;
    setenv("BRAID_SPIN_US", "100000", 1);
    ranks_run(&(struct ranks){.size = 2, .backend = "tcp", .timeout_ms = RANKS_PATIENCE},
              two_sleepers, NULL);
    unsetenv("BRAID_SPIN_US");
}

enum { CALLED, COMPUTES, SERVED }; /* what ranks tell each other */

struct watch {
    struct br_context *context;
    bool parked;
};

/* Until the progress thread sleeps, and then the other rank sends what the call waits for. */
static void *watch_thread(void *argument)
{
    struct watch *watch = argument;
    double until = ranks_now_ms() + RANKS_PATIENCE / 4.0;

    while (!watch->parked && ranks_now_ms() < until) {
        watch->parked = atomic_load(&watch->context->parked);
        ranks_sleep_ms(1);
    }
    ranks_tell(CALLED);
    return NULL;
}

/* While a call waits, the progress thread sleeps; when it has returned, that serves peers again. */
static int thread_sleeps(struct braid_comm *comm, void *context)
{
    uint64_t *window = braid_alloc(comm, sizeof *window), value = 1;
    struct watch watch = {.context = comm->context};
    struct braid_key key, keys[2];
    pthread_t thread;

    (void)context;
    RETURNS(0, braid_key(comm, window, &key));
    RETURNS(0, braid_allgather(comm, &key, keys, sizeof key, BRAID_UINT8, NULL, NULL));
    if (braid_rank(comm)) {
        ranks_await(CALLED, 1);
        RETURNS(0, braid_send(comm, &value, sizeof value, 0, NULL, NULL));
        ranks_await(COMPUTES, 1);
        RETURNS(0, braid_put(comm, &value, sizeof value, &keys[0], 0, NULL, NULL));
        ranks_tell(SERVED);
    } else {
        CHECK(!pthread_create(&thread, NULL, watch_thread, &watch), "no thread");
        RETURNS(0, braid_recv(comm, &value, sizeof value, 1, NULL, NULL));
        pthread_join(thread, NULL);
        ranks_tell(COMPUTES);
        ranks_await(SERVED, 1);
        CHECK(watch.parked, "the progress thread goes on beside a call");
    }
    return braid_barrier(comm, NULL, NULL);
}

static void driving__thread_sleeps_while_a_call_waits(void **state)
{
    (void)state;
    ranks_run(&(struct ranks){.size = 2, .backend = "tcp", .timeout_ms = RANKS_PATIENCE},
              thread_sleeps, NULL);
}

/* Passes so far; *rest: do puts wait for the next one? */
static uint64_t passes(struct br_context *context, bool *rest)
{
    uint64_t n;

    br_progress_lock(context);
    n = context->progress.calls;
    *rest = context->accesses_rest;
    br_progress_unlock(context);
    return n;
}

/* A put that waits for others to leave with it does not wait while collectives, which make no pass
 * by themselves, follow each other. */
static int puts_beside_collectives(struct braid_comm *comm, void *context)
{
    enum { TIMES = 50, PUTS = 2 };
    uint64_t *memory = calloc(PUTS, sizeof *memory), from[PUTS] = {1, 2};
    struct braid_region *region;
    struct braid_op *ops[PUTS];
    int64_t one = 1, sum;
    struct braid_key key;

    (void)context;
    CHECK(memory, "no memory");
    RETURNS(0, braid_register(comm, memory, PUTS * sizeof *memory, &region));
    RETURNS(0, braid_key(comm, memory, &key));
    RETURNS(0, braid_broadcast(comm, &key, &key, sizeof key, BRAID_UINT8, 1, NULL, NULL));
    for (int t = 0; t < TIMES; t++) {
        bool puts = !braid_rank(comm), rest, after;
        uint64_t before;

        for (size_t i = 0; puts && i < PUTS; i++)
            RETURNS(0,
                    braid_put(comm, &from[i], sizeof *from, &key, i * sizeof *from, NULL, &ops[i]));
        before = passes(comm->context, &rest);
        RETURNS(0, braid_allreduce(comm, &one, &sum, 1, BRAID_INT64, BRAID_SUM, NULL, NULL));
        CHECK(!rest || passes(comm->context, &after) > before, "no pass for puts");
        if (puts)
            RETURNS(0, braid_wait_all(ops, PUTS, -1));
    }
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    CHECK(!braid_rank(comm) || (memory[0] == 1 && memory[1] == 2), "not what was put");
    RETURNS(0, braid_deregister(region));
    free(memory);
    return 0;
}

static void driving__puts_beside_collectives(void **state)
{
    (void)state;
    ranks_run(&(struct ranks){.size = 2, .backend = "shm", .timeout_ms = RANKS_PATIENCE},
              puts_beside_collectives, NULL);
}

/* Puts to rank 2, the last of which may rest, and then one call of a message to or from rank 1,
 * which makes the pass that they wait for. */
static int puts_to_rest(struct braid_comm *comm, const struct braid_key *key, bool sends)
{
    enum { PUTS = 2 };
    static const uint64_t from[PUTS] = {1, 2};
    struct braid_op *ops[PUTS], *received = NULL;
    uint64_t before, token = 0;
    bool rest, after;

    for (size_t i = 0; i < PUTS; i++)
        RETURNS(0, braid_put(comm, &from[i], sizeof *from, key, i * sizeof *from, NULL, &ops[i]));
    before = passes(comm->context, &rest);
    if (sends)
        RETURNS(0, braid_send(comm, &from[0], sizeof *from, 1, NULL, NULL));
    else
        RETURNS(0, braid_recv(comm, &token, sizeof token, 1, NULL, &received));
    CHECK(!rest || passes(comm->context, &after) > before, "no pass for puts beside a %s",
          sends ? "send" : "receive");
    if (sends)
        RETURNS(0, braid_recv(comm, &token, sizeof token, 1, NULL, NULL));
    else
        RETURNS(0, braid_send(comm, &from[0], sizeof *from, 1, NULL, NULL));
    if (received)
        RETURNS(0, braid_wait(received, -1));
    RETURNS(0, braid_wait_all(ops, PUTS, -1));
    return 0;
}

/* The same beside messages within the host, which make no pass by themselves either: sends, and
 * receives whose message is not here. */
static int puts_beside_messages(struct braid_comm *comm, void *context)
{
    enum { TIMES = 100 };
    uint64_t memory[2] = {0}, token;
    struct braid_region *region;
    struct braid_key key;

    (void)context;
    RETURNS(0, braid_register(comm, memory, sizeof memory, &region));
    RETURNS(0, braid_key(comm, memory, &key));
    RETURNS(0, braid_broadcast(comm, &key, &key, sizeof key, BRAID_UINT8, 2, NULL, NULL));
    for (int t = 0; t < TIMES && braid_rank(comm) < 2; t++) {
        if (!braid_rank(comm)) {
            if (puts_to_rest(comm, &key, t % 2))
                return 1;
            continue;
        }
        RETURNS(0, braid_recv(comm, &token, sizeof token, 0, NULL, NULL));
        RETURNS(0, braid_send(comm, &token, sizeof token, 0, NULL, NULL));
    }
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    CHECK(braid_rank(comm) < 2 || (memory[0] == 1 && memory[1] == 2), "not what was put");
    RETURNS(0, braid_deregister(region));
    return 0;
}

static void driving__puts_beside_messages(void **state)
{
    (void)state;
    ranks_run(
        &(struct ranks){.size = 3, .per_host = 2, .backend = "auto", .timeout_ms = RANKS_PATIENCE},
        puts_beside_messages, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(driving__only_looks),
        cmocka_unit_test(driving__two_sleepers),
        cmocka_unit_test(driving__thread_sleeps_while_a_call_waits),
        cmocka_unit_test(driving__puts_beside_collectives),
        cmocka_unit_test(driving__puts_beside_messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
