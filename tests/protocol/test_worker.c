/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers over the simulator: every kind of transfer, rails that fail, peers that die,
 * unauthenticated peers. */
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
#include "base/error.h"
#include "base/random.h"
#include "cluster.h"
#include "tests/says.h"

static const struct br_sim_config plain = {.seed = 1};
static const struct br_sim_config early = {.seed = 1, .early_sent = true};
static const struct br_sim_config wild = {.seed = 3,
                                          .early_sent = true,
                                          .unordered = true,
                                          .loss_ppm = 20000,
                                          .corrupt_ppm = 5000,
                                          .duplicate_ppm = 10000,
                                          .reorder_ppm = 50000};

static void fill(uint8_t *memory, uint32_t length, uint64_t seed)
{
    struct br_random random;

    br_random_seed(&random, seed);
    for (uint32_t i = 0; i < length; i++)
        memory[i] = (uint8_t)br_random_next(&random);
}

/* One message of `length` bytes from rank 0 to rank 1, the receive posted first or last. */
static void one(struct cluster *c, uint32_t length, bool receive_first, uint64_t tag)
{
    uint8_t *from = malloc(length + 1), *to = calloc(1, length + 1);
    struct br_transfer send = {.tag = tag, .peer = 1, .length = length, .memory = from};
    struct br_transfer receive = {.tag = tag, .peer = 0, .length = length, .memory = to};
    int before = c->done;

    fill(from, length, tag);
    to[length] = 0xa5;
    if (receive_first)
        assert_int_equal(br_transfer_receive(c->workers[1], &receive), 0);
    assert_int_equal(br_transfer_send(c->workers[0], &send), 0);
    if (!receive_first) {
        cluster_run(c, before + 2, br_sim_now(c->sim) + 10 * BR_MS);
        assert_int_equal(br_transfer_receive(c->workers[1], &receive), 0);
    }
    cluster_run(c, before + 2, br_sim_now(c->sim) + 10 * BR_SEC);
    assert_int_equal(c->workers[0]->failed, 0);
    assert_int_equal(c->workers[1]->failed, 0);
    assert_int_equal(c->done, before + 2);
    assert_int_equal(send.status, 0);
    assert_int_equal(receive.status, 0);
    assert_memory_equal(from, to, length);
    assert_int_equal(to[length], 0xa5);
    free(from);
    free(to);
}

static void all_sizes(const struct br_sim_config *config, int rails)
{
    static const uint32_t sizes[] = {0,    1,     8,     24,    25,      4095,    4096,
                                     4097, 65535, 65536, 65537, 1000003, 16 << 20};
    struct cluster c;
    uint64_t tag = 1;

    cluster_create(&c, 2, rails, config, NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int first = 0; first < 2; first++)
            one(&c, sizes[i], first, tag++);
    assert_int_equal(c.workers[1]->slots.n_free, c.workers[1]->slots.count);
    assert_int_equal(c.workers[0]->flights.n_free, c.workers[0]->flights.count);
    cluster_destroy(&c);
}

static void transfer__sizes_on_one_rail(void **state)
{
    (void)state;
    all_sizes(&plain, 1);
}

static void transfer__sizes_on_three_rails(void **state)
{
    (void)state;
    all_sizes(&plain, 3);
}

static void transfer__sizes_where_sent_proves_nothing(void **state)
{
    (void)state;
    all_sizes(&early, 2);
}

static void transfer__sizes_on_a_bad_network(void **state)
{
    (void)state;
    all_sizes(&wild, 2);
}

#define MANY 300

/* Far more messages than credits, posted at the sender before the receiver wants any, and wanted in
 * reverse order. */
static void transfer__more_messages_than_credits(void **state)
{
    static struct br_transfer sends[MANY], receives[MANY];
    static uint32_t from[MANY], to[MANY];
    struct cluster c;

    (void)state;
    cluster_create(&c, 2, 2, &plain, NULL);
    for (uint32_t i = 0; i < MANY; i++) {
        from[i] = i * 7 + 1;
        sends[i] = (struct br_transfer){
            .tag = i + 1, .peer = 1, .length = 4, .memory = &from[i], .order = i};
        assert_int_equal(br_transfer_send(c.workers[0], &sends[i]), 0);
    }
    cluster_run(&c, 2 * MANY, br_sim_now(c.sim) + 10 * BR_MS);
    assert_true(c.done < MANY); /* credits bound what an absent receiver has to hold */
    assert_true(c.workers[0]->counters.credit_stalls > 0);
    for (uint32_t i = 0; i < MANY; i++) {
        receives[i] = (struct br_transfer){
            .tag = i + 1, .peer = 0, .length = 4, .memory = &to[i], .order = i};
        assert_int_equal(br_transfer_receive(c.workers[1], &receives[i]), 0);
    }
    cluster_run(&c, 2 * MANY, br_sim_now(c.sim) + BR_SEC);
    assert_int_equal(c.done, 2 * MANY);
    assert_memory_equal(from, to, sizeof from);
    cluster_destroy(&c);
}

