/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads of another process's memory that know whether it is still the right process. */
#ifndef BR_BASE_PROCESS_READ_H
#define BR_BASE_PROCESS_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Reads `bytes` bytes at `address` of a process, and then its number at token_address, in this
 * order and by one system call. Returns true if all could be read and the number is `token`: then
 * the process is the one that told the token, and had not changed it before the bytes were read. A
 * number of a process may belong to another one meanwhile, or in this process's namespace. false:
 * `to` may have been written all the same. Allocates nothing; from any thread.
 */
bool br_process_read(pid_t process, uint64_t address, void *to, size_t bytes,
                     uint64_t token_address, uint64_t token);

#endif
