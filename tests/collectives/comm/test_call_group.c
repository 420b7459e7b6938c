/* SPDX-License-Identifier: BSD-3-Clause */
/* braid_group_start() and braid_group_end() by one rank; more ranks are in
 * tests/system/test_call_group.c. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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
        cmocka_unit_test(group__records), cmocka_unit_test(group__nested),
        cmocka_unit_test(group__many),    cmocka_unit_test(group__done),
        cmocka_unit_test(group__errors),  cmocka_unit_test(group__empty),
    };

    return cmocka_run_group_tests(tests, join, leave);
}
