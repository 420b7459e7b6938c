/* SPDX-License-Identifier: BSD-3-Clause */
/* The numbers of a rail: window, acknowledgements, probes. No link and no worker behind them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "protocol/internal.h"
#include "rail_bench.h"

#define FIRST (64u << 10) /* window before anything is measured */
#define LEAST (64u << 10)
#define MOST  (4u << 20)

static void reset__starts_modest(void **state)
{
    struct bench b;

    (void)state;
    bench_set_up(&b, 1);
    assert_int_equal(b.rails[0].window, FIRST);
    assert_int_equal(b.rails[0].frame_bytes, FIRST / 4);
    assert_int_equal(br_rail_in_flight(&b.rails[0]), 0);
    assert_true(br_rail_has_window(&b.rails[0], b.rails[0].frame_bytes));
}

/* 10 Gb/s for 1 ms (the target, as the round trip is short) are 1.25 MB; the window must come near
 * from below. */
static void window__grows_to_the_target_delay(void **state)
{
    struct bench b;
    uint64_t now = BR_SEC;

    (void)state;
    bench_set_up(&b, 1);
    bench_drive(&b.rails[0], 1250000000, 20 * BR_US, &now, now + 50 * BR_MS);
    assert_in_range(b.rails[0].rate, 1100000000, 1400000000);
    assert_in_range(b.rails[0].window, 1100000, 1400000);
}

/* 10 Gb/s: the window doubles when one has come back, and does not wait for a volume, which takes
 * four delays. At 1 Gb/s the least window takes more than half of a delay. */
static void window__slow_start(void **state)
{
    struct bench b;
    struct br_rail *rail = &b.rails[0];
    uint64_t now = BR_SEC;

    (void)state;
    bench_set_up(&b, 1);
    bench_drive(rail, 1250000000, 20 * BR_US, &now, now + BR_MS);
    assert_int_equal(rail->volume, 0);
    assert_int_equal(rail->window, 16 * FIRST);
    bench_set_up(&b, 1);
    bench_drive(rail, 125000000, 20 * BR_US, &now, now + 2 * BR_MS);
    assert_int_equal(rail->volume, 0);
    assert_int_equal(rail->window, FIRST);
}

/* Several rails need their rates, which full ones have. */
static void window__no_slow_start_of_several_rails(void **state)
{
    struct bench b;
    uint64_t now = BR_SEC;

    (void)state;
    bench_set_up(&b, 2);
    bench_drive(&b.rails[0], 1250000000, 20 * BR_US, &now, now + BR_MS);
    assert_int_equal(b.rails[0].volume, 0);
    assert_int_equal(b.rails[0].window, FIRST);
}

/* The windows of priorities' rails follow from what is urgent (section 7). */
static void window__no_slow_start_of_a_shared_rail(void **state)
{
    struct bench b;
    uint64_t now = BR_SEC;

    (void)state;
    bench_set_up(&b, 1);
    br_peer_set_shared(&b.peer, true);
    bench_drive(&b.rails[0], 1250000000, 20 * BR_US, &now, now + BR_MS);
    assert_int_equal(b.rails[0].volume, 0);
    assert_int_equal(b.rails[0].window, FIRST);
}

/* Sends a frame and hears of its arrival `delay` later. */
static void send_one(struct br_rail *rail, uint32_t length, uint64_t *now, uint64_t delay)
{
    br_rail_posted(rail, length, true, *now);
    *now += delay;
    br_rail_acknowledged(rail, rail->tx_bytes, *now);
}

/* A window within one pass says nothing: the clock is too coarse. */
static void window__slow_start_needs_a_time(void **state)
{
    struct bench b;
    struct br_rail *rail = &b.rails[0];
    uint64_t now = 1;

    (void)state;
    bench_set_up(&b, 1);
    send_one(rail, FIRST, &now, 0);
    send_one(rail, 1000, &now, 20 * BR_US);
    assert_int_equal(rail->window, FIRST);
    send_one(rail, FIRST, &now, 20 * BR_US);
    assert_int_equal(rail->window, 2 * FIRST);
}