/* A large transfer over two rails; `when` (share of its time alone) later one rail goes down, for
 * good or not. */
static void rail_down(const struct br_sim_config *config, uint64_t when, bool up_again)
{
    uint32_t length = 8 << 20;
    uint8_t *from = malloc(length), *to = calloc(1, length);
    struct br_transfer send = {.tag = 1, .peer = 1, .length = length, .memory = from};
    struct br_transfer receive = {.tag = 1, .peer = 0, .length = length, .memory = to};
    struct br_sim_fault fault = {.kind = BR_SIM_PORT_DOWN, .host = 1, .port = 1};
    struct cluster c;

    cluster_create(&c, 2, 2, config, NULL);
    fill(from, length, 9);
    fault.at = br_sim_now(c.sim) + when;
    assert_int_equal(br_sim_add_fault(c.sim, &fault), 0);
    assert_int_equal(br_transfer_receive(c.workers[1], &receive), 0);
    assert_int_equal(br_transfer_send(c.workers[0], &send), 0);
    cluster_run(&c, 2, br_sim_now(c.sim) + 20 * BR_SEC);
    assert_int_equal(c.workers[0]->failed, 0);
    assert_int_equal(c.done, 2);
    assert_memory_equal(from, to, length);
    assert_true(c.workers[0]->peers[1].rails[1].failures > 0);
    if (up_again) {
        fault.kind = BR_SIM_PORT_UP;
        fault.at = br_sim_now(c.sim) + 1;
        assert_int_equal(br_sim_add_fault(c.sim, &fault), 0);
        for (uint64_t end = br_sim_now(c.sim) + 10 * BR_SEC; br_sim_now(c.sim) < end;)
            assert_true(cluster_step(&c));
        assert_int_equal(c.workers[0]->peers[1].rails[1].state, BR_RAIL_UP);
        assert_int_equal(c.workers[1]->peers[0].rails[1].state, BR_RAIL_UP);
        one(&c, 1 << 20, true, 2);
    }
    cluster_destroy(&c);
    free(from);
    free(to);
}

static void failover__rail_lost_in_a_transfer(void **state)
{
    (void)state;
    rail_down(&plain, BR_MS, false);
    rail_down(&early, BR_MS, false);
    rail_down(&wild, 300 * BR_US, false);
}

/* A turn of rank 0 alone. */
static void turn_of_first(struct cluster *c)
{
    struct br_worker *w = c->workers[0];
    uint64_t next;

    br_worker_poll(w, br_sim_host_now(c->sim, 0));
    while (br_worker_done(w))
        c->done++;
    br_worker_pump(w, br_sim_host_now(c->sim, 0));
    next = br_sim_time_of(c->sim, 0, br_worker_next_timer(w));
    if (br_sim_next(c->sim) < next)
        next = br_sim_next(c->sim);
    br_sim_advance_to(c->sim, next > br_sim_now(c->sim) ? next : br_sim_now(c->sim) + 1);
}

/* The bytes stand in their place and the sender has got SENT, but the receiver has not looked yet
 * when the rail is lost: it then hears of the loss before it hears of the arrivals. */
static void failover__arrivals_nobody_has_seen(void **state)
{
    uint32_t length = 1 << 20;
    uint8_t *from = malloc(length), *to = calloc(1, length);
    struct br_transfer send = {.tag = 1, .peer = 1, .length = length, .memory = from};
    struct br_transfer receive = {.tag = 1, .peer = 0, .length = length, .memory = to};
    struct br_sim_config network = {.seed = 1, .retransmit_ns = 100 * BR_US};
    struct cluster c;

    (void)state;
    cluster_create(&c, 2, 2, &network, NULL);
    fill(from, length, 9);
    assert_int_equal(br_transfer_send(c.workers[0], &send), 0);
    assert_int_equal(br_transfer_receive(c.workers[1], &receive), 0);
    while (send.state == BR_TRANSFER_MATCHING)
        assert_true(cluster_step(&c));
    while (c.workers[0]->peers[1].rails[1].flights.next !=
               &c.workers[0]->peers[1].rails[1].flights ||
           send.cursor < length)
        turn_of_first(&c);
    assert_int_equal(br_sim_add_fault(c.sim, &(struct br_sim_fault){.kind = BR_SIM_PORT_DOWN,
                                                                    .at = br_sim_now(c.sim),
                                                                    .host = 0,
                                                                    .port = 1}),
                     0);
    while (c.workers[0]->peers[1].rails[1].state == BR_RAIL_UP)
        turn_of_first(&c);
    for (int i = 0; i < 20; i++) /* RAIL_DOWN leaves */
        turn_of_first(&c);
    cluster_run(&c, 2, br_sim_now(c.sim) + 10 * BR_SEC);
    assert_int_equal(c.done, 2);
    assert_memory_equal(from, to, length);
    cluster_destroy(&c);
    free(from);
    free(to);
}

