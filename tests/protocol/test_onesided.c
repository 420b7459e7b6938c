/* SPDX-License-Identifier: BSD-3-Clause */
/* The target's side of put, get and atomics: what a peer may reach, and what it is told. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/says.h"
#include "wired.h"

#define REGION 9u
#define BYTES  8192u

static _Alignas(8) uint8_t memory[BYTES];
static struct br_region region;
static int held;

static int find(void *context, uint32_t id, uint64_t offset, uint64_t bytes, void **at,
                struct br_region **found)
{
    (void)context;
    if (id != REGION || offset > BYTES || bytes > BYTES - offset)
        return -EACCES;
    *at = memory + offset;
    *found = &region;
    held++;
    return 0;
}

static void done(void *context, struct br_region *given)
{
    (void)context;
    assert_ptr_equal(given, &region);
    held--;
}

static void set_up(struct wired *x)
{
    wired_create(x, 0, 1, NULL);
    x->w->config.region_find = find;
    x->w->config.region_done = done;
    held = 0;
    memset(memory, 0xa5, sizeof memory);
}

/* A request with a payload, the i-th message of the peer. */
static void ask_with(struct wired *x, enum br_message_type type, uint32_t i, uint64_t offset,
                     uint32_t bytes, enum br_atomic operation, const void *payload, uint32_t length)
{
    struct br_message m = {
        .type = (uint8_t)type,
        .sequence = i,
        .tag = br_tag_onesided(i, BR_PART_REQUEST),
        .bytes = bytes,
        .onesided = {.offset = offset, .check = 77, .region = REGION, .operation = operation},
    };

    wire_message(x->links[0], &m, payload, length);
    wired_turn(x, 0);
}

static void ask(struct wired *x, enum br_message_type type, uint32_t i, uint64_t offset,
                uint32_t bytes)
{
    ask_with(x, type, i, offset, bytes, BR_ATOMIC_ADD, NULL, 0);
}

static void ask_atomic(struct wired *x, uint32_t i, uint64_t offset, enum br_atomic operation,
                       uint64_t value, uint64_t compare)
{
    struct br_operands operands = {value, compare};

    ask_with(x, BR_MESSAGE_ATOMIC, i, offset, 8, operation, &operands, sizeof operands);
}

/* The answer to an atomic. */
static struct br_answer answer(struct wired *x, uint64_t request)
{
    struct wire_frame *frame = wire_take(x->links[0], BR_MESSAGE_EAGER);
    struct br_answer a;

    assert_non_null(frame);
    assert_int_equal(frame->message.tag, br_tag_onesided(request, BR_PART_STATUS));
    assert_int_equal(frame->message.bytes, sizeof a);
    memcpy(&a, frame->message.data, sizeof a);
    return a;
}

static uint64_t word_at(uint64_t offset)
{
    uint64_t word;

    memcpy(&word, memory + offset, sizeof word);
    return word;
}

/* What ends it: PUT_DONE of it alone is 0, or four bytes; INT32_MAX: not yet. */
static int32_t status(struct wired *x, uint64_t request)
{
    struct wire_frame *frame = wire_take(x->links[0], BR_MESSAGE_PUT_DONE);
    int32_t result;

    if (frame) {
        assert_int_equal(frame->message.tag, br_tag_onesided(request, BR_PART_STATUS));
        assert_int_equal(frame->message.put_done.puts[0], 1);
        assert_int_equal(frame->message.put_done.puts[1] | frame->message.put_done.puts[2], 0);
        return 0;
    }
    frame = wire_take(x->links[0], BR_MESSAGE_EAGER);
    if (!frame)
        return INT32_MAX;
    assert_int_equal(frame->message.tag, br_tag_onesided(request, BR_PART_STATUS));
    memcpy(&result, frame->message.data, sizeof result);
    return result;
}

