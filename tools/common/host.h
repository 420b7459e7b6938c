/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tools ask of the machine. Callable from any thread. */
#ifndef BR_TOOLS_COMMON_HOST_H
#define BR_TOOLS_COMMON_HOST_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of memory that can still be had without swapping; 0: unknown. */
uint64_t br_host_memory_available(void);

/*
 * The path of a file that comes with braid, such as "models/vgg19.csv": beside the installed
 * command, or in the source tree it was built in. 0; -ENOENT with a message that list where it was
 * looked for.
 */
int br_host_data_file(const char *name, char *path, size_t bytes);

#endif
