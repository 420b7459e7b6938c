/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long the scheduler lets a thread run before others have their turn.
 *
 * In Linux a thread may choose its slice from 6.12 on. It does not get more or less of a core by
 * that. But who yields gives up the rest of the slice for good, so with a short one it is back much
 * sooner beside programs that compute; and a thread with a short slice that is woken runs before
 * those with longer ones have used theirs up.
 */
#ifndef BR_BASE_TIME_SLICE_H
#define BR_BASE_TIME_SLICE_H

#include <stdbool.h>

/* Gives the calling thread the shortest slice, 0.1 ms, or the one again that it had before. Does
 * nothing in older kernels, for threads of another policy than SCHED_OTHER, and where it is
 * forbidden. A thread that is started meanwhile inherits the short slice; when it was here itself
 * with true and then with false, it has the default. Costs a system call while threads have short
 * slices, and two or three more when something changes. Any thread. */
void br_time_slice_set(bool is_short);

/* Gives all threads of this process theirs again that have the shortest one by
 * br_time_slice_set(), wherever they are now. Any thread. */
void br_time_slice_restore_all(void);

#endif