static void failover__rail_comes_back(void **state)
{
    (void)state;
    rail_down(&plain, BR_MS, true);
    rail_down(&early, BR_MS, true);
}

/* Rank 0 gets a core ten times a second, the others once in 1.2 s. By the clock they are silent for
 * longer than the peer timeout; none is dead. */
static void keepalive__all_are_starved(void **state)
{
    struct cluster c;

    (void)state;
    cluster_create(&c, 4, 1, &plain, NULL);
    for (int i = 0; i < 600; i++) {
        for (int rank = 0; rank < (i % 12 ? 1 : c.n); rank++) {
            struct br_worker *w = c.workers[rank];

            br_worker_poll(w, br_sim_host_now(c.sim, rank));
            br_worker_pump(w, br_sim_host_now(c.sim, rank));
            assert_int_equal(w->failed, 0);
        }
        br_sim_advance_to(c.sim, br_sim_now(c.sim) + 100 * BR_MS);
    }
    one(&c, 1 << 20, true, 2);
    cluster_destroy(&c);
}

static void failover__last_rail_is_the_peer(void **state)
{
    struct br_transfer receive = {.tag = 1, .peer = 0, .length = 4};
    struct br_sim_fault fault = {.kind = BR_SIM_HOST_DEAD, .host = 0};
    uint32_t word;
    struct cluster c;

    (void)state;
    cluster_create(&c, 3, 2, &plain, NULL);
    receive.memory = &word;
    assert_int_equal(br_transfer_receive(c.workers[1], &receive), 0);
    fault.at = br_sim_now(c.sim) + 1;
    assert_int_equal(br_sim_add_fault(c.sim, &fault), 0);
    for (uint64_t end = br_sim_now(c.sim) + 3 * BR_SEC; br_sim_now(c.sim) < end;)
        if (!cluster_step(&c))
            break;
    assert_true(c.workers[1]->failed < 0);
    assert_true(c.workers[2]->failed < 0);
    assert_says(c.workers[1]->message, "rank 0");
    cluster_destroy(&c);
}

/* The urgent transfer overtakes a bulk one: it waits for the window, not for the queue. */
/* Rank 0 sends and leaves; rank 1 comes to its receives later, and the messages may be overtaken by
 * the goodbye. */
static void leave__what_was_sent_before_arrives(void **state)
{
    static uint8_t from[2000], to[20][2000];
    struct br_transfer sends[20], receives[20],
        late = {.tag = 99, .peer = 0, .length = 8, .memory = to[0]};
    struct cluster c;

    (void)state;
    fill(from, sizeof from, 7);
    cluster_create(&c, 2, 3, &wild, NULL);
    for (uint32_t i = 0; i < 20; i++) {
        sends[i] = (struct br_transfer){.tag = i + 1, .peer = 1, .length = i * 100, .memory = from};
        receives[i] =
            (struct br_transfer){.tag = i + 1, .peer = 0, .length = i * 100, .memory = to[i]};
        assert_int_equal(br_transfer_send(c.workers[0], &sends[i]), 0);
    }
    while (c.done < 20)
        cluster_step(&c);
    br_worker_leave(c.workers[0]);
    while (!c.workers[1]->peers[0].bye_received)
        cluster_step(&c);
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(br_transfer_receive(c.workers[1], &receives[i]), 0);
    cluster_run(&c, 40, br_sim_now(c.sim) + 10 * BR_SEC);
    assert_int_equal(c.done, 40);
    for (uint32_t i = 0; i < 20; i++)
        assert_memory_equal(to[i], from, i * 100);
    assert_int_equal(br_transfer_receive(c.workers[1], &late), -ECONNRESET);
    assert_false(br_worker_left(c.workers[0]));
    br_worker_leave(c.workers[1]);
    while (!br_worker_left(c.workers[0]) || !br_worker_left(c.workers[1]))
        assert_true(cluster_step(&c));
    cluster_destroy(&c);
}

