/* SPDX-License-Identifier: BSD-3-Clause */
/* Arrivals find their transfer, or wait for it; what a peer cannot have sent is noticed. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "protocol/internal.h"
#include "tests/says.h"
#include "wired.h"

static uint8_t data[1024];

/* An EAGER message of `bytes` bytes, the i-th of the peer. */
static void eager(struct wired *x, int rail, uint32_t sequence, uint64_t tag, uint32_t bytes)
{
    struct br_message m = {
        .type = BR_MESSAGE_EAGER, .sequence = sequence, .tag = tag, .bytes = bytes};

    for (uint32_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)(tag * 31 + i);
    if (bytes <= BR_EAGER_INLINE)
        memcpy(m.data, data, bytes);
    wire_message(x->links[rail], &m, data, bytes <= BR_EAGER_INLINE ? 0 : bytes);
}

static struct br_transfer receive_of(uint64_t tag, void *memory, uint32_t length)
{
    return (struct br_transfer){.tag = tag, .peer = 1, .memory = memory, .length = length};
}

static void eager__posted_or_not(void **state)
{
    static const uint32_t sizes[] = {0, 1, BR_EAGER_INLINE, BR_EAGER_INLINE + 1, 1024};
    struct wired *x = *state;
    uint32_t sequence = 0;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int posted_first = 0; posted_first < 2; posted_first++, sequence++) {
            uint8_t to[1024] = {0};
            struct br_transfer t = receive_of(sequence, to, sizes[i]);

            if (posted_first)
                assert_int_equal(br_transfer_receive(x->w, &t), 0);
            eager(x, 0, sequence, sequence, sizes[i]);
            wired_turn(x, 0);
            assert_int_equal(x->wires[0].buffers,
                             posted_first ? 0 : 1); /* it waits in the back end's buffer */
            if (!posted_first)
                assert_int_equal(br_transfer_receive(x->w, &t), 0);
            wired_turn(x, 0);
            assert_int_equal(t.state, BR_TRANSFER_ENDED);
            assert_int_equal(t.status, 0);
            assert_memory_equal(to, data, sizes[i]);
            assert_int_equal(x->wires[0].buffers, 0);
        }
    assert_int_equal(x->w->unexpected.n_used, 0);
}

/* The credit of a message comes back when its transfer has taken it, not before. */
static void eager__credit_follows_the_receive(void **state)
{
    uint8_t to[8];
    struct br_transfer t = receive_of(1, to, 8);
    struct wire_frame *ack;
    struct wired *x = *state;

    eager(x, 0, 0, 1, 8);
    wired_turn(x, 10 * BR_MS);
    assert_null(wire_take(x->links[0], BR_MESSAGE_ACK));
    assert_int_equal(br_transfer_receive(x->w, &t), 0);
    wired_turn(x, 10 * BR_MS);
    wired_turn(x, 10 * BR_MS);
    ack = wire_take(x->links[0], BR_MESSAGE_ACK);
    assert_non_null(ack);
    assert_int_equal(ack->message.ack.arrived, 1);
    assert_int_equal(ack->message.ack.released, 1);
}

/* What is released is said in bytes, too: of a message that waited, and of one that was awaited. */
static void eager__bytes_come_back(void **state)
{
    uint8_t to[2][300];
    struct br_transfer t[2] = {receive_of(1, to[0], 100), receive_of(2, to[1], 300)};
    struct wired *x = *state;
    struct wire_frame *ack;

    eager(x, 0, 0, 1, 100);
    wired_turn(x, 0);
    assert_int_equal(x->w->peers[1].rails[0].held_bytes, BR_CREDIT_UNIT);
    assert_int_equal(br_transfer_receive(x->w, &t[0]), 0);
    assert_int_equal(br_transfer_receive(x->w, &t[1]), 0);
    eager(x, 0, 1, 2, 300);
    wired_turn(x, 10 * BR_MS);
    wired_turn(x, 10 * BR_MS);
    assert_int_equal(x->w->peers[1].rails[0].held_bytes, 0);
    ack = wire_take(x->links[0], BR_MESSAGE_ACK);
    assert_non_null(ack);
    assert_int_equal(ack->message.ack.released_bytes, 3 * BR_CREDIT_UNIT);
}

