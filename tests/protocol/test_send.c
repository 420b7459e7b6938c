/* SPDX-License-Identifier: BSD-3-Clause */
/* What leaves, in which order, cut into which frames, and when a send has ended. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "tests/says.h"
#include "protocol/internal.h"
#include "wired.h"

#define SLICE (64u << 10)

static uint8_t memory[16 << 20];

static struct br_transfer send_of(uint64_t tag, uint32_t length)
{
    return (struct br_transfer){.tag = tag, .peer = 1, .memory = memory, .length = length};
}

/* The peer's READY, its i-th message. */
static void ready(struct wired *x, uint32_t sequence, uint64_t tag, uint32_t length, uint32_t slot)
{
    struct br_message m = {.type = BR_MESSAGE_READY,
                           .sequence = sequence,
                           .tag = tag,
                           .bytes = length,
                           .ready.slot = slot};

    wire_message(x->links[0], &m, NULL, 0);
    wired_turn(x, 0);
}

/* Says that all placed bytes of the link have arrived. */
static void acknowledge(struct wired *x, int rail)
{
    struct br_message m = {.type = BR_MESSAGE_ACK,
                           .ack.bytes = x->w->peers[1].rails[rail].tx_bytes};

    wire_message(x->links[rail], &m, NULL, 0);
    wired_turn(x, 100 * BR_US);
}

static void eager__one_message_and_a_copy(void **state)
{
    struct br_transfer t = send_of(7, 100);
    struct wire_frame *frame;
    struct wired *x = *state;

    memset(memory, 5, 100);
    assert_int_equal(br_transfer_send(x->w, &t), 0);
    wired_turn(x, 0);
    assert_int_equal(t.state, BR_TRANSFER_ENDED);
    frame = wire_take(x->links[0], BR_MESSAGE_EAGER);
    assert_non_null(frame);
    assert_int_equal(frame->frame.length, 100);
    assert_int_equal(frame->message.bytes, 100);
    assert_int_equal(frame->message.tag, 7);
    assert_int_equal(frame->payload[99], 5);
    /* the send has ended: its memory is the caller's again */
    assert_true(frame->frame.payload != memory);
}

static void eager__small_ones_ride_in_the_header(void **state)
{
    struct br_transfer t = send_of(7, BR_EAGER_INLINE);
    struct wire_frame *frame;
    struct wired *x = *state;

    memset(memory, 6, BR_EAGER_INLINE);
    assert_int_equal(br_transfer_send(x->w, &t), 0);
    wired_turn(x, 0);
    frame = wire_take(x->links[0], BR_MESSAGE_EAGER);
    assert_non_null(frame);
    assert_int_equal(frame->frame.length, 0);
    assert_int_equal(frame->message.data[BR_EAGER_INLINE - 1], 6);
}

static void messages__most_urgent_first(void **state)
{
    struct br_transfer low = send_of(1, 4), high = send_of(2, 4);
    struct wired *x = *state;

    high.priority = 3;
    x->wires[0].room = 0;
    assert_int_equal(br_transfer_send(x->w, &low), 0);
    assert_int_equal(br_transfer_send(x->w, &high), 0);
    x->wires[0].room = -1;
    wired_turn(x, 0);
    assert_int_equal(wire_take(x->links[0], BR_MESSAGE_EAGER)->message.tag, 2);
    assert_int_equal(wire_take(x->links[0], BR_MESSAGE_EAGER)->message.tag, 1);
}

/* The link is full: nothing is lost, nothing leaves twice. */
static void messages__wait_for_room(void **state)
{
    struct br_transfer t[5];
    struct wired *x = *state;

    x->wires[0].room = 2;
    for (uint32_t i = 0; i < 5; i++) {
        t[i] = send_of(i, 4);
        assert_int_equal(br_transfer_send(x->w, &t[i]), 0);
    }
    wired_turn(x, 0);
    assert_int_equal(x->done, 2);
    x->wires[0].room = -1;
    wired_turn(x, 0);
    assert_int_equal(x->done, 5);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(wire_take(x->links[0], BR_MESSAGE_EAGER)->message.sequence, i);
    assert_null(wire_take(x->links[0], BR_MESSAGE_EAGER));
}

