/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/random.h"
#include "tests/transport/shm/pair.h"

static const struct br_transport_ops *ops;

static void message__inline_and_payload(void **state)
{
    struct pair *pair = *state;
    uint8_t inline_[BR_FRAME_INLINE], payload[8192];
    struct br_event event;

    memset(inline_, 3, sizeof inline_);
    memset(payload, 4, sizeof payload);
    post_message(&pair->a, inline_, payload, sizeof payload, 77);
    assert_int_equal(await(&pair->a, NULL, BR_EVENT_SENT).cookie, 77);
    memset(payload, 5, sizeof payload); /* ours again */
    event = await(&pair->b, &pair->a, BR_EVENT_MESSAGE);
    memset(payload, 4, sizeof payload);
    assert_int_equal(event.length, sizeof payload);
    assert_memory_equal(event.payload, payload, sizeof payload);
    assert_memory_equal(event.inline_, inline_, sizeof inline_);
    ops->release(pair->b.link->device, pair->b.link, event.buffer);
    assert_int_equal(pair->a.device->counters.tx_copied_bytes, sizeof payload);
    assert_int_equal(pair->b.device->counters.rx_copied_bytes, 0);
}

static void message__too_long(void **state)
{
    struct pair *pair = *state;
    static uint8_t payload[8193];
    struct br_frame frame = {
        .kind = BR_FRAME_MESSAGE, .payload = payload, .length = sizeof payload};

    assert_int_equal(ops->post(pair->a.link, &frame, 1), -EMSGSIZE);
}

/* Many messages, released in a random order: each comes once, in order, and stays as it is while
 * held. */
static void message__held_ones_stay(void **state)
{
    struct pair *pair = *state;
    struct br_event held[16];
    struct br_random random;
    uint64_t inline_[6] = {0}, sent = 0, seen = 0, n_held = 0;

    br_random_seed(&random, 1);
    while (seen < 5000) {
        struct br_frame frame = {.kind = BR_FRAME_MESSAGE,
                                 .inline_ = (uint8_t *)inline_,
                                 .payload = &sent,
                                 .length = sizeof sent};

        inline_[0] = sent;
        sent += (uint64_t)ops->post(pair->a.link, &frame, 1);
        end_poll(&pair->a);
        pair->a.n_events = 0;
        end_poll(&pair->b);
        for (int i = 0; i < pair->b.n_events; i++) {
            assert_int_equal(pair->b.events[i].kind, BR_EVENT_MESSAGE);
            assert_memory_equal(pair->b.events[i].inline_, &seen, 8);
            assert_memory_equal(pair->b.events[i].payload, &seen, 8);
            held[n_held++] = pair->b.events[i];
            seen++;
        }
        pair->b.n_events = 0;
        while (n_held && br_random_below(&random, 3)) {
            uint64_t i = br_random_below(&random, n_held);

            assert_memory_equal(held[i].inline_, held[i].payload, 8);
            ops->release(pair->b.link->device, pair->b.link, held[i].buffer);
            held[i] = held[--n_held];
        }
    }
}

/* One way of message__both_ways(). */
struct way {
    struct end *from, *to;
    struct br_event held[16];
    uint64_t sent, seen, n_held;
};

static void way_post(struct way *way, struct br_random *random)
{
    static uint64_t payload[1024];
    uint64_t words = br_random_below(random, 1025), inline_[6] = {way->sent, words};
    struct br_frame frame = {.kind = BR_FRAME_MESSAGE,
                             .inline_ = (uint8_t *)inline_,
                             .payload = payload,
                             .length = (uint32_t)(8 * words)};

    for (uint64_t i = 0; i < words; i++)
        payload[i] = way->sent + i;
    way->sent += (uint64_t)ops->post(way->from->link, &frame, 1);
}

static void way_check(const struct br_event *event)
{
    uint64_t inline_[6], payload[1024];

    memcpy(inline_, event->inline_, sizeof inline_);
    assert_int_equal(event->length, 8 * inline_[1]);
    memcpy(payload, event->payload, event->length);
    for (uint64_t i = 0; i < inline_[1]; i++)
        assert_int_equal(payload[i], inline_[0] + i);
}

