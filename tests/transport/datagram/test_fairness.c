/* SPDX-License-Identifier: BSD-3-Clause */
/* Congestion control on shared bottlenecks, in virtual time: use, queues, fairness, incast,
 * loss. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/transport/datagram/netem.h"

#define FLOWS 8u
#define FRAME 65536u

/* Flows that always have something to send. */
struct crowd {
    struct netem_net net;
    struct netem_memory memory;
    uint32_t number; /* of the slot */
    unsigned n;
    struct flow {
        unsigned end;
        uint64_t bytes; /* that have been placed */
        unsigned frames, sent;
        unsigned posted, wanted; /* frames; wanted 0: no end */
        bool both;               /* the second end sends as well */
    } flows[FLOWS];
};

static void post(struct crowd *crowd, struct flow *flow, unsigned end)
{
    struct br_frame frame = {.kind = BR_FRAME_DATA,
                             .payload = crowd->memory.source,
                             .length = FRAME,
                             .slot = crowd->number,
                             .cookie = 1};

    while ((!flow->wanted || flow->posted < flow->wanted) &&
           br_dgram_link_post(crowd->net.ends[end].link, &frame, 1) == 1)
        flow->posted++;
}

static void on_event(void *owner, unsigned end, const struct br_event *event)
{
    struct crowd *crowd = owner;
    struct flow *flow = &crowd->flows[end / 2];

    assert_int_not_equal(event->kind, BR_EVENT_CLOSED);
    if (event->kind == BR_EVENT_ACCEPTED || event->kind == BR_EVENT_CONNECTED)
        br_dgram_link_authenticate(crowd->net.ends[end].link);
    if (event->kind == BR_EVENT_DATA)
        flow->bytes += event->length;
    if (event->kind == BR_EVENT_SENT)
        flow->sent++;
    if (event->kind == BR_EVENT_CONNECTED || event->kind == BR_EVENT_SENT ||
        (event->kind == BR_EVENT_ACCEPTED && flow->both))
        post(crowd, flow, end);
}

static struct crowd *begin(uint64_t bits_per_second, uint32_t buffer, uint64_t delay)
{
    struct crowd *crowd = calloc(1, sizeof *crowd);

    assert_non_null(crowd);
    netem_init(&crowd->net, 7);
    crowd->net.ports[0] = (struct netem_port){.bits_per_second = bits_per_second, .buffer = buffer};
    crowd->net.impairments.delay = delay;
    netem_memory_init(&crowd->memory, 1, FRAME);
    crowd->number = br_slot_number(
        &crowd->memory.slots, br_slot_get(&crowd->memory.slots, crowd->memory.place, FRAME, FRAME));
    return crowd;
}

static void end(struct crowd *crowd)
{
    netem_destroy(&crowd->net);
    netem_memory_destroy(&crowd->memory);
    free(crowd);
}

static struct flow *join(struct crowd *crowd, uint32_t packet, uint32_t paths, unsigned frames)
{
    struct br_dgram_config config = {.slots = &crowd->memory.slots,
                                     .message_bytes = 256,
                                     .message_buffers = 4,
                                     .max_packet = packet,
                                     .paths = paths,
                                     .header_only = true,
                                     .patience = BR_SEC};
    struct flow *flow = &crowd->flows[crowd->n++];

    flow->wanted = frames;
    flow->end = netem_pair(&crowd->net, &config, 0);
    for (unsigned i = 0; i < 2; i++) {
        crowd->net.ends[flow->end + i].event = on_event;
        crowd->net.ends[flow->end + i].owner = crowd;
    }
    netem_connect(&crowd->net, flow->end);
    return flow;
}

static void forget(struct crowd *crowd)
{
    for (unsigned i = 0; i < crowd->n; i++)
        crowd->flows[i].bytes = 0;
}

/* Share of the port's rate that arrives as payload in `time` from now. */
static double use(struct crowd *crowd, uint64_t time)
{
    double bytes = 0;

    forget(crowd);
    netem_run(&crowd->net, crowd->net.now + time);
    for (unsigned i = 0; i < crowd->n; i++)
        bytes += (double)crowd->flows[i].bytes;
    return bytes * 8 * BR_SEC / (double)time / (double)crowd->net.ports[0].bits_per_second;
}

