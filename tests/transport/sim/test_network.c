/* SPDX-License-Identifier: BSD-3-Clause */
/* Time, rates, shared ports, clocks, and that a seed decides everything. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "net.h"

static uint8_t payload[65536];

/* All-to-all messages of random lengths from a seed of their own, over a rough network. */
static uint64_t rough_run(uint64_t seed, FILE *trace)
{
    struct br_sim_config config = {.seed = seed,
                                   .loss_ppm = 20000,
                                   .corrupt_ppm = 5000,
                                   .duplicate_ppm = 20000,
                                   .reorder_ppm = 100000,
                                   .retry_limit = 30,
                                   .clock_offset_ns = BR_SEC,
                                   .clock_drift_ppm = 100,
                                   .trace = trace};
    struct br_random random;
    struct net net;
    uint64_t hash;
    int posted = 0, arrived = 0;

    net_open(&net, &config, 4);
    br_random_seed(&random, 99);
    for (int i = 0; i < 500; i++) {
        int a = (int)br_random_below(&random, 4),
            b = (a + 1 + (int)br_random_below(&random, 3)) % 4;

        posted += net_message(&net, a, b, payload, (uint32_t)br_random_below(&random, 2000));
        net_run(&net, br_sim_now(net.sim) + br_random_below(&random, 5000));
    }
    net_run(&net, BR_SIM_NEVER);
    for (int i = 0; i < 4; i++)
        arrived += net.hosts[i].messages;
    assert_int_equal(arrived, posted);
    assert_true(br_sim_counters(net.sim)->resent > 0);
    assert_true(br_sim_counters(net.sim)->duplicates > 0);
    assert_true(br_sim_counters(net.sim)->corrupt > 0);
    hash = br_sim_trace_hash(net.sim);
    net_close(&net);
    return hash;
}

static void trace__is_decided_by_the_seed(void **state)
{
    (void)state;
    assert_true(rough_run(1, NULL) == rough_run(1, NULL));
    assert_true(rough_run(1, NULL) != rough_run(2, NULL));
}

static void trace__covers_every_payload_byte(void **state)
{
    uint64_t before = rough_run(3, NULL), after;

    (void)state;
    payload[777] ^= 1;
    after = rough_run(3, NULL);
    payload[777] ^= 1;
    assert_true(before != after);
    assert_true(rough_run(3, NULL) == before);
}

static void trace__as_text_is_the_same_too(void **state)
{
    static char text[2][4 << 20];

    (void)state;
    for (int i = 0; i < 2; i++) {
        FILE *out = fmemopen(text[i], sizeof text[i], "w");

        assert_non_null(out);
        rough_run(4, out);
        fclose(out);
    }
    assert_true(strlen(text[0]) > 10000);
    assert_string_equal(text[0], text[1]);
    assert_non_null(strstr(text[0], "deliver"));
}

/* 64 bytes at 1 Gb/s: 512 ns into the switch, 512 ns out of it, and two cables. */
static void latency__is_exact(void **state)
{
    struct br_sim_config config = {.bits_per_second = 1000000000, .latency_ns = 1000};
    struct net net;
    uint64_t start;

    (void)state;
    net_open(&net, &config, 2);
    start = br_sim_now(net.sim);
    assert_int_equal(net_message(&net, 0, 1, NULL, 0), 1);
    net_run(&net, BR_SIM_NEVER);
    assert_int_equal(net.hosts[1].last_message - start, 2 * (512 + 1000));
    /* the acknowledgement is back */
    assert_int_equal(br_sim_now(net.sim) - start, 2 * (512 + 1000) + 2000);
    net_close(&net);
}

/* A byte stream knows it, as a kernel does of TCP; a NIC with reliable links does not. */
static void facts__round_trip_of_a_byte_stream(void **state)
{
    (void)state;
    for (int stream = 0; stream < 2; stream++) {
        struct br_sim_config config = {.latency_ns = 1000, .early_sent = stream};
        struct net net;

        net_open(&net, &config, 2);
        assert_int_equal(net.hosts[0].link[1]->facts.min_rtt, stream ? 4000 : 0);
        assert_int_equal(net.hosts[1].link[0]->facts.min_rtt, stream ? 4000 : 0);
        net_close(&net);
    }
}

