/* SPDX-License-Identifier: BSD-3-Clause */
/* How much memory this process may still make resident. */
#ifndef BR_BASE_AVAILABLE_H
#define BR_BASE_AVAILABLE_H

#include <stdint.h>

/*
 * In bytes, without swapping: the least of MemAvailable and what the limit of the process's own
 * memory cgroup (v1 or v2) leaves, what can be reclaimed of its page cache included; UINT64_MAX:
 * not known. *limit names what decided, for an error: "MemAvailable" or the cgroup; static. root:
 * "" or a folder that stands for the root of the file system, for tests. Reads some files; from any
 * thread.
 */
uint64_t br_available_memory(const char *root, const char **limit);

#endif
