/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbered messages: which may leave without a credit, and how far their numbers may run ahead.
 * More: test_waiting.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "wired.h"

static uint8_t memory[8];

/* A small send that leaves on the given rail. */
static void post(struct wired *x, int rail, struct br_transfer *t, uint64_t order, uint64_t tag)
{
    *t = (struct br_transfer){.tag = tag, .peer = 1, .memory = memory, .length = 8, .order = order};
    x->wires[!rail].room = 0;
    assert_int_equal(br_transfer_send(x->w, t), 0);
    wired_turn(x, 0);
    x->wires[!rail].room = -1;
}

static void acknowledge(struct wired *x, int rail, uint32_t arrived, uint32_t released)
{
    struct br_message ack = {.type = BR_MESSAGE_ACK,
                             .ack = {.arrived = arrived, .released = released}};

    wired_say(x, rail, &ack);
}

static uint64_t next_tag(struct wired *x, int rail)
{
    struct wire_frame *frame = wire_take(x->links[rail], BR_MESSAGE_EAGER);

    return frame ? frame->message.tag : UINT64_MAX;
}

/* Queues a small send; the rails take everything. */
static void queue(struct wired *x, struct br_transfer *t, int32_t priority, uint64_t tag)
{
    *t = (struct br_transfer){
        .tag = tag, .peer = 1, .memory = memory, .length = 8, .priority = priority, .order = 10};
    assert_int_equal(br_transfer_send(x->w, t), 0);
    wired_turn(x, 0);
}

/* Rail 1 has no credit left. The messages of the lost rail need none, but a buffer each. */
static void unacknowledged__needs_a_buffer_and_no_credit(void **state)
{
    static struct br_transfer held[BR_CREDITS], t[6];
    struct wired *x = *state;

    for (uint32_t i = 0; i < BR_CREDITS; i++)
        post(x, 1, &held[i], 100, 100 + i);
    for (uint32_t i = 0; i < 5; i++)
        post(x, 0, &t[i], i, i);
    wire_forget(&x->wires[1]);
    wire_forget(&x->wires[0]);
    wired_cut(x, 0);
    for (uint32_t i = 0; i < BR_UNRELEASED - BR_CREDITS; i++)
        assert_int_equal(next_tag(x, 1), i);
    assert_int_equal(next_tag(x, 1), UINT64_MAX);
    queue(x, &t[5], 9, 5);
    assert_int_equal(next_tag(x, 1), UINT64_MAX);
    acknowledge(x, 1, BR_UNRELEASED, 4);
    assert_int_equal(next_tag(x, 1), 4);
    assert_int_equal(next_tag(x, 1), UINT64_MAX);
    acknowledge(x, 1, BR_UNRELEASED + 1, 6);
    assert_int_equal(next_tag(x, 1), 5);
}

/* A message says what has been released, so no ACK has to; one that goes again says it of its rail.
 */
static void eager__says_what_is_released(void **state)
{
    struct br_message said = {.type = BR_MESSAGE_EAGER, .tag = 50, .bytes = 8};
    struct br_transfer in = {.tag = 50, .peer = 1, .memory = memory, .length = 8}, out;
    struct wired *x = *state;
    struct wire_frame *frame;

    assert_int_equal(br_transfer_receive(x->w, &in), 0);
    wired_say(x, 1, &said);
    assert_int_equal(in.state, BR_TRANSFER_ENDED);
    post(x, 0, &out, 1, 1);
    frame = wire_take(x->links[0], BR_MESSAGE_EAGER);
    assert_int_equal(frame->message.released, 0);
    wired_cut(x, 0);
    frame = wire_take(x->links[1], BR_MESSAGE_EAGER);
    assert_int_equal(frame->message.tag, 1);
    assert_int_equal(frame->message.released, 1);
    while (wire_take(x->links[1], BR_MESSAGE_ACK))
        ;
    wired_turn(x, 20 * BR_MS);
    assert_null(wire_take(x->links[1], BR_MESSAGE_ACK));
}

/* Messages of collectives and of point to point, all without a credit: those wait that may come
 * before their receive, and those leave that need none. */
