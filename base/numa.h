/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CPUs and NUMA nodes. A machine without NUMA has one node, node 0. From any thread.
 */
#ifndef BR_BASE_NUMA_H
#define BR_BASE_NUMA_H

/* Returns the number of configured nodes, at least 1. */
int br_numa_nodes(void);

/* Returns the node that a network interface is attached to; -1: unknown, as for every virtual
 * interface and every name that is none. Reads a file of /sys. */
int br_numa_node_of_interface(const char *name);

/* Returns the number of CPUs that this process may use, at least 1. */
int br_numa_cpus(void);

/* Binds the calling thread to a CPU. Returns 0, or -EINVAL with a message that names the CPU. */
int br_numa_pin(int cpu);

#endif
