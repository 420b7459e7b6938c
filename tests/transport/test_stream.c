/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "transport/stream.h"

#define MESSAGE_BYTES 256u
#define FRAME_BYTES   65536u

static uint8_t trash[1000];
static uint8_t place[FRAME_BYTES], payload[FRAME_BYTES];
static struct br_slot_table slots;
static struct br_stream_config config = {&slots, MESSAGE_BYTES, FRAME_BYTES, trash, sizeof trash};
static struct br_stream_rx rx;
static struct br_stream_tx tx;
static bool authenticated;

static int set_up(void **state)
{
    (void)state;
    memset(&tx, 0, sizeof tx);
    memset(place, 0, sizeof place);
    for (uint32_t i = 0; i < FRAME_BYTES; i++)
        payload[i] = (uint8_t)(i * 7 + i / 256);
    assert_int_equal(br_slot_table_init(&slots, 16), 0);
    assert_int_equal(br_stream_rx_init(&rx, &config, 2), 0);
    authenticated = true;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    br_stream_rx_destroy(&rx);
    br_slot_table_destroy(&slots);
    return 0;
}

/* Moves at most `max` bytes from tx to rx, as a socket would; what got() said, or -ENOBUFS. */
static int carry(size_t max, struct br_event *event)
{
    struct iovec iov[16];
    size_t bytes;
    uint32_t want;
    void *to;

    if (!br_stream_rx_want(&rx, &to, &want))
        return -ENOBUFS;
    assert_true(want > 0);
    if (!br_stream_tx_gather(&tx, iov, 16, max, &bytes))
        return -EAGAIN;
    if (want > iov[0].iov_len)
        want = (uint32_t)iov[0].iov_len;
    if (want > max)
        want = (uint32_t)max;
    memcpy(to, iov[0].iov_base, want);
    br_stream_tx_advance(&tx, want);
    return br_stream_rx_got(&rx, want, authenticated, event);
}

/* Until something happens. */
static int carry_on(size_t max, struct br_event *event)
{
    int rc;

    while (!(rc = carry(max, event)))
        ;
    return rc;
}

static void push_data(struct br_slot *slot, uint32_t offset, uint32_t length)
{
    struct br_frame frame = {.kind = BR_FRAME_DATA,
                             .payload = payload + offset,
                             .length = length,
                             .slot = br_slot_number(&slots, slot),
                             .offset = offset,
                             .cookie = offset};

    assert_true(br_stream_tx_push(&tx, &frame));
}

static void push_message(uint32_t length, uint8_t mark)
{
    uint8_t words[BR_FRAME_INLINE] = {mark};
    struct br_frame frame = {.kind = BR_FRAME_MESSAGE,
                             .payload = payload,
                             .length = length,
                             .inline_ = words,
                             .cookie = mark + 1u};

    assert_true(br_stream_tx_push(&tx, &frame));
}

static void rx_got__data_frame_lands_in_its_slot(void **state)
{
    struct br_slot *slot = br_slot_get(&slots, place, FRAME_BYTES, FRAME_BYTES);
    struct br_event event;

    (void)state;
    push_data(slot, 1024, 4096);
    assert_int_equal(carry_on(FRAME_BYTES, &event), 1);
    assert_int_equal(event.kind, BR_EVENT_DATA);
    assert_int_equal(event.offset, 1024);
    assert_int_equal(event.length, 4096);
    assert_int_equal(event.slot, br_slot_number(&slots, slot));
    assert_memory_equal(place + 1024, payload + 1024, 4096);
    assert_int_equal(place[1023] | place[1024 + 4096], 0);
}

static void rx_got__messages_of_every_length_in_pieces_of_every_size(void **state)
{
    struct br_event event;
    uint64_t cookie;

    (void)state;
    for (uint32_t piece = 1; piece < 400; piece += 13)
        for (uint32_t length = 0; length <= MESSAGE_BYTES; length += 64) {
            push_message(length, (uint8_t)(length + piece));
            assert_int_equal(carry_on(piece, &event), 1);
            assert_int_equal(event.kind, BR_EVENT_MESSAGE);
            assert_int_equal(event.length, length);
            assert_int_equal(event.inline_[0], (uint8_t)(length + piece));
            assert_memory_equal(event.payload, payload, length);
            br_stream_rx_release(&rx, event.buffer);
            assert_true(br_stream_tx_report(&tx, &cookie));
        }
}

