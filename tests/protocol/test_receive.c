/* SPDX-License-Identifier: BSD-3-Clause */
/* The receiver's side: slots and READYs, frames in any order, mappings, DONE, ABORT. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/random.h"
#include "tests/says.h"
#include "wired.h"

#define SLICE  (64u << 10)
#define LENGTH (5 * SLICE + 100)

static uint8_t from[LENGTH], to[LENGTH + 1];

static struct br_transfer receive_of(uint64_t tag, uint32_t length)
{
    return (struct br_transfer){.tag = tag, .peer = 1, .memory = to, .length = length};
}

/* Posts a receive; returns its slot number, from the READY. */
static uint32_t posted(struct wired *x, struct br_transfer *t)
{
    struct wire_frame *frame;

    for (uint32_t i = 0; i < LENGTH; i++)
        from[i] = (uint8_t)(i * 7 + i / 251);
    memset(to, 0xa5, sizeof to);
    assert_int_equal(br_transfer_receive(x->w, t), 0);
    wired_turn(x, 0);
    for (int r = 0; r < x->rails; r++)
        if ((frame = wire_take(x->links[r], BR_MESSAGE_READY)))
            break;
    assert_non_null(frame);
    assert_int_equal(frame->message.tag, t->tag);
    assert_int_equal(frame->message.bytes, t->length);
    return frame->message.ready.slot;
}

static void place(struct wired *x, int rail, uint32_t slot, uint32_t offset, uint32_t length,
                  uint8_t flags)
{
    wire_placed(x->links[rail], slot, offset, from + offset, length, flags);
}

static void data__slices_in_any_order(void **state)
{
    struct br_transfer t = receive_of(1, LENGTH);
    uint32_t slot, order[6] = {5, 0, 3, 1, 4, 2};
    struct wired *x = *state;

    slot = posted(x, &t);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(t.state, BR_TRANSFER_MATCHING);
        place(x, i % 2, slot, order[i] * SLICE, order[i] == 5 ? 100 : SLICE, 0);
        wired_turn(x, 0);
    }
    assert_int_equal(t.state, BR_TRANSFER_ENDED);
    assert_memory_equal(to, from, LENGTH);
    assert_int_equal(to[LENGTH], 0xa5);
    assert_int_equal(x->w->slots.n_free, x->w->slots.count);
}

/* What comes twice is counted once: the transfer must not end before all of it is there. */
static void data__twice_is_once(void **state)
{
    struct br_transfer t = receive_of(1, 2 * SLICE);
    struct wired *x = *state;
    uint32_t slot;

    slot = posted(x, &t);
    for (int i = 0; i < 4; i++)
        place(x, i % 2, slot, 0, SLICE / 2, 0);
    wired_turn(x, 0);
    assert_int_equal(t.state, BR_TRANSFER_MATCHING);
    place(x, 0, slot, SLICE / 2, SLICE / 2, 0);
    place(x, 0, slot, SLICE, SLICE, 0);
    wired_turn(x, 0);
    assert_int_equal(t.state, BR_TRANSFER_ENDED);
    assert_memory_equal(to, from, 2 * SLICE);
}

/* A frame for a transfer that has ended changes nothing in memory, and counts as arrived for the
 * sender's window. */
static void data__after_the_end(void **state)
{
    struct br_transfer t = receive_of(1, SLICE);
    struct wire_frame *ack;
    struct wired *x = *state;
    uint32_t slot;

    slot = posted(x, &t);
    place(x, 0, slot, 0, SLICE, 0);
    wired_turn(x, 0);
    memset(to, 1, SLICE);
    place(x, 0, slot, 0, SLICE, BR_DATA_ACK | BR_DATA_DONE);
    wired_turn(x, 0);
    assert_int_equal(to[0] + to[SLICE - 1], 2);
    ack = wire_take(x->links[0], BR_MESSAGE_ACK);
    assert_non_null(ack);
    assert_int_equal(ack->message.ack.bytes, 2 * SLICE);
    /* the sender sent it again because it has not heard: it hears now */
    assert_int_equal(wire_take(x->links[0], BR_MESSAGE_DONE)->message.done.slots[0], slot);
}

