/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/transport/shm/pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"

static const struct br_transport_ops *ops(void)
{
    return br_transport_get("shm");
}

int end_open(struct end *end, uint32_t max_links)
{
    memset(end, 0, sizeof *end);
    if (br_slot_table_init(&end->slots, 64))
        return -1;
    end->config = (struct br_device_config){
        .slots = &end->slots, .message_bytes = 8192, .message_buffers = 16, .max_links = max_links};
    return br_transport_open(ops(), &end->config, &end->device);
}

void end_close(struct end *end)
{
    if (end->device)
        ops()->device_close(end->device);
    br_slot_table_destroy(&end->slots);
}

void end_poll(struct end *end)
{
    int n = ops()->poll(end->device, br_clock_now(), end->events + end->n_events,
                        END_EVENTS - end->n_events);

    assert_true(n >= 0);
    end->n_events += n;
}

static bool take(struct end *end, enum br_event_kind kind, struct br_event *event)
{
    for (int i = 0; i < end->n_events; i++) {
        if (end->events[i].kind != kind)
            continue;
        *event = end->events[i];
        memmove(&end->events[i], &end->events[i + 1],
                (size_t)(--end->n_events - i) * sizeof *event);
        return true;
    }
    return false;
}

struct br_event await(struct end *end, struct end *peer, enum br_event_kind kind)
{
    uint64_t deadline = br_clock_now() + 20 * BR_SEC; /* only what hangs takes so long */
    struct br_event event;

    while (!take(end, kind, &event)) {
        end_poll(end);
        if (peer)
            end_poll(peer);
        if (br_clock_now() > deadline)
            fail_msg("no event of kind %d came", kind);
    }
    return event;
}

int count_events(const struct end *end, enum br_event_kind kind)
{
    int n = 0;

    for (int i = 0; i < end->n_events; i++)
        n += end->events[i].kind == kind;
    return n;
}

void settle(struct end *a, struct end *b)
{
    uint64_t until = br_clock_now() + 5 * BR_MS;

    /* On a loaded machine 5 ms may be one turn, and the devices look at their sockets once a
     * millisecond. */
    for (int turns = 0; turns < 300 || br_clock_now() < until; turns++) {
        end_poll(a);
        end_poll(b);
        if (turns < 300 && turns % 30 == 29)
            usleep(1000);
    }
}

int pair_setup(void **state)
{
    struct pair *pair = calloc(1, sizeof *pair);

    *state = pair;
    if (!pair || end_open(&pair->a, 4) || end_open(&pair->b, 4) ||
        ops()->link_connect(pair->a.device, &pair->b.device->address, &pair->a.link))
        return -1;
    (void)await(&pair->a, &pair->b, BR_EVENT_CONNECTED);
    pair->b.link = await(&pair->b, &pair->a, BR_EVENT_ACCEPTED).link;
    pair->a.link->authenticated = pair->b.link->authenticated = true;
    return 0;
}

int pair_teardown(void **state)
{
    struct pair *pair = *state;

    end_close(&pair->a);
    end_close(&pair->b);
    free(pair);
    return 0;
}

void post_message(struct end *end, const void *inline_, const void *payload, uint32_t length,
                  uint64_t cookie)
{
    struct br_frame frame = {.kind = BR_FRAME_MESSAGE,
                             .inline_ = inline_,
                             .payload = payload,
                             .length = length,
                             .cookie = cookie};

    assert_int_equal(ops()->post(end->link, &frame, 1), 1);
}

void post_placed(struct end *end, const void *payload, uint32_t length, uint32_t slot,
                 uint32_t offset, struct br_region *region, uint64_t cookie)
{
    struct br_frame frame = {.kind = BR_FRAME_DATA,
                             .payload = payload,
                             .length = length,
                             .slot = slot,
                             .offset = offset,
                             .region = region,
                             .cookie = cookie};

    assert_int_equal(ops()->post(end->link, &frame, 1), 1);
}

struct br_shm_link *inside(struct end *end)
{
    return (struct br_shm_link *)end->link;
}
