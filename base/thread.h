/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads of the library. All of them are started here, with all signals blocked: a handler of the
 * program that ran on a thread of braid's might run under a lock of braid's, and would wait for
 * itself if it called braid.
 */
#ifndef BR_BASE_THREAD_H
#define BR_BASE_THREAD_H

#include <pthread.h>

/* Starts a thread with default attributes in which all signals are blocked; the calling thread's
 * mask does not change. The caller joins or detaches *thread. Returns 0 or a positive errno, as
 * pthread_create() does. From any thread. */
int br_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

#endif
