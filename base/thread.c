/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/thread.h"

#include <signal.h>

int br_thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
    sigset_t all, before;
    int err;

    sigfillset(&all);
    err = pthread_sigmask(SIG_SETMASK, &all, &before); /* a new thread inherits the mask of its creator */
    if (err)
        return err;
    err = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err;
}
