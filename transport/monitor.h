/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The monitor: says when the pages behind addresses change, so that nobody goes on using what was
 * pinned there before.
 *
 * 1. By userfaultfd(2): the kernel reports munmap, mremap, MADV_DONTNEED, MADV_FREE and MADV_REMOVE
 *    of armed ranges, by whomever (the allocator's own included), with EVENT_UNMAP, EVENT_REMAP and
 *    EVENT_REMOVE. Ranges are armed for write protection and nothing is ever protected: then there
 *    are events but no page faults to serve (5.7 for anonymous memory, 5.19 for shared; on x86-64
 *    and arm64). With UFFD_USER_MODE_ONLY that needs no privilege. Rejected: arming for missing
 *    pages, as others do (every first touch waits for our thread); overwriting munmap & co. in libc
 *    or its callers (misses the calls that libc makes itself, and two libraries that do it fight);
 *    a kernel module.
 * 2. Who changes an armed range sleeps in the kernel until the event has been read. So it is read
 *    by a thread that never waits for anything but events and `lock`. Besides, whoever needs to
 *    know reads what is there (br_monitor_is_current).
 * 3. Under `lock` nobody may allocate, free, map, unmap or call foreign code: any of these can wait
 *    for the monitor (free() gives memory back), or for a thread that does (the allocator's lock).
 *    Callbacks follow the same rule: they mark.
 * 4. The kernel changes the range first, then lets others map there, then queues the event (UNMAP,
 *    REMAP): for a moment an unauthenticated peer can own the address and nothing is to be read.
 *    But it counts changes under way before it lets go of the address space, and an ioctl that
 *    could fill pages answers EAGAIN while there are any: that is br_monitor_is_current(), one
 *    system call that does nothing. What is found under `lock` after it is true for every range
 *    that the caller owned before. (Before 5.16 the kernel keeps a flag, not a count: two changes
 *    at the same time can hide each other.)
 * 5. REMOVE is queued before the pages go. Who hands memory to braid while another thread of his
 *    discards it loses it anyhow; but what is registered in that very moment stays registered.
 *    Nothing notices that; it is the program's race.
 * 6. What no event tells: a file cut or punched (ftruncate, fallocate) under a shared mapping.
 *    Files on disk cannot be armed at all.
 * 7. Ranges stay armed until they are unmapped or the last watch closes: another watch may rely on
 *    it. An event nobody cares for costs one wake-up.
 * 8. The thread closes the descriptor itself when it ends; between its end and a later close, a
 *    munmap would wait for ever. A child of fork() closes its copy at once: while that were open,
 *    the parent's changes would wait after our close. In the child nothing is armed and nothing
 *    settled: it has no cache.
 *
 * One a process, shared by all watches; any thread.
 */
#ifndef BR_TRANSPORT_MONITOR_H
#define BR_TRANSPORT_MONITOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

/* Belongs to the caller; alive from open to close. */
struct br_watch {
    struct br_list node;
    /* The pages of [start, end) have changed or are about to. On any thread, under the lock (note
     * 3). */
    void (*invalidate)(struct br_watch *watch, uintptr_t start, uintptr_t end);
};

/* The first one starts the thread. -ENOSYS, -EPERM, ... with a message that says what the kernel
 * lacks or forbids. */
int br_monitor_open(struct br_watch *watch);
/* No callback after it. May wait for the thread. */
void br_monitor_close(struct br_watch *watch);

void br_monitor_lock(void);
void br_monitor_unlock(void);
/* Under the lock. true: every change of armed memory that has come through is known to the watches.
 * false: one is under way; let go of the lock and ask again, or do without. Reads events itself;
 * does not wait. */
bool br_monitor_is_current(void);

/* From now on changes of [start, end) are told; page aligned, mapped. Not under the lock. -errno
 * with a message: it cannot be watched (files, memory that another userfaultfd serves). */
int br_monitor_arm(uintptr_t start, uintptr_t end);

#endif