/* A switch that forwards early hides the second wire's time. */
static void forwarding__early_or_whole(void **state)
{
    struct br_sim_config config = {
        .bits_per_second = 1000000000, .latency_ns = 1000, .forward_bytes = UINT32_MAX};
    uint64_t wire = (64 + 10000) * 8ull, start;
    struct net net;

    (void)state;
    for (int early = 0; early < 2; early++) {
        config.forward_bytes = early ? 100 : UINT32_MAX;
        net_open(&net, &config, 2);
        start = br_sim_now(net.sim);
        assert_int_equal(net_message(&net, 0, 1, payload, 10000), 1);
        net_run(&net, BR_SIM_NEVER);
        assert_int_equal(net.hosts[1].last_message - start, wire + (early ? 800 : wire) + 2000);
        net_close(&net);
    }
}

/* Time for 50 messages of 64 KB from each of the senders. */
static uint64_t transfer_time(struct net *net, const int (*pairs)[2], int n)
{
    uint64_t start = br_sim_now(net->sim), last = start;
    int left[4] = {50, 50, 50, 50};

    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < n; i++) {
            while (left[i] && net_message(net, pairs[i][0], pairs[i][1], payload, 60000))
                left[i]--;
            more = more || left[i];
        }
        net_poll(net);
        br_sim_advance(net->sim);
        net_poll(net);
    }
    net_run(net, BR_SIM_NEVER);
    for (int i = 0; i < net->n; i++)
        last = net->hosts[i].last_message > last ? net->hosts[i].last_message : last;
    return last - start;
}

static void ports__are_shared(void **state)
{
    static const int alone[][2] = {{0, 1}}, disjoint[][2] = {{0, 1}, {2, 3}},
                     into_one[][2] = {{0, 3}, {1, 3}, {2, 3}}, out_of_one[][2] = {{0, 1}, {0, 2}},
                     both_ways[][2] = {{0, 1}, {1, 0}};
    struct br_sim_config config = {.bits_per_second = 1000000000};
    uint64_t one = 50ull * 60064 * 8, time;
    struct net net;

    (void)state;
    net_open(&net, &config, 4);
    time = transfer_time(&net, alone, 1);
    assert_in_range(time, one, one + one / 50);
    time = transfer_time(&net, disjoint, 2);
    assert_in_range(time, one, one + one / 50);
    time = transfer_time(&net, both_ways, 2);
    assert_in_range(time, one, one + one / 50);
    time = transfer_time(&net, into_one, 3);
    assert_in_range(time, 3 * one, 3 * one + one / 20);
    time = transfer_time(&net, out_of_one, 2);
    assert_in_range(time, 2 * one, 2 * one + one / 20);
    net_close(&net);
}

static void queue__overflows_and_recovers(void **state)
{
    static const int pairs[][2] = {{0, 3}, {1, 3}, {2, 3}};
    struct br_sim_config config = {.queue_bytes = 200000, .retry_limit = 1000};
    struct net net;

    (void)state;
    net_open(&net, &config, 4);
    transfer_time(&net, pairs, 3);
    assert_int_equal(net.hosts[3].messages, 150);
    assert_true(br_sim_counters(net.sim)->overflowed > 0);
    net_close(&net);
}

static void attach__own_rate_and_latency(void **state)
{
    struct br_sim_config config = {.bits_per_second = 1000000000, .latency_ns = 1000};
    struct net net;
    uint64_t start;

    (void)state;
    net_open(&net, &config, 2);
    br_sim_attach(net.sim, 1, 0, 0, 100000000, 5000);
    start = br_sim_now(net.sim);
    net_message(&net, 0, 1, NULL, 0);
    net_run(&net, BR_SIM_NEVER);
    assert_int_equal(net.hosts[1].last_message - start, 512 + 1000 + 5120 + 5000);
    net_close(&net);
}

/* The last byte cannot leave the switch before it has come in over a slower cable. */
static void attach__slow_into_fast(void **state)
{
    struct br_sim_config config = {
        .bits_per_second = 1000000000, .latency_ns = 1000, .forward_bytes = 100};
    struct net net;
    uint64_t start;

    (void)state;
    net_open(&net, &config, 2);
    br_sim_attach(net.sim, 0, 0, 0, 100000000, 0);
    start = br_sim_now(net.sim);
    net_message(&net, 0, 1, payload, 936);
    net_run(&net, BR_SIM_NEVER);
    assert_int_equal(net.hosts[1].last_message - start, 80000 + 1000 + 800 + 1000);
    net_close(&net);
}

