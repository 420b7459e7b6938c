/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/time_slice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <sys/wait.h>
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

/* Older kernels have one slice for all threads, and a sandbox may forbid the calls. */
static void need_slices(void)
{
    struct attributes a = {0};

    if (syscall(SYS_sched_getattr, 0, &a, sizeof a, 0) || a.policy != SCHED_OTHER || !a.runtime)
        skip();
    a.size = sizeof a;
    if (syscall(SYS_sched_setattr, 0, &a, 0))
        skip();
}

static void time_slice_set__short_and_back(void **state)
{
    struct attributes before;

    (void)state;
    need_slices();
    before = attributes();
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
    choose(0);
}

struct other {
    sem_t is_short, go_on;
    uint64_t slice; /* when it went on */
};

static void *be_short(void *argument)
{
    struct other *other = argument;

    br_time_slice_set(true);
    sem_post(&other->is_short);
    while (sem_wait(&other->go_on) && errno == EINTR)
        ;
    other->slice = attributes().runtime;
    br_time_slice_set(true); /* and ends so */
    return NULL;
}

/* Threads that compute, and one that has ended. */
static void restore_all__wherever_they_are(void **state)
{
    struct other other = {0};
    pthread_t thread;
    uint64_t before;

    (void)state;
    need_slices();
    before = attributes().runtime;
    sem_init(&other.is_short, 0, 0);
    sem_init(&other.go_on, 0, 0);
    assert_int_equal(pthread_create(&thread, NULL, be_short, &other), 0);
    while (sem_wait(&other.is_short) && errno == EINTR)
        ;
    br_time_slice_set(true);
    br_time_slice_restore_all();
    assert_int_equal(attributes().runtime, before);
    sem_post(&other.go_on);
    pthread_join(thread, NULL);
    assert_int_equal(other.slice, before);
    br_time_slice_set(true);
    assert_int_equal(attributes().runtime, 100 * BR_US);
    br_time_slice_restore_all();
    assert_int_equal(attributes().runtime, before);
    sem_destroy(&other.is_short);
    sem_destroy(&other.go_on);
}

/* Returns the slice after the calling thread has been here, which has inherited the short one. */
static uint64_t slice_of_heir(void)
{
    if (attributes().runtime != 100 * BR_US)
        return 0;
    br_time_slice_set(true);
    br_time_slice_set(false);
    return attributes().runtime;
}

static void *inherit(void *argument)
{
    *(uint64_t *)argument = slice_of_heir();
    return NULL;
}

static void time_slice_set__inherited_by_threads_and_children(void **state)
{
    uint64_t before, slice = 0;
    int status = 1;
    pthread_t thread;
    pid_t child;

    (void)state;
    need_slices();
    before = attributes().runtime;
    br_time_slice_set(true);
    assert_int_equal(pthread_create(&thread, NULL, inherit, &slice), 0);
    pthread_join(thread, NULL);
    assert_int_equal(slice, before);
    child = fork();
    if (!child)
        _exit(slice_of_heir() != before);
    assert_true(child > 0);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    assert_int_equal(status, 0);
    br_time_slice_set(false);
    assert_int_equal(attributes().runtime, before);
}

/* First, as nothing has been shortened yet: that is the program's choice. */
static void time_slice_set__the_shortest_may_be_chosen(void **state)
{
    uint64_t before;

    (void)state;
    need_slices();
    before = attributes().runtime;
    choose(100 * BR_US);
    br_time_slice_set(true);
    br_time_slice_set(false);
    br_time_slice_restore_all();
    assert_int_equal(attributes().runtime, 100 * BR_US);
    choose(0);
    assert_int_equal(attributes().runtime, before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_slice_set__the_shortest_may_be_chosen),
        cmocka_unit_test(time_slice_set__short_and_back),
        cmocka_unit_test(time_slice_set__keeps_what_the_program_has_chosen),
        cmocka_unit_test(restore_all__wherever_they_are),
        cmocka_unit_test(time_slice_set__inherited_by_threads_and_children),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
