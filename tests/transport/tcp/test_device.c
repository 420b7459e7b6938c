/* SPDX-License-Identifier: BSD-3-Clause */
/* Names, options and addresses of TCP devices, and what connecting finds wrong with them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "ends.h"
#include "tests/says.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void link_connect__to_a_closed_port_names_both_ends(void **state)
{
    struct br_address address;
    struct br_link *link;

    (void)state;
    address = ends_b.device->address;
    ends_ops->device_close(ends_b.device);
    ends_b.device = NULL;
    assert_int_equal(ends_ops->link_connect(ends_a.device, &address, &link), 0);
    for (int i = 0; i < 100000 && !ends_a.n_closed; i++)
        ends_step(&ends_a, 8);
    assert_int_equal(ends_a.error, -ECONNREFUSED);
    assert_non_null(strstr(link->message, "127.0.0.1 -> 127.0.0.1:"));
    assert_non_null(strstr(link->message, strerror(ECONNREFUSED)));
    ends_ops->link_close(link);
}

static void link_connect__bad_addresses(void **state)
{
    struct br_address address = {.bytes = 3};
    struct br_link *link;

    (void)state;
    assert_int_equal(ends_ops->link_connect(ends_a.device, &address, &link), -EINVAL);
    address = ends_b.device->address;
    address.data[0] = 6;
    assert_int_equal(ends_ops->link_connect(ends_a.device, &address, &link), -EAFNOSUPPORT);
    address.data[0] = 77;
    assert_int_equal(ends_ops->link_connect(ends_a.device, &address, &link), -EINVAL);
}

static void link_connect__all_links_in_use(void **state)
{
    struct br_address address;
    struct br_link *link;

    (void)state;
    for (int i = 0; i < ENDS_LINKS; i++)
        ends_connect();
    address = ends_b.device->address;
    assert_int_equal(ends_ops->link_connect(ends_a.device, &address, &link), -EMFILE);
    ends_ops->link_close(ends_a.links[0]);
    assert_int_equal(ends_ops->link_connect(ends_a.device, &address, &link), 0);
}

/* Loopback answers a SYN within microseconds, and no case waits for a second. */
static void facts__round_trip_from_the_handshake_on(void **state)
{
    struct br_link *link = ends_connect();

    (void)state;
    assert_in_range(link->facts.min_rtt, 1, BR_SEC);
    assert_in_range(ends_b.links[0]->facts.min_rtt, 1, BR_SEC);
}

static void facts__are_brought_up_to_date(void **state)
{
    struct br_link *link = ends_connect();
    struct br_event event;
    uint64_t now = br_clock_now();

    (void)state;
    for (int i = 0; i < 16; i++) /* with one link some polls ask for nothing */
        ends_ops->poll(ends_a.device, now, &event, 1);
    link->facts.min_rtt = 0;
    for (int i = 0; i < 16; i++)
        ends_ops->poll(ends_a.device, now + BR_LINK_FACTS_AGE, &event, 1);
    assert_in_range(link->facts.min_rtt, 1, BR_SEC);
}

/* Known once the kernel has an acknowledgement of bytes. */
static void facts__delivery_rate(void **state)
{
    struct br_link *link = ends_connect();
    struct br_event event;

    (void)state;
    assert_int_equal(ends_message(link, 100), 1);
    ends_until(&ends_b.n_messages, 1);
    for (uint64_t now = br_clock_now(); !link->facts.delivery_rate; now += BR_LINK_FACTS_AGE)
        ends_ops->poll(ends_a.device, now, &event, 1);
}

/* How many links the kernel was asked about in a poll at this time. */
static int asked_at(struct br_link **links, int n, uint64_t now)
{
    struct br_event event;
    int asked = 0;

    ends_ops->poll(ends_a.device, now, &event, 1);
    for (int i = 0; i < n; i++) {
        asked += links[i]->facts.min_rtt != 0;
        links[i]->facts.min_rtt = 0;
    }
    return asked;
}

/* However many links there are, a poll asks about one of them, at most once a millisecond. */
static void facts__of_many_links_in_turn(void **state)
{
    enum { MANY = 64 };
    struct br_link *links[MANY];
    struct br_event events[BR_TCP_EVENTS];
    uint64_t now;
    int up = 0, asked = 0;

    (void)state;
    ends_close(&ends_a);
    assert_int_equal(ends_open(&ends_a, "127.0.0.1", 2 * MANY), 0);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(ends_ops->link_connect(ends_a.device, &ends_a.device->address, &links[i]),
                         0);
    for (int i = 0; i < 1000000 && up < 2 * MANY; i++)
        up += ends_ops->poll(ends_a.device, 1, events, BR_TCP_EVENTS);
    assert_int_equal(up, 2 * MANY); /* both ends of all */
    asked_at(links, MANY, 1);
    now = 1 + BR_LINK_FACTS_AGE;
    assert_in_range(asked_at(links, MANY, now), 0, 1);
    assert_int_equal(asked_at(links, MANY, now), 0);
    assert_int_equal(asked_at(links, MANY, now + BR_MS / 2), 0);
    for (int i = 1; i <= 2 * MANY; i++) {
        int n = asked_at(links, MANY, now + (uint64_t)i * BR_MS);

        assert_in_range(n, 0, 1);
        asked += n;
    }
    assert_int_equal(asked, MANY);
}

