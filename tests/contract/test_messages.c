/* SPDX-License-Identifier: BSD-3-Clause */
/* MESSAGE frames: content, order, buffers, back-pressure, SENT, waiting. */
#include "contract.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static uint8_t payload[64][4096];

static void message__inline_only(void **state)
{
    struct contract *contract = *state;
    struct br_link *a, *b;

    contract_open_two(contract);
    contract_connect(contract, 0, 1, &a, &b);
    contract_message(contract, a, NULL, 0, 3);
    assert_true(contract_until(contract, 1, BR_EVENT_MESSAGE, b, 1));
    assert_true(contract_is_message(contract_event(contract, 1, BR_EVENT_MESSAGE, b, 0), 0, 3));
    contract_message(contract, b, NULL, 0, 4);
    assert_true(contract_until(contract, 0, BR_EVENT_MESSAGE, a, 1));
    assert_true(contract_is_message(contract_event(contract, 0, BR_EVENT_MESSAGE, a, 0), 0, 4));
}

static void message__without_inline_has_zeros(void **state)
{
    static const uint8_t zeros[BR_FRAME_INLINE];
    struct contract *contract = *state;
    struct br_frame frame = {.kind = BR_FRAME_MESSAGE, .cookie = 1};
    struct br_link *a, *b;

    contract_open_two(contract);
    contract_connect(contract, 0, 1, &a, &b);
    contract_message(contract, a, NULL, 0, 3); /* so that a buffer that is used again would show */
    contract_post(contract, a, &frame, 1);
    assert_true(contract_until(contract, 1, BR_EVENT_MESSAGE, b, 2));
    assert_memory_equal(contract_event(contract, 1, BR_EVENT_MESSAGE, b, 1)->inline_, zeros,
                        sizeof zeros);
}

static void message__every_length(void **state)
{
    static const uint32_t lengths[] = {1,  2,   7,   8,    47,   48,   63,  64,
                                       65, 127, 500, 1000, 1024, 4095, 4096};
    struct contract *contract = *state;
    struct br_link *a, *b;

    contract_open_two(contract);
    contract_connect(contract, 0, 1, &a, &b);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        uint32_t limit = a->device->caps.max_message,
                 length = lengths[i] < limit ? lengths[i] : limit;

        contract_message(contract, a, payload[0], length, i);
        assert_true(contract_until(contract, 1, BR_EVENT_MESSAGE, b, (int)i + 1));
        assert_true(contract_is_message(contract_event(contract, 1, BR_EVENT_MESSAGE, b, (int)i),
                                        length, i));
        /* payload is used again */
        assert_true(contract_until(contract, 0, BR_EVENT_SENT, a, (int)i + 1));
    }
}

/* The memory of its payload is the caller's again when post() returns. */
static void message__is_copied_by_who_maps(void **state)
{
    struct contract *contract = *state;
    struct br_link *a, *b;

    contract_open_two(contract);
    contract_connect(contract, 0, 1, &a, &b);
    for (int i = 0; i < 10; i++) {
        contract_message(contract, a, payload[0], 1000, (uint64_t)i);
        if (a->device->caps.maps)
            memset(payload[0], 0xee, 1000);
        else
            assert_true(contract_until(contract, 0, BR_EVENT_SENT, a, i + 1));
    }
    assert_true(contract_until(contract, 1, BR_EVENT_MESSAGE, b, 10));
    for (int i = 0; i < 10; i++)
        assert_true(contract_is_message(contract_event(contract, 1, BR_EVENT_MESSAGE, b, i), 1000,
                                        (uint64_t)i));
}

static void message__keeps_the_order(void **state)
{
    struct contract *contract = *state;
    struct br_link *a, *b;

    contract_open_two(contract);
    contract_connect(contract, 0, 1, &a, &b);
    for (uint64_t i = 0; i < 300; i++) {
        contract_message(contract, a, payload[i % 64], (uint32_t)(i * 37 % 1000), i);
        if (i % 64 == 63)
            assert_true(contract_until(contract, 0, BR_EVENT_SENT, a, (int)i + 1));
    }
    assert_true(contract_until(contract, 1, BR_EVENT_MESSAGE, b, 300));
    for (uint64_t i = 0; i < 300; i++)
        assert_true(contract_is_message(contract_event(contract, 1, BR_EVENT_MESSAGE, b, (int)i),
                                        (uint32_t)(i * 37 % 1000), i));
}

