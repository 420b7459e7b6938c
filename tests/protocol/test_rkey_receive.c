/* SPDX-License-Identifier: BSD-3-Clause */
/* The receiving half of remote keys: in READYs that we send, and what we answer when a rail was
 * lost. */
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

static uint8_t memory[8 * SLICE];

static struct br_transfer transfer_of(uint64_t tag, uint32_t length)
{
    return (struct br_transfer){.tag = tag, .peer = 1, .memory = memory, .length = length};
}

static struct wire_frame *take_ready(struct wired *x)
{
    struct wire_frame *frame = NULL;

    for (int i = 0; i < 2 && !frame; i++)
        frame = wire_take(x->links[i], BR_MESSAGE_READY);
    return frame;
}

/* Its keys must be those of the rails. */
static void expect_keys(const struct wire_frame *frame, uint32_t rails)
{
    uint32_t n = 0;

    assert_int_equal(frame->message.rkeys, rails);
    assert_int_equal(frame->frame.length, __builtin_popcount(rails) * BR_RKEY_BYTES);
    for (uint32_t i = 0; i < 2; i++) {
        struct wire_rkey key;

        if (!(rails >> i & 1))
            continue;
        memcpy(&key, frame->payload + n++ * sizeof key, sizeof key);
        assert_int_equal(key.rail, i);
        assert_int_equal(key.slot, frame->message.ready.slot);
    }
}

static uint32_t receive(struct wired *x, struct br_transfer *t)
{
    struct wire_frame *frame;

    assert_int_equal(br_transfer_receive(x->w, t), 0);
    wired_turn(x, 0);
    frame = take_ready(x);
    assert_non_null(frame);
    expect_keys(frame, 3);
    assert_int_equal(frame->message.ready.renews, 0);
    assert_int_equal(frame->message.ready.have, 0);
    return frame->message.ready.slot;
}

static void receive__rkeys_for_all_rails(void **state)
{
    struct br_transfer t = transfer_of(9, 2 * SLICE);
    struct wired *x = *state;
    uint32_t slot;

    wired_cut(x, 1);
    wired_fenced(x, 1, 0);
    slot = receive(x, &t); /* also for the one that is down: it may come back */
    assert_int_equal(x->wires[0].keys + x->wires[1].keys, 2);
    wire_placed(x->links[0], slot, 0, memory, SLICE, 0);
    wire_placed(x->links[0], slot, SLICE, memory, SLICE, 0);
    wired_turn(x, 0);
    assert_int_equal(x->done, 1);
    assert_int_equal(x->wires[0].keys + x->wires[1].keys, 0);
}

static void receive__the_slot_knows_its_region(void **state)
{
    struct br_region region = {.base = memory, .bytes = sizeof memory, .segment_fd = -1};
    struct br_transfer t = transfer_of(9, 2 * SLICE);
    struct wired *x = *state;
    uint32_t slot;

    t.region = &region;
    slot = receive(x, &t);
    assert_ptr_equal(br_slot_find(&x->w->slots, slot)->region, &region);
}

static void receive__without_the_rail_that_cannot(void **state)
{
    struct br_transfer t = transfer_of(9, 2 * SLICE);
    struct wire_frame *frame;
    struct wired *x = *state;

    x->wires[0].refuses = true;
    assert_int_equal(br_transfer_receive(x->w, &t), 0);
    wired_turn(x, 0);
    frame = take_ready(x);
    expect_keys(frame, 2);
    assert_int_equal(x->w->counters.skipped_rails, 1);
    assert_int_equal(x->w->failed, 0);
}

static void receive__when_none_can(void **state)
{
    struct br_transfer t = transfer_of(9, 2 * SLICE);
    struct wired *x = *state;

    wired_cut(x, 1); /* has a key, but is down */
    wired_fenced(x, 1, 0);
    x->wires[0].refuses = true;
    (void)br_transfer_receive(x->w, &t);
    assert_int_equal(x->w->failed, -ENOMEM);
    assert_says(x->w->message, "level 0|wire0");
    assert_says(x->w->message, "pinned");
}

static void receive__a_failed_worker_gives_them_back(void **state)
{
    struct br_transfer t = transfer_of(9, 2 * SLICE), u = transfer_of(10, SLICE);
    struct wired *x = *state;

    receive(x, &t);
    receive(x, &u);
    assert_int_equal(x->wires[0].keys, 2);
    br_worker_fail(x->w, ECANCELED, "enough");
    wired_turn(x, 0);
    assert_int_equal(x->wires[0].keys, 2); /* bytes may still arrive */
    wired_turn(x, BR_ABORT_LINGER);
    wired_turn(x, BR_ABORT_LINGER);
    assert_false(x->w->fail_due);
    assert_true(x->links[0]->closed);
    assert_int_equal(x->wires[0].keys + x->wires[1].keys, 0);
}

