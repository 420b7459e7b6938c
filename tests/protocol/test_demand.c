/* SPDX-License-Identifier: BSD-3-Clause */
/* Links on demand: who has one, who gets one when, and what those hear who have none. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "protocol/internal.h"
#include "tests/says.h"
#include "cluster.h"

#define N 7 /* ranks: in the tree 0-1, 0-2, 1-3, 1-4, 2-5, 2-6 */

static void open_jobs(struct cluster *c, int rails, uint64_t seed)
{
    struct br_worker_config worker = cluster_defaults;
    const struct br_sim_config network = {.seed = seed};

    worker.on_demand = true;
    cluster_create(c, N, rails, &network, &worker);
}

static bool linked(const struct cluster *c, int a, int b)
{
    return br_peer_is_up(&c->workers[a]->peers[b]);
}

static int links(const struct cluster *c)
{
    int n = 0;

    for (int a = 0; a < N; a++)
        for (int b = 0; b < N; b++)
            n += a != b && linked(c, a, b);
    return n / 2;
}

static void wait_for(struct cluster *c, uint64_t time)
{
    for (uint64_t end = br_sim_now(c->sim) + time; br_sim_now(c->sim) < end && cluster_step(c);)
        ;
}

static void demand__a_tree_at_first(void **state)
{
    struct cluster c;

    (void)state;
    open_jobs(&c, 2, 1);
    wait_for(&c, 3 * BR_SEC);
    assert_int_equal(links(&c), N - 1);
    for (int a = 0; a < N; a++)
        for (int b = a + 1; b < N; b++)
            assert_int_equal(linked(&c, a, b), br_demand_in_tree(a, b));
    assert_null(c.workers[3]->peers[6].rails[0].retained);
    cluster_destroy(&c);
}

/* A message of this length between two ranks, in this direction or in both at once. */
static void exchange(struct cluster *c, int a, int b, uint32_t length, bool both, uint64_t tag)
{
    uint8_t *memory = calloc(4, length);
    struct br_transfer t[4] = {
        {.tag = tag, .peer = b, .length = length, .memory = memory},
        {.tag = tag, .peer = a, .length = length, .memory = memory + length},
        {.tag = tag + 1, .peer = a, .length = length, .memory = memory + 2 * length},
        {.tag = tag + 1, .peer = b, .length = length, .memory = memory + 3 * length},
    };
    int n = both ? 4 : 2, before = c->done;

    memset(memory, 1, length);
    memset(memory + 2 * length, 2, length);
    assert_int_equal(br_transfer_send(c->workers[a], &t[0]), 0);
    assert_int_equal(br_transfer_receive(c->workers[b], &t[1]), 0);
    if (both) {
        assert_int_equal(br_transfer_send(c->workers[b], &t[2]), 0);
        assert_int_equal(br_transfer_receive(c->workers[a], &t[3]), 0);
    }
    cluster_run(c, before + n, br_sim_now(c->sim) + 10 * BR_SEC);
    assert_int_equal(c->done, before + n);
    assert_memory_equal(memory, memory + length, length);
    if (both)
        assert_memory_equal(memory + 2 * length, memory + 3 * length, length);
    free(memory);
}

/* The smaller rank begins, the larger one, both at once: one link a rail, and nothing is lost. */
static void demand__a_link_at_first_use(void **state)
{
    static const uint32_t lengths[] = {8, 1 << 20};

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        uint32_t length = lengths[seed % 2];
        struct cluster c;

        open_jobs(&c, 1 + (int)(seed % 3), seed);
        exchange(&c, 3, 6, length, false, 1);
        assert_int_equal(links(&c), N);
        exchange(&c, 5, 4, length, false, 1);
        exchange(&c, 0, 6, length, true, 1);
        exchange(&c, 1, 2, length, true, 1);
        wait_for(&c, 3 * BR_SEC);
        assert_int_equal(links(&c), N + 3);
        exchange(&c, 6, 3, length, true, 7);
        for (int i = 0; i < N; i++) {
            assert_int_equal(c.workers[i]->failed, 0);
            for (int k = 0; k < c.rails; k++)
                assert_int_equal(c.workers[i]->peers[i ? 0 : 6].rails[k].failures, 0);
        }
        cluster_destroy(&c);
    }
}