static void rx_want__stops_only_when_a_peer_exceeds_its_credits(void **state)
{
    struct br_slot *slot = br_slot_get(&slots, place, FRAME_BYTES, FRAME_BYTES);
    struct br_event first, event;

    (void)state;
    push_message(10, 1);
    push_message(0, 2);
    push_data(slot, 0, 1024);
    push_message(10, 3);
    push_message(10, 4);
    assert_int_equal(carry_on(64, &first), 1);
    assert_int_equal(carry_on(64, &event), 1);
    /* both credits are out: placed frames still come through */
    assert_int_equal(carry_on(64, &event), 1);
    assert_int_equal(event.kind, BR_EVENT_DATA);
    assert_int_equal(carry_on(64, &event), 1); /* one more than allowed */
    assert_int_equal(carry_on(64, &event), -ENOBUFS);
    br_stream_rx_release(&rx, first.buffer);
    assert_int_equal(carry_on(64, &event), 1);
    assert_int_equal(event.inline_[0], 4);
}

static void rx_want__rest_of_a_frame_whose_slot_died_goes_to_the_trash(void **state)
{
    struct br_slot *slot = br_slot_get(&slots, place, FRAME_BYTES, FRAME_BYTES);
    struct br_event event;

    (void)state;
    push_data(slot, 0, 8192);
    push_message(0, 9);
    assert_int_equal(carry(64, &event), 0);
    assert_int_equal(carry(100, &event), 0);
    br_slot_put(&slots, slot);
    memset(place, 0, sizeof place);
    assert_int_equal(carry_on(FRAME_BYTES, &event), 1);
    assert_int_equal(event.kind, BR_EVENT_DATA);
    assert_int_equal(event.length, 8192);
    assert_true(event.stale);
    assert_int_equal(carry_on(FRAME_BYTES, &event), 1);
    assert_int_equal(event.kind, BR_EVENT_MESSAGE);
    for (uint32_t i = 0; i < FRAME_BYTES; i++)
        assert_int_equal(place[i], 0);
    assert_int_equal(slots.stale_frames, 1);
}

static void rx_want__rest_of_a_slice_that_another_rail_completed_goes_to_the_trash(void **state)
{
    struct br_slot *slot = br_slot_get(&slots, place, FRAME_BYTES, FRAME_BYTES);
    struct br_event event;

    (void)state;
    push_data(slot, 0, FRAME_BYTES);
    assert_int_equal(carry(64, &event), 0);
    assert_true(br_slot_arrive(slot, 0, FRAME_BYTES));
    assert_int_equal(carry_on(FRAME_BYTES, &event), 1);
    assert_int_equal(event.length, FRAME_BYTES);
    assert_int_equal(place[0] | place[1], 0);
    assert_int_equal(slots.stale_frames, 1);
}

static void rx_got__stale_frames_are_dropped_but_reported(void **state)
{
    struct br_slot *slot = br_slot_get(&slots, place, FRAME_BYTES, FRAME_BYTES);
    struct br_event event;

    (void)state;
    push_data(slot, 0, 4096);
    push_data(slot, 0, 0);
    push_message(5, 7);
    br_slot_put(&slots, slot);
    assert_int_equal(carry_on(777, &event), 1);
    assert_int_equal(event.kind, BR_EVENT_DATA);
    assert_int_equal(event.length, 4096);
    assert_int_equal(carry_on(777, &event), 1);
    assert_int_equal(event.length, 0);
    assert_int_equal(carry_on(777, &event), 1);
    assert_int_equal(event.inline_[0], 7);
    assert_int_equal(slots.stale_frames, 2);
}

static void rx_got__dropped_bytes_never_count_for_a_slot_that_came_to_life_meanwhile(void **state)
{
    struct br_slot *slot = br_slot_get(&slots, place, FRAME_BYTES, FRAME_BYTES);
    struct br_event event;

    (void)state;
    push_data(slot, 0, FRAME_BYTES);
    slot->generation++; /* the number is not known yet */
    assert_int_equal(carry(64, &event), 0);
    slot->generation--;
    assert_int_equal(carry_on(FRAME_BYTES, &event), 1);
    assert_true(event.stale);
    assert_int_equal(place[0] | place[1], 0);
}

static void rx_got__data_frame_of_an_unauthenticated_peer_is_refused(void **state)
{
    struct br_slot *slot = br_slot_get(&slots, place, FRAME_BYTES, FRAME_BYTES);
    struct br_event event;

    (void)state;
    authenticated = false;
    push_message(10, 1);
    push_data(slot, 0, 1024);
    assert_int_equal(carry_on(64, &event), 1);
    assert_int_equal(carry_on(64, &event), -EPROTO);
    assert_int_equal(place[0] | place[1], 0);
}

