/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that are awaited while others, which nobody receives, hold the credits. WAITING where
 * ranks disagree: test_agree.c. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "protocol/internal.h"
#include "tests/says.h"
#include "wired.h"

#define LARGE 10000u
#define MANY  (2 * BR_UNRELEASED)

static uint8_t memory[LARGE];
static struct br_transfer t[MANY];

static uint64_t tag_of(uint32_t i)
{
    return br_tag_p2p(0, i, 1);
}

static struct br_transfer transfer(uint32_t i, uint32_t length)
{
    return (struct br_transfer){
        .tag = tag_of(i), .peer = 1, .memory = memory, .length = length, .order = i};
}

/* Small messages from the peer that nobody receives. */
static void hold(struct wired *x, int rail, uint32_t first, uint32_t n)
{
    for (uint32_t i = first; i < first + n; i++) {
        struct br_message m = {
            .type = BR_MESSAGE_EAGER, .sequence = i, .tag = tag_of(1000 + i), .bytes = 8};

        wire_message(x->links[rail], &m, NULL, 0);
    }
    wired_turn(x, 0);
}

/* How often it was said, on either rail, that the receive of this tag waits. */
static int said(struct wired *x, uint32_t i)
{
    struct wire_frame *frame;
    int n = 0;

    for (int r = 0; r < x->rails; r++)
        while ((frame = wire_take(x->links[r], BR_MESSAGE_WAITING))) {
            assert_int_equal(frame->message.waiting.receives, 1);
            n += frame->message.tag == tag_of(i) && frame->message.bytes == 8;
        }
    return n;
}

static void pass(struct wired *x, int ms)
{
    for (int i = 0; i < ms; i++) {
        for (int r = 0; r < x->rails && i % 20 == 0; r++) /* the peer lives */
            wire_message(x->links[r], &(struct br_message){.type = BR_MESSAGE_PONG}, NULL, 0);
        wired_turn(x, BR_MS);
    }
}

static void waits__small_receive_says_so_at_once(void **state)
{
    struct br_message eager = {
        .type = BR_MESSAGE_EAGER, .sequence = BR_CROWDED, .tag = tag_of(0), .bytes = 8};
    struct wired *x = *state;

    hold(x, 0, 0, BR_CROWDED);
    t[0] = transfer(0, 8);
    assert_int_equal(br_transfer_receive(x->w, &t[0]), 0);
    wired_turn(x, 0);
    assert_int_equal(said(x, 0), 1);
    pass(x, 1000);
    assert_in_range(said(x, 0), 9, 10); /* as the send may come later */
    wired_say(x, 0, &eager);
    assert_int_equal(t[0].state, BR_TRANSFER_ENDED);
    pass(x, 300);
    assert_int_equal(said(x, 0), 0);
}

/* With `held` messages held on rail 0 a small receive says nothing, with `more` of them on a rail
 * it does. */
static void waits_for_more(struct wired *x, uint32_t held, int rail, uint32_t more)
{
    hold(x, 0, 0, held);
    t[0] = transfer(0, 8);
    assert_int_equal(br_transfer_receive(x->w, &t[0]), 0);
    pass(x, 1000);
    assert_int_equal(said(x, 0), 0);
    hold(x, rail, held, more);
    pass(x, 2);
    assert_int_equal(said(x, 0), 1);
}

/* The messages that may keep its own from coming have come after it was posted. With fewer the peer
 * has credits. */
static void waits__small_receive_says_so_later(void **state)
{
    waits_for_more(*state, BR_CROWDED - 1, 0, 1);
}

/* All of several receives say so in the next passes, not one with each timer. */
static void waits__small_receives_say_so_together(void **state)
{
    struct wired *x = *state;

    hold(x, 0, 0, BR_CROWDED);
    for (uint32_t i = 0; i < 10; i++) {
        t[i] = transfer(i, 8);
        assert_int_equal(br_transfer_receive(x->w, &t[i]), 0);
    }
    for (uint32_t i = 0; i < 10; i++)
        wired_turn(x, 0);
    for (uint32_t i = 0; i < 10; i++)
        assert_non_null(wire_take(x->links[0], BR_MESSAGE_WAITING));
}

