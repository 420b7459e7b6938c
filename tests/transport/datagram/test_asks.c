/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets that ask for an acknowledgement (packet.h note 6): when SENT comes, and what it takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "tests/transport/datagram/netem.h"
#include "transport/datagram/internal.h"

#define PLACE   65536u
#define BUFFERS 2u
#define FRAMES  100u
#define HANGS   (100 * BR_MS) /* after which a frame is not waited for any more */

/* A link with a round trip of 40 us, on which nothing moves that was not posted. */
struct scene {
    struct netem_net net;
    struct netem_memory memory;
    uint32_t number; /* of the slot */
    unsigned sent;   /* DATA frames */
};

static void on_event(void *owner, unsigned end, const struct br_event *event)
{
    struct scene *scene = owner;

    assert_int_not_equal(event->kind, BR_EVENT_CLOSED);
    if (event->kind == BR_EVENT_ACCEPTED || event->kind == BR_EVENT_CONNECTED)
        br_dgram_link_authenticate(scene->net.ends[end].link);
    scene->sent += event->kind == BR_EVENT_SENT;
}

static void post(struct scene *scene, enum br_frame_kind kind, uint32_t length)
{
    bool data = kind == BR_FRAME_DATA;
    struct br_frame frame = {.kind = kind,
                             .payload = scene->memory.source,
                             .length = length,
                             .slot = data ? scene->number : 0,
                             .cookie = data};

    assert_int_equal(br_dgram_link_post(scene->net.ends[0].link, &frame, 1), 1);
}

/* Posts a frame of DATA. Returns the time to SENT. */
static uint64_t send_one(struct scene *scene, uint32_t length)
{
    uint64_t from = scene->net.now;
    unsigned before = scene->sent;

    post(scene, BR_FRAME_DATA, length);
    netem_kick(&scene->net, 0);
    while (scene->sent == before && scene->net.now < from + HANGS)
        netem_run(&scene->net, scene->net.now + BR_US);
    assert_int_equal(scene->sent, before + 1);
    return scene->net.now - from;
}

static struct scene *begin(uint32_t paths)
{
    struct scene *scene = calloc(1, sizeof *scene);
    struct br_dgram_config config = {.message_bytes = 64,
                                     .message_buffers = BUFFERS,
                                     .max_packet = 1472,
                                     .paths = paths,
                                     .patience = BR_SEC};

    assert_non_null(scene);
    netem_init(&scene->net, 3);
    netem_memory_init(&scene->memory, 1, PLACE);
    scene->number = br_slot_number(
        &scene->memory.slots, br_slot_get(&scene->memory.slots, scene->memory.place, PLACE, PLACE));
    config.slots = &scene->memory.slots;
    netem_pair(&scene->net, &config, -1);
    for (unsigned i = 0; i < 2; i++) {
        scene->net.ends[i].event = on_event;
        scene->net.ends[i].owner = scene;
    }
    netem_connect(&scene->net, 0);
    netem_run(&scene->net, scene->net.now + 10 * BR_MS);
    for (unsigned i = 0; i < FRAMES; i++) /* until round trips and windows are known */
        send_one(scene, PLACE);
    return scene;
}

static void end(struct scene *scene)
{
    netem_destroy(&scene->net);
    netem_memory_destroy(&scene->memory);
    free(scene);
}

static void sent__without_delay_on_all_paths(void **state)
{
    (void)state;
    for (uint32_t paths = 1; paths <= 8; paths *= 2) {
        struct scene *scene = begin(paths);
        struct br_dgram_stats before, after;
        uint64_t sum = 0, most = 0;

        br_dgram_link_stats(scene->net.ends[0].link, &before);
        for (unsigned i = 0; i < FRAMES; i++) {
            /* tails of all lengths */
            uint64_t time = send_one(scene, PLACE - i % 64 * 1024);

            sum += time;
            most = time > most ? time : most;
        }
        br_dgram_link_stats(scene->net.ends[0].link, &after);
        printf("%u paths: SENT after %.0f us, at most %.0f; %.1f packets for each ACK\n", paths,
               (double)sum / FRAMES / BR_US, (double)most / BR_US,
               (double)(after.tx_packets - before.tx_packets) /
                   (double)(after.rx_acks - before.rx_acks));
        assert_true(most < 250 * BR_US);
        end(scene);
    }
}

