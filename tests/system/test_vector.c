/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives with blocks of different sizes between real processes: what test_matrix.c does not
 * ask, which is what happens to wrong arguments, and that one large block uses all rails. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/system/ranks.h"

#define I32 BRAID_INT32

static int arguments(struct braid_comm *comm, void *context)
{
    const size_t counts[] = {2, 2, 2}, other[] = {2, 1, 2}, close[] = {0, 1, 4},
                 apart[] = {0, 3, 6};
    int32_t in[9] = {0}, out[9];

    (void)context;
    SAYS(-EINVAL, "block 1 of recv|overlaps",
         braid_alltoallv(comm, in, counts, NULL, out, counts, close, I32, NULL, NULL));
    SAYS(-EINVAL, "block 1 of recv|overlaps",
         braid_allgatherv(comm, in, 2, out, counts, close, I32, NULL, NULL));
    SAYS(-EINVAL, "in place|block 1",
         braid_alltoallv(comm, in, counts, apart, in, other, apart, I32, NULL, NULL));
    SAYS(-EINVAL, "in place|block 1",
         braid_alltoallv(comm, in, counts, apart, in, counts, NULL, I32, NULL, NULL));
    /* what is read may overlap: the same two elements for every rank */
    RETURNS(0, braid_alltoallv(comm, in, counts, close, out, counts, apart, I32, NULL, NULL));
    return 0;
}

static void vector__arguments(void **state)
{
    (void)state;
    ranks_run(&(struct ranks){.size = 3, .backend = "shm"}, arguments, NULL);
}

/* Rank 0 sends more to rank 1 than this one expects. */
static int disagrees(struct braid_comm *comm, void *context)
{
    int rank = braid_rank(comm), rc;
    size_t sent[] = {1, rank ? 1 : 1000, 1}, got[] = {1, 1, 1};
    int32_t in[1002] = {0}, out[3];

    (void)context;
    rc = braid_alltoallv(comm, in, sent, NULL, out, got, NULL, I32, NULL, NULL);
    if (rank == 1) /* the others may have ended before */
        CHECK(rc == -EPROTO && says_all(braid_last_error(), "rank 0|rank 1|4000 bytes|receives 4"),
              "%d", rc);
    return 0;
}

static void vector__ranks_disagree(void **state)
{
    (void)state;
    ranks_run(&(struct ranks){.size = 3, .backend = "tcp", .devices = "127.0.0.1"}, disagrees,
              NULL);
}

#define LARGE (8u << 20)

/* Only rank 0 has something to say. */
static int large(struct braid_comm *comm, void *context)
{
    int rank = braid_rank(comm);
    const size_t counts[] = {LARGE, 0, 0};
    uint8_t *memory = malloc(LARGE);
    struct braid_rail_stats rails[8] = {{0}};
    int n, sent = 0;

    (void)context;
    CHECK(memory, "no memory");
    memset(memory, rank ? 0 : 7, LARGE);
    RETURNS(0, braid_allgatherv(comm, memory, counts[rank], memory, counts, NULL, BRAID_UINT8, NULL,
                                NULL));
    for (size_t i = 0; i < LARGE; i++)
        CHECK(memory[i] == 7, "byte %zu is %d", i, memory[i]);
    n = braid_rail_stats(comm, rails, 8);
    CHECK(n == 4, "%d rails", n);
    for (int i = 0; i < n; i++)
        sent += rails[i].tx_bytes > LARGE / 16;
    CHECK(sent == (rank ? 0 : 4), "much was sent on %d rails", sent);
    free(memory);
    return 0;
}

static void vector__large_block_over_all_rails(void **state)
{
    (void)state;
    ranks_run(&(struct ranks){.size = 3, .backend = "tcp", .devices = "127.0.0.1,127.0.0.2"}, large,
              NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vector__arguments),
        cmocka_unit_test(vector__ranks_disagree),
        cmocka_unit_test(vector__large_block_over_all_rails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
