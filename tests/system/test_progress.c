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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(driving__only_looks),
        cmocka_unit_test(driving__two_sleepers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
