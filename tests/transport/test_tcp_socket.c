/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "tests/says.h"
#include "transport/tcp_socket.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct br_interface lo;
static struct br_tcp_socket_options options;
static const struct br_device_config plain;

static int set_up(void **state)
{
    (void)state;
    unsetenv("BRAID_TCP_CONGESTION");
    unsetenv("BRAID_PORT_RANGE");
    return br_interface_find("127.0.0.1", &lo) || br_tcp_socket_options_read(&lo, &plain, &options);
}

static int read_with(const char *name, const char *value)
{
    int rc;

    setenv(name, value, 1);
    rc = br_tcp_socket_options_read(&lo, &plain, &options);
    unsetenv(name);
    return rc;
}

static int int_of(int fd, int option)
{
    int value = 0;
    socklen_t bytes = sizeof value;

    assert_int_equal(getsockopt(fd, IPPROTO_TCP, option, &value, &bytes), 0);
    return value;
}

static void expect_congestion(int fd, const char *expected)
{
    char name[BR_TCP_SOCKET_CONGESTION] = "";
    socklen_t bytes = sizeof name;

    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &bytes), 0);
    assert_string_equal(name, expected);
}

static void options_read__congestion(void **state)
{
    (void)state;
    assert_int_equal(read_with("BRAID_TCP_CONGESTION", "system"), 0);
    assert_string_equal(options.congestion, "");
    assert_int_equal(read_with("BRAID_TCP_CONGESTION", "reno"), 0); /* every kernel has it */
    assert_string_equal(options.congestion, "reno");
    assert_int_equal(read_with("BRAID_TCP_CONGESTION", "nonsense"), -ENOENT);
    assert_non_null(strstr(br_error_message(), "BRAID_TCP_CONGESTION=nonsense"));
    assert_int_equal(read_with("BRAID_TCP_CONGESTION", "a-name-that-is-too-long"), -ENOENT);
}

static void options_read__port_range(void **state)
{
    static const char *const bad[] = {"5", "7-3", "0-9", "1-70000", "1-2x", "a-b"};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(read_with("BRAID_PORT_RANGE", bad[i]), -EINVAL);
        assert_non_null(strstr(br_error_message(), bad[i]));
    }
    assert_int_equal(read_with("BRAID_PORT_RANGE", "27310-27311"), 0);
    assert_int_equal(options.first_port, 27310);
    assert_int_equal(options.last_port, 27311);
}

static void options_read__patience_within_reason(void **state)
{
    static const struct {
        uint64_t patience;
        int ms;
    } cases[] = {{0, 10000}, {BR_SEC, 10000}, {120 * BR_SEC, 120000}, {UINT64_MAX, 86400000}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct br_device_config config = {.patience = cases[i].patience};

        assert_int_equal(br_tcp_socket_options_read(&lo, &config, &options), 0);
        assert_int_equal(options.user_timeout_ms, cases[i].ms);
    }
}

/* Ports of an address that is nobody's but this process's: all of 127.0.0.0/8 is the loopback's. */
static void take_ports(uint16_t first, uint16_t last)
{
    uint32_t pid = (uint32_t)getpid();
    char name[16];

    snprintf(name, sizeof name, "127.%u.%u.%u", 64 + pid / 62500 % 128, 1 + pid / 250 % 250,
             1 + pid % 250);
    assert_int_equal(br_interface_find(name, &lo), 0);
    options.first_port = first; /* below those that the kernel gives to others */
    options.last_port = last;
}

static void listen__first_free_port_of_the_range(void **state)
{
    union br_inet_address address;
    int fds[2];

    (void)state;
    take_ports(27312, 27313);
    for (int i = 0; i < 2; i++) {
        fds[i] = br_tcp_socket_listen(&lo, &options, &address);
        assert_true(fds[i] >= 0);
        assert_int_equal(ntohs(address.v4.sin_port), 27312 + i);
    }
    assert_int_equal(br_tcp_socket_listen(&lo, &options, &address), -EADDRINUSE);
    assert_says(br_error_message(), "27312-27313|127.");
    assert_non_null(strstr(br_error_message(), "BRAID_PORT_RANGE"));
    close(fds[0]);
    close(fds[1]);
}

static int rival = -1; /* listens right before the next one does */

int __real_listen(int fd, int backlog);
int __wrap_listen(int fd, int backlog);

int __wrap_listen(int fd, int backlog)
{
    if (rival >= 0)
        assert_int_equal(__real_listen(rival, 1), 0);
    return __real_listen(fd, backlog);
}

/* Another rank of this host has bound the same port and is first to listen: the next port is as
 * good. */
static void listen__another_is_quicker(void **state)
{
    union br_inet_address address;
    int on = 1, fd;

    (void)state;
    take_ports(27314, 27315);
    rival = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setsockopt(rival, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    address = lo.address;
    br_inet_set_port(&address, 27314);
    assert_int_equal(bind(rival, &address.any, br_inet_bytes(&address)), 0);
    fd = br_tcp_socket_listen(&lo, &options, &address);
    close(rival);
    rival = -1;
    if (fd < 0)
        fail_msg("%s", br_error_message());
    assert_int_equal(ntohs(address.v4.sin_port), 27315);
    close(fd);
}

/* What listens passes its options on to what it accepts. */
static void connect__both_ends_have_the_options(void **state)
{
    union br_inet_address address;
    struct pollfd listening = {.events = POLLIN};
    int ours, theirs;

    (void)state;
    snprintf(options.congestion, sizeof options.congestion, "reno");
    options.user_timeout_ms = 12345;
    listening.fd = br_tcp_socket_listen(&lo, &options, &address);
    assert_true(listening.fd >= 0);
    ours = br_tcp_socket_connect(&lo.address, &options, &address);
    assert_true(ours >= 0);
    assert_int_equal(poll(&listening, 1, 20000), 1);
    theirs = accept(listening.fd, NULL, NULL);
    assert_true(theirs >= 0);
    expect_congestion(ours, "reno");
    expect_congestion(theirs, "reno");
    assert_int_equal(int_of(ours, TCP_USER_TIMEOUT), 12345);
    assert_int_equal(int_of(theirs, TCP_USER_TIMEOUT), 12345);
    assert_true(int_of(ours, TCP_NODELAY) && int_of(theirs, TCP_NODELAY));
    assert_int_equal(int_of(ours, TCP_NOTSENT_LOWAT), int_of(theirs, TCP_NOTSENT_LOWAT));
    close(theirs);
    close(ours);
    close(listening.fd);
}

static void options_bind__loopback_stays_free(void **state)
{
    (void)state;
    assert_int_equal(br_tcp_socket_options_bind(&lo, &options), 0);
    assert_string_equal(options.nic, "");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, set_up)
    const struct CMUnitTest tests[] = {
        TEST(options_read__congestion),
        TEST(options_read__port_range),
        TEST(options_read__patience_within_reason),
        TEST(listen__first_free_port_of_the_range),
        TEST(listen__another_is_quicker),
        TEST(connect__both_ends_have_the_options),
        TEST(options_bind__loopback_stays_free),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
