/* SPDX-License-Identifier: BSD-3-Clause */
/* Links on demand that are long unused are shut, and made again when they are needed. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "protocol/internal.h"
#include "tests/says.h"
#include "cluster.h"

#define N    7 /* ranks: in the tree 0-1, 0-2, 1-3, 1-4, 2-5, 2-6 */
#define IDLE (50 * BR_MS)
#define LONG (10 * BR_SEC) /* bounds what is waited for */

/* Two ranks without a link at first; the larger one asks. */
#define SMALL 3
#define LARGE 6

static struct br_peer *peer_of(const struct cluster *c, int rank, int peer)
{
    return &c->workers[rank]->peers[peer];
}

static bool are_linked(const struct cluster *c)
{
    return br_peer_is_up(peer_of(c, SMALL, LARGE)) && br_peer_is_up(peer_of(c, LARGE, SMALL));
}

static bool are_shut(const struct cluster *c)
{
    return br_peer_is_unlinked(peer_of(c, SMALL, LARGE)) &&
           br_peer_is_unlinked(peer_of(c, LARGE, SMALL));
}

static bool has_asked(const struct cluster *c)
{
    return peer_of(c, LARGE, SMALL)->idle_asks;
}

static bool has_agreed(const struct cluster *c)
{
    return peer_of(c, SMALL, LARGE)->idle_agreed;
}

static void until(struct cluster *c, bool (*condition)(const struct cluster *c))
{
    for (uint64_t end = br_sim_now(c->sim) + LONG; !condition(c);) {
        assert_true(br_sim_now(c->sim) < end);
        assert_true(cluster_step(c));
    }
}

static void pass(struct cluster *c, uint64_t time)
{
    for (uint64_t end = br_sim_now(c->sim) + time; br_sim_now(c->sim) < end && cluster_step(c);)
        ;
}

/* A message from one of the two ranks to the other. */
struct message {
    struct br_transfer send, receive;
    uint8_t *memory;
    uint32_t length;
};

static void message_init(struct message *m, int from, uint32_t length, uint64_t tag)
{
    m->length = length;
    m->memory = calloc(2, length);
    memset(m->memory, (int)tag, length);
    m->send = (struct br_transfer){
        .tag = tag, .peer = SMALL + LARGE - from, .length = length, .memory = m->memory};
    m->receive = (struct br_transfer){
        .tag = tag, .peer = from, .length = length, .memory = m->memory + length};
}

static void message_send(struct cluster *c, struct message *m)
{
    assert_int_equal(br_transfer_send(c->workers[m->receive.peer], &m->send), 0);
}

static void message_receive(struct cluster *c, struct message *m)
{
    assert_int_equal(br_transfer_receive(c->workers[m->send.peer], &m->receive), 0);
}

/* Both ends have been submitted. */
static void message_arrives(struct cluster *c, struct message *m)
{
    for (uint64_t end = br_sim_now(c->sim) + LONG;
         m->send.state != BR_TRANSFER_ENDED || m->receive.state != BR_TRANSFER_ENDED;) {
        assert_true(br_sim_now(c->sim) < end);
        assert_true(cluster_step(c));
    }
    assert_memory_equal(m->memory, m->memory + m->length, m->length);
    free(m->memory);
}

static void exchange(struct cluster *c, int from, uint32_t length, uint64_t tag)
{
    struct message m;

    message_init(&m, from, length, tag);
    message_send(c, &m);
    message_receive(c, &m);
    message_arrives(c, &m);
}

/* The two are linked, and nothing is under way. */
static void open_job(struct cluster *c, int rails, uint64_t seed)
{
    struct br_worker_config worker = cluster_defaults;
    const struct br_sim_config network = {.seed = seed};

    worker.on_demand = true;
    worker.link_idle = IDLE;
    cluster_create(c, N, rails, &network, &worker);
    exchange(c, SMALL, 8, 1);
    until(c, are_linked);
}

