/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The library's threads, and the process around them.
 *
 * Signals are for the program's threads: a handler of the program that ran on a thread of braid's
 * might run under a lock of braid's, and would wait for itself if it called braid. All threads of
 * the library are therefore started here.
 */
#ifndef BR_BASE_THREAD_H
#define BR_BASE_THREAD_H

#include <pthread.h>

/* pthread_create() with default attributes, but all signals are blocked in the new thread; the
 * calling thread's signal mask is as before when it returns. The caller joins or detaches *thread.
 * Returns 0 or a positive error number, as pthread_create() does. From any thread. */
int br_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

#endif
