/* SPDX-License-Identifier: BSD-3-Clause */
/* Small frames to a peer that is behind, where ranks share cores: the kernel keeps them, but not
 * for long, and not while the sender may sleep. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "ends.h"

#include <linux/sockios.h>
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
    ends_a.config.shared_cores = true;
    return 0;
}

static void send_at_once(void)
{
    tcp_link->base.alone = true;
    assert_int_equal(ends_message(&tcp_link->base, LENGTH), 1);
    tcp_link->base.alone = false;
    assert_true(tcp_link->tx.sent == tcp_link->tx.posted);
}

static void read_all(int sent)
{
    ends_until(&ends_b.n_messages, sent);
    assert_int_equal(ends_b.n_messages, sent);
}

/* Bytes that the sender's kernel keeps. */
static int unsent(void)
{
    int bytes;

    assert_int_equal(ioctl(tcp_link->fd, SIOCOUTQNSD, &bytes), 0);
    return bytes;
}

/* Sends without anybody reading until two messages are kept. Returns how many have been sent in
 * all. Begins again where the timer of delayed ACKs came in between. */
static int keep_two(void)
{
    int sent = ends_b.n_messages, kept = 0;

    for (int i = 0; kept < 2; i++) {
        assert_true(i < 10000);
        send_at_once();
        sent++;
        kept = tcp_link->behind.kept ? kept + 1 : 0;
        if (sent - ends_b.n_messages > BR_STREAM_QUEUE / 2)
            read_all(sent);
    }
    assert_true(device->keeps);
    return sent;
}

static void send_link__keeps_frames_until_the_peer_has_read(void **state)
{
    int sent, bytes;

    (void)state;
    do {
        read_all(sent = keep_two());
        sent = keep_two();
        bytes = unsent();
        br_tcp_behind_check(&tcp_link->behind, tcp_link->fd);
    } while (!tcp_link->behind.is_behind); /* else the peer's kernel has acknowledged what it has */
    assert_int_equal(bytes, 2 * (int)(sizeof(struct br_frame_header) + LENGTH));
    read_all(sent);
    ends_until(&ends_a.n_sent, sent);
}

static void poll__pushes_what_was_kept_for_a_while(void **state)
{
    int sent = keep_two();

    (void)state;
    ends_step(&ends_a, 8);
    ends_step(&ends_a, 8);
    assert_true(tcp_link->behind.kept && device->keeps);
    ends_a.now += BR_TCP_KEPT_MOST;
    ends_step(&ends_a, 8);
    assert_false(tcp_link->behind.kept || device->keeps);
    assert_int_equal(unsent(), 0);
    read_all(sent);
}

static void poll__what_it_sends_takes_along_what_was_kept(void **state)
{
    int sent = keep_two();

    (void)state;
    assert_int_equal(ends_message(&tcp_link->base, LENGTH), 1);
    ends_step(&ends_a, 8);
    assert_false(tcp_link->behind.kept || device->keeps);
    assert_int_equal(unsent(), 0);
    read_all(sent + 1);
}

static void arm__nothing_is_kept_while_the_sender_may_sleep(void **state)
{
    int sent = keep_two();

    (void)state;
    for (int i = 0; ends_ops->arm(ends_a.device) < 0; i++) {
        assert_true(i < 1000);
        ends_step(&ends_a, BR_TCP_EVENTS);
    }
    assert_false(tcp_link->behind.kept || device->keeps);
    assert_int_equal(unsent(), 0);
    tcp_link->behind.is_behind = true;
    send_at_once();
    assert_false(tcp_link->behind.kept || device->keeps);
    read_all(sent + 1);
}

static void link_close__delivers_what_is_kept(void **state)
{
    int sent = keep_two();

    (void)state;
    ends_ops->link_close(&tcp_link->base);
    ends_until(&ends_b.n_closed, 1);
    assert_int_equal(ends_b.n_messages, sent);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, open_connection, ends_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(send_link__keeps_frames_until_the_peer_has_read),
        TEST(poll__pushes_what_was_kept_for_a_while),
        TEST(poll__what_it_sends_takes_along_what_was_kept),
        TEST(arm__nothing_is_kept_while_the_sender_may_sleep),
        TEST(link_close__delivers_what_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
