/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/cpu_affinity.h"

#include <sched.h>
#include <unistd.h>

#include "base/clock.h"

#define PERIOD (10 * BR_MS) /* between two moves: somebody else may want to have the core */

static bool may_run_everywhere(cpu_set_t *set)
{
    return !sched_getaffinity(0, sizeof *set, set) &&
           CPU_COUNT(set) == sysconf(_SC_NPROCESSORS_ONLN);
}

/* The i-th CPU of a set, which may have gaps. */
static int cpu_at(const cpu_set_t *set, uint32_t i)
{
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET((size_t)cpu, set) && i-- == 0)
            return cpu;
    return -1;
}

void br_cpu_affinity_choose(struct br_cpu_affinity *seat, uint32_t index, uint32_t n)
{
    cpu_set_t all;
    uint32_t cpus;

    *seat = (struct br_cpu_affinity){.cpu = -1};
    if (!may_run_everywhere(&all))
        return;
    cpus = (uint32_t)CPU_COUNT(&all);
    if (cpus > 1 && n >= cpus && index < n)
        seat->cpu = cpu_at(&all, (uint32_t)((uint64_t)index * cpus / n));
}

bool br_cpu_affinity_take(struct br_cpu_affinity *seat, uint64_t now)
{
    cpu_set_t all, one;

    if (seat->cpu < 0 || sched_getcpu() == seat->cpu || (seat->taken && now - seat->taken < PERIOD))
        return false;
    seat->taken = now;
    CPU_ZERO(&one);
    CPU_SET((size_t)seat->cpu, &one);
    if (!may_run_everywhere(&all) || sched_setaffinity(0, sizeof one, &one))
        return false;
    sched_setaffinity(0, sizeof all, &all);
    return true;
}