static void credit__not_for_what_finds_its_other_end(void **state)
{
    static struct br_transfer held[BR_CREDITS], waits[2], onesided, large;
    static uint8_t received[1 << 16];
    uint64_t answer = br_tag_onesided(1, BR_PART_STATUS);
    struct wired *x = *state;

    for (uint32_t i = 0; i < BR_CREDITS; i++)
        queue(x, &held[i], 0, i % 2 ? i : br_tag_p2p(0, i, 1));
    wire_forget(&x->wires[0]);
    queue(x, &waits[0], 9, 1000);
    queue(x, &waits[1], 8, br_tag_p2p(0, 1000, 1));
    assert_int_equal(next_tag(x, 0), UINT64_MAX);
    queue(x, &onesided, -1, answer);
    assert_int_equal(next_tag(x, 0), answer);
    large = (struct br_transfer){.tag = br_tag_p2p(0, 11, 1),
                                 .peer = 1,
                                 .memory = received,
                                 .length = sizeof received,
                                 .priority = -1};
    assert_int_equal(br_transfer_receive(x->w, &large), 0);
    wired_turn(x, 0);
    assert_non_null(wire_take(x->links[0], BR_MESSAGE_READY));
    assert_int_equal(waits[0].state, BR_TRANSFER_QUEUED);
    assert_int_equal(waits[1].state, BR_TRANSFER_QUEUED);
    acknowledge(x, 0, BR_CREDITS + 2, 3);
    assert_int_equal(next_tag(x, 0), 1000);
    assert_int_equal(next_tag(x, 0), UINT64_MAX);
}

/* `n` messages go by on rail 1, while one on rail 0 is not acknowledged; returns how many leave. */
static uint32_t go_by(struct wired *x, struct br_transfer *t, uint32_t n)
{
    static uint32_t sent;
    uint32_t left = 0;

    if (t->tag == 0)
        sent = 0;
    for (uint32_t i = 0; i < n; i++) {
        post(x, 1, t, 1, br_tag_p2p(0, 1 + sent, 1));
        if (t->state != BR_TRANSFER_ENDED)
            break;
        sent++;
        left++;
        acknowledge(x, 1, sent, sent);
        wire_forget(&x->wires[1]);
    }
    return left;
}

/* The peer remembers 1024 numbers. It is asked for the first one before that falls out. */
static void number__waits_for_what_may_not_have_arrived(void **state)
{
    struct br_transfer first, t = {.tag = 0}, waits;
    struct wired *x = *state;

    post(x, 0, &first, 1, br_tag_p2p(0, 0, 1));
    wire_forget(&x->wires[0]);
    assert_int_equal(go_by(x, &t, BR_SEEN + 5), BR_SEEN - 1);
    assert_int_equal(t.state, BR_TRANSFER_QUEUED);
    wired_turn(x, 0);
    assert_non_null(wire_take(x->links[0], BR_MESSAGE_PING));
    wired_turn(x, BR_MS);
    assert_null(wire_take(x->links[0], BR_MESSAGE_PING)); /* once */
    waits = (struct br_transfer){.tag = 5, .peer = 1, .memory = memory, .length = 8};
    assert_int_equal(br_transfer_send(x->w, &waits), 0); /* collectives have numbers of their own */
    wired_turn(x, 0);
    assert_int_equal(waits.state, BR_TRANSFER_ENDED);
    acknowledge(x, 0, 1, 0);
    assert_int_equal(t.state, BR_TRANSFER_ENDED);
}

/* It was lost: it goes again, and nothing new before it has arrived. */
static void number__waits_for_what_goes_again(void **state)
{
    struct br_transfer first, t = {.tag = 0};
    struct wire_frame *frame;
    struct wired *x = *state;

    post(x, 0, &first, 1, br_tag_p2p(0, 0, 1));
    assert_int_equal(go_by(x, &t, BR_SEEN), BR_SEEN - 1);
    wire_forget(&x->wires[1]);
    wired_cut(x, 0);
    frame = wire_take(x->links[1], BR_MESSAGE_EAGER);
    assert_non_null(frame);
    assert_int_equal(frame->message.sequence, 0);
    assert_int_equal(t.state, BR_TRANSFER_QUEUED);
    acknowledge(x, 1, BR_SEEN, BR_SEEN);
    assert_int_equal(t.state, BR_TRANSFER_ENDED);
    assert_int_equal(wire_take(x->links[1], BR_MESSAGE_EAGER)->message.sequence, BR_SEEN);
}

/* Without a pump, of a collective and point to point. If the device sends it at its next poll, the
 * worker says that one is due. */
static void at_once__nothing_else_waits(void **state)
{
    const uint64_t tags[] = {br_tag_collective(0, 0, 0, 0), br_tag_p2p(0, 0, 1)};
    struct wired *x = *state;

    for (int i = 0; i < 2; i++) {
        struct br_transfer t = {.tag = tags[i], .peer = 1, .memory = memory, .length = 8};

        x->links[0]->link.device->unsent = true;
        assert_int_equal(br_transfer_send(x->w, &t), 0);
        assert_int_equal(t.state, BR_TRANSFER_ENDED);
        assert_int_equal(next_tag(x, 0), t.tag);
        assert_ptr_equal(br_worker_done(x->w), &t);
        assert_true(br_worker_is_due(x->w));
        br_worker_poll(x->w, x->w->now);
        assert_false(br_worker_is_due(x->w));
    }
}