static void expect_malformed(struct br_frame_header header)
{
    struct br_event event;
    uint32_t bytes;
    void *to;

    br_stream_rx_destroy(&rx);
    assert_int_equal(br_stream_rx_init(&rx, &config, 2), 0);
    assert_true(br_stream_rx_want(&rx, &to, &bytes));
    assert_int_equal(bytes, sizeof header);
    memcpy(to, &header, sizeof header);
    br_error(EIO, "-");
    assert_int_equal(br_stream_rx_got(&rx, bytes, true, &event), -EPROTO);
    assert_string_not_equal(br_error_message(), "-");
}

static void rx_got__malformed_headers(void **state)
{
    struct br_slot *slot = br_slot_get(&slots, place, FRAME_BYTES, FRAME_BYTES);
    struct br_slot *only_mapped = br_slot_get(&slots, NULL, FRAME_BYTES, FRAME_BYTES);
    uint32_t number = br_slot_number(&slots, slot);
    struct br_frame_header
        good = {BR_FRAME_MAGIC, BR_FRAME_VERSION, BR_FRAME_DATA, 1024, number, 0, {0}},
        bad;

    (void)state;
    bad = good, bad.magic++, expect_malformed(bad);
    bad = good, bad.version++, expect_malformed(bad);
    bad = good, bad.kind = 77, expect_malformed(bad);
    bad = good, bad.length = 0, expect_malformed(bad);
    bad = good, bad.length = FRAME_BYTES + 1, expect_malformed(bad);
    bad = good, bad.offset = FRAME_BYTES, expect_malformed(bad);
    bad = good, bad.offset = 1, expect_malformed(bad);
    bad = good, bad.offset = ~0u, expect_malformed(bad);
    bad = good, bad.kind = BR_FRAME_MESSAGE, bad.length = MESSAGE_BYTES + 1, expect_malformed(bad);
    bad = good, bad.slot = br_slot_number(&slots, only_mapped), expect_malformed(bad);
}

static void tx_push__full_until_reported(void **state)
{
    struct br_frame frame = {.kind = BR_FRAME_MESSAGE};
    uint64_t cookie;

    (void)state;
    for (int i = 0; i < BR_STREAM_QUEUE; i++)
        push_message(0, (uint8_t)i);
    assert_false(br_stream_tx_push(&tx, &frame));
    br_stream_tx_advance(&tx, 63);
    assert_false(br_stream_tx_report(&tx, &cookie));
    br_stream_tx_advance(&tx, 1);
    assert_false(br_stream_tx_push(&tx, &frame));
    assert_true(br_stream_tx_report(&tx, &cookie));
    assert_int_equal(cookie, 1);
    assert_false(br_stream_tx_report(&tx, &cookie));
    assert_true(br_stream_tx_push(&tx, &frame));
}

/* Wherever the sending has stopped: within the header, within the payload, before or behind it. */
static void tx_spare__takes_the_rest_of_the_payload(void **state)
{
    const size_t header = sizeof(struct br_frame_header), all = 2 * (header + 100);

    (void)state;
    for (size_t gone = 0; gone <= all; gone++) {
        uint8_t text[100], spare[100], sent[1000];
        struct br_frame frame = {.kind = BR_FRAME_MESSAGE, .payload = text, .length = sizeof text};
        struct iovec iov[4];
        size_t at = 0, bytes;
        int n;

        memset(text, 7, sizeof text);
        memset(spare, 0, sizeof spare);
        memset(&tx, 0, sizeof tx);
        assert_true(br_stream_tx_push(&tx, &frame) && br_stream_tx_push(&tx, &frame));
        tx.queue[0].payload = (const uint8_t[100]){0};
        br_stream_tx_advance(&tx, gone);
        br_stream_tx_spare(&tx, spare);
        memset(text, 9, sizeof text);
        n = br_stream_tx_gather(&tx, iov, 4, sizeof sent, &bytes);
        for (int i = 0; i < n; i++) {
            memcpy(sent + at, iov[i].iov_base, iov[i].iov_len);
            at += iov[i].iov_len;
        }
        assert_int_equal(at, all - gone);
        for (size_t i = 0; i < 100 && i < at; i++)
            assert_int_equal(sent[at - 1 - i], 7);
    }
    memset(&tx, 0, sizeof tx);
}