/* All ranks of a larger job turn to rank 0 at the same moment: none pushes another one out. */
static void demand__a_rush(void **state)
{
    enum { RANKS = 64 };
    struct br_worker_config worker = cluster_defaults;
    const struct br_sim_config network = {.seed = 1};
    struct br_transfer t[2 * RANKS];
    uint8_t memory[2 * RANKS] = {0};
    struct cluster c;

    (void)state;
    worker.on_demand = true;
    cluster_create(&c, RANKS, 1, &network, &worker);
    for (int i = 1; i < RANKS; i++) {
        memory[i] = (uint8_t)i;
        t[i] = (struct br_transfer){.tag = 1, .length = 1, .memory = &memory[i]};
        t[RANKS + i] =
            (struct br_transfer){.tag = 1, .peer = i, .length = 1, .memory = &memory[RANKS + i]};
        assert_int_equal(br_transfer_receive(c.workers[0], &t[RANKS + i]), 0);
        assert_int_equal(br_transfer_send(c.workers[i], &t[i]), 0);
    }
    cluster_run(&c, 2 * (RANKS - 1), br_sim_now(c.sim) + 10 * BR_SEC);
    assert_int_equal(c.done, 2 * (RANKS - 1));
    assert_memory_equal(memory, memory + RANKS, RANKS);
    assert_int_equal(c.workers[0]->counters.failed_handshakes, 0);
    cluster_destroy(&c);
}

static void demand__all_leave(void **state)
{
    struct cluster c;

    (void)state;
    open_jobs(&c, 1, 3);
    exchange(&c, 3, 6, 8, false, 1);
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++)
            assert_false(br_worker_left(c.workers[j]));
        br_worker_leave(c.workers[i]);
        wait_for(&c, 100 * BR_MS);
    }
    for (int i = 0; i < N; i++) {
        assert_int_equal(c.workers[i]->failed, 0);
        assert_true(br_worker_left(c.workers[i]));
    }
    assert_int_equal(links(&c), N);
    cluster_destroy(&c);
}

/* A rank hears that another one has left to which it has no link, and what waits for it fails. */
static void demand__left_without_a_link(void **state)
{
    uint32_t word;
    struct br_transfer receive = {
        .tag = br_tag_p2p(0, 0, 5), .peer = 3, .length = sizeof word, .memory = &word};
    struct cluster c;

    (void)state;
    open_jobs(&c, 1, 3);
    receive.owner = &receive;
    assert_int_equal(br_transfer_receive(c.workers[6], &receive), 0);
    br_worker_leave(c.workers[3]);
    cluster_run(&c, 1, br_sim_now(c.sim) + 10 * BR_SEC);
    assert_int_equal(c.workers[6]->failed, -ECONNRESET);
    assert_says(c.workers[6]->message, "rank 3|left|tag 5");
    cluster_destroy(&c);
}

static void kill_host(struct cluster *c, int host)
{
    struct br_sim_fault fault = {
        .kind = BR_SIM_HOST_DEAD, .host = host, .at = br_sim_now(c->sim) + 1};

    assert_int_equal(br_sim_add_fault(c->sim, &fault), 0);
}

/* A leaf of the tree, and one in the middle: all hear of it, by name, also those without a link to
 * it, about as fast as with one. */
static void demand__a_dead_rank(void **state)
{
    (void)state;
    for (int victim = 1; victim < N; victim += 2) {
        struct cluster c;

        open_jobs(&c, 1, 3);
        kill_host(&c, victim);
        wait_for(&c, 2 * BR_SEC);
        for (int i = 0; i < N; i++) {
            char text[16];

            if (i == victim)
                continue;
            snprintf(text, sizeof text, "rank %d", victim);
            assert_int_equal(c.workers[i]->failed, -ECONNRESET);
            assert_says(c.workers[i]->message, text);
        }
        cluster_destroy(&c);
    }
}

/* The only one that has a link to a rank and still lives leaves when that rank dies. The others,
 * which have none, hear that it has died and not that it has left. */