/* Neither the time nor the bytes from before a pause count. */
static void window__slow_start_counts_from_a_pause(void **state)
{
    struct bench b;
    struct br_rail *rail = &b.rails[0];
    uint64_t now = 1;

    (void)state;
    bench_set_up(&b, 1);
    for (int i = 0; i < 6; i++) {
        send_one(rail, FIRST / 4, &now, 20 * BR_US);
        assert_int_equal(rail->window, FIRST);
    }
    now += BR_MS;
    send_one(rail, FIRST, &now, 20 * BR_US);
    assert_int_equal(rail->window, 2 * FIRST);
}

/* The volume of a rail that is full ends it. When nothing has left for long it begins again. */
static void window__slow_start_ends(void **state)
{
    struct bench b;
    struct br_rail *rail = &b.rails[0];
    uint64_t now = BR_SEC;

    (void)state;
    bench_set_up(&b, 1);
    bench_drive(rail, 1250000000, 20 * BR_US, &now, now + BR_MS);
    bench_drive(rail, 125000000, 20 * BR_US, &now, now + 210 * BR_MS);
    assert_in_range(rail->window, 100000, 150000);
    now += BR_SEC;
    br_rail_forget_rate(rail, now);
    send_one(rail, 1000, &now, 20 * BR_US);
    assert_in_range(rail->window, FIRST, 2 * FIRST);
    bench_drive(rail, 1250000000, 20 * BR_US, &now, now + BR_MS);
    assert_in_range(rail->window, 800000, 1200000);
}

/* A long path needs more in flight than the target: two round trips' worth. */
static void window__covers_two_round_trips(void **state)
{
    struct bench b;
    uint64_t now = BR_SEC;

    (void)state;
    bench_set_up(&b, 1);
    bench_drive(&b.rails[0], 200000000, 3 * BR_MS, &now, now + 300 * BR_MS);
    assert_true(b.rails[0].min_rtt >= 3 * BR_MS);
    assert_true(b.rails[0].window > 2 * 3 * 200000 * 9 / 10);
}

/* 8 and 80 Gb/s with a round trip of 10 ms. With 4 MiB at most the first one was filled to 0.4. */
static void window__of_a_long_path_is_not_bounded_as_others_are(void **state)
{
    struct bench b;
    uint64_t now = BR_SEC;

    (void)state;
    bench_set_up(&b, 1);
    bench_drive(&b.rails[0], 1000000000, 10 * BR_MS, &now, now + BR_SEC);
    assert_in_range(b.rails[0].window, 18000000, 21000000);
    assert_true(b.rails[0].rate > 900000000);
    bench_set_up(&b, 1);
    now = BR_SEC;
    bench_drive(&b.rails[0], 10000000000, 10 * BR_MS, &now, now + BR_SEC);
    assert_int_equal(b.rails[0].window, BR_WINDOW_LONG);
}

static void window__stays_within_its_bounds(void **state)
{
    struct bench b;
    uint64_t now = BR_SEC;

    (void)state;
    bench_set_up(&b, 1);
    bench_drive(&b.rails[0], 1000000, 10 * BR_US, &now,
                now + BR_SEC); /* 1 MB/s: 1 ms of it is 1 KB */
    assert_int_equal(b.rails[0].window, LEAST);
    assert_int_equal(b.rails[0].frame_bytes, LEAST / 4);
    bench_set_up(&b, 1);
    now = BR_SEC;
    bench_drive(&b.rails[0], 40000000000, 10 * BR_US, &now,
                now + 50 * BR_MS); /* 1 ms of it is 40 MB */
    assert_int_equal(b.rails[0].window, MOST);
    assert_int_equal(b.rails[0].frame_bytes, 256 << 10);
}

/* The window that a link of `rate` bytes/s has after a second, where the back end says that the
 * path carries `delivery_rate`. */
