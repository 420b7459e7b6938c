/* SPDX-License-Identifier: BSD-3-Clause */
/* The numbers of a rail: window, rate, probes, striping. No link and no worker behind them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/random.h"
#include "protocol/internal.h"

#define FIRST (64u << 10) /* window before anything is measured */
#define LEAST (64u << 10)
#define MOST  (4u << 20)

struct bench {
    struct br_device device;
    struct br_rail rails[3];
    struct br_peer peer;
};

static void set_up(struct bench *b, int n_rails)
{
    memset(b, 0, sizeof *b);
    b->device.caps = (struct br_caps){.max_frame = 1 << 20};
    b->peer.rails = b->rails;
    b->peer.n_rails = n_rails;
    for (int i = 0; i < n_rails; i++) {
        br_rail_init(&b->rails[i], &b->peer, i);
        b->rails[i].device = &b->device;
        b->rails[i].target_delay = BR_MS;
        br_rail_reset(&b->rails[i], 0);
        b->rails[i].state = BR_RAIL_UP;
    }
}

static uint64_t most_in_flight; /* that drive() has seen */
/* what the link lets through at once after an idle time, in ns of its rate */
static uint64_t bucket;

/* Keeps a link of `rate` bytes/s and round trip `rtt` as full as its window allows; returns when
 * `end` has come. Everything that is asked for is acknowledged in order, one rtt after it has been
 * delivered. */
static void drive(struct br_rail *rail, uint64_t rate, uint64_t rtt, uint64_t *now, uint64_t end)
{
    static struct {
        uint64_t bytes, at;
    } acks[4096];
    uint64_t free_at = *now - bucket;
    unsigned head = 0, tail = 0;

    while (*now < end) {
        while (br_rail_has_window(rail, rail->frame_bytes)) {
            uint32_t length = rail->frame_bytes;
            bool asks = br_rail_asks(rail, length);

            br_rail_posted(rail, length, asks, *now);
            if (br_rail_in_flight(rail) > most_in_flight)
                most_in_flight = br_rail_in_flight(rail);
            free_at = (free_at + bucket > *now ? free_at : *now - bucket) +
                      (uint64_t)length * BR_SEC / rate;
            if (asks) {
                acks[head % 4096].bytes = rail->tx_bytes;
                acks[head++ % 4096].at = (free_at > *now ? free_at : *now) + rtt;
            }
        }
        /* in flight, but nobody was asked: the rail would stand still for ever */
        assert_true(head != tail);
        *now = acks[tail % 4096].at;
        br_rail_acknowledged(rail, acks[tail++ % 4096].bytes, *now);
    }
    while (tail != head) {
        *now = acks[tail % 4096].at;
        br_rail_acknowledged(rail, acks[tail++ % 4096].bytes, *now);
    }
}

static void reset__starts_modest(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b, 1);
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
    set_up(&b, 1);
    drive(&b.rails[0], 1250000000, 20 * BR_US, &now, now + 50 * BR_MS);
    assert_in_range(b.rails[0].rate, 1100000000, 1400000000);
    assert_in_range(b.rails[0].window, 1100000, 1400000);
}

/* A long path needs more in flight than the target: two round trips' worth. */
static void window__covers_two_round_trips(void **state)
{
    struct bench b;
    uint64_t now = BR_SEC;

    (void)state;
    set_up(&b, 1);
    drive(&b.rails[0], 200000000, 3 * BR_MS, &now, now + 300 * BR_MS);
    assert_true(b.rails[0].min_rtt >= 3 * BR_MS);
    assert_true(b.rails[0].window > 2 * 3 * 200000 * 9 / 10);
}

static void window__stays_within_its_bounds(void **state)
{
    struct bench b;
    uint64_t now = BR_SEC;

    (void)state;
    set_up(&b, 1);
    drive(&b.rails[0], 1000000, 10 * BR_US, &now, now + BR_SEC); /* 1 MB/s: 1 ms of it is 1 KB */
    assert_int_equal(b.rails[0].window, LEAST);
    assert_int_equal(b.rails[0].frame_bytes, LEAST / 4);
    set_up(&b, 1);
    now = BR_SEC;
    drive(&b.rails[0], 40000000000, 10 * BR_US, &now, now + 50 * BR_MS); /* 1 ms of it is 40 MB */
    assert_int_equal(b.rails[0].window, MOST);
    assert_int_equal(b.rails[0].frame_bytes, 256 << 10);
}

/* A link that becomes slower loses its window within two periods of 100 ms, else urgent data waits
 * behind a queue. */
