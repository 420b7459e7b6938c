/* SPDX-License-Identifier: BSD-3-Clause */
/* The vectors of doc/wire.md, damage of every bit, and packets that make no sense. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "transport/datagram/crc32c.h"
#include "transport/datagram/packet.h"

/* Those of doc/wire.md, which were computed apart, in Python. */
#define VECTOR_OPEN "64620301 f07930eb 00000000 00000000 a8a7a6a5 a4a3a2a1 38040000 04000000"
#define VECTOR_DATA                                                                                \
    "64620305 168aea4c 88776655 44332211 02010000 05000000 03000000 02000700 "                     \
    "00000100 28000003 02000000 00000000 00000000 00000000 00000000 00000000 "                     \
    "00000000 00000000 00000000 00000000 00000000 00000000 00010203 04050607 "                     \
    "08090a0b 0c0d0e0f 10111213 14151617 18191a1b 1c1d1e1f 20212223 24252627"
#define VECTOR_ACK                                                                                 \
    "64620307 4ed746d1 88776655 44332211 64000000 00000000 64000000 00000000 "                     \
    "e02e0000 01000000 40000000 01020000 00000300 02005a00"
#define VECTOR_CLOSE   "64620308 bf2c41ae 00000000 00000000 88776655 44332211 00000000 00000000"
#define VECTOR_CLOSE_4 "64620408 a15be94b a8a7a6a5 a4a3a2a1 88776655 44332211 00000000 00000000"

static const uint8_t zeros[BR_DGRAM_MIN_PACKET];

static uint32_t digits(const char *text, uint8_t *out)
{
    uint32_t n = 0;
    unsigned byte;

    for (; *text; text++)
        if (*text != ' ' && sscanf(text++, "%2x", &byte) == 1)
            out[n++] = (uint8_t)byte;
    return n;
}

static void expect(const void *packet, uint32_t bytes, const char *text)
{
    uint8_t wanted[256];
    uint32_t n = digits(text, wanted);
    char line[3 * 256 + 1] = "";

    for (uint32_t i = 0; i < bytes; i++)
        snprintf(line + 2 * i, 3, "%02x", ((const uint8_t *)packet)[i]);
    if (n != bytes || memcmp(packet, wanted, n) != 0)
        fail_msg("packet is %s", line);
}

static void crc32c__known_values(void **state)
{
    uint8_t bytes[32];

    (void)state;
    assert_int_equal(br_crc32c(0, "123456789", 9), 0xe3069283);
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(br_crc32c(0, bytes, sizeof bytes), 0x8a9136aa); /* RFC 3720, B.4 */
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(br_crc32c(0, bytes, sizeof bytes), 0x62a8ab43);
    assert_int_equal(br_crc32c_plain(0, bytes, sizeof bytes), 0x62a8ab43);
    assert_int_equal(br_crc32c(7, bytes, 0), 7);
}

/* With either instruction and without, in any pieces. */
static void crc32c__is_the_same_every_way(void **state)
{
    static uint8_t bytes[9000];
    struct br_random random;

    (void)state;
    br_random_seed(&random, 5);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)br_random_next(&random);
    for (int turn = 0; turn < 2000; turn++) {
        size_t from = br_random_below(&random, 64),
               n = br_random_below(&random, sizeof bytes - from);
        size_t cut = n ? br_random_below(&random, n) : 0;
        uint32_t whole = br_crc32c_plain(0, bytes + from, n);

        assert_int_equal(br_crc32c(0, bytes + from, n), whole);
        assert_int_equal(br_crc32c_streams(0, bytes + from, n), whole);
        assert_int_equal(br_crc32c(br_crc32c(0, bytes + from, cut), bytes + from + cut, n - cut),
                         whole);
    }
}

static struct br_dgram_data data_packet(void)
{
    return (struct br_dgram_data){
        .header = {.kind = BR_DGRAM_DATA, .link = 0x1122334455667788},
        .number = 0x0102,
        .frame = 5,
        .order = 3,
        .slot = 0x00070002,
        .offset = 65536,
        .length = 40,
        .part = 0,
        .frame_kind = BR_FRAME_DATA,
        .path = 1,
    };
}

