/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that leave, and are received, without a transfer: numbered.c, match.c and worker.c where
 * the peer maps memory. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "protocol/internal.h"
#include "wired.h"

static uint8_t data[1024], to[1024], big[8192];

static void near_create(struct wired *x)
{
    struct br_caps caps = wire_caps(true);

    caps.maps = true;
    wired_create(x, 0, 1, &caps);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 31 + 1);
    memset(to, 0, sizeof to);
}

/* The next message of the peer. */
static void peer_says(struct wired *x, uint32_t sequence, uint64_t tag, uint32_t bytes)
{
    struct br_message m = {
        .type = BR_MESSAGE_EAGER, .check = 5, .sequence = sequence, .tag = tag, .bytes = bytes};

    if (bytes <= BR_EAGER_INLINE)
        memcpy(m.data, data, bytes);
    wire_message(x->links[0], &m, data, bytes <= BR_EAGER_INLINE ? 0 : bytes);
}

static bool send_at_once(struct wired *x, uint64_t number, uint32_t length)
{
    return br_worker_send_at_once(x->w, 1, br_tag_p2p(0, number, 7), 5, data, length, 0);
}

static void send__leaves_as_any_other(void **state)
{
    static const uint32_t sizes[] = {0, 8, BR_EAGER_INLINE, BR_EAGER_INLINE + 1, 1024};
    struct wired x;

    (void)state;
    near_create(&x);
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct wire_frame *frame;

        assert_true(send_at_once(&x, i, sizes[i]));
        frame = wire_take(x.links[0], BR_MESSAGE_EAGER);
        assert_non_null(frame);
        assert_int_equal(frame->message.tag, br_tag_p2p(0, i, 7));
        assert_int_equal(frame->message.sequence, i);
        assert_int_equal(frame->message.bytes, sizes[i]);
        assert_int_equal(frame->message.check, 5);
        if (sizes[i])
            assert_memory_equal(sizes[i] <= BR_EAGER_INLINE ? frame->message.data : frame->payload,
                                data, sizes[i]);
    }
    assert_false(send_at_once(&x, 9, x.w->config.eager_bytes + 1));
    assert_true(br_list_empty(&x.w->done));
    wired_destroy(&x);
}

/* Messages point to point are longer than what else goes without READY, at both ends. */
static void send__collectives_keep_their_limit(void **state)
{
    uint64_t collective = br_tag_collective(0, 0, 0, 0);
    struct wired x;

    (void)state;
    near_create(&x);
    x.w->peers[1].eager_bytes = 100;
    assert_true(send_at_once(&x, 0, 1024));
    assert_true(br_worker_send_at_once(x.w, 1, collective, 5, data, 100, 0));
    assert_false(br_worker_send_at_once(x.w, 1, collective + 1, 5, data, 101, 0));
    peer_says(&x, 0, br_tag_p2p(0, 0, 7), 1024);
    wired_turn(&x, BR_MS);
    assert_int_equal(x.w->peers[1].rails->state, BR_RAIL_UP);
    peer_says(&x, 0, collective, 101);
    wired_turn(&x, BR_MS);
    assert_int_not_equal(x.w->peers[1].rails->state, BR_RAIL_UP);
    wired_destroy(&x);
}

/* Neither where the link takes none, nor past one that waits for a credit. */
static void send__overtakes_nothing(void **state)
{
    static struct br_transfer waits;
    struct wired x;

    (void)state;
    near_create(&x);
    x.wires[0].room = 0;
    assert_false(send_at_once(&x, 0, 8));
    x.wires[0].room = -1;
    for (uint32_t i = 0; i < BR_CREDITS; i++)
        assert_true(send_at_once(&x, i, 8));
    assert_false(send_at_once(&x, BR_CREDITS, 8));
    waits = (struct br_transfer){
        .tag = br_tag_p2p(0, BR_CREDITS, 7), .peer = 1, .memory = data, .length = 8};
    assert_int_equal(br_transfer_send(x.w, &waits), 0);
    wired_turn(&x, 0);
    assert_int_equal(waits.state, BR_TRANSFER_QUEUED);
    wired_say(&x, 0,
              &(struct br_message){.type = BR_MESSAGE_ACK,
                                   .ack = {.arrived = BR_CREDITS, .released = BR_CREDITS}});
    assert_int_equal(waits.state, BR_TRANSFER_ENDED);
    assert_true(send_at_once(&x, BR_CREDITS + 1, 8));
    assert_int_equal(x.w->peers[1].streams[1].sequence, BR_CREDITS + 2);
    wired_destroy(&x);
}