static void demand__dead_beside_one_that_leaves(void **state)
{
    struct cluster c;

    (void)state;
    open_jobs(&c, 1, 3);
    br_worker_leave(c.workers[2]);
    wait_for(&c, 10 * BR_MS);
    kill_host(&c, 6);
    wait_for(&c, 2 * BR_SEC);
    assert_int_equal(c.workers[3]->failed, -ECONNRESET);
    assert_says(c.workers[3]->message, "rank 6 is lost|level 0|device");
    assert_false(c.workers[3]->peers[6].left_noted);
    cluster_destroy(&c);
}

/* A rank that closes its rail has left, even if its BYE was lost. */
static void demand__closed_beside_one_that_leaves(void **state)
{
    struct cluster c;
    struct br_rail *rail;

    (void)state;
    open_jobs(&c, 1, 3);
    rail = &c.workers[2]->peers[6].rails[0];
    br_worker_leave(c.workers[2]);
    wait_for(&c, 10 * BR_MS);
    assert_int_equal(rail->state, BR_RAIL_UP);
    br_rail_lost(c.workers[2], rail, ESHUTDOWN, "closed by the peer");
    assert_int_equal(c.workers[2]->failed, 0);
    assert_int_equal(c.workers[2]->peers[6].state, BR_PEER_LEFT);
    cluster_destroy(&c);
}

/* Rank 6 sends to rank 3, and the link is UP for rank 3 alone. */
static void open_half_up(struct cluster *c, struct br_transfer *send)
{
    *send = (struct br_transfer){.tag = 1, .peer = 3, .length = 8, .memory = "8 bytes"};
    open_jobs(c, 1, 3);
    assert_int_equal(br_transfer_send(c->workers[6], send), 0);
    while (c->workers[3]->peers[6].rails[0].state != BR_RAIL_UP)
        assert_true(cluster_step(c));
    assert_int_equal(c->workers[6]->peers[3].rails[0].state, BR_RAIL_HANDSHAKE);
}

/* Rank 6 fails while it connects to rank 3, for which the link is UP already: rank 3 hears why, by
 * the tree, and does not take the end of the link for a death. */
static void demand__fails_while_it_connects(void **state)
{
    struct br_transfer send;
    struct cluster c;

    (void)state;
    open_half_up(&c, &send);
    br_worker_fail(c.workers[6], EPROTO, "a quarrel");
    wait_for(&c, 3 * BR_SEC);
    for (int i = 0; i < N - 1; i++) {
        assert_int_equal(c.workers[i]->failed, -EPROTO);
        assert_says(c.workers[i]->message, "rank 6|a quarrel");
    }
    cluster_destroy(&c);
}

/* Rank 6 connects to rank 3, for which the link is UP already. A message of rank 3 waits until it
 * is so at both ends: who has ended his sends leaves, and that is heard over the tree at once. */
static void demand__a_send_ends_when_both_are_up(void **state)
{
    struct br_transfer back = {.tag = 2, .peer = 6, .length = 8, .memory = "8 bytes"}, send,
                       receive[2];
    struct br_rail *ours;
    uint64_t memory[2];
    struct cluster c;

    (void)state;
    open_half_up(&c, &send);
    ours = &c.workers[6]->peers[3].rails[0];
    assert_int_equal(br_transfer_send(c.workers[3], &back), 0);
    for (; ours->state != BR_RAIL_UP; assert_true(cluster_step(&c)))
        assert_true(back.state != BR_TRANSFER_ENDED);
    receive[0] = (struct br_transfer){.tag = 1, .peer = 6, .length = 8, .memory = &memory[0]};
    receive[1] = (struct br_transfer){.tag = 2, .peer = 3, .length = 8, .memory = &memory[1]};
    assert_int_equal(br_transfer_receive(c.workers[3], &receive[0]), 0);
    assert_int_equal(br_transfer_receive(c.workers[6], &receive[1]), 0);
    cluster_run(&c, 4, br_sim_now(c.sim) + 100 * BR_MS);
    assert_int_equal(c.done, 4);
    cluster_destroy(&c);
}

/* Rank 6 connects to rank 3, for which the link is UP already, and goes: rank 3 hears that by the
 * tree while the link is there, and waits for no BYE when the link is lost. */
