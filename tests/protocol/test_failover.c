/* SPDX-License-Identifier: BSD-3-Clause */
/* A rail is lost, and nothing else is: what goes again, when, and on what. */
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

#define SLICE (64u << 10)

static uint8_t memory[4 << 20];

static void ready(struct wired *x, int rail, uint32_t sequence, uint64_t tag, uint32_t length,
                  uint32_t slot)
{
    struct br_message m = {.type = BR_MESSAGE_READY,
                           .sequence = sequence,
                           .tag = tag,
                           .bytes = length,
                           .ready.slot = slot};

    wired_say(x, rail, &m);
}

/* Messages that went out on the lost rail go again on the other one, once, with their old numbers
 * and bytes. */
static void messages__go_again_once(void **state)
{
    struct wire_frame *frame;
    struct br_transfer t[6];
    uint32_t lost = 0, again = 0, kept = 0;
    struct wired *x = *state;

    memset(memory, 9, 600);
    x->wires[1].room = 0;
    for (uint32_t i = 0; i < 6; i++) {
        t[i] = (struct br_transfer){.tag = i, .peer = 1, .memory = memory, .length = 4 + 100 * i};
        assert_int_equal(br_transfer_send(x->w, &t[i]), 0);
    }
    wired_turn(x, 0);
    while ((frame = wire_take(x->links[0], BR_MESSAGE_EAGER)))
        lost |= 1u << frame->message.sequence;
    assert_int_equal(lost, 63);
    memset(memory, 1, 600); /* the sends have ended: their memory has another use */
    x->wires[1].room = -1;
    wired_cut(x, 0);
    while ((frame = wire_take(x->links[1], BR_MESSAGE_EAGER))) {
        assert_int_equal(again >> frame->message.sequence & 1, 0);
        again |= 1u << frame->message.sequence;
        kept += frame->frame.length ? frame->payload[frame->frame.length - 1] == 9
                                    : frame->message.data[0] == 9;
    }
    assert_int_equal(again, 63);
    assert_int_equal(kept, 6);
}

/* Those that the peer has acknowledged do not go again. */
static void messages__acknowledged_ones_do_not(void **state)
{
    struct br_message ack = {.type = BR_MESSAGE_ACK, .ack = {.arrived = 2}};
    struct br_transfer t[3];
    struct wired *x = *state;

    x->wires[1].room = 0;
    for (uint32_t i = 0; i < 3; i++) {
        t[i] = (struct br_transfer){.tag = i, .peer = 1, .memory = memory, .length = 4};
        assert_int_equal(br_transfer_send(x->w, &t[i]), 0);
    }
    wired_turn(x, 0);
    wire_message(x->links[0], &ack, NULL, 0);
    wired_turn(x, 0);
    x->wires[1].room = -1;
    wired_cut(x, 0);
    assert_int_equal(wire_take(x->links[1], BR_MESSAGE_EAGER)->message.sequence, 2);
    assert_null(wire_take(x->links[1], BR_MESSAGE_EAGER));
}

/* Nothing is placed again before the peer has confirmed that the old link writes no more. */
static void slices__wait_for_the_fence(void **state)
{
    struct br_transfer t = {.tag = 1, .peer = 1, .memory = memory, .length = 2 * SLICE};
    struct wire_frame *frame;
    struct wired *x = *state;
    uint32_t bytes = 0;

    x->wires[1].room = 0;
    assert_int_equal(br_transfer_send(x->w, &t), 0);
    ready(x, 0, 0, 1, t.length, 0x10001);
    x->wires[1].room = -1;
    wired_cut(x, 0);
    assert_true(x->links[0]->closed);
    frame = wire_take(x->links[1], BR_MESSAGE_RAIL_DOWN);
    assert_non_null(frame);
    assert_int_equal(frame->message.rail.rail, 0);
    assert_int_equal(frame->message.rail.incarnation, 1);
    assert_null(wire_take_placed(x->links[1]));
    wired_fenced(x, 0, 1);
    while ((frame = wire_take_placed(x->links[1])))
        bytes += frame->frame.length;
    assert_int_equal(bytes, 2 * SLICE);
    assert_int_equal(x->w->failed, 0);
}

/* A fence of another connection says nothing about this one. */
static void fence__of_another_incarnation(void **state)
{
    struct br_message m = {.type = BR_MESSAGE_RAIL_FENCED, .rail = {0, 7, {0}}};
    struct wired *x = *state;

    wired_cut(x, 0);
    wire_message(x->links[1], &m, NULL, 0);
    m.rail.rail = 200;
    wire_message(x->links[1], &m, NULL, 0);
    wired_turn(x, 0);
    assert_int_equal(x->w->peers[1].rails[0].state, BR_RAIL_FENCING);
    wired_fenced(x, 0, 1);
    assert_int_equal(x->w->peers[1].rails[0].state, BR_RAIL_IDLE);
}

