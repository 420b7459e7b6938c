/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers that are reached through others: no neighbours, and neighbours whose rail is down; in the
 * simulator. */
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

#include "base/clock.h"
#include "base/log.h"
#include "tests/protocol/cluster.h"
#include "protocol/relay/relay.h"
#include "tests/says.h"

#define MOST 64

/* One transfer from a rank to another, and its bytes. */
struct parcel {
    struct br_transfer send, receive;
    uint8_t *from, *to;
};

static struct parcel parcels[MOST];
static int n_parcels;

static uint8_t pattern(int i, uint32_t at)
{
    return (uint8_t)((uint32_t)i * 37 + at * 7 + (at >> 8));
}

static void parcel_open(int i, uint32_t length)
{
    struct parcel *p = &parcels[i];

    memset(p, 0, sizeof *p);
    p->from = malloc(length);
    p->to = calloc(1, length);
    assert_non_null(p->from);
    assert_non_null(p->to);
    for (uint32_t at = 0; at < length; at++)
        p->from[at] = pattern(i, at);
}

static void post(struct cluster *c, int from, int to, uint32_t length)
{
    int i = n_parcels++;
    struct parcel *p = &parcels[i];

    assert_true(i < MOST);
    parcel_open(i, length);
    p->send =
        (struct br_transfer){.tag = (uint64_t)i, .peer = to, .memory = p->from, .length = length};
    p->receive =
        (struct br_transfer){.tag = (uint64_t)i, .peer = from, .memory = p->to, .length = length};
    assert_int_equal(br_transfer_receive(c->workers[to], &p->receive), 0);
    assert_int_equal(br_transfer_send(c->workers[from], &p->send), 0);
}

static void look(void)
{
    for (int i = 0; i < n_parcels; i++) {
        struct parcel *p = &parcels[i];

        assert_int_equal(p->send.state, BR_TRANSFER_ENDED);
        assert_int_equal(p->receive.state, BR_TRANSFER_ENDED);
        assert_memory_equal(p->from, p->to, p->send.length);
    }
}

static void forget(void)
{
    for (int i = 0; i < n_parcels; i++) {
        free(parcels[i].from);
        free(parcels[i].to);
    }
    n_parcels = 0;
}

static void run_until_done(struct cluster *c)
{
    cluster_run(c, 2 * n_parcels, br_sim_now(c->sim) + 20 * BR_SEC);
    for (int i = 0; i < c->n; i++)
        if (c->workers[i]->failed && !br_sim_host_dead(c->sim, i))
            print_error("rank %d: %s\n", i, c->workers[i]->message);
    for (int i = 0; i < n_parcels; i++)
        if (parcels[i].send.state != BR_TRANSFER_ENDED ||
            parcels[i].receive.state != BR_TRANSFER_ENDED)
            print_error("parcel %d, %d to %d, %u bytes: states %d, %d\n", i,
                        parcels[i].receive.peer, parcels[i].send.peer, parcels[i].send.length,
                        parcels[i].send.state, parcels[i].receive.state);
    look();
}

static void run_for(struct cluster *c, uint64_t ns)
{
    uint64_t until = br_sim_now(c->sim) + ns;

    while (br_sim_now(c->sim) < until && cluster_step(c))
        ;
}

static void fault(struct cluster *c, enum br_sim_fault_kind kind, int host, int port,
                  uint64_t after)
{
    struct br_sim_fault f = {
        .kind = kind, .host = host, .port = port, .at = br_sim_now(c->sim) + after};

    assert_int_equal(br_sim_add_fault(c->sim, &f), 0);
}

static uint64_t relayed(const struct cluster *c)
{
    uint64_t n = 0;

    for (int i = 0; i < c->n; i++)
        n += c->workers[i]->counters.relayed_bytes;
    return n;
}

static void part(struct cluster *c)
{
    uint64_t until = br_sim_now(c->sim) + 5 * BR_SEC;
    bool left = false;

    for (int i = 0; i < c->n; i++)
        br_worker_leave(c->workers[i]);
    while (!left && br_sim_now(c->sim) < until) {
        assert_true(cluster_step(c));
        left = true;
        for (int i = 0; i < c->n; i++)
            left = left && br_worker_left(c->workers[i]);
    }
    assert_true(left);
    for (int i = 0; i < c->n; i++)
        assert_int_equal(c->workers[i]->failed, 0);
}