/* A rank that guesses the slot of what another one is to send: its link ends, and nothing of it
 * counts. */
static void data__into_a_transfer_of_another_rank(void **state)
{
    struct br_transfer t = receive_of(1, 2 * SLICE);
    struct wired *x = *state;
    uint32_t slot;

    slot = posted(x, &t);
    t.peer = 0; /* as if posted for another rank than that of the links */
    place(x, 0, slot, 0, SLICE, BR_DATA_DONE);
    wired_turn(x, 0);
    assert_true(x->w->peers[1].rails[0].state != BR_RAIL_UP);
    assert_non_null(strstr(x->w->peers[1].rails[0].message, "transfer of another rank"));
    assert_int_equal(x->w->peers[1].rails[1].state, BR_RAIL_UP);
    assert_int_equal(t.state, BR_TRANSFER_MATCHING);
    t.peer = 1;
    place(x, 1, slot, SLICE, SLICE, 0);
    wired_turn(x, 0);
    assert_int_equal(t.state, BR_TRANSFER_MATCHING); /* the first slice is still missing */
    place(x, 1, slot, 0, SLICE, 0);
    wired_turn(x, 0);
    assert_int_equal(t.state, BR_TRANSFER_ENDED);
    assert_memory_equal(to, from, 2 * SLICE);
}

/* While the links are full. A sender whose DONE is lost would wait for ever. */
static void data__any_number_of_dones(void **state)
{
    const uint32_t many = 300;
    struct wire_frame *frame;
    struct wired *x = *state;
    uint32_t slots[300], n = 0;

    x->wires[0].room = x->wires[1].room = 0;
    for (uint32_t i = 0; i < many; i++) {
        struct br_transfer t = receive_of(i, 2000);

        assert_int_equal(br_transfer_receive(x->w, &t), 0);
        slots[i] = br_slot_number(&x->w->slots, t.slot);
        wire_placed(x->links[0], slots[i], 0, from, 2000, BR_DATA_DONE);
        wired_turn(x, 0);
        assert_int_equal(t.state, BR_TRANSFER_ENDED);
    }
    x->wires[0].room = x->wires[1].room = -1;
    wired_turn(x, 0);
    for (int r = 0; r < 2; r++)
        while ((frame = wire_take(x->links[r], BR_MESSAGE_DONE)))
            for (int k = 0; k < 6 && frame->message.done.slots[k]; k++) {
                assert_true(n < many);
                assert_int_equal(frame->message.done.slots[k], slots[n++]);
            }
    assert_int_equal(n, many);
}

static void data__asks_for_done_and_ack(void **state)
{
    struct br_transfer t = receive_of(1, SLICE);
    struct wired *x = *state;
    uint32_t slot;

    slot = posted(x, &t);
    place(x, 0, slot, 0, SLICE / 2, BR_DATA_DONE);
    wired_turn(x, 0);
    assert_null(wire_take(x->links[0], BR_MESSAGE_DONE)); /* half of it is nothing to confirm */
    assert_null(wire_take(x->links[0], BR_MESSAGE_ACK));
    place(x, 0, slot, SLICE / 2, SLICE / 2, BR_DATA_DONE | BR_DATA_ACK);
    wired_turn(x, 0);
    assert_int_equal(wire_take(x->links[0], BR_MESSAGE_DONE)->message.done.slots[0], slot);
    assert_int_equal(wire_take(x->links[0], BR_MESSAGE_ACK)->message.ack.bytes, SLICE);
}

/* A slot can be guessed before its READY has left. The transfer ends, and is nowhere in the worker
 * any more. */
