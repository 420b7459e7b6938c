/* SPDX-License-Identifier: BSD-3-Clause */
/* Trains between two sockets of loopback. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "transport/udp/socket.h"
#include "transport/udp/train.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int from_fd, to_fd;
static union br_inet_address from, to;
static struct br_udp_outbox outbox;
static struct br_udp_inbox inbox;
static uint8_t payload[4096];
static int link_a, link_b;

static int open_socket(const char *ip, union br_inet_address *address)
{
    static const struct br_tcp_socket_options options;

    *address = (union br_inet_address){.v4 = {.sin_family = AF_INET}};
    inet_pton(AF_INET, ip, &address->v4.sin_addr);
    return br_udp_socket_open(&options, true, address);
}

static int set_up(void **state)
{
    (void)state;
    from_fd = open_socket("127.0.0.1", &from);
    to_fd = open_socket("127.0.0.2", &to);
    br_udp_outbox_init(&outbox, true);
    for (size_t i = 0; i < sizeof payload; i++)
        payload[i] = (uint8_t)(i * 7 + i / 256);
    return from_fd < 0 || to_fd < 0;
}

static int tear_down(void **state)
{
    (void)state;
    close(from_fd);
    close(to_fd);
    return 0;
}

/* A packet with this number in its head and `bytes` of payload. */
static void add(const void *link, uint8_t number, uint32_t bytes)
{
    static struct br_dgram_packet packet;

    memset(packet.head, number, 48);
    packet.head_bytes = 48;
    packet.payload = payload;
    packet.payload_bytes = bytes;
    br_udp_outbox_add(&outbox, link, from_fd, &to, &packet);
}

/* All that has arrived, cut into packets: their numbers and bytes. */
static int receive(uint8_t *numbers, uint32_t *bytes, int *trains)
{
    int n = br_udp_inbox_receive(&inbox, to_fd, BR_UDP_TRAINS), packets = 0;

    *trains = n;
    for (int i = 0; i < n; i++) {
        struct br_udp_arrival arrival = br_udp_inbox_at(&inbox, i);

        assert_int_equal(arrival.from->v4.sin_port, from.v4.sin_port);
        assert_false(arrival.marked);
        for (uint32_t at = 0; at < arrival.n; at += arrival.packet_bytes, packets++) {
            uint32_t left = arrival.n - at;

            bytes[packets] = left < arrival.packet_bytes ? left : arrival.packet_bytes;
            numbers[packets] = arrival.bytes[at];
            assert_memory_equal(arrival.bytes + at + 48, payload, bytes[packets] - 48);
        }
    }
    return packets;
}

static void outbox_add__makes_trains(void **state)
{
    static const uint32_t sizes[] = {1000, 1000, 500, 1000, 1000, 1200, 100, 100};
    uint32_t bytes[64];
    uint8_t numbers[64];
    int trains;

    (void)state;
    for (uint8_t i = 0; i < 8; i++)
        add(&link_a, i, sizes[i]);
    assert_int_equal(outbox.n, 4); /* the shorter one ends a train, the longer one begins one */
    assert_true(br_udp_outbox_send(&outbox) == 1);
    assert_false(br_udp_outbox_waits(&outbox));
    assert_int_equal(receive(numbers, bytes, &trains), 8);
    assert_true(trains <= 8);
    for (uint8_t i = 0; i < 8; i++) {
        assert_int_equal(numbers[i], i);
        assert_int_equal(bytes[i], sizes[i] + 48);
    }
}

/* As a switch on the way would have marked them: "congestion experienced" instead of "this
 * transport can". */
static void inbox_at__congestion_marks(void **state)
{
    static const int marks[] = {IPTOS_ECN_CE, IPTOS_ECN_ECT0};

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(setsockopt(from_fd, IPPROTO_IP, IP_TOS, &marks[i], sizeof marks[i]), 0);
        add(&link_a, 1, 100);
        br_udp_outbox_send(&outbox);
        assert_int_equal(br_udp_inbox_receive(&inbox, to_fd, BR_UDP_TRAINS), 1);
        assert_int_equal(br_udp_inbox_at(&inbox, 0).marked, marks[i] == IPTOS_ECN_CE);
    }
}

static void outbox_add__no_more_than_the_kernel_takes(void **state)
{
    uint32_t bytes[256];
    uint8_t numbers[256];
    int trains, got = 0;

    (void)state;
    for (int i = 0; i < 200; i++)
        add(&link_a, (uint8_t)i, i < 100 ? 10 : 4000);
    assert_int_equal(outbox.n, 2 + 7); /* 64 + 36 short ones, then 16 of 4048 bytes each */
    br_udp_outbox_send(&outbox);
    assert_int_equal(outbox.error, 0);
    while (got < 200) {
        int n = receive(numbers, bytes, &trains);

        assert_true(n > 0);
        for (int i = 0; i < n; i++, got++)
            assert_int_equal(numbers[i], (uint8_t)got);
    }
}

/* Sends a packet, looks for it a while later: when it has arrived, they say. */
static uint64_t arrival_of_one(void)
{
    struct pollfd readable = {.fd = to_fd, .events = POLLIN};
    struct timespec nap = {.tv_nsec = 10 * BR_MS};

    add(&link_a, 1, 100);
    br_udp_outbox_send(&outbox);
    nanosleep(&nap, NULL);
    assert_int_equal(poll(&readable, 1, 10000), 1);
    assert_int_equal(br_udp_inbox_receive(&inbox, to_fd, BR_UDP_TRAINS), 1);
    assert_true(inbox.all);
    return br_udp_inbox_at(&inbox, 0).at;
}

