/* SPDX-License-Identifier: BSD-3-Clause */
/* A BCube of real processes over loopback: who is linked with whom, on which level, and that the
 * links carry. As `test rank` it is one rank of a job whose environment is set
 * (test_bcube_join.sh). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bcube/address.h"
#include "tests/system/ranks.h"

#define RAILS_MOST 64

/* Those that are no alternate routes over others. */
static int direct_rails(struct braid_comm *comm, struct braid_rail_stats *rails)
{
    int n = braid_rail_stats(comm, rails, RAILS_MOST), kept = 0;

    for (int i = 0; i < n && i < RAILS_MOST; i++)
        if (strncmp(rails[i].device, "relay", 5) != 0)
            rails[kept++] = rails[i];
    return kept;
}

/* One rail to each neighbour that there is, on the level and the device that the cube says. */
static int check_rails(struct braid_comm *comm, const struct br_bcube *cube)
{
    struct braid_rail_stats rails[RAILS_MOST] = {0};
    uint32_t me = (uint32_t)braid_rank(comm);
    int n = direct_rails(comm, rails), expected = 0;

    for (uint32_t r = 0; r < (uint32_t)braid_size(comm); r++)
        expected += br_bcube_level(cube, me, r) >= 0;
    CHECK(n == expected, "%d rails, not %d", n, expected);
    for (int i = 0; i < n; i++) {
        CHECK(rails[i].level == br_bcube_level(cube, me, (uint32_t)rails[i].peer),
              "rank %d on level %d", rails[i].peer, rails[i].level);
        CHECK(rails[i].up, "rank %d is not linked", rails[i].peer);
    }
    return 0;
}

/* To every rank and back at once, neighbour or not. */
static int swap_with_all(struct braid_comm *comm)
{
    static uint32_t to[RANKS_MOST][20000], from[RANKS_MOST][20000];
    struct braid_op *ops[2 * RANKS_MOST];
    int me = braid_rank(comm), n = 0;

    for (int r = 0; r < braid_size(comm); r++) {
        if (r == me)
            continue;
        for (uint32_t i = 0; i < 20000; i++)
            to[r][i] = (uint32_t)(me * RANKS_MOST + r) * 20000 + i;
        RETURNS(0, braid_send(comm, to[r], sizeof to[r], r, NULL, &ops[n++]));
        RETURNS(0, braid_recv(comm, from[r], sizeof from[r], r, NULL, &ops[n++]));
    }
    for (int i = 0; i < n; i++)
        RETURNS(0, braid_wait(ops[i], -1));
    for (int r = 0; r < braid_size(comm); r++)
        for (uint32_t i = 0; i < 20000 && r != me; i++)
            CHECK(from[r][i] == (uint32_t)(r * RANKS_MOST + me) * 20000 + i, "rank %d, word %u", r,
                  i);
    return 0;
}

struct job {
    const char *backend;
    struct br_bcube cube;
};

static int links(struct braid_comm *comm, void *context)
{
    struct braid_rail_stats rails[RAILS_MOST] = {0};
    const struct job *job = context;
    int n = direct_rails(comm, rails);
    char device[48];

    for (int i = 0; i < n; i++) {
        snprintf(device, sizeof device, "%s:127.%d.0.%d", job->backend, rails[i].level + 1,
                 braid_rank(comm) + 1);
        CHECK(!strcmp(rails[i].device, device), "level %d runs on %s", rails[i].level,
              rails[i].device);
    }
    return check_rails(comm, &job->cube) || swap_with_all(comm);
}

static void joins(const char *backend, const char *topology, int size)
{
    struct job job = {.backend = backend};

    assert_int_equal(br_bcube_parse(&job.cube, strchr(topology, ':') + 1), 0);
    ranks_run(&(struct ranks){.size = size,
                              .topology = topology,
                              .backend = backend,
                              .peer_timeout_ms = RANKS_PATIENCE},
              links, &job);
}

static void bcube__links_by_level(void **state)
{
    joins(*state, "bcube:2,2", 4);
    joins(*state, "bcube:3,2", 9);
    joins(*state, "bcube:2,3", 8);
}

static void bcube__hosts_are_missing(void **state)
{
    joins(*state, "bcube:3,2", 7);
    joins(*state, "bcube:4,1", 3);
}

