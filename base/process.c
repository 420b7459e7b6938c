/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/process.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "base/error.h"

unsigned br_process_forks;

static pthread_mutex_t lists = PTHREAD_MUTEX_INITIALIZER;

void br_process_lock(void)
{
    pthread_mutex_lock(&lists);
}

void br_process_unlock(void)
{
    pthread_mutex_unlock(&lists);
}

/* Runs in the child's only thread. */
static void count_fork(void)
{
    br_process_forks++;
    br_process_unlock();
}

int br_process_watch(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    /* once true the lock is not taken any more: a fork would leave it locked */
    static atomic_bool watched;
    int err;

    if (watched)
        return 0;
    pthread_mutex_lock(&lock);
    err = watched ? 0 : pthread_atfork(br_process_lock, br_process_unlock, count_fork);
    if (!err)
        watched = true;
    pthread_mutex_unlock(&lock);
    return err ? br_error(err, "no memory to notice fork()") : 0;
}