/* A large frame that lasts is gathered alone, its payload as one part, also what is left of it. */
static void tx_gather__what_lasts_stands_alone(void **state)
{
    static uint8_t large[BR_LASTING_BYTES];
    struct br_frame frame = {
        .kind = BR_FRAME_DATA, .payload = large, .length = sizeof large, .lasts = true};
    struct iovec iov[8];
    size_t bytes;

    (void)state;
    tx.lends = true;
    push_message(0, 1);
    assert_true(br_stream_tx_push(&tx, &frame));
    push_message(0, 2);
    frame.length--;
    assert_true(br_stream_tx_push(&tx, &frame)); /* too short */
    frame.length++;
    frame.lasts = false;
    assert_true(br_stream_tx_push(&tx, &frame));
    assert_false(br_stream_tx_lends(&tx));
    assert_int_equal(br_stream_tx_gather(&tx, iov, 8, 1 << 20, &bytes), 1);
    assert_int_equal(bytes, 64);
    br_stream_tx_advance(&tx, 64);
    assert_true(br_stream_tx_lends(&tx));
    assert_int_equal(br_stream_tx_gather(&tx, iov, 8, 1 << 20, &bytes), 2);
    assert_int_equal(bytes, 64 + sizeof large);
    assert_ptr_equal(iov[1].iov_base, large);
    br_stream_tx_advance(&tx, 64 + 10);
    assert_true(br_stream_tx_lends(&tx));
    assert_int_equal(br_stream_tx_gather(&tx, iov, 8, 1 << 20, &bytes), 1);
    assert_ptr_equal(iov[0].iov_base, large + 10);
    assert_int_equal(bytes, sizeof large - 10);
    br_stream_tx_advance(&tx, bytes);
    assert_false(br_stream_tx_lends(&tx));
    assert_int_equal(br_stream_tx_gather(&tx, iov, 8, 1 << 20, &bytes), 5);
}

static void tx_gather__respects_both_limits(void **state)
{
    struct iovec iov[4];
    size_t bytes;

    (void)state;
    push_message(200, 1);
    push_message(100, 2);
    push_message(100, 3);
    assert_int_equal(br_stream_tx_gather(&tx, iov, 4, 1 << 20, &bytes), 4);
    assert_int_equal(bytes, 64 + 200 + 64 + 100);
    assert_int_equal(br_stream_tx_gather(&tx, iov, 4, 100, &bytes), 2);
    assert_int_equal(bytes, 64 + 100);
    br_stream_tx_advance(&tx, 264 + 63);
    assert_int_equal(br_stream_tx_gather(&tx, iov, 4, 1 << 20, &bytes), 4);
    assert_int_equal(iov[0].iov_len, 1);
    assert_int_equal(bytes, 1 + 100 + 164);
}

/* Nothing of frames that fill the limit is left behind. */
static void tx_gather__takes_whole_frames(void **state)
{
    struct iovec iov[8];
    size_t bytes;

    (void)state;
    for (uint8_t i = 0; i < 3; i++)
        push_message(200, i);
    assert_int_equal(br_stream_tx_gather(&tx, iov, 8, 400, &bytes), 4);
    assert_int_equal(bytes, 2 * (64 + 200));
    br_stream_tx_advance(&tx, bytes);
    assert_int_equal(tx.cursor, 0);
    assert_int_equal(tx.posted - tx.sent, 1);
}

/* A READY and the like must not wait until what is behind it has been copied. */
static void tx_gather__bulk_leaves_apart(void **state)
{
    struct br_frame bulk = {.kind = BR_FRAME_DATA, .payload = payload, .length = 64 << 10};
    struct iovec iov[2 * BR_STREAM_QUEUE];
    size_t bytes;

    (void)state;
    push_message(0, 1);
    push_message(100, 2);
    assert_true(br_stream_tx_push(&tx, &bulk));
    push_message(10, 3);
    assert_int_equal(br_stream_tx_gather(&tx, iov, 8, 1 << 20, &bytes), 3);
    assert_int_equal(bytes, 64 + 64 + 100);
    br_stream_tx_advance(&tx, bytes);
    assert_int_equal(br_stream_tx_gather(&tx, iov, 8, 1 << 20, &bytes), 4);
    assert_int_equal(bytes, 64 + bulk.length + 64 + 10);
    br_stream_tx_advance(&tx, bytes);
    for (uint64_t cookie; br_stream_tx_report(&tx, &cookie);)
        ;
    for (uint8_t i = 0; i < BR_STREAM_QUEUE - 1; i++)
        push_message(0, i);
    assert_true(br_stream_tx_push(&tx, &bulk));
    assert_int_equal(br_stream_tx_gather(&tx, iov, 2 * BR_STREAM_QUEUE, 1 << 20, &bytes),
                     BR_STREAM_QUEUE - 1);
}