/* Only to where one rail leads, and not when the worker has failed. */
static void send__not_to_everybody(void **state)
{
    struct wired x;

    (void)state;
    wired_create(&x, 0, 2, NULL);
    assert_false(br_worker_is_near(x.w, 1));
    assert_false(send_at_once(&x, 0, 8));
    wired_destroy(&x);
    near_create(&x);
    assert_true(br_worker_is_near(x.w, 1));
    assert_false(br_worker_is_near(x.w, 0));
    br_worker_fail(x.w, EIO, "the test says so");
    assert_false(send_at_once(&x, 0, 8));
    wired_destroy(&x);
}

/* Where a poll has to follow for the message to leave, a pass is due. */
static void send__over_a_network(void **state)
{
    struct wired x;

    (void)state;
    for (int unsent = 0; unsent < 2; unsent++) {
        wired_create(&x, 0, 1, NULL);
        x.links[0]->link.device->unsent = unsent;
        assert_false(br_worker_is_near(x.w, 1));
        assert_true(send_at_once(&x, 0, 8));
        assert_non_null(wire_take(x.links[0], BR_MESSAGE_EAGER));
        assert_false(x.links[0]->link.alone);
        assert_int_equal(br_worker_is_due(x.w), unsent);
        wired_destroy(&x);
    }
}

/* The device knows of a message whose owner has nothing else to send with it, or that may be one of
 * a stream. */
static void transfer__alone(void **state)
{
    struct wired x;

    (void)state;
    wired_create(&x, 0, 1, NULL);
    for (int alone = 0; alone < 2; alone++) {
        struct br_transfer t = {.tag = br_tag_collective(0, (uint64_t)alone, 0, 0),
                                .peer = 1,
                                .memory = data,
                                .length = 8,
                                .alone = alone,
                                .streamed = !alone};
        const struct wire_frame *frame;

        assert_int_equal(br_transfer_send(x.w, &t), 0);
        assert_int_equal(t.state, BR_TRANSFER_ENDED);
        assert_ptr_equal(br_worker_done(x.w), &t);
        frame = wire_take(x.links[0], BR_MESSAGE_EAGER);
        assert_non_null(frame);
        assert_int_equal(frame->alone, alone);
        assert_int_equal(frame->streamed, !alone);
        assert_false(x.links[0]->link.alone || x.links[0]->link.streamed);
    }
    wired_destroy(&x);
}

/* A copy is kept of what may have to be sent again: not where the peer has one rail only, whose
 * device copies it. */
static void send__keeps_what_may_go_again(void **state)
{
    struct wired x;

    (void)state;
    for (int near = 0; near < 2; near++) {
        const struct wire_frame *frame;
        const struct br_retained *keep;

        if (near)
            near_create(&x);
        else
            wired_create(&x, 0, 1, NULL);
        keep = x.w->peers[1].rails[0].retained;
        assert_true(send_at_once(&x, 0, sizeof data));
        frame = wire_take(x.links[0], BR_MESSAGE_EAGER);
        assert_non_null(frame);
        assert_ptr_equal(frame->frame.payload, near ? data : keep->memory);
        assert_int_equal(!keep->memory, near);
        wired_cut(&x, 0); /* the peer is lost with it: nothing waits to be sent again */
        if (near)
            assert_true(br_list_empty(&x.w->peers[1].streams[1].resend));
        assert_int_equal(x.w->failed, -ECONNRESET);
        wired_destroy(&x);
    }
}

