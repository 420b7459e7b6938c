/* SPDX-License-Identifier: BSD-3-Clause */
/* The sending half of remote keys: in READYs that we hear, on frames, and what goes again when a
 * rail is lost. The other half is in test_place_receive.c. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "wired.h"

#define SLICE (64u << 10)
#define SLOT  0x00050002u /* of the peer */

static uint8_t memory[8 * SLICE];

static struct br_transfer transfer_of(uint64_t tag, uint32_t length)
{
    return (struct br_transfer){.tag = tag, .peer = 1, .memory = memory, .length = length};
}

static void done(struct wired *x, int on, uint32_t slot)
{
    wired_say(x, on, &(struct br_message){.type = BR_MESSAGE_DONE, .done = {{slot}}});
}

/* A READY of the peer with keys for the rails; their serial is `serial`. */
static void ready(struct wired *x, int on, const struct br_message *what, uint32_t rails,
                  uint32_t serial)
{
    struct br_message m = *what;
    struct wire_rkey keys[2];
    uint32_t n = 0;

    for (uint32_t i = 0; i < 2; i++)
        if (rails >> i & 1)
            keys[n++] = (struct wire_rkey){i, m.ready.slot, serial, 0};
    m.type = BR_MESSAGE_READY;
    m.rkeys = rails;
    wire_message(x->links[on], &m, keys, n * BR_RKEY_BYTES);
    wired_turn(x, 0);
}

static void first_ready(struct wired *x, int on, const struct br_transfer *t, uint32_t sequence,
                        uint32_t rails)
{
    struct br_message m = {
        .sequence = sequence, .tag = t->tag, .bytes = t->length, .ready.slot = SLOT};

    ready(x, on, &m, rails, 1);
}

/* Takes the frames of a rail, which must have its key of this slot; a bit for each slice. */
static uint64_t slices(struct wired *x, int rail, uint32_t slot, uint32_t serial)
{
    struct wire_frame *frame;
    uint64_t seen = 0;

    while ((frame = wire_take_placed(x->links[rail]))) {
        uint64_t bit = 1ull << (frame->frame.offset / SLICE);

        assert_int_equal(frame->frame.slot, slot);
        assert_int_equal(frame->rkey.rail, rail);
        assert_int_equal(frame->rkey.slot, slot);
        assert_int_equal(frame->rkey.serial, serial);
        assert_int_equal(frame->frame.length, SLICE);
        assert_int_equal(seen & bit, 0);
        seen |= bit;
    }
    return seen;
}

/* A send of 4 slices, two on each rail; returns those of rail 0, a bit each. */
static uint64_t send_four(struct wired *x, struct br_transfer *t)
{
    uint64_t a, b;

    *t = transfer_of(9, 4 * SLICE);
    x->w->peers[1].rails[0].window = x->w->peers[1].rails[1].window = 2 * SLICE;
    assert_int_equal(br_transfer_send(x->w, t), 0);
    first_ready(x, 0, t, 0, 3);
    a = slices(x, 0, SLOT, 1);
    b = slices(x, 1, SLOT, 1);
    assert_int_equal(a | b, 15);
    assert_int_equal(a & b, 0);
    assert_true(a && b);
    return a;
}

static void send__each_rail_its_rkey(void **state)
{
    struct br_transfer t;
    struct wired *x = *state;

    send_four(x, &t);
    wire_sent_all(&x->wires[0]);
    wire_sent_all(&x->wires[1]);
    wired_turn(x, 0);
    done(x, 0, SLOT);
    assert_int_equal(x->done, 1);
}

static void send__not_on_a_rail_without_rkey(void **state)
{
    struct br_transfer t = transfer_of(9, 4 * SLICE);
    struct wired *x = *state;

    x->w->peers[1].rails[1].window = 8 * SLICE;
    assert_int_equal(br_transfer_send(x->w, &t), 0);
    first_ready(x, 0, &t, 0, 2);
    assert_int_equal(slices(x, 1, SLOT, 1), 15);
    assert_int_equal(slices(x, 0, SLOT, 1), 0);
}

/* A READY that came before its send, by a rail that is lost since: its keys have been kept. */
static void send__rkeys_of_an_early_ready(void **state)
{
    struct br_transfer t = transfer_of(9, 2 * SLICE);
    struct wired *x = *state;

    first_ready(x, 0, &t, 0, 3);
    wired_cut(x, 0);
    assert_int_equal(br_transfer_send(x->w, &t), 0);
    wired_turn(x, 0);
    assert_int_equal(slices(x, 1, SLOT, 1), 3);
    assert_int_equal(x->wires[0].buffers, 0);
}

