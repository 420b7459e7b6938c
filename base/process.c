/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/process.h"

#include <stdbool.h>

#include "base/error.h"

unsigned br_process_forks;

/* Runs in the child's only thread. */
static void count_fork(void)
{
    br_process_forks++;
}

int br_process_watch(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool watched; /* under the lock */
    int err;

    pthread_mutex_lock(&lock);
    err = watched ? 0 : pthread_atfork(NULL, NULL, count_fork);
    watched |= !err;
    pthread_mutex_unlock(&lock);
    return err ? br_error(err, "no memory to notice fork()") : 0;
}
