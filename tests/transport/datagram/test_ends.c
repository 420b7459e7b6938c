/* SPDX-License-Identifier: BSD-3-Clause */
/* How links begin and end, and whom they trust. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/says.h"
#include "tests/transport/datagram/netem.h"

#define BUFFERS  4u
#define PLACE    65536u
#define PATIENCE (500 * BR_MS)
#define KEPT     64u

/* Two ends that do nothing by themselves. */
struct scene {
    struct netem_net net;
    struct br_slot_table slots;
    uint8_t *place, *source;
    struct br_slot *slot;
    uint32_t number;
    struct {
        bool up;
        unsigned sent, placed, stale, messages;
        int error;
        void *held[KEPT];
        unsigned n_held;
        unsigned events_at_close; /* messages heard when CLOSED came */
    } at[2];
    bool trusts;
};

static void on_event(void *owner, unsigned end, const struct br_event *event)
{
    struct scene *scene = owner;

    switch (event->kind) {
    case BR_EVENT_ACCEPTED:
    case BR_EVENT_CONNECTED:
        scene->at[end].up = true;
        if (scene->trusts)
            br_dgram_link_authenticate(scene->net.ends[end].link);
        break;
    case BR_EVENT_SENT:
        scene->at[end].sent++;
        break;
    case BR_EVENT_DATA:
        scene->at[end].placed++;
        scene->at[end].stale += event->stale;
        break;
    case BR_EVENT_MESSAGE:
        scene->at[end].messages++;
        scene->at[end].held[scene->at[end].n_held++] = event->buffer;
        break;
    case BR_EVENT_CLOSED:
        assert_int_equal(scene->at[end].error, 0);
        scene->at[end].error = event->error;
        scene->at[end].events_at_close = scene->at[end].messages;
        break;
    }
}

static int set_up(void **state)
{
    struct scene *scene = calloc(1, sizeof *scene);
    struct br_dgram_config config = {.message_bytes = 2000,
                                     .message_buffers = BUFFERS,
                                     .max_packet = 8972,
                                     .paths = 1,
                                     .patience = PATIENCE};

    assert_non_null(scene);
    netem_init(&scene->net, 3);
    assert_int_equal(br_slot_table_init(&scene->slots, 4), 0);
    scene->place = calloc(1, PLACE);
    scene->source = malloc(PLACE);
    assert_true(scene->place && scene->source);
    memset(scene->source, 0x5a, PLACE);
    scene->slot = br_slot_get(&scene->slots, scene->place, PLACE, PLACE);
    scene->number = br_slot_number(&scene->slots, scene->slot);
    scene->trusts = true;
    config.slots = &scene->slots;
    netem_pair(&scene->net, &config, -1);
    for (unsigned i = 0; i < 2; i++) {
        scene->net.ends[i].event = on_event;
        scene->net.ends[i].owner = scene;
    }
    *state = scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;

    netem_destroy(&scene->net);
    br_slot_table_destroy(&scene->slots);
    free(scene->place);
    free(scene->source);
    free(scene);
    return 0;
}

static void run(struct scene *scene, uint64_t time)
{
    netem_run(&scene->net, scene->net.now + time);
}

static void connect(struct scene *scene)
{
    netem_connect(&scene->net, 0);
    run(scene, 100 * BR_MS);
    assert_true(scene->at[0].up && scene->at[1].up);
}

static int post(struct scene *scene, unsigned end, enum br_frame_kind kind)
{
    struct br_frame frame = {.kind = kind,
                             .payload = scene->source,
                             .length = kind == BR_FRAME_DATA ? PLACE : 2000,
                             .slot = kind == BR_FRAME_DATA ? scene->number : 0,
                             .cookie = 1};
    int rc = br_dgram_link_post(scene->net.ends[end].link, &frame, 1);

    netem_kick(&scene->net, end);
    return rc;
}

static uint32_t packet_bytes(struct scene *scene, unsigned end)
{
    struct br_dgram_stats stats;

    br_dgram_link_stats(scene->net.ends[end].link, &stats);
    return stats.packet_bytes;
}

static void connect__finds_the_size_that_passes(void **state)
{
    struct scene *scene = *state;

    scene->net.impairments.mtu = 1472;
    scene->net.impairments.loss = 0.1;
    connect(scene);
    assert_int_equal(packet_bytes(scene, 0), 1472);
    assert_int_equal(packet_bytes(scene, 1), 1472);
}

