/* SPDX-License-Identifier: BSD-3-Clause */
/* Credits of a rail, and the counters of ACK. No link and no worker behind them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "protocol/internal.h"

struct bench {
    struct br_device device;
    struct br_rail rails[1];
    struct br_peer peer;
};

static void set_up(struct bench *b)
{
    memset(b, 0, sizeof *b);
    b->device.caps = (struct br_caps){.max_frame = 1 << 20};
    br_rail_init(&b->rails[0], &b->peer, 0);
    b->rails[0].device = &b->device;
    br_rail_reset(&b->rails[0], 0);
}

/* Sends messages until the rail takes none; returns how many. */
static uint32_t spend(struct br_rail *rail, bool needs_credit)
{
    uint32_t n = 0;

    for (; br_rail_takes_message(rail, needs_credit); n++) {
        assert_true(n < 1000);
        rail->sent++;
    }
    return n;
}

static void hear(struct br_rail *rail, uint32_t arrived, uint32_t released)
{
    struct br_body_ack ack = {.arrived = arrived, .released = released};

    br_rail_ack_received(rail, &ack, 1);
}

/* What may come before its receive leaves four buffers to what does not, whoever uses the others.
 */
static void credit__some_buffers_need_none(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b);
    assert_int_equal(spend(&b.rails[0], true), BR_CREDITS);
    assert_int_equal(spend(&b.rails[0], false), BR_UNRELEASED - BR_CREDITS);
    hear(&b.rails[0], 4, 4);
    assert_false(br_rail_takes_message(&b.rails[0], true));
    assert_int_equal(spend(&b.rails[0], false), 4);
    hear(&b.rails[0], 9, 9);
    assert_int_equal(spend(&b.rails[0], true), 1);
}

/* A copy is kept until the message is known to have arrived, so a place is not taken twice,
 * whatever is released. */
static void credit__waits_for_arrival_too(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b);
    assert_int_equal(spend(&b.rails[0], false), BR_UNRELEASED);
    hear(&b.rails[0], 0, BR_UNRELEASED); /* overtaken counters: released, but not arrived */
    assert_false(br_rail_takes_message(&b.rails[0], false));
    hear(&b.rails[0], 10, BR_UNRELEASED);
    assert_int_equal(spend(&b.rails[0], false), 10);
}

/* Of large messages fewer may be outstanding, and what is released gives their bytes back. */
static void credit__bounds_bytes_too(void **state)
{
    const uint32_t bytes = 32u << 10, n = BR_CREDIT_BYTES / bytes;
    struct bench b;
    struct br_rail *rail = &b.rails[0];
    struct br_body_ack ack = {.arrived = n, .released = 2, .released_bytes = 2 * bytes};

    (void)state;
    set_up(&b);
    for (uint32_t i = 0; i < n; i++) {
        assert_true(br_rail_takes_message(rail, true));
        rail->sent++;
        rail->sent_bytes += bytes;
    }
    assert_false(br_rail_takes_message(rail, true));
    assert_true(br_rail_takes_message(rail, false));
    br_rail_ack_received(rail, &ack, 1);
    assert_true(br_rail_takes_message(rail, true));
    ack.released_bytes = bytes; /* overtaken */
    br_rail_ack_received(rail, &ack, 1);
    ack.released_bytes = rail->sent_bytes + 1; /* more than was ever sent */
    br_rail_ack_received(rail, &ack, 1);
    assert_int_equal(rail->peer_released_bytes, 2 * bytes);
}

/* An EAGER says it, too; what is released has arrived. */
static void credit__comes_with_eager(void **state)
{
    struct bench b;
    struct br_rail *rail = &b.rails[0];
    struct br_message m = {.type = BR_MESSAGE_EAGER, .released = 3, .released_units = 1};

    (void)state;
    set_up(&b);
    rail->sent = rail->peer_arrived = rail->peer_released = UINT32_MAX - 5;
    rail->sent_bytes = rail->peer_released_bytes = UINT32_MAX - 4095;
    assert_int_equal(spend(rail, true), BR_CREDITS);
    rail->sent_bytes += 8192;
    br_rail_eager_received(rail, &m); /* 9 of them, over the wrap */
    assert_int_equal(rail->peer_released, 3);
    assert_int_equal(rail->peer_arrived, 3);
    assert_int_equal(rail->peer_released_bytes, 256);
    br_rail_eager_received(rail, &m); /* nothing new */
    assert_int_equal(rail->peer_released, 3);
    assert_int_equal(rail->peer_released_bytes, 256);
    m.released_units = 2; /* only bytes are new */
    br_rail_eager_received(rail, &m);
    assert_int_equal(rail->peer_released_bytes, 512);
    m.released = 2;        /* less than before */
    m.released_units = 17; /* more than was sent */
    br_rail_eager_received(rail, &m);
    assert_int_equal(rail->peer_released, 3);
    assert_int_equal(rail->peer_released_bytes, 512);
    assert_int_equal(spend(rail, true), 9);
}

/* On a long path that carries more meanwhile, more may be on its way. */
static void credit__bytes_of_a_long_path(void **state)
{
    struct bench b;
    struct br_rail *rail = &b.rails[0];

    (void)state;
    set_up(&b);
    br_rail_set_delivery_rate(rail, 1000000000); /* no round trip is known */
    assert_int_equal(rail->credit_bytes, BR_CREDIT_BYTES);
    br_rail_set_min_rtt(rail, BR_MS, 1);
    br_rail_set_delivery_rate(rail, 1000000000);
    assert_in_range(rail->credit_bytes, 1999999, 2000001);
    br_rail_set_delivery_rate(rail, 1000000000000);
    assert_int_equal(rail->credit_bytes, BR_WINDOW_MOST);
    br_rail_set_delivery_rate(rail, 0);
    assert_int_equal(rail->credit_bytes, BR_CREDIT_BYTES);
}

