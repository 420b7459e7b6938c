/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a program does to the threads that call the library: fork() and pthread_cancel().
 *
 * 1. fork() copies only the calling thread: the child has the objects of the library, but none of
 *    its threads, and shares sockets and segments with its parent. What was made before the fork is
 *    recognised by the number of forks at that time.
 * 2. Rejected: getpid() in each call, which is a system call since glibc 2.25, and a page with
 *    MADV_WIPEONFORK, which would also notice a fork by syscall(SYS_fork) but costs a cache line of
 *    its own on the data path.
 * 3. A lock that another thread holds at the fork stays locked in the child for ever. So what the
 *    whole process shares has a lock that fork() takes before it copies the process and releases on
 *    both sides.
 * 4. Nearly everything that a public function waits in is a cancellation point, often with a lock
 *    held. A handler that unwinds would have to end an operation that belongs to the engine, so
 *    cancellation waits for the end of the call.
 * 5. To disable and restore costs two atomic instructions, as much as a small access to shared
 *    memory. What such a call does while nothing is in its way holds no cancellation point (locks
 *    and sched_yield() are none), so it disables cancellation only where it goes on to something
 *    that is one. That leaves threads whose cancellation is asynchronous, and signal handlers that
 *    come to a cancellation point of their own (doc/context.md).
 */
#ifndef BR_BASE_PROCESS_H
#define BR_BASE_PROCESS_H

#include <pthread.h>

/* Forks between the process that called br_process_watch() first and this one. Read only. */
extern unsigned br_process_forks;

/* Counts forks from now on. Returns 0 or -ENOMEM with a message. From any thread; calls after the
 * first do nothing. */
int br_process_watch(void);

/* The lock of lists of the whole process (note 3). For short sections that take no other lock, as
 * fork() waits for them; after br_process_watch(). From any thread. */
void br_process_lock(void);
void br_process_unlock(void);

static inline int br_cancellation_disable(void)
{
    int before;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline void br_cancellation_restore(const int *before)
{
    pthread_setcancelstate(*before, NULL);
}

/* A declaration: pthread_cancel() of this thread takes effect only after the block around has been
 * left. For every public function that takes a lock, but for the short ways of note 5. */
#define BR_DISABLE_CANCELLATION                                                                    \
    __attribute__((cleanup(br_cancellation_restore), unused)) const int br_cancellation_before =   \
        br_cancellation_disable()

#endif