/* The requester's READY for the data of a get. */
static void ready(struct wired *x, uint32_t sequence, uint64_t request, uint32_t bytes)
{
    struct br_message m = {.type = BR_MESSAGE_READY,
                           .sequence = sequence,
                           .tag = br_tag_onesided(request, BR_PART_DATA),
                           .bytes = bytes,
                           .ready.slot = 0x10004};

    wire_message(x->links[0], &m, NULL, 0);
    wired_turn(x, 0);
}

static void expect_clean(struct wired *x)
{
    assert_int_equal(x->w->failed, 0);
    assert_int_equal(held, 0);
    assert_int_equal(x->w->services.n_used, 0);
    assert_int_equal(x->w->slots.n_free, x->w->slots.count);
    assert_int_equal(x->w->sends.count, 0);
    assert_int_equal(x->wires[0].buffers, 0);
    wired_destroy(x);
}

static void put__into_the_region(void **state)
{
    struct wire_frame *frame;
    uint8_t from[2000];
    struct wired x;

    (void)state;
    memset(from, 3, sizeof from);
    set_up(&x);
    ask(&x, BR_MESSAGE_PUT, 0, 100, sizeof from);
    frame = wire_take(x.links[0], BR_MESSAGE_READY);
    assert_non_null(frame);
    assert_int_equal(frame->message.tag, br_tag_onesided(0, BR_PART_DATA));
    assert_int_equal(held, 1); /* it must not be given back while bytes may come */
    assert_int_equal(status(&x, 0), INT32_MAX);
    wire_placed(x.links[0], frame->message.ready.slot, 0, from, sizeof from, 0);
    wired_turn(&x, 0);
    assert_int_equal(status(&x, 0), 0);
    assert_int_equal(memory[99], 0xa5);
    assert_int_equal(memory[100], 3);
    assert_int_equal(memory[2099], 3);
    assert_int_equal(memory[2100], 0xa5);
    expect_clean(&x);
}

/* Its bytes came with the request: answered at once. */
static void put__with_its_bytes(void **state)
{
    uint8_t from[100];
    struct wired x;

    (void)state;
    memset(from, 3, sizeof from);
    set_up(&x);
    ask_with(&x, BR_MESSAGE_PUT, 0, 50, sizeof from, 0, from, sizeof from);
    assert_int_equal(status(&x, 0), 0);
    assert_int_equal(memory[49], 0xa5);
    assert_int_equal(memory[50], 3);
    assert_int_equal(memory[149], 3);
    assert_int_equal(memory[150], 0xa5);
    ask_with(&x, BR_MESSAGE_PUT, 1, BYTES - 99, sizeof from, 0, from, sizeof from);
    assert_int_equal(status(&x, 1), -EACCES);
    assert_int_equal(memory[BYTES - 1], 0xa5);
    expect_clean(&x);
}

/* A put of one byte with its byte, the i-th message of the peer, which waits for a turn. */
static void put_byte(struct wired *x, uint32_t i, uint64_t request, uint64_t offset)
{
    struct br_message m = {.type = BR_MESSAGE_PUT,
                           .sequence = i,
                           .tag = br_tag_onesided(request, BR_PART_REQUEST),
                           .bytes = 1,
                           .onesided = {.offset = offset, .check = 77, .region = REGION}};
    const uint8_t byte = 7;

    wire_message(x->links[0], &m, &byte, sizeof byte);
}

/* Those of one poll, WIRE_BATCH, in whatever order they come; one that fails, and one whose counter
 * is too far from theirs or before them, is answered by itself. */