/* Takes all frames of a transfer off the links, checks that they are on the grid and cover it once,
 * in order. */
static void cover(struct wired *x, uint32_t length, uint32_t slot)
{
    uint32_t slice_bytes = br_slot_slice_bytes(length, SLICE), at = 0;
    uint32_t granule = br_slot_granule_bytes(slice_bytes);

    while (at < length) {
        struct wire_frame *frame = wire_take_placed(x->links[0]);

        if (!frame) {
            wire_sent_all(&x->wires[0]);
            wire_forget(&x->wires[0]);
            acknowledge(x, 0);
            frame = wire_take_placed(x->links[0]);
        }
        assert_non_null(frame);
        assert_int_equal(frame->frame.slot, slot);
        assert_int_equal(frame->frame.offset, at);
        assert_int_equal(at % granule, 0);
        assert_int_equal(at / slice_bytes, (at + frame->frame.length - 1) / slice_bytes);
        assert_ptr_equal(frame->frame.payload, memory + at); /* no copy */
        at += frame->frame.length;
    }
    assert_int_equal(at, length);
    assert_null(wire_take_placed(x->links[0]));
}

static void frames__cover_the_transfer_on_the_grid(void **state)
{
    static const uint32_t lengths[] = {1025,          SLICE - 1,      SLICE,   SLICE + 1,
                                       5 * SLICE + 7, 64 * SLICE + 1, 16 << 20};
    /* a granule of 16 MiB has 4096 bytes */
    static const uint32_t max_frames[] = {256 << 10, 5000, 4096};

    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int f = 0; f < 3; f++) {
            struct br_caps caps = wire_caps(false);
            struct br_transfer t = send_of(1, lengths[i]);
            struct wired x;

            caps.max_frame = max_frames[f];
            wired_create(&x, 0, 1, &caps);
            assert_int_equal(br_transfer_send(x.w, &t), 0);
            ready(&x, 0, 1, lengths[i], 0x10003);
            cover(&x, lengths[i], 0x10003);
            acknowledge(&x, 0);
            wire_sent_all(&x.wires[0]);
            wired_turn(&x, 0);
            assert_int_equal(t.state, BR_TRANSFER_ENDED);
            wired_destroy(&x);
        }
}

/* Its READY may come before the send is posted. */
static void ready__before_the_send(void **state)
{
    struct br_transfer t = send_of(1, 5000);
    struct wired *x = *state;

    ready(x, 0, 1, 5000, 0x10001);
    assert_int_equal(br_transfer_send(x->w, &t), 0);
    wired_turn(x, 0);
    assert_int_equal(x->wires[0].buffers, 0);
    assert_non_null(wire_take_placed(x->links[0]));
}

/* A program may post any number of receives before their sends: their READYs hold no buffers. */
static void ready__holds_no_buffer(void **state)
{
    const uint32_t many = 4 * BR_CREDITS;
    struct wired *x = *state;

    for (uint32_t i = 0; i < many; i++)
        ready(x, i, br_tag_p2p(0, i, 1), 2000, (i + 1) << 16 | 1);
    assert_int_equal(x->wires[0].buffers, 0);
    for (uint32_t i = 0; i < many; i++) {
        struct br_transfer t = send_of(br_tag_p2p(0, many - 1 - i, 1), 2000);
        struct wire_frame *frame;

        assert_int_equal(br_transfer_send(x->w, &t), 0);
        wired_turn(x, 0);
        frame = wire_take_placed(x->links[0]);
        assert_non_null(frame);
        assert_int_equal(frame->frame.slot, (many - i) << 16 | 1);
        wire_sent(frame);
        acknowledge(x, 0);
        assert_int_equal(t.state, BR_TRANSFER_ENDED);
    }
}

/* No peer has as many large receives: it must not fill the memory that is for all. */
static void ready__more_than_the_peer_has_slots(void **state)
{
    struct br_transfer t = send_of(br_tag_p2p(0, 0, 1), 2000);
    struct wired *x = *state;
    struct br_peer *peer = &x->w->peers[1];

    ready(x, 0, t.tag, 2000, 0x10001);
    assert_int_equal(peer->early_readys, 1);
    peer->early_readys = BR_SLOTS_MAX;
    assert_int_equal(br_transfer_send(x->w, &t), 0); /* has one of them */
    ready(x, 1, br_tag_p2p(0, 1, 1), 2000, 0x10002);
    assert_int_equal(peer->early_readys, BR_SLOTS_MAX);
    assert_false(x->links[0]->closed);
    ready(x, 2, br_tag_p2p(0, 2, 1), 2000, 0x10003);
    assert_true(x->links[0]->closed);
    assert_says(peer->rails[0].message, "slots");
    assert_int_equal(x->w->unexpected.n_used, 1);
}