/* Sends a transfer; returns the frame in which it has left, on whichever rail. */
static const struct br_frame *leaves(struct wired *x, int rails, struct br_transfer *t,
                                     uint64_t number, uint32_t length, bool alone)
{
    const struct wire_frame *frame = NULL;

    *t = (struct br_transfer){.tag = br_tag_p2p(0, number, 7),
                              .peer = 1,
                              .memory = big,
                              .length = length,
                              .alone = alone};
    assert_int_equal(br_transfer_send(x->w, t), 0);
    wired_turn(x, 0);
    assert_int_equal(t->state, BR_TRANSFER_ENDED);
    for (int i = 0; i < rails && !frame; i++)
        frame = wire_take(x->links[i], BR_MESSAGE_EAGER);
    assert_non_null(frame);
    return &frame->frame;
}

/* Of the only rail to a peer the payload is read where it is, if the device copies what does not
 * leave: of each message that leaves at once, and of every large one. */
static void send__copies_nothing_that_leaves(void **state)
{
    static struct br_transfer small, large;
    struct br_caps caps = wire_caps(false);

    (void)state;
    caps.spares = true;
    caps.max_message = sizeof big;
    for (int rails = 1; rails <= 2; rails++) {
        const struct br_frame *frame;
        struct wired x;

        wired_create(&x, 0, rails, &caps);
        if (rails == 1) {
            const struct br_retained *keep = x.w->peers[1].rails[0].retained;

            assert_true(send_at_once(&x, 0, sizeof data));
            frame = &wire_take(x.links[0], BR_MESSAGE_EAGER)->frame;
            assert_ptr_equal(frame->payload, data);
            assert_ptr_equal(frame->spare, keep->memory);
        }
        frame = leaves(&x, rails, &small, 1, sizeof data, false);
        assert_null(frame->spare);
        assert_ptr_not_equal(frame->payload, big);
        frame = leaves(&x, rails, &small, 2, sizeof data, true);
        assert_int_equal(frame->spare != NULL, rails == 1);
        assert_int_equal(frame->payload == big, rails == 1);
        if (rails == 1) {
            small = (struct br_transfer){.tag = br_tag_p2p(0, 4, 7),
                                         .peer = 1,
                                         .memory = big,
                                         .length = sizeof data,
                                         .streamed = true};
            assert_int_equal(br_transfer_send(x.w, &small), 0);
            assert_non_null(wire_take(x.links[0], BR_MESSAGE_EAGER)->frame.spare);
            x.w->peers[1].eager_p2p = sizeof big;
            frame = leaves(&x, rails, &large, 3, sizeof big, false);
            assert_non_null(frame->spare);
            assert_ptr_equal(frame->payload, big);
            wired_cut(&x, 0); /* the peer is lost with it: nothing waits to be sent again */
            assert_true(br_list_empty(&x.w->peers[1].streams[1].resend));
        }
        wired_destroy(&x);
    }
}

/* Also of a peer whose memory is mapped when there is another rail to it: what is lost goes there,
 * as it was posted. */
static void send__near_over_two_rails(void **state)
{
    struct br_caps caps = wire_caps(true);
    struct br_transfer t = {.tag = br_tag_p2p(0, 0, 7), .peer = 1, .memory = to, .length = 100};
    const struct wire_frame *again;
    struct wired x;

    (void)state;
    caps.maps = true;
    wired_create(&x, 0, 2, &caps);
    memset(to, 3, sizeof to);
    assert_int_equal(br_transfer_send(x.w, &t), 0);
    assert_int_equal(t.state, BR_TRANSFER_ENDED);
    memset(to, 4, sizeof to);
    for (int i = 0; i < 2; i++)
        if (x.w->peers[1].rails[i].sent) {
            wired_cut(&x, i);
            again = wire_take(x.links[1 - i], BR_MESSAGE_EAGER);
            assert_non_null(again);
            assert_int_equal(again->frame.length, 100);
            assert_int_equal(again->payload[0], 3);
            break;
        }
    wired_destroy(&x);
}

