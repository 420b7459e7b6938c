/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a host can bring to a job that leaves the choice of its back end to braid
 * (BRAID_BACKEND=auto).
 *
 * 1. A device that would fail to open must not be offered: then the job would fail, where TCP
 *    works. So a port has to pass everything that `braid info` looks at, and the process must be
 *    allowed to lock memory.
 * 2. Soft-RoCE is slower than TCP, as a processor does the work of a NIC. It counts only where the
 *    user gives its own name (rxe0), which no TCP device has.
 */
#ifndef BR_TRANSPORT_VERBS_CAPABILITIES_H
#define BR_TRANSPORT_VERBS_CAPABILITIES_H

#include "transport/transport.h"
#include "transport/verbs/probe.h"

/* What one host can use. Sent to the other ranks as it is. */
struct br_verbs_capabilities {
    uint8_t usable;     /* 1 when verbs can be used, else 0. */
    uint8_t insists;    /* 1 when the user has named the back end: then the rest is not set. */
    uint8_t infiniband; /* 1 when all its ports are InfiniBand, 0 when all are Ethernet. */
    /* Ethernet: bit 1 << enum br_gid_family for each family of which all ports have a GID. */
    uint8_t families;
    char why_not[156]; /* Why verbs cannot be used; empty when it can. */
};

/* Writes what this host can use to *out. names[0..n): the devices that the user or an inventory
 * names, "" for a level without one; n is 0 when none is named. gids[0..n): as
 * br_device_config.gid. A failure is in out->why_not. Blocks in the file system and the kernel. May
 * be called from any thread. */
void br_verbs_capabilities(const char (*names)[BR_DEVICE_NAME], const uint32_t *gids, int n,
                           struct br_verbs_capabilities *out);

/* The same for a host that br_verbs_host_read() has read. Does not block. */
void br_verbs_capabilities_of(const struct br_verbs_host *host, const char (*names)[BR_DEVICE_NAME],
                              const uint32_t *gids, int n, struct br_verbs_capabilities *out);

#endif
