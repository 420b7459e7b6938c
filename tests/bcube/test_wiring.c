/* SPDX-License-Identifier: BSD-3-Clause */
/* Every way to wire a cube wrongly, and the words for it. */
#include "bcube/wiring.h"
#include "tests/says.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HOSTS 64
#define NICS  5
#define NONE  -1

/* A testbed: which network each cable leads to. NICs on one network hear each other. */
struct bed {
    struct br_wiring wiring;
    uint32_t n_hosts;
    int network[HOSTS][NICS];
};

static int switch_of(uint32_t level, uint32_t index)
{
    return (int)(level * 1000 + index);
}

/* A healthy one of `hosts` hosts; NIC i is eth<i>, meant for level i when `ordered`. */
static void build(struct bed *bed, int64_t n, int64_t k, uint32_t hosts, bool ordered)
{
    struct br_bcube cube;

    assert_int_equal(br_bcube_init(&cube, n, k), 0);
    assert_int_equal(br_wiring_init(&bed->wiring, &cube, hosts), 0);
    bed->n_hosts = hosts;
    for (uint32_t h = 0; h < hosts; h++) {
        struct br_wiring_host *host = &bed->wiring.hosts[h];

        host->n_nics = cube.k;
        for (uint32_t i = 0; i < NICS; i++) {
            snprintf(host->nics[i].name, sizeof host->nics[i].name, "eth%u", i);
            host->nics[i].level = ordered && i < cube.k ? (int)i : -1;
            host->nics[i].up = true;
            bed->network[h][i] = i < cube.k ? switch_of(i, br_bcube_switch(&cube, h, i)) : NONE;
        }
    }
}

static int judge(struct bed *bed)
{
    struct br_wiring *w = &bed->wiring;

    for (uint32_t a = 0; a < bed->n_hosts; a++)
        for (uint32_t i = 0; i < w->hosts[a].n_nics; i++)
            for (uint32_t b = 0; b < bed->n_hosts; b++)
                for (uint32_t j = 0; j < w->hosts[b].n_nics; j++)
                    if ((a != b || i != j) && bed->network[a][i] != NONE &&
                        bed->network[a][i] == bed->network[b][j])
                        br_wiring_add_neighbour(w, a, i, b, j);
    return br_wiring_analyse(w);
}

/* The findings are exactly these, in this order; the testbed is gone then. */
/* One finding for each of `nouns`, in their order, and no others. */
static void finds(struct bed *bed, const char *const *nouns)
{
    int n = judge(bed);

    for (int i = 0; i < n; i++) {
        if (!nouns[i])
            fail_msg("also: %s", bed->wiring.findings[i]);
        assert_says(bed->wiring.findings[i], nouns[i]);
    }
    if (n < 0 || nouns[n])
        fail_msg("%d findings, and not: %s", n, nouns[n < 0 ? 0 : n]);
    br_wiring_destroy(&bed->wiring);
}

#define FINDS(bed, ...) finds(bed, (const char *const[]){__VA_ARGS__, NULL})

static void swap(struct bed *bed, uint32_t a, uint32_t i, uint32_t b, uint32_t j)
{
    int network = bed->network[a][i];

    bed->network[a][i] = bed->network[b][j];
    bed->network[b][j] = network;
}

static void analyse__healthy(void **state)
{
    static const int64_t shapes[][3] = {{2, 1, 2},  {2, 2, 4},  {3, 2, 9},  {2, 3, 8},
                                        {4, 2, 16}, {4, 3, 64}, {3, 2, 7},  {3, 2, 4},
                                        {2, 3, 5},  {3, 3, 11}, {2, 5, 32}, {8, 1, 5}};
    struct bed bed;

    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int ordered = 0; ordered < 2; ordered++) {
            build(&bed, shapes[i][0], shapes[i][1], (uint32_t)shapes[i][2], ordered);
            assert_int_equal(judge(&bed), 0);
            for (uint32_t h = 0; h < bed.n_hosts; h++)
                for (uint32_t level = 0; level < bed.wiring.cube.k; level++)
                    assert_true(br_wiring_nic_on(&bed.wiring, h, level) >= 0);
            br_wiring_destroy(&bed.wiring);
        }
}