static void tx_ask__has_the_next_message_acknowledged_at_once(void **state)
{
    struct br_event event;

    (void)state;
    push_message(10, 1);
    while (carry(1000, &event) != 1)
        assert_false(rx.ack_now);
    assert_false(rx.ack_now);
    br_stream_rx_release(&rx, event.buffer);
    push_message(10, 2);
    assert_true(br_stream_tx_ask(&tx));
    while (carry(1000, &event) != 1)
        assert_false(rx.ack_now);
    assert_true(rx.ack_now);
    br_stream_rx_release(&rx, event.buffer);
    push_message(10, 3);
    push_message(10, 4);
    assert_false(br_stream_tx_ask(&tx)); /* the last one would not ask */
}

static void stream__random_frames_in_random_pieces_arrive_once_and_in_order(void **state)
{
    struct br_random random;
    uint64_t next_sent = 0, posted = 0;

    (void)state;
    br_random_seed(&random, 42);
    for (int round = 0; round < 200; round++) {
        struct br_slot *slot = br_slot_get(&slots, place, FRAME_BYTES, FRAME_BYTES);
        uint32_t n = 1 + (uint32_t)br_random_below(&random, 30), arrived = 0;
        struct br_event event;

        memset(place, 0, sizeof place);
        for (uint32_t i = 0; i < n; i++, posted++) {
            struct br_frame frame = {.kind = i % 3 ? BR_FRAME_DATA : BR_FRAME_MESSAGE,
                                     .cookie = posted + 1};

            frame.offset = i % 3 ? i * 2048 : 0;
            frame.slot = i % 3 ? br_slot_number(&slots, slot) : 0;
            frame.payload = payload + frame.offset;
            frame.length = i % 3 ? 2048 : (uint32_t)br_random_below(&random, MESSAGE_BYTES + 1);
            assert_true(br_stream_tx_push(&tx, &frame));
        }
        while (arrived < n) {
            if (carry(1 + br_random_below(&random, 3000), &event) != 1)
                continue;
            assert_int_equal(event.kind, arrived % 3 ? BR_EVENT_DATA : BR_EVENT_MESSAGE);
            if (event.kind == BR_EVENT_DATA) {
                assert_int_equal(event.offset, arrived * 2048);
                assert_memory_equal(place + event.offset, payload + event.offset, 2048);
            } else {
                assert_memory_equal(event.payload, payload, event.length);
                br_stream_rx_release(&rx, event.buffer);
            }
            arrived++;
        }
        for (uint64_t cookie; br_stream_tx_report(&tx, &cookie); next_sent++)
            assert_int_equal(cookie, next_sent + 1);
        br_slot_put(&slots, slot);
    }
    assert_int_equal(next_sent, posted);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(rx_got__data_frame_lands_in_its_slot),
        TEST(rx_got__messages_of_every_length_in_pieces_of_every_size),
        TEST(rx_want__stops_only_when_a_peer_exceeds_its_credits),
        TEST(rx_want__rest_of_a_frame_whose_slot_died_goes_to_the_trash),
        TEST(rx_want__rest_of_a_slice_that_another_rail_completed_goes_to_the_trash),
        TEST(rx_got__stale_frames_are_dropped_but_reported),
        TEST(rx_got__dropped_bytes_never_count_for_a_slot_that_came_to_life_meanwhile),
        TEST(rx_got__data_frame_of_an_unauthenticated_peer_is_refused),
        TEST(rx_got__malformed_headers),
        TEST(tx_push__full_until_reported),
        TEST(tx_gather__what_lasts_stands_alone),
        TEST(tx_spare__takes_the_rest_of_the_payload),
        TEST(tx_gather__respects_both_limits),
        TEST(tx_gather__takes_whole_frames),
        TEST(tx_gather__bulk_leaves_apart),
        TEST(tx_ask__has_the_next_message_acknowledged_at_once),
        TEST(stream__random_frames_in_random_pieces_arrive_once_and_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
