/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mutex.h"

#include <pthread.h>
#include <sched.h>

#define THREADS 4
#define TURNS   20000

static struct br_mutex mutex;
static uint64_t turns; /* under the lock */

static void *take_turns(void *arg)
{
    for (int i = 0; i < TURNS; i++) {
        if (i % 2 || !br_mutex_trylock(&mutex))
            br_mutex_lock(&mutex);
        turns++;
        if (i % 64 == 0)
            sched_yield(); /* with it: others find it taken, and sleep */
        br_mutex_unlock(&mutex);
    }
    return arg;
}

static void lock__one_thread_at_a_time(void **state)
{
    pthread_t threads[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_turns, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(turns, THREADS * TURNS);
    assert_int_equal(atomic_load(&mutex.state), BR_MUTEX_FREE);
}

static void trylock__refused_while_taken(void **state)
{
    struct br_mutex own = {0};

    (void)state;
    assert_true(br_mutex_trylock(&own));
    assert_false(br_mutex_trylock(&own));
    br_mutex_unlock(&own);
    assert_true(br_mutex_trylock(&own));
    br_mutex_unlock(&own);
}

static void *lock_and_leave(void *arg)
{
    struct br_mutex *own = arg;

    br_mutex_lock(own);
    br_mutex_unlock(own);
    return NULL;
}

static void unlock__wakes_who_sleeps(void **state)
{
    struct br_mutex own = {0};
    pthread_t thread;

    (void)state;
    br_mutex_lock(&own);
    assert_int_equal(pthread_create(&thread, NULL, lock_and_leave, &own), 0);
    while (atomic_load(&own.state) != BR_MUTEX_WANTED)
        sched_yield();
    br_mutex_unlock(&own);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&own.state), BR_MUTEX_FREE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lock__one_thread_at_a_time),
        cmocka_unit_test(trylock__refused_while_taken),
        cmocka_unit_test(unlock__wakes_who_sleeps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
