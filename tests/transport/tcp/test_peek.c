/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that are received and stay in the socket until the next receive (tcp.h, note 11). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "ends.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define LENGTH 20 /* bytes of a message */
#define FRAME  ((int)sizeof(struct br_frame_header) + LENGTH)

static struct br_link *from;     /* a's */
static struct br_tcp_link *into; /* b's */

static int open_connection(void **state)
{
    int rc = ends_set_up(state);

    if (rc)
        return rc;
    from = ends_connect();
    into = (struct br_tcp_link *)ends_b.links[0];
    return 0;
}

/* What stands in the socket of b. */
static int in_socket(void)
{
    int bytes;

    assert_int_equal(ioctl(into->fd, FIONREAD, &bytes), 0);
    return bytes;
}

/* a sends what it has posted, and all of it comes to the socket. */
static void send_posted(int bytes_in_socket)
{
    const struct br_tcp_link *sender = (const struct br_tcp_link *)from;

    while (sender->tx.sent != sender->tx.posted)
        ends_step(&ends_a, BR_TCP_EVENTS);
    for (int i = 0; in_socket() < bytes_in_socket && i < 60000; i++)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    assert_int_equal(in_socket(), bytes_in_socket);
}

/* Sends a message, which b does not read before it is in the socket, behind `before` bytes. */
static void send_one(int before)
{
    assert_int_equal(ends_message(from, LENGTH), 1);
    send_posted(before + FRAME);
}

/* b has had a message without an answer, and peeks at the second one. */
static void peek_at_second(void)
{
    send_one(0);
    ends_step(&ends_b, BR_TCP_EVENTS);
    assert_int_equal(ends_b.n_messages, 1);
    assert_int_equal(into->peeked, 0);
    send_one(0);
    ends_step(&ends_b, BR_TCP_EVENTS);
    assert_int_equal(ends_b.n_messages, 2);
    assert_int_equal(into->peeked, FRAME);
    assert_int_equal(in_socket(), FRAME);
}

static void poll__peeks_until_the_next_poll(void **state)
{
    (void)state;
    peek_at_second();
    assert_int_equal(ends_ops->arm(ends_b.device), -EAGAIN); /* nobody sleeps on it */
    ends_step(&ends_b, BR_TCP_EVENTS);
    assert_int_equal(into->peeked, 0);
    assert_int_equal(in_socket(), 0);
    assert_int_equal(ends_b.n_messages, 2);
    assert_null(into->ahead);
}

static void poll__takes_out_what_it_peeked_at_with_what_follows(void **state)
{
    (void)state;
    peek_at_second();
    send_one(FRAME);
    send_one(2 * FRAME);
    ends_step(&ends_b, BR_TCP_EVENTS);
    assert_int_equal(ends_b.n_messages, 4);
    assert_int_equal(into->peeked, 0);
    assert_int_equal(in_socket(), 0);
    assert_memory_equal(ends_b.last_message.payload, ends_source, LENGTH);
}

/* An answer has the ACK with it. */
static void poll__does_not_peek_behind_an_answer(void **state)
{
    (void)state;
    send_one(0);
    ends_until(&ends_b.n_messages, 1);
    assert_int_equal(ends_message(&into->base, LENGTH), 1);
    ends_until(&ends_a.n_messages, 1);
    send_one(0);
    ends_step(&ends_b, BR_TCP_EVENTS);
    assert_int_equal(ends_b.n_messages, 2);
    assert_int_equal(into->peeked, 0);
}

static void poll__does_not_peek_with_several_links(void **state)
{
    (void)state;
    ends_connect();
    for (int i = 1; i <= 3; i++) {
        send_one(0);
        ends_until(&ends_b.n_messages, i);
        assert_int_equal(into->peeked, 0);
    }
}

/* The kernel acknowledges only what has left the socket, and the sender holds what follows. */
static void poll__takes_out_at_once_what_asks_for_an_ack(void **state)
{
    struct br_tcp_link *sender = (struct br_tcp_link *)from;

    (void)state;
    send_one(0);
    ends_step(&ends_b, BR_TCP_EVENTS);
    sender->sent_row = 100; /* as in a stream */
    sender->sent_poll = ((struct br_tcp_device *)ends_a.device)->n_polls;
    from->alone = true;
    send_one(0);
    from->alone = false;
    assert_true(sender->holds);
    ends_step(&ends_b, BR_TCP_EVENTS);
    assert_int_equal(ends_b.n_messages, 2);
    assert_true(into->rx.asks);
    assert_false(into->rx.ack_now);
    assert_int_equal(into->peeked, 0);
    assert_int_equal(in_socket(), 0);
}

