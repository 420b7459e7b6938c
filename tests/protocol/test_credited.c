/* SPDX-License-Identifier: BSD-3-Clause */
/* Credited messages: which may leave when a rail was lost, and how far their numbers may run ahead.
 * More: test_send.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "wired.h"

/* credits of a rail for collectives; one more is kept for the oldest */
#define FREE (BR_CREDITS - BR_CREDITS_P2P_OWN - 2)

static uint8_t memory[8];

/* A small send, of the first fragment, that leaves on the given rail. */
static void post(struct wired *x, int rail, struct br_transfer *t, uint64_t order, uint64_t tag)
{
    *t = (struct br_transfer){.tag = tag, .peer = 1, .memory = memory, .length = 8, .order = order};
    x->wires[!rail].room = 0;
    assert_int_equal(br_transfer_send(x->w, t), 0);
    wired_turn(x, 0);
    x->wires[!rail].room = -1;
}

static void acknowledge(struct wired *x, int rail, uint32_t arrived, uint32_t released,
                        uint32_t p2p)
{
    struct br_message ack = {
        .type = BR_MESSAGE_ACK,
        .ack = {.arrived = arrived, .released = released, .released_p2p = p2p}};

    wired_say(x, rail, &ack);
}

static uint64_t next_tag(struct wired *x, int rail)
{
    struct wire_frame *frame = wire_take(x->links[rail], BR_MESSAGE_EAGER);

    return frame ? frame->message.tag : UINT64_MAX;
}

/* Rail 1 has no credit left but the one for the oldest message. Of those of the lost rail the one
 * that is older than what this process has for its oldest takes it, the others do not; then that
 * oldest itself. */
static void unacknowledged__only_the_oldest_uses_the_kept_credit(void **state)
{
    static struct br_transfer held[FREE], t[4];
    struct wired *x = *state;

    for (uint32_t i = 0; i < FREE; i++)
        post(x, 1, &held[i], 100, 100 + i);
    post(x, 0, &t[0], 9, 9);
    post(x, 0, &t[1], 3, 3);
    post(x, 0, &t[2], 8, 8);
    wire_forget(&x->wires[0]);
    wire_forget(&x->wires[1]);
    br_worker_reserve_for(x->w, 4, 0, 0);
    wired_cut(x, 0);
    assert_int_equal(next_tag(x, 1), 3);
    assert_int_equal(next_tag(x, 1), UINT64_MAX);
    t[3] = (struct br_transfer){.tag = 4, .peer = 1, .memory = memory, .length = 8, .order = 4};
    assert_int_equal(br_transfer_send(x->w, &t[3]), 0);
    wired_turn(x, 0);
    assert_int_equal(next_tag(x, 1), UINT64_MAX);
    acknowledge(x, 1, FREE + 1, 1, 0); /* the one of order 3 */
    assert_int_equal(next_tag(x, 1), 4);
    assert_int_equal(next_tag(x, 1), UINT64_MAX);
    acknowledge(x, 1, FREE + 2, 4, 0);
    assert_int_equal(next_tag(x, 1), 8);
    assert_int_equal(next_tag(x, 1), 9);
}

/* Of one operation the first fragment is the oldest, whatever step it is in. */
static void unacknowledged__first_fragment_first(void **state)
{
    static struct br_transfer held[FREE], t[2];
    struct wired *x = *state;
    uint64_t first = br_tag_collective(0, 1, 0, 9), second = br_tag_collective(0, 1, 1, 2);

    for (uint32_t i = 0; i < FREE; i++)
        post(x, 1, &held[i], 100, 100 + i);
    t[0].within = t[1].within = 0;
    x->wires[1].room = 0;
    for (int i = 0; i < 2; i++) {
        t[i] = (struct br_transfer){.tag = i ? first : second,
                                    .peer = 1,
                                    .memory = memory,
                                    .length = 8,
                                    .order = 5,
                                    .within = i ? 9 : 2};
        assert_int_equal(br_transfer_send(x->w, &t[i]), 0);
        wired_turn(x, 0);
    }
    x->wires[1].room = -1;
    wire_forget(&x->wires[0]);
    wire_forget(&x->wires[1]);
    br_worker_reserve_for(x->w, 5, 0, 10);
    wired_cut(x, 0);
    assert_int_equal(next_tag(x, 1), first);
    assert_int_equal(next_tag(x, 1), UINT64_MAX);
}

/* A round of views has ended here, on rail 0 that is not known to work any more; all other credits
 * are used by later operations, for which the other end waits for that round. The oldest of these
 * leaves the kept credit to the round's message, which goes first. */
