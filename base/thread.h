/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads of the library. All of them are started here, with all signals blocked: a handler of the
 * program that ran on a thread of braid's might run under a lock of braid's, and would wait for
 * itself if it called braid.
 */
#ifndef BR_BASE_THREAD_H
#define BR_BASE_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

/* Starts a thread with default attributes in which all signals are blocked; the calling thread's
 * mask does not change. The caller joins or detaches *thread. Returns 0 or a positive errno, as
 * pthread_create() does. From any thread. */
int br_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

/*
 * A block of memory of its own for each thread that asks, for what is too large to be
 * _Thread_local. All such variables of libbraid are in static TLS, because the fast path reads some
 * of them without a call (tls_model "initial-exec"), and the C library reserves few hundred bytes
 * of it for all libraries that are loaded while a program runs: a larger one is refused ("cannot
 * allocate memory in static TLS block"), in Python behind others that need some, as torch's do.
 */
struct br_thread_block {
    const size_t bytes;    /* of each thread's */
    atomic_uint key_and_1; /* of pthread_key_create(), plus one; 0: none yet */
};

/* Returns the calling thread's block, zeroed when it is new; freed when the thread ends. NULL:
 * there is no memory for it. From any thread. */
void *br_thread_block(struct br_thread_block *block);

#endif