static void window__shrinks_with_the_rate(void **state)
{
    struct bench b;
    uint64_t now = BR_SEC;

    (void)state;
    set_up(&b, 1);
    drive(&b.rails[0], 1250000000, 20 * BR_US, &now, now + 50 * BR_MS);
    assert_true(b.rails[0].window > 1000000);
    drive(&b.rails[0], 125000000, 20 * BR_US, &now, now + 250 * BR_MS);
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
    set_up(&b, 1);
    b.rails[0].target_delay = 5 * BR_MS;
    most_in_flight = 0;
    bucket = 131072 * BR_SEC / 12500000;
    for (int i = 0; i < 20; i++) {
        drive(&b.rails[0], 12500000, 20 * BR_US, &now, now + 50 * BR_MS);
        now += 20 * BR_MS;
    }
    bucket = 0;
    assert_in_range(most_in_flight, 62500, 150000);
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
    set_up(&b, 1);
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
    set_up(&b, 1);
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
    set_up(&b, 1);
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
    set_up(&b, 1);
    b.device.caps.max_frame = 4096;
    br_rail_reset(&b.rails[0], 0);
    assert_int_equal(b.rails[0].frame_bytes, 4096);
}

/* One ACK a quarter of the window; none where SENT tells. */
static void asks__every_quarter_of_a_window(void **state)
{
    struct bench b;
    int asked = 0;

    (void)state;
    set_up(&b, 1);
    for (int i = 0; i < 64; i++) {
        bool asks = br_rail_asks(&b.rails[0], FIRST / 16);

        br_rail_posted(&b.rails[0], FIRST / 16, asks, 1);
        asked += asks;
    }
    assert_int_equal(asked, 16);
    b.device.caps.sent_means_arrived = true;
    assert_false(br_rail_asks(&b.rails[0], FIRST));
}

/* More frames ask than measurements fit: the ring stays whole, and what is measured is right. */
static void probe__more_than_there_is_room_for(void **state)
{
    struct bench b;
    struct br_rail *rail = &b.rails[0];

    (void)state;
    set_up(&b, 1);
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
    set_up(&b, 1);
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
    set_up(&b, 1);
    drive(&b.rails[0], 125000000, 300 * BR_US, &now, now + 65 * BR_SEC);
    assert_in_range(b.rails[0].min_rtt, 300 * BR_US, 700 * BR_US);
    assert_in_range(b.rails[0].window, 100000, 200000);
    assert_false(b.rails[0].solo);
}

static void acknowledged__overtaken_and_impossible(void **state)
{
    struct bench b;
    struct br_rail *rail = &b.rails[0];

    (void)state;
    set_up(&b, 1);
    br_rail_posted(rail, 5000, false, 1);
    br_rail_acknowledged(rail, 3000, 2);
    br_rail_acknowledged(rail, 2000, 3); /* overtaken by the one before */
    assert_int_equal(br_rail_in_flight(rail), 2000);
    br_rail_acknowledged(rail, 5001, 4); /* more than was ever posted */
    br_rail_acknowledged(rail, UINT64_MAX, 4);
    assert_int_equal(br_rail_in_flight(rail), 2000);
}

/* ---- rate ------------------------------------------------------------------------------------ */

/* A shaper of 100 Mb/s lets 128 KiB through at the speed of memory after an idle time. A rail that
 * had one seemed ten times as fast as its neighbour, which then carried nothing. */
static void rate__does_not_believe_in_a_bucket(void **state)
{
    struct bench b;
    uint64_t now = BR_SEC;

    (void)state;
    set_up(&b, 2);
    bucket = 131072 * BR_SEC / 12500000;
    drive(&b.rails[0], 12500000, 20 * BR_US, &now, now + 50 * BR_MS);
    bucket = 0;
    assert_in_range(b.rails[0].rate, 12500000, 17000000);
    drive(&b.rails[1], 12500000, 20 * BR_US, &now, now + 50 * BR_MS);
    assert_in_range(b.rails[1].rate, 12000000, 12500000);
    assert_true(br_rail_may_take(&b.rails[1], 32 << 10, 16 << 10, 0));
}

/* A frame at a time is a latency, and says nothing about what the rail can carry. */
static void rate__is_that_of_a_full_rail(void **state)
{
    struct bench b;
    struct br_rail *rail = &b.rails[0];
    uint64_t now = BR_SEC;

    (void)state;
    set_up(&b, 1);
    for (int i = 0; i < 1000; i++) {
        br_rail_posted(rail, rail->frame_bytes, true, now);
        now += BR_MS;
        br_rail_acknowledged(rail, rail->tx_bytes, now);
    }
    assert_int_equal(rail->rate, 0);
    drive(rail, 125000000, 20 * BR_US, &now, now + 50 * BR_MS);
    assert_in_range(rail->rate, 110000000, 130000000);
}

static void rate__idle_time_does_not_count(void **state)
{
    struct bench b;
    uint64_t now = BR_SEC;

    (void)state;
    set_up(&b, 1);
    for (int i = 0; i < 20; i++) {
        drive(&b.rails[0], 125000000, 20 * BR_US, &now, now + 5 * BR_MS);
        now += 60 * BR_SEC;
    }
    assert_in_range(b.rails[0].rate, 110000000, 130000000);
}