/* Nobody waits for a few credits: one ACK gives those of 10 ms back, and wakes the peer once. */
static void eager__credits_come_back_together(void **state)
{
    struct wired *x = *state;
    struct wire_frame *ack;
    uint8_t to[8];

    for (uint32_t i = 0; i < 3; i++) {
        struct br_transfer t = receive_of(i + 1, to, 8);

        assert_int_equal(br_transfer_receive(x->w, &t), 0);
        eager(x, 0, i, i + 1, 8);
        wired_turn(x, 3 * BR_MS);
        assert_null(wire_take(x->links[0], BR_MESSAGE_ACK));
    }
    wired_turn(x, 10 * BR_MS);
    ack = wire_take(x->links[0], BR_MESSAGE_ACK);
    assert_non_null(ack);
    assert_int_equal(ack->message.ack.released, 3);
    wired_turn(x, 20 * BR_MS);
    assert_null(wire_take(x->links[0], BR_MESSAGE_ACK));
}

/* The peer sends a message for each credit that ACKs have given back. Returns how many of `most` it
 * has sent; *released: what it was told last. */
static uint32_t peer_sends(struct wired *x, uint64_t first, uint32_t sent, uint32_t most,
                           uint32_t *released)
{
    struct wire_frame *ack;

    do {
        while ((ack = wire_take(x->links[0], BR_MESSAGE_ACK)))
            *released = ack->message.ack.released;
        for (; sent < most && sent - *released < BR_CREDITS; sent++)
            eager(x, 0, sent, first + sent, 8);
        wired_turn(x, 0);
    } while (sent < most && sent - *released < BR_CREDITS);
    return sent;
}

/* The peer has used up its credits and waits for ten more. Receives take twenty messages, and then
 * their rank computes. Its credits have come back by then, or at the first look at the timers, for
 * which a thread is woken that was to sleep for longer. A thread that read the clock before the
 * receives, and looks after them, does not make the next look forget it. */
static void check_credits_of_a_rank_that_is_behind(struct wired *x, uint64_t first)
{
    const uint32_t most = BR_CREDITS + 10;
    uint32_t released = 0, sent = peer_sends(x, first, 0, most, &released);
    uint8_t to[8];

    assert_int_equal(sent, BR_CREDITS);
    wired_turn(x, 20 * BR_MS);
    assert_true(br_worker_next_timer(x->w) > x->now + 100 * BR_MS);
    assert_false(br_worker_timer_is_early(x->w));
    for (uint32_t i = 0; i < 20; i++) {
        struct br_transfer t = receive_of(first + i, to, 8);

        assert_int_equal(br_transfer_receive(x->w, &t), 0);
        wired_turn(x, 0);
        assert_int_equal(t.state, BR_TRANSFER_ENDED);
    }
    sent = peer_sends(x, first, sent, most, &released);
    if (sent < most) {
        assert_true(br_worker_timer_is_early(x->w));
        br_worker_poll(x->w, x->now - 1);
        assert_true(br_worker_timer_is_early(x->w));
        assert_true(br_worker_next_timer(x->w) <= x->now + BR_MS);
        wired_turn(x, BR_MS);
        sent = peer_sends(x, first, sent, most, &released);
    }
    assert_int_equal(sent, most);
    wired_turn(x, BR_MS);
    assert_false(br_worker_timer_is_early(x->w));
}

static void eager__credits_of_a_rank_that_is_behind(void **state)
{
    check_credits_of_a_rank_that_is_behind(*state, 1);
}

static void eager__credits_of_a_rank_that_is_behind_point_to_point(void **state)
{
    check_credits_of_a_rank_that_is_behind(*state, br_tag_p2p(0, 0, 7));
}

static void eager__two_receives_with_one_tag(void **state)
{
    uint8_t to[8];
    struct br_transfer a = receive_of(1, to, 8), b = receive_of(1, to, 8);
    struct wired *x = *state;

    assert_int_equal(br_transfer_receive(x->w, &a), 0);
    assert_int_equal(br_transfer_receive(x->w, &b), -EINVAL);
    assert_says(br_error_message(), "tag");
}