static void put__several_have_one_answer(void **state)
{
    static const uint64_t requests[] = {0,   6,   2,
                                        128, 382, 384}; /* the counter, larger rank bit 0 */
    struct wire_frame *frame;
    struct wired x;

    (void)state;
    set_up(&x);
    for (uint32_t i = 0; i < 6; i++)
        put_byte(&x, i, 2 + requests[i], i);
    put_byte(&x, 6, 0, 6);
    put_byte(&x, 7, 2 + 4, BYTES);
    wired_turn(&x, 0);
    for (uint32_t i = 0; i < 7; i++)
        assert_int_equal(memory[i], 7);
    frame = wire_take(x.links[0], BR_MESSAGE_PUT_DONE);
    assert_non_null(frame);
    assert_int_equal(frame->message.tag, br_tag_onesided(2, BR_PART_STATUS));
    assert_int_equal(frame->message.sequence, 0);
    assert_true(frame->message.put_done.puts[0] == (1u | 1u << 3 | 1u << 1));
    assert_true(frame->message.put_done.puts[1] == 1);
    assert_true(frame->message.put_done.puts[2] == 1ull << 63);
    assert_null(wire_take(x.links[0], BR_MESSAGE_PUT_DONE));
    assert_int_equal(status(&x, 2 + 384), 0);
    assert_int_equal(status(&x, 0), 0);
    assert_int_equal(status(&x, 2 + 4), -EACCES);
    assert_int_equal(status(&x, 0), INT32_MAX);
    expect_clean(&x);
}

/* Several in one request: each has the answer that it would have alone. */
static void puts__each_has_its_answer(void **state)
{
    const struct br_put_entry entries[] = {
        {100, REGION, 3}, {BYTES - 1, REGION, 2}, {200, REGION, 1}, {0, REGION + 1, 1}};
    struct br_message m = {.type = BR_MESSAGE_PUTS,
                           .tag = br_tag_onesided(2, BR_PART_REQUEST),
                           .puts = {.check = 77, .count = 4}};
    struct wire_frame *frame;
    uint8_t payload[4 * 16 + 7];
    uint32_t at = 0;
    struct wired x;

    (void)state;
    set_up(&x);
    for (uint32_t i = 0; i < 4; i++) {
        memcpy(payload + at, &entries[i], sizeof entries[i]);
        memset(payload + at + 16, (int)i + 1, entries[i].bytes);
        at += 16 + entries[i].bytes;
    }
    m.bytes = at;
    wire_message(x.links[0], &m, payload, at);
    wired_turn(&x, 0);
    frame = wire_take(x.links[0], BR_MESSAGE_PUT_DONE);
    assert_non_null(frame);
    assert_int_equal(frame->message.tag, br_tag_onesided(2, BR_PART_STATUS));
    assert_true(frame->message.put_done.puts[0] == (1u | 1u << 2));
    assert_int_equal(status(&x, 4), -EACCES);
    assert_int_equal(status(&x, 8), -EACCES);
    assert_int_equal(memory[99], 0xa5);
    assert_int_equal(memory[100], 1);
    assert_int_equal(memory[102], 1);
    assert_int_equal(memory[103], 0xa5);
    assert_int_equal(memory[200], 3);
    assert_int_equal(memory[BYTES - 1], 0xa5);
    wire_message(x.links[0], &m, payload, at); /* again, as its rail was lost */
    wired_turn(&x, 0);
    assert_int_equal(status(&x, 0), INT32_MAX);
    m.sequence = 1;
    m.puts.check = 78; /* of another job */
    m.puts.count = 1;
    m.tag = br_tag_onesided(10, BR_PART_REQUEST);
    wire_message(x.links[0], &m, payload, 16 + 3);
    wired_turn(&x, 0);
    assert_int_equal(status(&x, 10), -EACCES);
    expect_clean(&x);
}

static void puts__malformed(void **state)
{
    /* one of 8 bytes, another way of it in each case */
    static const struct {
        uint32_t count, bytes, length;
    } bad[] = {{0, 8, 24}, {2, 8, 24},          {1, 0, 16}, {1, 9, 24},          {1, 7, 24},
               {1, 8, 23}, {1, UINT32_MAX, 24}, {1, 8, 25}, {65, 8, 24},         {0, 8, 0},
               {1, 8, 15}, {2, 8, 39},          {1, 8, 0},  {UINT32_MAX, 8, 24}, {1, 8985, 9001}};
    uint8_t payload[9001] = {0};
    struct wired x;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct br_put_entry entry = {.region = REGION, .bytes = bad[i].bytes};
        struct br_message m = {.type = BR_MESSAGE_PUTS,
                               .tag = br_tag_onesided(0, BR_PART_REQUEST),
                               .puts = {.check = 77, .count = bad[i].count}};

        set_up(&x);
        memcpy(payload, &entry, sizeof entry);
        wire_message(x.links[0], &m, payload, bad[i].length);
        wired_turn(&x, 0);
        assert_true(x.links[0]->closed);
        assert_int_equal(memory[0], 0xa5);
        assert_int_equal(held, 0);
        wired_destroy(&x);
    }
}

