/* SPDX-License-Identifier: BSD-3-Clause */
/* Place tokens: in READYs made and heard, on frames, and what goes again when a rail is lost. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "wire.h"

#define SLICE (64u << 10)
#define SLOT  0x00050002u /* of the peer */

static uint8_t memory[8 * SLICE];

static struct br_transfer transfer_of(uint64_t tag, uint32_t length)
{
    return (struct br_transfer){.tag = tag, .peer = 1, .memory = memory, .length = length};
}

static void create(struct wired *x)
{
    struct br_caps caps = wire_caps(true);

    caps.needs_place = true;
    wired_create(x, 0, 2, &caps);
}

static void cut(struct wired *x, int rail)
{
    wire_fail(x->links[rail], ECONNRESET, "cut");
    wired_turn(x, 0);
}

static void fenced(struct wired *x, int rail, int on)
{
    struct br_message m = {.type = BR_MESSAGE_RAIL_FENCED,
                           .rail = {(uint32_t)rail, x->w->peers[1].rails[rail].lost, {0}}};

    wire_message(x->links[on], &m, NULL, 0);
    wired_turn(x, 0);
}

static void say(struct wired *x, int on, const struct br_message *m)
{
    wire_message(x->links[on], m, NULL, 0);
    wired_turn(x, 0);
}

static void done(struct wired *x, int on, uint32_t slot)
{
    say(x, on, &(struct br_message){.type = BR_MESSAGE_DONE, .done = {{slot}}});
}

/* ---- the sending half ------------------------------------------------------------------------------------ */

/* A READY of the peer with tokens for the rails; their serial is `serial`. */
static void ready(struct wired *x, int on, const struct br_message *what, uint32_t rails, uint32_t serial)
{
    struct br_message m = *what;
    struct wire_token tokens[2];
    uint32_t n = 0;

    for (uint32_t i = 0; i < 2; i++)
        if (rails >> i & 1)
            tokens[n++] = (struct wire_token){i, m.ready.slot, serial, 0};
    m.type = BR_MESSAGE_READY;
    m.places = rails;
    wire_message(x->links[on], &m, tokens, n * BR_PLACE_BYTES);
    wired_turn(x, 0);
}

static void first_ready(struct wired *x, int on, const struct br_transfer *t, uint32_t sequence,
                        uint32_t rails)
{
    struct br_message m = {.sequence = sequence, .tag = t->tag, .bytes = t->length, .ready.slot = SLOT};

    ready(x, on, &m, rails, 1);
}

/* Takes the frames of a rail, which must have its token of this slot; a bit for each slice. */
static uint64_t slices(struct wired *x, int rail, uint32_t slot, uint32_t serial)
{
    struct wire_frame *frame;
    uint64_t seen = 0;

    while ((frame = wire_take_placed(x->links[rail]))) {
        uint64_t bit = 1ull << (frame->frame.offset / SLICE);

        assert_int_equal(frame->frame.slot, slot);
        assert_int_equal(frame->token.rail, rail);
        assert_int_equal(frame->token.slot, slot);
        assert_int_equal(frame->token.serial, serial);
        assert_int_equal(frame->frame.length, SLICE);
        assert_int_equal(seen & bit, 0);
        seen |= bit;
    }
    return seen;
}

/* A send of 4 slices, two on each rail. */
static void send_four(struct wired *x, struct br_transfer *t)
{
    uint64_t a, b;

    *t = transfer_of(9, 4 * SLICE);
    x->w->peers[1].rails[0].budget = x->w->peers[1].rails[1].budget = 2 * SLICE;
    assert_int_equal(br_transfer_send(x->w, t), 0);
    first_ready(x, 0, t, 0, 3);
    a = slices(x, 0, SLOT, 1);
    b = slices(x, 1, SLOT, 1);
    assert_int_equal(a | b, 15);
    assert_int_equal(a & b, 0);
    assert_true(a && b);
}

static void send__each_rail_its_token(void **state)
{
    struct br_transfer t;
    struct wired x;

    (void)state;
    create(&x);
    send_four(&x, &t);
    wire_sent_all(&x.wires[0]);
    wire_sent_all(&x.wires[1]);
    wired_turn(&x, 0);
    done(&x, 0, SLOT);
    assert_int_equal(x.done, 1);
    wired_destroy(&x);
}

