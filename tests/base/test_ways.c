/* SPDX-License-Identifier: BSD-3-Clause */
/* Which way payload goes, by costs that the test makes up. */
#include "base/ways.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#define LENGTH 65536u

static struct br_ways ways;
static uint64_t now;
static uint64_t past; /* the time of a frame past the caches; 0: that of the pipe */

static int setup(void **state)
{
    (void)state;
    ways = (struct br_ways){0};
    now = 1000;
    past = 0;
    return 0;
}

/* Bursts of so many frames, each way with its time of a frame. Returns how many bursts went
 * `which` way. */
static int send_bursts_by(enum br_way which, int bursts, int frames, uint64_t pipe, uint64_t direct)
{
    uint64_t times[BR_WAYS] = {pipe, past ? past : pipe, direct};
    int n = 0;

    for (int i = 0; i < bursts; i++) {
        struct br_ways_frame frame[BR_WAYS_BURST];

        for (int k = 0; k < frames; k++) {
            frame[k] = br_ways_post(&ways, LENGTH);
            frame[k].posted = frame[k].measured ? now : 0;
            assert_int_equal(frame[k].way, frame[0].way);
        }
        n += frame[0].way == which;
        for (int k = 0; k < frames; k++) {
            uint64_t took = times[frame[k].way];

            now += took;
            frame[k].worked = frame[k].measured ? took : 0;
            br_ways_returned(&ways, &frame[k], frame[k].measured ? LENGTH : 0,
                             frame[k].measured ? now : 0);
        }
        now += 777;
    }
    return n;
}

static int send_bursts(int bursts, int frames, uint64_t pipe, uint64_t direct)
{
    return send_bursts_by(BR_WAY_DIRECT, bursts, frames, pipe, direct);
}

static void ways__take_the_one_that_costs_less(void **state)
{
    (void)state;
    assert_in_range(send_bursts(2000, 1, 4000, 8000), 1, 40);
    setup(state);
    assert_in_range(send_bursts(2000, 1, 8000, 4000), 1960, 1999);
    setup(state);
    assert_in_range(send_bursts(2000, BR_WAYS_BURST, 8000, 4000), 1960, 1999);
}

/* Each of the three may be the one, whichever has been before. */
static void ways__are_three(void **state)
{
    (void)state;
    (void)send_bursts(500, 1, 8000, 4000);
    past = 2000;
    (void)send_bursts(600, 1, 8000, 4000); /* each of the others is looked at every 512 bursts */
    assert_in_range(send_bursts_by(BR_WAY_PIPE_PAST, 1000, 1, 8000, 4000), 970, 999);
    (void)send_bursts(600, 1, 1000, 4000);
    assert_in_range(send_bursts_by(BR_WAY_PIPE, 1000, 1, 1000, 4000), 970, 999);
}

/* One that is closed is never tried, and left if it was the one. */
static void ways__may_be_closed(void **state)
{
    (void)state;
    (void)send_bursts(500, 1, 8000, 4000);
    ways.closed[BR_WAY_DIRECT] = true;
    assert_int_equal(send_bursts(1000, 1, 8000, 4000), 0);
    ways.closed[BR_WAY_PIPE_PAST] = true;
    assert_int_equal(send_bursts_by(BR_WAY_PIPE, 1000, 1, 8000, 4000), 1000);
}

/* The cores come near to each other, and go away again. */
static void ways__follow_the_machine(void **state)
{
    (void)state;
    (void)send_bursts(2000, 1, 4000, 8000);
    (void)send_bursts(40, 1, 30000, 9000); /* noticed in the way that is taken */
    assert_in_range(send_bursts(1000, 1, 30000, 9000), 970, 999);
    (void)send_bursts(300, 1, 4000, 8000); /* at the next look at the other one */
    assert_in_range(send_bursts(1000, 1, 4000, 8000), 1, 30);
}

/* What takes long once, as the processor was with others, changes nothing. */
static void ways__one_long_burst(void **state)
{
    (void)state;
    (void)send_bursts(2000, 1, 4000, 8000);
    for (int i = 0; i < 50; i++) {
        (void)send_bursts(1, 1, 4000000, 8000);
        assert_in_range(send_bursts(40, 1, 4000, 8000), 0, 12);
    }
}

/* Where both ends were busy with a frame for less long than it was under way, somebody was not
 * there: that is no cost of the way. */
static void ways__who_is_late_costs_nothing(void **state)
{
    struct br_ways_frame frame;

    (void)state;
    for (int i = 0; i < 200; i++) {
        frame = br_ways_post(&ways, LENGTH);
        frame.posted = frame.measured ? now : 0;
        now += frame.way == BR_WAY_PIPE ? 1000000 : 50000; /* by chance always so */
        frame.worked = frame.measured ? (frame.way == BR_WAY_PIPE ? 4000 : 8000) : 0;
        br_ways_returned(&ways, &frame, frame.measured ? LENGTH : 0, frame.measured ? now : 0);
    }
    assert_in_range(send_bursts(200, 1, 4000, 8000), 0, 4);
}

/* Every other frame of a burst says nothing of its way, and took ten times as long: the others cost
 * no more for that. */
static void ways__some_of_a_burst_say_nothing(void **state)
{
    int n = 0;

    (void)state;
    for (int i = 0; i < 500; i++) {
        struct br_ways_frame frame[8];

        for (int k = 0; k < 8; k++)
            frame[k] = br_ways_post(&ways, LENGTH);
        n += frame[0].way == BR_WAY_DIRECT;
        for (int k = 0; k < 8; k++) {
            bool known = frame[k].way == BR_WAY_DIRECT || k % 2;

            frame[k].worked = frame[k].way == BR_WAY_DIRECT ? 8000 : known ? 4000 : 40000;
            now += frame[k].worked;
            br_ways_returned(&ways, &frame[k], known ? LENGTH : 0, now);
        }
    }
    assert_in_range(n, 1, 40);
}

/* Frames that say nothing (nobody wanted them), and lengths of all classes beside each other. */
static void ways__nothing_known(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 1000; i++) {
        struct br_ways_frame a = br_ways_post(&ways, BR_WAYS_LEAST << i % 12),
                             b = br_ways_post(&ways, BR_WAYS_LEAST << i % 7);

        a.posted = b.posted = ++now;
        br_ways_returned(&ways, &a, 0, now);
        br_ways_returned(&ways, &b, 0, now);
    }
    assert_int_equal(ways.under_way, 0);
    for (int i = 0; i < BR_WAYS_CLASSES; i++)
        for (int way = 0; way < BR_WAYS; way++)
            assert_true(ways.classes[i].cost[way] <= 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(ways__take_the_one_that_costs_less, setup),
        cmocka_unit_test_setup(ways__are_three, setup),
        cmocka_unit_test_setup(ways__may_be_closed, setup),
        cmocka_unit_test_setup(ways__follow_the_machine, setup),
        cmocka_unit_test_setup(ways__one_long_burst, setup),
        cmocka_unit_test_setup(ways__who_is_late_costs_nothing, setup),
        cmocka_unit_test_setup(ways__some_of_a_burst_say_nothing, setup),
        cmocka_unit_test_setup(ways__nothing_known, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
