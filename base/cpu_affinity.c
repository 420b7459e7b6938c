/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/cpu_affinity.h"

#include <sched.h>
#include <unistd.h>

#include "base/clock.h"

/* Between two moves, at first and at most. */
#define PAUSE_FIRST (1 * BR_MS)
#define PAUSE_MOST  (10 * BR_MS)

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
    uint64_t cpus, core;

    *affinity = (struct br_cpu_affinity){.cpu = -1};
    if (!may_run_everywhere(&all))
        return;
    cpus = (uint64_t)CPU_COUNT(&all);
    if (cpus < 2 || n < cpus || index >= n)
        return;
    core = index * cpus / n;
    affinity->cpu = cpu_at(&all, (uint32_t)core);
    affinity->first = (uint32_t)((core * n + cpus - 1) / cpus);
    affinity->end = (uint32_t)(((core + 1) * n + cpus - 1) / cpus);
}

bool br_cpu_affinity_is_elsewhere(const struct br_cpu_affinity *affinity)
{
    return affinity->cpu >= 0 && sched_getcpu() != affinity->cpu;
}

bool br_cpu_affinity_take(struct br_cpu_affinity *affinity, uint64_t now)
{
    cpu_set_t all, one;

    if (!br_cpu_affinity_is_elsewhere(affinity) ||
        (affinity->taken && now - affinity->taken < affinity->pause))
        return false;
    affinity->taken = now;
    affinity->pause = affinity->pause ? affinity->pause * 2 : PAUSE_FIRST;
    if (affinity->pause > PAUSE_MOST)
        affinity->pause = PAUSE_MOST;
    CPU_ZERO(&one);
    CPU_SET((size_t)affinity->cpu, &one);
    if (!may_run_everywhere(&all) || sched_setaffinity(0, sizeof one, &one))
        return false;
    sched_setaffinity(0, sizeof all, &all);
    return true;
}
