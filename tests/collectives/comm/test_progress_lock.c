/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/comm/progress_lock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct br_context context; /* has no threads: sched_yield() is what they do */
static int yields, turn_every;

/* In place of the C library's. */
int sched_yield(void)
{
    if (turn_every && ++yields % turn_every == 0)
        atomic_fetch_add(&context.lock_turns, 1);
    return 0;
}

static void waiters(int n, bool last, int every)
{
    atomic_store(&context.lock_waiters, n);
    atomic_store(&context.last_waits, last);
    turn_every = every;
    yields = 0;
}

/* As where the caller's real-time policy keeps them from the core. */
static void let_in__ends_when_they_never_come(void **state)
{
    (void)state;
    waiters(1, true, 0);
    br_progress_let_in(&context, true);
    assert_int_equal(atomic_load(&context.lock_waiters), 1);
}

/* Threads that poll wait again at once. */
static void let_in__only_those_that_wait_already(void **state)
{
    (void)state;
    waiters(3, false, 2);
    br_progress_let_in(&context, false);
    assert_int_equal(yields, 6);
}

static void let_in__nobody_waits(void **state)
{
    (void)state;
    waiters(0, false, 1);
    br_progress_let_in(&context, true);
    assert_int_equal(yields, 0);
}

/* Leaves the lock while a thread sleeps until `promised` (ns; the last look at the timers was at
 * 0). */
static bool arming_wakes(bool owes_credits, uint64_t promised)
{
    static struct br_worker worker; /* has no devices */
    uint64_t count;
    bool woken;

    worker.owes_credits = owes_credits;
    worker.promised = promised;
    context.worker = &worker;
    context.wake_fd = eventfd(0, EFD_NONBLOCK);
    assert_true(context.wake_fd >= 0);
    atomic_store(&context.may_wake, true);
    br_progress_arm(&context);
    woken = read(context.wake_fd, &count, sizeof count) > 0;
    assert_int_equal(atomic_load(&context.may_wake), !woken);
    close(context.wake_fd);
    return woken;
}

static void arm__wakes_who_would_sleep_past_a_timer(void **state)
{
    (void)state;
    assert_true(arming_wakes(true, 100 * BR_MS));
    assert_false(arming_wakes(true, BR_MS));
    assert_false(arming_wakes(false, 100 * BR_MS));
}

/* Who has been woken looks by itself, so nothing is armed while it does not come to run. */
static void unlock__arms_for_who_sleeps_and_not_for_who_was_woken(void **state)
{
    static struct br_worker worker; /* has no devices */

    (void)state;
    context.worker = &worker;
    context.wake_fd = eventfd(0, EFD_NONBLOCK);
    assert_true(context.wake_fd >= 0);
    atomic_store(&context.sleeping_threads, 1);
    atomic_store(&context.may_wake, true);
    for (int woken = 0; woken < 2; woken++) {
        if (woken)
            br_progress_wake(&context);
        assert_true(br_progress_trylock(&context));
        br_progress_unlock(&context);
        assert_int_equal(context.armed, !woken);
    }
    atomic_store(&context.sleeping_threads, 0);
    close(context.wake_fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(let_in__ends_when_they_never_come),
        cmocka_unit_test(let_in__only_those_that_wait_already),
        cmocka_unit_test(let_in__nobody_waits),
        cmocka_unit_test(arm__wakes_who_would_sleep_past_a_timer),
        cmocka_unit_test(unlock__arms_for_who_sleeps_and_not_for_who_was_woken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
