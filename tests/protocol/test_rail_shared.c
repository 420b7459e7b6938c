/* SPDX-License-Identifier: BSD-3-Clause */
/* The window of a rail that transfers of several priorities share. No link and no worker. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "protocol/internal.h"

#define LEAST BR_WINDOW_LEAST
#define RATE  5000000000ull /* bytes/s of the link */
#define RTT   (50 * BR_US)

struct bench {
    struct br_device device;
    struct br_rail rail;
    struct br_peer peer;
    uint64_t now;
    uint64_t late; /* ns; the one who acknowledges, or looks for it, comes only every `late` */
};

static void set_up(struct bench *b, bool sent_means_arrived)
{
    memset(b, 0, sizeof *b);
    b->now = BR_SEC;
    b->device.caps =
        (struct br_caps){.max_frame = 1 << 20, .sent_means_arrived = sent_means_arrived};
    b->peer.rails = &b->rail;
    b->peer.n_rails = 1;
    br_rail_init(&b->rail, &b->peer, 0);
    b->rail.device = &b->device;
    b->rail.target_delay = BR_MS;
    br_rail_reset(&b->rail, b->now);
    b->rail.state = BR_RAIL_UP;
}

static bool is_reported(const struct bench *b, bool asks)
{
    return asks || b->device.caps.sent_means_arrived;
}

/* Keeps the link as full as the window allows, for so long. */
static void drive(struct bench *b, uint64_t ns)
{
    static struct {
        uint64_t bytes, at;
    } acks[4096];
    uint64_t free_at = b->now, end = b->now + ns;
    unsigned head = 0, tail = 0;

    while (b->now < end || tail != head) {
        while (b->now < end && br_rail_has_window(&b->rail, b->rail.frame_bytes)) {
            uint32_t length = b->rail.frame_bytes;
            bool asks = br_rail_asks(&b->rail, length);

            br_rail_posted(&b->rail, length, asks, b->now);
            free_at = (free_at > b->now ? free_at : b->now) + length * BR_SEC / RATE;
            if (is_reported(b, asks)) {
                acks[head % 4096].bytes = b->rail.tx_bytes;
                acks[head++ % 4096].at = free_at + RTT;
            }
        }
        br_stall_set(&b->rail, BR_STALL_WINDOW, b->now);
        assert_true(head != tail);
        b->now = acks[tail % 4096].at;
        if (b->late)
            b->now += b->late - b->now % b->late;
        for (; tail != head && acks[tail % 4096].at <= b->now; tail++)
            br_rail_acknowledged(&b->rail, acks[tail % 4096].bytes, b->now);
    }
    br_stall_set(&b->rail, BR_STALL_NONE, b->now);
}

static void assert_window(const struct bench *b, uint64_t delay)
{
    double window = (double)RATE * (double)delay / 1e9;

    if (b->rail.window < 0.8 * window || b->rail.window > 1.2 * window)
        fail_msg("a window of %u bytes, not of %g", b->rail.window, window);
}

static void shared__two_round_trips_instead_of_the_target(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b, true);
    drive(&b, 200 * BR_MS);
    assert_window(&b, 800 * BR_US); /* the most that there may be, 4 MiB */
    br_peer_set_shared(&b.peer, true);
    assert_window(&b, 2 * b.rail.min_rtt);
    assert_int_equal(b.rail.frame_bytes, b.rail.window / 4);
    drive(&b, 200 * BR_MS);
    assert_window(&b, 2 * b.rail.min_rtt);
    br_peer_set_shared(&b.peer, false);
    assert_window(&b, 800 * BR_US);
}

static void shared__a_byte_stream_keeps_a_quarter_of_the_target(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b, false);
    drive(&b, 200 * BR_MS);
    br_peer_set_shared(&b.peer, true);
    assert_window(&b, BR_MS / 4);
    drive(&b, 200 * BR_MS);
    assert_window(&b, BR_MS / 4);
    /* what a planner counts with is what the rail has */
    assert_in_range(b.rail.window, br_rail_shared_window(RATE, RTT) * 9 / 10,
                    br_rail_shared_window(RATE, RTT) * 11 / 10);
}

static void shared__turns_do_not_count(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b, false);
    b.rail.target_delay = 200 * BR_US;
    b.rail.turn = 600 * BR_US;
    br_rail_reset(&b.rail, b.now);
    drive(&b, 200 * BR_MS);
    assert_window(&b, 600 * BR_US);
    br_peer_set_shared(&b.peer, true);
    drive(&b, 200 * BR_MS);
    assert_window(&b, 2 * b.rail.min_rtt);
}

static void shared_window__stays_within_its_bounds(void **state)
{
    (void)state;
    assert_int_equal(br_rail_shared_window(12.5e6, RTT), BR_WINDOW_LEAST);
    assert_int_equal(br_rail_shared_window(0, 0), BR_WINDOW_LEAST);
    assert_int_equal(br_rail_shared_window(5e10, 10 * BR_US), BR_WINDOW_MOST);
    assert_int_equal(br_rail_shared_window(5e9, BR_MS), 10000000);
    assert_int_equal(br_rail_shared_window(5e9, 10 * BR_MS), BR_WINDOW_LONG);
    assert_int_equal(br_rail_shared_window(1e9, BR_MS), 2000000);
}