/* A message that waits for room does not keep DATA from being the last that can leave. */
static void sent__beside_a_message_without_room(void **state)
{
    struct scene *scene = begin(1);

    (void)state;
    for (unsigned i = 0; i < BUFFERS + 1; i++)
        post(scene, BR_FRAME_MESSAGE, 64);
    netem_kick(&scene->net, 0);
    netem_run(&scene->net, scene->net.now + BR_MS);
    for (unsigned i = 0; i < FRAMES; i++)
        assert_true(send_one(scene, 8192) < 250 * BR_US);
    end(scene);
}

/* The packet that asks is lost, and before each frame the sender has paused: that is not how far
 * apart the packets of a slow link come, so the others are acknowledged as soon as without a pause.
 */
static void sent__after_a_pause_and_a_loss(void **state)
{
    struct scene *scene = begin(1);

    (void)state;
    for (unsigned i = 0; i < FRAMES; i++) {
        netem_run(&scene->net, scene->net.now + 500 * BR_US);
        scene->net.impairments.lose_asking = i % 4 == 3;
        assert_true(send_one(scene, PLACE - i % 60 * 1024) < 3 * BR_MS);
    }
    end(scene);
}

/* The longest timeout of a path. */
static uint64_t timeout(const struct scene *scene)
{
    const struct br_dgram_link *link = scene->net.ends[0].link;
    uint64_t longest = 0;

    for (unsigned i = 0; i < link->config.paths; i++) {
        uint64_t after = br_dgram_congestion_rto(&link->paths[i].congestion);

        longest = after > longest ? after : longest;
    }
    return longest;
}

/* The receiver acknowledges what came before, and the timeout sends the rest again. */
static void sent__when_a_packet_that_asks_is_lost(void **state)
{
    (void)state;
    for (uint32_t paths = 1; paths <= 4; paths *= 2) {
        struct scene *scene = begin(paths);

        for (unsigned i = 0; i < FRAMES; i++) {
            uint64_t most = timeout(scene) + BR_MS;

            scene->net.impairments.lose_asking = 1;
            assert_true(send_one(scene, 8192) < most);
            assert_int_equal(scene->net.impairments.lose_asking, 0);
            netem_run(&scene->net, scene->net.now + 20 * BR_MS); /* nothing is owed any more */
        }
        end(scene);
    }
}

/* The window is small for a moment: it is full before a third of the usual one has left. */
static void window__a_full_one_asks(void **state)
{
    struct scene *scene = begin(1);
    struct br_dgram_congestion *pace = &scene->net.ends[0].link->paths[0].congestion;

    (void)state;
    assert_true(pace->window / 3 > pace->window / 4 + 1);
    pace->drain_until = BR_DGRAM_NEVER;
    pace->rated = false;
    assert_true(send_one(scene, PLACE) < BR_MS);
    end(scene);
}

/* An ACK is lost, the window is full, and the probe that leaves then is in order at the peer. */
static void timeout__the_probe_asks(void **state)
{
    struct scene *scene = begin(1);
    struct br_dgram_congestion *pace = &scene->net.ends[0].link->paths[0].congestion;
    uint64_t clean, from, most;

    (void)state;
    pace->drain_until = BR_DGRAM_NEVER;
    pace->rated = false;
    clean = send_one(scene, PLACE);
    most = timeout(scene) + clean + 200 * BR_US;
    from = scene->net.now;
    scene->net.impairments.black_from = from + 30 * BR_US; /* the first window is on its way */
    scene->net.impairments.black_until = from + BR_MS;
    assert_true(send_one(scene, PLACE) < most);
    end(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sent__without_delay_on_all_paths),
        cmocka_unit_test(sent__beside_a_message_without_room),
        cmocka_unit_test(sent__after_a_pause_and_a_loss),
        cmocka_unit_test(sent__when_a_packet_that_asks_is_lost),
        cmocka_unit_test(window__a_full_one_asks),
        cmocka_unit_test(timeout__the_probe_asks),
    };

    return cmocka_run_group_tests_name("datagram/asks", tests, NULL, NULL);
}