static void way_take(struct way *way, struct br_random *random)
{
    end_poll(way->to);
    for (int i = 0; i < way->to->n_events; i++) {
        if (way->to->events[i].kind != BR_EVENT_MESSAGE)
            continue;
        assert_memory_equal(way->to->events[i].inline_, &way->seen, 8);
        way->held[way->n_held++] = way->to->events[i];
        way->seen++;
    }
    way->to->n_events = 0;
    while (way->n_held && br_random_below(random, 3)) {
        uint64_t i = br_random_below(random, way->n_held);

        way_check(&way->held[i]);
        ops->release(way->to->link->device, way->to->link, way->held[i].buffer);
        way->held[i] = way->held[--way->n_held];
    }
}

/* The same in both directions, with payloads of all lengths, which go to and fro in the buffers
 * that were read last. */
static void message__both_ways(void **state)
{
    struct pair *pair = *state;
    struct way ways[2] = {{.from = &pair->a, .to = &pair->b}, {.from = &pair->b, .to = &pair->a}};
    struct br_random random;

    br_random_seed(&random, 2);
    while (ways[0].seen < 5000 || ways[1].seen < 5000) {
        way_post(&ways[br_random_below(&random, 2)], &random);
        way_take(&ways[br_random_below(&random, 2)], &random);
    }
}

static void receive_and_release(struct end *end)
{
    struct br_event event = await(end, NULL, BR_EVENT_MESSAGE);

    ops->release(end->device, end->link, event.buffer);
}

static void message__answer_lies_where_the_question_did(void **state)
{
    struct pair *pair = *state;
    const struct br_shm_link *a = inside(&pair->a), *b = inside(&pair->b);
    uint8_t payload[100];
    struct br_event question, answer;

    memset(payload, 6, sizeof payload);
    post_message(&pair->a, NULL, payload, sizeof payload, 0);
    question = await(&pair->b, NULL, BR_EVENT_MESSAGE);
    ops->release(pair->b.device, pair->b.link, question.buffer);
    memset(payload, 7, sizeof payload);
    post_message(&pair->b, NULL, payload, sizeof payload, 0);
    answer = await(&pair->a, NULL, BR_EVENT_MESSAGE);
    assert_int_equal(answer.payload - a->out.messages, question.payload - b->in.messages);
    assert_memory_equal(answer.payload, payload, sizeof payload);
    assert_int_equal(a->n_free_messages, 15);
    ops->release(pair->a.device, pair->a.link, answer.buffer);
    assert_int_equal(a->n_free_messages, 16);
    assert_int_equal(b->kept, 0);
}

/* `n` messages of `length` bytes, one after the other. Returns in how many buffers they came. */
static int stream(struct pair *pair, int n, uint32_t length)
{
    static uint8_t payload[8192];
    const struct br_inbox *in = &inside(&pair->b)->in;
    bool seen[16 * BR_INBOX_TURNS] = {false};
    int buffers = 0;

    for (int i = 0; i < n; i++) {
        struct br_event event;
        size_t number;

        memset(payload, i, length);
        post_message(&pair->a, NULL, payload, length, 0);
        event = await(&pair->b, &pair->a, BR_EVENT_MESSAGE);
        assert_memory_equal(event.payload, payload, length);
        number = (size_t)(event.payload - in->messages) / in->message_stride;
        assert_true(number < 16 * BR_INBOX_TURNS);
        buffers += !seen[number];
        seen[number] = true;
        ops->release(pair->b.device, pair->b.link, event.buffer);
    }
    return buffers;
}

static void message__long_ones_take_further_buffers(void **state)
{
    assert_in_range(stream(*state, 100, 4096), 1, 16);
    stream(*state, 16 * 8 * (int)BR_INBOX_TURNS, 4096);
    assert_in_range(stream(*state, 2000, 4096), 8 * BR_INBOX_TURNS, 16 * BR_INBOX_TURNS);
}

static void message__short_ones_take_no_further_buffers(void **state)
{
    assert_in_range(stream(*state, 4000, 1024), 1, 16);
}

/* Also with further buffers: an answer lies where the question did, and the next question too, even
 * where a message without payload is sent before it. */
