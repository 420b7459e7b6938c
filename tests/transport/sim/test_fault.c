/* SPDX-License-Identifier: BSD-3-Clause */
/* What breaks, who notices and when. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "net.h"
#include "tests/says.h"

static const uint8_t payload[4096];
static struct net net;

static void add(enum br_sim_fault_kind kind, uint64_t in, int host, int peer, int port)
{
    struct br_sim_fault fault = {
        .kind = kind, .at = br_sim_now(net.sim) + in, .host = host, .peer = peer, .port = port};

    assert_int_equal(br_sim_add_fault(net.sim, &fault), 0);
}

static int setup(void **state)
{
    struct br_sim_config config = {.seed = 1, .retransmit_ns = BR_MS, .retry_limit = 5};

    (void)state;
    net_open(&net, &config, 4);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    net_close(&net);
    return 0;
}

/* Posts a message every 100 us for `duration`, both ways. */
static void talk(int a, int b, uint64_t duration)
{
    uint64_t end = br_sim_now(net.sim) + duration;

    while (br_sim_now(net.sim) < end) {
        if (net.hosts[a].link[b])
            net_message(&net, a, b, payload, 100);
        if (net.hosts[b].link[a])
            net_message(&net, b, a, payload, 100);
        net_run(&net, br_sim_now(net.sim) + 100 * BR_US);
    }
}

static void port_down__short_is_survived(void **state)
{
    (void)state;
    add(BR_SIM_PORT_DOWN, BR_MS, 1, 0, 0);
    add(BR_SIM_PORT_UP, 4 * BR_MS, 1, 0, 0);
    talk(0, 1, 10 * BR_MS);
    net_run(&net, BR_SIM_NEVER);
    assert_int_equal(net.hosts[0].closed + net.hosts[1].closed, 0);
    assert_int_equal(net.hosts[1].messages, net.hosts[0].sent);
    assert_true(br_sim_counters(net.sim)->resent > 0);
    assert_true(net.hosts[0].sent > 60); /* tx_depth holds some up while it is down */
}

/* What is on the wire is lost, however short the outage. */
static void port_down__blip_loses_what_flies(void **state)
{
    (void)state;
    net_message(&net, 0, 1, NULL, 0);
    add(BR_SIM_PORT_DOWN, 1, 1, 0, 0);
    add(BR_SIM_PORT_UP, 2, 1, 0, 0);
    net_message(&net, 2, 3, NULL, 0);
    add(BR_SIM_PATH_DOWN, 1, 2, 3, 0);
    add(BR_SIM_PATH_UP, 2, 2, 3, 0);
    net_run(&net, BR_SIM_NEVER);
    assert_int_equal(br_sim_counters(net.sim)->lost, 2);
    assert_int_equal(net.hosts[0].sent + net.hosts[2].sent, 2);
    assert_int_equal(net.hosts[1].messages + net.hosts[3].messages, 2);
}

static void port_down__long_fails_the_link_in_time(void **state)
{
    uint64_t start;

    (void)state;
    add(BR_SIM_PORT_DOWN, 0, 1, 0, 0);
    br_sim_advance_to(net.sim, br_sim_now(net.sim));
    start = br_sim_now(net.sim);
    assert_int_equal(net_message(&net, 0, 1, NULL, 0), 1);
    while (!net.hosts[0].closed && br_sim_advance(net.sim))
        net_poll(&net);
    assert_int_equal(net.hosts[0].error, -ETIMEDOUT);
    assert_non_null(strstr(net.hosts[0].message, "sim0 (level 0) to host 1"));
    assert_says(net.hosts[0].message, "6 tries");
    assert_in_range(br_sim_now(net.sim) - start, 6 * BR_MS, 7 * BR_MS);
    assert_int_equal(net.hosts[0].sent, 0);
    assert_int_equal(br_sim_counters(net.sim)->failed_links, 1);
    talk(2, 3, BR_MS); /* the others go on */
    assert_true(net.hosts[3].messages >= 9);
}

static void switch_down__stops_everybody(void **state)
{
    (void)state;
    add(BR_SIM_SWITCH_DOWN, 0, 0, 0, 0);
    talk(0, 1, 20 * BR_MS);
    talk(2, 3, 20 * BR_MS);
    net_run(&net, BR_SIM_NEVER);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(net.hosts[i].closed, 1);
        assert_int_equal(net.hosts[i].messages, 0);
    }
}

