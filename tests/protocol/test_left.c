/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer has left in good order: what still waits for it fails, what is complete ends well. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/says.h"
#include "wired.h"

#define LARGE 6000u

static uint8_t memory[LARGE];

static struct br_transfer transfer(uint64_t tag, uint32_t length)
{
    return (struct br_transfer){
        .tag = tag, .peer = 1, .memory = memory, .length = length, .owner = memory};
}

/* After so many numbered messages, of point-to-point tags and others. */
static void bye(struct wired *x, uint32_t p2p, uint32_t others)
{
    wired_say(x, 0, &(struct br_message){.type = BR_MESSAGE_BYE, .bye.next = {others, p2p}});
}

/* The worker has failed, and says who has left and what waits. */
static void expect_failed(struct wired *x, const char *what)
{
    assert_int_equal(x->w->failed, 0); /* not at once: events of before may still come */
    wired_turn(x, 10 * BR_MS);
    wired_turn(x, 10 * BR_MS);
    assert_int_equal(x->w->failed, -ECONNRESET);
    assert_says(x->w->message, "rank 1|left");
    assert_says(x->w->message, what);
}

static void expect_well(struct wired *x)
{
    for (int i = 0; i < 20; i++)
        wired_turn(x, 10 * BR_MS);
    assert_int_equal(x->w->failed, 0);
}

static void left__fails_receives(void **state)
{
    static const uint32_t lengths[] = {8, LARGE};

    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct br_transfer t = transfer(br_tag_collective(0, 7, 0, 0), lengths[i]);
        struct wired x;

        wired_create(&x, 0, 2, NULL);
        assert_int_equal(br_transfer_receive(x.w, &t), 0);
        bye(&x, 0, 0);
        expect_failed(&x, "operation 7");
        wired_destroy(&x);
    }
}

static void left__fails_a_send_without_ready(void **state)
{
    struct br_transfer t = transfer(br_tag_p2p(3, 0, 5), LARGE);
    struct wired *x = *state;

    assert_int_equal(br_transfer_send(x->w, &t), 0);
    bye(x, 0, 0);
    expect_failed(x, "send of communicator 3 with tag 5");
}

static void left__fails_a_send_that_cannot_leave(void **state)
{
    struct br_transfer t = transfer(br_tag_p2p(0, 0, 5), 8);
    struct wired *x = *state;

    x->wires[0].room = 0;
    assert_int_equal(br_transfer_send(x->w, &t), 0);
    bye(x, 0, 0);
    expect_failed(x, "send with tag 5");
}

/* BYE overtook a message on another rail. */
static void left__not_before_all_messages_are_here(void **state)
{
    struct br_transfer t = transfer(br_tag_p2p(0, 0, 5), 8);
    struct wired *x = *state;

    assert_int_equal(br_transfer_receive(x->w, &t), 0);
    bye(x, 1, 0);
    expect_well(x);
    wired_say(x, 1, &(struct br_message){.type = BR_MESSAGE_EAGER, .tag = t.tag, .bytes = 8});
    assert_int_equal(t.state, BR_TRANSFER_ENDED);
    expect_well(x);
}

static void eager(struct wired *x, int rail, uint64_t tag, uint32_t sequence)
{
    wired_say(x, rail,
              &(struct br_message){
                  .type = BR_MESSAGE_EAGER, .tag = tag, .bytes = 8, .sequence = sequence});
}

/* The peer serves us when it has said BYE: its answers are not what BYE said would come. */
static void left__not_before_what_was_sent_before_the_bye(void **state)
{
    struct wired world, *x = &world;

    (void)state;

    for (int k = 0; k < 2; k++) {
        uint64_t tag = k ? br_tag_p2p(0, 0, 5) : br_tag_collective(0, 7, 0, 0);
        struct br_transfer t = transfer(tag, 8),
                           answer = transfer(br_tag_onesided(4, BR_PART_STATUS), BR_ANSWER_BYTES);

        wired_create(x, 0, 2, NULL);
        assert_int_equal(br_transfer_receive(x->w, &t), 0);
        assert_int_equal(br_transfer_receive(x->w, &answer), 0);
        bye(x, (uint32_t)k, (uint32_t)!k);
        wired_say(x, 0,
                  &(struct br_message){.type = BR_MESSAGE_EAGER,
                                       .tag = answer.tag,
                                       .bytes = BR_ANSWER_BYTES,
                                       .sequence = (uint32_t)!k});
        assert_int_equal(answer.state, BR_TRANSFER_ENDED);
        expect_well(x);
        assert_int_equal(x->w->peers[1].state, BR_PEER_UP);
        eager(x, 1, tag, 0);
        assert_int_equal(t.state, BR_TRANSFER_ENDED);
        assert_int_equal(x->w->peers[1].state, BR_PEER_LEFT);
        expect_well(x);
        wired_destroy(x);
    }
}