static void connect__takes_what_both_can(void **state)
{
    struct scene *scene = *state;

    scene->net.ends[1].config.max_packet = 4068;
    connect(scene);
    assert_int_equal(packet_bytes(scene, 0), 4068);
}

/* Both ends ask whether the other is there, and neither is heard: they ask again. */
static void idle__lives_through_a_darkness(void **state)
{
    struct scene *scene = *state;

    connect(scene);
    scene->net.impairments.black_from = scene->net.now + 300 * BR_MS;
    scene->net.impairments.black_until = scene->net.impairments.black_from + 400 * BR_MS;
    run(scene, 5 * BR_SEC);
    assert_int_equal(scene->at[0].error, 0);
    assert_int_equal(scene->at[1].error, 0);
    assert_int_equal(post(scene, 0, BR_FRAME_MESSAGE), 1);
    run(scene, BR_SEC);
    assert_int_equal(scene->at[1].messages, 1);
}

static void connect__with_nobody_there_ends_in_time(void **state)
{
    struct scene *scene = *state;

    scene->net.ends[1].listens = false;
    netem_connect(&scene->net, 0);
    run(scene, PATIENCE + BR_MS);
    assert_int_equal(scene->at[0].error, -ETIMEDOUT);
    assert_int_equal(br_dgram_link_timer(scene->net.ends[0].link), BR_DGRAM_NEVER);
    assert_int_equal(post(scene, 0, BR_FRAME_MESSAGE), -ETIMEDOUT);
}

static void connect__configuration_out_of_bounds(void **state)
{
    struct scene *scene = *state;
    struct br_dgram_config good = scene->net.ends[0].config, bad = good;
    struct br_dgram_link *link;

    bad.max_packet = BR_DGRAM_MIN_PACKET - 1;
    assert_int_equal(br_dgram_link_connect(&bad, 0, &link), -EINVAL);
    bad = good, bad.paths = 0;
    assert_int_equal(br_dgram_link_connect(&bad, 0, &link), -EINVAL);
    bad = good, bad.patience = 0;
    assert_int_equal(br_dgram_link_connect(&bad, 0, &link), -EINVAL);
    bad = good, bad.id = 0;
    assert_int_equal(br_dgram_link_connect(&bad, 0, &link), -EINVAL);
}

static void post__too_long(void **state)
{
    struct scene *scene = *state;
    struct br_frame frame = {.kind = BR_FRAME_MESSAGE, .payload = scene->source, .length = 2001};

    connect(scene);
    assert_int_equal(br_dgram_link_post(scene->net.ends[0].link, &frame, 1), -EMSGSIZE);
}

static void post__is_full_at_the_window(void **state)
{
    struct scene *scene = *state;
    unsigned taken = 0;

    connect(scene);
    scene->net.impairments.loss = 1;
    while (post(scene, 0, BR_FRAME_DATA) == 1)
        taken++;
    assert_int_equal(taken, BR_DGRAM_WINDOW);
    scene->net.impairments.loss = 0;
    run(scene, 400 * BR_MS);
    assert_int_equal(scene->at[0].sent, taken);
    assert_int_equal(scene->at[1].placed, taken);
}

static void close__comes_after_what_arrived(void **state)
{
    struct scene *scene = *state;

    connect(scene);
    post(scene, 0, BR_FRAME_MESSAGE);
    run(scene, BR_MS);
    netem_close(&scene->net, 0);
    run(scene, BR_MS);
    assert_int_equal(scene->at[1].error, -ESHUTDOWN);
    assert_int_equal(scene->at[1].events_at_close, 1);
}

/* A refusal of another version ends a link that is being made, and no other. */
static void close__of_another_version(void **state)
{
    struct scene *scene = *state;
    struct br_dgram_view refusal = {.kind = BR_DGRAM_CLOSE};

    refusal.header.version = BR_DGRAM_VERSION - 1;
    connect(scene);
    refusal.open.from = br_dgram_link_peer(scene->net.ends[0].link);
    br_dgram_link_input(scene->net.ends[0].link, &refusal, false, scene->net.now);
    run(scene, BR_SEC);
    assert_int_equal(scene->at[0].error, 0);
    netem_close(&scene->net, 0);
    scene->net.ends[1].listens = false;
    netem_connect(&scene->net, 0);
    br_dgram_link_input(scene->net.ends[0].link, &refusal, false, scene->net.now);
    run(scene, 30 * BR_MS);
    assert_int_equal(scene->at[0].error, -EPROTONOSUPPORT);
    assert_says(br_dgram_link_message(scene->net.ends[0].link), "2|3|update|there");
}