static uint32_t window_of(uint64_t rate, uint64_t rtt, uint64_t delivery_rate)
{
    struct bench b;
    uint64_t now = BR_SEC;

    bench_set_up(&b, 1);
    br_rail_set_min_rtt(&b.rails[0], rtt, now);
    b.rails[0].delivery_rate = delivery_rate;
    bench_drive(&b.rails[0], rate, rtt, &now, now + BR_SEC);
    return b.rails[0].window;
}

/* 64 KiB of each of the flows that share a slow NIC would wait there for long. */
static void window__of_a_slow_path_is_for_25_ms(void **state)
{
    (void)state;
    assert_int_equal(window_of(500000, 10 * BR_US, 500000), LEAST / 2); /* 25 ms are 12.5 KB */
    assert_in_range(window_of(2000000, 10 * BR_US, 2000000), 48000, 52000);
    assert_int_equal(window_of(4000000, 10 * BR_US, 4000000), LEAST); /* 25 ms are 100 KB */
    assert_int_equal(window_of(500000, 10 * BR_US, 0), LEAST);        /* it says nothing */
    /* the path is fast, and the peer answers late because it shares its cores */
    assert_int_equal(window_of(500000, 10 * BR_US, 1000000000), LEAST);
    /* a window in a round trip, however fast the link is: it must be able to grow */
    assert_true(window_of(125000000, 100 * BR_MS, 655360) > LEAST);
}

/* Where ranks share cores the rate is that of the peer's turns, and what a rank has for one of them
 * must be worth it. Not on a rail that priorities share, nor of a slow path. */
static void window__least_as_configured(void **state)
{
    struct bench b;
    uint64_t now = BR_SEC;

    (void)state;
    bench_set_up(&b, 1);
    b.rails[0].least_window = 4 * LEAST;
    br_rail_reset(&b.rails[0], now);
    assert_int_equal(b.rails[0].window, 4 * LEAST);
    assert_int_equal(b.rails[0].frame_bytes, LEAST);
    br_peer_set_shared(&b.peer, true);
    assert_int_equal(b.rails[0].window, LEAST);
    br_peer_set_shared(&b.peer, false);
    b.rails[0].delivery_rate = 1000000000;
    bench_drive(&b.rails[0], 5000000, 10 * BR_US, &now, now + BR_SEC);
    assert_int_equal(b.rails[0].window, 4 * LEAST);
    b.rails[0].delivery_rate = 5000000;
    bench_drive(&b.rails[0], 5000000, 10 * BR_US, &now, now + BR_SEC);
    assert_in_range(b.rails[0].window, 115000, 140000); /* 25 ms */
    b.rails[0].least_window = 1;                        /* less than any window */
    br_rail_reset(&b.rails[0], now);
    assert_int_equal(b.rails[0].window, LEAST);
}

/* A link that becomes slower loses its window within two periods of 100 ms, else urgent data waits
 * behind a queue. */
static void window__shrinks_with_the_rate(void **state)
{
    struct bench b;
    uint64_t now = BR_SEC;

    (void)state;
    bench_set_up(&b, 1);
    bench_drive(&b.rails[0], 1250000000, 20 * BR_US, &now, now + 50 * BR_MS);
    assert_true(b.rails[0].window > 1000000);
    bench_drive(&b.rails[0], 125000000, 20 * BR_US, &now, now + 250 * BR_MS);
    assert_in_range(b.rails[0].rate, 100000000, 150000000);
    assert_in_range(b.rails[0].window, 100000, 150000);
}

/* A shaper of 100 Mb/s lets 128 KiB through at the speed of memory after every idle time. The
 * window of 5 ms must stay near the 62,500 bytes that the link carries in them; a megabyte would be
 * 80 ms for everything behind it. */
static void window__does_not_believe_in_a_bucket(void **state)
{
    struct bench b;
    uint64_t now = BR_SEC;

    (void)state;
    bench_set_up(&b, 1);
    b.rails[0].target_delay = 5 * BR_MS;
    bench_most_in_flight = 0;
    bench_bucket = 131072 * BR_SEC / 12500000;
    for (int i = 0; i < 20; i++) {
        bench_drive(&b.rails[0], 12500000, 20 * BR_US, &now, now + 50 * BR_MS);
        now += 20 * BR_MS;
    }
    bench_bucket = 0;
    assert_in_range(bench_most_in_flight, 62500, 150000);
}