static void send__not_on_a_rail_without_token(void **state)
{
    struct br_transfer t = transfer_of(9, 4 * SLICE);
    struct wired x;

    (void)state;
    create(&x);
    x.w->peers[1].rails[1].budget = 8 * SLICE;
    assert_int_equal(br_transfer_send(x.w, &t), 0);
    first_ready(&x, 0, &t, 0, 2);
    assert_int_equal(slices(&x, 1, SLOT, 1), 15);
    assert_int_equal(slices(&x, 0, SLOT, 1), 0);
    wired_destroy(&x);
}

/* A READY that came before its send, by a rail that is lost since: its tokens have been kept. */
static void send__tokens_of_an_early_ready(void **state)
{
    struct br_transfer t = transfer_of(9, 2 * SLICE);
    struct wired x;

    (void)state;
    create(&x);
    first_ready(&x, 0, &t, 0, 3);
    cut(&x, 0);
    assert_int_equal(br_transfer_send(x.w, &t), 0);
    wired_turn(&x, 0);
    assert_int_equal(slices(&x, 1, SLOT, 1), 3);
    assert_int_equal(x.wires[0].buffers, 0);
    wired_destroy(&x);
}

static void expect_malformed(const struct br_message *m, uint32_t payload)
{
    static const uint8_t bytes[200];
    struct br_transfer t = transfer_of(9, 4 * SLICE);
    struct wired x;

    create(&x);
    assert_int_equal(br_transfer_send(x.w, &t), 0);
    wire_message(x.links[0], m, bytes, payload);
    wired_turn(&x, 0);
    assert_true(x.links[0]->closed);
    assert_int_equal(x.w->failed, 0);
    assert_int_equal(t.state, BR_TRANSFER_MATCHING);
    assert_null(wire_take_placed(x.links[1]));
    wired_destroy(&x);
}

static void ready__malformed_ones_close_the_link(void **state)
{
    struct br_message m = {.type = BR_MESSAGE_READY, .tag = 9, .bytes = 4 * SLICE, .ready.slot = SLOT};

    (void)state;
    m.places = 3;
    expect_malformed(&m, 0);
    expect_malformed(&m, 16);
    expect_malformed(&m, 31);
    expect_malformed(&m, 48);
    m.places = 0;
    expect_malformed(&m, 16);
    m.places = 4; /* a rail that does not exist */
    expect_malformed(&m, 16);
    m.places = 0x80000000u;
    expect_malformed(&m, 16);
    m.places = 3;
    m.ready.have = 1; /* in a first READY */
    expect_malformed(&m, 32);
    m.ready.renews = 7;
    m.ready.have = 15; /* then nothing is left */
    expect_malformed(&m, 32);
    m.ready.have = 16; /* a slice that does not exist */
    expect_malformed(&m, 32);
}

static void ready__tokens_for_rails_that_need_none(void **state)
{
    struct br_message m = {
        .type = BR_MESSAGE_READY, .tag = 9, .bytes = 4 * SLICE, .places = 1, .ready.slot = SLOT};
    uint8_t token[BR_PLACE_BYTES] = {0};
    struct wired x;

    (void)state;
    wired_create(&x, 0, 2, NULL);
    wire_message(x.links[0], &m, token, sizeof token);
    wired_turn(&x, 0);
    assert_true(x.links[0]->closed);
    wired_destroy(&x);
}

