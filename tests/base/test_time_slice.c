/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/time_slice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static struct attributes attributes(void)
{
    struct attributes a = {0};

    assert_int_equal(syscall(SYS_sched_getattr, 0, &a, sizeof a, 0), 0);
    return a;
}

static void choose(uint64_t slice)
{
    struct attributes a = attributes();

    a.size = sizeof a;
    a.runtime = slice;
    assert_int_equal(syscall(SYS_sched_setattr, 0, &a, 0), 0);
}

/* Older kernels have one slice for all threads. */
static void need_slices(void)
{
    if (attributes().policy != SCHED_OTHER || !attributes().runtime)
        skip();
}

static void time_slice_set__short_and_back(void **state)
{
    struct attributes before = attributes();

    (void)state;
    need_slices();
    for (int i = 0; i < 2; i++) {
        br_time_slice_set(true);
        br_time_slice_set(true);
        assert_int_equal(attributes().runtime, 100 * BR_US);
        assert_int_equal(attributes().nice, before.nice);
        br_time_slice_set(false);
        assert_int_equal(attributes().runtime, before.runtime);
    }
}

static void time_slice_set__keeps_what_the_program_has_chosen(void **state)
{
    (void)state;
    need_slices();
    choose(10 * BR_MS);
    br_time_slice_set(true);
    assert_int_equal(attributes().runtime, 100 * BR_US);
    br_time_slice_set(false);
    assert_int_equal(attributes().runtime, 10 * BR_MS);
    br_time_slice_set(true);
    choose(5 * BR_MS);
    br_time_slice_set(false);
    assert_int_equal(attributes().runtime, 5 * BR_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_slice_set__short_and_back),
        cmocka_unit_test(time_slice_set__keeps_what_the_program_has_chosen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