/* A message that comes again on another rail is dropped, its credit goes back. */
static void sequence__seen_twice(void **state)
{
    uint8_t to[8] = {0};
    struct br_transfer a = receive_of(1, to, 8), b = receive_of(1, to, 8);
    struct wired *x = *state;

    assert_int_equal(br_transfer_receive(x->w, &a), 0);
    eager(x, 0, 0, 1, 8);
    wired_turn(x, 0);
    assert_int_equal(br_transfer_receive(x->w, &b), 0); /* the tag's next use */
    eager(x, 1, 0, 1, 8);
    wired_turn(x, 0);
    assert_int_equal(b.state, BR_TRANSFER_MATCHING);
    assert_int_equal(x->w->counters.dropped_messages, 1);
    assert_int_equal(x->wires[1].buffers, 0);
    assert_int_equal(x->w->peers[1].rails[1].released, 1);
}

/* Rails deliver in any order among themselves. */
static void sequence__in_any_order(void **state)
{
    static const uint32_t order[] = {5, 0, 511, 3, 510, 4, 1};
    struct br_transfer t[7];
    uint8_t to[7][8];
    struct wired *x = *state;

    for (uint32_t i = 0; i < 7; i++) {
        t[i] = receive_of(i, to[i], 8);
        assert_int_equal(br_transfer_receive(x->w, &t[i]), 0);
        eager(x, 0, order[i], i, 8);
    }
    wired_turn(x, 0);
    assert_int_equal(x->done, 7);
}

/* After 2^32 messages the numbers begin anew. */
static void sequence__wraps(void **state)
{
    struct wired *x = *state;

    x->w->peers[1].streams[0].seen_top = UINT32_MAX - 1;
    for (uint32_t i = 0; i < 5; i++) {
        uint8_t to[8];
        struct br_transfer t = receive_of(i, to, 8);

        assert_int_equal(br_transfer_receive(x->w, &t), 0);
        eager(x, 0, UINT32_MAX - 1 + i, i, 8);
        wired_turn(x, 0);
        assert_int_equal(x->done, (int)i + 1);
    }
}

/* No peer is so far ahead: it has not that many credits. It must not keep us busy counting,
 * either. */
static void sequence__far_ahead_fails_the_rail(void **state)
{
    static const uint32_t ahead[] = {BR_SEEN, INT32_MAX};
    struct wired x;

    (void)state;
    for (int i = 0; i < 2; i++) {
        wired_create(&x, 0, 2, NULL);
        eager(&x, 0, ahead[i], 1, 8);
        wired_turn(&x, 0);
        assert_int_equal(x.w->failed, 0);
        assert_int_equal(x.w->peers[1].rails[0].state, BR_RAIL_FENCING);
        assert_says(x.w->peers[1].rails[0].message, "sequence");
        wired_destroy(&x);
    }
}

/* Collectives are matched whatever point to point does: each numbers its messages for itself. */
static void sequence__point_to_point_apart(void **state)
{
    uint8_t to[2][8];
    struct br_transfer a = receive_of(1, to[0], 8), b = receive_of(br_tag_p2p(0, 0, 9), to[1], 8);
    struct wired *x = *state;

    assert_int_equal(br_transfer_receive(x->w, &a), 0);
    assert_int_equal(br_transfer_receive(x->w, &b), 0);
    eager(x, 0, 0, 1, 8);
    eager(x, 0, 0, br_tag_p2p(0, 0, 9), 8);
    wired_turn(x, 0);
    assert_int_equal(x->done, 2);
}

static void expect_failed(struct wired *x, int error, const char *text)
{
    assert_int_equal(x->w->failed, -error);
    assert_says(x->w->message, text);
    wired_turn(x, 0);
    wired_turn(x, BR_ABORT_LINGER); /* nobody answers the ABORT */
    assert_true(x->links[0]->closed);
}

/* The ranks disagree about the length of an operation: nobody gets wrong bytes, and both sides are
 * named. */
static void agree__other_length(void **state)
{
    uint8_t to[16] = {0};
    struct br_transfer t = receive_of(1, to, 16);
    struct wired x;

    (void)state;
    for (int posted_first = 0; posted_first < 2; posted_first++) {
        wired_create(&x, 0, 1, NULL);
        if (posted_first)
            assert_int_equal(br_transfer_receive(x.w, &t), 0);
        eager(&x, 0, 0, 1, 8);
        wired_turn(&x, 0);
        if (!posted_first)
            assert_int_equal(br_transfer_receive(x.w, &t), 0);
        wired_turn(&x, 0);
        expect_failed(&x, EPROTO, "rank 1 and we (rank 0) disagree");
        assert_int_equal(to[0], 0);
        wired_destroy(&x);
    }
}