/* Nothing goes again before the receiver has said what it has. */
static void lost__asks_when_all_is_quiet(void **state)
{
    struct br_message m = {.sequence = 1,
                           .tag = 9,
                           .bytes = 4 * SLICE,
                           .ready = {.slot = SLOT + 0x10000, .renews = SLOT, .have = 1}};
    struct wire_frame *frame;
    struct br_transfer t;
    struct wired x;

    (void)state;
    create(&x);
    send_four(&x, &t);
    cut(&x, 0);
    assert_null(wire_take(x.links[1], BR_MESSAGE_RENEW));
    fenced(&x, 0, 1);
    assert_null(wire_take(x.links[1], BR_MESSAGE_RENEW)); /* frames are on their way on rail 1 */
    wire_sent_all(&x.wires[1]);
    wired_turn(&x, 0);
    frame = wire_take(x.links[1], BR_MESSAGE_RENEW);
    assert_non_null(frame);
    assert_int_equal(frame->message.renew.slot, SLOT);
    assert_int_equal(frame->message.renew.lost, 1);
    assert_null(wire_take_placed(x.links[1]));
    x.w->peers[1].rails[1].budget = 8 * SLICE;
    ready(&x, 1, &m, 3, 2);
    assert_int_equal(slices(&x, 1, SLOT + 0x10000, 2), 14);
    wire_sent_all(&x.wires[1]);
    done(&x, 1, SLOT); /* of the old number: nobody waits for that */
    assert_int_equal(x.done, 0);
    done(&x, 1, SLOT + 0x10000);
    assert_int_equal(x.done, 1);
    wired_destroy(&x);
}

static void lost__done_is_an_answer(void **state)
{
    struct br_transfer t;
    struct wired x;

    (void)state;
    create(&x);
    send_four(&x, &t);
    wire_sent_all(&x.wires[1]);
    cut(&x, 0);
    fenced(&x, 0, 1);
    assert_int_equal(wire_take(x.links[1], BR_MESSAGE_RENEW)->message.renew.lost, 1);
    done(&x, 1, SLOT);
    assert_int_equal(x.done, 1);
    assert_null(wire_take_placed(x.links[1]));
    wired_destroy(&x);
}

/* It came while we were about to ask: there is nothing to ask any more. */
static void lost__done_before_the_question(void **state)
{
    struct br_transfer t;
    struct wired x;

    (void)state;
    create(&x);
    send_four(&x, &t);
    cut(&x, 0);
    done(&x, 1, SLOT);
    fenced(&x, 0, 1);
    assert_int_equal(x.done, 0);
    wire_sent_all(&x.wires[1]);
    wired_turn(&x, 0);
    assert_int_equal(x.done, 1);
    assert_null(wire_take(x.links[1], BR_MESSAGE_RENEW));
    wired_destroy(&x);
}

/* What went over the other rail is not in doubt, only its DONE. */
static void lost__a_done_alone(void **state)
{
    struct br_transfer t = transfer_of(9, SLICE);
    struct wire_frame *frame;
    struct wired x;

    (void)state;
    create(&x);
    assert_int_equal(br_transfer_send(x.w, &t), 0);
    first_ready(&x, 0, &t, 0, 2);
    assert_int_equal(slices(&x, 1, SLOT, 1), 1);
    cut(&x, 0);
    assert_null(wire_take(x.links[1], BR_MESSAGE_RENEW));
    fenced(&x, 0, 1);
    frame = wire_take(x.links[1], BR_MESSAGE_RENEW);
    assert_int_equal(frame->message.renew.slot, SLOT);
    assert_int_equal(frame->message.renew.lost, 0);
    wire_sent_all(&x.wires[1]);
    done(&x, 1, SLOT);
    assert_int_equal(x.done, 1);
    wired_destroy(&x);
}

static void lost__with_the_question(void **state)
{
    struct br_transfer t;
    struct wired x;

    (void)state;
    create(&x);
    send_four(&x, &t);
    wire_sent_all(&x.wires[1]);
    cut(&x, 0);
    fenced(&x, 0, 1);
    assert_non_null(wire_take(x.links[1], BR_MESSAGE_RENEW));
    assert_true(wired_connect(&x, 0));
    cut(&x, 1);
    assert_null(wire_take(x.links[0], BR_MESSAGE_RENEW));
    fenced(&x, 1, 0);
    assert_int_equal(wire_take(x.links[0], BR_MESSAGE_RENEW)->message.renew.slot, SLOT);
    done(&x, 0, SLOT);
    assert_int_equal(x.done, 1);
    wired_destroy(&x);
}

/* Tokens are the devices': a rail that has come back carries with those of before. */
static void lost__a_rail_that_comes_back(void **state)
{
    struct br_transfer t = transfer_of(9, 8 * SLICE);
    struct wired x;

    (void)state;
    create(&x);
    cut(&x, 0);
    fenced(&x, 0, 1);
    assert_int_equal(br_transfer_send(x.w, &t), 0);
    x.wires[1].room = 0;
    first_ready(&x, 1, &t, 0, 3);
    assert_int_equal(t.flights, 0);
    assert_true(wired_connect(&x, 0));
    assert_true(t.flights > 0); /* with its token: the wire has looked */
    assert_int_equal(t.slice_rails[0], 1);
    wired_destroy(&x);
}