/* Without an order of their own NICs are found wherever they are. */
static void analyse__finds_levels(void **state)
{
    struct bed bed;

    (void)state;
    build(&bed, 3, 2, 9, false);
    swap(&bed, 4, 0, 4, 1);
    swap(&bed, 7, 0, 7, 1);
    assert_int_equal(judge(&bed), 0);
    for (uint32_t h = 0; h < 9; h++)
        assert_int_equal(br_wiring_nic_on(&bed.wiring, h, 0), h == 4 || h == 7);
    assert_int_equal(br_wiring_nic_on(&bed.wiring, 4, 1), 0);
    assert_int_equal(judge(&bed), 0); /* again: it starts over */
    br_wiring_destroy(&bed.wiring);
    build(&bed, 2, 2, 4, false);
    swap(&bed, 0, 0, 0, 1);
    assert_int_equal(judge(&bed), 0);
    assert_int_equal(br_wiring_nic_on(&bed.wiring, 0, 0), 1);
    br_wiring_destroy(&bed.wiring);
}

/* More NICs than levels: one on a network of all hosts, others on none. */
static void analyse__other_networks(void **state)
{
    struct bed bed;

    (void)state;
    build(&bed, 3, 2, 9, false);
    for (uint32_t h = 0; h < 9; h++) {
        bed.wiring.hosts[h].n_nics = 4;
        bed.network[h][3] = 7777;
        swap(&bed, h, 3, h, 0);
    }
    assert_int_equal(judge(&bed), 0);
    for (uint32_t h = 0; h < 9; h++) {
        assert_int_equal(br_wiring_nic_on(&bed.wiring, h, 0), 3);
        assert_int_equal(br_wiring_nic_on(&bed.wiring, h, 1), 1);
    }
    br_wiring_destroy(&bed.wiring);
    build(&bed, 3, 2, 9, false);
    for (uint32_t h = 0; h < 9; h++) {
        bed.wiring.hosts[h].n_nics = 3;
        bed.network[h][2] = 7777;
    }
    bed.network[4][1] = bed.network[0][1]; /* a switch with four hosts is no network of all */
    FINDS(&bed, "rank 4|eth1|into switch <1,0>|into <1,1>");
}

static void analyse__swapped(void **state)
{
    struct bed bed;

    (void)state;
    build(&bed, 3, 2, 9, true);
    swap(&bed, 4, 0, 4, 1);
    snprintf(bed.wiring.hosts[4].name, sizeof bed.wiring.hosts[4].name, "h11");
    FINDS(&bed, "rank 4 (host h11)|cables of eth0 (level 0)|eth1 (level 1)");
    build(&bed, 2, 2, 4, true);
    swap(&bed, 3, 0, 3, 1);
    FINDS(&bed, "rank 3|cables of eth0 (level 0)|eth1 (level 1)");
    build(&bed, 2, 3, 8, true);
    swap(&bed, 0, 0, 0, 2);
    swap(&bed, 6, 1, 6, 2);
    FINDS(&bed, "rank 0|cables of eth0 (level 0)|eth2 (level 2)",
          "rank 6|cables of eth1 (level 1)|eth2 (level 2)");
    build(&bed, 2, 3, 8, true);
    swap(&bed, 5, 0, 5, 1);
    swap(&bed, 5, 1, 5, 2); /* all three in a ring */
    FINDS(&bed, "rank 5|eth0 (level 0)|into switch <1,3>|into <0,2>",
          "rank 5|eth1 (level 1)|into switch <2,1>|into <1,3>",
          "rank 5|eth2 (level 2)|into switch <0,2>|into <2,1>");
}