static void agree__other_digest(void **state)
{
    uint8_t to[8];
    struct br_transfer t = receive_of(1, to, 8);
    struct wired *x = *state;

    t.check = 0x1234;
    assert_int_equal(br_transfer_receive(x->w, &t), 0);
    eager(x, 0, 0, 1, 8);
    wired_turn(x, 0);
    expect_failed(x, EPROTO, "1234 here");
}

/* With one rail left a rail that breaks the protocol takes the peer with it. */
static void message__says_another_length(void **state)
{
    struct br_message m = {.type = BR_MESSAGE_EAGER, .tag = 1, .bytes = 100};
    struct wired *x = *state;

    wire_message(x->links[0], &m, data, 99);
    wired_turn(x, 0);
    expect_failed(x, EPROTO, "eager message");
}

static void message__twice_before_its_receive(void **state)
{
    struct wired *x = *state;

    eager(x, 0, 0, 1, 8);
    eager(x, 0, 1, 1, 8);
    wired_turn(x, 0);
    expect_failed(x, EPROTO, "twice");
}

/* Its rail is lost while it waits: the message lives on, in a copy where it had a payload. */
static void forget_link__keeps_the_messages(void **state)
{
    uint8_t to[2][100];
    struct br_transfer small = receive_of(1, to[0], 8), large = receive_of(2, to[1], 100);
    struct wired *x = *state;

    eager(x, 0, 0, 1, 8);
    eager(x, 0, 1, 2, 100);
    wired_turn(x, 0);
    wire_fail(x->links[0], ECONNRESET, "cut");
    wired_turn(x, 0);
    assert_int_equal(x->wires[0].buffers, 0);
    assert_int_equal(br_transfer_receive(x->w, &small), 0);
    assert_int_equal(br_transfer_receive(x->w, &large), 0);
    wired_turn(x, 0);
    assert_int_equal(x->done, 2);
    assert_int_equal(to[0][7], (uint8_t)(31 + 7));
    assert_memory_equal(to[1], data, 100);
    assert_int_equal(x->w->unexpected.n_used, 0);
}

/* A worker that ends with such a message frees the copy (ASan sees it otherwise). */
static void forget_link__nobody_ever_receives(void **state)
{
    struct wired *x = *state;

    eager(x, 0, 0, 2, 100);
    wired_turn(x, 0);
    wire_fail(x->links[0], ECONNRESET, "cut");
    wired_turn(x, 0);
    assert_int_equal(x->w->unexpected.n_used, 1);
}

/* ---- announcements, and messages that are set aside ------------------------------------------ */

#define LARGE 5000u

static void announce(struct wired *x, uint32_t sequence, uint64_t tag, uint32_t bytes)
{
    struct br_message m = {.type = BR_MESSAGE_ANNOUNCE,
                           .sequence = sequence,
                           .tag = tag,
                           .bytes = bytes,
                           .waiting = {.total = bytes}};

    wire_message(x->links[0], &m, NULL, 0);
    wired_turn(x, 0);
}

static void announce__waits_for_its_receive(void **state)
{
    static uint8_t to[LARGE];
    uint64_t tag = br_tag_p2p(0, 0, 7);
    struct br_transfer t = receive_of(tag, to, LARGE);
    const struct br_list *at = NULL;
    struct br_arrival arrival;
    struct wired *x = *state;

    announce(x, 0, tag, LARGE);
    assert_int_equal(x->wires[0].buffers, 0);
    assert_true(br_worker_next_arrival(x->w, &at, &arrival));
    assert_int_equal(arrival.tag, tag);
    assert_int_equal(arrival.bytes, LARGE);
    assert_int_equal(arrival.peer, 1);
    assert_false(br_worker_next_arrival(x->w, &at, &arrival));
    assert_int_equal(br_transfer_receive(x->w, &t), 0);
    wired_turn(x, 0);
    assert_int_equal(x->wires[0].buffers, 0);
    assert_non_null(wire_take(x->links[0], BR_MESSAGE_READY));
    assert_int_equal(t.state, BR_TRANSFER_MATCHING);
    assert_false(br_worker_find_arrival(x->w, tag, 1, &arrival));
}

static bool taken(void *context, int rank, uint64_t tag)
{
    return rank == 1 && tag == *(const uint64_t *)context;
}