static void report(const char *what, struct crowd *crowd, double share)
{
    struct br_dgram_stats stats;

    printf("%s: %.3f\n", what, share);
    for (unsigned i = 0; getenv("BRAID_VERBOSE") && i < crowd->n; i++) {
        br_dgram_link_stats(crowd->net.ends[crowd->flows[i].end].link, &stats);
        printf("  flow %u: %9llu bytes, window %.2f, round trip %llu us, least %llu us, lost %llu "
               "of %llu, "
               "timeouts %llu\n",
               i, (unsigned long long)crowd->flows[i].bytes, stats.window[0],
               (unsigned long long)(stats.rtt[0] / BR_US),
               (unsigned long long)(stats.min_rtt[0] / BR_US),
               (unsigned long long)stats.lost_packets, (unsigned long long)stats.tx_packets,
               (unsigned long long)stats.timeouts);
    }
}

static void fairness__one_flow_fills_the_port(void **state)
{
    static const struct {
        uint64_t bits, delay;
        uint32_t packet;
    } cases[] = {
        {BR_SEC, 20 * BR_US, 1472},        {10 * BR_SEC, 20 * BR_US, 1472},
        {10 * BR_SEC, 20 * BR_US, 8972},   {10 * BR_SEC, 500 * BR_US, 8972},
        {BR_SEC, 5 * BR_MS, 1472},         {100 * 1000000, 50 * BR_US, 1472},
        {100 * 1000000, 50 * BR_US, 8972},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct crowd *crowd = begin(cases[i].bits, 4 << 20, cases[i].delay);
        double share;

        join(crowd, cases[i].packet, 1, 0);
        use(crowd, 300 * BR_MS);
        share = use(crowd, 300 * BR_MS);
        report("one flow", crowd, share);
        assert_true(share > (cases[i].packet > 8000 ? 0.9 : 0.85));
        end(crowd);
    }
}

static void fairness__two_flows(void **state)
{
    (void)state;
    for (unsigned late = 0; late < 2; late++) {
        struct crowd *crowd = begin(BR_SEC, 1 << 20, 50 * BR_US);
        double share, a, b;

        join(crowd, 1472, 1, 0);
        if (late)
            use(crowd, BR_SEC);
        join(crowd, 1472, 1, 0);
        use(crowd, 2 * BR_SEC);
        share = use(crowd, BR_SEC);
        report(late ? "two flows, one late" : "two flows", crowd, share);
        a = (double)crowd->flows[0].bytes;
        b = (double)crowd->flows[1].bytes;
        assert_true(share > 0.85);
        assert_true(a < 1.1 * b && b < 1.1 * a);
        end(crowd);
    }
}

static void fairness__incast(void **state)
{
    static const uint32_t buffers[] = {128 << 10, 1 << 20};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct crowd *crowd = begin(10 * BR_SEC, buffers[i], 20 * BR_US);
        uint64_t least = UINT64_MAX, most = 0;
        double share;

        for (unsigned k = 0; k < FLOWS; k++)
            join(crowd, 8972, 1, 0);
        use(crowd, 200 * BR_MS);
        share = use(crowd, 300 * BR_MS);
        report("incast", crowd, share);
        for (unsigned k = 0; k < FLOWS; k++) {
            uint64_t bytes = crowd->flows[k].bytes;

            least = bytes < least ? bytes : least;
            most = bytes > most ? bytes : most;
        }
        assert_true(share > 0.85);
        assert_true(2 * least > most);
        end(crowd);
    }
}