static void ack__overtaken_and_impossible_counters(void **state)
{
    struct bench b;
    struct br_rail *rail = &b.rails[0];

    (void)state;
    set_up(&b);
    rail->sent = 40;
    hear(rail, 30, 20);
    hear(rail, 25, 19); /* overtaken */
    assert_int_equal(rail->peer_arrived, 30);
    assert_int_equal(rail->peer_released, 20);
    hear(rail, 41, 41); /* more than was ever sent */
    hear(rail, UINT32_MAX, UINT32_MAX);
    assert_int_equal(rail->peer_arrived, 30);
    assert_int_equal(rail->peer_released, 20);
}

/* 2^32 messages later. */
static void ack__counters_wrap(void **state)
{
    struct bench b;
    struct br_rail *rail = &b.rails[0];

    (void)state;
    set_up(&b);
    rail->sent = rail->peer_arrived = rail->peer_released = UINT32_MAX - 5;
    assert_int_equal(spend(rail, true), BR_CREDITS);
    hear(rail, 3, 2);
    assert_int_equal(rail->peer_arrived, 3);
    assert_int_equal(rail->peer_released, 2);
    assert_int_equal(spend(rail, true), 8);
}

/* The receiver's side: buffers go back in batches, or after a while. */
static void released__a_quarter_is_announced_at_once(void **state)
{
    struct bench b;
    struct br_rail *rail = &b.rails[0];

    (void)state;
    set_up(&b);
    for (uint32_t i = 0; i < BR_CREDITS / 4; i++) {
        assert_false(rail->ack_due);
        rail->arrived++;
        br_rail_message_released(rail, 0, false, 100 + i);
    }
    assert_true(rail->ack_due);
    assert_int_equal(rail->unannounced_since, 100);
}

/* Of those that the peer may have: the last ones one by one. */
static void released__sooner_while_others_wait(void **state)
{
    struct bench b;
    struct br_rail *rail = &b.rails[0];

    (void)state;
    set_up(&b);
    rail->arrived = 37;
    for (uint32_t i = 0; i < 5; i++) {
        assert_false(rail->ack_due);
        rail->arrived++;
        br_rail_message_released(rail, 0, false, 100);
    }
    rail->arrived++;
    br_rail_message_released(rail, 0, false, 100);
    assert_true(rail->ack_due);
    rail->ack_due = false;
    rail->announced = rail->released;
    rail->arrived = rail->released + BR_CREDITS + 1;
    br_rail_message_released(rail, 0, false, 100);
    assert_true(rail->ack_due);
}

/* Receives that come late take one after the other of those that wait: they go back together. */
static void released__half_where_this_rank_is_behind(void **state)
{
    struct bench b;
    struct br_rail *rail = &b.rails[0];

    (void)state;
    set_up(&b);
    rail->arrived = BR_CREDITS;
    for (uint32_t i = 0; i < BR_CREDITS / 2; i++) {
        assert_false(rail->ack_due);
        br_rail_message_released(rail, 0, true, 100);
    }
    assert_true(rail->ack_due);
}

/* Bytes are announced when a quarter is left, those that wait here included but where this rank is
 * behind. */
static void released__bytes_of_large_ones(void **state)
{
    const uint32_t bytes = BR_CREDIT_BYTES / 8;
    struct bench b;
    struct br_rail *rail = &b.rails[0];

    (void)state;
    set_up(&b);
    for (uint32_t i = 0; i < 5; i++) {
        br_rail_message_arrived(rail, bytes);
        br_rail_message_released(rail, bytes, false, 100);
    }
    assert_false(rail->ack_due);
    br_rail_message_arrived(rail, bytes);
    assert_false(br_rail_is_crowded(rail));
    br_rail_check_credits(rail); /* five are released, one waits: two are left */
    assert_true(rail->ack_due);
    set_up(&b);
    for (uint32_t i = 0; i < 8; i++)
        br_rail_message_arrived(rail, bytes);
    for (uint32_t i = 0; i < 6; i++) {
        assert_false(rail->ack_due);
        assert_int_equal(br_rail_is_crowded(rail), i <= 4);
        br_rail_message_released(rail, bytes, true, 100);
    }
    assert_true(rail->ack_due);
    assert_int_equal(rail->held_bytes, 2 * bytes);
}

/* A few were released, and then so many wait that the peer has no credit but these. */
static void check_credits__those_that_are_left(void **state)
{
    struct bench b;
    struct br_rail *rail = &b.rails[0];

    (void)state;
    set_up(&b);
    rail->arrived = BR_CREDITS;
    br_rail_check_credits(rail);
    assert_false(rail->ack_due); /* nothing to give back */
    rail->arrived = 1;
    br_rail_message_released(rail, 0, false, 100);
    assert_false(rail->ack_due);
    rail->arrived = BR_CREDITS; /* all but that one wait */
    br_rail_check_credits(rail);
    assert_true(rail->ack_due);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(credit__some_buffers_need_none),
        cmocka_unit_test(credit__waits_for_arrival_too),
        cmocka_unit_test(credit__bounds_bytes_too),
        cmocka_unit_test(credit__comes_with_eager),
        cmocka_unit_test(credit__bytes_of_a_long_path),
        cmocka_unit_test(ack__overtaken_and_impossible_counters),
        cmocka_unit_test(ack__counters_wrap),
        cmocka_unit_test(released__a_quarter_is_announced_at_once),
        cmocka_unit_test(released__sooner_while_others_wait),
        cmocka_unit_test(released__half_where_this_rank_is_behind),
        cmocka_unit_test(released__bytes_of_large_ones),
        cmocka_unit_test(check_credits__those_that_are_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
