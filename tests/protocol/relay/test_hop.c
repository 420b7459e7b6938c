/* SPDX-License-Identifier: BSD-3-Clause */
/* What a host in between does with relayed frames, right ones and wrong ones, in a BCube(3,2) of
 * the simulator. */
#include <errno.h>
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
#include "tests/says.h"

#define CLASS (BR_RELAY_RESERVED + BR_RELAY_SHARED) /* buffers that one class can have */

static struct cluster c;

static int open_cube(void **state)
{
    (void)state;
    cluster_create_bcube(&c, 3, 2, &(struct br_sim_config){.seed = 1}, NULL);
    return 0;
}

static int close_cube(void **state)
{
    (void)state;
    cluster_destroy(&c);
    return 0;
}

static void run(uint64_t ns)
{
    uint64_t until = br_sim_now(c.sim) + ns;

    while (br_sim_now(c.sim) < until && cluster_step(&c))
        ;
}

/* Nobody but these two gets a turn. */
static void run_two(int a, int b, uint64_t ns)
{
    uint64_t until = br_sim_now(c.sim) + ns;

    while (br_sim_now(c.sim) < until) {
        for (int i = 0; i < 2; i++) {
            struct br_worker *w = c.workers[i ? b : a];
            uint64_t now = br_sim_host_now(c.sim, i ? b : a);

            while (br_worker_poll(w, now) + br_worker_pump(w, now))
                ;
        }
        if (br_sim_next(c.sim) > until)
            br_sim_advance_to(c.sim, until);
        else
            br_sim_advance(c.sim);
    }
}

/* As rank `from` would if it kept to no rule. */
static void say(int from, int to, const struct br_message_relay *relay, uint32_t length)
{
    static const uint8_t payload[4096];
    struct br_message m;

    memcpy(&m, relay, sizeof m);
    assert_int_equal(
        br_control_post(br_peer_direct(&c.workers[from]->peers[to]), &m, payload, length), 1);
}

static struct br_message_relay header(enum br_relay_kind kind, int hosts, const uint16_t *path)
{
    struct br_message_relay h = {.type = BR_MESSAGE_RELAY,
                                 .what = (uint8_t)kind,
                                 .hosts = (uint8_t)hosts,
                                 .at = 1,
                                 .id = (uint32_t)path[0] << 16 | 9};

    memcpy(h.path, path, (size_t)hosts * sizeof *path);
    return h;
}

static const uint16_t to_4[] = {0, 1, 4}, to_7[] = {2, 0, 1, 7};

/* Rank 0 says it to rank 1, which drops it, and nothing else happens. */
static void drops(struct br_message_relay h, uint32_t length)
{
    const struct br_worker *w = c.workers[1];
    uint64_t dropped = w->counters.dropped_messages, relayed = w->counters.relayed_frames;

    say(0, 1, &h, length);
    run(BR_MS);
    assert_int_equal(w->counters.dropped_messages, dropped + 1);
    assert_int_equal(w->counters.relayed_frames, relayed);
    assert_int_equal(w->peers[0].rails[0].relay->in.used[h.at], 0);
    assert_int_equal(w->peers[0].rails[0].state, BR_RAIL_UP);
    assert_int_equal(w->failed, 0);
}

static void arrived__malformed_paths(void **state)
{
    static const uint16_t loop[] = {0, 1, 4, 1, 7}, back[] = {0, 1, 0}, far[] = {0, 1, 5},
                          outside[] = {0, 1, 10}, self[] = {0, 1, 1}, other[] = {2, 1, 4},
                          away[] = {0, 2, 5};
    static const uint16_t longer[] = {0, 1, 4, 3, 6, 7, 8, 5};
    struct br_message_relay h;

    (void)state;
    drops(header(BR_RELAY_OPEN, 5, loop), 0);
    drops(header(BR_RELAY_OPEN, 3, back), 0);
    drops(header(BR_RELAY_OPEN, 3, far), 0);
    drops(header(BR_RELAY_OPEN, 3, outside), 0);
    drops(header(BR_RELAY_OPEN, 3, self), 0);
    drops(header(BR_RELAY_OPEN, 3, other), 0); /* rank 0 is not rank 2 */
    drops(header(BR_RELAY_OPEN, 3, away), 0);  /* and we are not rank 2 either */
    drops(header(BR_RELAY_OPEN, 2, to_4), 0);
    drops(header(BR_RELAY_OPEN, 8, longer), 0);
    drops(header(BR_RELAY_OPEN, 3, to_4), 1);
    drops(header(BR_RELAY_REQUEST, 5, loop), 0);
    drops(header(BR_RELAY_UNREACHABLE, 5, loop), 0);
    drops(header(0, 3, to_4), 0);
    drops(header(BR_RELAY_REQUEST + 1, 3, to_4), 0);
    h = header(BR_RELAY_OPEN, 3, to_4);
    h.id = 5 << 16; /* somebody else's route */
    drops(h, 0);
    h = header(BR_RELAY_FRAME, 3, to_4);
    h.at = 3;
    drops(h, 64);
}

/* No route, no forwarding; the sender hears of it, once, and whoever brings bad news does not. */
static void arrived__unknown_route(void **state)
{
    struct br_message_relay h = header(BR_RELAY_FRAME, 3, to_4);

    (void)state;
    say(0, 1, &h, 64);
    run(BR_MS);
    assert_int_equal(c.workers[1]->counters.unreachable, 1);
    assert_int_equal(c.workers[1]->counters.relayed_frames, 0);
    assert_int_equal(c.workers[1]->relay->n_own, 0);
    h = header(BR_RELAY_CLOSE, 3, to_4);
    say(0, 1, &h, 0);
    h = header(BR_RELAY_UNREACHABLE, 3, to_4);
    say(0, 1, &h, 0);
    run(BR_MS);
    assert_int_equal(c.workers[1]->counters.relayed_frames, 0);
}