static void data__before_its_ready(void **state)
{
    struct br_transfer t = receive_of(1, 2000);
    struct wired *x = *state;

    x->wires[0].room = 0;
    assert_int_equal(br_transfer_receive(x->w, &t), 0);
    wired_turn(x, 0);
    wire_placed(x->links[0], br_slot_number(&x->w->slots, t.slot), 0, from, 2000, 0);
    wired_turn(x, 0);
    assert_int_equal(t.state, BR_TRANSFER_ENDED);
    memset(&t, 0xff, sizeof t); /* the caller's again */
    x->wires[0].room = -1;
    wired_turn(x, 0);
    assert_null(wire_take(x->links[0], BR_MESSAGE_READY));
}

/* Frames for the slot's next use, sent before it: it begins in the same batch of events. What was
 * dropped is not there, and its numbers were never checked. */
static void data__for_a_slot_to_come(void **state)
{
    struct br_transfer first[15], waits = receive_of(99, 2000);
    struct wired *x = *state;
    uint32_t slot;

    for (uint32_t i = 0; i < 15; i++) { /* one of 16 slots is kept */
        first[i] = receive_of(i, 2000);
        assert_int_equal(br_transfer_receive(x->w, &first[i]), 0);
    }
    assert_int_equal(br_transfer_receive(x->w, &waits), 0);
    wired_turn(x, 0);
    slot = br_slot_number(&x->w->slots, first[3].slot);
    wire_placed(x->links[0], slot, 0, from, 2000, 0);
    wire_placed(x->links[0], slot + 0x10000, 0, from, 2000, BR_DATA_DONE);
    wire_placed(x->links[0], slot + 0x10000, 0x7fffffc0, from, 2000, 0);
    wired_turn(x, 0);
    assert_int_equal(first[3].state, BR_TRANSFER_ENDED);
    assert_int_equal(br_slot_number(&x->w->slots, waits.slot), slot + 0x10000);
    assert_int_equal(waits.state, BR_TRANSFER_MATCHING);
    assert_null(wire_take(x->links[0], BR_MESSAGE_DONE));
}

/* Off the grid or beyond the end: the back end fails the link, nothing is written. */
static void data__beyond_the_end(void **state)
{
    struct br_transfer t = receive_of(1, SLICE);
    struct wired *x = *state;
    uint32_t slot;

    slot = posted(x, &t);
    wire_placed(x->links[0], slot, SLICE / 2, from, SLICE, 0);
    wired_turn(x, 0);
    assert_int_equal(x->w->failed, -EPROTO);
    assert_int_equal(to[SLICE / 2], 0xa5);
}

/* More receives than slots: they get theirs in turn, as others end. */
static void slotless__served_in_order(void **state)
{
    struct br_transfer t[20];
    struct wired *x = *state;

    for (uint32_t i = 0; i < 20; i++) {
        t[i] = receive_of(i, 2000);
        assert_int_equal(br_transfer_receive(x->w, &t[i]), 0);
    }
    wired_turn(x, 0);
    for (uint32_t i = 0; i < 20; i++) {
        struct wire_frame *frame = wire_take(x->links[0], BR_MESSAGE_READY);

        assert_non_null(frame);
        assert_int_equal(frame->message.tag, i);
        wire_placed(x->links[0], frame->message.ready.slot, 0, from, 2000, 0);
        wired_turn(x, 0);
        assert_int_equal(t[i].state, BR_TRANSFER_ENDED);
    }
    assert_int_equal(x->w->slots.n_free, x->w->slots.count);
}

/* The last slot goes to a receive whose sender waits, point to point or of a collective. */
static void slotless__one_slot_is_kept(void **state)
{
    for (int of = 0; of < 2; of++) {
        struct br_message waiting = {
            .type = BR_MESSAGE_WAITING, .bytes = 2000, .tag = of ? 16 : br_tag_p2p(0, 16, 1)};
        struct wired *x = *state;
        struct br_transfer t[17];

        for (uint32_t i = 0; i < 17; i++) {
            t[i] = receive_of(of ? i : br_tag_p2p(0, i, 1), 2000);
            t[i].order = 5;
            t[i].within = i;
            assert_int_equal(br_transfer_receive(x->w, &t[i]), 0);
        }
        assert_int_equal(x->w->slots.n_free, 1);
        wired_say(x, 0, &waiting);
        assert_int_equal(x->w->slots.n_free, 0);
        assert_non_null(t[16].slot);
        assert_null(t[15].slot);
        for (uint32_t i = 0; i < 17; i++)
            br_transfer_withdraw(x->w, &t[i]);
    }
}

