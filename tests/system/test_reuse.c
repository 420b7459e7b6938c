/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory is the program's again when a call has ended: what it writes there at once never reaches
 * another rank, whoever reads it and when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/system/ranks.h"

#define CALLS 6          /* each of another length */
#define MOST  (2u << 20) /* bytes of a block */
#define SIZE  2

/* Element i of what a rank gives to call k. */
static int32_t given(int rank, int k, size_t i)
{
    return (int32_t)((size_t)rank * 1000003 + (size_t)k * 7919 + i);
}

static void fill(int32_t *at, size_t n, int rank, int k)
{
    for (size_t i = 0; i < n; i++)
        at[i] = given(rank, k, i);
}

/* Did `n` elements from number `first` on come from that rank? */
static bool came(const int32_t *at, size_t n, int rank, int k, size_t first)
{
    for (size_t i = 0; i < n; i++)
        if (at[i] != given(rank, k, first + i))
            return false;
    return true;
}

/* Blocks from 64 KiB on, at places that are no beginnings of pages. */
static int calls(struct braid_comm *comm, void *context)
{
    int32_t *memory = malloc(2 * SIZE * (size_t)MOST + 64), *in = memory + 1,
            *out = memory + SIZE * MOST / sizeof *memory + 5;
    int rank = braid_rank(comm), other = 1 - rank;

    (void)context;
    CHECK(memory, "no memory");
    for (int k = 0; k < CALLS; k++) {
        size_t n = (MOST >> k % 6) / sizeof *in - (size_t)(k % 5);
        int root = k / 2 % 2;

        fill(in, SIZE * n, rank, k);
        RETURNS(0, braid_alltoall(comm, in, out, n, BRAID_INT32, NULL, NULL));
        memset(in, 0xee, SIZE * n * sizeof *in);
        CHECK(came(out + (size_t)other * n, n, other, k, (size_t)rank * n), "alltoall %d", k);
        fill(in, n, root, k);
        if (rank != root)
            memset(in, 0, n * sizeof *in);
        RETURNS(0, braid_broadcast(comm, in, in, n, BRAID_INT32, root, NULL, NULL));
        CHECK(came(in, n, root, k, 0), "broadcast %d", k);
        memset(in, 0xee, n * sizeof *in);
        fill(in, n, rank, k);
        if (rank == root)
            RETURNS(0, braid_send(comm, in, n * sizeof *in, other, NULL, NULL));
        else
            RETURNS(0, braid_recv(comm, out, n * sizeof *out, other, NULL, NULL));
        memset(in, 0xee, n * sizeof *in);
        CHECK(rank == root || came(out, n, other, k, 0), "message %d", k);
    }
    free(memory);
    return 0;
}

static void reuse__written_at_once(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, SIZE, calls);
}

/* Also where nothing is copied from the first frame on. */
static void reuse__written_at_once_though_nothing_is_copied(void **state)
{
    (void)state;
    setenv("BRAID_TCP_ZERO_COPY", "on", 1);
    ranks_everywhere(RANKS_STREAMS, SIZE, calls);
    unsetenv("BRAID_TCP_ZERO_COPY");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reuse__written_at_once),
        cmocka_unit_test(reuse__written_at_once_though_nothing_is_copied),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