static void parse__open_vector(void **state)
{
    uint8_t packet[BR_DGRAM_MIN_PACKET] = {0};
    struct br_dgram_open open = {.header.kind = BR_DGRAM_OPEN,
                                 .from = 0xa1a2a3a4a5a6a7a8,
                                 .size = BR_DGRAM_MIN_PACKET,
                                 .paths = 4};
    struct br_dgram_view view;

    (void)state;
    br_dgram_seal(&open, sizeof open, zeros, sizeof packet - sizeof open);
    expect(&open, sizeof open, VECTOR_OPEN);
    memcpy(packet, &open, sizeof open);
    assert_int_equal(br_dgram_parse(packet, sizeof packet, &view), 0);
    assert_int_equal(view.kind, BR_DGRAM_OPEN);
    assert_int_equal(view.open.from, open.from);
    assert_int_equal(br_dgram_parse(packet, sizeof packet - 1, &view), -EBADMSG);
}

static void parse__data_vector(void **state)
{
    struct {
        struct br_dgram_data data;
        uint8_t content[BR_FRAME_INLINE + 40];
    } packet = {.data = data_packet()};
    struct br_dgram_view view;

    (void)state;
    packet.content[0] = 2; /* inline: say DONE */
    for (uint8_t i = 0; i < 40; i++)
        packet.content[BR_FRAME_INLINE + i] = i;
    br_dgram_seal(&packet, sizeof packet, NULL, 0);
    expect(&packet, sizeof packet, VECTOR_DATA);
    assert_int_equal(br_dgram_parse(&packet, sizeof packet, &view), 0);
    assert_int_equal(view.data.slot, 0x00070002);
    assert_ptr_equal(view.content, packet.content);
    assert_int_equal(view.content_bytes, sizeof packet.content);
}

static void parse__ack_vector(void **state)
{
    struct br_dgram_ack ack = {
        .header = {.kind = BR_DGRAM_ACK, .link = 0x1122334455667788},
        .top = 100,
        .latest = 100,
        .delay = 12000,
        .marked = 1,
        .messages = 64,
        .path = 1,
        .ranges = 2,
        .range = {{0, 3}, {2, 90}},
    };
    struct br_dgram_view view;
    uint32_t bytes = offsetof(struct br_dgram_ack, range) + 8;

    (void)state;
    br_dgram_seal(&ack, bytes, NULL, 0);
    expect(&ack, bytes, VECTOR_ACK);
    assert_int_equal(br_dgram_parse(&ack, bytes, &view), 0);
    assert_int_equal(view.ack.range[1].run, 90);
}

static void parse__close_of_an_unknown_link(void **state)
{
    struct br_dgram_data data = data_packet();
    struct br_dgram_view view = {.kind = BR_DGRAM_DATA, .data = data};
    struct br_dgram_open refusal;

    (void)state;
    br_dgram_refuse(&view, &refusal);
    expect(&refusal, sizeof refusal, VECTOR_CLOSE);
    assert_int_equal(br_dgram_parse(&refusal, sizeof refusal, &view), 0);
    assert_int_equal(view.kind, BR_DGRAM_CLOSE);
    assert_int_equal(view.header.link, 0);
    assert_int_equal(view.open.from, data.header.link);
}

/* What begins with `n` bytes that are given, of another version, and has a right checksum. */
static int parse_other(struct br_dgram_open open, size_t n, struct br_dgram_view *view)
{
    uint8_t packet[BR_DGRAM_MIN_PACKET] = {0};

    open.header.magic = BR_DGRAM_MAGIC;
    open.header.version = BR_DGRAM_VERSION + 1;
    open.header.checksum = 0;
    memcpy(packet, &open, sizeof open);
    open.header.checksum = br_crc32c(0, packet, n);
    memcpy(packet, &open, sizeof open);
    return br_dgram_parse(packet, n, view);
}

/* Of another version, what begins a link and what refuses it is understood, whatever stands behind
 * the first 24 bytes. */
