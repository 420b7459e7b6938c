/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators made by their members alone (braid_comm_group), between real processes. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/says.h"
#include "tests/system/ranks.h"

#define I32 BRAID_INT32
#define SUM BRAID_SUM

/* Is group the communicator of these ranks of comm, in this order? */
static int is_of(struct braid_comm *comm, struct braid_comm *group, const int *ranks, int n)
{
    int32_t own = braid_rank(comm), all[RANKS_MOST], sum = 0;

    CHECK(braid_size(group) == n, "%d ranks", braid_size(group));
    CHECK(ranks[braid_rank(group)] == own, "rank %d", braid_rank(group));
    RETURNS(0, braid_allgather(group, &own, all, 1, I32, NULL, NULL));
    for (int i = 0; i < n; i++)
        CHECK(all[i] == ranks[i], "rank %d is %d", i, (int)all[i]);
    own = 1;
    RETURNS(0, braid_allreduce(group, &own, &sum, 1, I32, SUM, NULL, NULL));
    CHECK(sum == n, "the sum is %d", (int)sum);
    return 0;
}

/* ---- who is in it ---------------------------------------------------------------------------- */

/* The odd ranks of 5 or more, backwards, while the even ones are in a collective of their own and
 * never call; groups of the group and of a split; of one rank alone; of all. */
static int odd_ones(struct braid_comm *comm, void *context)
{
    int rank = braid_rank(comm), size = braid_size(comm), odd[RANKS_MOST], all[RANKS_MOST], n = 0;
    struct braid_comm *group, *inner, *half;

    (void)context;
    for (int r = size - 1; r >= 0; r--) {
        all[r] = r;
        if (r % 2)
            odd[n++] = r;
    }
    RETURNS(0, braid_comm_split(comm, rank % 2, 0, &half));
    if (rank % 2) {
        const int twice[] = {n - 1, 0};

        RETURNS(0, braid_comm_group(comm, odd, n, 7, &group));
        if (is_of(comm, group, odd, n))
            return 1;
        if (braid_rank(group) == 0 || braid_rank(group) == n - 1) {
            RETURNS(0, braid_comm_group(group, twice, 2, 7, &inner));
            if (is_of(group, inner, twice, 2))
                return 1;
            RETURNS(0, braid_finalize(inner));
        }
        RETURNS(0, braid_barrier(group, NULL, NULL));
        RETURNS(0, braid_finalize(group));
    } else {
        const int mine = braid_rank(half);

        RETURNS(0, braid_barrier(half, NULL, NULL));
        RETURNS(0, braid_comm_group(half, &mine, 1, 0, &group)); /* all at once, each its own */
        if (is_of(half, group, &mine, 1))
            return 1;
        RETURNS(0, braid_barrier(half, NULL, NULL));
    }
    RETURNS(0, braid_comm_group(comm, all, size, BRAID_GROUP_TAGS - 1, &group));
    return is_of(comm, group, all, size) || braid_finalize(group);
}

static void group__of_some_ranks(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 6, odd_ones);
    ranks_run(&(struct ranks){.size = 9,
                              .backend = "tcp",
                              .topology = "bcube:3,2",
                              .devices = "127.0.0.1,127.0.0.2",
                              .timeout_ms = RANKS_PATIENCE},
              odd_ones, NULL);
}

/* ---- several at once ------------------------------------------------------------------------- */

struct maker {
    struct braid_comm *comm;
    int ranks[RANKS_MOST], n, times, rc;
    uint32_t tag;
    bool absent; /* we are not in it */
};

static int make_often(struct maker *m)
{
    for (int i = 0; i < m->times; i++) {
        struct braid_comm *group;

        RETURNS(0, m->tag ? braid_comm_group(m->comm, m->ranks, m->n, m->tag, &group)
                          : braid_comm_split(m->comm, 0, 0, &group));
        if (is_of(m->comm, group, m->ranks, m->n))
            return 1;
        RETURNS(0, braid_finalize(group));
    }
    return 0;
}

static void *maker(void *argument)
{
    struct maker *m = argument;

    if (!m->absent)
        m->rc = make_often(m);
    return NULL;
}

/* Groups of all pairs, of all, and splits, each by a thread of its own, on all ranks in other
 * orders. */
static int at_once(struct braid_comm *comm, void *context)
{
    enum { RANKS = 3, MAKERS = RANKS + 2 };
    int rank = braid_rank(comm);
    struct maker makers[MAKERS] = {0};
    pthread_t threads[MAKERS];

    (void)context;
    for (int i = 0; i < MAKERS; i++) {
        struct maker *m = &makers[i];

        *m = (struct maker){.comm = comm, .times = 30, .tag = (uint32_t)(i + 1)};
        for (int r = 0; r < RANKS; r++)
            if (i >= RANKS || r != i)
                m->ranks[m->n++] = r;
        if (i == MAKERS - 1) {
            m->tag = 0;
            RETURNS(0, braid_comm_split(comm, 0, 0, &m->comm));
        }
    }
    for (int k = 0; k < MAKERS; k++) {
        int i = (k + rank) % MAKERS;

        makers[i].absent = i == rank;
        pthread_create(&threads[i], NULL, maker, &makers[i]);
    }
    for (int i = 0; i < MAKERS; i++) {
        pthread_join(threads[i], NULL);
        CHECK(!makers[i].rc, "thread %d", i);
    }
    return 0;
}

