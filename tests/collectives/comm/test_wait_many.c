/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for one or all of many operations, and for a descriptor; by communicators of one rank.
 * Receives end when the test sends. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/collectives/comm/single_rank.h"
#include "tests/says.h"

#include <braid/braid.h>

#define I32  BRAID_INT32
#define SUM  BRAID_SUM
#define MANY 3000

static struct braid_op *ops[MANY];
static uint64_t words[MANY];

/* Number i, with its own tag. */
static void receive(struct braid_comm *on, uint32_t i)
{
    assert_int_equal(braid_recv(on, &words[i], 8, 0, &(struct braid_options){.tag = i}, &ops[i]),
                     0);
}

static void send_to(struct braid_comm *on, uint32_t i)
{
    uint64_t word = i + 1;

    assert_int_equal(braid_send(on, &word, 8, 0, &(struct braid_options){.tag = i}, NULL), 0);
}

static void wait_any__what_ends_first(void **state)
{
    size_t index = 77;

    (void)state;
    for (uint32_t i = 0; i < 5; i++)
        receive(comm, i);
    SAYS(-ETIMEDOUT, "running", braid_wait_any(ops, 5, &index, 0));
    assert_int_equal(index, 5);
    assert_int_equal(braid_test_any(ops, 5, &index), 0);
    assert_int_equal(index, 5);
    send_to(comm, 3);
    assert_int_equal(braid_wait_any(ops, 5, &index, -1), 0);
    assert_int_equal(index, 3);
    assert_null(ops[3]);
    assert_int_equal(words[3], 4);
    send_to(comm, 1);
    assert_int_equal(braid_test_any(ops, 5, &index), 0);
    assert_int_equal(index, 1);
    for (uint32_t i = 0; i < 5; i += 2)
        send_to(comm, i);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(braid_wait_any(ops, 5, &index, -1), 0);
        assert_true(index < 5 && index % 2 == 0);
    }
    assert_int_equal(braid_wait_any(ops, 5, &index, -1), 0); /* there is nothing left */
    assert_int_equal(index, 5);
    assert_int_equal(braid_wait_any(NULL, 0, &index, -1), 0);
    assert_int_equal(index, 0);
}

static void wait_any__persistent_ones_stay(void **state)
{
    struct braid_op *persistent[2];
    size_t index;

    (void)state;
    assert_int_equal(braid_barrier_init(comm, NULL, &persistent[0]), 0);
    assert_int_equal(braid_allreduce_init(comm, in, out, 8, I32, SUM, NULL, &persistent[1]), 0);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(braid_wait_any(persistent, 2, &index, -1), 0);
        assert_int_equal(index, 2); /* none has been started */
        assert_int_equal(braid_start(persistent[1]), 0);
        assert_int_equal(braid_wait_any(persistent, 2, &index, -1), 0);
        assert_int_equal(index, 1);
        assert_int_equal(braid_start(persistent[0]), 0);
        assert_int_equal(braid_start(persistent[1]), 0);
        assert_int_equal(braid_wait_all(persistent, 2, -1), 0);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(braid_op_free(persistent[i]), 0);
}

static void wait_any__arguments(void **state)
{
    struct braid_op *two[2] = {NULL, NULL}, *used;
    size_t index = 0;

    (void)state;
    receive(comm, 0);
    two[0] = ops[0];
    used = ops[0];
    SAYS(-EINVAL, "braid_wait_any|index", braid_wait_any(two, 2, NULL, -1));
    SAYS(-EINVAL, "braid_test_any|array", braid_test_any(NULL, 2, &index));
    SAYS(-EINVAL, "braid_wait_all|array", braid_wait_all(NULL, 2, -1));
    two[1] = (struct braid_op *)(uintptr_t)12345;
    SAYS(-EINVAL, "entry 1", braid_wait_any(two, 2, &index, -1));
    assert_int_equal(index, 2);
    SAYS(-EINVAL, "entry 1", braid_test_any(two, 2, &index));
    SAYS(-EINVAL, "entry 1", braid_wait_all(two, 2, -1));
    assert_non_null(two[0]); /* it has waited for none */
    send_to(comm, 0);
    assert_int_equal(braid_wait_all(two, 1, -1), 0);
    two[0] = used;
    SAYS(-EINVAL, "entry 0|not there any more", braid_wait_any(two, 1, &index, -1));
}

static void wait_all__says_which_failed(void **state)
{
    const struct braid_options quantum = {.algorithm = "quantum"};
    struct braid_op *four[4] = {NULL};

    (void)state;
    assert_int_equal(braid_barrier(comm, NULL, &four[0]), 0);
    assert_int_equal(braid_allreduce(comm, in, out, 8, I32, SUM, &quantum, &four[2]), 0);
    assert_int_equal(braid_allreduce(comm, in, out, 8, I32, SUM, NULL, &four[3]), 0);
    SAYS(-EINVAL, "entry 2|quantum", braid_wait_all(four, 4, -1));
    for (int i = 0; i < 4; i++)
        assert_null(four[i]);
    assert_int_equal(braid_wait_all(four, 4, -1), 0);
}

