/* SPDX-License-Identifier: BSD-3-Clause */
/* When the next packet of a path may leave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "transport/datagram/path.h"

/* A round trip that was long, and a window that has gone to its least. */
static void congest(struct br_dgram_congestion *pace, uint64_t now)
{
    br_dgram_congestion_init(pace, 0, 1);
    br_dgram_congestion_limit(pace, 64);
    br_dgram_congestion_sample(pace, 400 * BR_MS, 400 * BR_MS, now);
    for (int i = 0; i < 20; i++)
        br_dgram_congestion_timeout(pace);
}

/* Packets that leave without asking, such as probes, are no reason for others to wait for
 * seconds. */
static void left__waits_are_bounded(void **state)
{
    struct br_dgram_congestion pace;
    uint64_t now = BR_SEC;

    (void)state;
    congest(&pace, now);
    for (int i = 0; i < 20; i++, now += 20 * BR_MS)
        br_dgram_congestion_left(&pace, now);
    assert_false(br_dgram_congestion_open(&pace, 0, now));
    assert_true(br_dgram_congestion_open(&pace, 0, now + 100 * BR_MS));
}

/* The next one of those that ask leaves after the time that pacing puts between two. */
static void left__between_two(void **state)
{
    struct br_dgram_congestion pace;

    (void)state;
    congest(&pace, BR_SEC);
    pace.window = 8;
    pace.threshold = 1;
    br_dgram_congestion_limit(&pace, 64); /* figures anew */
    pace.leave_at = BR_SEC;
    br_dgram_congestion_left(&pace, BR_SEC);
    assert_false(br_dgram_congestion_open(&pace, 0, BR_SEC + 39 * BR_MS));
    assert_true(
        /* 400 ms over 8 packets, a quarter faster */
        br_dgram_congestion_open(&pace, 0, BR_SEC + 41 * BR_MS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(left__waits_are_bounded),
        cmocka_unit_test(left__between_two),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
