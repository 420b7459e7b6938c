/* SPDX-License-Identifier: BSD-3-Clause */
/* The rate of a rail, and which rail takes a frame. No link and no worker behind them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/random.h"
#include "protocol/internal.h"
#include "rail_bench.h"

#define MOST (4u << 20) /* largest window */

/* ---- rate ------------------------------------------------------------------------------------ */

/* A shaper of 100 Mb/s lets 128 KiB through at the speed of memory after an idle time. A rail that
 * had one seemed ten times as fast as its neighbour, which then carried nothing. */
static void rate__does_not_believe_in_a_bucket(void **state)
{
    struct bench b;
    uint64_t now = BR_SEC;

    (void)state;
    bench_set_up(&b, 2);
    bench_bucket = 131072 * BR_SEC / 12500000;
    bench_drive(&b.rails[0], 12500000, 20 * BR_US, &now, now + 50 * BR_MS);
    bench_bucket = 0;
    assert_in_range(b.rails[0].rate, 12500000, 17000000);
    bench_drive(&b.rails[1], 12500000, 20 * BR_US, &now, now + 50 * BR_MS);
    assert_in_range(b.rails[1].rate, 12000000, 12500000);
    assert_true(br_rail_may_take(&b.rails[1], 32 << 10, 16 << 10, 0, 0));
}

/* A frame at a time is a latency, and says nothing about what the rail can carry. */
static void rate__is_that_of_a_full_rail(void **state)
{
    struct bench b;
    struct br_rail *rail = &b.rails[0];
    uint64_t now = BR_SEC;

    (void)state;
    bench_set_up(&b, 1);
    for (int i = 0; i < 1000; i++) {
        br_rail_posted(rail, rail->frame_bytes, true, now);
        now += BR_MS;
        br_rail_acknowledged(rail, rail->tx_bytes, now);
    }
    assert_int_equal(rail->rate, 0);
    bench_drive(rail, 125000000, 20 * BR_US, &now, now + 50 * BR_MS);
    assert_in_range(rail->rate, 110000000, 130000000);
}

static void rate__idle_time_does_not_count(void **state)
{
    struct bench b;
    uint64_t now = BR_SEC;

    (void)state;
    bench_set_up(&b, 1);
    for (int i = 0; i < 20; i++) {
        bench_drive(&b.rails[0], 125000000, 20 * BR_US, &now, now + 5 * BR_MS);
        now += 60 * BR_SEC;
    }
    assert_in_range(b.rails[0].rate, 110000000, 130000000);
}

/* Nobody acknowledges the last frame of a transfer when it did not ask. While a program computes,
 * it has long arrived, and the rail carries nothing. */
static void rate__a_pause_behind_a_last_frame_does_not_count(void **state)
{
    struct bench b;
    struct br_rail *rail = &b.rails[0];
    uint64_t now = BR_SEC;

    (void)state;
    bench_set_up(&b, 1);
    for (int i = 0; i < 20; i++) {
        bench_drive(rail, 125000000, 20 * BR_US, &now, now + 5 * BR_MS);
        assert_false(br_rail_asks(rail, 10000));
        br_rail_posted(rail, 10000, false, now);
        now += 200 * BR_MS;
    }
    assert_in_range(rail->rate, 110000000, 130000000);
    assert_in_range(rail->window, 100000, 150000);
}