static void close_job(struct cluster *c)
{
    for (int i = 0; i < N; i++)
        assert_int_equal(c->workers[i]->failed, 0);
    cluster_destroy(c);
}

static void idle__shut_and_made_again(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct cluster c;
        const struct br_rail *rail;

        open_job(&c, 1 + (int)(seed % 3), seed);
        rail = peer_of(&c, SMALL, LARGE)->rails;
        exchange(&c, LARGE, 1 << 20,
                 2); /* of which the last bytes are not confirmed by themselves */
        for (uint64_t k = 3; k < 6; k++) {
            until(&c, are_shut);
            assert_null(rail->retained);
            assert_true(br_list_empty(&peer_of(&c, SMALL, LARGE)->known));
            assert_int_equal(rail->failures, 0);
            exchange(&c, k % 2 ? SMALL : LARGE, k % 2 ? 8 : 1 << 20, k);
            assert_int_equal(rail->reconnects, 0);
        }
        for (int a = 0; a < N; a++) /* those that have links from the start keep them */
            for (int b = a + 1; b < N; b++)
                assert_true(!br_demand_in_tree(a, b) || br_peer_is_up(peer_of(&c, a, b)));
        close_job(&c);
    }
}

/* A receive that waits for a long time, of either rank, small or large. */
static void idle__kept_while_something_waits(void **state)
{
    static const uint32_t lengths[] = {8, 1 << 20};

    (void)state;
    for (int k = 0; k < 4; k++) {
        struct message m;
        struct cluster c;

        open_job(&c, 2, 1);
        message_init(&m, k % 2 ? SMALL : LARGE, lengths[k / 2], 5);
        message_receive(&c, &m);
        pass(&c, 20 * IDLE);
        assert_true(are_linked(&c));
        assert_int_equal(peer_of(&c, LARGE, SMALL)->rails[0].incarnation, 1);
        message_send(&c, &m);
        message_arrives(&c, &m);
        until(&c, are_shut);
        close_job(&c);
    }
}

static void idle__never(void **state)
{
    struct cluster c;

    (void)state;
    open_job(&c, 1, 1);
    c.workers[SMALL]->config.link_idle = 0; /* it refuses */
    pass(&c, 20 * IDLE);
    assert_true(are_linked(&c));
    close_job(&c);
}

/* The larger rank has something to say before the answer has come: it does not wait, and what it
 * has asked is off. */
static void idle__larger_goes_on(void **state)
{
    struct message m;
    struct cluster c;

    (void)state;
    open_job(&c, 1, 1);
    until(&c, has_asked);
    message_init(&m, LARGE, 8, 2);
    message_receive(&c, &m);
    message_send(&c, &m);
    message_arrives(&c, &m);
    assert_int_equal(peer_of(&c, LARGE, SMALL)->rails[0].incarnation, 1);
    until(&c, are_shut);
    close_job(&c);
}

/* It has something to say when the other end has agreed already. */
static void idle__called_off(void **state)
{
    struct message back, m;
    struct cluster c;

    (void)state;
    open_job(&c, 2, 1);
    until(&c, has_agreed);
    message_init(&m, LARGE, 8, 2);
    message_init(&back, SMALL, 8, 3);
    message_send(&c, &m);
    message_send(&c, &back);
    message_receive(&c, &m);
    message_receive(&c, &back);
    message_arrives(&c, &m);
    message_arrives(&c, &back);
    assert_false(has_agreed(&c));
    assert_int_equal(peer_of(&c, LARGE, SMALL)->rails[0].incarnation, 1);
    until(&c, are_shut);
    close_job(&c);
}

/* The smaller rank has agreed. What it has to say goes over the next links. */
static void idle__smaller_waits(void **state)
{
    static const uint32_t lengths[] = {8, 1 << 20};

    (void)state;
    for (int k = 0; k < 2; k++) {
        struct message m;
        struct cluster c;

        open_job(&c, 2, 1);
        until(&c, has_agreed);
        message_init(&m, SMALL, lengths[k], 2);
        message_send(&c, &m);
        until(&c, are_shut);
        assert_int_not_equal(m.send.state, BR_TRANSFER_ENDED);
        message_receive(&c, &m);
        message_arrives(&c, &m);
        assert_int_equal(peer_of(&c, LARGE, SMALL)->rails[0].incarnation, 2);
        close_job(&c);
    }
}