/* Between two frames the queue is asked anew: who is more urgent goes on where the other one
 * was. */
static void frames__the_urgent_overtakes(void **state)
{
    struct br_transfer bulk = send_of(1, 8 << 20), urgent = send_of(2, SLICE);
    struct wire_frame *frame;
    struct wired *x = *state;

    urgent.priority = 1;
    assert_int_equal(br_transfer_send(x->w, &bulk), 0);
    ready(x, 0, 1, 8 << 20, 0x10001);
    assert_int_equal(br_transfer_send(x->w, &urgent), 0);
    ready(x, 1, 2, SLICE, 0x10002);
    while ((frame = wire_take_placed(x->links[0])))
        assert_int_equal(frame->frame.slot,
                         0x10001); /* the window was spent before the urgent one was there */
    acknowledge(x, 0);
    frame = wire_take_placed(x->links[0]);
    assert_int_equal(frame->frame.slot, 0x10002);
}

/* A peer whose windows are used up is not looked at again before something has come from it, or is
 * to go to it. */
static void blocked__until_something_happens(void **state)
{
    struct br_transfer bulk = send_of(1, 8 << 20), small = send_of(2, 4);
    struct wired *x = *state;
    struct br_peer *peer = &x->w->peers[1];
    uint64_t sent;

    assert_int_equal(br_transfer_send(x->w, &bulk), 0);
    ready(x, 0, 1, 8 << 20, 0x10001);
    assert_true(peer->blocked);
    assert_true(br_list_empty(&x->w->active));
    sent = peer->rails[0].tx_bytes;
    assert_true(sent > 0 && sent < bulk.length);
    assert_int_equal(br_transfer_send(x->w, &small), 0);
    assert_false(peer->blocked);
    wired_turn(x, 0);
    assert_non_null(wire_take(x->links[0], BR_MESSAGE_EAGER));
    assert_true(peer->blocked);
    assert_true(peer->rails[0].tx_bytes == sent);
    acknowledge(x, 0);
    assert_true(peer->rails[0].tx_bytes > sent);
}

/* The back end says nothing when it takes frames again: every pump tries. */
static void blocked__not_for_a_full_link(void **state)
{
    struct br_transfer bulk = send_of(1, 8 << 20);
    struct wired *x = *state;

    x->wires[0].room = 1;
    assert_int_equal(br_transfer_send(x->w, &bulk), 0);
    ready(x, 0, 1, 8 << 20, 0x10001);
    assert_false(x->w->peers[1].blocked);
    assert_false(br_list_empty(&x->w->active));
    x->wires[0].room = -1;
    (void)br_worker_pump(x->w, x->now);
    assert_true(x->w->peers[1].blocked);
}

/* Behind the window a starved transfer is the one that the next pump looks at. */
static void blocked__not_beyond_the_bound_of_starvation(void **state)
{
    struct br_transfer bulk = send_of(1, 8 << 20);
    struct wired *x = *state;

    assert_int_equal(br_transfer_send(x->w, &bulk), 0);
    ready(x, 0, 1, 8 << 20, 0x10001);
    assert_true(x->w->peers[1].blocked);
    assert_true(x->w->blocked_until == x->now + x->w->config.starvation);
}

/* Who sleeps is woken when the bound of starvation has passed, once. */
static void blocked__has_a_timer(void **state)
{
    struct br_transfer bulk = send_of(1, 8 << 20);
    struct wired *x = *state;
    uint64_t until;

    assert_int_equal(br_transfer_send(x->w, &bulk), 0);
    ready(x, 0, 1, 8 << 20, 0x10001);
    wired_turn(x, 20 * BR_MS); /* ACK of READY leaves: its timer comes first */
    until = x->w->blocked_until;
    assert_true(br_worker_next_timer(x->w) == until + 1);
    wired_turn(x, until + 1 - x->now);
    assert_true(x->w->peers[1].blocked);
    assert_true(br_worker_next_timer(x->w) > until + BR_MS);
}

