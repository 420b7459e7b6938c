/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A core for each rank, on a machine whose cores the ranks fill.
 *
 * Ranks that wait by yielding look alike to the kernel. It was seen to leave four of them on one
 * core while the other core was idle, because none of them ran long enough to be moved. So a rank
 * that waits moves itself to its core and then restores its affinity: it is bound to nothing,
 * threads that it starts inherit nothing, and the kernel may move it again. Rejected: binding the
 * thread, which the program's own threads would inherit.
 */
#ifndef BR_BASE_CPU_AFFINITY_H
#define BR_BASE_CPU_AFFINITY_H

#include <stdbool.h>
#include <stdint.h>

struct br_cpu_affinity {
    int cpu;             /* -1: none, the kernel decides */
    uint32_t first, end; /* ranks [first, end) have it, this one too; 0, 0 without one */
    uint64_t taken;      /* when a thread last moved to it, in ns */
    uint64_t pause;      /* ns before the next move */
};

/*
 * Chooses the core of rank `index` out of `n` on this machine; neighbouring ranks get the same or
 * neighbouring cores. Chooses none when the machine has more cores than ranks, or when this process
 * may not run on all of them, because then somebody has decided already.
 */
void br_cpu_affinity_choose(struct br_cpu_affinity *affinity, uint32_t index, uint32_t n);

/*
 * Moves the calling thread to the chosen core if it runs elsewhere, but not if the thread's
 * affinity leaves out a core, and with pauses: 1 ms after the first move, while the kernel spreads
 * the ranks of a new job, growing to 10 ms, as later it may have moved the thread for a reason.
 * Returns whether it moved. now: of br_clock_now(). Does not block: some 10 us when it moves, else
 * 0.03 us. One thread at a time for one structure (in a job: under the progress lock).
 */
bool br_cpu_affinity_take(struct br_cpu_affinity *affinity, uint64_t now);

/* Does the calling thread run on another core than the chosen one? Some ns. */
bool br_cpu_affinity_is_elsewhere(const struct br_cpu_affinity *affinity);

#endif