static void finish(struct cluster *c)
{
    forget();
    cluster_destroy(c);
}

/* A rank that leaves has no route to another one, which makes one and still sends. It hears that
 * the other has left, and both end at once when it leaves, too. */
static void peer__route_to_one_that_leaves(void **state)
{
    uint8_t byte = 1;
    struct br_transfer send = {.tag = 7, .peer = 0, .memory = &byte, .length = 1};
    struct cluster c;
    struct br_peer *peer;
    uint64_t begin;

    (void)state;
    cluster_create_bcube(&c, 3, 2, &(struct br_sim_config){.seed = 1}, NULL);
    peer = &c.workers[0]->peers[8];
    post(&c, 0, 4, 8); /* whom it tells first, and who does not leave yet */
    post(&c, 0, 8, 8);
    run_until_done(&c);
    run_for(&c, 300 * BR_MS); /* it is acknowledged */
    br_worker_leave(c.workers[0]);
    for (int i = 0; i < peer->n_rails; i++)
        br_rail_give_up(c.workers[0], &peer->rails[i], "no route");
    assert_int_equal(peer->state, BR_PEER_LEFT);
    assert_int_equal(br_transfer_send(c.workers[8], &send), 0);
    run_for(&c, 300 * BR_MS);
    assert_int_equal(send.state, BR_TRANSFER_ENDED);
    assert_int_equal(c.workers[8]->peers[0].state, BR_PEER_LEFT);
    assert_false(br_worker_left(c.workers[0]));
    begin = br_sim_now(c.sim);
    part(&c);
    assert_in_range(br_sim_now(c.sim) - begin, 0, 500 * BR_MS);
    finish(&c);
}

/* Small and large ones between any two of a cube, at once. */
static void all_pairs(int n, int k, const struct br_sim_config *config)
{
    struct cluster c;

    cluster_create_bcube(&c, n, k, config, NULL);
    for (int i = 0; i < 3; i++) {
        post(&c, 0, c.n - 1, i == 0 ? 8 : i == 1 ? 3000 : 1 << 20);
        post(&c, c.n - 1, 0, i == 0 ? 8 : i == 1 ? 3000 : 1 << 20);
        for (int r = 1; r < c.n - 1; r++)
            post(&c, r, (r + c.n / 2) % c.n, i == 0 ? 24 : i == 1 ? 4096 : 300000);
    }
    run_until_done(&c);
    assert_true(relayed(&c) > 2 << 20);
    part(&c);
    finish(&c);
}

static void peer__no_neighbour(void **state)
{
    (void)state;
    all_pairs(2, 2, &(struct br_sim_config){.seed = 1});
    all_pairs(3, 2, &(struct br_sim_config){.seed = 2, .early_sent = true});
    all_pairs(2, 3, &(struct br_sim_config){.seed = 3, .unordered = true});
    all_pairs(2, 4, &(struct br_sim_config){.seed = 4, .loss_ppm = 1000});
}

/* Nothing is relayed between neighbours as long as their rail is up. */
static void peer__neighbour_goes_directly(void **state)
{
    struct cluster c;

    (void)state;
    cluster_create_bcube(&c, 3, 2, &(struct br_sim_config){.seed = 1}, NULL);
    post(&c, 0, 1, 1 << 20);
    post(&c, 0, 3, 1 << 20);
    run_until_done(&c);
    assert_int_equal(relayed(&c), 0);
    part(&c);
    finish(&c);
}

/* A NIC is lost in the middle: the transfer goes on through others, and over its level again when
 * that is back. */
static void peer__nic_down_and_up(void **state)
{
    struct cluster c;
    uint64_t before;

    (void)state;
    cluster_create_bcube(&c, 3, 2, &(struct br_sim_config){.seed = 1}, NULL);
    fault(&c, BR_SIM_PORT_DOWN, 1, 0, BR_MS / 2);
    for (int i = 0; i < 4; i++)
        post(&c, 0, 1, 4 << 20);
    run_until_done(&c);
    assert_true(relayed(&c) > 1 << 20);
    assert_null(br_peer_direct(&c.workers[0]->peers[1]));
    fault(&c, BR_SIM_PORT_UP, 1, 0, 0);
    run_for(&c, 3 * BR_SEC);
    assert_non_null(br_peer_direct(&c.workers[0]->peers[1]));
    before = relayed(&c);
    post(&c, 0, 1, 4 << 20);
    run_until_done(&c);
    assert_true(relayed(&c) - before < 4096);
    part(&c);
    finish(&c);
}

