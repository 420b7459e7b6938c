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

/* The caller's; it stays where it is from open to close. */
struct br_watch {
    struct br_list node;
    /* The pages of [start, end) have changed or are about to. On any thread, under the lock (note
     * 3). */
    void (*invalidate)(struct br_watch *watch, uintptr_t start, uintptr_t end);
};

/* Adds a watch; the first one starts the thread. Returns 0, or -ENOSYS, -EPERM, ... with a message
 * that says what the kernel lacks or forbids. */
int br_monitor_open(struct br_watch *watch);
/* Removes a watch: its callback is not called any more. May wait for the thread. */
void br_monitor_close(struct br_watch *watch);

/* The lock of note 3, under which callbacks run. */
void br_monitor_lock(void);
void br_monitor_unlock(void);
/* Called under the lock. Returns true when the watches know every change of armed memory that has
 * taken effect; false when a change is under way: release the lock and ask again, or do without.
 * Reads events itself and does not wait. */
bool br_monitor_is_current(void);

/* Reports changes of [start, end), which is page aligned and mapped, from now on. Not under the
 * lock. Returns 0, or a negative errno with a message: the memory cannot be watched (files, memory
 * that another userfaultfd serves). */
int br_monitor_arm(uintptr_t start, uintptr_t end);

#endif