/* ... or when the wire has carried what kept the rail from sending, by its rate. */
static void blocked__has_a_timer_of_the_wire(void **state)
{
    struct br_transfer bulk = send_of(1, 8 << 20);
    struct wired *x = *state;
    struct br_rail *rail = &x->w->peers[1].rails[0];
    uint64_t sent, next;

    assert_int_equal(br_transfer_send(x->w, &bulk), 0);
    ready(x, 0, 1, 8 << 20, 0x10001);
    sent = rail->tx_bytes;
    /* The peer's ACK will come behind as much of its own data, and all is in front of the wire. */
    rail->rate = 1000 * rail->window; /* a window takes 1 ms, or somewhat less (DRAIN) */
    rail->peer_ack_backlog = rail->window;
    rail->queued_bytes = rail->window;
    rail->queued_at = x->now;
    br_peer_activate(x->w, rail->peer);
    wired_turn(x, 0);
    assert_true(rail->peer->blocked);
    next = br_worker_next_timer(x->w);
    assert_in_range(next, x->now + 1, x->now + BR_MS);
    assert_true(br_worker_no_timer_before(x->w) <= next);
    assert_true(rail->tx_bytes == sent);
    wired_turn(x, next - x->now);
    assert_true(rail->tx_bytes > sent);
}

/* 10 to 1: what is left of the first transfer is not for the slow rail, but frames of the second
 * one are. */
static void frames__a_slow_rail_takes_a_later_one(void **state)
{
    struct br_transfer first = send_of(1, 6 * SLICE), second = send_of(2, 16 * SLICE);
    struct wire_frame *frame;
    struct wired *x = *state;
    int taken = 0;

    x->w->peers[1].rails[0].rate = 100000000;
    x->w->peers[1].rails[1].rate = 10000000;
    assert_int_equal(br_transfer_send(x->w, &first), 0);
    ready(x, 0, 1, 6 * SLICE, 0x10001);
    assert_null(wire_take_placed(x->links[1]));
    assert_int_equal(br_transfer_send(x->w, &second), 0);
    ready(x, 1, 2, 16 * SLICE, 0x10002);
    while ((frame = wire_take_placed(x->links[1]))) {
        assert_int_equal(frame->frame.slot, 0x10002);
        taken++;
    }
    assert_true(taken > 0);
    while ((frame = wire_take_placed(x->links[0])))
        assert_int_equal(frame->frame.slot, 0x10001);
}

/* A message that has waited for longer than the bound goes before data that are more urgent, and
 * hides no urgent message behind it. */
static void starved__goes_first_and_hides_nobody(void **state)
{
    struct br_transfer bulk = send_of(1, 8 << 20), low = send_of(2, 4), urgent = send_of(3, 4);
    struct wired *x = *state;
    struct wire_frame *first, *second;

    bulk.priority = 1;
    urgent.priority = 2;
    x->wires[0].room = 0;
    assert_int_equal(br_transfer_send(x->w, &bulk), 0);
    ready(x, 0, 1, 8 << 20, 0x10001);
    assert_int_equal(br_transfer_send(x->w, &low), 0);
    wired_turn(x, 150 * BR_MS);
    assert_int_equal(br_transfer_send(x->w, &urgent), 0);
    x->wires[0].room = -1;
    wired_turn(x, 0);
    first = wire_take(x->links[0], BR_MESSAGE_EAGER);
    assert_int_equal(first->message.tag, 2);
    second = wire_take(x->links[0], BR_MESSAGE_EAGER);
    assert_int_equal(second->message.tag, 3);
    /* one frame of the data, which had waited as long */
    assert_true(wire_take_placed(x->links[0]) > first);
    assert_true(wire_take_placed(x->links[0]) > second); /* the others behind all messages */
}

/* Else the peer's data waits for ours, and both take turns. But what is more urgent goes before
 * both. */
