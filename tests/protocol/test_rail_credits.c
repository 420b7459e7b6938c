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

/* Sends messages until the credits say no; returns how many. */
static int spend(struct br_rail *rail, enum br_credit kind)
{
    int n = 0;

    for (; br_rail_has_credit(rail, kind); n++) {
        assert_true(n < 1000);
        rail->sent++;
        rail->sent_p2p += kind == BR_CREDIT_P2P;
    }
    return n;
}

static void hear(struct br_rail *rail, uint32_t arrived, uint32_t released, uint32_t released_p2p)
{
    struct br_body_ack ack = {
        .arrived = arrived, .released = released, .released_p2p = released_p2p};

    br_rail_ack_received(rail, &ack, 1);
}

/* Those that are kept: four for point to point, one for puts and gets, one for the oldest
 * operation. */
static void credit__some_are_kept(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b);
    assert_int_equal(spend(&b.rails[0], BR_CREDIT_ORDINARY), BR_CREDITS - BR_CREDITS_P2P_OWN - 2);
    assert_int_equal(spend(&b.rails[0], BR_CREDIT_OLDEST), 1);
    assert_int_equal(spend(&b.rails[0], BR_CREDIT_ONESIDED), 1);
    assert_int_equal(spend(&b.rails[0], BR_CREDIT_P2P), BR_CREDITS_P2P_OWN);
}

/* Beyond the share of point to point; where others hold all that is shared, of its own ones. */
static void credit__expected_ones_find_one(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b);
    assert_int_equal(spend(&b.rails[0], BR_CREDIT_P2P), BR_CREDITS_P2P);
    assert_int_equal(spend(&b.rails[0], BR_CREDIT_OLDEST), BR_CREDITS - BR_CREDITS_P2P - 1);
    assert_true(br_rail_has_credit(&b.rails[0], BR_CREDIT_EXPECTED));
    set_up(&b);
    assert_int_equal(spend(&b.rails[0], BR_CREDIT_ONESIDED), BR_CREDITS - BR_CREDITS_P2P_OWN);
    assert_true(br_rail_has_credit(&b.rails[0], BR_CREDIT_EXPECTED));
}

/* Messages of point to point may find no receive for ever: they take half of the credits, never the
 * last one. */
static void credit__point_to_point_has_a_share(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b);
    assert_int_equal(spend(&b.rails[0], BR_CREDIT_P2P), BR_CREDITS_P2P);
    assert_int_equal(spend(&b.rails[0], BR_CREDIT_ORDINARY), BR_CREDITS - BR_CREDITS_P2P - 2);
    hear(&b.rails[0], 1, 1, 0); /* a collective's: gives nothing to point to point */
    assert_false(br_rail_has_credit(&b.rails[0], BR_CREDIT_P2P));
    hear(&b.rails[0], 2, 2, 1);
    assert_int_equal(spend(&b.rails[0], BR_CREDIT_P2P), 1);
}

/* A copy is kept until the message is known to have arrived, so a place is not taken twice,
 * whatever is released. */
static void credit__waits_for_arrival_too(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b);
    assert_int_equal(spend(&b.rails[0], BR_CREDIT_P2P), BR_CREDITS_P2P);
    assert_int_equal(spend(&b.rails[0], BR_CREDIT_ONESIDED), BR_CREDITS - BR_CREDITS_P2P);
    /* overtaken counters: released, but not arrived */
    hear(&b.rails[0], 0, BR_CREDITS, BR_CREDITS_P2P);
    assert_false(br_rail_has_credit(&b.rails[0], BR_CREDIT_ONESIDED));
    hear(&b.rails[0], 10, BR_CREDITS, BR_CREDITS_P2P);
    assert_int_equal(spend(&b.rails[0], BR_CREDIT_ONESIDED), 10);
}

static void ack__overtaken_and_impossible_counters(void **state)
{
    struct bench b;
    struct br_rail *rail = &b.rails[0];

    (void)state;
    set_up(&b);
    rail->sent = 40;
    rail->sent_p2p = 20;
    hear(rail, 30, 20, 10);
    hear(rail, 25, 19, 9); /* overtaken */
    assert_int_equal(rail->peer_arrived, 30);
    assert_int_equal(rail->peer_released, 20);
    assert_int_equal(rail->peer_released_p2p, 10);
    hear(rail, 41, 41, 21); /* more than was ever sent */
    hear(rail, UINT32_MAX, UINT32_MAX, UINT32_MAX);
    assert_int_equal(rail->peer_arrived, 30);
    assert_int_equal(rail->peer_released, 20);
    assert_int_equal(rail->peer_released_p2p, 10);
}

/* 2^32 messages later. */
static void ack__counters_wrap(void **state)
{
    struct bench b;
    struct br_rail *rail = &b.rails[0];

    (void)state;
    set_up(&b);
    rail->sent = rail->peer_arrived = rail->peer_released = UINT32_MAX - 5;
    assert_int_equal(spend(rail, BR_CREDIT_ONESIDED), BR_CREDITS - BR_CREDITS_P2P_OWN);
    hear(rail, 3, 2, 0);
    assert_int_equal(rail->peer_arrived, 3);
    assert_int_equal(rail->peer_released, 2);
    assert_int_equal(spend(rail, BR_CREDIT_ONESIDED), 8);
}

/* The receiver's side: credits go back in batches, or after a while. */
static void released__a_quarter_is_announced_at_once(void **state)
{
    struct bench b;
    struct br_rail *rail = &b.rails[0];

    (void)state;
    set_up(&b);
    for (uint32_t i = 0; i < BR_CREDITS / 4; i++) {
        assert_false(rail->ack_due);
        br_rail_message_released(rail, i % 2, 100 + i);
    }
    assert_true(rail->ack_due);
    assert_int_equal(rail->unannounced_since, 100);
    assert_int_equal(rail->released_p2p, BR_CREDITS / 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(credit__some_are_kept),
        cmocka_unit_test(credit__expected_ones_find_one),
        cmocka_unit_test(credit__point_to_point_has_a_share),
        cmocka_unit_test(credit__waits_for_arrival_too),
        cmocka_unit_test(ack__overtaken_and_impossible_counters),
        cmocka_unit_test(ack__counters_wrap),
        cmocka_unit_test(released__a_quarter_is_announced_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