/* Large point-to-point receives with the tags from 0 on. */
static void post_p2p(struct wired *x, struct br_transfer *t, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        t[i] = receive_of(br_tag_p2p(0, i, 1), 2000);
        assert_int_equal(br_transfer_receive(x->w, &t[i]), 0);
    }
    wired_turn(x, 0);
}

/* The sender of number i waits for it. */
static void say_waiting(struct wired *x, uint32_t i)
{
    struct br_message waiting = {
        .type = BR_MESSAGE_WAITING, .tag = br_tag_p2p(0, i, 1), .bytes = 2000};

    wired_say(x, 0, &waiting);
}

/* All bytes of a receive come. */
static void place_all(struct wired *x, const struct br_transfer *t)
{
    wire_placed(x->links[0], br_slot_number(&x->w->slots, t->slot), 0, from, 2000, 0);
    wired_turn(x, 0);
}

/* Those whose senders wait come first, and no search goes through all that wait. */
static void slotless__expected_ones_first(void **state)
{
    struct br_transfer t[20];
    struct wired *x = *state;

    post_p2p(x, t, 20);                /* 15 get a slot */
    for (uint32_t i = 18; i < 20; i++) /* the kept slot, then none */
        say_waiting(x, i);
    assert_non_null(t[18].slot);
    assert_null(t[19].slot);
    for (uint32_t i = 0; i < 2; i++)
        place_all(x, &t[i]);
    assert_non_null(t[19].slot);
    assert_null(t[15].slot);
    for (uint32_t i = 2; i < 4; i++)
        place_all(x, &t[i]);
    assert_non_null(t[15].slot);
    assert_null(t[17].slot);
}

/* Those whose senders wait are served in the order in which that was heard, or one could wait as
 * long as others come. */
static void slotless__expected_ones_in_turn(void **state)
{
    struct br_transfer t[20];
    struct wired *x = *state;

    post_p2p(x, t, 20);                /* 15 get a slot */
    for (uint32_t i = 16; i < 20; i++) /* the first gets the kept slot */
        say_waiting(x, i);
    for (uint32_t i = 0; i < 3; i++) {
        assert_non_null(t[16 + i].slot);
        assert_null(t[17 + i].slot);
        place_all(x, &t[i]);
    }
    assert_non_null(t[19].slot);
    assert_null(t[15].slot);
}

static void withdraw__in_every_state(void **state)
{
    struct br_transfer t[18], last = receive_of(18, 2000), eager = receive_of(19, 8);
    struct wired *x = *state;
    uint32_t slot;

    x->wires[0].room = 0;               /* READYs stay queued */
    for (uint32_t i = 0; i < 18; i++) { /* the last three find no slot */
        t[i] = receive_of(i, 2000);
        assert_int_equal(br_transfer_receive(x->w, &t[i]), 0);
    }
    assert_int_equal(br_transfer_receive(x->w, &eager), 0);
    for (int i = 17; i >= 0; i--)
        br_transfer_withdraw(x->w, &t[i]);
    br_transfer_withdraw(x->w, &eager);
    assert_int_equal(x->w->slots.n_free, x->w->slots.count);
    assert_int_equal(x->w->receives.count, 0);
    x->wires[0].room = -1;
    wired_turn(x, 0);
    assert_null(wire_take(x->links[0], BR_MESSAGE_READY));
    slot = posted(x, &last);
    br_transfer_withdraw(x->w, &last);
    wire_placed(x->links[0], slot, 0, from, 2000, 0); /* too late: dropped */
    wired_turn(x, 0);
    assert_int_equal(to[0], 0xa5);
    assert_int_equal(x->w->failed, 0);
}