static void ready__leaves_before_data(void **state)
{
    struct br_transfer data = send_of(1, SLICE), urgent = send_of(2, SLICE),
                       receive = send_of(3, 1 << 20);
    struct wired *x = *state;
    struct wire_frame *frame, *message;

    ready(x, 0, 1, SLICE, 0x10001);
    ready(x, 1, 2, SLICE, 0x10002);
    urgent.priority = 1;
    receive.within = 1;
    assert_int_equal(br_transfer_send(x->w, &data), 0);
    assert_int_equal(br_transfer_receive(x->w, &receive), 0);
    assert_int_equal(br_transfer_send(x->w, &urgent), 0);
    wired_turn(x, 0);
    message = wire_take(x->links[0], BR_MESSAGE_READY);
    assert_non_null(message);
    frame = wire_take_placed(x->links[0]);
    assert_int_equal(frame->frame.slot, 0x10002);
    assert_true(frame < message);
    for (; frame && frame->frame.slot != 0x10001; frame = wire_take_placed(x->links[0]))
        acknowledge(x, 0);
    assert_non_null(frame);
    assert_true(message < frame);
}

/* With one rail nobody can take over: SENT is all there is to wait for. */
static void end__one_rail_needs_only_sent(void **state)
{
    struct br_transfer t = send_of(1, 3000);
    struct wire_frame *frame;
    struct wired *x = *state;

    assert_int_equal(br_transfer_send(x->w, &t), 0);
    ready(x, 0, 1, 3000, 0x10001);
    frame = wire_take_placed(x->links[0]);
    assert_int_equal(((struct br_data_header *)&frame->message)->flags & BR_DATA_DONE, 0);
    assert_int_equal(t.state, BR_TRANSFER_CONFIRMING);
    wire_sent(frame);
    wired_turn(x, 0);
    assert_int_equal(t.state, BR_TRANSFER_ENDED);
}

/* The flags of a DATA frame. */
static unsigned flags_of(const struct wire_frame *frame)
{
    return ((const struct br_data_header *)&frame->message)->flags;
}

/* The end of all that there is to send asks for no ACK while half of the window is free: the next
 * frame that asks acknowledges it, too. */
static void ack__not_for_the_last_frame_while_there_is_window(void **state)
{
    struct wired *x = *state;
    struct br_rail *rail = &x->w->peers[1].rails[0];

    rail->window = 8 * BR_LASTING_BYTES;
    rail->frame_bytes = BR_LASTING_BYTES;
    for (uint32_t i = 0; i < 5; i++) {
        struct br_transfer t = send_of(i, BR_LASTING_BYTES);
        struct wire_frame *frame;

        assert_int_equal(br_transfer_send(x->w, &t), 0);
        ready(x, i, t.tag, t.length, 0x10001);
        frame = wire_take_placed(x->links[0]);
        assert_int_equal(frame->frame.length, t.length);
        assert_int_equal(flags_of(frame) & BR_DATA_ACK, i < 4 ? 0 : BR_DATA_ACK);
        wire_sent(frame);
        wired_turn(x, 0);
        assert_int_equal(t.state, BR_TRANSFER_ENDED);
    }
    acknowledge(x, 0);
    assert_int_equal(br_rail_in_flight(rail), 0);
}

/* What stands in front of others in the queue asks. */
static void ack__for_a_frame_that_others_follow(void **state)
{
    struct wired *x = *state;
    struct br_rail *rail = &x->w->peers[1].rails[0];
    struct br_transfer t = send_of(1, 2 * BR_LASTING_BYTES);
    struct wire_frame *first, *second;

    rail->window = 8 * BR_LASTING_BYTES;
    rail->frame_bytes = BR_LASTING_BYTES;
    assert_int_equal(br_transfer_send(x->w, &t), 0);
    ready(x, 0, t.tag, t.length, 0x10001);
    first = wire_take_placed(x->links[0]);
    second = wire_take_placed(x->links[0]);
    assert_true(flags_of(first) & BR_DATA_ACK);
    assert_false(flags_of(second) & BR_DATA_ACK);
    wire_sent_all(&x->wires[0]);
    wired_turn(x, 0);
    assert_int_equal(t.state, BR_TRANSFER_ENDED);
}

/* Frames whose payload the back end may lend to the kernel end with an ACK of all their bytes, for
 * which the last one asks, and with SENT, in any order. */
