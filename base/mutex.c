/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/mutex.h"

#include <assert.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

static_assert(sizeof(_Atomic uint32_t) == sizeof(uint32_t), "the kernel reads 32 bits");

void br_mutex_wait(struct br_mutex *mutex)
{
    /* Who gets it here cannot tell whether others sleep, and leaves it WANTED: its unlock() wakes
     * one more, at worst for nothing. */
    while (atomic_exchange_explicit(&mutex->state, BR_MUTEX_WANTED, memory_order_acquire) !=
           BR_MUTEX_FREE)
        syscall(SYS_futex, &mutex->state, FUTEX_WAIT_PRIVATE, BR_MUTEX_WANTED, NULL, NULL, 0);
}

void br_mutex_wake(struct br_mutex *mutex)
{
    syscall(SYS_futex, &mutex->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
