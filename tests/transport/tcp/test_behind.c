/* SPDX-License-Identifier: BSD-3-Clause */
/* Small sends that the kernel keeps while the peer is behind. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "transport/tcp/behind.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define MESSAGE 72 /* bytes */

static int sender, reader;
static struct br_tcp_behind behind;

static int open_connection(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;

    (void)state;
    sender = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
    assert_int_equal(connect(sender, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(setsockopt(sender, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
    reader = accept(listener, NULL, NULL);
    assert_true(reader >= 0);
    close(listener);
    behind = (struct br_tcp_behind){0};
    return 0;
}

static int close_connection(void **state)
{
    (void)state;
    close(sender);
    close(reader);
    return 0;
}

static void send_message(void)
{
    static const char message[MESSAGE];
    int flags = behind.is_behind ? MSG_MORE : 0;

    assert_int_equal(send(sender, message, MESSAGE, flags), MESSAGE);
    br_tcp_behind_sent(&behind, MESSAGE, flags);
}

/* Reads `messages`; hangs where they do not come. */
static void read_messages(int messages)
{
    char bytes[MESSAGE];

    while (messages--)
        assert_int_equal(recv(reader, bytes, MESSAGE, MSG_WAITALL), MESSAGE);
}

/* Bytes that the sender's kernel keeps. */
static int unsent(void)
{
    int bytes;

    assert_int_equal(ioctl(sender, SIOCOUTQNSD, &bytes), 0);
    return bytes;
}

static void wait_acknowledged(void)
{
    int bytes;

    do
        assert_int_equal(ioctl(sender, SIOCOUTQ, &bytes), 0);
    while (bytes);
}

/* Sends until the peer is behind: the first segments of a connection are acknowledged at once.
 * Returns how many messages were sent. */
static int fall_behind(void)
{
    int n = 0;

    while (!behind.is_behind) {
        send_message();
        br_tcp_behind_check(&behind, sender);
        assert_true(++n < 1000);
        assert_false(behind.kept);
    }
    return n;
}

/* false: the timer of delayed ACKs came in between. */
static bool keeps_four(int *sent)
{
    int bytes;

    *sent = fall_behind() + 4;
    for (int i = 0; i < 4; i++) {
        behind.is_behind = true;
        send_message();
    }
    bytes = unsent();
    br_tcp_behind_check(&behind, sender);
    if (behind.is_behind)
        assert_int_equal(bytes, 4 * MESSAGE);
    return behind.is_behind;
}

static void check__keeps_messages_until_the_peer_has_read(void **state)
{
    int tries = 0, sent;

    (void)state;
    while (!keeps_four(&sent)) {
        assert_true(++tries < 1000);
        read_messages(sent);
    }
    assert_true(behind.kept);
    read_messages(sent);
}

static void check__pushes_what_nobody_would_acknowledge(void **state)
{
    int n = fall_behind();

    (void)state;
    read_messages(n);
    wait_acknowledged();
    send_message();
    assert_true(behind.kept);
    assert_int_equal(br_tcp_behind_check(&behind, sender), 2);
    assert_false(behind.is_behind || behind.kept);
    assert_int_equal(unsent(), 0);
    read_messages(1);
}

static void push__after_a_while_or_before_a_sleep(void **state)
{
    int n = fall_behind();

    (void)state;
    send_message();
    assert_int_equal(br_tcp_behind_push(&behind, sender, 1000), 0);
    assert_int_equal(br_tcp_behind_push(&behind, sender, 999 + BR_TCP_KEPT_MOST), 0);
    assert_true(behind.kept);
    assert_int_equal(br_tcp_behind_push(&behind, sender, 1000 + BR_TCP_KEPT_MOST), 1);
    assert_false(behind.kept);
    assert_int_equal(unsent(), 0);
    send_message();
    assert_true(behind.kept);
    assert_int_equal(br_tcp_behind_push(&behind, sender, UINT64_MAX), 1);
    assert_int_equal(unsent(), 0);
    read_messages(n + 2);
}

static void streams__unless_the_rank_has_waited(void **state)
{
    (void)state;
    behind = (struct br_tcp_behind){.poll = 7, .is_behind = true};
    assert_true(br_tcp_behind_streams(&behind, 7) && behind.is_behind);
    assert_true(br_tcp_behind_streams(&behind, 8) && behind.is_behind);
    assert_false(br_tcp_behind_streams(&behind, 10) || behind.is_behind);
    behind.poll = UINT32_MAX;
    assert_true(br_tcp_behind_streams(&behind, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(check__keeps_messages_until_the_peer_has_read,
                                        open_connection, close_connection),
        cmocka_unit_test_setup_teardown(check__pushes_what_nobody_would_acknowledge,
                                        open_connection, close_connection),
        cmocka_unit_test_setup_teardown(push__after_a_while_or_before_a_sleep, open_connection,
                                        close_connection),
        cmocka_unit_test(streams__unless_the_rank_has_waited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