/* A process that died says nothing; the next packet to it is answered by who has its port now. */
static void close__a_peer_that_forgot(void **state)
{
    struct scene *scene = *state;

    connect(scene);
    br_dgram_link_destroy(scene->net.ends[1].link);
    scene->net.ends[1].link = NULL;
    post(scene, 0, BR_FRAME_MESSAGE);
    run(scene, BR_MS);
    assert_int_equal(scene->at[0].error, -ESHUTDOWN);
}

/* It is asked every 500 ms; from then on it owes an answer. */
static void silence__of_an_idle_link_is_noticed(void **state)
{
    struct scene *scene = *state;

    connect(scene);
    run(scene, 10 * PATIENCE);
    assert_int_equal(scene->at[0].error, 0);
    scene->net.impairments.loss = 1;
    run(scene, PATIENCE - 10 * BR_MS);
    assert_int_equal(scene->at[0].error, 0);
    run(scene, 2 * BR_SEC + 250 * BR_MS);
    assert_int_equal(scene->at[0].error, -ETIMEDOUT);
}

static void authenticate__payload_from_an_unauthenticated_peer_ends_the_link(void **state)
{
    struct scene *scene = *state;

    scene->trusts = false;
    connect(scene);
    post(scene, 0, BR_FRAME_DATA);
    run(scene, 400 * BR_MS);
    assert_int_equal(scene->at[1].error, -EPROTO);
    assert_int_equal(scene->at[1].placed, 0);
    assert_int_equal(scene->place[0], 0);
}

/* It overtakes the message that proves the peer; nothing of it is kept until then. */
static void authenticate__early_payload_waits(void **state)
{
    struct scene *scene = *state;

    scene->trusts = false;
    connect(scene);
    scene->net.impairments.mtu = 1900; /* the message's packet is longer */
    post(scene, 0, BR_FRAME_MESSAGE);
    scene->net.impairments.mtu = 0;
    post(scene, 0, BR_FRAME_DATA);
    run(scene, 50 * BR_US);
    assert_int_equal(scene->at[1].messages, 0);
    assert_int_equal(scene->at[1].placed, 0);
    br_dgram_link_authenticate(scene->net.ends[1].link);
    run(scene, 300 * BR_MS);
    assert_int_equal(scene->at[1].messages, 1);
    assert_int_equal(scene->at[1].placed, 1);
    assert_int_equal(scene->at[1].error, 0);
}

/* One packet from end 0 to end 1, which comes in at `at`; what end 1 says to it stays unsaid. */
static void carry(struct scene *scene, uint64_t at)
{
    struct br_dgram_packet packet;
    uint8_t bytes[BR_DGRAM_MAX_PACKET];
    struct br_dgram_view view;

    assert_true(br_dgram_link_next(scene->net.ends[0].link, scene->net.now, &packet));
    memcpy(bytes, packet.head, packet.head_bytes);
    memcpy(bytes + packet.head_bytes, packet.payload, packet.payload_bytes);
    assert_int_equal(br_dgram_parse(bytes, packet.head_bytes + packet.payload_bytes, &view), 0);
    br_dgram_link_input(scene->net.ends[1].link, &view, false, at);
}

/* It came while the process stood still, some of it long before the rest: all before anybody could
 * trust the peer. */
static void authenticate__early_payload_that_waited(void **state)
{
    struct br_frame frame = {.kind = BR_FRAME_DATA, .length = 1024};
    struct scene *scene = *state;

    scene->trusts = false;
    connect(scene);
    frame.payload = scene->source;
    frame.slot = scene->number;
    for (int i = 0; i < 2; i++, frame.offset += 1024)
        assert_int_equal(br_dgram_link_post(scene->net.ends[0].link, &frame, 1), 1);
    carry(scene, scene->net.now);
    carry(scene, scene->net.now + 100 * BR_MS);
    scene->net.now += 100 * BR_MS;
    br_dgram_link_authenticate(scene->net.ends[1].link);
    run(scene, 400 * BR_MS);
    assert_int_equal(scene->at[1].error, 0);
    assert_int_equal(scene->at[1].placed, 2);
}

