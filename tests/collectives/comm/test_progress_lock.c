/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/comm/progress_lock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <sched.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(let_in__ends_when_they_never_come),
        cmocka_unit_test(let_in__only_those_that_wait_already),
        cmocka_unit_test(let_in__nobody_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