/* Nothing was lost, but the only rail with a token is. */
static void lost__the_only_rail_with_a_token(void **state)
{
    struct br_message m = {
        .sequence = 1, .tag = 9, .bytes = 2 * SLICE, .ready = {.slot = SLOT + 0x10000, .renews = SLOT}};
    struct br_transfer t = transfer_of(9, 2 * SLICE);
    struct wired x;

    (void)state;
    create(&x);
    x.wires[0].room = 0;
    assert_int_equal(br_transfer_send(x.w, &t), 0);
    first_ready(&x, 0, &t, 0, 1);
    cut(&x, 0);
    fenced(&x, 0, 1);
    assert_int_equal(wire_take(x.links[1], BR_MESSAGE_RENEW)->message.renew.lost, 1);
    assert_null(wire_take_placed(x.links[1]));
    ready(&x, 1, &m, 2, 2);
    assert_int_equal(slices(&x, 1, SLOT + 0x10000, 2), 3);
    wired_destroy(&x);
}

/* A READY for another transfer than the one that asks. */
static void renewed__must_be_the_same_transfer(void **state)
{
    struct br_message m = {
        .sequence = 1, .tag = 10, .bytes = 4 * SLICE, .ready = {.slot = SLOT + 0x10000, .renews = SLOT}};
    struct br_transfer t;
    struct wired x;

    (void)state;
    create(&x);
    send_four(&x, &t);
    ready(&x, 1, &m, 3, 2); /* it has not asked: dropped */
    assert_int_equal(x.w->counters.dropped_messages, 1);
    assert_int_equal(x.wires[1].buffers, 0);
    wire_sent_all(&x.wires[1]);
    cut(&x, 0);
    fenced(&x, 0, 1);
    assert_true(wired_connect(&x, 0));
    m.sequence = 2;
    ready(&x, 1, &m, 3, 2);
    assert_true(x.links[1]->closed);
    assert_int_equal(x.wires[1].buffers, 0);
    wired_destroy(&x);
}

/* ---- the receiving half ---------------------------------------------------------------------------------- */

static struct wire_frame *take_ready(struct wired *x)
{
    struct wire_frame *frame = NULL;

    for (int i = 0; i < 2 && !frame; i++)
        frame = wire_take(x->links[i], BR_MESSAGE_READY);
    return frame;
}

/* Its tokens must be those of the rails. */
static void expect_tokens(const struct wire_frame *frame, uint32_t rails)
{
    uint32_t n = 0;

    assert_int_equal(frame->message.places, rails);
    assert_int_equal(frame->frame.length, __builtin_popcount(rails) * BR_PLACE_BYTES);
    for (uint32_t i = 0; i < 2; i++) {
        struct wire_token token;

        if (!(rails >> i & 1))
            continue;
        memcpy(&token, frame->payload + n++ * sizeof token, sizeof token);
        assert_int_equal(token.rail, i);
        assert_int_equal(token.slot, frame->message.ready.slot);
    }
}

static uint32_t receive(struct wired *x, struct br_transfer *t)
{
    struct wire_frame *frame;

    assert_int_equal(br_transfer_receive(x->w, t), 0);
    wired_turn(x, 0);
    frame = take_ready(x);
    assert_non_null(frame);
    expect_tokens(frame, 3);
    assert_int_equal(frame->message.ready.renews, 0);
    assert_int_equal(frame->message.ready.have, 0);
    return frame->message.ready.slot;
}

static void receive__tokens_for_all_rails(void **state)
{
    struct br_transfer t = transfer_of(9, 2 * SLICE);
    struct wired x;
    uint32_t slot;

    (void)state;
    create(&x);
    cut(&x, 1);
    fenced(&x, 1, 0);
    slot = receive(&x, &t); /* also for the one that is down: it may come back */
    assert_int_equal(x.wires[0].tokens + x.wires[1].tokens, 2);
    wire_placed(x.links[0], slot, 0, memory, SLICE, 0);
    wire_placed(x.links[0], slot, SLICE, memory, SLICE, 0);
    wired_turn(&x, 0);
    assert_int_equal(x.done, 1);
    assert_int_equal(x.wires[0].tokens + x.wires[1].tokens, 0);
    wired_destroy(&x);
}

