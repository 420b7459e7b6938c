/* SPDX-License-Identifier: BSD-3-Clause */
/* A route as a back end: what comes out of it at its end, and what ends it. Rank 0 of a BCube(3,2)
 * opens one to rank 4, by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "tests/protocol/cluster.h"
#include "protocol/relay/relay.h"

static struct cluster c;

static void run(uint64_t ns)
{
    uint64_t until = br_sim_now(c.sim) + ns;

    while (br_sim_now(c.sim) < until && cluster_step(&c))
        ;
}

static void say(enum br_relay_kind kind, uint32_t number, const void *payload, uint32_t length)
{
    struct br_message_relay h = {.type = BR_MESSAGE_RELAY,
                                 .what = (uint8_t)kind,
                                 .hosts = 3,
                                 .at = 1,
                                 .path = {0, 1, 4},
                                 .id = 9,
                                 .number = number};
    struct br_message m;

    memcpy(&m, &h, sizeof m);
    assert_int_equal(br_control_post(br_peer_direct(&c.workers[0]->peers[1]), &m, payload, length),
                     1);
    run(BR_MS);
}

static int open_route(void **state)
{
    (void)state;
    cluster_create_bcube(&c, 3, 2, &(struct br_sim_config){.seed = 1}, NULL);
    say(BR_RELAY_OPEN, 0, NULL, 0);
    assert_int_equal(c.workers[4]->relay->n_links, 1);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    cluster_destroy(&c);
    return 0;
}

static struct br_frame_header inner(enum br_frame_kind kind, uint32_t length)
{
    return (struct br_frame_header){.magic = BR_FRAME_MAGIC,
                                    .version = BR_FRAME_VERSION,
                                    .kind = (uint8_t)kind,
                                    .length = length};
}

/* The route is closed at rank 4, and nothing else has happened to it. */
static void is_closed(void)
{
    assert_int_equal(c.workers[4]->relay->n_links, 0);
    assert_int_equal(c.workers[4]->failed, 0);
    assert_non_null(br_peer_direct(&c.workers[4]->peers[1]));
    assert_int_equal(c.workers[4]->counters.failed_handshakes, 1);
}

static void deliver__second_open(void **state)
{
    uint64_t dropped = c.workers[1]->counters.unreachable;

    (void)state;
    say(BR_RELAY_OPEN, 0, NULL, 0);
    assert_int_equal(c.workers[1]->counters.unreachable, dropped + 1);
    assert_int_equal(c.workers[4]->relay->n_links, 1);
}

static void deliver__no_header(void **state)
{
    uint8_t bytes[63] = {0};

    (void)state;
    say(BR_RELAY_FRAME, 0, bytes, sizeof bytes);
    is_closed();
}

static void deliver__wrong_length(void **state)
{
    struct br_frame_header h = inner(BR_FRAME_MESSAGE, 1);

    (void)state;
    say(BR_RELAY_FRAME, 0, &h, sizeof h);
    is_closed();
}

static void deliver__missing_message(void **state)
{
    struct br_frame_header h = inner(BR_FRAME_MESSAGE, 0);

    (void)state;
    say(BR_RELAY_FRAME, 1, &h, sizeof h);
    is_closed();
}

static void deliver__data_before_proof(void **state)
{
    struct br_frame_header h = inner(BR_FRAME_DATA, 0);

    (void)state;
    say(BR_RELAY_FRAME, 0, &h, sizeof h);
    is_closed();
}

static void deliver__close(void **state)
{
    (void)state;
    say(BR_RELAY_CLOSE, 0, NULL, 0);
    is_closed();
}

/* More than the staged frames are not taken, and messages go before data. */
static void post__bounded_and_in_order(void **state)
{
    struct br_relay *relay = c.workers[4]->relay;
    struct br_link *link = &br_container_of(relay->links.next, struct br_relay_link, node)->base;
    struct br_queue *queue = &c.workers[4]->peers[1].queues[BR_QUEUE_RELAY];
    static const uint8_t bytes[64];
    struct br_frame frames[BR_RELAY_LINK_FRAMES + 1];

    (void)state;
    for (uint32_t i = 0; i <= BR_RELAY_LINK_FRAMES; i++)
        frames[i] = (struct br_frame){.kind = i % 2 ? BR_FRAME_MESSAGE : BR_FRAME_DATA,
                                      .payload = bytes,
                                      .length = sizeof bytes,
                                      .priority = INT32_MAX};
    assert_int_equal(relay->device.ops->post(link, frames, BR_RELAY_LINK_FRAMES + 1),
                     BR_RELAY_LINK_FRAMES);
    assert_int_equal(relay->device.ops->post(link, frames, 1), 0);
    for (uint32_t i = 0; i < BR_RELAY_LINK_FRAMES; i++) {
        struct br_relay_frame *frame =
            br_container_of(queue->entries.next, struct br_relay_frame, queued.node);

        assert_int_equal(frame->bytes[offsetof(struct br_frame_header, kind)],
                         i < BR_RELAY_LINK_FRAMES / 2 ? BR_FRAME_MESSAGE : BR_FRAME_DATA);
        if (i < BR_RELAY_LINK_FRAMES / 2)
            assert_int_equal(frame->header.number, i);
        br_queue_remove(&frame->queued);
    }
    frames[0].length = br_relay_frame_bytes(&c.workers[4]->config);
    ((struct br_relay_link *)link)->n_frames = 0;
    assert_true(relay->device.ops->post(link, frames, 1) < 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_route, close_all)
    const struct CMUnitTest tests[] = {
        TEST(deliver__second_open),       TEST(deliver__no_header),
        TEST(deliver__wrong_length),      TEST(deliver__missing_message),
        TEST(deliver__data_before_proof), TEST(deliver__close),
        TEST(post__bounded_and_in_order),
    };

    br_log_set_level(BR_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