/* The larger rank has shut the links and needs them again before the other end has noticed. */
static void idle__made_again_at_once(void **state)
{
    struct message m;
    struct cluster c;

    (void)state;
    open_job(&c, 2, 1);
    until(&c, has_agreed);
    br_idle_shut(c.workers[LARGE], peer_of(&c, LARGE, SMALL));
    message_init(&m, LARGE, 8, 2);
    message_receive(&c, &m);
    message_send(&c, &m);
    message_arrives(&c, &m);
    until(&c, are_shut);
    close_job(&c);
}

/* A rail breaks, and with it perhaps the agreement. */
static void idle__a_rail_is_lost(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        struct br_worker *w;
        struct cluster c;
        int at = k % 2 ? SMALL : LARGE;

        open_job(&c, 2, 1);
        w = c.workers[at];
        until(&c, has_agreed);
        br_rail_lost(w, &w->peers[SMALL + LARGE - at].rails[k / 2], ECONNRESET, "broken");
        exchange(&c, SMALL, 1 << 20, 2);
        exchange(&c, LARGE, 1 << 20, 3);
        until(&c, are_shut);
        close_job(&c);
    }
}

/* The larger rank cannot know whether its last word has arrived when a rail is lost. */
static void idle_rail_lost__said_again(void **state)
{
    struct br_peer *peer;
    struct cluster c;

    (void)state;
    open_job(&c, 2, 1);
    until(&c, has_asked);
    peer = peer_of(&c, LARGE, SMALL);
    br_rail_lost(c.workers[LARGE], &peer->rails[0], ECONNRESET, "broken");
    assert_int_equal(peer->idle_due, BR_IDLE_OFF);
    assert_false(peer->idle_asks);
    until(&c, are_shut);
    close_job(&c);
}

/* A rank leaves that has agreed: no BYE goes, and the other one hears it by the tree. */
static void idle__leaves_when_it_has_agreed(void **state)
{
    struct cluster c;

    (void)state;
    open_job(&c, 1, 1);
    until(&c, has_agreed);
    br_worker_leave(c.workers[SMALL]);
    pass(&c, 200 * BR_MS);
    assert_int_equal(peer_of(&c, LARGE, SMALL)->state, BR_PEER_LEFT);
    for (int i = 0; i < N; i++)
        if (i != SMALL)
            br_worker_leave(c.workers[i]);
    pass(&c, 200 * BR_MS);
    for (int i = 0; i < N; i++)
        assert_true(br_worker_left(c.workers[i]));
    close_job(&c);
}

/* A rank dies to which the links are shut: all hear of it, and so does one that needs it. */
static void idle__dead_when_shut(void **state)
{
    struct br_sim_fault fault = {.kind = BR_SIM_HOST_DEAD, .host = SMALL};
    struct cluster c;

    (void)state;
    open_job(&c, 1, 1);
    until(&c, are_shut);
    fault.at = br_sim_now(c.sim) + 1;
    assert_int_equal(br_sim_add_fault(c.sim, &fault), 0);
    pass(&c, 2 * BR_SEC);
    for (int i = 0; i < N; i++) {
        if (i == SMALL)
            continue;
        assert_int_equal(c.workers[i]->failed, -ECONNRESET);
        assert_says(c.workers[i]->message, "rank 3 is lost");
    }
    cluster_destroy(&c);
}

/* With a gap in the tree all links stay, for news to cross it. */
static void idle__a_gap_in_the_tree(void **state)
{
    struct cluster c;

    (void)state;
    open_job(&c, 1, 1);
    br_demand_tree_broken(c.workers[SMALL]);
    pass(&c, 20 * IDLE);
    for (int i = 0; i < N; i++)
        assert_true(i == SMALL || br_peer_is_up(peer_of(&c, SMALL, i)));
    close_job(&c);
}

