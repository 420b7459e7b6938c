/* SPDX-License-Identifier: BSD-3-Clause */
/* What rails wait for, and how long. No link and no worker behind them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "protocol/internal.h"

struct bench {
    struct br_device device;
    struct br_rail rails[2];
    struct br_peer peer;
    struct br_worker w;
};

static void set_up(struct bench *b)
{
    memset(b, 0, sizeof *b);
    b->device.caps = (struct br_caps){.max_frame = 1 << 20};
    b->peer.rails = b->rails;
    b->peer.n_rails = 2;
    for (int i = 0; i < 2; i++) {
        br_rail_init(&b->rails[i], &b->peer, i);
        b->rails[i].device = &b->device;
        b->rails[i].state = BR_RAIL_UP;
        br_rail_reset(&b->rails[i], 0);
    }
}

static void note(struct bench *b, uint64_t now, uint32_t full, int queue)
{
    b->w.now = now;
    br_stall_note(&b->w, &b->peer, full, queue < BR_QUEUES ? 1u << queue : 0);
}

static uint64_t time_of(const struct bench *b, int rail, enum br_stall stall, uint64_t now)
{
    return br_stall_time(&b->rails[rail], stall, now);
}

/* Each rail its own cause; a time lasts until another cause is found, and the running one
 * counts. */
static void note__causes(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b);
    br_rail_posted(&b.rails[0], b.rails[0].window, true, 1);
    note(&b, 10, 1u << 1, BR_QUEUE_DATA);
    assert_int_equal(time_of(&b, 0, BR_STALL_WINDOW, 15), 5);
    assert_int_equal(time_of(&b, 1, BR_STALL_FULL, 15), 5);
    note(&b, 20, 1u << 1, BR_QUEUE_DATA); /* the same: goes on */
    note(&b, 30, 0, BR_QUEUE_MESSAGES);
    assert_int_equal(time_of(&b, 0, BR_STALL_WINDOW, 100), 20);
    assert_int_equal(time_of(&b, 1, BR_STALL_FULL, 100), 20);
    note(&b, 37, 0, BR_QUEUES); /* nothing waits */
    for (int i = 0; i < 2; i++)
        assert_int_equal(time_of(&b, i, BR_STALL_CREDIT, 100), 7);
    assert_int_equal(time_of(&b, 1, BR_STALL_WINDOW, 100), 0);
}

static void note__rails_that_are_down(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b);
    b.rails[1].state = BR_RAIL_FENCING;
    note(&b, 10, 1u << 1, BR_QUEUE_EAGER);
    assert_int_equal(time_of(&b, 0, BR_STALL_CREDIT, 20), 10);
    assert_int_equal(b.rails[1].stall, BR_STALL_NONE);
}

/* A free rail that leaves the rest of a transfer to a faster one does not wait. */
static void note__window_left(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b);
    note(&b, 10, 0, BR_QUEUE_DATA);
    assert_int_equal(b.rails[0].stall, BR_STALL_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(note__causes),
        cmocka_unit_test(note__rails_that_are_down),
        cmocka_unit_test(note__window_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