/* Two priorities within a while share the rails of a network, as those of transfers do. */
static void send__shows_its_priority(void **state)
{
    struct wired x;

    (void)state;
    for (int near = 0; near < 2; near++) {
        if (near)
            near_create(&x);
        else
            wired_create(&x, 0, 1, NULL);
        wired_turn(&x, 1); /* a time that is not 0 */
        assert_true(send_at_once(&x, 0, 8));
        assert_int_equal(x.w->shared_until, 0);
        assert_true(br_worker_send_at_once(x.w, 1, br_tag_p2p(0, 1, 7), 5, data, 8, 9));
        assert_int_equal(x.w->shared_until, near ? 0 : x.w->now + BR_SHARED_PERIOD);
        wired_destroy(&x);
    }
}

static struct br_awaited await(const struct wired *x, uint64_t number, uint32_t length)
{
    return (struct br_awaited){.tag = br_tag_p2p(0, number, 7),
                               .rank = x->peer,
                               .length = length,
                               .check = 5,
                               .memory = to};
}

static void receive__what_is_here(void **state)
{
    struct br_awaited one, longer, other;
    struct wired x;

    (void)state;
    near_create(&x);
    one = await(&x, 0, 100);
    longer = await(&x, 0, 101);
    other = await(&x, 0, 100);
    other.check = 4;
    assert_int_equal(br_worker_receive(x.w, &one, false), BR_RECEIVED_NOT);
    peer_says(&x, 0, one.tag, 100);
    wired_turn(&x, 0);
    assert_int_equal(x.wires[0].buffers, 1);
    assert_int_equal(br_worker_receive(x.w, &longer, false),
                     BR_RECEIVED_NOT); /* its transfer says so */
    assert_int_equal(br_worker_receive(x.w, &other, false), BR_RECEIVED_NOT);
    assert_int_equal(br_worker_receive(x.w, &other, true), BR_RECEIVED_NOT); /* nor awaited */
    assert_int_equal(br_worker_receive(x.w, &one, true), BR_RECEIVED);
    assert_memory_equal(to, data, 100);
    assert_int_equal(x.wires[0].buffers, 0);
    assert_int_equal(x.w->unexpected.n_used, 0);
    assert_true(br_list_empty(&x.w->arrivals));
    assert_int_equal(br_worker_receive(x.w, &one, false), BR_RECEIVED_NOT);
    wired_destroy(&x);
}

/* Neither a large message, nor what does not come from memory that is mapped, nor what may wait for
 * a credit at its sender. */
static void await__not_everything(void **state)
{
    struct br_awaited awaited;
    struct wired x;

    (void)state;
    near_create(&x);
    awaited = await(&x, 0, x.w->config.eager_bytes + 1);
    assert_int_equal(br_worker_receive(x.w, &awaited, true), BR_RECEIVED_NOT);
    wired_destroy(&x);
    wired_create(&x, 0, 1, NULL);
    awaited = await(&x, 0, 8);
    assert_int_equal(br_worker_receive(x.w, &awaited, true), BR_RECEIVED_NOT);
    wired_destroy(&x);
    near_create(&x);
    for (uint32_t i = 0; i < BR_CROWDED; i++) {
        awaited = await(&x, 1000 + i, 8);
        assert_int_equal(br_worker_receive(x.w, &awaited, true), BR_RECEIVED_LATER);
        br_list_remove(&awaited.node);
        peer_says(&x, i, br_tag_p2p(0, i, 7), 8);
        wired_turn(&x, 0);
    }
    assert_int_equal(br_worker_receive(x.w, &awaited, true), BR_RECEIVED_NOT);
    wired_destroy(&x);
}

/* From the receive buffer to its place. One that comes before it waits for its receive, and one
 * behind it has not been taken in. */