/* A receive of a collective asks as others do, and once in any case. */
static void waits__receive_of_a_collective(void **state)
{
    struct br_message *m;
    struct wired *x = *state;

    t[0] = transfer(0, 8);
    t[0].tag = br_tag_collective(0, 1, 0, 0);
    assert_int_equal(br_transfer_receive(x->w, &t[0]), 0);
    pass(x, 1000);
    m = &wire_take(x->links[0], BR_MESSAGE_WAITING)->message;
    assert_int_equal(m->tag, t[0].tag);
    assert_null(wire_take(x->links[0], BR_MESSAGE_WAITING));
    hold(x, 0, 0, BR_CROWDED);
    pass(x, 500);
    for (int i = 0; i < 4; i++)
        assert_non_null(wire_take(x->links[0], BR_MESSAGE_WAITING));
}

/* The peer lacks no credit as long as it has one on any rail. */
static void waits__small_receive_says_nothing_while_a_rail_is_free(void **state)
{
    waits_for_more(*state, BR_CREDITS, 1, BR_CROWDED);
}

static void hear(struct wired *x, uint32_t i, uint32_t bytes, bool receives)
{
    struct br_message m = {.type = BR_MESSAGE_WAITING,
                           .tag = tag_of(i),
                           .bytes = bytes,
                           .waiting = {.receives = receives}};

    wired_say(x, 0, &m);
}

static uint32_t leaves(struct wired *x, enum br_message_type type)
{
    uint32_t n = 0;

    for (int r = 0; r < x->rails; r++)
        while (!x->links[r]->closed && wire_take(x->links[r], type))
            n++;
    return n;
}

/* It passes all that wait for a credit, needs none, and its kind alone does not. */
static void asked__small_send_leaves(void **state)
{
    const uint32_t n = BR_CREDITS + 20;
    struct wired *x = *state;

    for (uint32_t i = 0; i < n; i++) {
        t[i] = transfer(i, 8);
        assert_int_equal(br_transfer_send(x->w, &t[i]), 0);
    }
    wired_turn(x, 0);
    assert_int_equal(leaves(x, BR_MESSAGE_EAGER), BR_CREDITS);
    hear(x, n - 1, LARGE, false); /* a send of the peer's, with the same tag by chance */
    assert_int_equal(leaves(x, BR_MESSAGE_EAGER), 0);
    hear(x, n - 1, 8, true);
    hear(x, n - 1, 8, true); /* again, as it was on its way */
    assert_int_equal(t[n - 1].state, BR_TRANSFER_ENDED);
    assert_int_equal(t[BR_CREDITS].state, BR_TRANSFER_QUEUED);
    assert_int_equal(leaves(x, BR_MESSAGE_EAGER), 1);
    hear(x, n - 2, 9, true);
    assert_int_equal(x->w->failed, -EPROTO);
    assert_says(x->w->message, "rank 0 sends 8 bytes|rank 1 receives 9");
}

/* It has been asked for before it was there; that is remembered for a while, and for one message.
 */
static void asked__before_the_send(void **state)
{
    struct wired *x = *state;
    uint32_t n;

    for (n = 0; n < BR_CREDITS; n++) {
        t[n] = transfer(n, 8);
        assert_int_equal(br_transfer_send(x->w, &t[n]), 0);
    }
    wired_turn(x, 0);
    assert_int_equal(leaves(x, BR_MESSAGE_EAGER), BR_CREDITS);
    hear(x, n + 1, 8, true);
    for (uint32_t i = n; i < n + 2; i++) {
        t[i] = transfer(i, 8);
        assert_int_equal(br_transfer_send(x->w, &t[i]), 0);
    }
    wired_turn(x, 0);
    assert_int_equal(t[n].state, BR_TRANSFER_QUEUED);
    assert_int_equal(t[n + 1].state, BR_TRANSFER_ENDED);
    hear(x, n + 2, 8, true);
    pass(x, 110); /* longer than it takes the peer to ask again */
    t[n + 2] = transfer(n + 2, 8);
    assert_int_equal(br_transfer_send(x->w, &t[n + 2]), 0);
    wired_turn(x, 0);
    assert_int_equal(t[n + 2].state, BR_TRANSFER_QUEUED);
}

