/* SPDX-License-Identifier: BSD-3-Clause */
#include "ends.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <cmocka.h>

const struct br_transport_ops *ends_ops;
struct end ends_a, ends_b;
uint8_t ends_source[ENDS_PLACE_BYTES], ends_place[ENDS_PLACE_BYTES];

int ends_open(struct end *end, const char *name, uint32_t max_links)
{
    memset(end, 0, sizeof *end);
    end->trusting = true;
    assert_int_equal(br_slot_table_init(&end->slots, 64), 0);
    end->config = (struct br_device_config){.name = name,
                                            .slots = &end->slots,
                                            .message_bytes = ENDS_MESSAGE_BYTES,
                                            .message_buffers = 4,
                                            .max_links = max_links};
    return br_transport_open(ends_ops, &end->config, &end->device);
}

void ends_close(struct end *end)
{
    if (end->device)
        ends_ops->device_close(end->device);
    br_slot_table_destroy(&end->slots);
    memset(end, 0, sizeof *end);
}

int ends_set_up(void **state)
{
    (void)state;
    ends_ops = br_transport_get("tcp");
    memset(ends_place, 0, sizeof ends_place);
    for (uint32_t i = 0; i < ENDS_PLACE_BYTES; i++)
        ends_source[i] = (uint8_t)(i * 31 + i / 4096);
    return ends_open(&ends_a, "127.0.0.1", ENDS_LINKS) ||
           ends_open(&ends_b, "127.0.0.1", ENDS_LINKS);
}

int ends_tear_down(void **state)
{
    (void)state;
    ends_close(&ends_a);
    ends_close(&ends_b);
    return 0;
}

static void handle(struct end *end, const struct br_event *event)
{
    switch (event->kind) {
    case BR_EVENT_ACCEPTED:
    case BR_EVENT_CONNECTED:
        end->links[end->n_links++] = event->link;
        event->link->authenticated = end->trusting;
        break;
    case BR_EVENT_CLOSED:
        end->n_closed++;
        end->error = event->error;
        break;
    case BR_EVENT_SENT:
        end->n_sent++;
        break;
    case BR_EVENT_MESSAGE:
        end->n_messages++;
        end->last_message = *event;
        if (!end->hold)
            ends_ops->release(event->link->device, event->link, event->buffer);
        break;
    case BR_EVENT_DATA:
        end->n_data_frames++;
        br_slot_arrive(br_slot_find(&end->slots, event->slot), event->offset, event->length);
        break;
    }
}

void ends_step(struct end *end, int max)
{
    struct br_event events[BR_TCP_EVENTS];
    int n = ends_ops->poll(end->device, ++end->now, events, max);

    assert_in_range(n, 0, max);
    for (int i = 0; i < n; i++)
        handle(end, &events[i]);
}

void ends_until(const int *count, int goal)
{
    for (int i = 0; *count < goal && i < 200000; i++) {
        ends_step(&ends_a, 1 + i % 20);
        ends_step(&ends_b, 1 + i % 7);
        if (i > 1000)
            nanosleep(&(struct timespec){0, 10000}, NULL);
    }
    assert_int_equal(*count, goal);
}

struct br_link *ends_connect(void)
{
    struct br_address address;
    struct br_link *link;
    int goal_a = ends_a.n_links + 1, goal_b = ends_b.n_links + 1;

    address = ends_b.device->address;
    assert_int_equal(ends_ops->link_connect(ends_a.device, &address, &link), 0);
    ends_until(&ends_a.n_links, goal_a);
    ends_until(&ends_b.n_links, goal_b);
    return link;
}

int ends_message(struct br_link *link, uint32_t length)
{
    struct br_frame frame = {
        .kind = BR_FRAME_MESSAGE, .payload = ends_source, .length = length, .cookie = 1};

    return ends_ops->post(link, &frame, 1);
}

int ends_stranger(void)
{
    struct sockaddr_in to = ((struct br_tcp_device *)ends_b.device)->address.v4;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}
