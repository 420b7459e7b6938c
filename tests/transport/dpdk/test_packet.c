/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "transport/dpdk/packet.h"

#include <arpa/inet.h>
#include <string.h>

static struct br_dpdk_flow flow(void)
{
    struct br_dpdk_flow out = {.from_mac = {2, 0, 0, 0, 0, 1},
                               .to_mac = {2, 0, 0, 0, 0, 2},
                               .from = inet_addr("192.168.0.1"),
                               .to = inet_addr("192.168.0.199"),
                               .from_port = htons(1000),
                               .to_port = htons(17716)};

    return out;
}

/* A whole packet; returns its bytes. */
static uint32_t make(uint8_t *out, const char *payload, bool sums)
{
    struct br_dpdk_flow to = flow();
    uint32_t n = (uint32_t)strlen(payload);

    br_dpdk_packet_head(&to, n, sums, out);
    memcpy(out + BR_DPDK_HEADERS, payload, n);
    return BR_DPDK_HEADERS + n;
}

static enum br_dpdk_kind kind_of(const uint8_t *bytes, uint32_t n)
{
    struct br_dpdk_packet packet;

    br_dpdk_packet_parse(bytes, n, false, &packet);
    return packet.kind;
}

static void packet_head__is_what_the_standards_say(void **state)
{
    /* The IPv4 checksum was worked out by hand from RFC 1071. */
    static const uint8_t expected[BR_DPDK_HEADERS] = {
        2,    0,    0,    0,    0, 2,   2,    0, 0,  0,  0,    1,    8,   0, /* */
        0x45, 0x02, 0,    31,   0, 0,   0x40, 0, 64, 17, 0xb8, 0xb3, 192, 168,
        0,    1,    192,  168,  0, 199, /* */
        0x03, 0xe8, 0x45, 0x34, 0, 11,  0,    0};
    struct br_dpdk_flow to = flow();
    uint8_t head[BR_DPDK_HEADERS];

    (void)state;
    br_dpdk_packet_head(&to, 3, false, head);
    assert_memory_equal(head, expected, sizeof head);
}

static void packet_resize__is_what_making_anew_gives(void **state)
{
    struct br_dpdk_flow to = flow();
    uint8_t head[BR_DPDK_HEADERS], anew[BR_DPDK_HEADERS];

    (void)state;
    for (int sums = 0; sums < 2; sums++) {
        br_dpdk_packet_head(&to, 0, sums, head);
        for (uint32_t n = 9000; n > 0; n -= 8) {
            br_dpdk_packet_resize(head, n, sums);
            br_dpdk_packet_head(&to, n, sums, anew);
            assert_memory_equal(head, anew, sizeof head);
        }
    }
}

static void packet_parse__gives_back_what_was_made(void **state)
{
    struct br_dpdk_flow made = flow();
    struct br_dpdk_packet packet;
    uint8_t bytes[100];
    uint32_t n = make(bytes, "hello", false);

    (void)state;
    memset(bytes + n, 0, sizeof bytes - n);
    br_dpdk_packet_parse(bytes, 60, false, &packet); /* Ethernet makes short packets longer */
    assert_int_equal(packet.kind, BR_DPDK_DATAGRAM);
    assert_memory_equal(&packet.flow, &made, sizeof made);
    assert_int_equal(packet.n, 5);
    assert_memory_equal(packet.payload, "hello", 5);
    assert_false(packet.marked);
}

static void packet_parse__sees_the_mark_of_congestion(void **state)
{
    struct br_dpdk_packet packet;
    uint8_t bytes[100];
    uint32_t n = make(bytes, "x", false);

    (void)state;
    bytes[15] |= 3;
    br_dpdk_packet_parse(bytes, n, true, &packet);
    assert_int_equal(packet.kind, BR_DPDK_DATAGRAM);
    assert_true(packet.marked);
}

static void packet_parse__drops_what_is_damaged(void **state)
{
    uint8_t bytes[100];
    uint32_t n = make(bytes, "hello", false);

    (void)state;
    for (uint32_t i = BR_DPDK_ETHERNET; i < BR_DPDK_ETHERNET + 20; i++) {
        bytes[i] ^= 0x10;
        assert_int_equal(kind_of(bytes, n), BR_DPDK_OTHER);
        bytes[i] ^= 0x10;
    }
    for (uint32_t short_of = 0; short_of < n; short_of++)
        assert_int_equal(kind_of(bytes, short_of), BR_DPDK_OTHER);
}