/* The peer noticed first: we close our end and say so. */
static void down__reported_by_the_peer(void **state)
{
    struct br_message m = {.type = BR_MESSAGE_RAIL_DOWN, .rail = {0, 1, {0}}};
    struct wired *x = *state;

    wire_message(x->links[1], &m, NULL, 0);
    wired_turn(x, 0);
    assert_true(x->links[0]->closed);
    assert_int_equal(wire_take(x->links[1], BR_MESSAGE_RAIL_FENCED)->message.rail.incarnation, 1);
    assert_non_null(wire_take(x->links[1], BR_MESSAGE_RAIL_DOWN)); /* we need its fence as well */
}

/* It speaks of the very link on which it comes, or of rails that do not exist. */
static void down__of_its_own_link(void **state)
{
    struct br_message m = {.type = BR_MESSAGE_RAIL_DOWN, .rail = {8, 1, {0}}};
    struct wired *x = *state;

    wire_message(x->links[0], &m, NULL, 0);
    m.rail.rail = UINT32_MAX;
    wire_message(x->links[0], &m, NULL, 0);
    wired_turn(x, 0);
    assert_int_equal(x->wires[0].buffers, 0);
    assert_false(x->links[0]->closed);
    m.rail.rail = 0;
    wire_message(x->links[0], &m, NULL, 0);
    wired_turn(x, 0);
    assert_true(x->links[0]->closed);
    assert_non_null(wire_take(x->links[1], BR_MESSAGE_RAIL_FENCED));
}

/* We connect. The peer had welcomed us, but its WELCOME was lost with the link, and we try again
 * already: it waits for the fence of a connection that we know no more, and takes no new one
 * before. */
static void down__of_a_connection_before_this_one(void **state)
{
    struct br_message m = {.type = BR_MESSAGE_RAIL_DOWN, .rail = {1, 1, {0}}};
    struct wire_frame *frame;
    struct wire_link *first;
    struct wired *x = *state;

    assert_true(wired_connect(x, 0));
    first = br_container_of(x->wires[1].links.prev, struct wire_link, node);
    wire_fail(first, ECONNRESET, "cut");
    wired_turn(x, 0);
    wired_turn(x, 20 * BR_MS); /* it tries again */
    assert_int_equal(x->w->peers[0].rails[1].state, BR_RAIL_HANDSHAKE);
    assert_int_equal(x->w->peers[0].rails[1].incarnation, 2);
    wire_message(x->links[0], &m, NULL, 0);
    wired_turn(x, 0);
    frame = wire_take(x->links[0], BR_MESSAGE_RAIL_FENCED);
    assert_non_null(frame);
    assert_int_equal(frame->message.rail.rail, 1);
    assert_int_equal(frame->message.rail.incarnation, 1);
    /* and the new attempt goes on */
    assert_int_equal(x->w->peers[0].rails[1].state, BR_RAIL_HANDSHAKE);
}

/* Of a connection that is still to come nobody can know anything. */
static void down__of_a_connection_to_come(void **state)
{
    struct br_message m = {.type = BR_MESSAGE_RAIL_DOWN, .rail = {0, 2, {0}}};
    struct wired *x = *state;

    wire_message(x->links[1], &m, NULL, 0);
    wired_turn(x, 0);
    assert_int_equal(x->w->peers[1].rails[0].state, BR_RAIL_UP);
    assert_null(wire_take(x->links[1], BR_MESSAGE_RAIL_FENCED));
}

/* Rail 0 is lost, RAIL_DOWN leaves on rail 1 which is lost too, and rail 0 cannot come back before
 * the fence: with the last rail the peer is lost, with a message that names it. */
static void peer__lost_with_its_last_rail(void **state)
{
    struct wired *x = *state;

    wired_cut(x, 0);
    assert_int_equal(x->w->failed, 0);
    wired_cut(x, 1);
    assert_int_equal(x->w->failed, -ECONNRESET);
    assert_says(x->w->message, "rank 1|lost");
    assert_says(x->w->message, "level 1");
    assert_says(x->w->message, "wire1");
    assert_says(x->w->message, "cut");
}

/* Rail 1 is lost and fenced and comes back; then rail 0. What RAIL_DOWN said through a lost rail is
 * said again. */
static void down__said_again_when_its_messenger_is_lost(void **state)
{
    struct wired *x = *state;
    struct br_rail *rails;

    rails = x->w->peers[1].rails;
    wired_cut(x, 1);
    wired_fenced(x, 1, 0);
    assert_true(wired_connect(x, 1));
    assert_int_equal(rails[1].incarnation, 2);
    x->wires[1].room = 0;
    wired_cut(x, 0);
    assert_int_equal(x->w->peers[1].down_due, 1); /* not said while the link is full */
    x->wires[1].room = -1;
    wired_turn(x, 0);
    assert_int_equal(wire_take(x->links[1], BR_MESSAGE_RAIL_DOWN)->message.rail.rail, 0);
    assert_int_equal(x->w->peers[1].down_due, 0);
}