static void end__frames_that_last_wait_for_their_ack(void **state)
{
    for (int ack_first = 0; ack_first < 2; ack_first++) {
        struct br_transfer t = send_of((uint64_t)ack_first, BR_LASTING_BYTES);
        struct wire_frame *frame, *last = NULL;
        struct wired *x = *state;
        struct br_rail *rail = &x->w->peers[1].rails[0];
        struct br_message early = {.type = BR_MESSAGE_ACK};

        x->links[0]->link.lends = true;
        assert_int_equal(br_transfer_send(x->w, &t), 0);
        ready(x, (uint32_t)ack_first, t.tag, t.length, 0x10001);
        while ((frame = wire_take_placed(x->links[0]))) {
            assert_true(frame->frame.lasts);
            last = frame;
        }
        assert_int_equal(last->frame.offset + last->frame.length, t.length);
        assert_true(flags_of(last) & BR_DATA_ACK);
        if (ack_first)
            acknowledge(x, 0);
        wire_sent_all(&x->wires[0]);
        wired_turn(x, 0);
        assert_int_equal(t.state, ack_first ? BR_TRANSFER_ENDED : BR_TRANSFER_CONFIRMING);
        if (!ack_first) {
            early.ack.bytes = rail->tx_bytes - 1;
            wired_say(x, 0, &early);
            assert_int_equal(t.state, BR_TRANSFER_CONFIRMING);
            acknowledge(x, 0);
        }
        assert_int_equal(t.state, BR_TRANSFER_ENDED);
        assert_true(br_list_empty(&rail->flights));
    }
}

/* What is short, or leaves on a link that has no use for it, ends with SENT. */
static void end__other_frames_do_not_last(void **state)
{
    struct wired *x = *state;

    for (int lends = 0; lends < 2; lends++) {
        struct br_transfer t = send_of((uint64_t)lends, BR_LASTING_BYTES - (uint32_t)lends);
        struct wire_frame *frame;

        x->links[0]->link.lends = lends;
        assert_int_equal(br_transfer_send(x->w, &t), 0);
        ready(x, (uint32_t)lends, t.tag, t.length, 0x10001);
        while ((frame = wire_take_placed(x->links[0])))
            assert_false(frame->frame.lasts);
        wire_sent_all(&x->wires[0]);
        wired_turn(x, 0);
        assert_int_equal(t.state, BR_TRANSFER_ENDED);
        acknowledge(x, 0);
    }
}

/* With several rails each frame that lasts asks, as no other may follow on its rail. The loss of a
 * rail ends the wait for its ACK, and what it carried leaves again. */
static void end__frames_that_last_on_a_lost_rail(void **state)
{
    struct br_message done = {.type = BR_MESSAGE_DONE, .done.slots = {0x10001}};
    struct br_transfer t = send_of(1, BR_LASTING_BYTES);
    struct wire_frame *frame;
    struct wired x;
    uint32_t again = 0;

    (void)state;
    wired_create(&x, 0, 2, NULL);
    x.links[0]->link.lends = x.links[1]->link.lends = true;
    assert_int_equal(br_transfer_send(x.w, &t), 0);
    ready(&x, 0, 1, t.length, 0x10001);
    for (int r = 0; r < 2; r++)
        while ((frame = wire_take_placed(x.links[r])))
            assert_true(frame->frame.lasts && flags_of(frame) & BR_DATA_ACK);
    wire_sent_all(&x.wires[0]);
    wire_sent_all(&x.wires[1]);
    wired_turn(&x, 0);
    assert_int_equal(t.state, BR_TRANSFER_CONFIRMING);
    wired_cut(&x, 0);
    wired_fenced(&x, 0, 1);
    while ((frame = wire_take_placed(x.links[1])))
        again += frame->frame.length;
    assert_in_range(again, 1, t.length);
    wire_sent_all(&x.wires[1]);
    wired_turn(&x, 0);
    wired_say(&x, 1, &done);
    assert_int_equal(t.state, BR_TRANSFER_CONFIRMING);
    acknowledge(&x, 1);
    assert_int_equal(t.state, BR_TRANSFER_ENDED);
    wired_destroy(&x);
}

/* On a byte stream with two rails SENT is not enough: the receiver must have it all. Nor is DONE
 * without SENT. */