/* The sum of the pseudo header is completed by hand, as a NIC does it. */
static void packet_parse__looks_at_the_checksum_of_udp(void **state)
{
    struct br_dpdk_packet packet;
    uint8_t bytes[100], *udp = bytes + BR_DPDK_ETHERNET + 20;
    uint32_t n = make(bytes, "hello", true), sum = 0;
    uint16_t ip = 0;

    (void)state;
    for (uint32_t i = 0; i < n - BR_DPDK_ETHERNET - 20; i++)
        sum += i & 1 ? udp[i] : (uint32_t)udp[i] << 8;
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    udp[6] = (uint8_t)(~sum >> 8);
    udp[7] = (uint8_t)~sum;
    memcpy(bytes + BR_DPDK_ETHERNET + 10, &ip, 2);
    assert_int_equal(kind_of(bytes, n), BR_DPDK_OTHER); /* IPv4's is still missing */
    for (sum = 0, ip = 0; ip < 20; ip += 2)
        sum += ((uint32_t)bytes[BR_DPDK_ETHERNET + ip] << 8) + bytes[BR_DPDK_ETHERNET + ip + 1];
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    bytes[BR_DPDK_ETHERNET + 10] = (uint8_t)(~sum >> 8);
    bytes[BR_DPDK_ETHERNET + 11] = (uint8_t)~sum;
    assert_int_equal(kind_of(bytes, n), BR_DPDK_DATAGRAM);
    bytes[n - 1] ^= 1;
    assert_int_equal(kind_of(bytes, n), BR_DPDK_OTHER);
    br_dpdk_packet_parse(bytes, n, true, &packet); /* the port has looked */
    assert_int_equal(packet.kind, BR_DPDK_DATAGRAM);
}

static void packet_parse__drops_fragments_and_other_protocols(void **state)
{
    struct br_dpdk_packet packet;
    uint8_t bytes[100];
    uint32_t n = make(bytes, "hello", false);

    (void)state;
    bytes[BR_DPDK_ETHERNET + 6] |= 0x20; /* more fragments */
    br_dpdk_packet_parse(bytes, n, true, &packet);
    assert_int_equal(packet.kind, BR_DPDK_OTHER);
    bytes[BR_DPDK_ETHERNET + 6] = 0x40;
    bytes[BR_DPDK_ETHERNET + 9] = 6; /* TCP */
    br_dpdk_packet_parse(bytes, n, true, &packet);
    assert_int_equal(packet.kind, BR_DPDK_OTHER);
}

static void packet_arp__asks_and_answers(void **state)
{
    static const uint8_t everybody[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    struct br_dpdk_flow to = flow();
    struct br_dpdk_packet packet;
    uint8_t bytes[BR_DPDK_ARP];

    (void)state;
    br_dpdk_packet_arp(&to, BR_DPDK_ARP_REQUEST, bytes);
    br_dpdk_packet_parse(bytes, sizeof bytes, false, &packet);
    assert_int_equal(packet.kind, BR_DPDK_ARP_REQUEST);
    assert_memory_equal(packet.flow.to_mac, everybody, 6);
    assert_memory_equal(packet.flow.from_mac, to.from_mac, 6);
    assert_int_equal(packet.flow.from, to.from);
    assert_int_equal(packet.flow.to, to.to);
    br_dpdk_packet_arp(&to, BR_DPDK_ARP_REPLY, bytes);
    br_dpdk_packet_parse(bytes, sizeof bytes, false, &packet);
    assert_int_equal(packet.kind, BR_DPDK_ARP_REPLY);
    assert_memory_equal(packet.flow.to_mac, to.to_mac, 6);
    assert_int_equal(kind_of(bytes, 41), BR_DPDK_OTHER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packet_head__is_what_the_standards_say),
        cmocka_unit_test(packet_resize__is_what_making_anew_gives),
        cmocka_unit_test(packet_parse__gives_back_what_was_made),
        cmocka_unit_test(packet_parse__sees_the_mark_of_congestion),
        cmocka_unit_test(packet_parse__drops_what_is_damaged),
        cmocka_unit_test(packet_parse__looks_at_the_checksum_of_udp),
        cmocka_unit_test(packet_parse__drops_fragments_and_other_protocols),
        cmocka_unit_test(packet_arp__asks_and_answers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