/* What the next burst needs comes with the answer: else it would stop in its middle for the buffers
 * that have not been announced. One put is no burst. */
static void put__the_answer_to_several_brings_an_ack(void **state)
{
    struct wire_frame *frame;
    struct wired x;

    (void)state;
    set_up(&x);
    put_byte(&x, 0, 0, 0);
    wired_turn(&x, 0);
    assert_int_equal(status(&x, 0), 0);
    assert_null(wire_take(x.links[0], BR_MESSAGE_ACK));
    put_byte(&x, 1, 2, 1);
    put_byte(&x, 2, 6, 2);
    wired_turn(&x, 0);
    assert_non_null(wire_take(x.links[0], BR_MESSAGE_PUT_DONE));
    frame = wire_take(x.links[0], BR_MESSAGE_ACK);
    assert_non_null(frame);
    assert_int_equal(frame->message.ack.released, 3);
    expect_clean(&x);
}

/* No room for it: it waits, and says of what is carried out meanwhile as well. */
static void put__answer_waits_for_room(void **state)
{
    struct wire_frame *frame;
    struct wired x;

    (void)state;
    set_up(&x);
    x.wires[0].room = 0;
    put_byte(&x, 0, 0, 0);
    wired_turn(&x, 0);
    put_byte(&x, 1, 2, 1);
    wired_turn(&x, 0);
    assert_true(br_worker_has_waiting(x.w));
    x.wires[0].room = -1;
    wired_turn(&x, 0);
    frame = wire_take(x.links[0], BR_MESSAGE_PUT_DONE);
    assert_non_null(frame);
    assert_int_equal(frame->message.put_done.puts[0], 3);
    assert_false(br_worker_has_waiting(x.w));
    expect_clean(&x);
}

/* The requester's side: receives of answers, as many as there are puts. */
static void put_done__ends_its_puts(void **state)
{
    struct br_message m = {.type = BR_MESSAGE_PUT_DONE,
                           .tag = br_tag_onesided(4, BR_PART_STATUS),
                           .put_done = {.puts = {1, 0, 1ull << 63}}};
    struct br_transfer answers[3];
    int32_t statuses[3] = {1, 1, 1};
    struct wired x;

    (void)state;
    set_up(&x);
    for (int i = 0; i < 3; i++) {
        answers[i] = (struct br_transfer){
            .tag = br_tag_onesided((uint64_t[]){4, 6, 4 + 382}[i], BR_PART_STATUS),
            .peer = 1,
            .length = BR_ANSWER_BYTES,
            .memory = &statuses[i]};
        assert_int_equal(br_transfer_receive(x.w, &answers[i]), 0);
    }
    wire_message(x.links[0], &m, NULL, 0);
    wired_turn(&x, 0);
    assert_int_equal(x.done, 2);
    assert_int_equal(answers[0].state, BR_TRANSFER_ENDED);
    assert_int_equal(answers[2].state, BR_TRANSFER_ENDED);
    assert_int_equal(statuses[0] | statuses[2], 0);
    assert_int_equal(statuses[1], 1);
    wire_message(x.links[0], &m, NULL, 0); /* again, as its rail was lost */
    wired_turn(&x, 0);
    assert_int_equal(x.done, 2);
    assert_int_equal(x.w->counters.dropped_messages, 1);
    br_transfer_withdraw(x.w, &answers[1]);
    expect_clean(&x);
}

