/* SPDX-License-Identifier: BSD-3-Clause */
/* Which host this is: one boot of one kernel. Abstract sockets belong to a network name space, so
 * two containers of one host share memory only when they share theirs. */
#ifndef BR_TRANSPORT_HOST_H
#define BR_TRANSPORT_HOST_H

#include <stdint.h>

struct br_host {
    uint64_t name_space; /* The number of the network name space. */
    char boot[36];       /* The kernel's random name of this boot; not ended by a zero. */
};

/* Reads which host this process runs on. Returns 0, or -EIO with a message. Blocks on the file
 * system. From any thread. */
int br_host_read(struct br_host *out);

/* Returns a number that two processes have in common exactly when they can share memory; never
 * 0. */
uint64_t br_host_number(const struct br_host *host);

#endif