/* BYE comes behind answers that left later. */
static void left__although_more_has_come(void **state)
{
    struct br_transfer answer = transfer(br_tag_onesided(4, BR_PART_STATUS), BR_ANSWER_BYTES);
    struct wired *x = *state;

    assert_int_equal(br_transfer_receive(x->w, &answer), 0);
    eager(x, 1, br_tag_p2p(0, 0, 5), 0);
    wired_say(x, 1,
              &(struct br_message){
                  .type = BR_MESSAGE_EAGER, .tag = answer.tag, .bytes = BR_ANSWER_BYTES});
    assert_int_equal(answer.state, BR_TRANSFER_ENDED);
    bye(x, 1, 0);
    assert_int_equal(x->w->peers[1].state, BR_PEER_LEFT);
    expect_well(x);
}

/* Before the receive is posted. */
static void left__what_came_before_is_received(void **state)
{
    struct br_transfer t = transfer(br_tag_p2p(0, 0, 5), 8),
                       none = transfer(br_tag_p2p(0, 1, 5), 8);
    struct wired *x = *state;

    wired_say(x, 0, &(struct br_message){.type = BR_MESSAGE_EAGER, .tag = t.tag, .bytes = 8});
    bye(x, 1, 0);
    expect_well(x);
    assert_int_equal(br_transfer_receive(x->w, &t), 0);
    assert_int_equal(t.state, BR_TRANSFER_ENDED);
    assert_int_equal(br_transfer_receive(x->w, &none), -ECONNRESET);
}

static void send_all(struct wired *x, struct br_transfer *t)
{
    assert_int_equal(br_transfer_send(x->w, t), 0);
    wired_say(x, 0,
              &(struct br_message){.type = BR_MESSAGE_READY,
                                   .tag = t->tag,
                                   .bytes = t->length,
                                   .ready = {.slot = 0x10001}});
    assert_int_equal(t->state, BR_TRANSFER_CONFIRMING);
}

/* All bytes have left, only the confirmation is to come. */
static void left__send_is_confirmed_later(void **state)
{
    struct br_transfer t = transfer(br_tag_p2p(0, 0, 5), LARGE);
    struct wired *x = *state;

    send_all(x, &t);
    bye(x, 1, 0);
    expect_well(x);
    wire_sent_all(&x->wires[0]);
    wire_sent_all(&x->wires[1]);
    wired_say(x, 0, &(struct br_message){.type = BR_MESSAGE_DONE, .done.slots = {0x10001}});
    assert_int_equal(t.state, BR_TRANSFER_ENDED);
    assert_int_equal(t.status, 0);
}

/* The confirmation is lost with the last rail: the peer has left, so it has had everything. */
static void left__send_ends_with_the_last_rail(void **state)
{
    struct br_transfer t = transfer(br_tag_p2p(0, 0, 5), LARGE);
    struct wired *x = *state;

    send_all(x, &t);
    bye(x, 1, 0);
    wired_cut(x, 0);
    wired_cut(x, 1);
    assert_int_equal(t.state, BR_TRANSFER_ENDED);
    assert_int_equal(t.status, 0);
    assert_int_equal(x->w->confirms.count, 0);
    expect_well(x);
}

/* Puts, gets and atomics are served until the last rail is closed. */
static void left__onesided_waits_for_the_last_rail(void **state)
{
    struct br_transfer answer = transfer(br_tag_onesided(4, BR_PART_STATUS), BR_ANSWER_BYTES);
    struct wired *x = *state;

    assert_int_equal(br_transfer_receive(x->w, &answer), 0);
    bye(x, 0, 0);
    expect_well(x);
    wire_fail(x->links[0], ECONNRESET, "closed");
    wired_turn(x, 0);
    assert_int_equal(x->w->failed, -ECONNRESET);
    assert_says(x->w->message, "rank 1|left|last rail|level 0|device|closed");
    assert_says(x->w->message, "put, get or atomic");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(left__fails_receives),
        WIRED_TEST(left__fails_a_send_without_ready, .rails = 1, .up = true),
        WIRED_TEST(left__fails_a_send_that_cannot_leave, .rails = 1, .up = true),
        WIRED_TEST(left__not_before_all_messages_are_here, .rails = 2, .up = true),
        cmocka_unit_test(left__not_before_what_was_sent_before_the_bye),
        WIRED_TEST(left__although_more_has_come, .rails = 2, .up = true),
        WIRED_TEST(left__what_came_before_is_received, .rails = 1, .up = true),
        WIRED_TEST(left__send_is_confirmed_later, .rails = 2, .up = true),
        WIRED_TEST(left__send_ends_with_the_last_rail, .rails = 2, .up = true),
        WIRED_TEST(left__onesided_waits_for_the_last_rail, .rails = 1, .up = true),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