static void parse__another_version(void **state)
{
    struct br_dgram_open open = {
        .header.kind = BR_DGRAM_OPEN, .from = 0xa1a2a3a4a5a6a7a8, .size = 7, .paths = 200};
    struct br_dgram_open close = {.header = {.kind = BR_DGRAM_CLOSE, .link = 0xa1a2a3a4a5a6a7a8},
                                  .from = 0x1122334455667788};
    struct br_dgram_open bad;
    struct br_dgram_view view;
    uint8_t bytes[32];

    (void)state;
    assert_int_equal(parse_other(open, BR_DGRAM_MIN_PACKET, &view), -EPROTONOSUPPORT);
    assert_int_equal(view.kind, BR_DGRAM_OPEN);
    assert_int_equal(view.header.version, BR_DGRAM_VERSION + 1);
    assert_int_equal(view.open.from, open.from);
    assert_int_equal(parse_other(open, sizeof open, &view), -EPROTONOSUPPORT);
    assert_int_equal(parse_other(open, sizeof open - 1, &view),
                     -EBADMSG); /* our answer is longer */
    bad = open, bad.from = 0;
    assert_int_equal(parse_other(bad, sizeof bad, &view), -EBADMSG);
    bad = open, bad.header.link = 1;
    assert_int_equal(parse_other(bad, sizeof bad, &view), -EBADMSG);
    assert_int_equal(digits(VECTOR_CLOSE_4, bytes), sizeof bytes);
    assert_int_equal(br_dgram_parse(bytes, sizeof bytes, &view), -EPROTONOSUPPORT);
    assert_int_equal(view.header.link, close.header.link);
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(br_dgram_parse(bytes, sizeof bytes, &view), -EBADMSG);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_int_equal(parse_other(close, sizeof close, &view), -EPROTONOSUPPORT);
    bad = close, bad.header.link = 0;
    assert_int_equal(parse_other(bad, sizeof bad, &view), -EBADMSG);
    for (uint8_t kind = 0; kind < BR_DGRAM_CLOSE; kind++) {
        bad = close, bad.header.kind = kind;
        assert_int_equal(parse_other(bad, sizeof bad, &view), -EBADMSG);
    }
}

