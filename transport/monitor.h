/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The monitor says when the pages behind addresses change (by userfaultfd), so that nobody goes on
 * using what was pinned there before. There is one for a process; all watches share it, and any
 * thread may call it. Under its lock nobody may allocate, free, map, unmap or call foreign code,
 * because each of these can wait for the monitor; callbacks only mark.
 *
 * The numbered notes are in doc/design/registration.md.
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