static void shared__nothing_measured_changes_nothing(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b, true);
    br_peer_set_shared(&b.peer, true);
    assert_int_equal(b.rail.window, LEAST);
}

static void shared__rails_that_come_up_later(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b, true);
    br_peer_set_shared(&b.peer, true);
    br_rail_reset(&b.rail, b.now);
    assert_true(b.rail.shared);
    br_peer_set_shared(&b.peer, false);
    br_rail_reset(&b.rail, b.now);
    assert_false(b.rail.shared);
}

/* The larger window's frames are large, and when the last of them is gone, nothing is in flight. */
static void shared__what_was_in_flight_before_is_no_sign(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b, true);
    drive(&b, 200 * BR_MS);
    for (int i = 0; i < 4; i++)
        br_rail_posted(&b.rail, b.rail.frame_bytes, false, b.now);
    br_peer_set_shared(&b.peer, true);
    br_stall_set(&b.rail, BR_STALL_WINDOW, b.now);
    br_rail_acknowledged(&b.rail, b.rail.tx_bytes, b.now + BR_MS);
    br_rail_posted(&b.rail, b.rail.frame_bytes, false, b.now + BR_MS);
    assert_int_equal(b.rail.shared_delay, 0);
}

/* Whoever comes only every 500 us needs as much in flight, and later no more than before. */
static void grows_and_shrinks(bool sent_means_arrived)
{
    struct bench b;
    uint64_t before;

    set_up(&b, sent_means_arrived);
    drive(&b, 200 * BR_MS);
    br_peer_set_shared(&b.peer, true);
    drive(&b, 10 * BR_MS);
    before = b.rail.window;
    b.late = 500 * BR_US;
    drive(&b, 20 * BR_MS);
    if (b.rail.window < RATE / 1000000 * 400)
        fail_msg("a window of %u bytes is too small", b.rail.window);
    b.late = 0;
    drive(&b, 900 * BR_MS);
    if (b.rail.window > 3 * before / 2)
        fail_msg("a window of %u bytes, before it was %llu", b.rail.window,
                 (unsigned long long)before);
}

static void shared__late_looks(void **state)
{
    (void)state;
    grows_and_shrinks(true);
}

static void shared__late_answers(void **state)
{
    (void)state;
    grows_and_shrinks(false);
}

/* A link that nobody keeps waiting is idle for other reasons. */
static void shared__nothing_to_send_is_no_sign(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b, true);
    drive(&b, 200 * BR_MS);
    br_peer_set_shared(&b.peer, true);
    drive(&b, 10 * BR_MS);
    for (int i = 0; i < 10; i++) {
        br_rail_posted(&b.rail, b.rail.frame_bytes, false, b.now);
        b.now += BR_MS;
        br_rail_acknowledged(&b.rail, b.rail.tx_bytes, b.now);
    }
    assert_int_equal(b.rail.shared_delay, 0);
}

static void priorities__of_one_kind_share_nothing(void **state)
{
    static struct br_worker w;

    (void)state;
    w.now = BR_SEC;
    br_priority_seen(&w, 7);
    br_priority_seen(&w, 7);
    assert_int_equal(w.shared_until, 0);
    br_priority_seen(&w, INT32_MAX); /* the library's own */
    br_priority_seen(&w, 7);
    assert_int_equal(w.shared_until, 0);
    w.now += BR_SHARED_PERIOD; /* too long ago */
    br_priority_seen(&w, 3);
    assert_int_equal(w.shared_until, 0);
    br_priority_seen(&w, 7);
    assert_int_equal(w.shared_until, w.now + BR_SHARED_PERIOD);
}

/* A job that uses one priority, and is asked for gets by its peers. */
static void priorities__of_services_do_not_count(void **state)
{
    static struct br_worker w;
    struct br_transfer own = {.priority = 7}, service = {.owner = &w.services};

    (void)state;
    w.now = BR_SEC;
    br_transfer_queued(&w, &own);
    br_transfer_queued(&w, &service);
    br_transfer_queued(&w, &own);
    assert_int_equal(w.shared_until, 0);
    service.owner = NULL;
    br_transfer_queued(&w, &service);
    assert_int_equal(w.shared_until, w.now + BR_SHARED_PERIOD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared__two_round_trips_instead_of_the_target),
        cmocka_unit_test(shared__a_byte_stream_keeps_a_quarter_of_the_target),
        cmocka_unit_test(shared__turns_do_not_count),
        cmocka_unit_test(shared_window__stays_within_its_bounds),
        cmocka_unit_test(shared__nothing_measured_changes_nothing),
        cmocka_unit_test(shared__rails_that_come_up_later),
        cmocka_unit_test(shared__what_was_in_flight_before_is_no_sign),
        cmocka_unit_test(shared__late_looks),
        cmocka_unit_test(shared__late_answers),
        cmocka_unit_test(shared__nothing_to_send_is_no_sign),
        cmocka_unit_test(priorities__of_one_kind_share_nothing),
        cmocka_unit_test(priorities__of_services_do_not_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