static void peer__switch_down_and_up(void **state)
{
    struct cluster c;

    (void)state;
    cluster_create_bcube(&c, 3, 2, &(struct br_sim_config){.seed = 5}, NULL);
    fault(&c, BR_SIM_SWITCH_DOWN, br_sim_bcube_switch(&c.cube, 0, 0), 0, BR_MS / 2);
    for (int i = 0; i < 3; i++) {
        post(&c, i, (i + 1) % 3, 4 << 20);
        post(&c, i, 8 - i, 1 << 20);
    }
    run_until_done(&c);
    fault(&c, BR_SIM_SWITCH_UP, br_sim_bcube_switch(&c.cube, 0, 0), 0, 0);
    run_for(&c, 3 * BR_SEC);
    assert_non_null(br_peer_direct(&c.workers[0]->peers[1]));
    assert_non_null(br_peer_direct(&c.workers[2]->peers[1]));
    part(&c);
    finish(&c);
}

/* The host in between dies under a route: another one takes over; but a dead rank ends the job. */
static void peer__route_breaks(void **state)
{
    struct cluster c;

    (void)state;
    cluster_create_bcube(&c, 3, 2, &(struct br_sim_config){.seed = 6}, NULL);
    post(&c, 0, 4, 4 << 20); /* by way of 1 and of 3 */
    fault(&c, BR_SIM_PORT_DOWN, 1, 0, BR_MS);
    fault(&c, BR_SIM_PORT_DOWN, 3, 0, BR_MS);
    fault(&c, BR_SIM_PORT_DOWN, 1, 1, 2 * BR_MS);
    fault(&c, BR_SIM_PORT_UP, 1, 1, 400 * BR_MS);
    run_until_done(&c);
    finish(&c);
}

/* A starved machine: each rank runs once a period only, one after the other, so a frame waits on
 * every host on its way. */
static void starve(struct cluster *c, uint64_t period, uint64_t ns)
{
    uint64_t until = br_sim_now(c->sim) + ns, next[MOST];

    for (int i = 0; i < c->n; i++)
        next[i] = br_sim_now(c->sim) + period * (uint64_t)(i * 7 % c->n) / (uint64_t)c->n;
    while (br_sim_now(c->sim) < until) {
        int i = 0;

        for (int k = 1; k < c->n; k++)
            i = next[k] < next[i] ? k : i;
        br_sim_advance_to(c->sim, next[i]);
        next[i] += period;
        while (br_worker_poll(c->workers[i], br_sim_host_now(c->sim, i)) +
               br_worker_pump(c->workers[i], br_sim_host_now(c->sim, i)))
            ;
    }
}

static uint64_t failures(const struct cluster *c, bool alternates)
{
    uint64_t n = 0;

    for (int i = 0; i < c->n; i++)
        for (int r = 0; r < c->n; r++)
            for (int k = 0; k < c->workers[i]->peers[r].n_rails; k++)
                if (c->workers[i]->peers[r].rails[k].alternate == alternates)
                    n += c->workers[i]->peers[r].rails[k].failures;
    return n;
}

/* Between ranks four hops apart PING and its answer wait eight times for a rank to run: longer than
 * a direct rail may be silent. */
static void peer__starved_hosts_in_between(void **state)
{
    struct cluster c;

    (void)state;
    cluster_create_bcube(&c, 2, 4, &(struct br_sim_config){.seed = 1}, NULL);
    for (int r = 0; r < c.n; r++)
        post(&c, r, c.n - 1 - r, 3000);
    run_until_done(&c);
    starve(&c, 100 * BR_MS, 10 * BR_SEC);
    for (int i = 0; i < c.n; i++)
        assert_int_equal(c.workers[i]->failed, 0);
    assert_int_equal(failures(&c, false), 0);
    assert_int_equal(failures(&c, true), 0);
    for (int r = 0; r < c.n; r++)
        post(&c, r, c.n - 1 - r, 3000);
    run_until_done(&c);
    part(&c);
    finish(&c);
}

/* The handshake takes four messages over four hops each: longer than an attempt has where other
 * routes may be better. */