/* Of many tags the last ones are remembered. */
static void asked__for_more_than_is_remembered(void **state)
{
    struct wired *x = *state;

    for (uint32_t i = 0; i < BR_CREDITS; i++) {
        t[i] = transfer(1000 + i, 8);
        assert_int_equal(br_transfer_send(x->w, &t[i]), 0);
    }
    for (uint32_t i = 0; i <= BR_ASKED; i++)
        hear(x, i, 8, true);
    for (uint32_t i = 0; i < 2; i++) {
        t[BR_CREDITS + i] = transfer(i, 8);
        assert_int_equal(br_transfer_send(x->w, &t[BR_CREDITS + i]), 0);
    }
    wired_turn(x, 0);
    assert_int_equal(t[BR_CREDITS].state, BR_TRANSFER_QUEUED);
    assert_int_equal(t[BR_CREDITS + 1].state, BR_TRANSFER_ENDED);
}

/* A message that comes before its receive, when as many as may do so wait already, gives its buffer
 * back, whatever the peer has thought. */
static void held__no_more_than_the_credits(void **state)
{
    struct wired *x = *state;

    hold(x, 0, 0, BR_CREDITS);
    assert_int_equal(x->wires[0].buffers, BR_CREDITS);
    hold(x, 0, BR_CREDITS, 10);
    assert_int_equal(x->wires[0].buffers, BR_CREDITS);
    for (uint32_t i = 0; i < BR_CREDITS + 10; i++) {
        t[i] = transfer(1000 + i, 8);
        assert_int_equal(br_transfer_receive(x->w, &t[i]), 0);
        assert_int_equal(t[i].state, BR_TRANSFER_ENDED);
    }
    assert_int_equal(x->wires[0].buffers, 0);
    assert_int_equal(x->w->unexpected.n_used, 0);
}

/* No honest peer says so. It would give the receive a slot, into which the peer could write when
 * the message has ended the receive. */
static void waits__not_a_small_send(void **state)
{
    struct br_message eager = {.type = BR_MESSAGE_EAGER, .tag = tag_of(0), .bytes = 8};
    struct wired *x = *state;

    t[0] = transfer(0, 8);
    assert_int_equal(br_transfer_receive(x->w, &t[0]), 0);
    hear(x, 0, 8, false);
    assert_null(t[0].slot);
    assert_int_equal(x->w->slots.n_free, x->w->slots.count);
    assert_true(x->links[0]->closed);
    assert_says(x->w->peers[1].rails[0].message, "small send");
    wired_say(x, 1, &eager);
    assert_int_equal(t[0].state, BR_TRANSFER_ENDED);
    assert_int_equal(x->w->failed, 0);
}

/* Nor this: a large send whose announcement is still queued is no receive to be served. */
static void waits__not_a_large_receive(void **state)
{
    struct wired *x = *state;

    x->wires[0].room = x->wires[1].room = 0;
    t[0] = transfer(0, LARGE);
    t[0].announces = true;
    assert_int_equal(br_transfer_send(x->w, &t[0]), 0);
    hear(x, 0, LARGE, true);
    assert_true(br_list_empty(&x->w->slotless[BR_SLOTLESS_EXPECTED]));
    assert_int_equal(x->w->slots.n_free, x->w->slots.count);
    assert_true(x->links[0]->closed);
    assert_says(x->w->peers[1].rails[0].message, "large receive");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WIRED_TEST(waits__small_receive_says_so_at_once, .rails = 1, .up = true),
        WIRED_TEST(waits__small_receive_says_so_later, .rails = 1, .up = true),
        WIRED_TEST(waits__small_receive_says_nothing_while_a_rail_is_free, .rails = 2, .up = true),
        WIRED_TEST(waits__not_a_small_send, .rails = 2, .up = true),
        WIRED_TEST(waits__not_a_large_receive, .rails = 2, .up = true),
        WIRED_TEST(waits__small_receives_say_so_together, .rails = 1, .up = true),
        WIRED_TEST(waits__receive_of_a_collective, .rails = 1, .up = true),
        WIRED_TEST(asked__small_send_leaves, .rails = 1, .up = true),
        WIRED_TEST(asked__before_the_send, .rails = 1, .up = true),
        WIRED_TEST(asked__for_more_than_is_remembered, .rails = 1, .up = true),
        WIRED_TEST(held__no_more_than_the_credits, .rails = 1, .up = true),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