static void receive__withdrawn(void **state)
{
    struct br_transfer t = transfer_of(9, 2 * SLICE);
    struct wired *x = *state;

    receive(x, &t);
    br_transfer_withdraw(x->w, &t);
    assert_int_equal(x->wires[0].keys + x->wires[1].keys, 0);
}

static void ask(struct wired *x, int on, uint32_t slot, uint32_t lost)
{
    wired_say(
        x, on,
        &(struct br_message){.type = BR_MESSAGE_RENEW, .renew = {.slot = slot, .lost = lost}});
}

/* A slice is complete, half of another is here. */
static void asked__gives_a_new_number(void **state)
{
    struct br_transfer t = transfer_of(9, 3 * SLICE);
    struct wire_frame *frame;
    uint32_t old, slot;
    struct wired *x = *state;

    old = receive(x, &t);
    wire_placed(x->links[0], old, SLICE, memory, SLICE, BR_DATA_DONE);
    wire_placed(x->links[0], old, 0, memory, SLICE / 2, BR_DATA_DONE);
    wired_turn(x, 0);
    ask(x, 1, old, 1);
    frame = take_ready(x);
    assert_non_null(frame);
    expect_keys(frame, 3);
    slot = frame->message.ready.slot;
    assert_int_not_equal(slot, old);
    assert_int_equal(frame->message.tag, 9);
    assert_int_equal(frame->message.ready.renews, old);
    assert_int_equal(frame->message.ready.have, 2);
    assert_int_equal(x->wires[0].made, 2);
    assert_int_equal(x->wires[0].keys, 1);

    ask(x, 0, old, 1); /* said again, because a rail was lost: the answer is on its way */
    assert_null(take_ready(x));
    /* came late, and counts nothing */
    wire_placed(x->links[1], old, 0, memory, SLICE, BR_DATA_DONE);
    wired_turn(x, 0);
    assert_null(wire_take(x->links[0], BR_MESSAGE_DONE));
    assert_null(wire_take(x->links[1], BR_MESSAGE_DONE));

    wire_placed(x->links[1], slot, SLICE / 2, memory, SLICE / 2, BR_DATA_DONE);
    wire_placed(x->links[1], slot, 2 * SLICE, memory, SLICE, BR_DATA_DONE);
    wired_turn(x, 0);
    assert_int_equal(x->done, 0);
    wire_placed(x->links[1], slot, 0, memory, SLICE / 2, BR_DATA_DONE);
    wired_turn(x, 0);
    assert_int_equal(x->done, 1);
    assert_int_equal(x->wires[0].keys + x->wires[1].keys, 0);
}

static bool says_done(struct wired *x, uint32_t slot)
{
    for (int i = 0; i < 2; i++) {
        struct wire_frame *frame = wire_take(x->links[i], BR_MESSAGE_DONE);

        if (frame)
            return frame->message.done.slots[0] == slot;
    }
    return false;
}

static void asked__about_a_complete_one(void **state)
{
    struct br_transfer t = transfer_of(9, 2 * SLICE);
    struct wired *x = *state;
    uint32_t slot;

    slot = receive(x, &t);
    ask(x, 1, slot, 0); /* DONE is not lost, it is not due */
    assert_null(take_ready(x));
    assert_false(says_done(x, slot));
    wire_placed(x->links[0], slot, 0, memory, SLICE, BR_DATA_DONE);
    wire_placed(x->links[0], slot, SLICE, memory, SLICE, BR_DATA_DONE);
    wired_turn(x, 0);
    assert_true(says_done(x, slot));
    ask(x, 1, slot, 0);
    assert_true(says_done(x, slot));
    ask(x, 1, slot, 1);
    assert_true(says_done(x, slot));
}

/* Rails that need no keys know nothing of it. */
static void asked__without_need(void **state)
{
    struct br_transfer t = transfer_of(9, 2 * SLICE);
    struct wire_frame *frame;
    struct wired *x = *state;

    assert_int_equal(br_transfer_receive(x->w, &t), 0);
    wired_turn(x, 0);
    frame = take_ready(x);
    assert_int_equal(frame->frame.length, 0);
    assert_int_equal(frame->message.rkeys, 0);
    ask(x, 1, frame->message.ready.slot, 1);
    assert_null(take_ready(x));
    assert_non_null(br_slot_find(&x->w->slots, frame->message.ready.slot));
}

int main(void)
{
#define PLACES(f)                                                                                  \
    WIRED_TEST(f, .rails = 2, .up = true, .sent_means_arrived = true, .needs_rkey = true)
    const struct CMUnitTest tests[] = {
        PLACES(receive__rkeys_for_all_rails),
        PLACES(receive__the_slot_knows_its_region),
        PLACES(receive__without_the_rail_that_cannot),
        PLACES(receive__when_none_can),
        PLACES(receive__a_failed_worker_gives_them_back),
        PLACES(receive__withdrawn),
        PLACES(asked__gives_a_new_number),
        PLACES(asked__about_a_complete_one),
        WIRED_TEST(asked__without_need, .rails = 2, .up = true),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