static void peer__reached_on_a_starved_machine(void **state)
{
    struct cluster c;

    (void)state;
    cluster_create_bcube(&c, 2, 4, &(struct br_sim_config){.seed = 1}, NULL);
    for (int r = 0; r < c.n; r++)
        post(&c, r, c.n - 1 - r, 3000);
    starve(&c, 40 * BR_MS, 3 * BR_SEC);
    for (int i = 0; i < c.n; i++)
        assert_int_equal(c.workers[i]->failed, 0);
    run_until_done(&c);
    assert_int_equal(failures(&c, true), 0);
    part(&c);
    finish(&c);
}

static struct br_rail *alternate_up(struct cluster *c, int from, int to)
{
    struct br_peer *peer = &c->workers[from]->peers[to];

    for (int i = 0; i < peer->n_rails; i++)
        if (peer->rails[i].alternate && peer->rails[i].state == BR_RAIL_UP)
            return &peer->rails[i];
    return NULL;
}

/* Alternate routes to one peer that are lost again and again: a warning at each end, and the next
 * one a minute later says how many. */
static void peer__lost_alternates_warn_once_a_minute(void **state)
{
    int saved = dup(STDERR_FILENO), lines = 0, counted = 0;
    FILE *log = tmpfile();
    struct cluster c;
    char line[512];

    (void)state;
    assert_non_null(log);
    assert_true(saved >= 0);
    cluster_create_bcube(&c, 3, 2, &(struct br_sim_config){.seed = 8}, NULL);
    post(&c, 0, 4, 3000);
    run_until_done(&c);
    br_log_set_level(BR_LOG_WARN);
    dup2(fileno(log), STDERR_FILENO);
    for (int i = 0; i < 21; i++) {
        struct br_rail *rail;

        run_for(&c, i < 20 ? BR_SEC : 61 * BR_SEC);
        rail = alternate_up(&c, 0, 4);
        if (!rail)
            break;
        br_rail_lost(c.workers[0], rail, ECONNRESET, "cut");
        lines += i < 20;
    }
    run_for(&c, BR_SEC);
    dup2(saved, STDERR_FILENO);
    close(saved);
    br_log_set_level(BR_LOG_ERROR);
    assert_int_equal(lines, 20);
    assert_int_equal(failures(&c, true), 42); /* 21 at each end */
    rewind(log);
    for (lines = 0; fgets(line, sizeof line, log); lines++) {
        assert_says(line, "rank 0|rank 4|relay");
        counted += strstr(line, "19 ") != NULL;
    }
    fclose(log);
    assert_int_equal(lines, 4);
    assert_int_equal(counted, 2);
    finish(&c);
}

static void peer__dead_rank(enum br_sim_fault_kind kind)
{
    struct cluster c;
    uint64_t start;

    cluster_create_bcube(&c, 3, 2, &(struct br_sim_config){.seed = 7}, NULL);
    post(&c, 0, 4, 8 << 20);
    start = br_sim_now(c.sim);
    fault(&c, kind, 4, 0, BR_MS);
    while (!c.workers[0]->failed && br_sim_now(c.sim) < start + 5 * BR_SEC)
        assert_true(cluster_step(&c));
    assert_int_equal(c.workers[0]->failed, -ECONNRESET);
    assert_says(c.workers[0]->message, "rank 4");
    assert_true(br_sim_now(c.sim) - start < 1500 * BR_MS);
    finish(&c);
}

static void peer__power_cut(void **state)
{
    (void)state;
    peer__dead_rank(BR_SIM_HOST_DEAD);
}

static void peer__killed(void **state)
{
    (void)state;
    peer__dead_rank(BR_SIM_HOST_KILLED);
}

static int reset(void **state)
{
    (void)state;
    n_parcels = 0;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(peer__route_to_one_that_leaves, reset),
        cmocka_unit_test_setup(peer__no_neighbour, reset),
        cmocka_unit_test_setup(peer__neighbour_goes_directly, reset),
        cmocka_unit_test_setup(peer__nic_down_and_up, reset),
        cmocka_unit_test_setup(peer__switch_down_and_up, reset),
        cmocka_unit_test_setup(peer__route_breaks, reset),
        cmocka_unit_test_setup(peer__starved_hosts_in_between, reset),
        cmocka_unit_test_setup(peer__reached_on_a_starved_machine, reset),
        cmocka_unit_test_setup(peer__lost_alternates_warn_once_a_minute, reset),
        cmocka_unit_test_setup(peer__power_cut, reset),
        cmocka_unit_test_setup(peer__killed, reset),
    };

    br_log_set_level(getenv("BRAID_STORM_LOG") ? BR_LOG_DEBUG : BR_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
