/* SPDX-License-Identifier: BSD-3-Clause */
/* braid_group_start() and braid_group_end() by one rank; more ranks are in
 * tests/system/test_call_group.c. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/collectives/comm/single_rank.h"

#define I32 BRAID_INT32

/* Nothing happens before the end, and everything has happened then. */
static void group__records(void **state)
{
    (void)state;
    memset(out, 0, sizeof out);
    assert_int_equal(braid_group_start(), 0);
    assert_int_equal(braid_recv(comm, out, 8, 0, NULL, NULL), 0);
    assert_int_equal(braid_send(comm, in, 8, 0, NULL, NULL), 0);
    assert_int_equal(braid_allreduce(comm, in + 2, out + 2, 2, I32, BRAID_SUM, NULL, NULL), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(out[i], 0);
    assert_int_equal(braid_group_end(), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(out[i], in[i]);
}

static void group__nested(void **state)
{
    (void)state;
    memset(out, 0, sizeof out);
    assert_int_equal(braid_group_start(), 0);
    assert_int_equal(braid_group_start(), 0);
    assert_int_equal(braid_allreduce(comm, in, out, 8, I32, BRAID_SUM, NULL, NULL), 0);
    assert_int_equal(braid_group_end(), 0);
    assert_int_equal(out[0], 0);
    assert_int_equal(braid_group_end(), 0);
    assert_memory_equal(in, out, sizeof in);
    SAYS(-EINVAL, "braid_group_end|no group", braid_group_end());
}

/* More calls than a group has room for at first; some with handles. */
static void group__many(void **state)
{
    static int32_t results[500];
    struct braid_op *ops[250];

    (void)state;
    assert_int_equal(braid_group_start(), 0);
    for (int i = 0; i < 500; i++)
        assert_int_equal(braid_allreduce(comm, &in[i % 8], &results[i], 1, I32, BRAID_SUM, NULL,
                                         i % 2 ? &ops[i / 2] : NULL),
                         0);
    SAYS(-EINVAL, "not been started", braid_wait(ops[0], -1));
    assert_int_equal(braid_group_end(), 0);
    for (int i = 0; i < 500; i += 2)
        assert_int_equal(results[i], in[i % 8]);
    for (int i = 0; i < 250; i++)
        assert_int_equal(braid_wait(ops[i], -1), 0);
    for (int i = 0; i < 500; i++)
        assert_int_equal(results[i], in[i % 8]);
}

static void count_done(void *context, int result)
{
    *(int *)context += result == 0;
}

/* A call with a function neither blocks nor has a handle. */
static void group__done(void **state)
{
    int count = 0;
    struct braid_options options = {.done = count_done, .context = &count};

    (void)state;
    assert_int_equal(braid_group_start(), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(braid_barrier(comm, &options, NULL), 0);
    assert_int_equal(count, 0);
    assert_int_equal(braid_group_end(), 0);
    assert_int_equal(braid_barrier(comm, NULL, NULL), 0);
    assert_int_equal(count, 3);
}

struct inner {
    int32_t results[100];
    int rc;
    atomic_int ends;
    struct braid_options then;
};

/* A `done` that opens a group of its own. */
static void open_inner(void *context, int result)
{
    struct inner *inner = context;

    inner->rc = result | braid_group_start();
    for (int i = 0; i < 100; i++)
        inner->rc |= braid_allreduce(comm, &in[i % 8], &inner->results[i], 1, I32, BRAID_SUM,
                                     &inner->then, NULL);
    inner->rc |= braid_group_end();
}

static void count_ends(void *context, int result)
{
    struct inner *inner = context;

    inner->rc |= result;
    atomic_fetch_add(&inner->ends, 1);
}

static void await_ends(struct inner *inner)
{
    while (atomic_load(&inner->ends) < 100)
        assert_int_equal(braid_barrier(comm, NULL, NULL), 0);
    assert_int_equal(inner->rc, 0);
    for (int i = 0; i < 100; i++)
        assert_int_equal(inner->results[i], in[i % 8]);
}

/* It is called while the thread waits at the end of a group, whose calls are not submitted again.
 */
static void group__done_of_a_group_opens_another(void **state)
{
    struct inner inner = {.then = {.done = count_ends, .context = &inner}};
    struct braid_options options = {.done = open_inner, .context = &inner};
    struct braid_stats before = {0}, after = {0};
    int32_t results[100];

    (void)state;
    assert_int_equal(braid_stats(comm, &before), 0);
    assert_int_equal(braid_group_start(), 0);
    assert_int_equal(braid_barrier(comm, &options, NULL), 0);
    for (int i = 0; i < 100; i++)
        assert_int_equal(
            braid_allreduce(comm, &in[i % 8], &results[i], 1, I32, BRAID_SUM, NULL, NULL), 0);
    assert_int_equal(braid_group_end(), 0);
    for (int i = 0; i < 100; i++)
        assert_int_equal(results[i], in[i % 8]);
    await_ends(&inner);
    assert_int_equal(braid_group_start(), 0);
    assert_int_equal(braid_group_end(), 0);
    assert_int_equal(braid_stats(comm, &after), 0);
    assert_true(after.operations - before.operations >= 201);
    assert_int_equal(after.outstanding, 0);
}

/* What a `done` submits is not recorded in a group that the thread which calls it has open. */
static void group__done_in_an_open_group(void **state)
{
    struct inner inner = {.then = {.done = count_ends, .context = &inner}};
    struct braid_options options = {.done = open_inner, .context = &inner};
    struct braid_op *op;
    int ended;

    (void)state;
    assert_int_equal(braid_barrier_init(comm, &options, &op), 0);
    assert_int_equal(braid_start(op), 0);
    assert_int_equal(braid_group_start(), 0);
    for (ended = 0; !ended || atomic_load(&inner.ends) < 100;)
        if (!ended)
            assert_int_equal(braid_test(op, &ended), 0);
    assert_int_equal(braid_group_end(), 0);
    await_ends(&inner);
    assert_int_equal(braid_op_free(op), 0);
}

/* Recorded is not running: who waits for it in an open group would be told that it has ended. */
static void group__is_not_waited_for_while_open(void **state)
{
    struct braid_op *op;
    size_t index;

    (void)state;
    assert_int_equal(braid_group_start(), 0);
    assert_int_equal(braid_barrier(comm, NULL, &op), 0);
    SAYS(-EINVAL, "braid_wait_all|group", braid_wait_all(&op, 1, -1));
    SAYS(-EINVAL, "braid_wait_any|group", braid_wait_any(&op, 1, &index, -1));
    SAYS(-EINVAL, "braid_test_any|group", braid_test_any(&op, 1, &index));
    assert_int_equal(braid_group_end(), 0);
    assert_int_equal(braid_wait(op, -1), 0);
}

static void group__of_a_fork(void **state)
{
    int status;
    pid_t child;

    (void)state;
    assert_int_equal(braid_group_start(), 0);
    assert_int_equal(braid_barrier(comm, NULL, NULL), 0);
    child = fork();
    if (child == 0)
        _exit(braid_group_end() == -EPERM ? 0 : 1);
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(braid_group_end(), 0);
}

/* Wrong arguments are refused at once; what is found when it runs comes at the end, the first one
 * first; the others go on. */
static void group__errors(void **state)
{
    struct braid_options quantum = {.algorithm = "quantum"}, other = {.algorithm = "astrology"};
    struct braid_op *op = (struct braid_op *)in, *freed;

    (void)state;
    memset(out, 0, sizeof out);
    assert_int_equal(braid_group_start(), 0);
    SAYS(-EINVAL, "recv|NULL", braid_allreduce(comm, in, NULL, 8, I32, BRAID_SUM, NULL, &op));
    assert_null(op);
    assert_int_equal(braid_barrier(comm, &quantum, NULL), 0);
    assert_int_equal(braid_barrier(comm, &other, NULL), 0);
    assert_int_equal(braid_allreduce(comm, in, out, 8, I32, BRAID_SUM, NULL, NULL), 0);
    SAYS(-EINVAL, "braid_comm_split|braid_group_end",
         braid_comm_split(comm, 0, 0, &(struct braid_comm *){NULL}));
    SAYS(-EINVAL, "braid_finalize|braid_group_end", braid_finalize(comm));
    SAYS(-EINVAL, "braid_init|braid_group_end", braid_init(NULL, &(struct braid_comm *){NULL}));
    SAYS(-EINVAL, "quantum", braid_group_end());
    assert_memory_equal(in, out, sizeof in);

    assert_int_equal(braid_group_start(), 0);
    assert_int_equal(braid_barrier(comm, NULL, &freed), 0);
    assert_int_equal(braid_op_free(freed), 0);
    SAYS(-EINVAL, "1 of 1|gone", braid_group_end());
    assert_int_equal(braid_barrier(comm, NULL, NULL), 0);
}

static void group__empty(void **state)
{
    (void)state;
    assert_int_equal(braid_group_start(), 0);
    assert_int_equal(braid_group_end(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(group__records),
        cmocka_unit_test(group__nested),
        cmocka_unit_test(group__many),
        cmocka_unit_test(group__done),
        cmocka_unit_test(group__errors),
        cmocka_unit_test(group__empty),
        cmocka_unit_test(group__done_of_a_group_opens_another),
        cmocka_unit_test(group__done_in_an_open_group),
        cmocka_unit_test(group__is_not_waited_for_while_open),
        cmocka_unit_test(group__of_a_fork),
    };

    return cmocka_run_group_tests(tests, join, leave);
}
