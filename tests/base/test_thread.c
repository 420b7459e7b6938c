/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <string.h>

#include "base/thread.h"

static void *read_mask(void *mask)
{
    pthread_sigmask(SIG_SETMASK, NULL, mask);
    return mask;
}

static void thread_start__blocks_all_signals_there_and_none_here(void **state)
{
    sigset_t wanted, before, inside, after;
    pthread_t thread;
    void *result;

    (void)state;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGUSR2);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &wanted, &before), 0);
    assert_int_equal(br_thread_start(&thread, read_mask, &inside), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    pthread_sigmask(SIG_SETMASK, &before, &after);
    assert_ptr_equal(result, &inside);
    for (int number = 1; number <= SIGRTMAX; number++) {
        if (number == SIGKILL || number == SIGSTOP || (number > SIGSYS && number < SIGRTMIN))
            continue; /* cannot be blocked, or the C library's own */
        assert_true(sigismember(&inside, number));
        assert_int_equal(sigismember(&after, number), number == SIGUSR2);
    }
}

static struct br_thread_block block = {.bytes = 100};

static void *ask(void *seen)
{
    unsigned char *mine = br_thread_block(&block);

    for (size_t i = 0; i < 100; i++)
        assert_int_equal(mine[i], 0);
    memset(mine, 7, 100);
    assert_ptr_equal(br_thread_block(&block), mine);
    *(void **)seen = mine;
    return NULL;
}

static void thread_block__is_the_threads_own_and_zeroed(void **state)
{
    void *mine, *others[2];
    pthread_t threads[2];

    (void)state;
    ask(&mine);
    for (int i = 0; i < 2; i++)
        assert_int_equal(br_thread_start(&threads[i], ask, &others[i]), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_ptr_not_equal(others[i], mine);
    }
    assert_int_equal(((unsigned char *)br_thread_block(&block))[99], 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thread_start__blocks_all_signals_there_and_none_here),
        cmocka_unit_test(thread_block__is_the_threads_own_and_zeroed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