static void receive__the_slot_knows_its_region(void **state)
{
    struct br_region region = {.base = memory, .bytes = sizeof memory, .segment_fd = -1};
    struct br_transfer t = transfer_of(9, 2 * SLICE);
    struct wired x;
    uint32_t slot;

    (void)state;
    create(&x);
    t.region = &region;
    slot = receive(&x, &t);
    assert_ptr_equal(br_slot_find(&x.w->slots, slot)->region, &region);
    wired_destroy(&x);
}

static void receive__without_the_rail_that_cannot(void **state)
{
    struct br_transfer t = transfer_of(9, 2 * SLICE);
    struct wire_frame *frame;
    struct wired x;

    (void)state;
    create(&x);
    x.wires[0].refuses = true;
    assert_int_equal(br_transfer_receive(x.w, &t), 0);
    wired_turn(&x, 0);
    frame = take_ready(&x);
    expect_tokens(frame, 2);
    assert_int_equal(x.w->counters.placeless, 1);
    assert_int_equal(x.w->failed, 0);
    wired_destroy(&x);
}

static void receive__when_none_can(void **state)
{
    struct br_transfer t = transfer_of(9, 2 * SLICE);
    struct wired x;

    (void)state;
    create(&x);
    cut(&x, 1); /* has a token, but is down */
    fenced(&x, 1, 0);
    x.wires[0].refuses = true;
    (void)br_transfer_receive(x.w, &t);
    assert_int_equal(x.w->failed, -ENOMEM);
    assert_non_null(strstr(x.w->words, "level 0 (device wire0) cannot"));
    assert_non_null(strstr(x.w->words, "nothing can be pinned"));
    wired_destroy(&x);
}

static void receive__a_failed_worker_gives_them_back(void **state)
{
    struct br_transfer t = transfer_of(9, 2 * SLICE), u = transfer_of(10, SLICE);
    struct wired x;

    (void)state;
    create(&x);
    receive(&x, &t);
    receive(&x, &u);
    assert_int_equal(x.wires[0].tokens, 2);
    br_worker_fail(x.w, ECANCELED, "enough");
    wired_turn(&x, 0);
    assert_int_equal(x.wires[0].tokens, 2); /* bytes may still arrive */
    wired_turn(&x, BR_LAST_WORDS);
    wired_turn(&x, BR_LAST_WORDS);
    assert_false(x.w->fail_due);
    assert_true(x.links[0]->closed);
    assert_int_equal(x.wires[0].tokens + x.wires[1].tokens, 0);
    wired_destroy(&x);
}

static void receive__withdrawn(void **state)
{
    struct br_transfer t = transfer_of(9, 2 * SLICE);
    struct wired x;

    (void)state;
    create(&x);
    receive(&x, &t);
    br_transfer_withdraw(x.w, &t);
    assert_int_equal(x.wires[0].tokens + x.wires[1].tokens, 0);
    wired_destroy(&x);
}

static void ask(struct wired *x, int on, uint32_t slot, uint32_t lost)
{
    say(x, on, &(struct br_message){.type = BR_MESSAGE_RENEW, .renew = {.slot = slot, .lost = lost}});
}