/* Each window leaves at the pace of a link of 125 MB/s, and its ACKs come in a bunch. */
static void rate__acks_in_a_bunch_show_none(void **state)
{
    struct bench b;
    struct br_rail *rail = &b.rails[0];
    uint64_t now = BR_SEC;

    (void)state;
    set_up(&b, 1);
    for (int round = 0; round < 50; round++) {
        uint64_t acked = rail->tx_bytes;

        while (br_rail_has_window(rail, 12500)) {
            br_rail_posted(rail, 12500, true, now);
            now += 100 * BR_US;
        }
        while (acked != rail->tx_bytes)
            br_rail_acknowledged(rail, acked += 12500, now);
    }
    assert_in_range(rail->rate, 100000000, 130000000);
}

/* Else a rail that once looked slow would never be tried again. */
static void rate__is_forgotten(void **state)
{
    struct bench b;
    uint64_t now = BR_SEC;

    (void)state;
    set_up(&b, 1);
    drive(&b.rails[0], 12500000, 20 * BR_US, &now, now + 50 * BR_MS);
    br_rail_forget_rate(&b.rails[0], now + 100 * BR_MS);
    assert_in_range(b.rails[0].rate, 12000000, 12500000);
    br_rail_forget_rate(&b.rails[0], now + 2 * BR_SEC);
    assert_int_equal(b.rails[0].rate, 0);
    now += 2 * BR_SEC;
    drive(&b.rails[0], 125000000, 20 * BR_US, &now, now + 50 * BR_MS);
    assert_in_range(b.rails[0].rate, 110000000, 125000000); /* of the new time alone */
}

/* 10 Mb/s: eight windows would take half a second. */
static void rate__of_a_slow_rail_is_soon_known(void **state)
{
    struct bench b;
    uint64_t now = BR_SEC;

    (void)state;
    set_up(&b, 1);
    drive(&b.rails[0], 1250000, 20 * BR_US, &now, now + 150 * BR_MS);
    assert_in_range(b.rails[0].rate, 1200000, 1250000);
}

/* A frame at a time, so long. */
static void hardly_used(struct br_rail *rail, uint64_t *now, uint64_t span)
{
    for (uint64_t end = *now + span; *now < end;) {
        br_rail_posted(rail, 1000, true, *now);
        *now += BR_MS;
        br_rail_acknowledged(rail, rail->tx_bytes, *now);
    }
}

/* A rail that seems slow is left aside and so never full: twice as fast may be right. */
static void rate__doubles_where_the_rail_is_never_full(void **state)
{
    struct bench b;
    struct br_rail *rail = &b.rails[0];
    uint64_t now = BR_SEC;

    (void)state;
    set_up(&b, 1);
    drive(rail, 12500000, 20 * BR_US, &now, now + 100 * BR_MS);
    for (int i = 0; i < 3; i++) {
        assert_in_range(rail->rate, 12000000ull << i, 12700000ull << i);
        hardly_used(rail, &now, 100 * BR_MS);
        now += 60 * BR_SEC; /* idle time changes nothing */
    }
    drive(rail, 12500000, 20 * BR_US, &now, now + 200 * BR_MS);
    assert_in_range(rail->rate, 12000000, 13500000);
    hardly_used(rail, &now, 410 * BR_MS);
    assert_int_equal(rail->rate, 0);
}

static void compare__by_rates_where_both_are_known(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b, 2);
    assert_int_equal(br_rail_compare(&b.rails[0], &b.rails[1]), 0);
    b.rails[0].tx_bytes = 20000;
    b.rails[1].tx_bytes = 50000;
    b.rails[0].rate = 1000000;
    assert_true(br_rail_compare(&b.rails[0], &b.rails[1]) < 0);
    b.rails[1].rate = 10000000;
    assert_true(br_rail_compare(&b.rails[0], &b.rails[1]) > 0);
    assert_true(br_rail_compare(&b.rails[1], &b.rails[0]) < 0);
}

static void carries(struct br_rail *rail, uint64_t rate)
{
    rail->rate = rate;
}

/* ---- striping -------------------------------------------------------------------------------- */

static void may_take__a_single_rail_always(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b, 1);
    carries(&b.rails[0], 1);
    assert_true(br_rail_may_take(&b.rails[0], 1, 1, 0));
}

/* 10 to 1: the slow rail works in the middle of a transfer, and leaves its end to the fast one. */
static void may_take__a_slow_rail_leaves_the_end(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b, 2);
    carries(&b.rails[0], 1000000000);
    carries(&b.rails[1], 100000000);
    assert_true(br_rail_may_take(&b.rails[1], 16 << 20, 64 << 10, 0));
    assert_false(br_rail_may_take(&b.rails[1], 128 << 10, 64 << 10, 0));
    assert_true(br_rail_may_take(&b.rails[0], 128 << 10, 64 << 10, 0));
}