static void look__finds_what_is_awaited(void **state)
{
    struct br_awaited awaited;
    struct wired x;

    (void)state;
    near_create(&x);
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t length = i ? 1000 : 8;

        awaited = await(&x, 3 * i + 1, length);
        assert_int_equal(br_worker_receive(x.w, &awaited, true), BR_RECEIVED_LATER);
        br_worker_look(x.w, &awaited, x.now);
        assert_false(awaited.came);
        peer_says(&x, 3 * i, br_tag_p2p(0, 3 * i, 7), 8);
        br_worker_look(x.w, &awaited, x.now);
        assert_false(awaited.came);
        peer_says(&x, 3 * i + 1, awaited.tag, length);
        peer_says(&x, 3 * i + 2, br_tag_p2p(0, 3 * i + 2, 7), 8);
        br_worker_look(x.w, &awaited, x.now);
        assert_true(awaited.came);
        assert_true(br_list_empty(&x.w->peers[1].awaited));
        assert_memory_equal(to, data, length);
        assert_int_equal(x.w->unexpected.n_used, 2 * i + 1);
        wired_turn(&x, 0);
        assert_int_equal(x.w->unexpected.n_used, 2 * i + 2);
        assert_int_equal(x.wires[0].buffers, 2 * i + 2);
    }
    wired_destroy(&x);
}

/* Several at a time, which come in another order, as they are of other tags. */
static void await__several(void **state)
{
    static const uint32_t order[] = {2, 0, 1};
    struct br_list ended;
    struct br_awaited several[4];
    struct wired x;

    (void)state;
    near_create(&x);
    br_list_init(&ended);
    for (uint32_t i = 0; i < 4; i++) {
        several[i] = await(&x, i, 8 + i);
        several[i].ended = &ended;
        several[i].memory = to + 100 * i;
        assert_int_equal(br_worker_receive(x.w, &several[i], true), BR_RECEIVED_LATER);
    }
    br_list_remove(&several[3].node); /* its owner makes a transfer of it */
    for (uint32_t i = 0; i < 3; i++)
        peer_says(&x, i, several[order[i]].tag, several[order[i]].length);
    peer_says(&x, 3, several[3].tag, several[3].length);
    wired_turn(&x, 0);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(several[i].came);
        assert_memory_equal(several[i].memory, data, several[i].length);
        assert_ptr_equal(br_list_pop_front(&ended), &several[order[i]].node);
    }
    assert_true(br_list_empty(&ended));
    assert_false(several[3].came);
    assert_int_equal(x.w->unexpected.n_used, 1);
    assert_int_equal(x.wires[0].buffers, 1);
    wired_destroy(&x);
}

/* It is kept as it is, for the transfer that goes on, which disagrees. */
static void look__another_message(void **state)
{
    struct br_message large = {.type = BR_MESSAGE_ANNOUNCE,
                               .tag = br_tag_p2p(0, 0, 7),
                               .bytes = 100000,
                               .waiting = {.total = 100000}};
    struct br_awaited awaited;
    struct br_transfer t;
    struct wired x;

    (void)state;
    for (int announced = 0; announced < 2; announced++) {
        near_create(&x);
        awaited = await(&x, 0, 8);
        assert_int_equal(br_worker_receive(x.w, &awaited, true), BR_RECEIVED_LATER);
        if (announced)
            wire_message(x.links[0], &large, NULL, 0);
        else
            peer_says(&x, 0, awaited.tag, 9);
        br_worker_look(x.w, &awaited, x.now);
        assert_false(awaited.came);
        assert_int_equal(x.w->unexpected.n_used, 1);
        br_list_remove(&awaited.node);
        t = (struct br_transfer){
            .tag = awaited.tag, .peer = 1, .memory = to, .length = 8, .check = 5};
        assert_int_equal(br_transfer_receive(x.w, &t), 0);
        assert_int_equal(x.w->failed, -EPROTO);
        wired_destroy(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(send__leaves_as_any_other),
        cmocka_unit_test(send__collectives_keep_their_limit),
        cmocka_unit_test(send__overtakes_nothing),
        cmocka_unit_test(send__not_to_everybody),
        cmocka_unit_test(send__over_a_network),
        cmocka_unit_test(transfer__alone),
        cmocka_unit_test(send__keeps_what_may_go_again),
        cmocka_unit_test(send__copies_nothing_that_leaves),
        cmocka_unit_test(send__near_over_two_rails),
        cmocka_unit_test(send__shows_its_priority),
        cmocka_unit_test(receive__what_is_here),
        cmocka_unit_test(await__not_everything),
        cmocka_unit_test(await__several),
        cmocka_unit_test(look__finds_what_is_awaited),
        cmocka_unit_test(look__another_message),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
