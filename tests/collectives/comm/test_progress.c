/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/comm/progress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/time_slice.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/comm/progress_lock.h"
#include "tests/collectives/comm/single_rank.h"

/* Returns the calling thread's time slice in ns; 0: not known. */
static uint64_t slice(void)
{
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } a = {0};

    return syscall(SYS_sched_getattr, 0, &a, sizeof a, 0) || a.policy != SCHED_OTHER ? 0
                                                                                     : a.runtime;
}

/* Returns the slice from before that; or skips where slices cannot be chosen. */
static uint64_t shorten(void)
{
    uint64_t before = slice();

    br_time_slice_set(true);
    if (slice() == before)
        skip();
    return before;
}

static bool is_contended(void)
{
    struct br_context *context = comm->context;
    bool contended;

    br_progress_lock(context);
    contended = context->settings.contention.contended;
    br_progress_unlock(context);
    return contended;
}

/* The last wait was beside other programs, and the program computes ever since. */
static void slices__given_back_to_threads_that_do_not_wait(void **state)
{
    uint64_t before = shorten(), start = br_clock_now();
    struct br_context *context = comm->context;

    (void)state;
    br_progress_lock(context);
    context->settings.contention.contended = true;
    br_progress_unlock(context);
    while ((is_contended() || slice() != before) && br_clock_now() - start < 60 * BR_SEC)
        usleep(1000);
    assert_int_equal(slice(), before);
    assert_false(is_contended());
}

static void slices__given_back_at_the_end(void **state)
{
    uint64_t before = shorten();

    (void)state;
    assert_int_equal(braid_finalize(comm), 0);
    comm = NULL;
    assert_int_equal(slice(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices__given_back_to_threads_that_do_not_wait),
        cmocka_unit_test(slices__given_back_at_the_end),
    };

    return cmocka_run_group_tests(tests, join, leave);
}
