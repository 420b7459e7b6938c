/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that want different things hear of it, also when nothing of theirs meets. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/says.h"
#include "wired.h"

#define LARGE 10000u

static uint8_t memory[LARGE];

static struct br_transfer transfer(uint64_t tag, uint32_t length)
{
    return (struct br_transfer){
        .tag = tag, .peer = 1, .memory = memory, .length = length, .check = 7};
}

static void arrives(struct wired *x, enum br_message_type type, uint64_t tag, uint32_t bytes,
                    uint16_t check)
{
    struct br_message m = {.type = (uint8_t)type, .tag = tag, .bytes = bytes, .check = check};

    wire_message(x->links[0], &m, NULL, 0);
    wired_turn(x, 0);
}

static void expect_failed(const struct wired *x, const char *text)
{
    assert_int_equal(x->w->failed, -EPROTO);
    if (!says_all(x->w->message, text))
        fail_msg("%s", x->w->message);
}

/* How often WAITING was said about a tag in the next `ms`. */
static int said(struct wired *x, uint64_t tag, int ms)
{
    struct wire_frame *frame;
    int n = 0;

    for (int i = 0; i < ms; i++) {
        if (i % 20 == 0) /* the peer lives */
            wire_message(x->links[0], &(struct br_message){.type = BR_MESSAGE_PONG}, NULL, 0);
        wired_turn(x, BR_MS);
    }
    while ((frame = wire_take(x->links[0], BR_MESSAGE_WAITING)))
        n += frame->message.tag == tag;
    return n;
}

static void waits__a_large_send_says_it_again_and_again(void **state)
{
    uint64_t tag = br_tag_p2p(0, 0, 9);
    struct br_transfer t = transfer(tag, LARGE);
    struct wired *x = *state;

    t.total = 5 * (uint64_t)LARGE;
    assert_int_equal(br_transfer_send(x->w, &t), 0);
    assert_int_equal(said(x, tag, 99), 0);
    assert_in_range(said(x, tag, 1000), 9, 10);
    arrives(x, BR_MESSAGE_READY, tag, LARGE, 7);
    assert_int_equal(x->w->failed, 0);
    assert_non_null(wire_take_placed(x->links[0]));
    assert_int_equal(said(x, tag, 300), 0);
}

/* The peer remembers it. */
static void waits__a_collective_says_it_once(void **state)
{
    uint64_t tag = br_tag_collective(0, 3, 0, 0), other = br_tag_collective(0, 3, 0, 1);
    struct br_transfer send = transfer(tag, LARGE), receive = transfer(other, 8);
    struct wired *x = *state;

    assert_int_equal(br_transfer_send(x->w, &send), 0);
    assert_int_equal(br_transfer_receive(x->w, &receive), 0);
    assert_int_equal(said(x, tag, 150), 1);
    assert_int_equal(said(x, other, 1000), 0); /* was taken by the line before */
}

/* It may come at any time, and nobody need be told. */
static void waits__not_a_receive_of_a_message(void **state)
{
    uint64_t tag = br_tag_p2p(0, 0, 9);
    struct br_transfer t = transfer(tag, 8);
    struct wired *x = *state;

    assert_int_equal(br_transfer_receive(x->w, &t), 0);
    assert_int_equal(said(x, tag, 1000), 0);
}

static void waiting__of_a_message_of_another_size(void **state)
{
    uint64_t tag = br_tag_p2p(0, 0, 9);
    struct br_transfer small = transfer(tag, 8);
    struct wired *x = *state;

    arrives(x, BR_MESSAGE_WAITING, tag, LARGE, 8); /* before the receive: it will be said again */
    assert_int_equal(br_transfer_receive(x->w, &small), 0);
    arrives(x, BR_MESSAGE_WAITING, tag, LARGE, 8);
    expect_failed(x, "tag 9|rank 1 sends 10000 bytes|rank 0 receives 8");
}

/* Its READY is on the way. */
static void waiting__of_a_message_of_the_same_size(void **state)
{
    uint64_t tag = br_tag_p2p(0, 0, 9);
    struct br_transfer t = transfer(tag, LARGE);
    struct wired *x = *state;

    assert_int_equal(br_transfer_receive(x->w, &t), 0);
    arrives(x, BR_MESSAGE_WAITING, tag, LARGE, 7);
    assert_int_equal(x->w->failed, 0);
}

/* A small message for a large receive, whichever is there first. */
static void eager__for_a_large_receive(void **state)
{
    uint64_t tag = br_tag_p2p(5, 0, 9);

    (void)state;
    for (int first = 0; first < 2; first++) {
        struct br_transfer t = transfer(tag, LARGE);
        struct wired x;

        wired_create(&x, 0, 1, NULL);
        if (first)
            assert_int_equal(br_transfer_receive(x.w, &t), 0);
        arrives(&x, BR_MESSAGE_EAGER, tag, 8, 8);
        if (!first)
            assert_int_equal(br_transfer_receive(x.w, &t), 0);
        expect_failed(&x, "communicator 5|tag 9|rank 1 sends 8 bytes|rank 0 receives 10000");
        wired_destroy(&x);
    }
}

/* A receive that has ended, or was taken back, is not found any more. */
static void eager__after_a_large_receive(void **state)
{
    uint64_t tag = br_tag_p2p(0, 0, 9);
    struct br_transfer t = transfer(tag, LARGE), small = transfer(tag, 0);
    struct wired *x = *state;

    assert_int_equal(br_transfer_receive(x->w, &t), 0);
    br_transfer_withdraw(x->w, &t);
    assert_int_equal(br_transfer_receive(x->w, &t), 0);
    wired_turn(x, 0);
    wire_placed(x->links[0], wire_take(x->links[0], BR_MESSAGE_READY)->message.ready.slot, 0,
                memory, LARGE, 0);
    wired_turn(x, 0);
    assert_int_equal(t.state, BR_TRANSFER_ENDED);
    assert_int_equal(br_transfer_receive(x->w, &small), 0);
    assert_int_equal(x->w->failed, 0);
}