/* ---- combining ------------------------------------------------------------------------------- */

static uint8_t sum[LENGTH];

static void add_up(void *context, uint32_t offset, const uint8_t *bytes, uint32_t length)
{
    (void)context;
    for (uint32_t i = 0; i < length; i++)
        sum[offset + i] = (uint8_t)(sum[offset + i] + bytes[i]);
}

static const struct br_slot_reducer adding = {add_up, NULL};

/* A rail that only writes beside one that would combine: the worker combines what has come, once,
 * although some comes again. */
static void reduced__what_a_rail_has_written(void **state)
{
    struct br_transfer t = receive_of(1, LENGTH);
    struct wired *x = *state;
    uint32_t slot;

    memset(sum, 0, sizeof sum);
    x->w->peers[1].reduces = true;
    slot = posted(x, &t);
    assert_true(br_transfer_reduce(x->w, &t, &adding));
    place(x, 0, slot, 0, SLICE / 2, 0);
    wired_turn(x, 0);
    assert_memory_equal(sum, from, SLICE / 2);
    for (uint32_t at = 0; at < LENGTH; at += SLICE)
        place(x, 1, slot, at, LENGTH - at < SLICE ? LENGTH - at : SLICE, 0);
    wired_turn(x, 0);
    assert_int_equal(t.state, BR_TRANSFER_ENDED);
    assert_true(t.reduced);
    assert_memory_equal(sum, from, LENGTH);
}

static void reduced__not_once_bytes_have_come(void **state)
{
    struct br_transfer t = receive_of(1, LENGTH), other = receive_of(2, LENGTH);
    struct wired *x = *state;
    uint32_t slot = posted(x, &t);

    memset(sum, 0, sizeof sum);
    assert_false(br_transfer_reduce(x->w, &t, &adding)); /* no rail does */
    x->w->peers[1].reduces = true;
    place(x, 0, slot, 0, SLICE, 0);
    wired_turn(x, 0);
    assert_false(br_transfer_reduce(x->w, &t, &adding));
    for (uint32_t at = SLICE; at < LENGTH; at += SLICE)
        place(x, 0, slot, at, LENGTH - at < SLICE ? LENGTH - at : SLICE, 0);
    wired_turn(x, 0);
    assert_int_equal(t.state, BR_TRANSFER_ENDED);
    assert_false(t.reduced);
    assert_false(br_transfer_reduce(x->w, &t, &adding));
    assert_memory_equal(to, from, LENGTH);
    assert_int_equal(sum[0], 0);
    (void)posted(x, &other);
    x->w->peers[1].rkey_rails = 1; /* a NIC that writes by itself may write late */
    assert_false(br_transfer_reduce(x->w, &other, &adding));
    x->w->peers[1].rkey_rails = 0;
}

/* ---- mappings: wired_destroy() checks that all are given back -------------------------------- */

static void mapped__until_released(void **state)
{
    struct br_transfer t = receive_of(1, 2 * SLICE);
    struct wired *x = *state;
    uint32_t slot;

    t.may_map = true;
    slot = posted(x, &t);
    wire_mapped(x->links[0], slot, SLICE, from + SLICE, SLICE, 0);
    wire_mapped(x->links[0], slot, 0, from, SLICE, 0);
    wired_turn(x, 0);
    assert_int_equal(t.state, BR_TRANSFER_ENDED);
    assert_ptr_equal(t.mapped, from);
    assert_int_equal(to[0], 0xa5);
    assert_int_equal(x->wires[0].maps, 2);
    assert_int_equal(x->w->counters.mapped_bytes, 2 * SLICE);
    assert_true(br_transfer_release(x->w, &t));
    assert_int_equal(x->wires[0].maps, 0);
    assert_int_equal(x->w->slots.n_free, x->w->slots.count);
}