static void expect_malformed(const struct br_message *m, uint32_t payload)
{
    static const uint8_t bytes[200];
    struct br_caps caps = wire_caps(true);
    struct br_transfer t = transfer_of(9, 4 * SLICE);
    struct wired x;

    caps.needs_rkey = true;
    wired_create(&x, 0, 2, &caps);
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
    struct br_message m = {
        .type = BR_MESSAGE_READY, .tag = 9, .bytes = 4 * SLICE, .ready.slot = SLOT};

    (void)state;
    m.rkeys = 3;
    expect_malformed(&m, 0);
    expect_malformed(&m, 16);
    expect_malformed(&m, 31);
    expect_malformed(&m, 48);
    m.rkeys = 0;
    expect_malformed(&m, 16);
    m.rkeys = 4; /* a rail that does not exist */
    expect_malformed(&m, 16);
    m.rkeys = 0x80000000u;
    expect_malformed(&m, 16);
    m.rkeys = 3;
    m.ready.have = 1; /* in a first READY */
    expect_malformed(&m, 32);
    m.ready.renews = 7;
    m.ready.have = 15; /* then nothing is left */
    expect_malformed(&m, 32);
    m.ready.have = 16; /* a slice that does not exist */
    expect_malformed(&m, 32);
}

static void ready__rkeys_for_rails_that_need_none(void **state)
{
    struct br_message m = {
        .type = BR_MESSAGE_READY, .tag = 9, .bytes = 4 * SLICE, .rkeys = 1, .ready.slot = SLOT};
    uint8_t key[BR_RKEY_BYTES] = {0};
    struct wired *x = *state;

    wire_message(x->links[0], &m, key, sizeof key);
    wired_turn(x, 0);
    assert_true(x->links[0]->closed);
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
    struct wired *x = *state;
    uint64_t lost = send_four(x, &t);

    wired_cut(x, 0);
    assert_null(wire_take(x->links[1], BR_MESSAGE_RENEW));
    wired_fenced(x, 0, 1);
    assert_null(wire_take(x->links[1], BR_MESSAGE_RENEW)); /* frames are on their way on rail 1 */
    wire_sent_all(&x->wires[1]);
    wired_turn(x, 0);
    frame = wire_take(x->links[1], BR_MESSAGE_RENEW);
    assert_non_null(frame);
    assert_int_equal(frame->message.renew.slot, SLOT);
    assert_int_equal(frame->message.renew.lost, 1);
    assert_null(wire_take_placed(x->links[1]));
    x->w->peers[1].rails[1].window = 8 * SLICE;
    ready(x, 1, &m, 3, 2);
    assert_int_equal(slices(x, 1, SLOT + 0x10000, 2), 14);
    assert_int_equal(x->w->peers[1].rails[0].resent_slices, __builtin_popcountll(lost & 14));
    assert_int_equal(x->w->peers[1].rails[1].resent_slices, 0);
    wire_sent_all(&x->wires[1]);
    done(x, 1, SLOT); /* of the old number: nobody waits for that */
    assert_int_equal(x->done, 0);
    done(x, 1, SLOT + 0x10000);
    assert_int_equal(x->done, 1);
}

static void lost__done_is_an_answer(void **state)
{
    struct br_transfer t;
    struct wired *x = *state;

    send_four(x, &t);
    wire_sent_all(&x->wires[1]);
    wired_cut(x, 0);
    wired_fenced(x, 0, 1);
    assert_int_equal(wire_take(x->links[1], BR_MESSAGE_RENEW)->message.renew.lost, 1);
    done(x, 1, SLOT);
    assert_int_equal(x->done, 1);
    assert_null(wire_take_placed(x->links[1]));
}

/* It came while we were about to ask: there is nothing to ask any more. */
static void lost__done_before_the_question(void **state)
{
    struct br_transfer t;
    struct wired *x = *state;

    send_four(x, &t);
    wired_cut(x, 0);
    done(x, 1, SLOT);
    wired_fenced(x, 0, 1);
    assert_int_equal(x->done, 0);
    wire_sent_all(&x->wires[1]);
    wired_turn(x, 0);
    assert_int_equal(x->done, 1);
    assert_null(wire_take(x->links[1], BR_MESSAGE_RENEW));
}

/* What went over the other rail is not in doubt, only its DONE. */
static void lost__a_done_alone(void **state)
{
    struct br_transfer t = transfer_of(9, SLICE);
    struct wire_frame *frame;
    struct wired *x = *state;

    assert_int_equal(br_transfer_send(x->w, &t), 0);
    first_ready(x, 0, &t, 0, 2);
    assert_int_equal(slices(x, 1, SLOT, 1), 1);
    wired_cut(x, 0);
    assert_null(wire_take(x->links[1], BR_MESSAGE_RENEW));
    wired_fenced(x, 0, 1);
    frame = wire_take(x->links[1], BR_MESSAGE_RENEW);
    assert_int_equal(frame->message.renew.slot, SLOT);
    assert_int_equal(frame->message.renew.lost, 0);
    wire_sent_all(&x->wires[1]);
    done(x, 1, SLOT);
    assert_int_equal(x->done, 1);
}