static void path_down__stops_one_pair(void **state)
{
    (void)state;
    add(BR_SIM_PATH_DOWN, 0, 0, 1, -1);
    talk(0, 1, 20 * BR_MS);
    talk(0, 2, BR_MS);
    net_run(&net, BR_SIM_NEVER);
    assert_int_equal(net.hosts[0].closed, 1);
    assert_int_equal(net.hosts[1].closed, 1);
    assert_int_equal(net.hosts[1].messages, 0);
    assert_true(net.hosts[2].messages >= 9);
    add(BR_SIM_PATH_UP, 0, 0, 1, -1);
    br_sim_advance(net.sim);
    net_connect(&net, 0, 1);
    net_run(&net, BR_SIM_NEVER);
    talk(0, 1, BR_MS);
    assert_true(net.hosts[1].messages >= 9);
}

/* A power cut is noticed only by who speaks to the host; a link without traffic stays as it is. */
static void host_dead__is_noticed_by_silence(void **state)
{
    (void)state;
    add(BR_SIM_HOST_DEAD, 0, 3, 0, 0);
    net_run(&net, br_sim_now(net.sim) + BR_SEC);
    assert_true(br_sim_host_dead(net.sim, 3));
    assert_int_equal(net.hosts[0].closed + net.hosts[1].closed, 0);
    net_message(&net, 0, 3, NULL, 0);
    net_run(&net, BR_SIM_NEVER);
    assert_int_equal(net.hosts[0].error, -ETIMEDOUT);
    assert_int_equal(net.hosts[1].closed, 0);
    assert_int_equal(net.hosts[3].messages + net.hosts[3].closed, 0);
    net_connect(&net, 0, 3); /* nobody answers this either */
    net_run(&net, BR_SIM_NEVER);
    assert_int_equal(net.hosts[0].closed, 2);
    assert_int_equal(net.hosts[0].error, -ETIMEDOUT);
}

static void host_killed__is_reported_by_its_kernel(void **state)
{
    struct br_frame frame = {.kind = BR_FRAME_MESSAGE};
    struct br_event event;

    (void)state;
    add(BR_SIM_HOST_KILLED, 0, 3, 0, 0);
    net_run(&net, br_sim_now(net.sim) + BR_MS);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(net.hosts[i].closed, 1);
        assert_int_equal(net.hosts[i].error, -ECONNRESET);
    }
    assert_true(br_sim_ops.post(net.hosts[3].link[0], &frame, 1) < 0);
    assert_int_equal(br_sim_ops.poll(net.hosts[3].device, 0, &event, 1), 0);
    net_connect(&net, 0, 3);
    net_run(&net, BR_SIM_NEVER);
    assert_int_equal(net.hosts[0].closed, 2);
    assert_int_equal(net.hosts[0].error, -ECONNREFUSED);
}

/* The news of the death is lost: who speaks is told then. */
static void host_killed__while_its_port_is_down(void **state)
{
    (void)state;
    add(BR_SIM_PORT_DOWN, 0, 3, 0, 0);
    add(BR_SIM_HOST_KILLED, 1, 3, 0, 0);
    add(BR_SIM_PORT_UP, BR_SEC, 3, 0, 0);
    net_run(&net, BR_SIM_NEVER);
    assert_int_equal(net.hosts[0].closed, 0);
    net_message(&net, 0, 3, NULL, 0);
    net_run(&net, BR_SIM_NEVER);
    assert_int_equal(net.hosts[0].closed, 1);
    assert_int_equal(net.hosts[0].error, -ECONNRESET);
}

static void port_rate__slows_down(void **state)
{
    struct br_sim_fault slow = {
        .kind = BR_SIM_PORT_RATE, .at = br_sim_now(net.sim), .host = 0, .bits_per_second = 1000000};
    uint64_t start;

    (void)state;
    assert_int_equal(br_sim_add_fault(net.sim, &slow), 0);
    br_sim_advance(net.sim);
    start = br_sim_now(net.sim);
    net_message(&net, 0, 1, payload, 936); /* with its header 8,000 bits */
    net_run(&net, BR_SIM_NEVER);
    assert_in_range(net.hosts[1].last_message - start, 8 * BR_MS, 8 * BR_MS + 20 * BR_US);
}