/* Of no put, of an atomic's answer, or with a tag that is none of an answer. */
static void put_done__of_what_is_no_put(void **state)
{
    static const uint64_t tags[] = {3ull << 62 | 2, 3ull << 62 | 8 | 2, 3ull << 62 | 16, 2};
    struct wired x;

    (void)state;
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        uint64_t before[2];
        struct br_transfer t = {
            .tag = 3ull << 62 | 8 | 2, .peer = 1, .length = sizeof before, .memory = before};
        struct br_message m = {
            .type = BR_MESSAGE_PUT_DONE, .tag = tags[i], .put_done = {.puts = {1}}};

        set_up(&x);
        assert_int_equal(br_transfer_receive(x.w, &t), 0);
        wire_message(x.links[0], &m, NULL, 0);
        wired_turn(&x, 0);
        assert_true(x.links[0]->closed);
        assert_int_equal(x.done, 0);
        wired_destroy(&x);
    }
}

static void atomic__add_and_swap(void **state)
{
    const uint64_t old = 0xa5a5a5a5a5a5a5a5;
    struct wired x;

    (void)state;
    set_up(&x);
    ask_atomic(&x, 0, 8, BR_ATOMIC_ADD, 1, 0);
    assert_int_equal(answer(&x, 0).before, old);
    assert_int_equal(word_at(8), old + 1);
    ask_atomic(&x, 1, 8, BR_ATOMIC_ADD, -old, 0); /* over the top */
    assert_int_equal(answer(&x, 1).before, old + 1);
    assert_int_equal(word_at(8), 1);
    ask_atomic(&x, 2, 8, BR_ATOMIC_SWAP, 99, 2);
    assert_int_equal(answer(&x, 2).before, 1);
    assert_int_equal(word_at(8), 1);
    ask_atomic(&x, 3, 8, BR_ATOMIC_SWAP, 99, 1);
    assert_int_equal(answer(&x, 3).before, 1);
    assert_int_equal(word_at(8), 99);
    assert_int_equal(word_at(0), old);
    assert_int_equal(word_at(16), old);
    expect_clean(&x);
}

/* A rail is lost, and the requester sends again what may not have arrived. */
static void atomic__twice_counts_once(void **state)
{
    struct wired x;

    (void)state;
    set_up(&x);
    ask_atomic(&x, 0, 8, BR_ATOMIC_ADD, 1, 0);
    assert_int_equal(answer(&x, 0).status, 0);
    ask_atomic(&x, 0, 8, BR_ATOMIC_ADD, 1, 0);
    assert_null(wire_take(x.links[0], BR_MESSAGE_EAGER));
    assert_int_equal(word_at(8), 0xa5a5a5a5a5a5a5a6);
    expect_clean(&x);
}

static void atomic__refused(void **state)
{
    struct wired x;

    (void)state;
    set_up(&x);
    ask_atomic(&x, 0, 12, BR_ATOMIC_ADD, 1, 0);
    assert_int_equal(answer(&x, 0).status, -EINVAL);
    ask_atomic(&x, 1, BYTES - 7, BR_ATOMIC_ADD, 1, 0);
    assert_int_equal(answer(&x, 1).status, -EACCES);
    ask_atomic(&x, 2, 8, (enum br_atomic)3, 1, 0);
    assert_int_equal(answer(&x, 2).status, -EOPNOTSUPP);
    assert_int_equal(word_at(8), 0xa5a5a5a5a5a5a5a5);
    expect_clean(&x);
}

