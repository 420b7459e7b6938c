/* SPDX-License-Identifier: BSD-3-Clause */
/* Two rails that fill a wire from both of its ends, so that ACKs come behind the other's data. No
 * link and no worker behind them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "protocol/internal.h"

#define LEAST (64u << 10)
#define MOST  (4u << 20)
#define STEP  (10 * BR_US)

/* Data, or an ACK, on its way. */
struct item {
    uint64_t at; /* ns; when it comes */
    uint32_t length;
    bool is_ack, asks;
    struct br_body_ack ack;
};

struct end {
    struct br_device device;
    struct br_rail rail;
    struct br_peer peer;
    struct item items[256]; /* that this end has sent */
    unsigned head, tail;
    uint64_t free_at; /* ns; when its side of the wire has carried all of them */
    /* bytes: so many it sends when it has received as many as before; 0: as much as it can */
    uint64_t step;
};

struct wire {
    struct end ends[2];
    uint64_t rate, rtt; /* bytes/s; ns */
};

static void set_up_end(struct end *end)
{
    memset(end, 0, sizeof *end);
    end->device.caps = (struct br_caps){.max_frame = 1 << 20};
    end->peer.rails = &end->rail;
    end->peer.n_rails = 1;
    br_rail_init(&end->rail, &end->peer, 0);
    end->rail.device = &end->device;
    end->rail.target_delay = BR_MS;
    br_rail_reset(&end->rail, 0);
    end->rail.state = BR_RAIL_UP;
}

static void set_up(struct wire *wire, uint64_t rate, uint64_t rtt)
{
    set_up_end(&wire->ends[0]);
    set_up_end(&wire->ends[1]);
    wire->rate = rate;
    wire->rtt = rtt;
}

static struct item *leaves(struct wire *wire, struct end *end, uint32_t length, uint64_t now)
{
    struct item *item = &end->items[end->head++ % 256];

    assert_true(end->head - end->tail <= 256);
    end->free_at =
        (end->free_at > now ? end->free_at : now) + (uint64_t)length * BR_SEC / wire->rate;
    *item = (struct item){.at = end->free_at + wire->rtt / 2, .length = length};
    return item;
}

static bool has_data(const struct end *end)
{
    return !end->step || end->rail.tx_bytes < (end->rail.rx_bytes / end->step + 1) * end->step;
}

static void sends(struct wire *wire, struct end *end, uint64_t now)
{
    struct br_rail *rail = &end->rail;

    br_rail_drain(rail, now);
    while (br_rail_has_window(rail, rail->frame_bytes) && has_data(end)) {
        struct item *item = leaves(wire, end, rail->frame_bytes, now);

        item->asks = br_rail_asks(rail, item->length);
        br_rail_posted(rail, item->length, item->asks, now);
    }
}

/* What the other end has sent and has come. */
static void hears(struct wire *wire, struct end *end, struct end *other, uint64_t now)
{
    while (other->tail != other->head && other->items[other->tail % 256].at <= now) {
        struct item *item = &other->items[other->tail++ % 256], *ack;

        if (item->is_ack) {
            br_rail_ack_received(&end->rail, &item->ack, now);
            continue;
        }
        end->rail.rx_bytes += item->length;
        if (!item->asks)
            continue;
        ack = leaves(wire, end, 64, now);
        ack->is_ack = true;
        ack->ack = (struct br_body_ack){.bytes = end->rail.rx_bytes,
                                        .ack_backlog = br_rail_ack_backlog(&end->rail)};
    }
}

/* The ends send as much as their windows allow, the second one from `late` on. */
static void run(struct wire *wire, uint64_t late, uint64_t from, uint64_t to)
{
    for (uint64_t now = from; now < to; now += STEP)
        for (int i = 0; i < 2; i++) {
            hears(wire, &wire->ends[i], &wire->ends[!i], now);
            if (!i || now >= late)
                sends(wire, &wire->ends[i], now);
        }
}

/* As a back end does that knows: the round trip of a packet that meets no queue. */
static void tell_min_rtt(struct wire *wire, uint64_t now)
{
    for (int i = 0; i < 2; i++)
        br_rail_set_min_rtt(&wire->ends[i].rail, wire->rtt, now);
}

/* 80 Mbit/s and 1 ms there and back, and 400 Mbit/s and 5 ms. Without `ahead` one of them got 0.52
 * of the rate. */