/* Posts frames as the pump does until the window says no. */
static void post_all(struct br_rail *rail, uint64_t now)
{
    while (br_rail_has_window(rail, rail->frame_bytes))
        br_rail_posted(rail, rail->frame_bytes, br_rail_asks(rail, rail->frame_bytes), now);
}

static void window__bounds_what_is_in_flight(void **state)
{
    struct bench b;

    (void)state;
    bench_set_up(&b, 1);
    post_all(&b.rails[0], 1);
    assert_int_equal(br_rail_in_flight(&b.rails[0]), FIRST);
    b.device.caps.sent_means_arrived = true; /* nobody asks there: SENT tells */
    br_rail_reset(&b.rails[0], 1);
    post_all(&b.rails[0], 1);
    assert_int_equal(br_rail_in_flight(&b.rails[0]), FIRST);
}

/* The last ACK makes the window smaller than what did not ask: one frame more must leave, or the
 * rail stands still. */
static void window__shrinks_below_what_did_not_ask(void **state)
{
    struct bench b;
    struct br_rail *rail = &b.rails[0];

    (void)state;
    bench_set_up(&b, 1);
    br_rail_posted(rail, 100000, true, 1);
    br_rail_posted(rail, 100000, false, 1);
    rail->window = LEAST;
    assert_false(br_rail_has_window(rail, rail->frame_bytes)); /* an ACK is on its way */
    rail->acked_bytes = 100000;
    assert_true(br_rail_has_window(rail, rail->frame_bytes));
    assert_true(br_rail_asks(rail, rail->frame_bytes));
    br_rail_posted(rail, rail->frame_bytes, true, 2);
    assert_false(br_rail_has_window(rail, rail->frame_bytes));
}

/* Where posting moves no bytes there is nothing to bound; frames are whole. */
static void window__is_not_for_descriptors(void **state)
{
    struct bench b;

    (void)state;
    bench_set_up(&b, 1);
    b.device.caps.maps = true;
    br_rail_reset(&b.rails[0], 0);
    assert_int_equal(b.rails[0].frame_bytes, b.device.caps.max_frame);
    br_rail_posted(&b.rails[0], 1 << 30, false, 1);
    assert_true(br_rail_has_window(&b.rails[0], b.rails[0].frame_bytes));
    assert_false(br_rail_asks(&b.rails[0], 1 << 20));
}

static void frame__never_exceeds_the_back_end(void **state)
{
    struct bench b;

    (void)state;
    bench_set_up(&b, 1);
    b.device.caps.max_frame = 4096;
    br_rail_reset(&b.rails[0], 0);
    assert_int_equal(b.rails[0].frame_bytes, 4096);
}

/* One ACK an eighth of the window; none where SENT tells. */
static void asks__every_eighth_of_a_window(void **state)
{
    struct bench b;
    int asked = 0;

    (void)state;
    bench_set_up(&b, 1);
    for (int i = 0; i < 64; i++) {
        bool asks = br_rail_asks(&b.rails[0], FIRST / 16);

        br_rail_posted(&b.rails[0], FIRST / 16, asks, 1);
        asked += asks;
    }
    assert_int_equal(asked, 32);
    b.device.caps.sent_means_arrived = true;
    assert_false(br_rail_asks(&b.rails[0], FIRST));
}

/* More frames ask than measurements fit: the ring stays whole, and what is measured is right. */
static void probe__more_than_there_is_room_for(void **state)
{
    struct bench b;
    struct br_rail *rail = &b.rails[0];

    (void)state;
    bench_set_up(&b, 1);
    for (uint32_t i = 0; i < 10 * BR_PROBES; i++)
        br_rail_posted(rail, 1000, true, 1000);
    assert_int_equal(rail->probe_head - rail->probe_tail, BR_PROBES);
    br_rail_acknowledged(rail, rail->tx_bytes, 1000 + BR_MS);
    assert_int_equal(rail->probe_head, rail->probe_tail);
    assert_int_equal(rail->min_rtt, BR_MS);
}

