/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/numa.h"

#include "base/error.h"
#include "base/log.h"

#include <errno.h>
#include <numa.h>
#include <numaif.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MASK_BITS (8 * sizeof(unsigned long))

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

/* Preferred, not bound: memory on the wrong node is slow, an allocation that fails is worse. */
static void prefer_node(void *memory, size_t bytes, int node)
{
    unsigned long mask[1024 / MASK_BITS] = {0};

    if (node >= 1024 || numa_available() < 0)
        return;
    mask[(size_t)node / MASK_BITS] = 1ul << ((size_t)node % MASK_BITS);
    if (mbind(memory, bytes, MPOL_PREFERRED, mask, 1024, 0) < 0)
        br_log_debug("memory of %zu bytes is not placed on NUMA node %d: %s", bytes, node,
                     strerror(errno));
}

void *br_numa_alloc(size_t bytes, int node)
{
    void *memory =
        mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return NULL;
    if (node >= 0)
        prefer_node(memory, bytes, node);
    return memory;
}

void br_numa_free(void *memory, size_t bytes)
{
    if (memory)
        munmap(memory, bytes ? bytes : 1);
}