/* What waits to leave already goes first. */
static void at_once__not_past_what_is_queued(void **state)
{
    struct br_transfer t[2];
    struct wired *x = *state;

    for (int i = 0; i < 2; i++)
        t[i] = (struct br_transfer){.tag = br_tag_p2p(0, (uint64_t)i, 1),
                                    .peer = 1,
                                    .memory = memory,
                                    .length = 8,
                                    .order = (uint64_t)i};
    x->wires[0].room = 0;
    assert_int_equal(br_transfer_send(x->w, &t[0]), 0);
    x->wires[0].room = -1;
    assert_int_equal(br_transfer_send(x->w, &t[1]), 0);
    assert_int_equal(t[1].state, BR_TRANSFER_QUEUED);
    wired_turn(x, 0);
    assert_int_equal(next_tag(x, 0), t[0].tag);
    assert_int_equal(next_tag(x, 0), t[1].tag);
}

/* Payload is kept in slots: few, and the same ones again, while few messages have not arrived, even
 * if that never are none; and each its own while all may have to be sent again. */
static void slots__as_many_as_messages_that_have_not_arrived(void **state)
{
    static struct br_transfer t[200];
    static uint8_t data[100];
    struct wired *x = *state;
    struct br_rail *rail = &x->w->peers[1].rails[0];
    const uint8_t *first = rail->slots + (BR_UNRELEASED - 1) * (size_t)rail->slot_bytes;

    for (uint32_t i = 0; i < 200; i++) {
        const struct br_retained *keep = &rail->retained[i % BR_UNRELEASED];

        memset(data, (int)i, sizeof data);
        t[i] = (struct br_transfer){
            .tag = i, .peer = 1, .memory = data, .length = sizeof data, .order = i};
        assert_int_equal(br_transfer_send(x->w, &t[i]), 0);
        wired_turn(x, 0);
        assert_int_equal(rail->sent, i + 1);
        assert_memory_equal(keep->memory, data, sizeof data);
        assert_true(keep->memory == first || keep->memory == first - rail->slot_bytes);
        acknowledge(x, 0, i, i); /* all but this one */
        wire_forget(&x->wires[0]);
        wired_turn(x, 0);
    }
    acknowledge(x, 0, 200, 200);
    wired_turn(x, 0);
    for (uint32_t i = 0; i < BR_CREDITS; i++) {
        memset(data, (int)i, sizeof data);
        t[i].state = BR_TRANSFER_IDLE;
        assert_int_equal(br_transfer_send(x->w, &t[i]), 0);
    }
    wired_turn(x, 0);
    assert_int_equal(rail->sent, 200 + BR_CREDITS);
    for (uint32_t i = 0; i < BR_CREDITS; i++)
        assert_int_equal(rail->retained[(200 + i) % BR_UNRELEASED].memory[0], i);
}

/* What goes again is what was sent, in slots that others had before. */
static void slots__what_goes_again(void **state)
{
    static struct br_transfer t[40];
    static uint8_t data[100];
    struct wired *x = *state;

    for (uint32_t i = 0; i < 40; i++) {
        uint32_t length = i % 4 ? sizeof data - i : 0;

        memset(data, (int)i, sizeof data);
        t[i] =
            (struct br_transfer){.tag = i, .peer = 1, .memory = data, .length = length, .order = i};
        x->wires[1].room = 0;
        assert_int_equal(br_transfer_send(x->w, &t[i]), 0);
        wired_turn(x, 0);
        x->wires[1].room = -1;
        if (i < 30)
            acknowledge(x, 0, i, i);
    }
    wire_forget(&x->wires[1]);
    wired_cut(x, 0);
    for (uint32_t i = 29; i < 40; i++) {
        struct wire_frame *frame = wire_take(x->links[1], BR_MESSAGE_EAGER);

        assert_non_null(frame);
        assert_int_equal(frame->message.tag, i);
        assert_int_equal(frame->frame.length, i % 4 ? sizeof data - i : 0);
        memset(data, (int)i, sizeof data);
        assert_memory_equal(frame->payload, data, frame->frame.length);
    }
    assert_null(wire_take(x->links[1], BR_MESSAGE_EAGER));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WIRED_TEST(unacknowledged__needs_a_buffer_and_no_credit, .rails = 2, .up = true),
        WIRED_TEST(eager__says_what_is_released, .rails = 2, .up = true),
        WIRED_TEST(credit__not_for_what_finds_its_other_end, .rails = 1, .up = true),
        WIRED_TEST(number__waits_for_what_may_not_have_arrived, .rails = 2, .up = true),
        WIRED_TEST(number__waits_for_what_goes_again, .rails = 2, .up = true),
        WIRED_TEST(slots__as_many_as_messages_that_have_not_arrived, .rails = 1, .up = true),
        WIRED_TEST(slots__what_goes_again, .rails = 2, .up = true),
        WIRED_TEST(at_once__nothing_else_waits, .rails = 1, .up = true),
        WIRED_TEST(at_once__not_past_what_is_queued, .rails = 1, .up = true),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