static void eager__longer_than_agreed(void **state)
{
    struct br_message m = {.type = BR_MESSAGE_EAGER, .tag = 1};
    struct wired *x = *state;

    x->w->peers[1].eager_bytes = 100;
    m.bytes = 101;
    wire_message(x->links[0], &m, memory, 101);
    wired_turn(x, 0);
    expect_failed(x, "longer");
}

/* What comes for an operation and has no transfer there: begun already, or not yet (WAITING is not
 * remembered). */
static void operation__with_other_arguments(void **state)
{
    static const enum br_message_type types[] = {BR_MESSAGE_EAGER, BR_MESSAGE_READY,
                                                 BR_MESSAGE_WAITING};

    (void)state;
    for (int i = 0; i < 3; i++)
        for (int begun = types[i] == BR_MESSAGE_WAITING; begun < 2; begun++) {
            struct wired x;

            wired_create(&x, 0, 1, NULL);
            if (begun)
                br_worker_begins(x.w, 2, 77, 7, NULL);
            arrives(&x, types[i], br_tag_collective(2, 77, 1, 1), 8, 9);
            if (!begun) {
                br_worker_begins(x.w, 2, 76, 7, NULL);
                br_worker_begins(x.w, 3, 77, 7, NULL);
                assert_int_equal(x.w->failed, 0);
                br_worker_begins(x.w, 2, 77, 7, NULL);
            }
            expect_failed(&x, "77|communicator 2|0009|0007");
            wired_destroy(&x);
        }
}

static void operation__with_the_same_arguments(void **state)
{
    struct wired *x = *state;

    arrives(x, BR_MESSAGE_WAITING, br_tag_collective(2, 77, 1, 1), 8, 9);
    br_worker_begins(x->w, 2, 77, 9, NULL);
    arrives(x, BR_MESSAGE_WAITING, br_tag_collective(2, 77, 1, 2), 8, 9);
    assert_int_equal(x->w->failed, 0);
}

/* A group's number is used again, or its operations have been counted round once. */
static void operation__of_a_group_that_was_forgotten(void **state)
{
    struct wired *x = *state;

    br_worker_begins(x->w, 2, 77, 7, NULL);
    br_worker_begins(x->w, 1, 77, 7, NULL);
    br_worker_forget_group(x->w, 2);
    arrives(x, BR_MESSAGE_WAITING, br_tag_collective(2, 77, 1, 1), 8, 9);
    assert_int_equal(x->w->failed, 0);
    arrives(x, BR_MESSAGE_WAITING, br_tag_collective(1, 77, 1, 1), 8, 9);
    assert_int_equal(x->w->failed, -EPROTO);
}

/* The group has ended here, a peer's WAITING comes late, and the number serves again for a group
 * that does something else. */
static void operation__waiting_of_a_group_that_has_ended(void **state)
{
    struct wired *x = *state;

    br_worker_begins(x->w, 2, 1, 7, NULL);
    br_worker_forget_group(x->w, 2);
    arrives(x, BR_MESSAGE_WAITING, br_tag_collective(2, 1, 1, 1), 8, 7);
    br_worker_forget_before(x->w, 2, 0);
    br_worker_begins(x->w, 2, 0, 8, NULL);
    br_worker_begins(x->w, 2, 1, 9, NULL);
    assert_int_equal(x->w->failed, 0);
}

/* A rank that is ahead has begun operations of which we know from its messages alone. */
static void operation__to_come_is_not_forgotten(void **state)
{
    struct wired *x = *state;

    br_worker_begins(x->w, 2, BR_OPERATIONS - 1, 7, NULL);
    arrives(x, BR_MESSAGE_READY, br_tag_collective(2, BR_OPERATIONS, 1, 1), 8, 9);
    br_worker_forget_before(x->w, 2, BR_OPERATIONS);
    arrives(x, BR_MESSAGE_WAITING, br_tag_collective(2, BR_OPERATIONS - 1, 1, 1), 8, 9);
    assert_int_equal(x->w->failed, 0); /* that is past */
    br_worker_begins(x->w, 2, BR_OPERATIONS, 8, NULL);
    assert_int_equal(x->w->failed, -EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WIRED_TEST(waits__a_large_send_says_it_again_and_again, .rails = 1, .up = true),
        WIRED_TEST(waits__a_collective_says_it_once, .rails = 1, .up = true),
        WIRED_TEST(waits__not_a_receive_of_a_message, .rails = 1, .up = true),
        WIRED_TEST(waiting__of_a_message_of_another_size, .rails = 1, .up = true),
        WIRED_TEST(waiting__of_a_message_of_the_same_size, .rails = 1, .up = true),
        cmocka_unit_test(eager__for_a_large_receive),
        WIRED_TEST(eager__after_a_large_receive, .rails = 1, .up = true),
        WIRED_TEST(eager__longer_than_agreed, .rails = 1, .up = true),
        cmocka_unit_test(operation__with_other_arguments),
        WIRED_TEST(operation__with_the_same_arguments, .rails = 1, .up = true),
        WIRED_TEST(operation__of_a_group_that_was_forgotten, .rails = 1, .up = true),
        WIRED_TEST(operation__waiting_of_a_group_that_has_ended, .rails = 1, .up = true),
        WIRED_TEST(operation__to_come_is_not_forgotten, .rails = 1, .up = true),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
