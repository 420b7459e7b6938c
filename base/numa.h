/* SPDX-License-Identifier: BSD-3-Clause */
/* Place of threads and memory (libnuma). On a machine without NUMA all of it is node 0 and
 * succeeds. */
#ifndef BR_BASE_NUMA_H
#define BR_BASE_NUMA_H

#include <stddef.h>

int br_numa_nodes(void); /* >= 1 */
/* node of a network interface by name; -1 unknown */
int br_numa_node_of_interface(const char *name);
int br_numa_pin(int cpu); /* pins the calling thread; -EINVAL with a message */
int br_numa_cpus(void);   /* CPUs that this process may use, >= 1 */
/* Zeroed pages, on the node if node >= 0. NULL: out of memory. */
void *br_numa_alloc(size_t bytes, int node);
void br_numa_free(void *memory, size_t bytes);

#endif
