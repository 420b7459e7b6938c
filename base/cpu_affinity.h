/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A core for each of the ranks that share a machine without cores to spare.
 *
 * Ranks that wait by yielding look alike to the kernel, which was seen to leave 4 of them on one
 * core while the other was idle: nobody has run for long enough to be moved. So a rank that waits
 * moves itself to its core, and has its affinity back at once: it is bound to nothing, threads that
 * it starts inherit nothing, and the kernel may move it when it sees reason to. Rejected: binding,
 * which the program's own threads would inherit.
 */
#ifndef BR_BASE_CPU_AFFINITY_H
#define BR_BASE_CPU_AFFINITY_H

#include <stdbool.h>
#include <stdint.h>

struct br_cpu_affinity {
    int cpu;        /* -1: none, the kernel decides */
    uint64_t taken; /* when it was taken last, in ns; under the owner's lock */
};

/* The seat of rank `index` of `n` on this machine: neighbours sit together. None when there are
 * more cores than ranks, or this process may not run on all of the machine's: then somebody has
 * decided already. */
void br_cpu_affinity_choose(struct br_cpu_affinity *seat, uint32_t index, uint32_t n);

/* Moves the calling thread to the seat if it runs elsewhere, but not more often than every few
 * milliseconds and not if its affinity leaves out a core. Does not block; some 10 us when it moves,
 * else 0.03 us. true: it has moved. */
bool br_cpu_affinity_take(struct br_cpu_affinity *seat, uint64_t now);

#endif
