/* SPDX-License-Identifier: BSD-3-Clause */
/* PCI NICs and who drives them, from sysfs. Blocks briefly. `root`: in front of /sys, for tests;
 * else "". */
#ifndef BR_TRANSPORT_DPDK_PCI_H
#define BR_TRANSPORT_DPDK_PCI_H

#include <stdbool.h>
#include <stddef.h>

struct br_dpdk_nic {
    char address[16];   /* 0000:03:00.0 */
    char driver[32];    /* "": none */
    char interface[16]; /* of the kernel; "": none */
    int numa_node;      /* -1: unknown */
};

/* The NICs of this host, up to max: how many. */
int br_dpdk_nics(const char *root, struct br_dpdk_nic *out, int max);
/* The device of this address; false: there is none. */
bool br_dpdk_nic_read(const char *root, const char *address, struct br_dpdk_nic *out);
/* 0 when DPDK can have it; else -EBUSY, -ENODEV with a message: why not, and the command that mends
 * it. */
int br_dpdk_nic_check(const struct br_dpdk_nic *nic);

#endif
