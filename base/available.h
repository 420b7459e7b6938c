/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much memory this process may still use. Both functions read files of /proc and /sys and may
 * be called from any thread. root: the folder that stands for the root of the file system, for
 * tests; "": the real root.
 */
#ifndef BR_BASE_AVAILABLE_H
#define BR_BASE_AVAILABLE_H

#include <stdint.h>

/*
 * Returns the bytes that the process can make resident without swapping: the smaller one of
 * MemAvailable and what the limit of the process's memory cgroup (v1 or v2) leaves, where page
 * cache that can be reclaimed counts as free. UINT64_MAX: unknown. *limit names which of the two
 * decided, for an error message; the string is static.
 */
uint64_t br_available_memory(const char *root, const char **limit);

/* Returns the bytes that the process may lock, or pin for a device. UINT64_MAX: there is no limit,
 * or it does not hold for this process (CAP_IPC_LOCK, which root lacks in many containers). */
uint64_t br_memlock(const char *root);

#endif
