/* SPDX-License-Identifier: BSD-3-Clause */
/* braid_group_start() and braid_group_end() between real processes. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/system/ranks.h"

#define COUNT 40000 /* large: a blocking send waits for its receive */

/* Messages between all pairs, every rank with itself too, in an order in which blocking calls would
 * wait for each other; with collectives of two communicators in between. */
static int all_pairs(struct braid_comm *comm, void *context)
{
    int rank = braid_rank(comm), size = braid_size(comm);
    int32_t *out = malloc((size_t)size * COUNT * sizeof *out),
            *in = calloc((size_t)size * COUNT, sizeof *in), sum[2] = {rank, 0}, first = -1;
    struct braid_comm *other;
    struct braid_op *op;

    (void)context;
    CHECK(out && in, "no memory");
    RETURNS(0, braid_comm_split(comm, 0, -rank, &other));
    for (int r = 0; r < size; r++)
        for (int i = 0; i < COUNT; i++)
            out[r * COUNT + i] = rank * 1000 + r + i;
    RETURNS(0, braid_group_start());
    for (int r = 0; r < size; r++)
        RETURNS(0, braid_send(comm, out + r * COUNT, COUNT * sizeof *out, r, NULL, NULL));
    RETURNS(0, braid_allreduce(comm, &sum[0], &sum[1], 1, BRAID_INT32, BRAID_SUM, NULL, NULL));
    RETURNS(0, braid_broadcast(other, &rank, &first, 1, BRAID_INT32, 0, NULL, &op));
    for (int r = size; r-- > 0;)
        RETURNS(0, braid_recv(comm, in + r * COUNT, COUNT * sizeof *in, r, NULL, NULL));
    RETURNS(0, braid_group_end());
    RETURNS(0, braid_wait(op, -1));
    CHECK(sum[1] == size * (size - 1) / 2, "%d", sum[1]);
    CHECK(first == size - 1, "%d", first);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < COUNT; i++)
            CHECK(in[r * COUNT + i] == r * 1000 + rank + i, "from %d, %d: %d", r, i,
                  in[r * COUNT + i]);
    free(in);
    free(out);
    return braid_finalize(other);
}

static void group__all_pairs(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 4, all_pairs);
}

/* A lost job ends all operations of the group, and its end says why. */
static int aborted(struct braid_comm *comm, void *context)
{
    int32_t numbers[3] = {0};

    (void)context;
    if (braid_rank(comm))
        return braid_comm_abort(comm, "no more") != 0;
    RETURNS(0, braid_group_start());
    for (int i = 0; i < 3; i++)
        RETURNS(0, braid_recv(comm, &numbers[i], 4, 1, NULL, NULL));
    SAYS(-ECANCELED, "rank 1|no more", braid_group_end());
    return 0;
}

static void group__aborted(void **state)
{
    (void)state;
    ranks_run(&(struct ranks){.size = 2, .backend = "shm"}, aborted, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(group__all_pairs),
        cmocka_unit_test(group__aborted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