static void analyse__wrong_switch(void **state)
{
    struct bed bed;

    (void)state;
    build(&bed, 3, 2, 9, true);
    bed.network[4][1] = bed.network[0][1];
    FINDS(&bed, "rank 4|eth1 (level 1)|into switch <1,0>|into <1,1>");
    build(&bed, 2, 2, 4, true); /* the partner hears nobody, which is no fault of its own */
    bed.network[0][1] = bed.network[1][1];
    FINDS(&bed, "rank 0|eth1 (level 1)|into switch <1,1>|into <1,0>");
    build(&bed, 3, 2, 9, true); /* two hosts, in each other's place */
    swap(&bed, 4, 0, 7, 0);
    FINDS(&bed, "rank 4|eth0 (level 0)|into switch <0,2>|into <0,1>",
          "rank 7|eth0 (level 0)|into switch <0,1>|into <0,2>");
    build(&bed, 3, 2, 9, false);
    bed.network[4][1] = bed.network[0][1];
    FINDS(&bed, "rank 4|eth1|into switch <1,0>|into <1,1>");
}

static void analyse__both_on_one_switch(void **state)
{
    static const char *const nouns =
        "rank 4|eth0 (level 0)|eth1 (level 1)|on switch <0,1>|into <1,1>";
    struct bed bed;

    (void)state;
    build(&bed, 3, 2, 9, true);
    bed.network[4][1] = bed.network[4][0];
    FINDS(&bed, nouns);
    build(&bed, 3, 2, 9, false);
    bed.network[4][1] = bed.network[4][0];
    FINDS(&bed, "rank 4|eth0 (level 0)|eth1|on switch <0,1>|into <1,1>");
    build(&bed, 2, 2, 4, true);
    bed.network[0][1] = bed.network[0][0];
    FINDS(&bed, "rank 0|eth0 (level 0)|eth1 (level 1)|on switch <0,0>|into <1,0>");
}

static void analyse__cable_missing(void **state)
{
    struct bed bed;

    (void)state;
    build(&bed, 3, 2, 9, true);
    bed.network[4][1] = NONE;
    FINDS(&bed, "rank 4|eth1 (level 1)|switch <1,1>|cable");
    build(&bed, 3, 2, 9, true);
    bed.network[4][1] = NONE;
    bed.wiring.hosts[4].nics[1].up = false;
    FINDS(&bed, "rank 4|eth1 (level 1)|carrier|ip link set eth1 up");
    build(&bed, 2, 2, 4, true); /* which of the two nobody can tell */
    bed.network[0][1] = NONE;
    FINDS(&bed, "switch <1,0>|eth1 of rank 0|eth1 of rank 2|cable");
    build(&bed, 2, 2, 4, true); /* unless one of them knows */
    bed.network[0][1] = NONE;
    bed.wiring.hosts[0].nics[1].up = false;
    FINDS(&bed, "rank 0|eth1 (level 1)|carrier|ip link set eth1 up");
    build(&bed, 3, 2, 9, false);
    bed.network[4][1] = NONE;
    FINDS(&bed, "rank 4|NICs|switch <1,1>|level 1|cable");
}

static void analyse__switch_off(void **state)
{
    struct bed bed;

    (void)state;
    build(&bed, 3, 2, 9, true);
    bed.network[1][1] = bed.network[4][1] = bed.network[7][1] = NONE;
    FINDS(&bed, "switch <1,1>|eth1 of rank 1|eth1 of rank 4|eth1 of rank 7|ports");
    build(&bed, 3, 2, 9, true);
    for (uint32_t h = 1; h < 9; h += 3) {
        bed.network[h][1] = NONE;
        bed.wiring.hosts[h].nics[1].up = false;
    }
    FINDS(&bed, "switch <1,1>|carrier|eth1 of rank 1|eth1 of rank 4|eth1 of rank 7");
}

static void analyse__switch_split(void **state)
{
    struct bed bed;

    (void)state;
    build(&bed, 4, 2, 16, true);
    bed.network[6][0] = bed.network[7][0] = 5555;
    FINDS(&bed, "switch <0,1>|ranks 4, 5|ranks 6, 7|VLANs");
}

