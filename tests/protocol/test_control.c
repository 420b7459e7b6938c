/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages without a credit: ahead of all others, built when they leave, said until they have
 * left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/says.h"
#include "wired.h"

static uint8_t memory[4096];

static void ping__answered_on_its_rail(void **state)
{
    struct br_message ping = {.type = BR_MESSAGE_PING};
    struct wired *x = *state;

    wire_message(x->links[1], &ping, NULL, 0);
    wired_turn(x, 0);
    assert_null(wire_take(x->links[0], BR_MESSAGE_PONG));
    assert_non_null(wire_take(x->links[1], BR_MESSAGE_PONG));
    assert_int_equal(x->wires[1].buffers, 0);
}

/* A quarter of the time-out in silence: asked once a quarter. All of it: the rail is lost. Any
 * frame resets it. */
static void ping__in_silence(void **state)
{
    struct br_message pong = {.type = BR_MESSAGE_PONG};
    struct wired *x = *state;
    int pings = 0;

    for (int ms = 0; ms < 2000; ms += 10) {
        wired_turn(x, 10 * BR_MS);
        if (!wire_take(x->links[0], BR_MESSAGE_PING))
            continue;
        pings++;
        wire_message(x->links[0], &pong, NULL, 0);
    }
    assert_in_range(pings, 7, 8);
    assert_int_equal(x->w->failed, 0);
    for (int ms = 0; ms < 1100; ms += 10)
        wired_turn(x, 10 * BR_MS);
    assert_true(x->w->failed < 0);
    assert_says(x->w->message, "rank 1");
    assert_says(x->w->message, "wire0");
    assert_says(x->w->message, "silent");
}

/* We were stopped ourselves (SIGSTOP, a debugger): that silence was ours. */
static void ping__not_after_our_own_pause(void **state)
{
    struct wired *x = *state;

    wired_turn(x, 10 * BR_MS);
    wired_turn(x, 60 * BR_SEC);
    wired_turn(x, 10 * BR_MS);
    assert_int_equal(x->w->failed, 0);
}

/* We get a core five times a second: the time in between says nothing of the peer. Who sleeps as
 * long of its own will hears nothing from a peer that is dead. */
static void ping__not_while_we_are_starved(void **state)
{
    struct wired *x = *state;

    for (int ms = 0; ms < 10000; ms += 200)
        wired_turn(x, 200 * BR_MS);
    assert_int_equal(x->w->failed, 0);
    for (int ms = 0; ms < 1600 && !x->w->failed; ms += 200) {
        assert_true(br_worker_next_timer(x->w) > x->now);
        wired_turn(x, 200 * BR_MS);
    }
    assert_true(x->w->failed < 0);
    assert_says(x->w->message, "rank 1|silent");
}

/* One thread sleeps until the next timer, another one looks every 50 ms: we are not starved, and
 * the silence of the peer is one. */
static void ping__looks_while_another_sleeps(void **state)
{
    struct wired *x = *state;
    uint64_t begin = x->now, until = 0;

    while (!x->w->failed && x->now - begin < 1400 * BR_MS) {
        if (x->now >= until)
            until = br_worker_next_timer(x->w);
        wired_turn(x, until - x->now < 50 * BR_MS ? until - x->now : 50 * BR_MS);
    }
    assert_true(x->w->failed < 0);
    assert_says(x->w->message, "rank 1|silent");
}

/* Six slots a message; each slot once. */
static void done__six_a_message(void **state)
{
    struct wire_frame *frame;
    struct br_transfer t[10];
    uint32_t slots[10], seen = 0;
    struct wired *x = *state;
    int messages = 0;

    for (uint32_t i = 0; i < 10; i++) {
        t[i] = (struct br_transfer){.tag = i, .peer = 1, .memory = memory, .length = 2000};
        assert_int_equal(br_transfer_receive(x->w, &t[i]), 0);
    }
    wired_turn(x, 0);
    for (int i = 0, r = 0; i < 10; i++) {
        while (!(frame = wire_take(x->links[r % 2], BR_MESSAGE_READY)))
            r++;
        slots[i] = frame->message.ready.slot;
        wire_placed(x->links[0], slots[i], 0, memory, 2000, BR_DATA_DONE);
    }
    x->wires[0].room = 0; /* nothing leaves meanwhile */
    x->wires[1].room = 0;
    wired_turn(x, 0);
    x->wires[0].room = x->wires[1].room = -1;
    wired_turn(x, 0);
    for (int r = 0; r < 2; r++)
        while ((frame = wire_take(x->links[r], BR_MESSAGE_DONE))) {
            messages++;
            for (int k = 0; k < 6; k++)
                for (int i = 0; i < 10; i++)
                    if (frame->message.done.slots[k] == slots[i]) {
                        assert_int_equal(seen >> i & 1, 0);
                        seen |= 1u << i;
                    }
        }
    assert_int_equal(messages, 2);
    assert_int_equal(seen, (1 << 10) - 1);
}