static void oldest__not_before_what_may_go_again(void **state)
{
    static struct br_transfer held[FREE], round, next;
    struct wired *x = *state;

    for (uint32_t i = 0; i < FREE; i++)
        post(x, 1, &held[i], 100, 100 + i);
    post(x, 0, &round, 9, 9);
    wire_forget(&x->wires[0]);
    wire_forget(&x->wires[1]);
    x->wires[0].room = 0;
    br_worker_reserve_for(x->w, 10, 0, 0);
    next = (struct br_transfer){.tag = 10, .peer = 1, .memory = memory, .length = 8, .order = 10};
    assert_int_equal(br_transfer_send(x->w, &next), 0);
    wired_turn(x, 0);
    assert_int_equal(next_tag(x, 1), UINT64_MAX);
    assert_true(x->w->peers[1].rails[0].ping_due);
    wired_cut(x, 0);
    assert_int_equal(next_tag(x, 1), 9);
    assert_int_equal(next_tag(x, 1), UINT64_MAX);
    acknowledge(x, 1, FREE + 1, 1, 0);
    assert_int_equal(next_tag(x, 1), 10);
}

/* Once it is known to have arrived it holds nobody back. */
static void oldest__after_what_has_arrived(void **state)
{
    static struct br_transfer held[FREE], more[FREE], before, next;
    struct wired *x = *state;

    post(x, 0, &before, 9, 9);
    for (uint32_t i = 0; i < FREE; i++)
        post(x, 1, &held[i], 100, 100 + i);
    for (uint32_t i = 0; i < FREE - 1; i++)
        post(x, 0, &more[i], 200, 200 + i);
    wire_forget(&x->wires[0]);
    wire_forget(&x->wires[1]);
    br_worker_reserve_for(x->w, 10, 0, 0);
    x->wires[0].room = 0;
    next = (struct br_transfer){.tag = 10, .peer = 1, .memory = memory, .length = 8, .order = 10};
    assert_int_equal(br_transfer_send(x->w, &next), 0);
    wired_turn(x, 0);
    assert_int_equal(next_tag(x, 1), UINT64_MAX);
    acknowledge(x, 0, 1, 0, 0);
    wired_turn(x, 0);
    assert_int_equal(next_tag(x, 1), 10);
}

/* Queues a small send of that order, behind all of a higher priority; the rail takes everything. */
static void queue(struct wired *x, struct br_transfer *t, int32_t priority, uint64_t order,
                  uint64_t tag)
{
    *t = (struct br_transfer){
        .tag = tag, .peer = 1, .memory = memory, .length = 8, .priority = priority, .order = order};
    assert_int_equal(br_transfer_send(x->w, t), 0);
    wired_turn(x, 0);
}

/* Uses all credits for collectives that are not kept, and queues `n` more that find none, so that
 * a message that may use a kept credit has been searched for in vain. */
static void search_in_vain(struct wired *x, struct br_transfer *waits, uint32_t n)
{
    static struct br_transfer held[FREE];

    br_worker_reserve_for(x->w, 1, 0, 0);
    for (uint32_t i = 0; i < FREE; i++)
        queue(x, &held[i], 0, 100, 100 + i);
    for (uint32_t i = 0; i < n; i++)
        queue(x, &waits[i], 0, 200 + i, 200 + i);
    wire_forget(&x->wires[0]);
    wired_turn(x, 0);
    assert_int_equal(next_tag(x, 0), UINT64_MAX);
}

/* No message has a credit, and none may use the kept one. That is no longer so when one in the
 * middle becomes the oldest, when the oldest is queued, or a one-sided request. */
static void kept__found_after_a_search_in_vain(void **state)
{
    static struct br_transfer waits[4], oldest, onesided;
    struct wired *x = *state;
    uint64_t request = br_tag_onesided(1, BR_PART_DATA);

    search_in_vain(x, waits, 4);
    br_worker_reserve_for(x->w, 202, 0, 0);
    wired_turn(x, 0);
    assert_int_equal(next_tag(x, 0), 202);
    assert_int_equal(next_tag(x, 0), UINT64_MAX);

    acknowledge(x, 0, FREE + 1, 1, 0); /* the kept one is free again */
    wired_turn(x, 0);
    assert_int_equal(next_tag(x, 0), UINT64_MAX);
    br_worker_reserve_for(x->w, 5, 0, 0);
    wired_turn(x, 0);
    assert_int_equal(next_tag(x, 0), UINT64_MAX);
    queue(x, &oldest, -1, 5, 5);
    assert_int_equal(next_tag(x, 0), 5);
    assert_int_equal(next_tag(x, 0), UINT64_MAX);
    queue(x, &onesided, -1, 300, request);
    assert_int_equal(next_tag(x, 0), request);
    assert_int_equal(next_tag(x, 0), UINT64_MAX);
}

/* The oldest message is queued, behind the head, while another one counts as the oldest, and is the
 * oldest again before the next search. */