/* Its READY has crossed it: the receive is there still, or has ended. */
static void announce__after_its_receive(void **state)
{
    static uint8_t to[LARGE];
    uint64_t tag = br_tag_p2p(0, 0, 7), ended = br_tag_p2p(0, 1, 7);
    struct br_transfer t = receive_of(tag, to, LARGE);
    struct wired *x = *state;

    x->w->p2p = (struct br_p2p_hooks){.context = &ended, .is_taken = taken};
    assert_int_equal(br_transfer_receive(x->w, &t), 0);
    announce(x, 0, tag, LARGE);
    announce(x, 1, ended, LARGE);
    assert_int_equal(x->wires[0].buffers, 0);
    assert_int_equal(x->w->unexpected.n_used, 0);
    assert_int_equal(t.state, BR_TRANSFER_MATCHING);
}

/* A peer may have any number of large sends: of so many the announcements hold credits again, its
 * own, and its READYs do not. */
static void announce__too_many_hold_credits(void **state)
{
    static uint8_t to[LARGE];
    struct br_transfer t = receive_of(br_tag_p2p(0, 1, 7), to, LARGE);
    struct br_message m = {.type = BR_MESSAGE_READY,
                           .sequence = 2,
                           .tag = br_tag_p2p(0, 2, 7),
                           .bytes = LARGE,
                           .ready.slot = 0x10001};
    struct wired *x = *state;

    x->w->peers[1].early_announces = BR_SLOTS_MAX - 1;
    announce(x, 0, br_tag_p2p(0, 0, 7), LARGE);
    assert_int_equal(x->wires[0].buffers, 0);
    announce(x, 1, t.tag, LARGE);
    assert_int_equal(x->wires[0].buffers, 1);
    wired_say(x, 0, &m);
    assert_int_equal(x->wires[0].buffers, 1);
    assert_int_equal(br_transfer_receive(x->w, &t), 0);
    wired_turn(x, 0);
    assert_int_equal(x->wires[0].buffers, 0);
    assert_int_equal(x->w->peers[1].early_announces, BR_SLOTS_MAX);
}

static void announce__malformed(void **state)
{
    struct wired *x = *state;

    announce(x, 0, br_tag_p2p(0, 0, 7), 8); /* goes without */
    assert_true(x->links[0]->closed);
}

static uint64_t tag_of_crowd(uint32_t i)
{
    return i % 3 ? br_tag_p2p(0, i, 7) : br_tag_collective(0, i, 0, 0);
}

/* What holds credits is copied, of collectives too, the credits go back, and it finds its receive
 * all the same. */
static void set_aside__gives_credits_back(void **state)
{
    struct wired *x = *state;
    struct br_arrival arrival;
    uint8_t to[1024];

    for (uint32_t i = 0; i < BR_CROWDED; i++) {
        assert_int_equal(br_worker_set_aside(x->w, 1), 0); /* few enough */
        eager(x, 0, i, tag_of_crowd(i), 1000);
        wired_turn(x, 0);
    }
    assert_int_equal(x->wires[0].buffers, BR_CROWDED);
    assert_int_equal(br_worker_set_aside(x->w, 1), BR_CROWDED);
    assert_int_equal(x->wires[0].buffers, 0);
    for (uint32_t i = BR_CROWDED; i-- > 0;) {
        uint64_t tag = tag_of_crowd(i);
        struct br_transfer t = receive_of(tag, to, 1000);

        assert_true(br_worker_find_arrival(x->w, tag, 1, &arrival));
        assert_int_equal(br_transfer_receive(x->w, &t), 0);
        wired_turn(x, 0);
        assert_int_equal(t.state, BR_TRANSFER_ENDED);
        for (uint32_t k = 0; k < 1000; k++)
            assert_int_equal(to[k], (uint8_t)(tag * 31 + k));
    }
    assert_true(br_list_empty(&x->w->arrivals));
    assert_int_equal(x->w->unexpected.n_used, 0);
}

/* Over two rails a later message may come first. */
static void arrivals__in_the_order_in_which_they_left(void **state)
{
    static const uint32_t sequences[] = {3, 1, 0, 2};
    const struct br_list *at = NULL;
    struct br_arrival arrival;
    struct wired *x = *state;

    for (uint32_t i = 0; i < 4; i++) {
        eager(x, (int)i % 2, sequences[i], br_tag_p2p(0, sequences[i], 7), 8);
        wired_turn(x, 0);
        assert_int_equal(br_worker_arrived_before(x->w, 1, 3), i == 3);
    }
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(br_worker_next_arrival(x->w, &at, &arrival));
        assert_int_equal(arrival.sequence, i);
    }
}