/* Lengths that contradict each other: no peer of ours. */
static void request__malformed(void **state)
{
    static const struct {
        enum br_message_type type;
        uint32_t bytes, length;
    } bad[] = {{BR_MESSAGE_PUT, 100, 99},    {BR_MESSAGE_PUT, 99, 100},
               {BR_MESSAGE_PUT, 9000, 9000}, {BR_MESSAGE_ATOMIC, 8, 15},
               {BR_MESSAGE_ATOMIC, 16, 16},  {BR_MESSAGE_ATOMIC, 8, 0}};
    static const uint8_t payload[9000];
    struct wired x;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        set_up(&x);
        ask_with(&x, bad[i].type, 0, 0, bad[i].bytes, 0, payload, bad[i].length);
        assert_true(x.links[0]->closed);
        assert_int_equal(memory[0], 0xa5);
        assert_int_equal(held, 0);
        wired_destroy(&x);
    }
}

static void get__out_of_the_region(void **state)
{
    struct wire_frame *frame;
    struct wired x;

    (void)state;
    set_up(&x);
    ask(&x, BR_MESSAGE_GET, 0, 8, 16);
    assert_null(wire_take_placed(x.links[0]));
    ready(&x, 1, 0, 16);
    frame = wire_take_placed(x.links[0]);
    assert_non_null(frame);
    assert_int_equal(frame->frame.slot, 0x10004);
    assert_ptr_equal(frame->frame.payload, memory + 8);
    assert_int_equal(held, 1);
    wire_sent(frame);
    wired_turn(&x, 0);
    assert_null(wire_take(x.links[0], BR_MESSAGE_EAGER)); /* the data are the answer */
    expect_clean(&x);
}

/* Its READY may pass the request on the way. */
static void get__ready_comes_first(void **state)
{
    struct wired x;

    (void)state;
    set_up(&x);
    ready(&x, 1, 0, 16);
    ask(&x, BR_MESSAGE_GET, 0, 8, 16);
    assert_non_null(wire_take_placed(x.links[0]));
    wire_sent_all(&x.wires[0]);
    wired_turn(&x, 0);
    assert_null(wire_take(x.links[0], BR_MESSAGE_EAGER));
    expect_clean(&x);
}

/* It waits for what was submitted before it was asked for, and not for what follows: there might
 * always be something. */
static void get__before_what_is_submitted_later(void **state)
{
    static uint8_t large[1 << 20];
    struct br_transfer sends[2];
    bool got = false;
    struct wired x;

    (void)state;
    set_up(&x);
    for (uint32_t i = 0; i < 2; i++) {
        struct br_message m = {.type = BR_MESSAGE_READY,
                               .sequence = 3 * i,
                               .tag = i + 1,
                               .bytes = sizeof large,
                               .ready.slot = 0x20000 + i};

        sends[i] = (struct br_transfer){
            .tag = i + 1, .peer = 1, .memory = large, .length = sizeof large, .order = i + 1};
        assert_int_equal(br_transfer_send(x.w, &sends[i]), 0);
        wire_message(x.links[0], &m, NULL, 0);
        wired_turn(&x, 0);
        if (i)
            break;
        ask(&x, BR_MESSAGE_GET, 1, 8, 16);
        ready(&x, 2, 1, 16);
    }
    for (;;) {
        const struct wire_frame *frame = wire_take_placed(x.links[0]);
        struct br_message ack = {.type = BR_MESSAGE_ACK,
                                 .ack.bytes = x.w->peers[1].rails[0].tx_bytes};

        if (frame && frame->frame.slot == 0x20001)
            break;
        got = got || (frame && frame->frame.slot == 0x10004);
        if (frame)
            continue;
        wire_sent_all(&x.wires[0]);
        wire_message(x.links[0], &ack, NULL, 0);
        wired_turn(&x, BR_MS);
    }
    assert_true(got);
    wired_destroy(&x);
}

/* What nobody may reach: beyond the end, an overflow, nothing at all, more than a transfer, another
 * region or job. */