static void queue__urgent_overtakes_bulk(void **state)
{
    uint32_t bulk = 16 << 20, urgent = 64 << 10;
    uint8_t *from = calloc(1, bulk), *to = calloc(1, bulk), *from2 = calloc(1, urgent),
            *to2 = calloc(1, urgent);
    struct br_sim_config config = {.seed = 1, .bits_per_second = 1000000000};
    struct br_transfer s1 = {.tag = 1, .peer = 1, .length = bulk, .memory = from, .order = 1};
    struct br_transfer r1 = {.tag = 1, .peer = 0, .length = bulk, .memory = to, .order = 1};
    struct br_transfer s2 = {
        .tag = 2, .peer = 1, .length = urgent, .memory = from2, .order = 2, .priority = 5};
    struct br_transfer r2 = {
        .tag = 2, .peer = 0, .length = urgent, .memory = to2, .order = 2, .priority = 5};
    uint64_t start;
    struct cluster c;

    (void)state;
    cluster_create(&c, 2, 1, &config, NULL);
    assert_int_equal(br_transfer_receive(c.workers[1], &r1), 0);
    assert_int_equal(br_transfer_send(c.workers[0], &s1), 0);
    cluster_run(&c, 2, br_sim_now(c.sim) + 20 * BR_MS);
    assert_int_equal(c.done, 0);
    start = br_sim_now(c.sim);
    assert_int_equal(br_transfer_receive(c.workers[1], &r2), 0);
    assert_int_equal(br_transfer_send(c.workers[0], &s2), 0);
    while (r2.state != BR_TRANSFER_ENDED)
        assert_true(cluster_step(&c));
    assert_true(r1.state != BR_TRANSFER_ENDED);
    /* 64 KiB take 0.53 ms alone; in front of them at most one window and one READY */
    assert_true(br_sim_now(c.sim) - start < BR_MS + c.workers[0]->peers[1].rails[0].window * 8ull);
    cluster_run(&c, 4, br_sim_now(c.sim) + BR_SEC);
    assert_int_equal(c.done, 4);
    cluster_destroy(&c);
    free(from);
    free(to);
    free(from2);
    free(to2);
}

/* A peer that is no neighbour has no rail: the transfer stays the caller's. */
static void transfer__to_a_peer_without_rails(void **state)
{
    struct br_worker_config config = {.rank = 3,
                                      .size = 9,
                                      .neighbours = 4,
                                      .eager_bytes = 4096,
                                      .slice_bytes = 65536,
                                      .max_slots = 4,
                                      .max_transfers = 16};
    uint8_t memory[8] = {0};
    struct br_transfer t = {.tag = 1, .peer = 7, .length = sizeof memory, .memory = memory};
    struct br_worker *w;

    (void)state;
    assert_int_equal(br_worker_create(&config, &w), 0);
    assert_true(br_worker_connected(w));
    assert_int_equal(br_transfer_send(w, &t), -EHOSTUNREACH);
    assert_says(br_error_message(), "rank 3|rank 7|neighbours");
    assert_int_equal(br_transfer_receive(w, &t), -EHOSTUNREACH);
    br_worker_leave(w);
    assert_true(br_worker_left(w));
    br_worker_destroy(w);
}

static void goes_by__all_rails_or_none(void **state)
{
    struct cluster c;

    (void)state;
    cluster_create(&c, 2, 2, &plain, NULL);
    assert_true(br_worker_uses_only(c.workers[0], 1, 3));
    assert_true(br_worker_uses_only(c.workers[0], 1, 0xff));
    assert_false(br_worker_uses_only(c.workers[0], 1, 1));
    assert_false(br_worker_uses_only(c.workers[0], 1, 2));
    assert_false(br_worker_uses_only(c.workers[0], 0, 3)); /* no rails to oneself */
    cluster_destroy(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transfer__sizes_on_one_rail),
        cmocka_unit_test(transfer__sizes_on_three_rails),
        cmocka_unit_test(transfer__sizes_where_sent_proves_nothing),
        cmocka_unit_test(transfer__sizes_on_a_bad_network),
        cmocka_unit_test(transfer__more_messages_than_credits),
        cmocka_unit_test(transfer__to_a_peer_without_rails),
        cmocka_unit_test(failover__rail_lost_in_a_transfer),
        cmocka_unit_test(failover__arrivals_nobody_has_seen),
        cmocka_unit_test(failover__rail_comes_back),
        cmocka_unit_test(keepalive__all_are_starved),
        cmocka_unit_test(failover__last_rail_is_the_peer),
        cmocka_unit_test(leave__what_was_sent_before_arrives),
        cmocka_unit_test(queue__urgent_overtakes_bulk),
        cmocka_unit_test(goes_by__all_rails_or_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