static void message__long_answers_stay_in_one_buffer(void **state)
{
    struct pair *pair = *state;
    const uint8_t *messages[2];
    uint8_t payload[3000];
    size_t first = SIZE_MAX;

    stream(pair, 16 * 8 * 3, 4096);
    settle(&pair->a, &pair->b);
    messages[0] = inside(&pair->b)->in.messages;
    messages[1] = inside(&pair->a)->out.messages;
    for (int i = 0; i < 100; i++) {
        struct end *from = i % 2 ? &pair->b : &pair->a, *to = i % 2 ? &pair->a : &pair->b;
        struct br_event event;

        memset(payload, i, sizeof payload);
        if (i % 6 == 2) {
            post_message(from, NULL, NULL, 0, 0);
            receive_and_release(to);
        }
        post_message(from, NULL, payload, sizeof payload, 0);
        event = await(to, NULL, BR_EVENT_MESSAGE);
        assert_memory_equal(event.payload, payload, sizeof payload);
        if (i == 1) /* the stream's last one was kept until then */
            first = (size_t)(event.payload - messages[1]);
        else if (i > 1)
            assert_int_equal(event.payload - messages[i % 2], first);
        ops->release(to->device, to->link, event.buffer);
    }
}

static void message__none_is_kept_while_many_are_held(void **state)
{
    struct pair *pair = *state;
    uint64_t payload = 8;

    post_message(&pair->a, NULL, &payload, sizeof payload, 0);
    receive_and_release(&pair->b);
    assert_int_not_equal(inside(&pair->b)->kept, 0);
    for (int i = 0; i < 15; i++)
        post_message(&pair->a, NULL, &payload, sizeof payload, 0);
    settle(&pair->a, &pair->b);
    assert_int_equal(inside(&pair->b)->kept, 0);
    post_message(&pair->a, NULL, &payload, sizeof payload, 0); /* the 16th of 16 */
}

/* What a program does not receive takes no tickets from it: it may have to send first. */
static void message__held_answers_leave_tickets(void **state)
{
    struct pair *pair = *state;
    struct br_event held[14];
    uint64_t payload;

    for (uint64_t i = 0; i < 14; i++) {
        payload = i;
        post_message(&pair->a, NULL, &payload, sizeof payload, 0);
        receive_and_release(&pair->b);
        payload = 100 + i;
        post_message(&pair->b, NULL, &payload, sizeof payload, 0);
        held[i] = await(&pair->a, NULL, BR_EVENT_MESSAGE);
    }
    assert_int_equal(inside(&pair->a)->n_free_messages, 15);
    for (uint64_t i = 0; i < 14; i++) {
        memcpy(&payload, held[i].payload, sizeof payload);
        assert_int_equal(payload, 100 + i);
        ops->release(pair->a.device, pair->a.link, held[i].buffer);
    }
    assert_int_equal(inside(&pair->a)->n_free_messages, 16);
}

static void post__full_then_goes_on(void **state)
{
    struct pair *pair = *state;
    struct br_frame frames[20];

    for (int i = 0; i < 20; i++)
        frames[i] = (struct br_frame){.kind = BR_FRAME_MESSAGE, .cookie = (uint64_t)i + 1};
    assert_int_equal(ops->post(pair->a.link, frames, 20), 16);
    assert_int_equal(ops->post(pair->a.link, frames + 16, 4), 0);
    settle(&pair->a, &pair->b);
    assert_int_equal(count_events(&pair->a, BR_EVENT_SENT), 16);
    for (int i = 0; i < 16; i++)
        ops->release(pair->b.link->device, pair->b.link, pair->b.events[i].buffer);
    settle(&pair->a, &pair->b);
    assert_int_equal(ops->post(pair->a.link, frames + 16, 4), 4);
}

/* Writes a cell as a hostile peer would; the link of b must fail and nothing else happen. */
static void forge(struct pair *pair, struct br_inbox_cell *forged)
{
    struct br_shm_link *link = inside(&pair->a);
    struct br_inbox_cell *cell = br_inbox_cell(&link->out, link->out_position);

    memcpy((uint8_t *)cell + 4, (uint8_t *)forged + 4, sizeof *cell - 4);
    br_inbox_publish(cell, link->out_position++);
    assert_int_equal(await(&pair->b, NULL, BR_EVENT_CLOSED).error, -EPROTO);
    assert_int_equal(pair->b.n_events, 0);
    assert_true(pair->b.device->counters.bad_frames > 0);
}

static uint32_t packed(uint32_t kind, uint32_t source, uint32_t length)
{
    return length | kind << BR_CELL_LENGTH_BITS | source << (BR_CELL_LENGTH_BITS + 3);
}

static void hostile__message_too_long(void **state)
{
    struct br_inbox_cell cell = {.length = packed(BR_FRAME_MESSAGE, 0, 8193)};

    forge(*state, &cell);
}

static void hostile__message_ticket(void **state)
{
    struct br_inbox_cell cell = {.length = packed(BR_FRAME_MESSAGE, 0, 0), .offset = 16};

    forge(*state, &cell);
}

