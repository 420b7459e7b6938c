/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/process_read.h"

#include <sys/uio.h>

bool br_process_read(pid_t process, uint64_t address, void *to, size_t bytes,
                     uint64_t token_address, uint64_t token)
{
    uint64_t found = 0;
    struct iovec into[2] = {{to, bytes}, {&found, sizeof found}},
                 from[2] = {{(void *)(uintptr_t)address, bytes},
                            {(void *)(uintptr_t)token_address, sizeof found}};

    return process_vm_readv(process, into, 2, from, 2, 0) == (ssize_t)(bytes + sizeof found) &&
           found == token;
}