/* Each window leaves at the pace of a link of 125 MB/s, and its ACKs come in a bunch. */
static void rate__acks_in_a_bunch_show_none(void **state)
{
    struct bench b;
    struct br_rail *rail = &b.rails[0];
    uint64_t now = BR_SEC;

    (void)state;
    bench_set_up(&b, 1);
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
static void rate__is_forgotten_where_another_is_faster(void **state)
{
    struct bench b;
    uint64_t now = BR_SEC;

    (void)state;
    bench_set_up(&b, 2);
    b.rails[1].rate = 125000000;
    bench_drive(&b.rails[0], 12500000, 20 * BR_US, &now, now + 50 * BR_MS);
    br_rail_forget_rate(&b.rails[0], now + 100 * BR_MS);
    assert_in_range(b.rails[0].rate, 12000000, 12500000);
    br_rail_forget_rate(&b.rails[0], now + 2 * BR_SEC);
    assert_int_equal(b.rails[0].rate, 0);
    now += 2 * BR_SEC;
    bench_drive(&b.rails[0], 125000000, 20 * BR_US, &now, now + 50 * BR_MS);
    assert_in_range(b.rails[0].rate, 110000000, 125000000); /* of the new time alone */
}

/* 10 Mb/s: eight windows would take half a second, in which it would take every frame. */
static void rate__of_a_slow_rail_is_soon_known(void **state)
{
    struct bench b;
    uint64_t now = BR_SEC;

    (void)state;
    bench_set_up(&b, 1);
    bench_drive(&b.rails[0], 1250000, 20 * BR_US, &now, now + 30 * BR_MS);
    assert_in_range(b.rails[0].rate, 1200000, 1260000);
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

/* A rail that seems slow is left aside and so never full: twice as fast may be right. What little
 * it carries is answered late, which does not confirm that it is slow. */
static void rate__doubles_where_the_rail_is_never_full(void **state)
{
    struct bench b;
    struct br_rail *rail = &b.rails[0];
    uint64_t now = BR_SEC;

    (void)state;
    bench_set_up(&b, 2);
    b.rails[1].rate = 1250000000;
    br_rail_set_min_rtt(rail, 20 * BR_US, now);
    bench_drive(rail, 12500000, 20 * BR_US, &now, now + 100 * BR_MS);
    hardly_used(rail, &now, 100 * BR_MS); /* the answers of the last full window confirm it */
    for (int i = 0; i < 3; i++) {
        assert_in_range(rail->rate, 12000000ull << i, 12700000ull << i);
        hardly_used(rail, &now, 100 * BR_MS);
        now += 60 * BR_SEC; /* idle time changes nothing */
    }
    bench_drive(rail, 12500000, 20 * BR_US, &now, now + 200 * BR_MS);
    assert_in_range(rail->rate, 12000000, 13500000);
    hardly_used(rail, &now, 510 * BR_MS);
    assert_int_equal(rail->rate, 0);
}

/* A frame of 16 KiB at a time, on a link of `bandwidth` bytes/s. Each is answered `late` ns after
 * it has arrived. */
static void left_aside(struct br_rail *rail, uint64_t bandwidth, uint64_t late, uint64_t *now,
                       uint64_t span)
{
    for (uint64_t end = *now + span; *now < end;) {
        br_rail_forget_rate(rail, *now);
        br_rail_posted(rail, 16 << 10, true, *now);
        *now += (16 << 10) * BR_SEC / bandwidth + 20 * BR_US + late;
        br_rail_acknowledged(rail, rail->tx_bytes, *now);
    }
}

/* 10 Mb/s beside 10 Gb/s. While it was doubled and forgotten, a call now and then ended with what
 * had left on the slow rail. */
static void rate__of_a_slow_rail_is_confirmed_by_answers(void **state)
{
    struct bench b;
    struct br_rail *rail = &b.rails[0];
    uint64_t now = BR_SEC;

    (void)state;
    bench_set_up(&b, 2);
    b.rails[1].rate = 1250000000;
    br_rail_set_min_rtt(rail, 20 * BR_US, now);
    bench_drive(rail, 1250000, 20 * BR_US, &now, now + 200 * BR_MS);
    for (int i = 0; i < 50; i++) {
        left_aside(rail, 1250000, 0, &now, 100 * BR_MS);
        assert_in_range(rail->rate, 1200000, 1300000);
    }
    left_aside(rail, 12500000, 0, &now, 450 * BR_MS); /* now it is ten times as fast */
    assert_true(rail->rate == 0 || rail->rate >= 6000000);
}

/* A slow rail has become 3 to 10 times as fast, but every answer is late by the window's delay.
 * While answers were taken for punctual, 23 of these 32 rails counted as slow for ever. */
static void rate__of_a_faster_rail_is_not_confirmed_by_late_answers(void **state)
{
    (void)state;
    for (uint64_t mbit = 10; mbit <= 40; mbit += 10)
        for (uint64_t times = 3; times <= 10; times++) {
            struct bench b;
            struct br_rail *rail = &b.rails[0];
            uint64_t now = BR_SEC, rate = mbit * 125000;

            bench_set_up(&b, 2);
            b.rails[1].rate = 1250000000;
            br_rail_set_min_rtt(rail, 20 * BR_US, now);
            bench_drive(rail, rate, 20 * BR_US, &now, now + 200 * BR_MS);
            left_aside(rail, times * rate, BR_MS, &now, BR_SEC);
            assert_true(rail->rate == 0 || 2 * rail->rate >= times * rate);
        }
}

/* 10 Gb/s beside 100 Mb/s: transfers of a megabyte never fill the fast one. If its rate were
 * forgotten, the slow one would take a window of each of them. */
static void rate__of_the_fastest_rail_stays(void **state)
{
    struct bench b;
    struct br_rail *fast = &b.rails[0], *slow = &b.rails[1];
    uint64_t now = BR_SEC;

    (void)state;
    bench_set_up(&b, 2);
    bench_drive(fast, 1250000000, 20 * BR_US, &now, now + 50 * BR_MS);
    bench_drive(slow, 12500000, 20 * BR_US, &now, now + 100 * BR_MS);
    hardly_used(fast, &now, 900 * BR_MS);
    br_rail_forget_rate(fast, now + 60 * BR_SEC);
    assert_in_range(fast->rate, 1100000000, 1400000000);
    assert_false(br_rail_may_take(slow, 1 << 20, 16 << 10, 0, 0));
    fast->state = BR_RAIL_FENCING; /* now nothing shows that the other one is slow */
    br_rail_forget_rate(slow, now + 60 * BR_SEC);
    assert_in_range(slow->rate, 12000000, 13000000);
}

/* The guesses never outbid each other. */
static void rate__of_equal_rails_stays(void **state)
{
    struct bench b;
    uint64_t now = BR_SEC;

    (void)state;
    bench_set_up(&b, 2);
    bench_drive(&b.rails[0], 125000000, 20 * BR_US, &now, now + 50 * BR_MS);
    bench_drive(&b.rails[1], 100000000, 20 * BR_US, &now, now + 50 * BR_MS);
    for (int i = 0; i < 20; i++)
        hardly_used(&b.rails[i % 2], &now, 100 * BR_MS);
    assert_in_range(b.rails[0].rate, 110000000, 130000000);
    assert_in_range(b.rails[1].rate, 90000000, 105000000);
}

static void compare__by_rates_where_both_are_known(void **state)
{
    struct bench b;

    (void)state;
    bench_set_up(&b, 2);
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
    bench_set_up(&b, 1);
    carries(&b.rails[0], 1);
    assert_true(br_rail_may_take(&b.rails[0], 1, 1, 0, 0));
}

/* 10 to 1: the slow rail works in the middle of a transfer, and leaves its end to the fast one. */
static void may_take__a_slow_rail_leaves_the_end(void **state)
{
    struct bench b;

    (void)state;
    bench_set_up(&b, 2);
    carries(&b.rails[0], 1000000000);
    carries(&b.rails[1], 100000000);
    assert_true(br_rail_may_take(&b.rails[1], 16 << 20, 64 << 10, 0, 0));
    assert_false(br_rail_may_take(&b.rails[1], 128 << 10, 64 << 10, 0, 0));
    assert_true(br_rail_may_take(&b.rails[0], 128 << 10, 64 << 10, 0, 0));
}

/* A rail that is down, or of which nothing is known, holds nobody back. */
static void may_take__compares_only_with_what_is_known(void **state)
{
    struct bench b;

    (void)state;
    bench_set_up(&b, 2);
    carries(&b.rails[1], 100000000);
    /* the other one was never measured */
    assert_true(br_rail_may_take(&b.rails[1], 128 << 10, 64 << 10, 0, 0));
    carries(&b.rails[0], 1000000000);
    assert_false(br_rail_may_take(&b.rails[1], 128 << 10, 64 << 10, 0, 0));
    b.rails[0].state = BR_RAIL_FENCING;
    assert_true(br_rail_may_take(&b.rails[1], 128 << 10, 64 << 10, 0, 0));
}

/* One frame after a long time alone took 5 ms on a busy host: that is a latency, no rate, and no
 * reason to leave the rail aside. Nothing would ever show what it can carry. */
static void may_take__a_rail_that_was_never_full_is_not_slow(void **state)
{
    struct bench b;
    uint64_t now = BR_SEC;

    (void)state;
    bench_set_up(&b, 2);
    bench_drive(&b.rails[0], 1250000000, 20 * BR_US, &now, now + 50 * BR_MS);
    br_rail_reset(&b.rails[1], now);
    br_rail_posted(&b.rails[1], 16 << 10, true, now);
    br_rail_acknowledged(&b.rails[1], 16 << 10, now + 5 * BR_MS);
    assert_true(br_rail_may_take(&b.rails[1], 128 << 10, 64 << 10, 0, 0));
    now += 5 * BR_MS;
    bench_drive(&b.rails[1], 12500000, 20 * BR_US, &now,
                now + 50 * BR_MS); /* now it shows that it is */
    assert_false(br_rail_may_take(&b.rails[1], 128 << 10, 64 << 10, 0, 0));
}

/* A NIC of a switch that hangs: the other rail carries the end of the transfer, and does not wait
 * until the first one is known to be lost. A last frame that did not ask is no sign. */
static void may_take__nothing_is_left_to_a_rail_that_stands_still(void **state)
{
    struct bench b;
    uint64_t now = BR_SEC;

    (void)state;
    bench_set_up(&b, 2);
    b.rails[0].rate = 1000000000;
    b.rails[1].rate = 100000000;
    br_rail_posted(&b.rails[0], 10000, false, now);
    now += BR_SEC;
    assert_false(br_rail_may_take(&b.rails[1], 128 << 10, 64 << 10, 0, now));
    br_rail_posted(&b.rails[0], 16 << 10, true, now);
    now += 50 * BR_MS;
    assert_false(br_rail_may_take(&b.rails[1], 128 << 10, 64 << 10, 0, now));
    now += 100 * BR_MS;
    assert_true(br_rail_may_take(&b.rails[1], 128 << 10, 64 << 10, 0, now));
    br_rail_acknowledged(&b.rails[0], b.rails[0].tx_bytes, now);
    assert_false(br_rail_may_take(&b.rails[1], 128 << 10, 64 << 10, 0, now));
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

        bench_set_up(&b, n);
        for (int i = 0; i < n; i++) {
            if (br_random_next(&random) % 3)
                carries(&b.rails[i], 1 + br_random_next(&random) % 40000000000);
            b.rails[i].tx_bytes = br_random_next(&random) % MOST;
        }
        for (int i = 0; i < n; i++)
            takers += br_rail_may_take(&b.rails[i], length + br_random_next(&random) % (16 << 20),
                                       length, 0, 0);
        assert_true(takers > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rate__does_not_believe_in_a_bucket),
        cmocka_unit_test(rate__is_that_of_a_full_rail),
        cmocka_unit_test(rate__idle_time_does_not_count),
        cmocka_unit_test(rate__a_pause_behind_a_last_frame_does_not_count),
        cmocka_unit_test(rate__acks_in_a_bunch_show_none),
        cmocka_unit_test(rate__is_forgotten_where_another_is_faster),
        cmocka_unit_test(rate__of_a_slow_rail_is_soon_known),
        cmocka_unit_test(rate__doubles_where_the_rail_is_never_full),
        cmocka_unit_test(rate__of_a_slow_rail_is_confirmed_by_answers),
        cmocka_unit_test(rate__of_a_faster_rail_is_not_confirmed_by_late_answers),
        cmocka_unit_test(rate__of_the_fastest_rail_stays),
        cmocka_unit_test(rate__of_equal_rails_stays),
        cmocka_unit_test(compare__by_rates_where_both_are_known),
        cmocka_unit_test(may_take__a_single_rail_always),
        cmocka_unit_test(may_take__a_slow_rail_leaves_the_end),
        cmocka_unit_test(may_take__compares_only_with_what_is_known),
        cmocka_unit_test(may_take__a_rail_that_was_never_full_is_not_slow),
        cmocka_unit_test(may_take__nothing_is_left_to_a_rail_that_stands_still),
        cmocka_unit_test(may_take__never_all_refuse),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