/* A peek at such a frame is in vain, so the next ones are rare. */
static void poll__does_not_peek_behind_a_frame_longer_than_what_is_read_ahead(void **state)
{
    struct br_frame frame = {
        .kind = BR_FRAME_DATA, .payload = ends_source, .length = 2 * BR_TCP_AHEAD};

    (void)state;
    frame.slot = br_slot_number(&ends_b.slots,
                                br_slot_get(&ends_b.slots, ends_place, frame.length, frame.length));
    send_one(0);
    ends_until(&ends_b.n_messages, 1);
    assert_int_equal(ends_ops->post(from, &frame, 1), 1);
    send_posted((int)(sizeof(struct br_frame_header) + frame.length));
    ends_until(&ends_b.n_data_frames, 1);
    assert_memory_equal(ends_place, ends_source, frame.length);
    assert_true(into->unpeeked > 0);
    assert_int_equal(into->peeked, 0);
    send_one(0);
    ends_step(&ends_b, BR_TCP_EVENTS);
    assert_int_equal(ends_b.n_messages, 2);
    assert_int_equal(into->peeked, 0);
}

static void poll__peeked_message_before_a_large_payload(void **state)
{
    struct br_frame frame = {
        .kind = BR_FRAME_DATA, .payload = ends_source, .length = ENDS_PLACE_BYTES};

    (void)state;
    peek_at_second();
    frame.slot = br_slot_number(
        &ends_b.slots, br_slot_get(&ends_b.slots, ends_place, ENDS_PLACE_BYTES, ENDS_PLACE_BYTES));
    assert_int_equal(ends_ops->post(from, &frame, 1), 1);
    ends_until(&ends_b.n_data_frames, 1);
    assert_memory_equal(ends_place, ends_source, ENDS_PLACE_BYTES);
    assert_int_equal(ends_b.n_messages, 2);
}

static void poll__peeked_message_before_the_end(void **state)
{
    (void)state;
    peek_at_second();
    ends_ops->link_close(from);
    ends_until(&ends_b.n_closed, 1);
    assert_int_equal(ends_b.n_messages, 2);
}

/* What b has sent arrives though b closes: a socket with unread bytes would end by a reset, which
 * drops what has not reached the peer's kernel. */
static void link_close__of_what_was_peeked_at_keeps_what_was_sent(void **state)
{
    struct br_frame frame = {.kind = BR_FRAME_DATA, .payload = ends_source, .length = 64 << 10};
    int sent;

    (void)state;
    frame.slot = br_slot_number(
        &ends_a.slots, br_slot_get(&ends_a.slots, ends_place, ENDS_PLACE_BYTES, ENDS_PLACE_BYTES));
    peek_at_second();
    for (int i = 0; i < 60; i++, frame.offset += frame.length)
        assert_int_equal(ends_ops->post(&into->base, &frame, 1), 1);
    br_tcp_send_pending((struct br_tcp_device *)ends_b.device);
    sent = (int)into->tx.sent;
    assert_true(sent > 0);
    assert_int_equal(into->peeked, FRAME);
    ends_ops->link_close(&into->base);
    ends_until(&ends_a.n_closed, 1);
    assert_int_equal(ends_a.n_data_frames, sent);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, open_connection, ends_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(poll__peeks_until_the_next_poll),
        TEST(poll__takes_out_what_it_peeked_at_with_what_follows),
        TEST(poll__does_not_peek_behind_an_answer),
        TEST(poll__does_not_peek_with_several_links),
        TEST(poll__takes_out_at_once_what_asks_for_an_ack),
        TEST(poll__does_not_peek_behind_a_frame_longer_than_what_is_read_ahead),
        TEST(poll__peeked_message_before_a_large_payload),
        TEST(poll__peeked_message_before_the_end),
        TEST(link_close__of_what_was_peeked_at_keeps_what_was_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