static void wait_all__leaves_what_still_runs(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++)
        receive(comm, i);
    send_to(comm, 1);
    send_to(comm, 3);
    SAYS(-ETIMEDOUT, "2 of 4", braid_wait_all(ops, 4, 10));
    assert_true(ops[0] && !ops[1] && ops[2] && !ops[3]);
    send_to(comm, 0);
    send_to(comm, 2);
    assert_int_equal(braid_wait_all(ops, 4, -1), 0);
    assert_true(!ops[0] && !ops[2]);
}

/* ---- another thread ends them ---------------------------------------------------------------- */

static struct braid_comm *comms[2];

static uint32_t order_of(uint32_t i)
{
    return i * 1871 % MANY; /* a prime that does not divide MANY */
}

static void *send_all(void *unused)
{
    for (uint32_t i = 0; i < MANY; i++)
        send_to(comms[order_of(i) % 2], order_of(i));
    return unused;
}

/* Of both communicators by turns. */
static void begin(struct braid_comm *a, struct braid_comm *b, pthread_t *thread)
{
    comms[0] = a;
    comms[1] = b;
    memset(words, 0, sizeof words);
    for (uint32_t i = 0; i < MANY; i++)
        receive(comms[i % 2], i);
    assert_int_equal(pthread_create(thread, NULL, send_all, NULL), 0);
}

static void end(pthread_t thread)
{
    assert_int_equal(pthread_join(thread, NULL), 0);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_null(ops[i]);
        assert_int_equal(words[i], i + 1);
    }
}

static void wait_any_for_each(struct braid_comm *a, struct braid_comm *b)
{
    pthread_t thread;

    begin(a, b, &thread);
    for (int i = 0; i < MANY; i++) {
        size_t index = MANY;

        assert_int_equal(braid_wait_any(ops, MANY, &index, -1), 0);
        assert_true(index < MANY);
    }
    end(thread);
}

static void wait_any__thousands(void **state)
{
    struct braid_comm *part;

    (void)state;
    assert_int_equal(braid_comm_split(comm, 0, 0, &part), 0);
    wait_any_for_each(comm, part);
}

static void wait_any__of_two_jobs(void **state)
{
    struct braid_comm *other;

    (void)state;
    assert_int_equal(braid_init(&(struct braid_config){.size = 1}, &other), 0);
    wait_any_for_each(comm, other);
    assert_int_equal(braid_finalize(other), 0);
}

static void wait_all__thousands_of_two_jobs(void **state)
{
    struct braid_comm *other;
    pthread_t thread;

    (void)state;
    assert_int_equal(braid_init(&(struct braid_config){.size = 1}, &other), 0);
    begin(comm, other, &thread);
    assert_int_equal(braid_wait_all(ops, MANY, -1), 0);
    end(thread);
    assert_int_equal(braid_finalize(other), 0);
}

/* ---- the descriptor -------------------------------------------------------------------------- */

static bool readable(int fd, int timeout_ms)
{
    return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, timeout_ms) == 1;
}

static void drain(int fd)
{
    uint64_t count;

    assert_int_equal(read(fd, &count, sizeof count), sizeof count);
}

static void fd__is_one_of_the_context(void **state)
{
    struct braid_comm *part;
    int fd = braid_comm_fd(comm), done = 0;

    (void)state;
    assert_true(fd >= 0);
    assert_true(readable(fd, 0)); /* for what has ended before */
    drain(fd);
    assert_false(readable(fd, 0));
    assert_int_equal(braid_comm_split(comm, 0, 0, &part), 0);
    assert_int_equal(braid_comm_fd(part), fd);
    receive(part, 0);
    while (readable(fd, 0))
        drain(fd);
    send_to(part, 0);
    assert_true(readable(fd, 60000));
    while (!done)
        assert_int_equal(braid_test(ops[0], &done), 0);
    assert_int_equal(braid_finalize(comm), 0);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    comm = NULL;
    SAYS(-EINVAL, "braid_comm_fd", braid_comm_fd(NULL));
}

/* Sleeps whenever nothing is to be found: an end that is missed is slept through. */
static void fd__no_end_is_missed(void **state)
{
    int fd = braid_comm_fd(comm), ended = 0;
    pthread_t thread;
    size_t index;

    (void)state;
    begin(comm, comm, &thread);
    while (ended < MANY) {
        assert_true(readable(fd, 60000));
        drain(fd);
        for (;; ended++) {
            assert_int_equal(braid_test_any(ops, MANY, &index), 0);
            if (index == MANY)
                break;
        }
    }
    end(thread);
}

int main(void)
{
#define EACH(name) cmocka_unit_test_setup_teardown(name, join, leave)
    const struct CMUnitTest tests[] = {
        EACH(wait_any__what_ends_first),
        EACH(wait_any__persistent_ones_stay),
        EACH(wait_any__arguments),
        EACH(wait_all__says_which_failed),
        EACH(wait_all__leaves_what_still_runs),
        EACH(wait_any__thousands),
        EACH(wait_any__of_two_jobs),
        EACH(wait_all__thousands_of_two_jobs),
        EACH(fd__is_one_of_the_context),
        EACH(fd__no_end_is_missed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