static void inbox_at__says_when_it_arrived(void **state)
{
    uint64_t last = 0;
    bool early = false;

    (void)state;
    br_udp_inbox_init(&inbox);
    /* The kernel begins to stamp a while after it was asked to, and may be late with one. */
    for (int tries = 0; tries < 500 && !early; tries++) {
        uint64_t before = br_clock_now(), at = arrival_of_one();

        assert_true(at >= last && at + BR_MS > before && at <= br_clock_now() + BR_MS);
        early = at < before + 8 * BR_MS;
        last = at;
    }
    assert_true(early);
}

static void outbox_add__without_the_kernels_help(void **state)
{
    uint32_t bytes[64];
    uint8_t numbers[64];
    int trains;

    (void)state;
    outbox.cuts = false;
    for (uint8_t i = 0; i < 8; i++)
        add(&link_a, i, 1000);
    assert_int_equal(outbox.n, 8);
    br_udp_outbox_send(&outbox);
    assert_int_equal(receive(numbers, bytes, &trains), 8);
}

static void outbox_drop__this_link_only(void **state)
{
    uint32_t bytes[64];
    uint8_t numbers[64];
    int trains;

    (void)state;
    add(&link_a, 1, 100);
    add(&link_b, 2, 100);
    add(&link_a, 3, 100);
    assert_int_equal(outbox.n, 3);
    br_udp_outbox_drop(&outbox, &link_a);
    br_udp_outbox_send(&outbox);
    assert_int_equal(receive(numbers, bytes, &trains), 1);
    assert_int_equal(numbers[0], 2);
}

static void outbox_send__one_that_cannot_leave(void **state)
{
    static const uint8_t long_payload[65480]; /* with its head, more than IP carries */
    static struct br_dgram_packet packet = {
        .head_bytes = 48, .payload = long_payload, .payload_bytes = sizeof long_payload};
    uint32_t bytes[64];
    uint8_t numbers[64];
    int trains;

    (void)state;
    br_udp_outbox_add(&outbox, &link_a, from_fd, &to, &packet);
    add(&link_b, 2, 100);
    br_udp_outbox_send(&outbox);
    assert_false(br_udp_outbox_waits(&outbox));
    assert_int_equal(outbox.error, EMSGSIZE);
    assert_ptr_equal(outbox.error_link, &link_a);
    assert_int_equal(receive(numbers, bytes, &trains), 1);
    assert_int_equal(numbers[0], 2);
}

/* What nobody listens for comes back as bad news with the beginning of the packet. The socket,
 * connected to itself, hears nobody else, and keeps its port from being given to another program
 * meanwhile. */
static void socket_diagnosis__quotes_the_packet(void **state)
{
    struct pollfd ready = {.fd = from_fd, .events = POLLIN};
    struct br_udp_diagnosis trouble;

    (void)state;
    assert_false(br_udp_socket_diagnosis(from_fd, &trouble));
    assert_int_equal(connect(to_fd, &to.any, sizeof to.v4), 0);
    add(&link_a, 7, 100);
    br_udp_outbox_send(&outbox);
    assert_int_equal(poll(&ready, 1, 5000), 1);
    assert_true(br_udp_socket_diagnosis(from_fd, &trouble));
    assert_int_equal(trouble.error, ECONNREFUSED);
    assert_int_equal(trouble.quote_bytes, BR_UDP_QUOTE_BYTES);
    for (int i = 0; i < BR_UDP_QUOTE_BYTES; i++)
        assert_int_equal(((uint8_t *)trouble.quote)[i], 7);
}

static void socket_open__range_of_ports(void **state)
{
    struct br_tcp_socket_options options = {0};
    union br_inet_address same = from, next = from;
    uint16_t port = ntohs(from.v4.sin_port);
    int fd;

    (void)state;
    options.first_port = options.last_port = port;
    assert_int_equal(br_udp_socket_open(&options, true, &same), -EADDRINUSE);
    assert_non_null(strstr(br_error_message(), "BRAID_PORT_RANGE"));
    if (port > 65000)
        return;
    options.last_port = (uint16_t)(port + 100);
    fd = br_udp_socket_open(&options, true, &next);
    assert_true(fd >= 0);
    assert_in_range(ntohs(next.v4.sin_port), port + 1, port + 100);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(outbox_add__makes_trains, set_up, tear_down),
        cmocka_unit_test_setup_teardown(inbox_at__congestion_marks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(outbox_add__no_more_than_the_kernel_takes, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(inbox_at__says_when_it_arrived, set_up, tear_down),
        cmocka_unit_test_setup_teardown(outbox_add__without_the_kernels_help, set_up, tear_down),
        cmocka_unit_test_setup_teardown(outbox_drop__this_link_only, set_up, tear_down),
        cmocka_unit_test_setup_teardown(outbox_send__one_that_cannot_leave, set_up, tear_down),
        cmocka_unit_test_setup_teardown(socket_diagnosis__quotes_the_packet, set_up, tear_down),
        cmocka_unit_test_setup_teardown(socket_open__range_of_ports, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("train", cases, NULL, NULL);
}