/* Of those that it has never had to do with, too. */
static int check_peers(struct braid_comm *comm)
{
    struct braid_peer_stats peers[RAILS_MOST] = {0};
    int n = braid_peer_stats(comm, peers, RAILS_MOST);

    CHECK(n == braid_size(comm) - 1, "%d peers", n);
    for (int i = 0; i < n; i++)
        CHECK(peers[i].peer == i + (i >= braid_rank(comm)) && !peers[i].queued_bytes,
              "rank %d: %llu bytes", peers[i].peer, (unsigned long long)peers[i].queued_bytes);
    return 0;
}

/* Neighbours on every level: halving and doubling needs no other links. */
static int halving(struct braid_comm *comm, void *context)
{
    struct braid_options options = {.algorithm = "halving"};
    static float mine[10007], sum[10007];

    (void)context;
    for (int i = 0; i < 10007; i++)
        mine[i] = (float)(braid_rank(comm) + i % 13);
    RETURNS(0, braid_allreduce(comm, mine, sum, 10007, BRAID_FLOAT32, BRAID_SUM, &options, NULL));
    for (int i = 0; i < 10007; i++)
        CHECK(sum[i] == (float)(28 + 8 * (i % 13)), "element %d is %f", i, (double)sum[i]);
    return check_peers(comm);
}

static void bcube__halving_needs_neighbours_only(void **state)
{
    (void)state;
    ranks_run(&(struct ranks){.size = 8, .topology = "bcube:2,3"}, halving, NULL);
}

/* The process of one rank ends without a word; that is no fault of a NIC, and nobody waits for the
 * peer timeout. */
static int one_dies(struct braid_comm *comm, void *context)
{
    static float mine[100000], sum[100000];
    const int *victim = context;
    double start = ranks_now_ms();
    int rc = 0;

    for (int i = 0; !rc; i++) {
        if (braid_rank(comm) == *victim && i == 5)
            _exit(0);
        rc = braid_allreduce(comm, mine, sum, 100000, BRAID_FLOAT32, BRAID_SUM, NULL, NULL);
    }
    CHECK(rc == -ECONNRESET || rc == -ECANCELED, "got %d", rc);
    CHECK(ranks_now_ms() - start < RANKS_SOON, "noticed after %.0f ms", ranks_now_ms() - start);
    CHECK(strstr(braid_last_error(), "is lost"), "rank %d is not named", *victim);
    return 0;
}

static void bcube__killed_process(void **state)
{
    for (int victim = 0; victim < 9;
         victim += 4) /* the first connects to nobody, to the last nobody connects */
        ranks_run(&(struct ranks){.size = 9,
                                  .topology = "bcube:3,2",
                                  .backend = *state,
                                  .peer_timeout_ms = RANKS_PATIENCE},
                  one_dies, &victim);
}

/* Says which device each level runs over. */
static int be_rank(void)
{
    struct braid_rail_stats rails[RAILS_MOST] = {0};
    const char *topology = getenv("BRAID_TOPOLOGY");
    struct br_bcube cube;
    struct braid_comm *comm;
    int n, rc;

    if (!topology || br_bcube_parse(&cube, topology + strcspn(topology, ":") + 1))
        return 2;
    if (braid_init(NULL, &comm)) {
        printf("error: %s\n", braid_last_error());
        return 1;
    }
    n = direct_rails(comm, rails);
    for (int i = 0; i < n; i++)
        printf("level %d: %s\n", rails[i].level, rails[i].device);
    rc = check_rails(comm, &cube) || swap_with_all(comm);
    braid_finalize(comm);
    return rc;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(bcube__links_by_level, (void *)"tcp"),
        cmocka_unit_test_prestate(bcube__links_by_level, (void *)"udp"),
        cmocka_unit_test_prestate(bcube__hosts_are_missing, (void *)"tcp"),
        cmocka_unit_test_prestate(bcube__hosts_are_missing, (void *)"udp"),
        cmocka_unit_test(bcube__halving_needs_neighbours_only),
        cmocka_unit_test_prestate(bcube__killed_process, (void *)"tcp"),
        cmocka_unit_test_prestate(bcube__killed_process, (void *)"udp"),
    };

    if (argc == 2 && !strcmp(argv[1], "rank"))
        return be_rank();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