static void device_open__names(void **state)
{
    struct br_sim_config config = {0};
    struct net net;
    struct br_device_config wrong;
    struct br_device *device;

    (void)state;
    net_open(&net, &config, 2);
    wrong = net.hosts[0].config;
    wrong.name = "sim7";
    assert_int_equal(br_transport_open(&br_sim_ops, &wrong, &device), -ENODEV);
    assert_non_null(strstr(br_error_message(), "sim7"));
    wrong.simulation = NULL;
    assert_int_equal(br_transport_open(&br_sim_ops, &wrong, &device), -EINVAL);
    wrong = net.hosts[0].config;
    wrong.name = NULL; /* by level */
    assert_int_equal(br_transport_open(&br_sim_ops, &wrong, &device), 0);
    assert_string_equal(device->name, "sim0");
    br_sim_ops.device_close(device);
    net_close(&net);
}

static void post__over_the_limit(void **state)
{
    struct br_sim_config config = {.max_frame = 8192, .max_message = 1000};
    struct br_frame frame = {.kind = BR_FRAME_DATA, .payload = payload, .length = 8193};
    struct net net;

    (void)state;
    net_open(&net, &config, 2);
    assert_int_equal(net.hosts[0].device->caps.max_frame, 8192);
    assert_int_equal(net.hosts[0].device->caps.max_message, 1000);
    assert_int_equal(br_sim_ops.post(net.hosts[0].link[1], &frame, 1), -EMSGSIZE);
    assert_int_equal(net_message(&net, 0, 1, payload, 1001), -EMSGSIZE);
    assert_int_equal(net_message(&net, 0, 1, payload, 1000), 1);
    net_run(&net, BR_SIM_NEVER);
    assert_int_equal(net.hosts[1].messages, 1);
    net_close(&net);
}

/* A deadline on a host's clock, turned into virtual time, has passed on that clock then, and not
 * long before. */
static void clock__deadlines(void **state)
{
    struct br_sim_config config = {
        .seed = 5, .clock_offset_ns = 10 * BR_SEC, .clock_drift_ppm = 200};
    bool differ = false;
    struct net net;

    (void)state;
    net_open(&net, &config, 4);
    for (uint64_t i = 1; i < 200; i++) {
        for (int host = 0; host < 4; host++) {
            uint64_t deadline = br_sim_host_now(net.sim, host) + i * 1234567, at;

            at = br_sim_time_of(net.sim, host, deadline);
            assert_true(at > br_sim_now(net.sim));
            br_sim_advance_to(net.sim, at - 3);
            assert_true(br_sim_host_now(net.sim, host) < deadline);
            br_sim_advance_to(net.sim, at);
            assert_in_range(br_sim_host_now(net.sim, host), deadline, deadline + 3);
            differ = differ || br_sim_host_now(net.sim, host) != br_sim_now(net.sim);
        }
    }
    assert_true(differ);
    assert_true(br_sim_time_of(net.sim, 0, UINT64_MAX) == BR_SIM_NEVER);
    net_close(&net);
}

static void take_ready__names_hosts_with_events(void **state)
{
    struct br_sim_config config = {0};
    struct br_event events[4];
    struct net net;

    (void)state;
    net_open(&net, &config, 3);
    assert_int_equal(br_sim_take_ready(net.sim), -1);
    assert_int_equal(net_message(&net, 0, 2, NULL, 0), 1);
    assert_int_equal(br_sim_take_ready(net.sim), -1);
    assert_true(br_sim_advance(net.sim)); /* at the switch */
    assert_true(br_sim_advance(net.sim)); /* there */
    assert_int_equal(br_sim_take_ready(net.sim), 2);
    assert_int_equal(br_sim_take_ready(net.sim), -1);
    assert_int_equal(br_sim_ops.poll(net.hosts[2].device, 0, events, 4), 1);
    br_sim_ops.release(events[0].link->device, events[0].link, events[0].buffer);
    assert_true(br_sim_advance(net.sim)); /* acknowledged */
    assert_int_equal(br_sim_take_ready(net.sim), 0);
    assert_false(br_sim_advance(net.sim));
    assert_true(br_sim_next(net.sim) == BR_SIM_NEVER);
    net_close(&net);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(trace__is_decided_by_the_seed),
        cmocka_unit_test(trace__covers_every_payload_byte),
        cmocka_unit_test(trace__as_text_is_the_same_too),
        cmocka_unit_test(latency__is_exact),
        cmocka_unit_test(facts__round_trip_of_a_byte_stream),
        cmocka_unit_test(forwarding__early_or_whole),
        cmocka_unit_test(ports__are_shared),
        cmocka_unit_test(queue__overflows_and_recovers),
        cmocka_unit_test(attach__own_rate_and_latency),
        cmocka_unit_test(attach__slow_into_fast),
        cmocka_unit_test(device_open__names),
        cmocka_unit_test(post__over_the_limit),
        cmocka_unit_test(clock__deadlines),
        cmocka_unit_test(take_ready__names_hosts_with_events),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