/* Behind the data of a slow rail it would keep the peer's send from ending. */
static void done__on_the_rail_with_the_least_to_deliver(void **state)
{
    struct br_transfer t = {.peer = 1, .memory = memory, .length = 2000};
    struct wired *x = *state;
    struct br_rail *rails = x->w->peers[1].rails;
    struct wire_frame *frame;

    assert_int_equal(br_transfer_receive(x->w, &t), 0);
    wired_turn(x, 0);
    frame = wire_take(x->links[0], BR_MESSAGE_READY);
    if (!frame)
        frame = wire_take(x->links[1], BR_MESSAGE_READY);
    assert_non_null(frame);
    rails[0].tx_bytes = 20000;
    rails[0].rate = 1000000;
    rails[1].tx_bytes = 50000;
    rails[1].rate = 10000000;
    wire_placed(x->links[0], frame->message.ready.slot, 0, memory, 2000, BR_DATA_DONE);
    wired_turn(x, 0);
    assert_null(wire_take(x->links[0], BR_MESSAGE_DONE));
    assert_non_null(wire_take(x->links[1], BR_MESSAGE_DONE));
}

/* A full link delays them and loses none, and nothing else leaves before. */
static void control__goes_ahead_and_waits_for_room(void **state)
{
    struct br_message ping = {.type = BR_MESSAGE_PING};
    struct br_transfer t = {
        .tag = 1, .peer = 1, .memory = memory, .length = 4, .priority = INT32_MAX};
    struct wired *x = *state;

    x->wires[0].room = 0;
    assert_int_equal(br_transfer_send(x->w, &t), 0);
    wire_message(x->links[0], &ping, NULL, 0);
    wired_turn(x, 0);
    x->wires[0].room = 2;
    wired_turn(x, 0);
    assert_int_equal(x->wires[0].n_frames, 2);
    assert_int_equal(x->wires[0].frames[0].message.type, BR_MESSAGE_ACK);
    assert_int_equal(x->wires[0].frames[1].message.type, BR_MESSAGE_PONG);
    x->wires[0].room = -1;
    wired_turn(x, 0);
    assert_int_equal(x->wires[0].n_frames, 3);
    assert_int_equal(x->wires[0].frames[2].message.type, BR_MESSAGE_EAGER);
}

/* BYE is said once; the worker has left when both have said it. */
static void bye__both_sides(void **state)
{
    struct br_message bye = {.type = BR_MESSAGE_BYE};
    struct wired *x = *state;

    br_worker_leave(x->w);
    wired_turn(x, 0);
    assert_false(br_worker_left(x->w));
    assert_int_equal((wire_take(x->links[0], BR_MESSAGE_BYE) != NULL) +
                         (wire_take(x->links[1], BR_MESSAGE_BYE) != NULL),
                     1);
    wire_message(x->links[0], &bye, NULL, 0);
    wired_turn(x, 0);
    assert_true(br_worker_left(x->w));
    wire_fail(x->links[0], 104, "closed"); /* they may go in good order now */
    wire_fail(x->links[1], 104, "closed");
    wired_turn(x, 0);
    assert_int_equal(x->w->failed, 0);
}

/* The peer has left and closed before our BYE could leave: there is nobody to wait for. */
static void bye__to_nobody(void **state)
{
    struct br_message bye = {.type = BR_MESSAGE_BYE};
    struct wired *x = *state;

    wire_message(x->links[0], &bye, NULL, 0);
    wired_turn(x, 0);
    wire_fail(x->links[0], 104, "closed");
    wired_turn(x, 0);
    br_worker_leave(x->w);
    wired_turn(x, 0);
    assert_int_equal(x->w->failed, 0);
    assert_true(br_worker_left(x->w));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WIRED_TEST(ping__answered_on_its_rail, .rails = 2, .up = true),
        WIRED_TEST(ping__in_silence, .rails = 1, .up = true),
        WIRED_TEST(ping__not_while_we_are_starved, .rails = 1, .up = true),
        WIRED_TEST(ping__looks_while_another_sleeps, .rails = 1, .up = true),
        WIRED_TEST(ping__not_after_our_own_pause, .rails = 1, .up = true),
        WIRED_TEST(done__six_a_message, .rails = 2, .up = true),
        WIRED_TEST(done__on_the_rail_with_the_least_to_deliver, .rails = 2, .up = true),
        WIRED_TEST(control__goes_ahead_and_waits_for_room, .rails = 1, .up = true),
        WIRED_TEST(bye__both_sides, .rails = 2, .up = true),
        WIRED_TEST(bye__to_nobody, .rails = 1, .up = true),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