/* What was read may be wrong, so nothing may be built on it. */
static void mapped__peer_lost_while_read(void **state)
{
    struct br_transfer t = receive_of(1, SLICE);
    struct wired *x = *state;
    uint32_t slot;

    t.may_map = true;
    slot = posted(x, &t);
    wire_mapped(x->links[0], slot, 0, from, SLICE, 0);
    wired_turn(x, 0);
    x->wires[0].lost_maps = true;
    assert_false(br_transfer_release(x->w, &t));
    assert_int_equal(x->w->failed, -ECONNRESET);
    assert_says(x->w->message, "rank 1|lost");
}

/* One slice more often than a slot can remember: another batch of frames than the grid allows. */
static void mapped__too_many_pieces(void **state)
{
    struct br_transfer t = receive_of(1, 2 * SLICE);
    struct wired *x = *state;
    uint32_t slot;

    t.may_map = true;
    slot = posted(x, &t);
    for (uint32_t i = 0; i <= BR_SLOT_SLICES; i++)
        wire_mapped(x->links[0], slot, (i % 32) * 1024, from + (i % 32) * 1024, 1024, 0);
    wired_turn(x, 0);
    assert_int_equal(x->w->failed, -EPROTO);
    assert_says(x->w->message, "more|pieces");
}

/* Who reads a mapped transfer begins at the start of the mapping: a part that was copied, or mapped
 * elsewhere, or on another device, is not there. */
static void mapped__in_parts_that_do_not_fit(void **state)
{
    struct wired x;
    uint32_t slot;

    (void)state;
    for (int how = 0; how < 4; how++) {
        struct br_transfer t = receive_of(1, 2 * SLICE);

        t.may_map = true;
        wired_create(&x, 0, 2, NULL);
        slot = posted(&x, &t);
        if (how == 0)
            place(&x, 0, slot, 0, SLICE, 0);
        else
            wire_mapped(x.links[0], slot, 0, from, SLICE, 0);
        wired_turn(&x, 0);
        if (how == 1)
            place(&x, 1, slot, SLICE, SLICE, 0);
        else
            wire_mapped(x.links[how == 3], slot, SLICE, from + SLICE + (how == 2), SLICE, 0);
        wired_turn(&x, 0);
        assert_int_equal(t.state, BR_TRANSFER_MATCHING);
        assert_int_equal(x.w->peers[1].rails[how == 1 || how == 3].state, BR_RAIL_FENCING);
        br_transfer_withdraw(x.w, &t);
        wired_destroy(&x);
    }
}

/* The same slice mapped twice in one batch: the second finds it complete, and is given back at
 * once. */
static void mapped__stale_is_given_back(void **state)
{
    struct br_transfer t = receive_of(1, SLICE);
    struct wired *x = *state;
    uint32_t slot;

    t.may_map = true;
    slot = posted(x, &t);
    wire_mapped(x->links[0], slot, 0, from, SLICE, 0);
    wire_mapped(x->links[0], slot, 0, from, SLICE, 0);
    wired_turn(x, 0);
    assert_int_equal(t.state, BR_TRANSFER_ENDED);
    assert_int_equal(x->wires[0].maps, 1);
    br_transfer_release(x->w, &t);
}

static void mapped__withdrawn_in_the_middle(void **state)
{
    struct br_transfer t = receive_of(1, 2 * SLICE);
    struct wired *x = *state;
    uint32_t slot;

    t.may_map = true;
    slot = posted(x, &t);
    wire_mapped(x->links[0], slot, 0, from, SLICE, 0);
    wired_turn(x, 0);
    br_transfer_withdraw(x->w, &t);
    assert_int_equal(x->w->slots.n_free, x->w->slots.count);
}

/* ---- the rest -------------------------------------------------------------------------------- */

/* Bytes from the network end up on a terminal: no control characters, no more than the protocol
 * allows. */