static void duplex__both_directions_get_the_wire(void **state)
{
    static struct wire wire;

    (void)state;
    for (uint64_t rtt = BR_MS; rtt <= 5 * BR_MS; rtt += 4 * BR_MS) {
        uint64_t before[2];

        set_up(&wire, 10000000 * rtt / BR_MS, rtt);
        tell_min_rtt(&wire, 0);
        run(&wire, 50 * BR_MS, STEP, BR_SEC);
        for (int i = 0; i < 2; i++)
            before[i] = wire.ends[i].rail.rx_bytes;
        run(&wire, 0, BR_SEC, 2 * BR_SEC);
        for (int i = 0; i < 2; i++)
            assert_in_range(wire.ends[i].rail.rx_bytes - before[i], wire.rate * 95 / 100,
                            wire.rate * 101 / 100);
    }
}

/* As in a ring: what a rank sends next needs what it receives now. 80 Mbit/s and 1 ms, steps of two
 * windows; and 1 Gbit/s, of four. Where the second end begins later, they sent by turns, at 0.63
 * and 0.64 of the rate, before what comes counted. */
static void duplex__steps(void **state)
{
    static const struct {
        uint64_t rate, step;
    } cases[] = {{10000000, 2 * LEAST}, {125000000, 8 * LEAST}};
    static struct wire wire;

    (void)state;
    for (uint64_t k = 0; k < 14; k++) {
        uint64_t before[2];

        set_up(&wire, cases[k % 2].rate, BR_MS);
        for (int i = 0; i < 2; i++)
            wire.ends[i].step = cases[k % 2].step;
        tell_min_rtt(&wire, 0);
        run(&wire, k / 2 * 1500 * BR_US, STEP, BR_SEC);
        for (int i = 0; i < 2; i++)
            before[i] = wire.ends[i].rail.rx_bytes;
        run(&wire, 0, BR_SEC, 2 * BR_SEC);
        for (int i = 0; i < 2; i++)
            assert_in_range(wire.ends[i].rail.rx_bytes - before[i], wire.rate * 88 / 100,
                            wire.rate * 101 / 100);
    }
}

/* With one direction alone in flight the other's window does not count. */
static void duplex__one_direction_keeps_to_its_window(void **state)
{
    static struct wire wire;

    (void)state;
    set_up(&wire, 10000000, BR_MS);
    tell_min_rtt(&wire, 0);
    run(&wire, 0, STEP, 300 * BR_MS);
    /* what the second end has sent has long come */
    run(&wire, UINT64_MAX, 300 * BR_MS, 600 * BR_MS);
    assert_int_equal(wire.ends[0].rail.peer_ack_backlog, 0);
    assert_true(br_rail_in_flight(&wire.ends[0].rail) <= wire.ends[0].rail.window);
}

static void ahead__is_what_awaits_an_ack(void **state)
{
    static struct end end;

    (void)state;
    set_up_end(&end);
    assert_int_equal(br_rail_ack_backlog(&end.rail), 0);
    br_rail_posted(&end.rail, 20000, true, 1);
    br_rail_posted(&end.rail, 3000, false,
                   1); /* nobody will say when this has come, so it may have long ago */
    assert_int_equal(br_rail_ack_backlog(&end.rail), 20000);
    br_rail_acknowledged(&end.rail, 23000, 2);
    assert_int_equal(br_rail_ack_backlog(&end.rail), 0);
    br_rail_posted(&end.rail, 10 * LEAST, true, 3);
    assert_int_equal(br_rail_ack_backlog(&end.rail), end.rail.window);
}

static void ahead__of_the_peer_counts_beside_the_window(void **state)
{
    static struct end end;
    struct br_body_ack ack = {.bytes = 0, .ack_backlog = 30000};

    (void)state;
    set_up_end(&end);
    br_rail_set_min_rtt(&end.rail, 50 * BR_US, 1);
    br_rail_posted(&end.rail, LEAST, true, 1);
    br_rail_drain(&end.rail, 2); /* of an unknown rate: the wire has carried it */
    assert_false(br_rail_has_window(&end.rail, 30000));
    br_rail_ack_received(&end.rail, &ack, 2);
    assert_true(br_rail_has_window(&end.rail, 30000));
    assert_false(br_rail_has_window(&end.rail, 30001));
    ack.ack_backlog = 0;
    br_rail_ack_received(&end.rail, &ack, 3);
    assert_false(br_rail_has_window(&end.rail, 1));
    ack.ack_backlog = UINT32_MAX; /* nonsense */
    br_rail_ack_received(&end.rail, &ack, 4);
    assert_true(br_rail_has_window(&end.rail, LEAST));
    assert_false(br_rail_has_window(&end.rail, LEAST + 1)); /* at once */
    end.rail.shared = true;                                 /* a short path: a tenth */
    ack.ack_backlog = 30000;
    br_rail_ack_received(&end.rail, &ack, 6);
    assert_true(br_rail_has_window(&end.rail, 3000));
    assert_false(br_rail_has_window(&end.rail, 3001));
    end.device.caps.sent_means_arrived = true; /* SENT tells, and waits for nobody's data */
    br_rail_reset(&end.rail, 7);
    br_rail_posted(&end.rail, LEAST, false, 8);
    br_rail_ack_received(&end.rail, &ack, 9);
    assert_false(br_rail_has_window(&end.rail, 1));
}