static void add_fault__refuses_the_impossible(void **state)
{
    static const struct br_sim_fault bad[] = {
        {.kind = BR_SIM_PORT_DOWN, .host = 4},
        {.kind = BR_SIM_PORT_DOWN, .host = -1},
        {.kind = BR_SIM_PORT_UP, .host = 0, .port = 1},
        {.kind = BR_SIM_SWITCH_DOWN, .host = 1},
        {.kind = BR_SIM_PATH_DOWN, .host = 0, .peer = 9},
        {.kind = BR_SIM_PORT_RATE, .host = 0},
        {.kind = BR_SIM_HOST_DEAD, .host = 17},
        {.kind = (enum br_sim_fault_kind)77},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(br_sim_add_fault(net.sim, &bad[i]), -EINVAL);
}

/* A late packet of a closed link is counted and changes nothing. */
static void late_packet__is_counted(void **state)
{
    (void)state;
    net_message(&net, 0, 1, payload, 1000);
    br_sim_ops.link_close(net.hosts[1].link[0]);
    net.hosts[1].link[0] = NULL;
    net_run(&net, BR_SIM_NEVER);
    assert_int_equal(br_sim_counters(net.sim)->late, 1);
    assert_int_equal(net.hosts[1].messages, 0);
    assert_int_equal(net.hosts[0].sent, 0);
    assert_int_equal(net.hosts[0].error, -ECONNRESET);
}

/* A sender that changes mapped bytes before SENT is found out. */
static void mapped__changed_bytes_are_noticed(void **state)
{
    static uint8_t bytes[4096];
    struct br_sim_config config = {.maps = true};
    struct br_frame frame = {.kind = BR_FRAME_DATA, .payload = bytes, .length = sizeof bytes};
    struct br_slot *slot;
    struct net other;

    (void)state;
    net_open(&other, &config, 2);
    for (int change = 0; change < 2; change++) {
        slot = br_slot_get(&other.hosts[1].slots, NULL, sizeof bytes, 4096);
        slot->may_map = true;
        frame.slot = br_slot_number(&other.hosts[1].slots, slot);
        assert_int_equal(br_sim_ops.post(other.hosts[0].link[1], &frame, 1), 1);
        while (br_sim_advance(other.sim) && br_sim_take_ready(other.sim) < 0)
            ;
        bytes[5] = (uint8_t)change;
        struct br_event event;
        assert_int_equal(br_sim_ops.poll(other.hosts[1].device, 0, &event, 1), 1);
        br_sim_ops.release(other.hosts[1].device, NULL, event.buffer);
        net_run(&other, BR_SIM_NEVER);
        assert_int_equal(br_sim_counters(other.sim)->payload_changed, change);
        br_slot_put(&other.hosts[1].slots, slot);
    }
    net_close(&other);
}

static uint64_t chaos_run(uint64_t seed, int *deaths)
{
    struct br_sim_config config = {.seed = seed, .retransmit_ns = BR_MS, .loss_ppm = 1000};
    struct br_sim_chaos chaos = {.seed = seed,
                                 .duration = 50 * BR_MS,
                                 .max_outage_ns = 20 * BR_MS,
                                 .ports_down = 2,
                                 .switches_down = 1,
                                 .paths_down = 2,
                                 .slow_ports = 1,
                                 .deaths = 9};
    uint64_t hash;

    net_open(&net, &config, 4);
    chaos.from = br_sim_now(net.sim);
    assert_int_equal(br_sim_add_chaos(net.sim, &chaos), 0);
    for (int i = 0; i < 4; i++)
        talk(i, (i + 1) % 4, 20 * BR_MS);
    net_run(&net, BR_SIM_NEVER);
    *deaths = 0;
    for (int i = 0; i < 4; i++)
        *deaths += br_sim_host_dead(net.sim, i);
    hash = br_sim_trace_hash(net.sim);
    net_close(&net);
    return hash;
}

static void chaos__is_decided_by_the_seed_and_leaves_one_alive(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 30; seed++) {
        int deaths;
        uint64_t hash = chaos_run(seed, &deaths);

        assert_int_equal(deaths, 3);
        assert_true(hash == chaos_run(seed, &deaths));
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest cases[] = {
        CASE(port_down__short_is_survived),
        CASE(port_down__blip_loses_what_flies),
        CASE(port_down__long_fails_the_link_in_time),
        CASE(switch_down__stops_everybody),
        CASE(path_down__stops_one_pair),
        CASE(host_dead__is_noticed_by_silence),
        CASE(host_killed__is_reported_by_its_kernel),
        CASE(host_killed__while_its_port_is_down),
        CASE(port_rate__slows_down),
        CASE(add_fault__refuses_the_impossible),
        CASE(late_packet__is_counted),
        cmocka_unit_test(mapped__changed_bytes_are_noticed),
        cmocka_unit_test(chaos__is_decided_by_the_seed_and_leaves_one_alive),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
