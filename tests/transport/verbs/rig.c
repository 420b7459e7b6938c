/* SPDX-License-Identifier: BSD-3-Clause */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"

#define QUIET 4 /* rounds without events: the TCP exchange takes one a step */

const struct br_transport_ops *rig_ops;

int rig_open(struct rig_end *end)
{
    struct br_device *device;
    int rc = br_transport_open(rig_ops, &end->config, &device);

    end->device = rc ? NULL : (struct br_verbs_device *)device;
    if (!rc)
        device->index = 0;
    return rc;
}

void rig_close(struct rig_end *end)
{
    if (end->device)
        rig_ops->device_close(&end->device->base);
    end->device = NULL;
    end->link = NULL;
}

static void prepare(struct rig_end *end, const char *name)
{
    end->config = (struct br_device_config){.name = name,
                                            .slots = &end->slots,
                                            .message_bytes = 4096,
                                            .message_buffers = 8,
                                            .max_links = 8};
    assert_int_equal(br_slot_table_init(&end->slots, 16), 0);
}

int rig_setup_unconnected(void **state)
{
    struct rig *rig = calloc(1, sizeof *rig);

    assert_non_null(rig);
    *state = rig;
    fake_install();
    rig_ops = br_transport_get("verbs");
    assert_non_null(rig_ops);
    rig->now = BR_SEC;
    prepare(&rig->a, "fake0");
    prepare(&rig->b, "fake1");
    if (rig_open(&rig->a) || rig_open(&rig->b))
        fail_msg("device_open: %s", br_error_message());
    return 0;
}

int rig_setup(void **state)
{
    rig_setup_unconnected(state);
    rig_connect(*state);
    return 0;
}

int rig_teardown(void **state)
{
    struct rig *rig = *state;

    fake_heal();
    rig_close(&rig->a);
    rig_close(&rig->b);
    br_slot_table_destroy(&rig->a.slots);
    br_slot_table_destroy(&rig->b.slots);
    free(rig);
    fake_remove();
    return 0;
}

void rig_poll(struct rig *rig, struct rig_end *end)
{
    int n;

    if (!end->device)
        return;
    rig->now += BR_MS;
    n = rig_ops->poll(&end->device->base, rig->now, end->events + end->n_events,
                      RIG_EVENTS - end->n_events);
    assert_true(n >= 0);
    for (int i = end->n_events; i < end->n_events + n; i++) {
        const struct br_event *event = &end->events[i];

        if (event->kind == BR_EVENT_ACCEPTED && !end->link)
            end->link = event->link;
        if (event->kind == BR_EVENT_MESSAGE && !end->hold)
            rig_ops->release(event->link->device, event->link, event->buffer);
    }
    end->n_events += n;
    assert_true(end->n_events < RIG_EVENTS);
}

void rig_settle(struct rig *rig)
{
    int before;

    for (int quiet = 0; quiet < QUIET; quiet++) {
        before = rig->a.n_events + rig->b.n_events;
        rig_poll(rig, &rig->a);
        rig_poll(rig, &rig->b);
        if (rig->a.n_events + rig->b.n_events != before)
            quiet = 0;
    }
}

void rig_begin(struct rig *rig)
{
    struct br_address address;

    address = rig->b.device->base.address;
    if (rig_ops->link_connect(&rig->a.device->base, &address, &rig->a.link))
        fail_msg("link_connect: %s", br_error_message());
}

void rig_connect(struct rig *rig)
{
    rig->b.link = NULL;
    rig_begin(rig);
    rig_settle(rig);
    assert_non_null(rig_take(&rig->a, BR_EVENT_CONNECTED));
    assert_non_null(rig_take(&rig->b, BR_EVENT_ACCEPTED));
    rig->a.link->authenticated = rig->b.link->authenticated = true;
    rig_settle(rig);
    assert_true(rig_link(&rig->a)->may_write);
    assert_true(rig_link(&rig->b)->may_write);
}

struct br_verbs_link *rig_link(const struct rig_end *end)
{
    return (struct br_verbs_link *)end->link;
}

const struct br_event *rig_take(struct rig_end *end, enum br_event_kind kind)
{
    static struct br_event taken;

    for (int i = 0; i < end->n_events; i++) {
        if (end->events[i].kind != kind)
            continue;
        taken = end->events[i];
        end->n_events--;
        memmove(&end->events[i], &end->events[i + 1], (size_t)(end->n_events - i) * sizeof taken);
        return &taken;
    }
    return NULL;
}

int rig_count(const struct rig_end *end, enum br_event_kind kind)
{
    int n = 0;

    for (int i = 0; i < end->n_events; i++)
        n += end->events[i].kind == kind;
    return n;
}

int rig_message(struct rig_end *end, uint32_t length, uint64_t cookie)
{
    static const uint8_t payload[4096] = {1, 2, 3};
    struct br_frame frame = {
        .kind = BR_FRAME_MESSAGE, .payload = payload, .length = length, .cookie = cookie};

    return rig_ops->post(end->link, &frame, 1);
}

static void add_region(struct rig_end *end, struct br_region *region, uint8_t *memory)
{
    *region = (struct br_region){.base = memory, .bytes = RIG_PLACE, .segment_fd = -1};
    if (rig_ops->region_register(&end->device->base, region))
        fail_msg("region_register: %s", br_error_message());
}

struct br_slot *rig_slot(struct rig *rig, bool registered)
{
    struct br_slot *slot = br_slot_get(&rig->b.slots, rig->to, RIG_PLACE, RIG_PLACE);

    assert_non_null(slot);
    if (registered) {
        add_region(&rig->a, &rig->from_region, rig->from);
        add_region(&rig->b, &rig->to_region, rig->to);
        slot->region = &rig->to_region;
    }
    if (rig_ops->rkey(&rig->b.device->base, slot, slot->rkeys[0]))
        fail_msg("place_token: %s", br_error_message());
    return slot;
}

void rig_slot_put(struct rig *rig, struct br_slot *slot)
{
    rig_ops->rkey(&rig->b.device->base, slot, NULL);
    if (slot->region) {
        rig_ops->region_release(&rig->b.device->base, &rig->to_region);
        rig_ops->region_release(&rig->a.device->base, &rig->from_region);
    }
    br_slot_put(&rig->b.slots, slot);
}

int rig_placed(struct rig *rig, const struct br_slot *slot, uint64_t cookie)
{
    return rig_placed_urgently(rig, slot, cookie, 0);
}

int rig_placed_urgently(struct rig *rig, const struct br_slot *slot, uint64_t cookie,
                        int32_t priority)
{
    struct br_frame frame = {.kind = BR_FRAME_DATA,
                             .payload = rig->from,
                             .length = RIG_PLACE,
                             .slot = br_slot_number(&rig->b.slots, slot),
                             .rkey = slot->rkeys[0],
                             .region = slot->region ? &rig->from_region : NULL,
                             .cookie = cookie,
                             .priority = priority};

    return rig_ops->post(rig->a.link, &frame, 1);
}