/* A route through us is known from OPEN to CLOSE, and both ways alone. */
static void transit__from_open_to_close(void **state)
{
    static const uint16_t astray[] = {0, 1, 7};
    struct br_message_relay h = header(BR_RELAY_OPEN, 3, to_4);

    (void)state;
    say(0, 1, &h, 0);
    run(BR_MS);
    assert_int_equal(c.workers[1]->relay->through.count, 1);
    assert_int_equal(c.workers[1]->counters.relayed_frames, 1);
    assert_int_equal(c.workers[4]->relay->n_links, 1);
    h = header(BR_RELAY_FRAME, 3, astray);
    say(0, 1, &h, 64);
    run(BR_MS);
    assert_int_equal(c.workers[1]->counters.relayed_frames, 1);
    h = header(BR_RELAY_CLOSE, 3, to_4);
    say(0, 1, &h, 0);
    run(BR_MS);
    assert_int_equal(c.workers[1]->relay->through.count, 0);
    assert_int_equal(c.workers[4]->relay->n_links, 0);
}

/* The end behind a rail that is lost hears of it at once. */
static void transit__lost_rail(void **state)
{
    struct br_message_relay h = header(BR_RELAY_OPEN, 3, to_4);

    (void)state;
    say(0, 1, &h, 0);
    run(BR_MS);
    assert_int_equal(c.workers[4]->relay->n_links, 1);
    br_rail_lost(c.workers[1], br_peer_direct(&c.workers[1]->peers[0]), ECONNRESET, "cut");
    run(BR_MS);
    assert_int_equal(c.workers[1]->relay->through.count, 0);
    assert_int_equal(c.workers[4]->relay->n_links, 0);
    assert_int_equal(c.workers[4]->relay->learned[0].from, 1);
    assert_int_equal(c.workers[4]->relay->learned[0].to, 0);
}

/* Rank 4 gets no turn: frames of one class for it fill what rank 1 has; those of another class
 * still pass; who sends more than there are buffers loses its rail. The most urgent leaves first
 * when rank 4 goes on. */
static void classes__full_one_does_not_stop_others(void **state)
{
    struct br_message_relay open_4 = header(BR_RELAY_OPEN, 3, to_4),
                            open_7 = header(BR_RELAY_OPEN, 4, to_7), h;
    struct br_worker *w = c.workers[1];
    struct br_queue *queue = &w->peers[4].queues[BR_QUEUE_RELAY];
    uint64_t relayed;

    (void)state;
    say(0, 1, &open_4, 0);
    open_7.at = 2;
    say(0, 1, &open_7, 0);
    run(BR_MS);
    h = header(BR_RELAY_FRAME, 3, to_4);
    for (uint32_t i = 0; i < 2 * CLASS; i++) {
        h.priority = (int16_t)(i == 2 * CLASS - 2 ? 9 : i % 3);
        say(0, 1, &h, 4096);
        run_two(0, 1, 50 * BR_US);
    }
    run_two(0, 1, BR_MS);
    assert_int_equal(w->peers[0].rails[0].relay->in.used[1], CLASS);
    assert_int_equal(w->peers[4].rails[0].relay->out.used[2], CLASS);
    assert_int_equal(br_container_of(queue->entries.next, struct br_queued, node)->priority, 9);

    relayed = w->counters.relayed_frames;
    h = header(BR_RELAY_FRAME, 4, to_7);
    h.at = 2;
    say(0, 1, &h, 4096);
    run_two(0, 1, BR_MS);
    assert_int_equal(w->counters.relayed_frames, relayed + 1);
    assert_true(br_list_empty(&w->peers[7].queues[BR_QUEUE_RELAY].entries)); /* it has left */

    run(10 * BR_MS);
    assert_true(br_list_empty(&queue->entries));
    assert_int_equal(w->peers[0].rails[0].relay->in.used[1], 0);
    assert_int_equal(w->peers[4].rails[0].relay->out.used[2], 0);
}

static void classes__more_than_buffers(void **state)
{
    struct br_message_relay h = header(BR_RELAY_OPEN, 3, to_4);

    (void)state;
    say(0, 1, &h, 0);
    run(BR_MS);
    h = header(BR_RELAY_FRAME, 3, to_4);
    for (uint32_t i = 0; i < 2 * CLASS + 1; i++) {
        assert_non_null(br_peer_direct(&c.workers[1]->peers[0]));
        say(0, 1, &h, 4096);
        run_two(0, 1, 50 * BR_US);
    }
    run_two(0, 1, BR_MS);
    assert_null(br_peer_direct(&c.workers[1]->peers[0]));
    assert_says(c.workers[1]->peers[0].rails[0].message, "more|buffers");
    assert_int_equal(c.workers[1]->failed, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_cube, close_cube)
    const struct CMUnitTest tests[] = {
        TEST(arrived__malformed_paths),
        TEST(arrived__unknown_route),
        TEST(transit__from_open_to_close),
        TEST(transit__lost_rail),
        TEST(classes__full_one_does_not_stop_others),
        TEST(classes__more_than_buffers),
    };

    br_log_set_level(BR_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