static void abort__text_is_cleaned(void **state)
{
    struct br_message m = {.type = BR_MESSAGE_ABORT};
    char text[300];
    struct wired *x = *state;

    memset(text, 'x', sizeof text);
    memcpy(text, "\033[2Jgone\n\177", 10);
    wire_message(x->links[0], &m, text, sizeof text);
    wired_turn(x, 0);
    assert_true(x->w->failed < 0);
    assert_says(x->w->message, "rank 1: ?[2Jgone??");
    assert_true(strlen(x->w->message) <= strlen("rank 1: ") + BR_MAX_TEXT);
}

/* What a third rank has said keeps that rank's name alone, however many pass it on. */
static void abort__passed_on_keeps_its_first_name(void **state)
{
    static const char *const said[][2] = {{"rank 17: no more", "rank 17: no more"},
                                          {"rank 17 is lost", "rank 1: rank 17 is lost"},
                                          {"rank : x", "rank 1: rank : x"},
                                          {"", "rank 1: "}};

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct br_message m = {.type = BR_MESSAGE_ABORT};
        struct wired x;

        wired_create(&x, 0, 1, NULL);
        wire_message(x.links[0], &m, said[i][0], (uint32_t)strlen(said[i][0]));
        wired_turn(&x, 0);
        assert_string_equal(x.w->message, said[i][1]);
        wired_destroy(&x);
    }
}

static void message__of_an_unknown_type(void **state)
{
    static const uint8_t types[] = {0, BR_MESSAGE_HANDSHAKE, BR_MESSAGE_BYE + 1, 255};
    struct wired *x = *state;

    for (int i = 0; i < 4; i++) {
        struct br_message m = {.type = types[i]};

        wire_message(x->links[0], &m, from, 100);
    }
    wired_turn(x, 0);
    assert_int_equal(x->w->failed, 0);
    assert_int_equal(x->w->counters.dropped_messages, 4);
    assert_int_equal(x->wires[0].buffers, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WIRED_TEST(data__slices_in_any_order, .rails = 2, .up = true),
        WIRED_TEST(data__twice_is_once, .rails = 2, .up = true),
        WIRED_TEST(data__after_the_end, .rails = 2, .up = true),
        WIRED_TEST(data__into_a_transfer_of_another_rank, .rails = 2, .up = true),
        WIRED_TEST(data__any_number_of_dones, .rails = 2, .up = true),
        WIRED_TEST(data__asks_for_done_and_ack, .rails = 1, .up = true),
        WIRED_TEST(data__before_its_ready, .rails = 1, .up = true),
        WIRED_TEST(data__for_a_slot_to_come, .rails = 1, .up = true),
        WIRED_TEST(data__beyond_the_end, .rails = 1, .up = true),
        WIRED_TEST(slotless__served_in_order, .rails = 1, .up = true),
        WIRED_TEST(slotless__one_slot_is_kept, .rails = 1, .up = true),
        WIRED_TEST(slotless__expected_ones_in_turn, .rails = 1, .up = true),
        WIRED_TEST(slotless__expected_ones_first, .rails = 1, .up = true),
        WIRED_TEST(withdraw__in_every_state, .rails = 1, .up = true),
        WIRED_TEST(reduced__what_a_rail_has_written, .rails = 2, .up = true),
        WIRED_TEST(reduced__not_once_bytes_have_come, .rails = 1, .up = true),
        WIRED_TEST(mapped__until_released, .rails = 1, .up = true),
        WIRED_TEST(mapped__peer_lost_while_read, .rails = 1, .up = true),
        WIRED_TEST(mapped__too_many_pieces, .rails = 1, .up = true),
        cmocka_unit_test(mapped__in_parts_that_do_not_fit),
        WIRED_TEST(mapped__stale_is_given_back, .rails = 1, .up = true),
        WIRED_TEST(mapped__withdrawn_in_the_middle, .rails = 1, .up = true),
        WIRED_TEST(abort__text_is_cleaned, .rails = 1, .up = true),
        cmocka_unit_test(abort__passed_on_keeps_its_first_name),
        WIRED_TEST(message__of_an_unknown_type, .rails = 1, .up = true),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