static void lost__with_the_question(void **state)
{
    struct br_transfer t;
    struct wired *x = *state;

    send_four(x, &t);
    wire_sent_all(&x->wires[1]);
    wired_cut(x, 0);
    wired_fenced(x, 0, 1);
    assert_non_null(wire_take(x->links[1], BR_MESSAGE_RENEW));
    assert_true(wired_connect(x, 0));
    wired_cut(x, 1);
    assert_null(wire_take(x->links[0], BR_MESSAGE_RENEW));
    wired_fenced(x, 1, 0);
    assert_int_equal(wire_take(x->links[0], BR_MESSAGE_RENEW)->message.renew.slot, SLOT);
    done(x, 0, SLOT);
    assert_int_equal(x->done, 1);
}

/* Keys are the devices': a rail that has come back carries with those of before. */
static void lost__a_rail_that_comes_back(void **state)
{
    struct br_transfer t = transfer_of(9, 8 * SLICE);
    struct wired *x = *state;

    wired_cut(x, 0);
    wired_fenced(x, 0, 1);
    assert_int_equal(br_transfer_send(x->w, &t), 0);
    x->wires[1].room = 0;
    first_ready(x, 1, &t, 0, 3);
    assert_int_equal(t.flights, 0);
    assert_true(wired_connect(x, 0));
    assert_true(t.flights > 0); /* with its key: the wire has looked */
    assert_int_equal(t.slice_rails[0], 1);
}

/* Nothing was lost, but the only rail with a key is. */
static void lost__the_only_rail_with_a_rkey(void **state)
{
    struct br_message m = {.sequence = 1,
                           .tag = 9,
                           .bytes = 2 * SLICE,
                           .ready = {.slot = SLOT + 0x10000, .renews = SLOT}};
    struct br_transfer t = transfer_of(9, 2 * SLICE);
    struct wired *x = *state;

    x->wires[0].room = 0;
    assert_int_equal(br_transfer_send(x->w, &t), 0);
    first_ready(x, 0, &t, 0, 1);
    wired_cut(x, 0);
    wired_fenced(x, 0, 1);
    assert_int_equal(wire_take(x->links[1], BR_MESSAGE_RENEW)->message.renew.lost, 1);
    assert_null(wire_take_placed(x->links[1]));
    ready(x, 1, &m, 2, 2);
    assert_int_equal(slices(x, 1, SLOT + 0x10000, 2), 3);
}

/* A READY for another transfer than the one that asks. */
static void renewed__must_be_the_same_transfer(void **state)
{
    struct br_message m = {.sequence = 1,
                           .tag = 10,
                           .bytes = 4 * SLICE,
                           .ready = {.slot = SLOT + 0x10000, .renews = SLOT}};
    struct br_transfer t;
    struct wired *x = *state;

    send_four(x, &t);
    ready(x, 1, &m, 3, 2); /* it has not asked: dropped */
    assert_int_equal(x->w->counters.dropped_messages, 1);
    assert_int_equal(x->wires[1].buffers, 0);
    wire_sent_all(&x->wires[1]);
    wired_cut(x, 0);
    wired_fenced(x, 0, 1);
    assert_true(wired_connect(x, 0));
    m.sequence = 2;
    ready(x, 1, &m, 3, 2);
    assert_true(x->links[1]->closed);
    assert_int_equal(x->wires[1].buffers, 0);
}

int main(void)
{
#define PLACES(f)                                                                                  \
    WIRED_TEST(f, .rails = 2, .up = true, .sent_means_arrived = true, .needs_rkey = true)
    const struct CMUnitTest tests[] = {
        PLACES(send__each_rail_its_rkey),
        PLACES(send__not_on_a_rail_without_rkey),
        PLACES(send__rkeys_of_an_early_ready),
        cmocka_unit_test(ready__malformed_ones_close_the_link),
        WIRED_TEST(ready__rkeys_for_rails_that_need_none, .rails = 2, .up = true),
        PLACES(lost__asks_when_all_is_quiet),
        PLACES(lost__done_is_an_answer),
        PLACES(lost__done_before_the_question),
        PLACES(lost__a_done_alone),
        PLACES(lost__with_the_question),
        PLACES(lost__a_rail_that_comes_back),
        PLACES(lost__the_only_rail_with_a_rkey),
        PLACES(renewed__must_be_the_same_transfer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
