/* SPDX-License-Identifier: BSD-3-Clause */
/* A path, or the peer's machine, that holds packets for a while (internal.h note 4), and numbers
 * that come to their end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/transport/datagram/netem.h"
#include "transport/datagram/internal.h"

#define PLACE (60u << 10)

struct scene {
    struct netem_net net;
    struct netem_memory memory;
    uint32_t number; /* of the slot */
    unsigned sent, heard;
    int error;
    bool up;
};

static void post_frames(struct scene *scene)
{
    struct br_frame frame = {.kind = BR_FRAME_DATA,
                             .payload = scene->memory.source,
                             .length = PLACE,
                             .slot = scene->number,
                             .cookie = 1};

    while (!scene->error && br_dgram_link_post(scene->net.ends[0].link, &frame, 1) == 1)
        ;
}

static void on_event(void *owner, unsigned end, const struct br_event *event)
{
    struct scene *scene = owner;
    uint32_t which;

    switch (event->kind) {
    case BR_EVENT_ACCEPTED:
    case BR_EVENT_CONNECTED:
        br_dgram_link_authenticate(scene->net.ends[end].link);
        scene->up = true;
        break;
    case BR_EVENT_SENT:
        scene->sent++;
        if (scene->number)
            post_frames(scene);
        break;
    case BR_EVENT_MESSAGE:
        memcpy(&which, event->inline_, sizeof which);
        assert_int_equal(which, scene->heard);
        scene->heard++;
        br_dgram_link_release(scene->net.ends[end].link, event->buffer);
        break;
    case BR_EVENT_DATA:
        break;
    case BR_EVENT_CLOSED:
        scene->error = event->error;
    }
}

/* Two ends of a link; port: as netem_pair(). */
static struct scene *begin(uint32_t buffers, int port)
{
    struct scene *scene = calloc(1, sizeof *scene);
    struct br_dgram_config config = {.message_bytes = 64,
                                     .message_buffers = buffers,
                                     .max_packet = 1472,
                                     .paths = 1,
                                     .patience = 10 * BR_SEC,
                                     .flight_bytes = 2 << 20};

    assert_non_null(scene);
    netem_init(&scene->net, 3);
    netem_memory_init(&scene->memory, 4, PLACE);
    config.slots = &scene->memory.slots;
    netem_pair(&scene->net, &config, port);
    for (unsigned i = 0; i < 2; i++) {
        scene->net.ends[i].event = on_event;
        scene->net.ends[i].owner = scene;
    }
    if (port >= 0)
        scene->net.ports[port] =
            (struct netem_port){.bits_per_second = 1000000000, .buffer = 256 << 10};
    scene->net.impairments.delay = 200 * BR_US;
    netem_connect(&scene->net, 0);
    netem_run(&scene->net, scene->net.now + 100 * BR_MS);
    assert_true(scene->up);
    return scene;
}

static void end(struct scene *scene)
{
    netem_destroy(&scene->net);
    netem_memory_destroy(&scene->memory);
    free(scene);
}

static unsigned frames_in(struct scene *scene, uint64_t time)
{
    unsigned before = scene->sent;

    netem_run(&scene->net, scene->net.now + time);
    assert_int_equal(scene->error, 0);
    return scene->sent - before;
}

/* What was held comes when it has long been taken for lost. That says nothing about the packets
 * behind it: loss is found as fast as before, and a path of which all numbers are under way ends
 * neither the link nor the loop over them. */
static void pause__is_forgotten(void **state)
{
    static const uint64_t holds[] = {300 * BR_MS, 2 * BR_SEC, 9 * BR_SEC};

    (void)state;
    for (unsigned i = 0; i < sizeof holds / sizeof *holds; i++) {
        struct scene *scene = begin(64, 0);
        unsigned before;

        scene->number = br_slot_number(
            &scene->memory.slots,
            br_slot_get(&scene->memory.slots, scene->memory.place, PLACE, 64u << 10));
        post_frames(scene);
        netem_kick(&scene->net, 0);
        scene->net.impairments.loss = 0.01;
        frames_in(scene, BR_SEC);
        before = frames_in(scene, BR_SEC);
        scene->net.impairments.loss = 0;
        scene->net.impairments.delay = holds[i];
        frames_in(scene, holds[i]);
        scene->net.impairments.delay = 200 * BR_US;
        frames_in(scene, holds[i] + 2 * BR_SEC); /* the last ones that were held have come */
        scene->net.impairments.loss = 0.01;
        frames_in(scene, 8 * BR_SEC);
        assert_in_range(frames_in(scene, BR_SEC), before * 3 / 4, 2 * before);
        end(scene);
    }
}

/* Numbers of messages come to their end in the middle of some, with as many buffers as the protocol
 * has and a few lost. */
static void message__numbers_wrap(void **state)
{
    static const uint32_t buffers[] = {64, 72, 100};

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct scene *scene = begin(buffers[i], -1);
        uint32_t start = -100u, posted = 0;

        scene->net.ends[0].link->next_order = scene->net.ends[1].link->delivered = start;
        scene->net.ends[0].link->message_limit = scene->net.ends[1].link->limit_sent =
            start + buffers[i];
        scene->net.impairments.loss = 0.05;
        while (posted < 400) {
            uint8_t inline_[BR_FRAME_INLINE] = {0};
            struct br_frame frame = {.kind = BR_FRAME_MESSAGE,
                                     .payload = scene->memory.source,
                                     .length = 64,
                                     .inline_ = inline_,
                                     .cookie = 1};

            memcpy(inline_, &posted, sizeof posted);
            if (br_dgram_link_post(scene->net.ends[0].link, &frame, 1) == 1) {
                posted++;
                continue;
            }
            netem_kick(&scene->net, 0);
            frames_in(scene, BR_MS);
        }
        netem_kick(&scene->net, 0);
        frames_in(scene, 3 * BR_SEC);
        assert_int_equal(scene->heard, 400);
        end(scene);
    }
}

