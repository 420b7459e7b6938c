/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of a stream that leave together: the kernel holds them until the peer has read, and not
 * while the sender waits. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "ends.h"

#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

#define LENGTH 20 /* bytes of a message */

static struct br_tcp_link *tcp_link;
static struct br_tcp_device *device;

static int open_connection(void **state)
{
    int rc = ends_set_up(state);

    if (rc)
        return rc;
    tcp_link = (struct br_tcp_link *)ends_connect();
    device = (struct br_tcp_device *)ends_a.device;
    return 0;
}

static void send_at_once(void)
{
    tcp_link->base.alone = true;
    assert_int_equal(ends_message(&tcp_link->base, LENGTH), 1);
    tcp_link->base.alone = false;
    assert_true(tcp_link->tx.sent == tcp_link->tx.posted);
}

/* Bytes that the sender's kernel holds. */
static int unsent(void)
{
    int bytes;

    assert_int_equal(ioctl(tcp_link->fd, SIOCOUTQNSD, &bytes), 0);
    return bytes;
}

/* Sends without anybody reading until something is held. Returns how many messages have been sent
 * in all. Begins again where the timer of delayed ACKs came in between. */
static int hold_some(void)
{
    int sent = ends_b.n_messages;

    for (int i = 0; !tcp_link->holds || !unsent(); i++) {
        assert_true(i < 10000);
        send_at_once();
        sent++;
        if (sent - ends_b.n_messages > BR_STREAM_QUEUE / 2)
            ends_until(&ends_b.n_messages, sent);
    }
    assert_true(device->holds);
    return sent;
}

static void assert_nothing_is_held(void)
{
    assert_false(tcp_link->holds || device->holds);
    for (int i = 0; unsent(); i++) /* a kernel may take ACKs in a thread of its own */
        assert_true(i < 10000000);
}

static void send_link__holds_messages_of_a_stream_until_the_peer_has_read(void **state)
{
    int sent = hold_some();

    (void)state;
    for (int i = 0; ends_b.n_messages < sent; i++) { /* the sender makes no poll */
        assert_true(i < 100000000);
        ends_step(&ends_b, BR_TCP_EVENTS);
    }
    assert_int_equal(unsent(), 0);
    assert_true(tcp_link->holds);
    ends_until(&ends_a.n_sent, sent);
}

static void send_link__a_passing_poll_is_no_wait(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        send_at_once();
        ends_step(&ends_a, BR_TCP_EVENTS);
    }
    assert_true(tcp_link->holds && device->holds);
    ends_until(&ends_b.n_messages, 20);
}

static void send_link__holds_nothing_of_a_sender_that_waits_in_between(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        send_at_once();
        assert_nothing_is_held();
        ends_step(&ends_a, BR_TCP_EVENTS);
        ends_step(&ends_a, BR_TCP_EVENTS);
    }
    ends_until(&ends_b.n_messages, 20);
}

static void send_link__holds_nothing_of_a_short_burst(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        send_at_once();
        assert_nothing_is_held();
    }
    ends_until(&ends_b.n_messages, 8);
}

/* As behind a barrier whose message is there when the rank looks for it. */
static void send_link__holds_nothing_where_a_poll_sends_in_between(void **state)
{
    (void)state;
    for (int i = 0; i < 12; i++) {
        send_at_once();
        assert_nothing_is_held();
        assert_int_equal(ends_message(&tcp_link->base, LENGTH), 1);
        ends_step(&ends_a, BR_TCP_EVENTS);
        assert_true(tcp_link->tx.sent == tcp_link->tx.posted);
    }
    ends_until(&ends_b.n_messages, 24);
}

/* Those that may be followed by others, with a spare or without: at once in a stream, else by the
 * next poll. */
static void send_streamed__leaves_at_once_in_a_stream_only(void **state)
{
    static uint8_t spare[20][LENGTH];

    (void)state;
    for (int round = 0; round < 4; round++) {
        int polls = 1 + round % 2;

        for (int i = 0; i < 20; i++) {
            struct br_frame frame = {.kind = BR_FRAME_MESSAGE,
                                     .payload = ends_source,
                                     .length = LENGTH,
                                     .spare = round < 2 ? NULL : spare[i],
                                     .cookie = 1};

            tcp_link->base.streamed = true;
            assert_int_equal(ends_ops->post(&tcp_link->base, &frame, 1), 1);
            tcp_link->base.streamed = false;
            assert_int_equal(tcp_link->tx.sent == tcp_link->tx.posted, polls == 1 && i > 0);
            if (polls == 2)
                assert_nothing_is_held();
            for (int k = 0; k < polls; k++)
                ends_step(&ends_a, BR_TCP_EVENTS);
            assert_true(tcp_link->tx.sent == tcp_link->tx.posted);
        }
        ends_until(&ends_b.n_messages, 20 * (round + 1));
        for (int k = 0; k < 3; k++) /* it waits */
            ends_step(&ends_a, BR_TCP_EVENTS);
    }
}