static void hostile__message_buffer(void **state)
{
    struct br_inbox_cell cell = {.length = packed(BR_FRAME_MESSAGE, 0, 8), .slot = BR_INBOX_TURNS};

    forge(*state, &cell);
}

static void hostile__message_ticket_twice(void **state)
{
    struct br_inbox_cell cell = {.length = packed(BR_FRAME_MESSAGE, 0, 0)};

    post_message(&((struct pair *)*state)->a, NULL, NULL, 0, 0);
    (void)await(&((struct pair *)*state)->b, NULL, BR_EVENT_MESSAGE);
    forge(*state, &cell);
}

/* b has a message out, which a holds. */
static void b_sends(struct pair *pair)
{
    uint64_t payload = 9;

    post_message(&pair->b, NULL, &payload, sizeof payload, 0);
    (void)await(&pair->a, NULL, BR_EVENT_MESSAGE);
}

static void hostile__brings_a_ticket_that_is_not_out(void **state)
{
    uint32_t ticket = inside(&((struct pair *)*state)->b)->free_messages[0];
    struct br_inbox_cell cell = {.length = packed(BR_FRAME_MESSAGE, BR_SOURCE_KEPT, 8),
                                 .slot = ticket};

    b_sends(*state);
    forge(*state, &cell);
}

static void hostile__brings_a_ticket_that_is_none(void **state)
{
    struct br_inbox_cell cell = {.length = packed(BR_FRAME_MESSAGE, BR_SOURCE_KEPT, 8), .slot = 16};

    b_sends(*state);
    forge(*state, &cell);
}

static void hostile__brings_a_ticket_twice(void **state)
{
    struct pair *pair = *state;
    struct br_shm_link *a = inside(&pair->a), *b = inside(&pair->b);
    uint32_t ticket = b->free_messages[b->n_free_messages - 1];
    struct br_inbox_cell cell = {
        .length = packed(BR_FRAME_MESSAGE, BR_SOURCE_KEPT, 8), .slot = ticket, .offset = 1};
    uint64_t payload = 10;

    b_sends(pair);
    a->kept = ticket + 1;
    post_message(&pair->a, NULL, &payload, sizeof payload, 0);
    (void)await(&pair->b, NULL, BR_EVENT_MESSAGE);
    forge(pair, &cell);
}

static void hostile__kind(void **state)
{
    struct br_inbox_cell cell = {.length = packed(5, 0, 0)};

    forge(*state, &cell);
}

static void hostile__source(void **state)
{
    struct br_inbox_cell cell = {.length = packed(BR_FRAME_DATA, 9, 64)};

    forge(*state, &cell);
}

static uint8_t place[4096];

static uint32_t expect_frame(struct pair *pair)
{
    return br_slot_number(&pair->b.slots,
                          br_slot_get(&pair->b.slots, place, sizeof place, sizeof place));
}

static void hostile__unknown_segment(void **state)
{
    struct br_inbox_cell cell = {.length = packed(BR_FRAME_DATA, BR_SOURCE_SEGMENT, 4096),
                                 .slot = expect_frame(*state),
                                 .segment = 65535};

    forge(*state, &cell);
}

static void hostile__out_of_bounds_of_the_slot(void **state)
{
    struct br_inbox_cell cell = {.length = packed(BR_FRAME_DATA, BR_SOURCE_PIPE, 4096),
                                 .slot = expect_frame(*state),
                                 .offset = 64};

    forge(*state, &cell);
}

/* The writer hands over `number`, which is not its buffer. */
static void forge_buffer(struct pair *pair, uint32_t number)
{
    struct br_inbox_cell cell = {.length = packed(BR_FRAME_DATA, BR_SOURCE_PIPE, 4096),
                                 .slot = expect_frame(pair)};

    br_inbox_put_entry(inside(&pair->a)->out.header->filled, BR_PIPE_BITS + 1, 0, number);
    forge(pair, &cell);
}

static void hostile__unknown_buffer(void **state)
{
    forge_buffer(*state, 2 * BR_PIPE_BUFFERS);
}

static void hostile__buffer_of_the_reader(void **state)
{
    forge_buffer(*state, BR_PIPE_BUFFERS);
}

