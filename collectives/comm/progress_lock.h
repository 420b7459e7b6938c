/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lock of a context, which guards worker, engine and shared segments, and how threads sleep
 * that hold it by turns. doc/design/progress.md has the rules and the reasons.
 */
#ifndef BR_COLLECTIVES_COMM_PROGRESS_LOCK_H
#define BR_COLLECTIVES_COMM_PROGRESS_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "collectives/comm/context.h"

#define BR_SLEEP_MAX (250 * BR_MS) /* ns; timers are looked at this often at least */

/* Takes the lock for a moment: the thread that drives progress yields it. Disarms the devices. */
void br_progress_lock(struct br_context *context);

/* The same, but only when nobody else wants the lock. */
void br_progress_lock_last(struct br_context *context);

/* Under the lock, before devices are polled, which disarms them; the functions that take the lock
 * have done it, but for br_progress_trylock_armed(). What a poll finds no longer wakes the threads
 * that sleep, so br_progress_unlock() has to arm the devices again. */
static inline void br_progress_disarm(struct br_context *context)
{
    context->armed = false;
}

/* For who leaves the devices alone: those that are armed stay so. Returns false, without the lock,
 * when another thread holds it. */
static inline bool br_progress_trylock_armed(struct br_context *context)
{
    return br_mutex_trylock(&context->lock);
}

/* The same for who may poll the devices. */
static inline bool br_progress_trylock(struct br_context *context)
{
    if (!br_progress_trylock_armed(context))
        return false;
    br_progress_disarm(context);
    return true;
}

/* Under the lock, and only while threads sleep: arms the devices for them, or wakes them. */
void br_progress_arm(struct br_context *context);

/* Releases the lock. Whoever sleeps, sleeps in armed devices, whenever the lock is free; who has
 * been woken looks by itself, however long it takes to come to run. */
static inline void br_progress_unlock(struct br_context *context)
{
    if (atomic_load(&context->sleeping_threads) && !context->armed &&
        atomic_load(&context->may_wake))
        br_progress_arm(context);
    br_mutex_unlock(&context->lock);
}

/* Without the lock, which those have had when this returns that waited for it in br_progress_lock()
 * when it was called, and where `last` is true the progress thread as well. Not when another thread
 * keeps the lock, or they do not come to run: this ends after so many yields. */
void br_progress_let_in(const struct br_context *context, bool last);

/* Called under the lock by a thread that drives for long and must go on: threads that want the lock
 * get it in between. nap: how long this thread leaves its core as well, in ns. */
void br_progress_yield(struct br_context *context, uint64_t nap);

/* The same when others want the lock, for a thread that need not go on. Returns false when another
 * thread drives now; then the caller does not hold the lock any more. */
bool br_progress_yield_or_leave(struct br_context *context);

/* Sleeps in the devices' descriptors until `until` or the next timer. Called and returns under the
 * lock, which is free meanwhile, so that a caller can take over. */
void br_progress_sleep(struct br_context *context, uint64_t until);

/* Wakes all threads that sleep in br_progress_sleep(). The progress thread is one of them or, while
 * callers drive, is not there: then it looks when its nap is over. Any thread. */
void br_progress_wake(struct br_context *context);

#endif