static void end__two_rails_wait_for_done(void **state)
{
    struct br_message done = {.type = BR_MESSAGE_DONE, .done.slots = {0, 0x10001}};
    struct br_transfer t = send_of(1, 3000);
    struct wire_frame *frame;
    struct wired x;
    int on;

    (void)state;
    for (int done_first = 0; done_first < 2; done_first++) {
        wired_create(&x, 0, 2, NULL);
        assert_int_equal(br_transfer_send(x.w, &t), 0);
        ready(&x, 0, 1, 3000, 0x10001);
        on = (frame = wire_take_placed(x.links[0])) ? 0 : 1;
        if (on)
            frame = wire_take_placed(x.links[1]);
        assert_true(((struct br_data_header *)&frame->message)->flags & BR_DATA_DONE);
        if (done_first)
            wire_message(x.links[on], &done, NULL, 0);
        else
            wire_sent(frame);
        wired_turn(&x, 0);
        assert_int_equal(t.state, BR_TRANSFER_CONFIRMING);
        if (done_first)
            wire_sent(frame);
        else
            wire_message(x.links[on], &done, NULL, 0);
        wired_turn(&x, 0);
        assert_int_equal(t.state, BR_TRANSFER_ENDED);
        assert_int_equal(x.w->confirms.count, 0);
        wired_destroy(&x);
    }
}

/* All SENT is not enough: the receiver may lose the link before it has looked at what arrived. */
static void end__where_sent_means_arrived_too(void **state)
{
    struct br_caps caps = wire_caps(true);
    struct br_message done = {.type = BR_MESSAGE_DONE, .done.slots = {0x10001}};
    struct br_transfer t = send_of(1, 1 << 20);
    struct wired x;

    (void)state;
    wired_create(&x, 0, 2, &caps);
    assert_int_equal(br_transfer_send(x.w, &t), 0);
    ready(&x, 0, 1, 1 << 20, 0x10001);
    for (int turn = 0; turn < 100; turn++) {
        wire_sent_all(&x.wires[0]);
        wire_sent_all(&x.wires[1]);
        wired_turn(&x, 10 * BR_US);
    }
    assert_int_equal(t.state, BR_TRANSFER_CONFIRMING);
    wire_message(x.links[0], &done, NULL, 0);
    wired_turn(&x, 10 * BR_US);
    assert_int_equal(t.state, BR_TRANSFER_ENDED);
    assert_int_equal(x.w->peers[1].rails[0].tx_bytes + x.w->peers[1].rails[1].tx_bytes, 1 << 20);
    /* both carry */
    assert_true(x.w->peers[1].rails[0].tx_bytes && x.w->peers[1].rails[1].tx_bytes);
    wired_destroy(&x);
}

/* DONE of slots that nobody waits for: said twice, never sent, zero. */
static void done__of_nobody(void **state)
{
    struct br_message done = {.type = BR_MESSAGE_DONE,
                              .done.slots = {0, 1, 0x10001, UINT32_MAX, 0x10001, 7}};
    struct wired *x = *state;

    wire_message(x->links[0], &done, NULL, 0);
    wired_turn(x, 0);
    assert_int_equal(x->w->failed, 0);
    assert_int_equal(x->wires[0].buffers, 0);
}

/* A slot number that the peer gives twice: the second send waits, the first one is not
 * disturbed. */
static void ready__one_slot_for_two_sends(void **state)
{
    struct br_message done = {.type = BR_MESSAGE_DONE, .done.slots = {0x10001}};
    struct br_transfer a = send_of(1, 3000), b = send_of(2, 3000);
    struct wired *x = *state;

    assert_int_equal(br_transfer_send(x->w, &a), 0);
    assert_int_equal(br_transfer_send(x->w, &b), 0);
    ready(x, 0, 1, 3000, 0x10001);
    ready(x, 1, 2, 3000, 0x10001);
    assert_int_equal(a.state, BR_TRANSFER_CONFIRMING);
    assert_int_equal(b.state, BR_TRANSFER_MOVING);
    wire_sent_all(&x->wires[0]);
    wire_sent_all(&x->wires[1]);
    wire_message(x->links[0], &done, NULL, 0);
    wired_turn(x, 0);
    assert_int_equal(a.state, BR_TRANSFER_ENDED);
    assert_int_equal(b.state, BR_TRANSFER_CONFIRMING); /* now it could leave */
}