static void message__buffers_stay_until_released(void **state)
{
    struct contract *contract = *state;
    struct br_link *a, *b;

    contract_open_two(contract);
    contract_connect(contract, 0, 1, &a, &b);
    contract->sides[1].hold = true;
    for (uint64_t i = 0; i < 8; i++)
        contract_message(contract, a, payload[i], 1000, i);
    assert_true(contract_until(contract, 1, BR_EVENT_MESSAGE, b, 8));
    contract_settle(contract);
    for (int i = 7; i >= 0; i--) { /* in whatever order */
        const struct br_event *event = &contract_event(contract, 1, BR_EVENT_MESSAGE, b, i)->event;

        assert_true(contract_is_filled(event->payload, 1000, (uint64_t)i));
        assert_true(contract_is_filled(event->inline_, BR_FRAME_INLINE, ~(uint64_t)i));
        contract->ops->release(b->device, b, event->buffer);
    }
    contract->sides[1].hold = false;
    contract_message(contract, a, payload[0], 1000, 99);
    assert_true(contract_until(contract, 1, BR_EVENT_MESSAGE, b, 9));
    assert_true(contract_is_message(contract_event(contract, 1, BR_EVENT_MESSAGE, b, 8), 1000, 99));
}

/* Posts until the link is full and stays full; returns how many it took. */
static int post_what_fits(struct contract *contract, struct br_link *link,
                          const struct br_frame *frames, int n)
{
    int done = 0, taken = 1;

    while (done < n && taken > 0) {
        taken = contract->ops->post(link, frames + done, n - done);
        assert_in_range(taken, 0, n - done);
        done += taken;
        contract_settle(contract);
    }
    return done;
}

/* The peer sends more than there are buffers: the rest waits until one is released, or the link
 * fails. */
static void message__more_than_buffers(void **state)
{
    struct contract *contract = *state;
    struct br_link *a, *b;
    struct br_frame frames[12];
    int posted;

    contract_open_two(contract);
    contract_connect(contract, 0, 1, &a, &b);
    contract->sides[1].hold = true;
    for (uint64_t i = 0; i < 12; i++) {
        contract_fill(payload[i], 1000, i);
        frames[i] = (struct br_frame){
            .kind = BR_FRAME_MESSAGE, .payload = payload[i], .length = 1000, .cookie = i + 1};
    }
    posted = post_what_fits(contract, a, frames, 12); /* the others wait here or there */
    assert_true(contract_until(contract, 1, BR_EVENT_MESSAGE, b, 8));
    contract_settle(contract);
    /* it may have one to spare */
    assert_in_range(contract_count(contract, 1, BR_EVENT_MESSAGE, b), 8, 9);
    if (contract_count(contract, 1, BR_EVENT_CLOSED, b)) {
        assert_true(contract_has_words(b));
        return;
    }
    for (int i = 0; i < 12; i++) {
        const struct contract_record *record;

        assert_true(contract_until(contract, 1, BR_EVENT_MESSAGE, b, i + 1));
        record = contract_event(contract, 1, BR_EVENT_MESSAGE, b, i);
        assert_int_equal(record->event.length, 1000);
        assert_true(contract_is_filled(record->payload, 1000, (uint64_t)i));
        contract->ops->release(b->device, b, record->event.buffer);
        posted += post_what_fits(contract, a, frames + posted, 12 - posted);
    }
    assert_true(contract_until(contract, 0, BR_EVENT_SENT, a, 12));
}

static void close__with_messages_held(void **state)
{
    struct contract *contract = *state;
    struct br_link *a, *b;

    contract_open_two(contract);
    contract_connect(contract, 0, 1, &a, &b);
    contract->sides[1].hold = true;
    for (uint64_t i = 0; i < 3; i++)
        contract_message(contract, a, payload[i], 100, i);
    assert_true(contract_until(contract, 1, BR_EVENT_MESSAGE, b, 3));
    contract->ops->link_close(b);
    assert_true(contract_until(contract, 0, BR_EVENT_CLOSED, a, 1));
}