static void device_open__names(void **state)
{
    (void)state;
    ends_close(&ends_a);
    ends_close(&ends_b);
    assert_int_equal(ends_open(&ends_a, "no-such-if", 2), -ENODEV);
    assert_says(br_error_message(), "no-such-if");
    ends_close(&ends_a);
    assert_int_equal(ends_open(&ends_a, "203.0.113.7", 2), -EADDRNOTAVAIL);
    assert_says(br_error_message(), "203.0.113.7");
    ends_close(&ends_a);
    assert_int_equal(ends_open(&ends_a, NULL, 2), 0);
    ends_close(&ends_a);
    assert_int_equal(ends_open(&ends_a, "127.0.0.2", 2), 0);
    assert_int_equal(ends_open(&ends_b, "lo", 2), 0);
    ends_connect();
    assert_non_null(
        strstr(ends_b.links[0]->peer_name, "127.0.0.2:")); /* the source is the device's address */
}

static void device_open__ipv6(void **state)
{
    (void)state;
    if (access("/proc/net/if_inet6", R_OK))
        skip();
    ends_close(&ends_a);
    ends_close(&ends_b);
    if (ends_open(&ends_a, "::1", 2) == -EADDRNOTAVAIL)
        skip();
    assert_int_equal(ends_open(&ends_b, "::1", 2), 0);
    assert_int_equal(ends_message(ends_connect(), 10), 1);
    ends_until(&ends_b.n_messages, 1);
    assert_non_null(strstr(ends_b.links[0]->peer_name, "[::1]:"));
}

/* A peer that is stopped for less than the protocol's patience is not lost, whatever the kernel
 * would do by itself. */
static void device_open__patience(void **state)
{
    int ms = 0;
    socklen_t bytes = sizeof ms;

    (void)state;
    ends_close(&ends_a);
    ends_a.config.patience = 120 * BR_SEC;
    assert_int_equal(br_slot_table_init(&ends_a.slots, 64), 0);
    assert_int_equal(br_transport_open(ends_ops, &ends_a.config, &ends_a.device), 0);
    assert_int_equal(getsockopt(((struct br_tcp_device *)ends_a.device)->listen_fd, IPPROTO_TCP,
                                TCP_USER_TIMEOUT, &ms, &bytes),
                     0);
    assert_int_equal(ms, 120000);
}

/* A malformed variable is said where the device is opened. */
static void device_open__options_from_the_environment(void **state)
{
    (void)state;
    ends_close(&ends_a);
    setenv("BRAID_PORT_RANGE", "7-3", 1);
    assert_int_equal(ends_open(&ends_a, "127.0.0.1", 2), -EINVAL);
    unsetenv("BRAID_PORT_RANGE");
    assert_non_null(strstr(br_error_message(), "BRAID_PORT_RANGE=7-3"));
    ends_close(&ends_a);
    setenv("BRAID_TCP_CONGESTION", "system", 1);
    assert_int_equal(ends_open(&ends_a, "127.0.0.1", 2), 0);
    unsetenv("BRAID_TCP_CONGESTION");
    assert_string_equal(((struct br_tcp_device *)ends_a.device)->options.congestion, "");
}

static void probe__finds_loopback(void **state)
{
    struct br_device_info info[16];
    int n = ends_ops->probe(info, 16), found = 0;

    (void)state;
    assert_true(n >= 1);
    for (int i = 0; i < n; i++)
        if (info[i].loopback && !*info[i].why_not) {
            assert_non_null(strstr(info[i].detail, "127.0.0.1"));
            assert_says(info[i].detail, "zero-copy|tried");
            found++;
        }
    assert_int_equal(found, 1);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, ends_set_up, ends_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(link_connect__to_a_closed_port_names_both_ends),
        TEST(link_connect__bad_addresses),
        TEST(link_connect__all_links_in_use),
        TEST(facts__round_trip_from_the_handshake_on),
        TEST(facts__are_brought_up_to_date),
        TEST(facts__delivery_rate),
        TEST(facts__of_many_links_in_turn),
        TEST(device_open__names),
        TEST(device_open__ipv6),
        TEST(device_open__patience),
        TEST(device_open__options_from_the_environment),
        TEST(probe__finds_loopback),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
