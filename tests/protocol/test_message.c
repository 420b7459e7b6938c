/* SPDX-License-Identifier: BSD-3-Clause */
/* The vectors of doc/wire.md are the bytes that the structs make. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "protocol/message.h"
#include "tests/protocol/vectors.h"

static void check(const char *name, const struct br_frame_header *header)
{
    uint8_t bytes[128];

    assert_int_equal(vector(name, bytes, sizeof bytes), sizeof *header);
    assert_memory_equal(bytes, header, sizeof *header);
}

static struct br_frame_header frame_of(const struct br_message *message)
{
    struct br_frame_header h = {
        .magic = BR_FRAME_MAGIC, .version = BR_FRAME_VERSION, .kind = BR_FRAME_MESSAGE};

    memcpy(h.inline_, message, sizeof *message);
    return h;
}

static void message__eager_vector(void **state)
{
    struct br_message m = {.type = BR_MESSAGE_EAGER,
                           .check = 0x1234,
                           .sequence = 5,
                           .tag = br_tag_collective(3, 7, 1, 2),
                           .released = 9,
                           .released_units = 16,
                           .bytes = 8};
    struct br_frame_header h;

    (void)state;
    for (uint8_t i = 0; i < 8; i++)
        m.data[i] = (uint8_t)(i + 1);
    h = frame_of(&m);
    check("eager-8", &h);
}

static void message__ready_vector(void **state)
{
    struct br_message m = {.type = BR_MESSAGE_READY,
                           .sequence = 6,
                           .tag = br_tag_p2p(0x3ff, 1, 9),
                           .bytes = 1 << 20,
                           .ready = {.slot = 0x00010003, .total = 1 << 20}};
    struct br_frame_header h = frame_of(&m);

    (void)state;
    check("ready", &h);
}

static void message__waiting_vector(void **state)
{
    struct br_message m = {.type = BR_MESSAGE_WAITING,
                           .check = 0x1234,
                           .tag = br_tag_p2p(0x3ff, 1, 9),
                           .bytes = 16 << 20,
                           .waiting = {.total = 32 << 20}};
    struct br_frame_header h = frame_of(&m);

    (void)state;
    check("waiting", &h);
    m.type = BR_MESSAGE_ANNOUNCE;
    m.sequence = 12;
    h = frame_of(&m);
    check("announce", &h);
}

static void message__left_vector(void **state)
{
    struct br_message m = {.type = BR_MESSAGE_LEFT, .left.ranks = {1, 8}};
    struct br_frame_header h = frame_of(&m);

    (void)state;
    check("left", &h);
}

static void message__idle_vector(void **state)
{
    struct br_message m = {.type = BR_MESSAGE_IDLE, .idle = {.kind = BR_IDLE_OK, .round = 7}};
    struct br_frame_header h = frame_of(&m);

    (void)state;
    check("idle", &h);
}

static void message__waiting_collective_vector(void **state)
{
    struct br_message m = {
        .type = BR_MESSAGE_WAITING,
        .check = 0x1234,
        .tag = br_tag_collective(3, 7, 0, 0),
        .waiting = {
            .total = 2000, .collective = 0, .type = 6, .reduction = 0, .by = BR_CALL_SHARED}};
    struct br_frame_header h = frame_of(&m);

    (void)state;
    check("waiting-collective", &h);
}

static void check_with_payload(const char *name, struct br_message *m, const uint8_t *keys,
                               uint32_t length)
{
    struct br_frame_header h = frame_of(m);
    uint8_t bytes[160];

    h.length = length;
    assert_int_equal(vector(name, bytes, sizeof bytes), sizeof h + length);
    assert_memory_equal(bytes, &h, sizeof h);
    assert_memory_equal(bytes + sizeof h, keys, length);
}

static void message__rkey_vectors(void **state)
{
    struct br_message m = {.type = BR_MESSAGE_READY,
                           .check = 0x1234,
                           .sequence = 7,
                           .tag = br_tag_collective(1, 2, 3, 4),
                           .bytes = 1 << 20,
                           .rkeys = 5,
                           .ready = {.slot = 0x00010003}};
    struct br_message renew = {.type = BR_MESSAGE_RENEW, .renew = {.slot = 0x00010003, .lost = 1}};
    struct br_frame_header h = frame_of(&renew);
    uint8_t keys[2 * BR_RKEY_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof keys; i++)
        keys[i] = (uint8_t)(0xa0 + i);
    check_with_payload("ready-rkeys", &m, keys, sizeof keys);
    check("renew", &h);
    m.sequence = 8;
    m.rkeys = 4;
    m.ready = (struct br_body_ready){.slot = 0x00020003, .renews = 0x00010003, .have = 0xb};
    check_with_payload("ready-renewed", &m, keys + BR_RKEY_BYTES, BR_RKEY_BYTES);
}

static void message__onesided_vectors(void **state)
{
    const struct br_operands operands = {.value = 7, .compare = 6};
    const struct br_answer answer = {.before = 6};
    const struct br_notify notify = {.value = 99, .group = 2};
    const struct br_put_entry entries[] = {{4096, 3, 5}, {64, 2, 2}};
    uint8_t puts[16 + 5 + 16 + 2] = {[16] = 1, 2, 3, 4, 5, [16 + 5 + 16] = 6, 7};
    uint8_t notified[sizeof notify + 5] = {[sizeof notify] = 1, 2, 3, 4, 5};
    struct br_message m = {.type = BR_MESSAGE_PUT,
                           .sequence = 9,
                           .tag = br_tag_onesided(21 << 1 | 1, BR_PART_REQUEST),
                           .bytes = 5,
                           .onesided = {.offset = 4096, .check = 0x1122334455667788, .region = 3}};
    struct br_frame_header h;

    (void)state;
    check_with_payload("put", &m, (const uint8_t[]){1, 2, 3, 4, 5}, 5);
    m.flags = BR_PUT_NOTIFIES;
    m.sequence = 12;
    memcpy(notified, &notify, sizeof notify);
    check_with_payload("put-notify", &m, notified, sizeof notified);
    m.flags = 0;
    m.type = BR_MESSAGE_ATOMIC;
    m.sequence = 10;
    m.tag = br_tag_onesided(22 << 1 | 1, BR_PART_REQUEST);
    m.bytes = 8;
    m.onesided.offset = 64;
    m.onesided.operation = BR_ATOMIC_SWAP;
    check_with_payload("atomic", &m, (const uint8_t *)&operands, sizeof operands);
    m = (struct br_message){.type = BR_MESSAGE_EAGER,
                            .sequence = 11,
                            .tag = br_tag_onesided(22 << 1 | 1, BR_PART_STATUS),
                            .bytes = sizeof answer};
    memcpy(m.data, &answer, sizeof answer);
    h = frame_of(&m);
    check("answer", &h);
    m = (struct br_message){.type = BR_MESSAGE_PUTS,
                            .sequence = 14,
                            .tag = br_tag_onesided(21 << 1 | 1, BR_PART_REQUEST),
                            .bytes = sizeof puts,
                            .puts = {.check = 0x1122334455667788, .count = 2}};
    memcpy(puts, &entries[0], sizeof entries[0]);
    memcpy(puts + 16 + 5, &entries[1], sizeof entries[1]);
    check_with_payload("puts", &m, puts, sizeof puts);
    m = (struct br_message){.type = BR_MESSAGE_PUT_DONE,
                            .sequence = 13,
                            .tag = br_tag_onesided(21 << 1 | 1, BR_PART_STATUS),
                            .put_done = {.puts = {3, 2}}};
    h = frame_of(&m);
    check("put-done", &h);
}

static void message__ack_vector(void **state)
{
    struct br_message m = {.type = BR_MESSAGE_ACK,
                           .ack = {.bytes = 65536,
                                   .arrived = 10,
                                   .released = 9,
                                   .ack_backlog = 16384,
                                   .released_bytes = 4096}};
    struct br_frame_header h = frame_of(&m);

    (void)state;
    check("ack", &h);
}

static void message__data_vector(void **state)
{
    struct br_data_header placed = {.flags = BR_DATA_ACK | BR_DATA_DONE};
    struct br_frame_header h = {.magic = BR_FRAME_MAGIC,
                                .version = BR_FRAME_VERSION,
                                .kind = BR_FRAME_DATA,
                                .length = 4096,
                                .slot = 0x00010003,
                                .offset = 8192};

    (void)state;
    memcpy(h.inline_, &placed, sizeof placed);
    check("remote-write", &h);
}

static void tag__numbers_do_not_reach_the_group(void **state)
{
    (void)state;
    assert_true(br_tag_collective(5, 1ull << 20, 1, 2) == br_tag_collective(5, 0, 1, 2));
    assert_true(br_tag_collective(5, 0xfffff, 0xffff, 0xffff) !=
                br_tag_collective(6, 0xfffff, 0xffff, 0xffff));
    assert_true(br_tag_p2p(1, 1ull << 20, 9) == br_tag_p2p(1, 0, 9));
    assert_true(br_tag_p2p(1, 0, 9) != br_tag_p2p(2, 0, 9));
    assert_true(br_tag_collective(BR_MAX_GROUPS - 1, 0, 0, 0) != br_tag_collective(0, 0, 0, 0));
}

static struct br_frame_header relay_of(const struct br_message_relay *m, uint32_t length)
{
    struct br_frame_header h = {.magic = BR_FRAME_MAGIC,
                                .version = BR_FRAME_VERSION,
                                .kind = BR_FRAME_MESSAGE,
                                .length = length};

    memcpy(h.inline_, m, sizeof *m);
    return h;
}

static void message__relay_vector(void **state)
{
    struct br_message_relay m = {.type = BR_MESSAGE_RELAY,
                                 .what = BR_RELAY_FRAME | BR_RELAY_ACK,
                                 .hosts = 4,
                                 .at = 2,
                                 .priority = -5,
                                 .path = {0, 1, 4, 5},
                                 .id = 5 << 16 | 7};
    struct br_data_header placed = {.flags = BR_DATA_ACK | BR_DATA_DONE};
    struct br_frame_header inner = {.magic = BR_FRAME_MAGIC,
                                    .version = BR_FRAME_VERSION,
                                    .kind = BR_FRAME_DATA,
                                    .length = 4,
                                    .slot = 0x00010003,
                                    .offset = 8192};
    struct br_frame_header h = relay_of(&m, sizeof inner + 4);
    uint8_t bytes[256];

    (void)state;
    memcpy(inner.inline_, &placed, sizeof placed);
    assert_int_equal(vector("relay", bytes, sizeof bytes), sizeof h + sizeof inner + 4);
    assert_memory_equal(bytes, &h, sizeof h);
    assert_memory_equal(bytes + sizeof h, &inner, sizeof inner);
    assert_memory_equal(bytes + sizeof h + sizeof inner, "\1\2\3\4", 4);
}

static void message__relay_unreachable_vector(void **state)
{
    struct br_message_relay m = {.type = BR_MESSAGE_RELAY,
                                 .what = BR_RELAY_UNREACHABLE,
                                 .hosts = 3,
                                 .at = 1,
                                 .priority = INT16_MAX,
                                 .path = {1, 4, 5},
                                 .id = 5 << 16 | 7,
                                 .number = 0};
    struct br_frame_header h = relay_of(&m, 0);

    (void)state;
    check("relay-unreachable", &h);
}

static void message__relay_back_vector(void **state)
{
    struct br_message m = {.type = BR_MESSAGE_RELAY_CREDIT, .relay_back = {.n = {2, 0, 1}}};
    struct br_frame_header h = frame_of(&m);

    (void)state;
    check("relay-back", &h);
}

static void tag__families_do_not_meet(void **state)
{
    (void)state;
    assert_int_equal(br_tag_class(br_tag_collective(0xffff, 0xfffff, 0xffff, 0xffff)),
                     BR_TAG_COLLECTIVE);
    assert_int_equal(br_tag_class(br_tag_collective(0, 0xffffffffff, 0, 0)), BR_TAG_COLLECTIVE);
    assert_int_equal(br_tag_class(br_tag_p2p(UINT32_MAX, UINT64_MAX, UINT32_MAX)), BR_TAG_P2P);
    assert_int_equal(br_tag_class(br_tag_onesided(UINT64_MAX, BR_PART_DATA)), BR_TAG_ONESIDED);
    assert_int_equal(br_tag_with_part(br_tag_onesided(5, BR_PART_DATA), BR_PART_STATUS),
                     br_tag_onesided(5, BR_PART_STATUS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(message__eager_vector),
        cmocka_unit_test(message__ready_vector),
        cmocka_unit_test(message__waiting_vector),
        cmocka_unit_test(message__left_vector),
        cmocka_unit_test(message__idle_vector),
        cmocka_unit_test(message__waiting_collective_vector),
        cmocka_unit_test(message__rkey_vectors),
        cmocka_unit_test(message__onesided_vectors),
        cmocka_unit_test(message__ack_vector),
        cmocka_unit_test(message__data_vector),
        cmocka_unit_test(tag__numbers_do_not_reach_the_group),
        cmocka_unit_test(tag__families_do_not_meet),
        cmocka_unit_test(message__relay_vector),
        cmocka_unit_test(message__relay_unreachable_vector),
        cmocka_unit_test(message__relay_back_vector),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
