/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "cluster.h"

static const struct br_sim_config network = {.seed = 1};
static const struct br_worker_config sleeper = {.eager_bytes = 4096,
                                                .slice_bytes = 64 << 10,
                                                .peer_timeout = 4 * BR_SEC,
                                                .starvation = 100 * BR_MS,
                                                .connect_timeout = BR_SEC,
                                                .sleep_max = 250 * BR_MS,
                                                .max_slots = 256,
                                                .max_transfers = 4096,
                                                .check = 77};

static void look(struct cluster *c, uint64_t after)
{
    br_sim_advance_to(c->sim, br_sim_now(c->sim) + after);
    br_worker_poll(c->workers[0], br_sim_host_now(c->sim, 0));
    br_worker_pump(c->workers[0], br_sim_host_now(c->sim, 0));
}

/* A thread that waits may sleep for less than the one that slept before it. */
static void timers__a_shorter_sleep_beside_a_longer_one(void **state)
{
    struct br_worker *w;
    struct cluster c;
    uint64_t long_one;

    (void)state;
    cluster_create(&c, 2, 1, &network, &sleeper);
    w = c.workers[0];
    long_one = br_worker_next_timer(w);
    w->peers[1].rails[0].unannounced_since = w->now;
    assert_true(br_worker_next_timer(w) < long_one);
    w->peers[1].rails[0].unannounced_since = 0;
    look(&c, 10 * BR_MS);
    w->peers[1].rails[0].last_rx = w->now;
    look(&c, 200 * BR_MS);
    assert_true(w->now - w->peers[1].rails[0].last_rx > 190 * BR_MS);
    cluster_destroy(&c);
}

/* A timer is due in a second, but who sleeps wakes up after 250 ms: what is beyond it was stopped
 * for. */
static void timers__stopped_in_a_sleep(void **state)
{
    struct br_worker *w;
    struct cluster c;

    (void)state;
    cluster_create(&c, 2, 1, &network, &sleeper);
    w = c.workers[0];
    look(&c, BR_MS);
    w->peers[1].rails[0].last_rx = w->now;
    assert_true(br_worker_next_timer(w) <= w->now + 250 * BR_MS);
    look(&c, 900 * BR_MS);
    assert_true(w->now - w->peers[1].rails[0].last_rx < 300 * BR_MS);
    cluster_destroy(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timers__a_shorter_sleep_beside_a_longer_one),
        cmocka_unit_test(timers__stopped_in_a_sleep),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