/* A rail that is down, or of which nothing is known, holds nobody back. */
static void may_take__compares_only_with_what_is_known(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b, 2);
    carries(&b.rails[1], 100000000);
    /* the other one was never measured */
    assert_true(br_rail_may_take(&b.rails[1], 128 << 10, 64 << 10, 0));
    carries(&b.rails[0], 1000000000);
    assert_false(br_rail_may_take(&b.rails[1], 128 << 10, 64 << 10, 0));
    b.rails[0].state = BR_RAIL_FENCING;
    assert_true(br_rail_may_take(&b.rails[1], 128 << 10, 64 << 10, 0));
}

/* One frame after a long time alone took 5 ms on a busy host: that is a latency, no rate, and no
 * reason to leave the rail aside. Nothing would ever show what it can carry. */
static void may_take__a_rail_that_was_never_full_is_not_slow(void **state)
{
    struct bench b;
    uint64_t now = BR_SEC;

    (void)state;
    set_up(&b, 2);
    drive(&b.rails[0], 1250000000, 20 * BR_US, &now, now + 50 * BR_MS);
    br_rail_reset(&b.rails[1], now);
    br_rail_posted(&b.rails[1], 16 << 10, true, now);
    br_rail_acknowledged(&b.rails[1], 16 << 10, now + 5 * BR_MS);
    assert_true(br_rail_may_take(&b.rails[1], 128 << 10, 64 << 10, 0));
    now += 5 * BR_MS;
    drive(&b.rails[1], 12500000, 20 * BR_US, &now, now + 50 * BR_MS); /* now it shows that it is */
    assert_false(br_rail_may_take(&b.rails[1], 128 << 10, 64 << 10, 0));
}

/* Whatever the rates and the bytes in flight are: one rail takes the frame, else the transfer would
 * stand still. */
static void may_take__never_all_refuse(void **state)
{
    struct br_random random;
    struct bench b;

    (void)state;
    br_random_seed(&random, 11);
    for (int round = 0; round < 20000; round++) {
        int n = 2 + (int)(br_random_next(&random) % 2), takers = 0;
        uint32_t length = 1 + (uint32_t)(br_random_next(&random) % (256 << 10));

        set_up(&b, n);
        for (int i = 0; i < n; i++) {
            if (br_random_next(&random) % 3)
                carries(&b.rails[i], 1 + br_random_next(&random) % 40000000000);
            b.rails[i].tx_bytes = br_random_next(&random) % MOST;
        }
        for (int i = 0; i < n; i++)
            takers += br_rail_may_take(&b.rails[i], length + br_random_next(&random) % (16 << 20),
                                       length, 0);
        assert_true(takers > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reset__starts_modest),
        cmocka_unit_test(window__grows_to_the_target_delay),
        cmocka_unit_test(window__covers_two_round_trips),
        cmocka_unit_test(window__stays_within_its_bounds),
        cmocka_unit_test(window__shrinks_with_the_rate),
        cmocka_unit_test(window__does_not_believe_in_a_bucket),
        cmocka_unit_test(window__bounds_what_is_in_flight),
        cmocka_unit_test(window__shrinks_below_what_did_not_ask),
        cmocka_unit_test(window__is_not_for_descriptors),
        cmocka_unit_test(frame__never_exceeds_the_back_end),
        cmocka_unit_test(asks__every_quarter_of_a_window),
        cmocka_unit_test(probe__more_than_there_is_room_for),
        cmocka_unit_test(probe__the_least_round_trip_grows_old),
        cmocka_unit_test(probe__a_full_rail_measures_the_round_trip_alone),
        cmocka_unit_test(acknowledged__overtaken_and_impossible),
        cmocka_unit_test(rate__does_not_believe_in_a_bucket),
        cmocka_unit_test(rate__is_that_of_a_full_rail),
        cmocka_unit_test(rate__idle_time_does_not_count),
        cmocka_unit_test(rate__acks_in_a_bunch_show_none),
        cmocka_unit_test(rate__is_forgotten),
        cmocka_unit_test(rate__of_a_slow_rail_is_soon_known),
        cmocka_unit_test(rate__doubles_where_the_rail_is_never_full),
        cmocka_unit_test(compare__by_rates_where_both_are_known),
        cmocka_unit_test(may_take__a_single_rail_always),
        cmocka_unit_test(may_take__a_slow_rail_leaves_the_end),
        cmocka_unit_test(may_take__compares_only_with_what_is_known),
        cmocka_unit_test(may_take__a_rail_that_was_never_full_is_not_slow),
        cmocka_unit_test(may_take__never_all_refuse),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
