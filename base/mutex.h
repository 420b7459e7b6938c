/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A lock between threads that is free nearly always when it is wanted: one atomic instruction takes
 * it and one gives it back, both inline, which is a third of what pthread_mutex_trylock() and
 * pthread_mutex_unlock() execute. Who finds it taken sleeps in the kernel (a futex). It is not
 * recursive, not fair, and has no owner: any thread may unlock it. No function is a cancellation
 * point. All zero is an unlocked one.
 */
#ifndef BR_BASE_MUTEX_H
#define BR_BASE_MUTEX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum br_mutex_state {
    BR_MUTEX_FREE,
    BR_MUTEX_TAKEN,
    BR_MUTEX_WANTED, /* taken, and a thread may sleep that wants it */
};

struct br_mutex {
    _Atomic uint32_t state; /* enum br_mutex_state */
};

/* The parts that enter the kernel. */
void br_mutex_wait(struct br_mutex *mutex); /* returns with the lock */
void br_mutex_wake(struct br_mutex *mutex);

/* Returns false, without the lock, when another thread, or this one, has it. Does not block. */
static inline bool br_mutex_trylock(struct br_mutex *mutex)
{
    uint32_t state = BR_MUTEX_FREE;

    return atomic_compare_exchange_strong_explicit(&mutex->state, &state, BR_MUTEX_TAKEN,
                                                   memory_order_acquire, memory_order_relaxed);
}

static inline void br_mutex_lock(struct br_mutex *mutex)
{
    if (!br_mutex_trylock(mutex))
        br_mutex_wait(mutex);
}

static inline void br_mutex_unlock(struct br_mutex *mutex)
{
    if (atomic_exchange_explicit(&mutex->state, BR_MUTEX_FREE, memory_order_release) ==
        BR_MUTEX_WANTED)
        br_mutex_wake(mutex);
}

#endif
