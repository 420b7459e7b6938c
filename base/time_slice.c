/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/time_slice.h"

#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

#define SHORTEST (100 * BR_US) /* that the kernel takes */

/* The first version of struct sched_attr. <linux/sched/types.h>, which has it, cannot be included
 * beside <sched.h>, which does not have it in older C libraries. */
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime; /* the slice in ns; 0 in kernels that have one for all threads */
    uint64_t deadline, period;
};

static bool time_slice_change(uint64_t from, uint64_t to)
{
    struct attributes a = {.size = sizeof a};

    if (syscall(SYS_sched_getattr, 0, &a, sizeof a, 0) || a.policy != SCHED_OTHER ||
        a.runtime != from)
        return false;
    a.size = sizeof a;
    a.runtime = to;
    return !syscall(SYS_sched_setattr, 0, &a, 0);
}

void br_time_slice_set(bool is_short)
{
    static _Thread_local bool asked_short;
    static _Thread_local uint64_t before; /* the slice, in ns, if it has been changed; or 0 */
    struct attributes a = {.size = sizeof a};

    if (is_short == asked_short)
        return;
    asked_short = is_short;
    if (!is_short) {
        if (before)
            time_slice_change(SHORTEST, before); /* unless the program has chosen another one */
        before = 0;
    } else if (!syscall(SYS_sched_getattr, 0, &a, sizeof a, 0) && a.runtime > SHORTEST &&
               time_slice_change(a.runtime, SHORTEST)) {
        before = a.runtime;
    }
}
