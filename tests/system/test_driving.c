/* SPDX-License-Identifier: BSD-3-Clause */
/* Whatever a program calls, and however it waits: somebody turns the wheel for what is under way. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

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
        CHECK(ranks_now_ms() - start < 40000, "nobody drives");
    RETURNS(0, rc);
    return 0;
}

static void driving__only_looks(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 2, only_looks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(driving__only_looks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