/* Each way, acknowledgements take from the rate of the data. */
static void fairness__both_ways_few_acknowledgements(void **state)
{
    struct crowd *crowd = begin(200 * 1000000, 1 << 20, 50 * BR_US);
    struct br_dgram_stats before, after;
    struct flow *flow;
    double share, acks, packets;

    (void)state;
    flow = join(crowd, 1472, 1, 0);
    flow->both = true;
    crowd->net.ports[1] = crowd->net.ports[0];
    crowd->net.ends[flow->end + 1].port = 1;
    use(crowd, 300 * BR_MS);
    br_dgram_link_stats(crowd->net.ends[flow->end].link, &before);
    share = use(crowd, BR_SEC);
    br_dgram_link_stats(crowd->net.ends[flow->end].link, &after);
    acks = (double)(after.tx_acks - before.tx_acks);
    packets = (double)(after.rx_packets - before.rx_packets);
    report("both ways", crowd, share / 2);
    printf("packets for each acknowledgement: %.1f\n", packets / acks);
    assert_true(share / 2 > 0.75);
    assert_true(packets > 5 * acks);
    end(crowd);
}

/* Where packets are further apart than the receiver usually waits, it waits for longer: each
 * acknowledgement is one that was asked for. */
static void fairness__slow_link_few_acknowledgements(void **state)
{
    struct crowd *crowd = begin(10 * 1000000, 1 << 20, 50 * BR_US);
    struct br_dgram_stats before, after;
    struct flow *flow;
    double packets;

    (void)state;
    flow = join(crowd, 1472, 1, 0);
    use(crowd, BR_SEC);
    br_dgram_link_stats(crowd->net.ends[flow->end].link, &before);
    use(crowd, BR_SEC);
    br_dgram_link_stats(crowd->net.ends[flow->end].link, &after);
    packets =
        (double)(after.tx_packets - before.tx_packets) / (double)(after.rx_acks - before.rx_acks);
    printf("slow link: packets for each acknowledgement: %.1f\n", packets);
    assert_true(packets > 1.5);
    end(crowd);
}

static void fairness__random_loss(void **state)
{
    double clean = 0;

    (void)state;
    for (unsigned percent = 0; percent < 6; percent += percent ? 4 : 1) {
        struct crowd *crowd = begin(BR_SEC, 1 << 20, 50 * BR_US);
        double share;

        crowd->net.impairments.loss = percent / 100.0;
        join(crowd, 1472, 1, 0);
        use(crowd, 300 * BR_MS);
        share = use(crowd, BR_SEC);
        report("loss", crowd, share);
        if (!percent)
            clean = share;
        assert_true(share > clean * (percent > 1 ? 0.75 : 0.9));
        end(crowd);
    }
}

static void fairness__marks_keep_the_queue_short(void **state)
{
    struct crowd *crowd = begin(BR_SEC, 1 << 20, 50 * BR_US);
    struct br_dgram_stats stats;
    double share;

    (void)state;
    crowd->net.ports[0].mark_above = 6000;
    join(crowd, 1472, 1, 0);
    use(crowd, 300 * BR_MS);
    share = use(crowd, BR_SEC);
    report("marks", crowd, share);
    br_dgram_link_stats(crowd->net.ends[crowd->flows[0].end].link, &stats);
    assert_true(share > 0.8);
    assert_true(stats.rtt[0] < 250 * BR_US); /* 450 without marks */
    end(crowd);
}

static void fairness__four_paths_take_no_more_than_one(void **state)
{
    struct crowd *crowd = begin(BR_SEC, 1 << 20, 50 * BR_US);
    double share;

    (void)state;
    join(crowd, 1472, 4, 0);
    join(crowd, 1472, 1, 0);
    use(crowd, BR_SEC);
    share = use(crowd, BR_SEC);
    report("four paths and one", crowd, share);
    assert_true(share > 0.85);
    assert_true(crowd->flows[0].bytes < 5 * crowd->flows[1].bytes / 4);
    assert_true(crowd->flows[1].bytes < 5 * crowd->flows[0].bytes / 4);
    end(crowd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fairness__one_flow_fills_the_port),
        cmocka_unit_test(fairness__two_flows),
        cmocka_unit_test(fairness__incast),
        cmocka_unit_test(fairness__both_ways_few_acknowledgements),
        cmocka_unit_test(fairness__slow_link_few_acknowledgements),
        cmocka_unit_test(fairness__random_loss),
        cmocka_unit_test(fairness__marks_keep_the_queue_short),
        cmocka_unit_test(fairness__four_paths_take_no_more_than_one),
    };

    return cmocka_run_group_tests_name("datagram/share", tests, NULL, NULL);
}
