/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thread_start__blocks_all_signals_there_and_none_here),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
