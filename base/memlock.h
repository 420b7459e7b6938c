/* SPDX-License-Identifier: BSD-3-Clause */
/* How much memory this process may lock, or pin for a device. */
#ifndef BR_BASE_MEMLOCK_H
#define BR_BASE_MEMLOCK_H

#include <stdint.h>

/* In bytes; UINT64_MAX: there is no limit, or it does not hold for this process (CAP_IPC_LOCK,
 * which root lacks in many containers). root: "" or a folder that stands for the root of the file
 * system, for tests. Any thread. */
uint64_t br_memlock(const char *root);

#endif