/* Of what has come since an ACK said that nothing would, a window at most; nothing of what came
 * before ours left. */
static void ahead__of_the_peer_comes(void **state)
{
    static struct end end;
    struct br_body_ack ack = {.bytes = 20000, .ack_backlog = 0};

    (void)state;
    set_up_end(&end);
    br_rail_set_min_rtt(&end.rail, BR_MS, 1);
    end.rail.rx_bytes = 50000;
    br_rail_posted(&end.rail, LEAST, true, 1);
    br_rail_drain(&end.rail, 2);
    assert_false(br_rail_has_window(&end.rail, 1));
    end.rail.rx_bytes += 30000;
    assert_true(br_rail_has_window(&end.rail, 30000));
    assert_false(br_rail_has_window(&end.rail, 30001));
    br_rail_ack_received(&end.rail, &ack, 2);
    assert_true(br_rail_has_window(&end.rail, 20000));
    assert_false(br_rail_has_window(&end.rail, 20001));
    end.rail.rx_bytes += MOST;
    assert_true(br_rail_has_window(&end.rail, end.rail.window));
    assert_false(br_rail_has_window(&end.rail, 1 + end.rail.window));
    end.device.caps.sent_means_arrived = true;
    assert_false(br_rail_has_window(&end.rail, 20001));
}

/* What stands in front of the wire: a window of it at most, whatever may be in flight. */
static void queue__drains_by_the_rate(void **state)
{
    static struct end end;
    struct br_rail *rail = &end.rail;
    struct br_body_ack ack = {.bytes = 1, .ack_backlog = LEAST};

    (void)state;
    set_up_end(&end);
    br_rail_posted(rail, LEAST, true, BR_SEC);
    br_rail_ack_received(rail, &ack, BR_SEC);
    rail->rate = 40000000;
    assert_false(br_rail_has_window(rail, 2));
    assert_in_range(br_rail_drained_at(rail) - BR_SEC, rail->frame_bytes * 20 - 20,
                    rail->frame_bytes * 20);
    br_rail_drain(rail, BR_SEC + BR_MS); /* 1.25 times the rate: a rate may be too small */
    assert_int_equal(rail->queued_bytes, LEAST - 50000);
    br_rail_drain(rail, BR_SEC); /* by a thread that has read the clock before */
    assert_int_equal(rail->queued_bytes, LEAST - 50000);
    assert_int_equal(br_rail_drained_at(rail), UINT64_MAX);
    assert_true(br_rail_has_window(rail, 50000));
    assert_false(br_rail_has_window(rail, 50001));
    br_rail_drain(rail, BR_SEC + 2 * BR_MS);
    assert_int_equal(rail->queued_bytes, 0);
}

/* A told round trip is not forgotten, and no frame has to be alone for it. */
static void min_rtt__as_told(void **state)
{
    static struct end end;
    struct br_rail *rail = &end.rail;

    (void)state;
    set_up_end(&end);
    br_rail_set_min_rtt(rail, 0, 1); /* nobody knows */
    assert_int_equal(rail->min_rtt, 0);
    for (uint64_t now = BR_SEC; now < 30 * BR_SEC; now += BR_SEC) {
        br_rail_set_min_rtt(rail, 2 * BR_MS, now);
        br_rail_posted(rail, 20000, true, now);
        br_rail_posted(rail, 20000, true, now);
        br_rail_acknowledged(rail, rail->tx_bytes, now + 50 * BR_MS); /* behind the peer's queue */
        assert_int_equal(rail->min_rtt, 2 * BR_MS);
        assert_false(rail->solo);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(duplex__both_directions_get_the_wire),
        cmocka_unit_test(duplex__steps),
        cmocka_unit_test(duplex__one_direction_keeps_to_its_window),
        cmocka_unit_test(ahead__is_what_awaits_an_ack),
        cmocka_unit_test(ahead__of_the_peer_counts_beside_the_window),
        cmocka_unit_test(ahead__of_the_peer_comes),
        cmocka_unit_test(queue__drains_by_the_rate),
        cmocka_unit_test(min_rtt__as_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