/* Nothing is received while `b` is not polled: post() must say so in the end, and go on later. */
static void post__is_full_and_recovers(void **state)
{
    struct contract *contract = *state;
    const struct br_transport_ops *ops = contract->ops;
    uint32_t n = 4 << 20, slot, cut, posted = 0;
    uint8_t *from = malloc(n), *to = calloc(1, n);
    struct br_link *a, *b;
    int rc;

    contract_open_two(contract);
    contract_connect(contract, 0, 1, &a, &b);
    contract_fill(from, n, 8);
    slot = br_slot_number(&contract->sides[1].slots, contract_slot(contract, 1, to, n, 65536));
    cut = a->device->caps.max_frame < 65536 ? 4096 : 65536;
    contract_settle(contract);            /* a link may take a moment until it takes transfers */
    for (uint32_t i = 0; i < 2000; i++) { /* far more than any queue takes */
        struct br_frame frame = contract_placed(contract, 1, slot, from, i * cut % n, cut, i);

        rc = ops->post(a, &frame, 1);
        assert_in_range(rc, 0, 1);
        if (!rc)
            break;
        posted++;
    }
    assert_int_equal(rc, 0);
    assert_true(posted > 0);
    for (uint32_t i = 0; i < 20; i++) {
        struct br_frame frame =
            contract_placed(contract, 1, slot, from, (posted + i) * cut % n, cut, posted + i);

        contract_post(contract, a, &frame, 1);
    }
    assert_true(contract_until(contract, 0, BR_EVENT_SENT, a, (int)posted + 20));
    assert_true(contract_until(contract, 1, BR_EVENT_DATA, b, (int)posted + 20));
    if (!contract_event(contract, 1, BR_EVENT_DATA, b, 0)->event.mapped)
        assert_memory_equal(to, from,
                            (size_t)(posted + 20 < n / cut ? posted + 20 : n / cut) * cut);
    contract_slot_put(contract, 1, br_slot_find(&contract->sides[1].slots, slot));
    contract->ops->link_close(b);
    contract->ops->link_close(a);
    free(from);
    free(to);
}

static void sent__comes_exactly_once_each(void **state)
{
    struct contract *contract = *state;
    struct br_link *a, *b;
    int seen[64] = {0};

    contract_open_two(contract);
    contract_connect(contract, 0, 1, &a, &b);
    for (uint64_t i = 0; i < 64; i++)
        contract_message(contract, a, payload[i], (uint32_t)i * 16, i);
    assert_true(contract_until(contract, 0, BR_EVENT_SENT, a, 64));
    contract_settle(contract);
    assert_int_equal(contract_count(contract, 0, BR_EVENT_SENT, NULL), 64);
    for (int i = 0; i < 64; i++)
        seen[contract_event(contract, 0, BR_EVENT_SENT, a, i)->event.cookie - 1]++;
    for (int i = 0; i < 64; i++)
        assert_int_equal(seen[i], 1);
}

/* Nobody waits for them, and a full queue still takes more after some polls. */
static void sent__never_without_a_cookie(void **state)
{
    struct contract *contract = *state;
    struct br_link *a, *b;

    contract_open_two(contract);
    contract_connect(contract, 0, 1, &a, &b);
    for (int i = 0; i < 500; i++) {
        struct br_frame frame = {
            .kind = BR_FRAME_MESSAGE, .payload = payload[0], .length = i % 3 ? 0 : 500};

        frame.cookie = i % 100 == 99 ? (uint64_t)i : 0;
        contract_post(contract, a, &frame, 1);
    }
    assert_true(contract_until(contract, 1, BR_EVENT_MESSAGE, b, 500));
    assert_true(contract_until(contract, 0, BR_EVENT_SENT, a, 5));
    contract_settle(contract);
    assert_int_equal(contract_count(contract, 0, BR_EVENT_SENT, NULL), 5);
    for (int i = 0; i < 5; i++)
        assert_int_equal(contract_event(contract, 0, BR_EVENT_SENT, a, i)->event.cookie,
                         i * 100 + 99);
}

static void poll__one_event_at_a_time(void **state)
{
    struct contract *contract = *state;
    struct br_link *a, *b;

    contract->poll_max = 1;
    contract_open_two(contract);
    contract_connect(contract, 0, 1, &a, &b);
    for (uint64_t i = 0; i < 40; i++) {
        contract_message(contract, a, payload[i], 200, i);
        contract_message(contract, b, NULL, 0, i);
    }
    assert_true(contract_until(contract, 1, BR_EVENT_MESSAGE, b, 40));
    assert_true(contract_until(contract, 0, BR_EVENT_MESSAGE, a, 40));
    assert_true(contract_until(contract, 0, BR_EVENT_SENT, a, 40));
    assert_true(contract_until(contract, 1, BR_EVENT_SENT, b, 40));
    for (int i = 0; i < 40; i++) {
        assert_true(contract_is_message(contract_event(contract, 1, BR_EVENT_MESSAGE, b, i), 200,
                                        (uint64_t)i));
        assert_true(contract_is_message(contract_event(contract, 0, BR_EVENT_MESSAGE, a, i), 0,
                                        (uint64_t)i));
    }
}