/* ---- a peer that means harm ------------------------------------------------------------------ */

/* An end alone, whose packets are looked at here. */
struct lone {
    struct br_dgram_link *link;
    struct br_slot_table slots;
    uint64_t now, last; /* newest number that was sent */
    unsigned outstanding;
};

static void drain(struct lone *lone)
{
    struct br_dgram_packet packet;
    struct br_event event = {0};

    while (br_dgram_link_next(lone->link, lone->now, &packet)) {
        struct br_dgram_data data;

        memcpy(&data, packet.head, sizeof data);
        if (data.header.kind == BR_DGRAM_DATA || data.header.kind == BR_DGRAM_PING)
            lone->last = data.number;
    }
    while (br_dgram_link_event(lone->link, &event))
        lone->outstanding -= event.kind == BR_EVENT_SENT;
}

static void pass(struct lone *lone, uint64_t time)
{
    uint64_t until = lone->now + time;

    for (uint64_t timer; (timer = br_dgram_link_timer(lone->link)) <= until;) {
        lone->now = timer > lone->now ? timer : lone->now;
        drain(lone);
    }
    lone->now = until;
    drain(lone);
}

static void receive_ack(struct lone *lone, uint64_t first, uint64_t last)
{
    struct br_dgram_view view = {.kind = BR_DGRAM_ACK};

    view.ack = (struct br_dgram_ack){.header.link = 1,
                                     .header.kind = BR_DGRAM_ACK,
                                     .top = last,
                                     .latest = last,
                                     .messages = 1 << 20,
                                     .ranges = 1};
    view.ack.range[0].run = (uint16_t)(last - first + 1);
    br_dgram_link_input(lone->link, &view, false, lone->now);
    drain(lone);
}

/* Returns the number of its packet. */
static uint64_t post_one(struct lone *lone)
{
    static const uint8_t source[64];
    struct br_frame frame = {.kind = BR_FRAME_DATA,
                             .payload = source,
                             .length = sizeof source,
                             .slot = 0x10001,
                             .cookie = 1};
    uint64_t before = lone->last;

    lone->outstanding += br_dgram_link_post(lone->link, &frame, 1) == 1;
    drain(lone);
    return before + 1;
}

static void open_lone(struct lone *lone)
{
    struct br_dgram_config config = {.id = 1,
                                     .slots = &lone->slots,
                                     .message_bytes = 64,
                                     .message_buffers = 64,
                                     .max_packet = 1080,
                                     .paths = 1,
                                     .patience = 60 * BR_SEC};
    struct br_dgram_view view = {.kind = BR_DGRAM_OPENED};

    *lone = (struct lone){.now = BR_SEC};
    assert_int_equal(br_slot_table_init(&lone->slots, 4), 0);
    assert_int_equal(br_dgram_link_connect(&config, lone->now, &lone->link), 0);
    drain(lone);
    view.open = (struct br_dgram_open){.header.link = 1, .from = 77, .size = 1080, .paths = 1};
    br_dgram_link_input(lone->link, &view, false, lone->now);
    drain(lone);
    view.kind = BR_DGRAM_CONFIRMED;
    br_dgram_link_input(lone->link, &view, false, lone->now);
    drain(lone);
}

/* It answers slowly, then fast, and then everything but one packet, whose copy it has: until no
 * number is left. */
static void peer__that_never_hears_of_one(void **state)
{
    const struct br_dgram_path *path;
    struct lone lone;
    uint64_t kept, copy;

    (void)state;
    open_lone(&lone);
    path = &lone.link->paths[0];
    for (int i = 0; i < 6; i++) {
        uint64_t number = post_one(&lone);

        pass(&lone, 4 * BR_SEC);
        receive_ack(&lone, number, number);
        pass(&lone, BR_MS);
        receive_ack(&lone, lone.last, lone.last);
    }
    for (int i = 0;
         i < 3000 && (path->congestion.smoothed > 2 * BR_MS || path->congestion.window < 8); i++) {
        while (lone.outstanding < 20)
            post_one(&lone);
        pass(&lone, BR_MS);
        receive_ack(&lone, path->floor, lone.last);
    }
    while (lone.outstanding) {
        pass(&lone, BR_MS);
        receive_ack(&lone, path->floor, lone.last);
    }
    kept = post_one(&lone);
    while (lone.last == kept)
        pass(&lone, BR_MS);
    copy = lone.last;
    receive_ack(&lone, copy, copy);
    for (int i = 0; i < 10000 && path->next - path->floor < BR_DGRAM_PACKETS && path->floor == kept;
         i++) {
        post_one(&lone);
        pass(&lone, 500 * BR_US);
        if (lone.last > copy)
            receive_ack(&lone, copy, lone.last);
    }
    pass(&lone, 50 * BR_MS);
    receive_ack(&lone, lone.last, lone.last);
    pass(&lone, BR_SEC);
    assert_true(path->next - path->floor <= BR_DGRAM_PACKETS);
    br_dgram_link_destroy(lone.link);
    br_slot_table_destroy(&lone.slots);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pause__is_forgotten),
        cmocka_unit_test(message__numbers_wrap),
        cmocka_unit_test(peer__that_never_hears_of_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