/* The tree breaks at a rank that has agreed: the links come again, and stay. */
static void idle__a_gap_when_it_has_agreed(void **state)
{
    struct cluster c;

    (void)state;
    open_job(&c, 1, 1);
    until(&c, has_agreed);
    br_demand_tree_broken(c.workers[SMALL]);
    until(&c, are_shut);
    until(&c, are_linked);
    pass(&c, 20 * IDLE);
    assert_true(are_linked(&c));
    close_job(&c);
}

static void idle_received__nonsense(void **state)
{
    struct br_body_idle idle = {.round = 9};
    struct br_worker *small, *large;
    struct cluster c;

    (void)state;
    open_job(&c, 1, 1);
    small = c.workers[SMALL];
    large = c.workers[LARGE];
    small->counters.dropped_messages = large->counters.dropped_messages = 0;
    br_idle_received(small, peer_of(&c, SMALL, LARGE), &idle);
    idle.kind = BR_IDLE_OFF + 1;
    br_idle_received(small, peer_of(&c, SMALL, LARGE), &idle);
    idle.kind = BR_IDLE_OK;
    br_idle_received(small, peer_of(&c, SMALL, LARGE), &idle);
    assert_int_equal(small->counters.dropped_messages, 3);
    idle.kind = BR_IDLE_ASK;
    br_idle_received(large, peer_of(&c, LARGE, SMALL), &idle);
    assert_int_equal(large->counters.dropped_messages, 1);
    br_idle_received(small, peer_of(&c, SMALL, 1), &idle); /* they have links from the start */
    assert_int_equal(small->counters.dropped_messages, 4);
    idle.kind = BR_IDLE_OK; /* that nobody has asked for is called off */
    br_idle_received(large, peer_of(&c, LARGE, SMALL), &idle);
    assert_int_equal(peer_of(&c, LARGE, SMALL)->idle_due, BR_IDLE_OFF);
    close_job(&c);
}

/* An ASK or OFF that a later one has overtaken changes nothing. */
static void idle_received__overtaken(void **state)
{
    struct br_body_idle idle = {.kind = BR_IDLE_ASK};
    struct br_peer *peer;
    struct cluster c;

    (void)state;
    open_job(&c, 2, 1);
    until(&c, has_agreed);
    peer = peer_of(&c, SMALL, LARGE);
    idle.round = peer->idle_round;
    br_idle_received(c.workers[SMALL], peer, &idle);
    idle.round--;
    br_idle_received(c.workers[SMALL], peer, &idle);
    idle.kind = BR_IDLE_OFF;
    br_idle_received(c.workers[SMALL], peer, &idle);
    assert_true(peer->idle_agreed);
    assert_int_equal(peer->idle_due, 0);
    idle.round++;
    br_idle_received(c.workers[SMALL], peer, &idle);
    assert_false(peer->idle_agreed);
    close_job(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idle__shut_and_made_again),
        cmocka_unit_test(idle__kept_while_something_waits),
        cmocka_unit_test(idle__never),
        cmocka_unit_test(idle__larger_goes_on),
        cmocka_unit_test(idle__called_off),
        cmocka_unit_test(idle__smaller_waits),
        cmocka_unit_test(idle__made_again_at_once),
        cmocka_unit_test(idle__a_rail_is_lost),
        cmocka_unit_test(idle_rail_lost__said_again),
        cmocka_unit_test(idle__leaves_when_it_has_agreed),
        cmocka_unit_test(idle__dead_when_shut),
        cmocka_unit_test(idle__a_gap_in_the_tree),
        cmocka_unit_test(idle__a_gap_when_it_has_agreed),
        cmocka_unit_test(idle_received__nonsense),
        cmocka_unit_test(idle_received__overtaken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