/* No event of a closed link, even if it had happened before the close. */
static void close__forgets_events_not_polled(void **state)
{
    struct contract *contract = *state;
    struct br_link *a[2], *b[2];
    int before;

    contract_open_two(contract);
    for (int i = 0; i < 2; i++)
        contract_connect(contract, 0, 1, &a[i], &b[i]);
    contract->poll_max = 1;
    for (uint64_t i = 0; i < 6; i++) {
        contract_message(contract, a[0], NULL, 0, i);
        contract_message(contract, a[1], NULL, 0, i + 100);
    }
    assert_true(contract_until(contract, 1, BR_EVENT_MESSAGE, b[0], 1));
    contract->ops->link_close(b[0]);
    before = contract_count(contract, 1, BR_EVENT_MESSAGE, b[1]);
    contract_forget(contract, 1);
    assert_true(contract_until(contract, 0, BR_EVENT_CLOSED, a[0], 1));
    contract_settle(contract);
    assert_int_equal(contract_count(contract, 1, BR_EVENT_MESSAGE, b[0]), 0);
    assert_int_equal(before + contract_count(contract, 1, BR_EVENT_MESSAGE, b[1]), 6);
}

static void counters__count_frames_and_bytes(void **state)
{
    struct contract *contract = *state;
    const struct br_device_counters *tx, *rx;
    struct br_link *a, *b;

    contract_open_two(contract);
    contract_connect(contract, 0, 1, &a, &b);
    for (uint64_t i = 0; i < 10; i++)
        contract_message(contract, a, payload[i], 100, i);
    assert_true(contract_until(contract, 0, BR_EVENT_SENT, a, 10));
    assert_true(contract_until(contract, 1, BR_EVENT_MESSAGE, b, 10));
    tx = &contract->sides[0].device->counters;
    rx = &contract->sides[1].device->counters;
    assert_int_equal(tx->tx_frames, 10);
    assert_int_equal(tx->tx_bytes, 1000);
    assert_int_equal(rx->rx_frames, 10);
    assert_int_equal(rx->rx_bytes, 1000);
    assert_int_equal(rx->bad_frames + tx->bad_frames, 0);
    assert_int_equal(tx->rx_frames, 0);
}

static bool is_readable(int fd, int timeout_ms)
{
    struct pollfd wanted = {.fd = fd, .events = POLLIN};

    return poll(&wanted, 1, timeout_ms) == 1;
}

/* Sleeping: the descriptor wakes the sleeper when something comes, and is quiet when nothing
 * does. */
static void arm__wakes_when_something_comes(void **state)
{
    struct contract *contract = *state;
    struct br_device *device;
    struct br_link *a, *b;
    int fd;

    contract_open_two(contract);
    contract_connect(contract, 0, 1, &a, &b);
    device = contract->sides[1].device;
    for (uint64_t i = 0; i < 20; i++) {
        contract_settle(contract);
        fd = contract->ops->arm(device);
        if (fd == -EOPNOTSUPP)
            return; /* it must be polled, and says so */
        for (int tries = 0; fd == -EAGAIN && tries < 100; tries++) {
            contract_step(contract);
            fd = contract->ops->arm(device);
        }
        assert_true(fd >= 0);
        assert_false(is_readable(fd, 0));
        contract_message(contract, a, NULL, 0, i);
        contract_step_side(contract, 0);
        assert_true(is_readable(fd, 20000));
        assert_true(contract_until(contract, 1, BR_EVENT_MESSAGE, b, (int)i + 1));
    }
    assert_true(contract_until(contract, 0, BR_EVENT_SENT, a, 20));
    contract_settle(contract);
    contract_message(contract, a, NULL, 0, 99); /* comes before arm() is called */
    contract_step_side(contract, 0);
    fd = contract->ops->arm(device);
    assert_true(fd == -EAGAIN || is_readable(fd, 20000));
    assert_true(contract_until(contract, 1, BR_EVENT_MESSAGE, b, 21));
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CONTRACT_CASE(message__inline_only),
        CONTRACT_CASE(message__without_inline_has_zeros),
        CONTRACT_CASE(message__every_length),
        CONTRACT_CASE(message__is_copied_by_who_maps),
        CONTRACT_CASE(message__keeps_the_order),
        CONTRACT_CASE(message__buffers_stay_until_released),
        CONTRACT_CASE(message__more_than_buffers),
        CONTRACT_CASE(close__with_messages_held),
        CONTRACT_CASE(post__is_full_and_recovers),
        CONTRACT_CASE(sent__comes_exactly_once_each),
        CONTRACT_CASE(sent__never_without_a_cookie),
        CONTRACT_CASE(poll__one_event_at_a_time),
        CONTRACT_CASE(close__forgets_events_not_polled),
        CONTRACT_CASE(counters__count_frames_and_bytes),
        CONTRACT_CASE(arm__wakes_when_something_comes),
    };

    return contract_main(cases, sizeof cases / sizeof *cases);
}
