/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/cpu_affinity.h"

#include <sched.h>
#include <unistd.h>

#include "base/clock.h"

#define PERIOD                                                                                     \
    (10 * BR_MS) /* between two moves, as the kernel may have had a reason to move the thread */

/* Reads the calling thread's affinity and returns whether it has all CPUs that are online. */
static bool may_run_everywhere(cpu_set_t *set)
{
    return !sched_getaffinity(0, sizeof *set, set) &&
           CPU_COUNT(set) == sysconf(_SC_NPROCESSORS_ONLN);
}

/* Returns the i-th CPU of a set, which may have gaps. */
static int cpu_at(const cpu_set_t *set, uint32_t i)
{
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET((size_t)cpu, set) && i-- == 0)
            return cpu;
    return -1;
}

void br_cpu_affinity_choose(struct br_cpu_affinity *affinity, uint32_t index, uint32_t n)
{
    cpu_set_t all;
    uint32_t cpus;

    *affinity = (struct br_cpu_affinity){.cpu = -1};
    if (!may_run_everywhere(&all))
        return;
    cpus = (uint32_t)CPU_COUNT(&all);
    if (cpus > 1 && n >= cpus && index < n)
        affinity->cpu = cpu_at(&all, (uint32_t)((uint64_t)index * cpus / n));
}

bool br_cpu_affinity_take(struct br_cpu_affinity *affinity, uint64_t now)
{
    cpu_set_t all, one;

    if (affinity->cpu < 0 || sched_getcpu() == affinity->cpu ||
        (affinity->taken && now - affinity->taken < PERIOD))
        return false;
    affinity->taken = now;
    CPU_ZERO(&one);
    CPU_SET((size_t)affinity->cpu, &one);
    if (!may_run_everywhere(&all) || sched_setaffinity(0, sizeof one, &one))
        return false;
    sched_setaffinity(0, sizeof all, &all);
    return true;
}
