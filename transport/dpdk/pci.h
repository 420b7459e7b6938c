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

/* Lists the NICs of this host. Returns how many, at most max. */
int br_dpdk_nics(const char *root, struct br_dpdk_nic *out, int max);
/* Reads the device with this address. Returns false when there is none. */
bool br_dpdk_nic_read(const char *root, const char *address, struct br_dpdk_nic *out);
/* Returns 0 when DPDK can use the NIC, otherwise -EBUSY or -ENODEV with a message that says why
 * not, and the command to run. */
int br_dpdk_nic_check(const struct br_dpdk_nic *nic);

#endif