static void group__by_several_threads(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_STREAMS, 3, at_once);
}

/* ---- what is wrong --------------------------------------------------------------------------- */

static int wrong_arguments(struct braid_comm *comm, void *context)
{
    const int both[] = {0, 1}, away[] = {braid_rank(comm), 2}, twice[] = {0, 1, 1},
              other[] = {1 - braid_rank(comm)},
              crossed[] = {braid_rank(comm), 1 - braid_rank(comm)};
    struct braid_comm *group = comm;

    (void)context;
    SAYS(-EINVAL, "braid_comm_group|communicator", braid_comm_group(NULL, both, 2, 0, &group));
    SAYS(-EINVAL, "nowhere", braid_comm_group(comm, both, 2, 0, NULL));
    SAYS(-EINVAL, "0 ranks", braid_comm_group(comm, both, 0, 0, &group));
    CHECK(!group, "a communicator came out");
    SAYS(-EINVAL, "3 ranks|1 to 2", braid_comm_group(comm, twice, 3, 0, &group));
    SAYS(-EINVAL, "ranks", braid_comm_group(comm, NULL, 2, 0, &group));
    SAYS(-EINVAL, "no rank 2", braid_comm_group(comm, away, 2, 0, &group));
    SAYS(-EINVAL, "rank 1|twice", braid_comm_group(comm, twice + 1, 2, 0, &group));
    SAYS(-EINVAL, "not among", braid_comm_group(comm, other, 1, 0, &group));
    SAYS(-EINVAL, "tag|4194304", braid_comm_group(comm, both, 2, BRAID_GROUP_TAGS, &group));
    /* each names itself first: both find out, and nothing is broken */
    SAYS(-EPROTO, "braid_comm_group|tag 5|rank 1|rank 0",
         braid_comm_group(comm, crossed, 2, 5, &group));
    CHECK(!group, "a communicator came out");
    RETURNS(0, braid_comm_group(comm, both, 2, 5, &group));
    return is_of(comm, group, both, 2);
}

static void group__arguments(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_STREAMS, 2, wrong_arguments);
}

/* 254 groups; then none, on any member, and everything goes on. */
static int too_many(struct braid_comm *comm, void *context)
{
    const int both[] = {1, 0};
    struct braid_comm *last = NULL, *none;

    (void)context;
    for (int i = 0; i < 254; i++)
        RETURNS(0, braid_comm_group(comm, both, 2, 0, &last));
    SAYS(-ENOSPC, "all 254 numbers", braid_comm_group(comm, both, 2, 0, &none));
    CHECK(!none, "a communicator came out");
    RETURNS(0, braid_finalize(last));
    RETURNS(0, braid_comm_group(comm, both, 2, 0, &last));
    RETURNS(0, braid_comm_split(comm, 0, 0, &none)); /* has numbers of its own */
    return is_of(comm, last, both, 2);
}

static void group__too_many(void **state)
{
    (void)state;
    ranks_everywhere(1, 2, too_many);
}

/* Rank 2 never calls, or dies. */
static int without_one(struct braid_comm *comm, void *context)
{
    const int all[] = {0, 1, 2};
    bool dies = *(const bool *)context;
    struct braid_comm *group = comm;
    int rank = braid_rank(comm), rc;

    if (rank == 2 && dies)
        _exit(0);
    if (rank == 2) {
        ranks_await(0, 2);
        return 0;
    }
    rc = braid_comm_group(comm, all, 3, 9, &group);
    CHECK(rc == -ECANCELED || rc == (dies ? -ECONNRESET : -ETIMEDOUT), "got %d", rc);
    CHECK(!group, "a communicator came out");
    CHECK(says_all(braid_last_error(), "braid_comm_group|tag 9|rank 2"), "whom");
    ranks_tell(0);
    return 0;
}

static void group__a_member_does_not_come(void **state)
{
    bool dies = false;

    (void)state;
    /* an eighth of it is the time in which rank 0 tells rank 1, which may lack a processor */
    ranks_run(
        &(struct ranks){.size = 3, .backend = "tcp", .devices = "127.0.0.1", .timeout_ms = 4000},
        without_one, &dies);
    dies = true;
    ranks_run(
        &(struct ranks){
            .size = 3, .backend = "tcp", .devices = "127.0.0.1", .timeout_ms = RANKS_PATIENCE},
        without_one, &dies);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(group__of_some_ranks),
        cmocka_unit_test(group__by_several_threads),
        cmocka_unit_test(group__arguments),
        cmocka_unit_test(group__too_many),
        cmocka_unit_test(group__a_member_does_not_come),
    };

    if (argc == 2) /* only some */
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