/* DONE is lost with its rail: the sender asks by sending the last slice again, and hears. */
static void done__lost_with_the_rail(void **state)
{
    struct br_message done = {.type = BR_MESSAGE_DONE, .done.slots = {0x10001}};
    struct br_transfer t = {.tag = 1, .peer = 1, .memory = memory, .length = 3 * SLICE};
    struct wire_frame *frame;
    struct wired *x = *state;

    x->wires[0].room = 0; /* all of it goes over rail 1, where it arrives */
    assert_int_equal(br_transfer_send(x->w, &t), 0);
    ready(x, 1, 0, 1, t.length, 0x10001);
    wire_sent_all(&x->wires[1]);
    wired_turn(x, 0);
    while (wire_take_placed(x->links[1]))
        ;
    assert_int_equal(t.state, BR_TRANSFER_CONFIRMING);
    x->wires[0].room = -1;
    wired_cut(x, 0); /* DONE was on its way here */
    assert_int_equal(t.state, BR_TRANSFER_CONFIRMING);
    wired_fenced(x, 0, 1);
    frame = wire_take_placed(x->links[1]);
    assert_non_null(frame);
    assert_true(frame->frame.offset >= 2 * SLICE);
    assert_true(((struct br_data_header *)&frame->message)->flags & BR_DATA_DONE);
    wire_sent_all(&x->wires[1]);
    wire_message(x->links[1], &done, NULL, 0);
    wired_turn(x, 0);
    assert_int_equal(t.state, BR_TRANSFER_ENDED);
    assert_int_equal(t.status, 0);
}

/* DONE comes while the fence is awaited: the memory is still not the caller's, as frames of the
 * lost link may be read. */
static void done__before_the_fence(void **state)
{
    struct br_message done = {.type = BR_MESSAGE_DONE, .done.slots = {0x10001}};
    struct br_transfer t = {.tag = 1, .peer = 1, .memory = memory, .length = 2 * SLICE};
    struct wired *x = *state;

    x->wires[1].room = 0;
    assert_int_equal(br_transfer_send(x->w, &t), 0);
    ready(x, 0, 0, 1, t.length, 0x10001);
    assert_int_equal(t.state, BR_TRANSFER_CONFIRMING);
    x->wires[1].room = -1;
    wired_cut(x, 0);
    wire_message(x->links[1], &done, NULL, 0);
    wired_turn(x, 0);
    assert_int_equal(t.state, BR_TRANSFER_CONFIRMING);
    wired_fenced(x, 0, 1);
    /* it may ask once more */
    for (int turn = 0; turn < 3 && t.state != BR_TRANSFER_ENDED; turn++) {
        wire_sent_all(&x->wires[1]);
        wire_message(x->links[1], &done, NULL, 0);
        wired_turn(x, 0);
    }
    assert_int_equal(t.state, BR_TRANSFER_ENDED);
    assert_int_equal(x->w->confirms.count, 0);
}

/* The worker fails: everybody is told why, every link is closed, nobody touches memory any more. */
static void fail__tells_and_closes(void **state)
{
    struct br_transfer t = {.tag = 1, .peer = 1, .memory = memory, .length = 8};
    struct wire_frame *frame;
    struct wired *x = *state;

    br_worker_fail(x->w, ETIMEDOUT, "operation 5 missed its deadline");
    br_worker_fail(x->w, EIO, "something later");
    wired_turn(x, 0);
    frame = wire_take(x->links[0], BR_MESSAGE_ABORT);
    assert_non_null(frame);
    assert_memory_equal(frame->payload, "operation 5 missed", 18);
    assert_null(wire_take(x->links[1], BR_MESSAGE_ABORT)); /* once a peer */
    /* without an answer; with one: test_shutdown.c */
    wired_turn(x, BR_ABORT_LINGER);
    assert_true(x->links[0]->closed && x->links[1]->closed);
    assert_int_equal(x->w->failed, -ETIMEDOUT);
    assert_int_equal(br_transfer_send(x->w, &t), -ETIMEDOUT);
    assert_null(br_worker_done(x->w));
    wired_turn(x, BR_SEC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WIRED_TEST(messages__go_again_once, .rails = 2, .up = true),
        WIRED_TEST(messages__acknowledged_ones_do_not, .rails = 2, .up = true),
        WIRED_TEST(slices__wait_for_the_fence, .rails = 2, .up = true),
        WIRED_TEST(fence__of_another_incarnation, .rails = 2, .up = true),
        WIRED_TEST(down__reported_by_the_peer, .rails = 2, .up = true),
        WIRED_TEST(down__of_its_own_link, .rails = 2, .up = true),
        WIRED_TEST(down__of_a_connection_before_this_one, .rank = 1, .rails = 2),
        WIRED_TEST(down__of_a_connection_to_come, .rails = 2, .up = true),
        WIRED_TEST(peer__lost_with_its_last_rail, .rails = 2, .up = true),
        WIRED_TEST(down__said_again_when_its_messenger_is_lost, .rails = 2, .up = true),
        WIRED_TEST(done__lost_with_the_rail, .rails = 2, .up = true),
        WIRED_TEST(done__before_the_fence, .rails = 2, .up = true),
        WIRED_TEST(fail__tells_and_closes, .rails = 2, .up = true),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