/* Any number may wait: a message that was overtaken finds its place from the end. To show which
 * ones it is compared with, a later one stands in front. */
static void arrivals__only_the_last_ones_are_compared(void **state)
{
    static const uint32_t sequences[] = {0, 3, 4, 1}, order[] = {3, 0, 1, 4};
    const struct br_list *at = NULL;
    struct br_arrival arrival;
    struct wired *x = *state;

    for (uint32_t i = 0; i < 4; i++) {
        eager(x, (int)i % 2, sequences[i], br_tag_p2p(0, sequences[i], 7), 8);
        wired_turn(x, 0);
        if (sequences[i] == 3) {
            struct br_list *node = x->w->arrivals.prev;

            br_list_remove(node);
            br_list_push_front(&x->w->arrivals, node);
        }
    }
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(br_worker_next_arrival(x->w, &at, &arrival));
        assert_int_equal(arrival.sequence, order[i]);
    }
}

/* Nobody has asked for so long that the numbers are half of their range further. */
static void arrived_before__after_many_messages(void **state)
{
    struct wired *x = *state;
    struct br_stream *stream = &x->w->peers[1].streams[1];

    stream->seen_top = (1u << 31) + 5;
    memset(stream->seen, 0xff, sizeof stream->seen);
    eager(x, 0, stream->seen_top + 1, br_tag_p2p(0, 1, 7), 8);
    wired_turn(x, 0);
    assert_false(br_worker_arrived_before(x->w, 1, stream->seen_top - 1));
    eager(x, 0, stream->seen_top - 2, br_tag_p2p(0, 0, 7), 8);
    wired_turn(x, 0);
    assert_true(br_worker_arrived_before(x->w, 1, stream->seen_top - 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WIRED_TEST(eager__posted_or_not, .rails = 1, .up = true),
        WIRED_TEST(eager__credits_come_back_together, .rails = 1, .up = true),
        WIRED_TEST(eager__credit_follows_the_receive, .rails = 1, .up = true),
        WIRED_TEST(eager__bytes_come_back, .rails = 1, .up = true),
        WIRED_TEST(eager__credits_of_a_rank_that_is_behind, .rails = 1, .up = true),
        WIRED_TEST(eager__credits_of_a_rank_that_is_behind_point_to_point, .rails = 1, .up = true),
        WIRED_TEST(eager__two_receives_with_one_tag, .rails = 1, .up = true),
        WIRED_TEST(sequence__seen_twice, .rails = 2, .up = true),
        WIRED_TEST(sequence__in_any_order, .rails = 1, .up = true),
        WIRED_TEST(arrived_before__after_many_messages, .rails = 1, .up = true),
        WIRED_TEST(sequence__wraps, .rails = 1, .up = true),
        cmocka_unit_test(sequence__far_ahead_fails_the_rail),
        WIRED_TEST(sequence__point_to_point_apart, .rails = 1, .up = true),
        cmocka_unit_test(agree__other_length),
        WIRED_TEST(agree__other_digest, .rails = 1, .up = true),
        WIRED_TEST(message__says_another_length, .rails = 1, .up = true),
        WIRED_TEST(message__twice_before_its_receive, .rails = 1, .up = true),
        WIRED_TEST(forget_link__keeps_the_messages, .rails = 2, .up = true),
        WIRED_TEST(forget_link__nobody_ever_receives, .rails = 2, .up = true),
        WIRED_TEST(announce__waits_for_its_receive, .rails = 1, .up = true),
        WIRED_TEST(announce__after_its_receive, .rails = 1, .up = true),
        WIRED_TEST(announce__too_many_hold_credits, .rails = 1, .up = true),
        WIRED_TEST(announce__malformed, .rails = 2, .up = true),
        WIRED_TEST(set_aside__gives_credits_back, .rails = 1, .up = true),
        WIRED_TEST(arrivals__only_the_last_ones_are_compared, .rails = 2, .up = true),
        WIRED_TEST(arrivals__in_the_order_in_which_they_left, .rails = 2, .up = true),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