/* A slice is complete, half of another is here. */
static void asked__gives_a_new_number(void **state)
{
    struct br_transfer t = transfer_of(9, 3 * SLICE);
    struct wire_frame *frame;
    uint32_t old, slot;
    struct wired x;

    (void)state;
    create(&x);
    old = receive(&x, &t);
    wire_placed(x.links[0], old, SLICE, memory, SLICE, BR_PLACED_DONE);
    wire_placed(x.links[0], old, 0, memory, SLICE / 2, BR_PLACED_DONE);
    wired_turn(&x, 0);
    ask(&x, 1, old, 1);
    frame = take_ready(&x);
    assert_non_null(frame);
    expect_tokens(frame, 3);
    slot = frame->message.ready.slot;
    assert_int_not_equal(slot, old);
    assert_int_equal(frame->message.tag, 9);
    assert_int_equal(frame->message.ready.renews, old);
    assert_int_equal(frame->message.ready.have, 2);
    assert_int_equal(x.wires[0].made, 2);
    assert_int_equal(x.wires[0].tokens, 1);

    ask(&x, 0, old, 1); /* said again, because a rail was lost: the answer is on its way */
    assert_null(take_ready(&x));
    wire_placed(x.links[1], old, 0, memory, SLICE, BR_PLACED_DONE); /* came late, and counts nothing */
    wired_turn(&x, 0);
    assert_null(wire_take(x.links[0], BR_MESSAGE_DONE));
    assert_null(wire_take(x.links[1], BR_MESSAGE_DONE));

    wire_placed(x.links[1], slot, SLICE / 2, memory, SLICE / 2, BR_PLACED_DONE);
    wire_placed(x.links[1], slot, 2 * SLICE, memory, SLICE, BR_PLACED_DONE);
    wired_turn(&x, 0);
    assert_int_equal(x.done, 0);
    wire_placed(x.links[1], slot, 0, memory, SLICE / 2, BR_PLACED_DONE);
    wired_turn(&x, 0);
    assert_int_equal(x.done, 1);
    assert_int_equal(x.wires[0].tokens + x.wires[1].tokens, 0);
    wired_destroy(&x);
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
    struct wired x;
    uint32_t slot;

    (void)state;
    create(&x);
    slot = receive(&x, &t);
    ask(&x, 1, slot, 0); /* DONE is not lost, it is not due */
    assert_null(take_ready(&x));
    assert_false(says_done(&x, slot));
    wire_placed(x.links[0], slot, 0, memory, SLICE, BR_PLACED_DONE);
    wire_placed(x.links[0], slot, SLICE, memory, SLICE, BR_PLACED_DONE);
    wired_turn(&x, 0);
    assert_true(says_done(&x, slot));
    ask(&x, 1, slot, 0);
    assert_true(says_done(&x, slot));
    ask(&x, 1, slot, 1);
    assert_true(says_done(&x, slot));
    wired_destroy(&x);
}

/* Rails that need no tokens know nothing of it. */
static void asked__without_need(void **state)
{
    struct br_transfer t = transfer_of(9, 2 * SLICE);
    struct wire_frame *frame;
    struct wired x;

    (void)state;
    wired_create(&x, 0, 2, NULL);
    assert_int_equal(br_transfer_receive(x.w, &t), 0);
    wired_turn(&x, 0);
    frame = take_ready(&x);
    assert_int_equal(frame->frame.length, 0);
    assert_int_equal(frame->message.places, 0);
    ask(&x, 1, frame->message.ready.slot, 1);
    assert_null(take_ready(&x));
    assert_non_null(br_slot_find(&x.w->slots, frame->message.ready.slot));
    wired_destroy(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(send__each_rail_its_token),
        cmocka_unit_test(send__not_on_a_rail_without_token),
        cmocka_unit_test(send__tokens_of_an_early_ready),
        cmocka_unit_test(ready__malformed_ones_close_the_link),
        cmocka_unit_test(ready__tokens_for_rails_that_need_none),
        cmocka_unit_test(lost__asks_when_all_is_quiet),
        cmocka_unit_test(lost__done_is_an_answer),
        cmocka_unit_test(lost__done_before_the_question),
        cmocka_unit_test(lost__a_done_alone),
        cmocka_unit_test(lost__with_the_question),
        cmocka_unit_test(lost__a_rail_that_comes_back),
        cmocka_unit_test(lost__the_only_rail_with_a_token),
        cmocka_unit_test(renewed__must_be_the_same_transfer),
        cmocka_unit_test(receive__tokens_for_all_rails),
        cmocka_unit_test(receive__the_slot_knows_its_region),
        cmocka_unit_test(receive__without_the_rail_that_cannot),
        cmocka_unit_test(receive__when_none_can),
        cmocka_unit_test(receive__a_failed_worker_gives_them_back),
        cmocka_unit_test(receive__withdrawn),
        cmocka_unit_test(asked__gives_a_new_number),
        cmocka_unit_test(asked__about_a_complete_one),
        cmocka_unit_test(asked__without_need),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