static void demand__left_while_it_connects(void **state)
{
    const struct br_message m = {.type = BR_MESSAGE_LEFT, .left.ranks = {6 + 1}};
    struct br_transfer send;
    struct br_peer *peer;
    struct cluster c;

    (void)state;
    open_half_up(&c, &send);
    peer = &c.workers[3]->peers[6];
    assert_true(peer->rails[0].quiet);
    br_demand_received_left(c.workers[3], &m);
    assert_int_equal(peer->state, BR_PEER_UP);
    br_rail_lost(c.workers[3], &peer->rails[0], ECONNRESET, "closed");
    assert_int_equal(peer->state, BR_PEER_LEFT);
    assert_true(peer->bye_sent);
    cluster_destroy(&c);
}

/* A process that lives may refuse some attempts; one that refuses them for a second has ended. */
static void demand__refused(void **state)
{
    struct br_peer *peer;
    struct br_worker *w;
    struct cluster c;

    (void)state;
    open_jobs(&c, 1, 3);
    w = c.workers[0];
    peer = &w->peers[5];
    br_demand_use(w, peer);
    br_peer_want(w, peer);
    peer->wanted_since = w->now;
    for (int i = 0; i < 10; i++) {
        br_demand_failed(w, &peer->rails[0], -ECONNREFUSED);
        assert_int_equal(w->failed, 0);
        w->now += 5 * BR_MS;
    }
    w->now += BR_SEC;
    br_demand_failed(w, &peer->rails[0], -ECONNREFUSED);
    assert_int_equal(w->failed, -ECONNRESET);
    assert_says(w->message, "rank 5|no link to it can be made");
    cluster_destroy(&c);
}

/* Rank 1 has left and is gone. What ranks 3 and 4 behind it do, the others still hear. */
static void demand__a_gap_in_the_tree(void **state)
{
    struct cluster c;

    (void)state;
    open_jobs(&c, 1, 3);
    br_worker_leave(c.workers[1]);
    wait_for(&c, 100 * BR_MS);
    kill_host(&c, 1);
    wait_for(&c, 10 * BR_SEC);
    for (int i = 0; i < N; i++)
        assert_int_equal(i == 1 ? 0 : c.workers[i]->failed, 0);
    exchange(&c, 4, 5, 8, true, 1);
    br_worker_fail(c.workers[3], ECANCELED, "had enough");
    wait_for(&c, 2 * BR_SEC);
    for (int i = 0; i < N; i++)
        if (i != 1 && i != 3) {
            assert_int_equal(c.workers[i]->failed, -ECANCELED);
            assert_says(c.workers[i]->message, "rank 3|had enough");
        }
    cluster_destroy(&c);
}

/* Nonsense about ranks is ignored, and what is said twice counts once. */
static void demand__received_left(void **state)
{
    const struct br_message m = {.type = BR_MESSAGE_LEFT,
                                 .left.ranks = {6, 6, 0, N + 1, UINT32_MAX, 1}};
    struct cluster c;

    (void)state;
    open_jobs(&c, 1, 3);
    br_demand_received_left(c.workers[0], &m);
    br_demand_received_left(c.workers[0], &m);
    assert_int_equal(c.workers[0]->n_left, 1);
    assert_int_equal(c.workers[0]->peers[5].state, BR_PEER_LEFT);
    assert_int_equal(c.workers[0]->peers[6].state, BR_PEER_UP);
    cluster_destroy(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(demand__a_tree_at_first),
        cmocka_unit_test(demand__a_link_at_first_use),
        cmocka_unit_test(demand__a_rush),
        cmocka_unit_test(demand__all_leave),
        cmocka_unit_test(demand__left_without_a_link),
        cmocka_unit_test(demand__a_dead_rank),
        cmocka_unit_test(demand__dead_beside_one_that_leaves),
        cmocka_unit_test(demand__closed_beside_one_that_leaves),
        cmocka_unit_test(demand__fails_while_it_connects),
        cmocka_unit_test(demand__a_send_ends_when_both_are_up),
        cmocka_unit_test(demand__left_while_it_connects),
        cmocka_unit_test(demand__refused),
        cmocka_unit_test(demand__a_gap_in_the_tree),
        cmocka_unit_test(demand__received_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
