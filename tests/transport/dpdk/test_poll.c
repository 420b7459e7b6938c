/* SPDX-License-Identifier: BSD-3-Clause */
/* In which order a poll receives, reports and sends (note 6 of transport/dpdk/dpdk.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "base/clock.h"
#include "cable.h"
#include "transport/backends.h"

#define TICK (BR_US / 5) /* between two polls */

static struct cable_end ends[2];
static uint64_t now;

static int set_up(void **state)
{
    (void)state;
    now = BR_SEC;
    cable_install();
    cable_connect(ends, &now);
    for (int turn = 0; turn < 1000; turn++) { /* what is left to say */
        struct br_event event;

        now += 10 * BR_US;
        assert_int_equal(br_dpdk_ops.poll(ends[turn & 1].device, now, &event, 1), 0);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    cable_disconnect(ends);
    cable_remove();
    return 0;
}

/* One poll of an end; how many events of this kind it had, and that there were no others. */
static int poll_end(int end, enum br_event_kind kind)
{
    struct br_event events[32];
    int n;

    now += TICK;
    n = br_dpdk_ops.poll(ends[end].device, now, events, 32);
    for (int i = 0; i < n; i++) {
        if (events[i].kind == BR_EVENT_CLOSED)
            fail_msg("closed: %s", events[i].link->message);
        assert_int_equal(events[i].kind, kind);
    }
    return n;
}

static void poll__sends_the_answer_and_then_the_acknowledgement(void **state)
{
    struct cable_counts before = cable_counts(1);

    (void)state;
    cable_write(&ends[0], &ends[1], 1024);
    assert_int_equal(poll_end(0, BR_EVENT_SENT), 0);
    assert_int_equal(poll_end(1, BR_EVENT_DATA), 1);
    assert_int_equal(cable_counts(1).packets, before.packets); /* events first */
    cable_write(&ends[1], &ends[0], 1024);
    assert_int_equal(poll_end(1, BR_EVENT_SENT), 0);
    /* the answer, and apart from it */
    assert_int_equal(cable_counts(1).packets, before.packets + 2);
    assert_int_equal(cable_counts(1).bursts, before.bursts + 2);
}

static void poll__acknowledges_at_once_where_nothing_is_answered(void **state)
{
    (void)state;
    cable_write(&ends[0], &ends[1], 1024);
    assert_int_equal(poll_end(0, BR_EVENT_SENT), 0);
    assert_int_equal(poll_end(1, BR_EVENT_DATA), 1);
    assert_int_equal(poll_end(1, BR_EVENT_DATA), 0);
    assert_int_equal(poll_end(0, BR_EVENT_SENT), 1);
}

/* Data that leaves in every poll keeps an acknowledgement back for a while, not for ever. */
static void poll__acknowledges_though_data_goes_on(void **state)
{
    int placed = 0, sent = 0, turns = 0;

    (void)state;
    cable_write(&ends[0], &ends[1], 1024);
    for (; !sent && turns < 1000; turns++) {
        struct br_event events[32];
        int n;

        now += TICK;
        cable_write(&ends[1], &ends[0], 1024);
        n = br_dpdk_ops.poll(ends[1].device, now, events, 32);
        for (int i = 0; i < n; i++)
            placed += events[i].kind == BR_EVENT_DATA;
        n = br_dpdk_ops.poll(ends[0].device, now, events, 32);
        for (int i = 0; i < n; i++)
            sent += events[i].kind == BR_EVENT_SENT;
    }
    assert_int_equal(placed, 1);
    assert_int_equal(sent, 1);
    assert_in_range(turns, 1, 300);
}

/* A caller that takes long between two polls, each of which has events: what it owes leaves all the
 * same. */
static void poll__sends_though_each_has_events_and_comes_late(void **state)
{
    int sent = 0;

    (void)state;
    for (int turn = 0; turn < 100; turn++) {
        struct br_event events[32];
        int n;

        now += 200 * BR_US;
        cable_write(&ends[0], &ends[1], 1024);
        n = br_dpdk_ops.poll(ends[0].device, now, events, 32);
        if (n && turn < 99) /* else it has put off */
            n += br_dpdk_ops.poll(ends[0].device, now, events + n, 32 - n);
        for (int i = 0; i < n; i++)
            sent += events[i].kind == BR_EVENT_SENT;
        br_dpdk_ops.poll(ends[1].device, now, events, 32);
    }
    assert_in_range(sent, 90, 100);
}

/* A copy sent again waits for room when the first one is acknowledged: then the payload is the
 * caller's again. */
static void poll__leaves_payload_alone_once_it_is_sent(void **state)
{
    struct cable_counts before;

    (void)state;
    memset(ends[0].place, 'a', sizeof ends[0].place);
    cable_write(&ends[0], &ends[1], 1024);
    assert_int_equal(poll_end(0, BR_EVENT_SENT), 0);
    cable_fill(0, true);
    for (int turn = 0; !ends[0].link->facts.resent_packets; turn++) {
        assert_in_range(turn, 0, 1000);
        now += BR_MS;
        assert_int_equal(poll_end(0, BR_EVENT_SENT), 0);
    }
    assert_int_equal(poll_end(1, BR_EVENT_DATA), 1);
    assert_int_equal(poll_end(1, BR_EVENT_DATA), 0);
    assert_int_equal(poll_end(0, BR_EVENT_SENT), 1);
    memset(ends[0].place, 'b', sizeof ends[0].place);
    before = cable_counts(0);
    cable_fill(0, false);
    assert_int_equal(poll_end(0, BR_EVENT_SENT), 0);
    assert_true(cable_counts(0).packets > before.packets);
    assert_int_equal(cable_last_byte(0), 'a');
}

/* A port that takes nothing, as net_memif's whose peer has died: the link ends all the same. */
static void poll__a_port_that_takes_nothing(void **state)
{
    uint64_t begun = now, patience = 10 * BR_SEC; /* what a device without one takes */
    int error = 0;

    (void)state;
    cable_write(&ends[0], &ends[1], 1024);
    cable_fill(0, true);
    while (!error && now < begun + 2 * patience) {
        struct br_event event = {0};

        now += BR_MS;
        if (br_dpdk_ops.poll(ends[0].device, now, &event, 1) == 1 && event.kind == BR_EVENT_CLOSED)
            error = event.error;
    }
    assert_int_equal(error, -ETIMEDOUT);
    assert_in_range(now - begun, patience / 2, patience + BR_SEC);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(poll__sends_the_answer_and_then_the_acknowledgement, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(poll__acknowledges_at_once_where_nothing_is_answered,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(poll__acknowledges_though_data_goes_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(poll__sends_though_each_has_events_and_comes_late, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(poll__leaves_payload_alone_once_it_is_sent, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(poll__a_port_that_takes_nothing, set_up, tear_down),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