static void slots__out_of_bounds_ends_the_link(void **state)
{
    struct scene *scene = *state;
    struct br_frame frame = {.kind = BR_FRAME_DATA,
                             .payload = scene->source,
                             .length = 1024,
                             .slot = scene->number,
                             .offset = PLACE - 512};

    connect(scene);
    assert_int_equal(br_dgram_link_post(scene->net.ends[0].link, &frame, 1), 1);
    netem_kick(&scene->net, 0);
    run(scene, BR_MS);
    assert_int_equal(scene->at[1].error, -EPROTO);
}

static void slots__one_that_dies_in_the_middle(void **state)
{
    struct scene *scene = *state;

    connect(scene);
    scene->net.impairments.jitter = 10 * BR_MS;
    post(scene, 0, BR_FRAME_DATA);
    run(scene, 2 * BR_MS);
    br_slot_put(&scene->slots, scene->slot);
    memset(scene->place, 0xee, PLACE);
    run(scene, 400 * BR_MS);
    assert_int_equal(scene->at[1].stale, 1);
    assert_int_equal(scene->at[0].sent, 1);
    for (unsigned i = 0; i < PLACE; i++)
        assert_int_equal(scene->place[i], 0xee);
}

/* Nothing is lost and nothing is sent again for want of buffers, even if the news of room is
 * lost. */
static void messages__wait_for_room(void **state)
{
    struct scene *scene = *state;
    struct br_dgram_stats stats;

    connect(scene);
    for (unsigned i = 0; i < 3 * BUFFERS; i++)
        assert_int_equal(post(scene, 0, BR_FRAME_MESSAGE), 1);
    run(scene, 300 * BR_MS);
    assert_int_equal(scene->at[1].messages, BUFFERS);
    for (unsigned round = 2; round <= 3; round++) {
        scene->net.impairments.loss = round == 2 ? 1 : 0;
        while (scene->at[1].n_held)
            br_dgram_link_release(scene->net.ends[1].link,
                                  scene->at[1].held[--scene->at[1].n_held]);
        netem_kick(&scene->net, 1);
        scene->net.impairments.loss = 0;
        run(scene, 100 * BR_MS);
        assert_int_equal(scene->at[1].messages, round * BUFFERS);
    }
    br_dgram_link_stats(scene->net.ends[0].link, &stats);
    assert_int_equal(stats.resent_packets, 0);
}

static void paths__one_that_is_dead_does_not_slow_the_others(void **state)
{
    struct scene *scene = *state;
    uint64_t before;

    scene->net.ends[0].config.paths = 4;
    scene->net.ends[1].config.paths = 3; /* the smaller number counts */
    connect(scene);
    scene->net.impairments.dead_path = 2;
    for (unsigned i = 0; i < 100; i++)
        post(scene, 0, BR_FRAME_DATA);
    run(scene, 100 * BR_MS); /* finds out */
    assert_int_equal(scene->at[0].sent, 100);
    before = scene->net.now;
    for (unsigned i = 0; i < 100; i++) {
        post(scene, 0, BR_FRAME_DATA);
        while (scene->at[0].sent < 101 + i && scene->net.now < before + BR_SEC)
            run(scene, 100 * BR_US);
    }
    assert_int_equal(scene->at[0].sent, 200);
    assert_true(scene->net.now - before < 50 * BR_MS);
    assert_int_equal(scene->at[0].error, 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(connect__finds_the_size_that_passes),
        CASE(connect__takes_what_both_can),
        CASE(idle__lives_through_a_darkness),
        CASE(connect__with_nobody_there_ends_in_time),
        CASE(connect__configuration_out_of_bounds),
        CASE(post__too_long),
        CASE(post__is_full_at_the_window),
        CASE(close__comes_after_what_arrived),
        CASE(close__of_another_version),
        CASE(close__a_peer_that_forgot),
        CASE(silence__of_an_idle_link_is_noticed),
        CASE(authenticate__payload_from_an_unauthenticated_peer_ends_the_link),
        CASE(authenticate__early_payload_waits),
        CASE(authenticate__early_payload_that_waited),
        CASE(slots__out_of_bounds_ends_the_link),
        CASE(slots__one_that_dies_in_the_middle),
        CASE(messages__wait_for_room),
        CASE(paths__one_that_is_dead_does_not_slow_the_others),
    };

    return cmocka_run_group_tests_name("datagram/ends", tests, NULL, NULL);
}