static void parse__every_damaged_bit_is_seen(void **state)
{
    uint8_t packet[sizeof(struct br_dgram_data) + BR_FRAME_INLINE + 40] = {0};
    struct br_dgram_data data = data_packet();
    struct br_dgram_view view;

    (void)state;
    memcpy(packet, &data, sizeof data);
    br_dgram_seal(packet, sizeof packet, NULL, 0);
    for (size_t bit = 0; bit < 8 * sizeof packet; bit++) {
        packet[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(br_dgram_parse(packet, sizeof packet, &view), -EBADMSG);
        packet[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t size = 0; size < sizeof packet; size++)
        assert_int_equal(br_dgram_parse(packet, size, &view), -EBADMSG);
    assert_int_equal(br_dgram_parse(packet, sizeof packet, &view), 0);
}

/* The payload may change on its way then, nothing else. */
static void parse__header_only_checksum(void **state)
{
    uint8_t packet[sizeof(struct br_dgram_data) + BR_FRAME_INLINE + 40] = {0};
    struct br_dgram_data data = data_packet();
    struct br_dgram_view view;
    uint32_t head = sizeof data + BR_FRAME_INLINE;

    (void)state;
    data.flags = BR_DGRAM_HEADER_ONLY;
    memcpy(packet, &data, sizeof data);
    br_dgram_seal(packet, head, packet + head, sizeof packet - head);
    for (size_t i = 0; i < sizeof packet; i++) {
        packet[i] ^= 0x40;
        assert_int_equal(br_dgram_parse(packet, sizeof packet, &view), i < head ? -EBADMSG : 0);
        packet[i] ^= 0x40;
    }
}

static int parse_data(struct br_dgram_data data, uint32_t content)
{
    uint8_t packet[512] = {0};
    struct br_dgram_view view;

    memcpy(packet, &data, sizeof data);
    br_dgram_seal(packet, (uint32_t)sizeof data + content, NULL, 0);
    return br_dgram_parse(packet, sizeof data + content, &view);
}

static void parse__data_that_makes_no_sense(void **state)
{
    struct br_dgram_data good = data_packet(), bad;

    (void)state;
    assert_int_equal(parse_data(good, 88), 0);
    assert_int_equal(parse_data(good, 89), -EBADMSG); /* more than the frame has */
    assert_int_equal(parse_data(good, 47), -EBADMSG); /* part 0 has all inline bytes */
    assert_int_equal(parse_data(good, 0), -EBADMSG);
    bad = good, bad.frame_kind = 3;
    assert_int_equal(parse_data(bad, 88), -EBADMSG);
    bad = good, bad.length = 0;
    assert_int_equal(parse_data(bad, 48), 0); /* the slot refuses it */
    bad = good, bad.length = BR_DGRAM_MAX_FRAME + 1;
    assert_int_equal(parse_data(bad, 88), -EBADMSG);
    bad = good, bad.flags = BR_DGRAM_ASKS;
    assert_int_equal(parse_data(bad, 88), 0);
    bad = good, bad.flags = 4;
    assert_int_equal(parse_data(bad, 88), -EBADMSG);
}

/* The wire has half of a packet's number. */
static void number__is_the_nearest(void **state)
{
    (void)state;
    assert_int_equal(br_dgram_number(1, 0), 1);
    assert_int_equal(br_dgram_number(100, 90), 100);
    assert_int_equal(br_dgram_number(90, 100), 90);
    assert_int_equal(br_dgram_number(2, 0xffffffff), 0x100000002);
    assert_int_equal(br_dgram_number(0xffffffff, 0x100000002), 0xffffffff);
    assert_int_equal(br_dgram_number(0, 0xffffffff), 0x100000000);
    assert_int_equal(br_dgram_number(0, 5), 0); /* none begins with it */
    assert_int_equal(br_dgram_number(0xfffffff0, 5), 0);
}

static int parse_ack(struct br_dgram_ack ack)
{
    uint32_t bytes =
        (uint32_t)(offsetof(struct br_dgram_ack, range) + ack.ranges * sizeof ack.range[0]);
    struct br_dgram_view view;

    if (bytes > sizeof ack)
        bytes = sizeof ack;
    br_dgram_seal(&ack, bytes, NULL, 0);
    return br_dgram_parse(&ack, bytes, &view);
}

static void parse__acks_that_make_no_sense(void **state)
{
    struct br_dgram_ack good = {.header.kind = BR_DGRAM_ACK,
                                .top = 10,
                                .latest = 9,
                                .ranges = 2,
                                .range = {{0, 3}, {2, 5}}};
    struct br_dgram_ack bad;

    (void)state;
    assert_int_equal(parse_ack(good), 0);
    bad = good, bad.top = 9; /* reaches below number 1 */
    assert_int_equal(parse_ack(bad), -EBADMSG);
    bad = good, bad.latest = 11;
    assert_int_equal(parse_ack(bad), -EBADMSG);
    bad = good, bad.latest = 0;
    assert_int_equal(parse_ack(bad), -EBADMSG);
    bad = good, bad.range[0].gap = 1;
    assert_int_equal(parse_ack(bad), -EBADMSG);
    bad = good, bad.range[1].gap = 0;
    assert_int_equal(parse_ack(bad), -EBADMSG);
    bad = good, bad.range[1].run = 0;
    assert_int_equal(parse_ack(bad), -EBADMSG);
    bad = good, bad.ranges = 0;
    assert_int_equal(parse_ack(bad), -EBADMSG);
    bad = good, bad.ranges = BR_DGRAM_RANGES + 1;
    assert_int_equal(parse_ack(bad), -EBADMSG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc32c__known_values),
        cmocka_unit_test(crc32c__is_the_same_every_way),
        cmocka_unit_test(parse__open_vector),
        cmocka_unit_test(parse__data_vector),
        cmocka_unit_test(parse__ack_vector),
        cmocka_unit_test(parse__close_of_an_unknown_link),
        cmocka_unit_test(parse__another_version),
        cmocka_unit_test(parse__every_damaged_bit_is_seen),
        cmocka_unit_test(parse__header_only_checksum),
        cmocka_unit_test(parse__data_that_makes_no_sense),
        cmocka_unit_test(number__is_the_nearest),
        cmocka_unit_test(parse__acks_that_make_no_sense),
    };

    return cmocka_run_group_tests_name("datagram/packet", tests, NULL, NULL);
}