/* A frame that has come back before that is not what counts for the next 10 s. */
static void rail__asks_the_back_end_for_the_round_trip(void **state)
{
    struct wired *x = *state;
    struct br_rail *rail = &x->w->peers[1].rails[0];

    br_rail_posted(rail, 1000, true, x->w->now);
    br_rail_acknowledged(rail, 1000, x->w->now + 5 * BR_MS);
    assert_int_equal(rail->min_rtt, 5 * BR_MS);
    for (uint64_t rtt = 3 * BR_MS; rtt < 6 * BR_MS; rtt += BR_MS) { /* other routes */
        x->wires[0].min_rtt = rtt;
        wired_turn(x, 2 * BR_MS);
        assert_int_equal(rail->min_rtt, rtt);
    }
}

/* Neither a send nor a receive to somebody who has left; the message says who. */
static void send__to_a_rank_that_has_left(void **state)
{
    struct br_message bye = {.type = BR_MESSAGE_BYE};
    struct br_transfer t = send_of(1, 4);
    struct wired *x = *state;

    wire_message(x->links[0], &bye, NULL, 0);
    wired_turn(x, 0);
    assert_int_equal(br_transfer_send(x->w, &t), -ECONNRESET);
    assert_says(br_error_message(), "rank 1|left");
    assert_int_equal(br_transfer_receive(x->w, &t), -ECONNRESET);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WIRED_TEST(eager__one_message_and_a_copy, .rails = 1, .up = true),
        WIRED_TEST(eager__small_ones_ride_in_the_header, .rails = 1, .up = true),
        WIRED_TEST(messages__most_urgent_first, .rails = 1, .up = true),
        WIRED_TEST(messages__wait_for_room, .rails = 1, .up = true),
        cmocka_unit_test(frames__cover_the_transfer_on_the_grid),
        WIRED_TEST(ready__before_the_send, .rails = 1, .up = true),
        WIRED_TEST(ready__more_than_the_peer_has_slots, .rails = 2, .up = true),
        WIRED_TEST(ready__holds_no_buffer, .rails = 1, .up = true),
        WIRED_TEST(frames__the_urgent_overtakes, .rails = 1, .up = true),
        WIRED_TEST(frames__a_slow_rail_takes_a_later_one, .rails = 2, .up = true),
        WIRED_TEST(blocked__until_something_happens, .rails = 1, .up = true),
        WIRED_TEST(blocked__not_for_a_full_link, .rails = 1, .up = true),
        WIRED_TEST(blocked__has_a_timer, .rails = 1, .up = true),
        WIRED_TEST(blocked__has_a_timer_of_the_wire, .rails = 1, .up = true),
        WIRED_TEST(blocked__not_beyond_the_bound_of_starvation, .rails = 1, .up = true),
        WIRED_TEST(starved__goes_first_and_hides_nobody, .rails = 1, .up = true),
        WIRED_TEST(ready__leaves_before_data, .rails = 1, .up = true),
        WIRED_TEST(end__one_rail_needs_only_sent, .rails = 1, .up = true),
        WIRED_TEST(ack__not_for_the_last_frame_while_there_is_window, .rails = 1, .up = true),
        WIRED_TEST(ack__for_a_frame_that_others_follow, .rails = 1, .up = true),
        WIRED_TEST(end__frames_that_last_wait_for_their_ack, .rails = 1, .up = true),
        WIRED_TEST(end__other_frames_do_not_last, .rails = 1, .up = true),
        cmocka_unit_test(end__frames_that_last_on_a_lost_rail),
        cmocka_unit_test(end__two_rails_wait_for_done),
        cmocka_unit_test(end__where_sent_means_arrived_too),
        WIRED_TEST(done__of_nobody, .rails = 2, .up = true),
        WIRED_TEST(ready__one_slot_for_two_sends, .rails = 2, .up = true),
        WIRED_TEST(rail__asks_the_back_end_for_the_round_trip, .rails = 1, .up = true),
        WIRED_TEST(send__to_a_rank_that_has_left, .rails = 1, .up = true),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