static void refused__in_words_of_the_protocol(void **state)
{
    static const struct {
        uint64_t offset;
        uint32_t bytes;
    } bad[] = {{BYTES, 1},     {1, BYTES}, {UINT64_MAX, 16},
               {0, 0},         {BYTES, 0}, {0, BR_MAX_TRANSFER + 1},
               {0, UINT32_MAX}};
    struct wired x;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (int get = 0; get < 2; get++) {
            set_up(&x);
            ask(&x, get ? BR_MESSAGE_GET : BR_MESSAGE_PUT, 0, bad[i].offset, bad[i].bytes);
            assert_null(wire_take(x.links[0], BR_MESSAGE_READY));
            if (get) { /* it has sent its READY, which must not hold a credit for ever */
                assert_int_equal(status(&x, 0), INT32_MAX);
                ready(&x, 1, 0, bad[i].bytes);
                assert_null(wire_take_placed(x.links[0]));
            }
            assert_int_equal(status(&x, 0), -EACCES);
            assert_int_equal(memory[0], 0xa5);
            expect_clean(&x);
        }
}

static void refused__key_of_another_job(void **state)
{
    struct br_message m = {.type = BR_MESSAGE_PUT,
                           .tag = br_tag_onesided(0, BR_PART_REQUEST),
                           .bytes = 16,
                           .onesided = {.check = 78, .region = REGION}};
    struct wired x;

    (void)state;
    set_up(&x);
    wire_message(x.links[0], &m, NULL, 0);
    wired_turn(&x, 0);
    assert_int_equal(status(&x, 0), -EACCES);
    expect_clean(&x);
}

/* Nobody offers regions here. */
static void refused__without_regions(void **state)
{
    struct wired x;

    (void)state;
    set_up(&x);
    x.w->config.region_find = NULL;
    ask(&x, BR_MESSAGE_PUT, 0, 0, 16);
    assert_int_equal(status(&x, 0), -EACCES);
    expect_clean(&x);
}

/* Two requests with one tag: the second is refused, the first is served. */
static void refused__tag_in_use(void **state)
{
    struct br_message again = {.type = BR_MESSAGE_GET,
                               .sequence = 1,
                               .tag = br_tag_onesided(0, BR_PART_REQUEST),
                               .bytes = 16,
                               .onesided = {.check = 77, .region = REGION}};
    struct wired x;

    (void)state;
    set_up(&x);
    ask(&x, BR_MESSAGE_GET, 0, 0, 16);
    wire_message(x.links[0], &again, NULL, 0);
    wired_turn(&x, 0);
    assert_int_equal(status(&x, 0), -EINVAL);
    assert_int_equal(held, 1);
    ready(&x, 2, 0, 16);
    assert_non_null(wire_take_placed(x.links[0]));
    wire_sent_all(&x.wires[0]);
    wired_turn(&x, 0);
    assert_null(wire_take(x.links[0], BR_MESSAGE_EAGER));
    expect_clean(&x);
}

/* The room for them grows; more than it may have ends the job, in words. */
static void request__more_than_there_can_be(void **state)
{
    struct wired x;

    (void)state;
    set_up(&x);
    for (uint32_t i = 0; !x.w->failed; i++) {
        assert_true(i <= x.w->services.per_chunk * x.w->services.max_chunks);
        ask(&x, BR_MESSAGE_PUT, i, 0, 16);
        wire_forget(&x.wires[0]);
    }
    assert_int_equal(x.w->services.n_used, x.w->services.per_chunk * x.w->services.max_chunks);
    assert_int_equal(x.w->failed, -ENOBUFS);
    assert_says(x.w->message, "puts|gets|atomics");
    wired_destroy(&x);
}

/* Whose region it is may deregister it after a failure, but not before nobody can write there any
 * more. */
static void request__its_region_outlives_a_failure(void **state)
{
    struct wired x;

    (void)state;
    set_up(&x);
    ask(&x, BR_MESSAGE_PUT, 0, 0, 4000);
    ask(&x, BR_MESSAGE_GET, 1, 0, 4000);
    assert_int_equal(held, 2);
    br_worker_fail(x.w, ECANCELED, "enough");
    wired_turn(&x, 0);
    assert_int_equal(held, 2);
    wired_turn(&x, BR_ABORT_LINGER);
    wired_turn(&x, BR_ABORT_LINGER);
    assert_false(x.w->fail_due);
    assert_true(x.links[0]->closed);
    assert_int_equal(held, 0);
    wired_destroy(&x);
}