static void kept__found_when_the_oldest_comes_back(void **state)
{
    static struct br_transfer waits[2], oldest;
    struct wired *x = *state;

    search_in_vain(x, waits, 2);
    x->wires[0].room = 0;
    br_worker_reserve_for(x->w, 7, 0, 0);
    oldest = (struct br_transfer){
        .tag = 5, .peer = 1, .memory = memory, .length = 8, .priority = -1, .order = 1};
    assert_int_equal(br_transfer_send(x->w, &oldest), 0);
    br_worker_reserve_for(x->w, 1, 0, 0);
    x->wires[0].room = -1;
    wired_turn(x, 0);
    assert_int_equal(next_tag(x, 0), 5);
    assert_int_equal(next_tag(x, 0), UINT64_MAX);
}

static void hear_waiting(struct wired *x, uint64_t tag, uint32_t bytes, bool receives)
{
    struct br_message m = {
        .type = BR_MESSAGE_WAITING, .tag = tag, .bytes = bytes, .waiting = {.receives = receives}};

    wired_say(x, 0, &m);
}

/* The kind of a point-to-point message changes while it is queued without a credit, when the peer
 * says that it waits for it: a small send, and the READY of a large receive. */
static void kept__found_for_what_is_expected_after_a_search_in_vain(void **state)
{
    static struct br_transfer own[BR_CREDITS_P2P_OWN], waits[2], small, large;
    static uint8_t received[1 << 16];
    struct wired *x = *state;

    for (uint32_t i = 0; i < BR_CREDITS_P2P_OWN; i++)
        queue(x, &own[i], 0, 50, br_tag_p2p(0, i, 1));
    search_in_vain(x, waits, 2);
    queue(x, &small, -1, 10, br_tag_p2p(0, 10, 1));
    large = (struct br_transfer){.tag = br_tag_p2p(0, 11, 1),
                                 .peer = 1,
                                 .memory = received,
                                 .length = sizeof received,
                                 .priority = -1,
                                 .order = 11};
    assert_int_equal(br_transfer_receive(x->w, &large), 0);
    wired_turn(x, 0);
    assert_int_equal(small.state, BR_TRANSFER_QUEUED);
    assert_int_equal(large.state, BR_TRANSFER_QUEUED);

    hear_waiting(x, large.tag, large.length, false);
    assert_int_equal(large.state, BR_TRANSFER_MATCHING);
    assert_non_null(wire_take(x->links[0], BR_MESSAGE_READY));
    hear_waiting(x, small.tag, small.length, true);
    assert_int_equal(small.state, BR_TRANSFER_ENDED);
    assert_int_equal(next_tag(x, 0), small.tag);
    assert_int_equal(next_tag(x, 0), UINT64_MAX);
    assert_int_equal(waits[0].state, BR_TRANSFER_QUEUED);
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
        acknowledge(x, 1, sent, sent, sent);
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
    acknowledge(x, 0, 1, 0, 0);
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
    acknowledge(x, 1, BR_SEEN, BR_SEEN, BR_SEEN);
    assert_int_equal(t.state, BR_TRANSFER_ENDED);
    assert_int_equal(wire_take(x->links[1], BR_MESSAGE_EAGER)->message.sequence, BR_SEEN);
}

/* Without a pump, and the worker says that its device may not have sent it yet. */
static void at_once__nothing_else_waits(void **state)
{
    struct br_transfer t = {
        .tag = br_tag_p2p(0, 0, 1), .peer = 1, .memory = memory, .length = 8, .order = 1};
    struct wired *x = *state;

    assert_int_equal(br_transfer_send(x->w, &t), 0);
    assert_int_equal(t.state, BR_TRANSFER_ENDED);
    assert_int_equal(next_tag(x, 0), t.tag);
    assert_true(br_worker_is_due(x->w));
    assert_ptr_equal(br_worker_done(x->w), &t);
    br_worker_poll(x->w, x->w->now);
    assert_false(br_worker_is_due(x->w));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        WIRED_TEST(unacknowledged__only_the_oldest_uses_the_kept_credit, .rails = 2, .up = true),
        WIRED_TEST(unacknowledged__first_fragment_first, .rails = 2, .up = true),
        WIRED_TEST(oldest__not_before_what_may_go_again, .rails = 2, .up = true),
        WIRED_TEST(oldest__after_what_has_arrived, .rails = 2, .up = true),
        WIRED_TEST(kept__found_after_a_search_in_vain, .rails = 1, .up = true),
        WIRED_TEST(kept__found_when_the_oldest_comes_back, .rails = 1, .up = true),
        WIRED_TEST(kept__found_for_what_is_expected_after_a_search_in_vain, .rails = 1, .up = true),
        WIRED_TEST(number__waits_for_what_may_not_have_arrived, .rails = 2, .up = true),
        WIRED_TEST(number__waits_for_what_goes_again, .rails = 2, .up = true),
        WIRED_TEST(at_once__nothing_else_waits, .rails = 1, .up = true),
        WIRED_TEST(at_once__not_past_what_is_queued, .rails = 1, .up = true),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