static void probe__the_least_round_trip_grows_old(void **state)
{
    struct bench b;
    struct br_rail *rail = &b.rails[0];

    (void)state;
    bench_set_up(&b, 1);
    br_rail_posted(rail, 1000, true, BR_SEC);
    br_rail_acknowledged(rail, 1000, BR_SEC + 10 * BR_US);
    br_rail_posted(rail, 1000, true, 2 * BR_SEC);
    br_rail_acknowledged(rail, 2000, 2 * BR_SEC + 90 * BR_US);
    assert_int_equal(rail->min_rtt, 10 * BR_US);
    br_rail_posted(rail, 1000, true, 20 * BR_SEC); /* the route has changed meanwhile */
    br_rail_acknowledged(rail, 3000, 20 * BR_SEC + 90 * BR_US);
    assert_int_equal(rail->min_rtt, 90 * BR_US);
}

/* A queue of our own is no longer path: the window of a rail that is always full stays what it
 * is. */
static void probe__a_full_rail_measures_the_round_trip_alone(void **state)
{
    struct bench b;
    uint64_t now = BR_SEC;

    (void)state;
    bench_set_up(&b, 1);
    bench_drive(&b.rails[0], 125000000, 300 * BR_US, &now, now + 65 * BR_SEC);
    assert_in_range(b.rails[0].min_rtt, 300 * BR_US, 700 * BR_US);
    assert_in_range(b.rails[0].window, 100000, 200000);
    assert_false(b.rails[0].solo);
}

static void acknowledged__overtaken_and_impossible(void **state)
{
    struct bench b;
    struct br_rail *rail = &b.rails[0];

    (void)state;
    bench_set_up(&b, 1);
    br_rail_posted(rail, 5000, false, 1);
    br_rail_acknowledged(rail, 3000, 2);
    br_rail_acknowledged(rail, 2000, 3); /* overtaken by the one before */
    assert_int_equal(br_rail_in_flight(rail), 2000);
    br_rail_acknowledged(rail, 5001, 4); /* more than was ever posted */
    br_rail_acknowledged(rail, UINT64_MAX, 4);
    assert_int_equal(br_rail_in_flight(rail), 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reset__starts_modest),
        cmocka_unit_test(window__grows_to_the_target_delay),
        cmocka_unit_test(window__slow_start),
        cmocka_unit_test(window__no_slow_start_of_several_rails),
        cmocka_unit_test(window__no_slow_start_of_a_shared_rail),
        cmocka_unit_test(window__slow_start_needs_a_time),
        cmocka_unit_test(window__slow_start_counts_from_a_pause),
        cmocka_unit_test(window__slow_start_ends),
        cmocka_unit_test(window__covers_two_round_trips),
        cmocka_unit_test(window__of_a_long_path_is_not_bounded_as_others_are),
        cmocka_unit_test(window__stays_within_its_bounds),
        cmocka_unit_test(window__of_a_slow_path_is_for_25_ms),
        cmocka_unit_test(window__least_as_configured),
        cmocka_unit_test(window__shrinks_with_the_rate),
        cmocka_unit_test(window__does_not_believe_in_a_bucket),
        cmocka_unit_test(window__bounds_what_is_in_flight),
        cmocka_unit_test(window__shrinks_below_what_did_not_ask),
        cmocka_unit_test(window__is_not_for_descriptors),
        cmocka_unit_test(frame__never_exceeds_the_back_end),
        cmocka_unit_test(asks__every_eighth_of_a_window),
        cmocka_unit_test(probe__more_than_there_is_room_for),
        cmocka_unit_test(probe__the_least_round_trip_grows_old),
        cmocka_unit_test(probe__a_full_rail_measures_the_round_trip_alone),
        cmocka_unit_test(acknowledged__overtaken_and_impossible),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