/* What is queued in front does not ask to be acknowledged at once. */
static void send_link__holds_nothing_behind_what_waits_for_something_else(void **state)
{
    unsigned int rate = 1000; /* bytes/s: one message in some 70 ms */
    int queued = 0;

    (void)state;
    for (int i = 0; i < 12; i++) { /* the kernel does not pace the first 10 */
        send_at_once();
        ends_step(&ends_a, BR_TCP_EVENTS);
        ends_step(&ends_a, BR_TCP_EVENTS);
    }
    assert_int_equal(setsockopt(tcp_link->fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate),
                     0);
    for (int i = 0; i < 20 && !tcp_link->holds; i++) {
        send_at_once();
        if (unsent() && i >= 10) {
            queued++;
            assert_false(tcp_link->holds);
        }
    }
    assert_true(queued);
}

/* The payload is the caller's when post() returns, also what the socket did not take. */
static void link_post__keeps_the_rest_of_a_message_with_a_spare(void **state)
{
    static uint8_t text[ENDS_MESSAGE_BYTES], spares[BR_STREAM_QUEUE][ENDS_MESSAGE_BYTES];
    int small = 4096, kept = 0, sent = 0;

    (void)state;
    setsockopt(tcp_link->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    while (sent < BR_STREAM_QUEUE * 16 && kept < 3) {
        uint8_t *spare = spares[sent % BR_STREAM_QUEUE];
        struct br_frame frame = {.kind = BR_FRAME_MESSAGE,
                                 .payload = text,
                                 .length = sizeof text,
                                 .cookie = 1,
                                 .spare = spare};

        memset(text, sent, sizeof text);
        memset(spare, ~sent, sizeof text);
        assert_int_equal(ends_ops->post(&tcp_link->base, &frame, 1), 1);
        memset(text, ~sent, sizeof text);
        sent++;
        kept += tcp_link->tx.sent != tcp_link->tx.posted;
        if (!kept)
            ends_step(&ends_a, BR_TCP_EVENTS);
    }
    assert_int_equal(kept, 3);
    for (int i = 0; i < sent; i++) {
        const uint8_t *payload;

        ends_b.hold = true;
        for (int tries = 0; ends_b.n_messages == i; tries++) {
            assert_true(tries < 100000000);
            ends_step(&ends_a, BR_TCP_EVENTS);
            ends_step(&ends_b, 1);
        }
        payload = ends_b.last_message.payload;
        for (size_t k = 0; k < sizeof text; k++)
            assert_int_equal(payload[k], (uint8_t)i);
        ends_ops->release(ends_b.device, ends_b.links[0], ends_b.last_message.buffer);
    }
}

static void poll__acknowledges_what_asks_for_it(void **state)
{
    struct br_tcp_link *peer = (struct br_tcp_link *)ends_b.links[0];
    int off = 0, quick, sent;
    socklen_t bytes = sizeof quick;

    (void)state;
    sent = hold_some();
    assert_int_equal(setsockopt(peer->fd, IPPROTO_TCP, TCP_QUICKACK, &off, sizeof off), 0);
    ends_until(&ends_b.n_messages, sent);
    assert_false(peer->rx.ack_now);
    assert_int_equal(getsockopt(peer->fd, IPPROTO_TCP, TCP_QUICKACK, &quick, &bytes), 0);
    assert_int_equal(quick, 1);
}

static void poll__sends_what_is_held_when_the_sender_waits(void **state)
{
    int sent = hold_some();

    (void)state;
    ends_step(&ends_a, 8);
    assert_true(tcp_link->holds && device->holds);
    ends_step(&ends_a, 8);
    assert_nothing_is_held();
    ends_until(&ends_b.n_messages, sent);
}

static void poll__what_it_sends_is_not_held(void **state)
{
    int sent = hold_some();

    (void)state;
    assert_int_equal(ends_message(&tcp_link->base, LENGTH), 1);
    ends_step(&ends_a, 8);
    assert_nothing_is_held();
    ends_until(&ends_b.n_messages, sent + 1);
}

static void link_close__delivers_what_is_held(void **state)
{
    int sent = hold_some();

    (void)state;
    ends_ops->link_close(&tcp_link->base);
    ends_until(&ends_b.n_closed, 1);
    assert_int_equal(ends_b.n_messages, sent);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, open_connection, ends_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(send_link__holds_messages_of_a_stream_until_the_peer_has_read),
        TEST(send_link__a_passing_poll_is_no_wait),
        TEST(send_link__holds_nothing_of_a_sender_that_waits_in_between),
        TEST(send_link__holds_nothing_of_a_short_burst),
        TEST(send_link__holds_nothing_where_a_poll_sends_in_between),
        TEST(send_streamed__leaves_at_once_in_a_stream_only),
        TEST(send_link__holds_nothing_behind_what_waits_for_something_else),
        TEST(link_post__keeps_the_rest_of_a_message_with_a_spare),
        TEST(poll__acknowledges_what_asks_for_it),
        TEST(poll__sends_what_is_held_when_the_sender_waits),
        TEST(poll__what_it_sends_is_not_held),
        TEST(link_close__delivers_what_is_held),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