/* The receiver as the hostile end. */
static void hostile__returned_ticket_that_is_not_out(void **state)
{
    struct pair *pair = *state;
    static uint8_t bytes[64];

    post_placed(&pair->a, bytes, sizeof bytes, 1u << 16 | 5, 0, NULL, 0);
    br_inbox_return(&inside(&pair->b)->in, 0, 16 + 100);
    assert_int_equal(await(&pair->a, NULL, BR_EVENT_CLOSED).error, -EPROTO);
}

static void hostile__returns_a_ticket_whose_payload_is_on_its_way(void **state)
{
    struct pair *pair = *state;
    uint8_t *bytes = calloc(2 * BR_PIPE_BUFFERS, BR_PIPE_BUFFER);

    inside(&pair->a)->ways.closed[BR_WAY_DIRECT] = true;
    post_placed(&pair->a, bytes, 2 * BR_PIPE_BUFFERS * BR_PIPE_BUFFER, 1u << 16 | 5, 0, NULL, 0);
    end_poll(&pair->a);
    br_inbox_return(&inside(&pair->b)->in, 0, 16);
    assert_int_equal(await(&pair->a, NULL, BR_EVENT_CLOSED).error, -EPROTO);
    free(bytes);
    end_poll(&pair->a);
}

/* Random bytes in every shared place. */
static void hostile__noise(void **state)
{
    struct br_random random;

    br_random_seed(&random, 2);
    for (int round = 0; round < 60; round++) {
        void *fresh;
        struct pair *pair;
        struct br_shm_link *link;

        assert_int_equal(pair_setup(&fresh), 0);
        pair = fresh;
        (void)expect_frame(pair);
        link = inside(&pair->a);
        for (uint32_t k = 0; k < 200; k++) {
            uint64_t *words = (uint64_t *)br_inbox_cell(&link->out, k);

            for (int i = 0; i < 16; i++)
                words[i] = br_random_next(&random);
            if (k % 2) /* plausible ones get further */
                words[0] =
                    (uint64_t)packed(1 + k / 2 % 2, (uint32_t)br_random_below(&random, 5), 4096)
                    << 32,
                words[1] = 1u << 16;
            atomic_store(&link->out.returns[k], (uint32_t)br_random_below(&random, 1u << 18));
            br_inbox_publish(br_inbox_cell(&link->out, k), k);
        }
        for (uint32_t k = 0; k < 2 * BR_PIPE_BUFFERS; k++) {
            br_inbox_put_entry(link->out.header->filled, BR_PIPE_BITS + 1, k,
                               (uint32_t)br_random_below(&random, 3 * BR_PIPE_BUFFERS));
            br_inbox_put_entry(link->in.header->given, BR_PIPE_BITS + 1, k,
                               (uint32_t)br_random_below(&random, 3 * BR_PIPE_BUFFERS));
        }
        atomic_store(&link->out.header->sleep, (uint32_t)br_random_next(&random));
        settle(&pair->a, &pair->b);
        pair_teardown(&fresh);
    }
    (void)state;
}

int main(void)
{
#define PAIR(test) cmocka_unit_test_setup_teardown(test, pair_setup, pair_teardown)
    const struct CMUnitTest tests[] = {
        PAIR(message__inline_and_payload),
        PAIR(message__too_long),
        PAIR(message__held_ones_stay),
        PAIR(message__both_ways),
        PAIR(message__answer_lies_where_the_question_did),
        PAIR(message__none_is_kept_while_many_are_held),
        PAIR(message__long_ones_take_further_buffers),
        PAIR(message__short_ones_take_no_further_buffers),
        PAIR(message__long_answers_stay_in_one_buffer),
        PAIR(message__held_answers_leave_tickets),
        PAIR(post__full_then_goes_on),
        PAIR(hostile__message_too_long),
        PAIR(hostile__message_ticket),
        PAIR(hostile__message_buffer),
        PAIR(hostile__message_ticket_twice),
        PAIR(hostile__brings_a_ticket_that_is_not_out),
        PAIR(hostile__brings_a_ticket_that_is_none),
        PAIR(hostile__brings_a_ticket_twice),
        PAIR(hostile__kind),
        PAIR(hostile__source),
        PAIR(hostile__unknown_segment),
        PAIR(hostile__out_of_bounds_of_the_slot),
        PAIR(hostile__unknown_buffer),
        PAIR(hostile__buffer_of_the_reader),
        PAIR(hostile__returned_ticket_that_is_not_out),
        PAIR(hostile__returns_a_ticket_whose_payload_is_on_its_way),
        cmocka_unit_test(hostile__noise),
    };

    ops = br_transport_get("shm");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
