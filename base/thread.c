/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/thread.h"

#include <signal.h>

int br_thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
    sigset_t all, before;
    int err;

    sigfillset(&all);
    /* a new thread inherits the mask of its creator */
    err = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (err)
        return err;
    err = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err;
}