static void join(struct bed *bed, int a, int b)
{
    for (uint32_t h = 0; h < bed->n_hosts; h++)
        for (uint32_t i = 0; i < NICS; i++)
            if (bed->network[h][i] == b)
                bed->network[h][i] = a;
}

static void analyse__joined(void **state)
{
    struct bed bed;

    (void)state;
    for (int ordered = 0; ordered < 2; ordered++) {
        build(&bed, 3, 2, 9, ordered);
        join(&bed, bed.network[0][0], bed.network[0][1]);
        FINDS(&bed, "levels 0 and 1|<0,0>|<1,0>|cable|VLAN");
        build(&bed, 3, 2, 9, ordered);
        join(&bed, bed.network[0][0], bed.network[3][0]);
        FINDS(&bed, "level 0|<0,0>|<0,1>|cable|VLAN");
        build(&bed, 3, 2, 9, ordered);
        for (uint32_t h = 0; h < 9; h++)
            bed.network[h][0] = bed.network[h][1] = 1;
        FINDS(&bed, "levels 0 and 1|<0,0>|<1,0>|<1,1>|<1,2>|<0,1>|<0,2>|cable|VLAN");
    }
}

/* Nothing is said of a NIC that could not listen. */
static void analyse__blind(void **state)
{
    struct bed bed;

    (void)state;
    build(&bed, 3, 2, 9, true);
    bed.network[4][1] = NONE;
    bed.wiring.hosts[4].nics[1].cannot_listen = true;
    assert_int_equal(judge(&bed), 0);
    br_wiring_destroy(&bed.wiring);
}

static void add_neighbour__nonsense(void **state)
{
    struct bed bed;

    (void)state;
    build(&bed, 2, 1, 2, true);
    br_wiring_add_neighbour(&bed.wiring, 2, 0, 0, 0);
    br_wiring_add_neighbour(&bed.wiring, 0, 1, 1, 0);
    br_wiring_add_neighbour(&bed.wiring, 0, 0, 9999, 0);
    br_wiring_add_neighbour(&bed.wiring, 0, 0, 1, 9999);
    assert_int_equal(judge(&bed), 0);
    br_wiring_destroy(&bed.wiring);
}

/* Any wiring at all gives words that fit, and never more than are kept. */
static void analyse__random(void **state)
{
    struct bed bed;

    (void)state;
    srand(1);
    for (int i = 0; i < 300; i++) {
        int64_t n = 2 + rand() % 3, k = 1 + rand() % 3, hosts = 1;

        for (int64_t level = 0; level < k; level++)
            hosts *= n;
        build(&bed, n, k, (uint32_t)(1 + rand() % hosts), rand() % 2);
        for (uint32_t h = 0; h < bed.n_hosts; h++) {
            bed.wiring.hosts[h].n_nics = (uint32_t)(rand() % NICS);
            for (uint32_t nic = 0; nic < NICS; nic++)
                if (rand() % 4 == 0)
                    bed.network[h][nic] = rand() % 6 - 1;
        }
        assert_true(judge(&bed) >= 0);
        for (uint32_t f = 0; f < bed.wiring.n_findings && f < BR_WIRING_FINDINGS; f++)
            assert_in_range(strlen(bed.wiring.findings[f]), 20, BR_WIRING_TEXT - 1);
        br_wiring_destroy(&bed.wiring);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(analyse__healthy),        cmocka_unit_test(analyse__finds_levels),
        cmocka_unit_test(analyse__other_networks), cmocka_unit_test(analyse__swapped),
        cmocka_unit_test(analyse__wrong_switch),   cmocka_unit_test(analyse__both_on_one_switch),
        cmocka_unit_test(analyse__cable_missing),  cmocka_unit_test(analyse__switch_off),
        cmocka_unit_test(analyse__switch_split),   cmocka_unit_test(analyse__joined),
        cmocka_unit_test(analyse__blind),          cmocka_unit_test(add_neighbour__nonsense),
        cmocka_unit_test(analyse__random),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
