/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/numa.h"

#include "base/error.h"

#include <errno.h>
#include <numa.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int br_numa_nodes(void)
{
    int nodes;

    if (numa_available() < 0)
        return 1;
    nodes = numa_num_configured_nodes();
    return nodes > 0 ? nodes : 1;
}

int br_numa_node_of_interface(const char *name)
{
    char path[128];
    FILE *file;
    int node = -1;

    if (!*name || strchr(name, '/') || name[0] == '.')
        return -1;
    snprintf(path, sizeof path, "/sys/class/net/%.32s/device/numa_node", name);
    file = fopen(path, "re");
    if (!file)
        return -1; /* a virtual interface, or none of this name */
    if (fscanf(file, "%d", &node) != 1 || node < 0)
        node = -1;
    fclose(file);
    return node;
}

int br_numa_pin(int cpu)
{
    cpu_set_t set;
    int err;

    if (cpu < 0 || cpu >= CPU_SETSIZE)
        return br_error(EINVAL, "CPU %d is outside 0..%d", cpu, CPU_SETSIZE - 1);
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    err = pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    if (err)
        return br_error(EINVAL, "cannot pin to CPU %d: %s; this process may use %d CPUs", cpu,
                        strerror(err), br_numa_cpus());
    return 0;
}

int br_numa_cpus(void)
{
    cpu_set_t set;
    long online;

    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return CPU_COUNT(&set);
    online = sysconf(_SC_NPROCESSORS_ONLN); /* more CPUs than a cpu_set_t counts */
    return online > 0 ? (int)online : 1;
}