/* ---- memory of a peer that is reached without a request -------------------------------------- */

static _Atomic uint64_t place; /* of `id`, which the fake device finds */
static int lookups;

static int share(struct br_link *link, const struct br_region *own, uint32_t id,
                 struct br_shared *theirs)
{
    (void)link;
    (void)own;
    lookups++;
    if (atomic_load(&place) != id)
        return -ENOENT;
    *theirs = (struct br_shared){.base = memory, .bytes = BYTES, .place = &place, .id = id};
    return 0;
}

/* The device is asked once, and again when what it has said may no longer be so. */
static void shared__is_found_again(void **state)
{
    struct br_caps caps = wire_caps(true);
    struct br_transport_ops ops = wire_ops;
    struct br_device *device;
    struct wired x;

    (void)state;
    ops.share = share;
    caps.maps = true;
    wired_create(&x, 0, 1, &caps);
    device = x.w->devices[0];
    device->ops = &ops;
    lookups = 0;
    atomic_store(&place, 9);
    for (int i = 0; i < 3; i++)
        assert_ptr_equal(br_worker_shared(x.w, 1, 9, 100, 8), memory + 100);
    assert_int_equal(lookups, 1);
    assert_null(br_worker_shared(x.w, 1, 9, BYTES - 7, 8));
    assert_ptr_equal(br_worker_shared(x.w, 1, 9, BYTES, 0), memory + BYTES);
    assert_int_equal(lookups, 1);
    assert_null(br_worker_shared(x.w, 1, 8, 0, 8)); /* another region */
    assert_int_equal(lookups, 2);
    device->unshared++;
    assert_non_null(br_worker_shared(x.w, 1, 9, 0, 8));
    assert_int_equal(lookups, 3);
    atomic_store(&place, 0);
    assert_null(br_worker_shared(x.w, 1, 9, 0, 8));
    assert_int_equal(lookups, 4);
    atomic_store(&place, 9);
    assert_non_null(br_worker_shared(x.w, 1, 9, 0, 8));
    x.w->peers[1].state = BR_PEER_LEFT;
    assert_null(br_worker_shared(x.w, 1, 9, 0, 8));
    x.w->peers[1].state = BR_PEER_UP;
    assert_non_null(br_worker_shared(x.w, 1, 9, 0, 8));
    br_worker_fail(x.w, EIO, "the test says so");
    assert_null(br_worker_shared(x.w, 1, 9, 0, 8));
    device->ops = &wire_ops;
    wired_destroy(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(put__into_the_region),
        cmocka_unit_test(put__with_its_bytes),
        cmocka_unit_test(put__several_have_one_answer),
        cmocka_unit_test(puts__each_has_its_answer),
        cmocka_unit_test(puts__malformed),
        cmocka_unit_test(put__the_answer_to_several_brings_an_ack),
        cmocka_unit_test(put__answer_waits_for_room),
        cmocka_unit_test(put_done__ends_its_puts),
        cmocka_unit_test(put_done__of_what_is_no_put),
        cmocka_unit_test(atomic__add_and_swap),
        cmocka_unit_test(atomic__twice_counts_once),
        cmocka_unit_test(atomic__refused),
        cmocka_unit_test(request__malformed),
        cmocka_unit_test(get__out_of_the_region),
        cmocka_unit_test(get__ready_comes_first),
        cmocka_unit_test(get__before_what_is_submitted_later),
        cmocka_unit_test(refused__in_words_of_the_protocol),
        cmocka_unit_test(refused__key_of_another_job),
        cmocka_unit_test(refused__without_regions),
        cmocka_unit_test(refused__tag_in_use),
        cmocka_unit_test(request__more_than_there_can_be),
        cmocka_unit_test(request__its_region_outlives_a_failure),
        cmocka_unit_test(shared__is_found_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
