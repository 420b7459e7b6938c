/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a host can bring to a job that leaves the choice of its back end to braid
 * (BRAID_BACKEND=auto).
 *
 * 1. A device that would fail to open must not be offered: then the job would fail, where TCP
 *    works. So a port has to be usable by everything that `braid info` looks at, and the process
 *    must be allowed to lock memory.
 * 2. Soft-RoCE is slower than TCP, as a processor does a NIC's work. It counts only where somebody
 *    asks for it by its own name (rxe0), which no TCP device has.
 */
#ifndef BR_TRANSPORT_VERBS_CAPABILITIES_H
#define BR_TRANSPORT_VERBS_CAPABILITIES_H

#include "transport/transport.h"
#include "transport/verbs/probe.h"

/* Travels between ranks as it is. */
struct br_verbs_capabilities {
    uint8_t usable;
    uint8_t insists;    /* the user has named the back end: nothing below is known, or matters */
    uint8_t infiniband; /* the link layer of all its ports; else Ethernet */
    /* Ethernet: a bit, 1 << enum br_gid_family, for each of which all ports have a GID */
    uint8_t families;
    char why_not[156]; /* "": usable */
};

/* names[0..n): what the user or an inventory names, "" for none on this level; n == 0: nothing
 * was named. gids[i]: as in br_device_config. Blocks in the file system and the kernel; for any
 * thread. */
void br_verbs_capabilities(const char (*names)[BR_DEVICE_NAME], const uint32_t *gids, int n,
                           struct br_verbs_capabilities *out);

/* The same of a host that has been read; does not block. */
void br_verbs_capabilities_of(const struct br_verbs_host *host, const char (*names)[BR_DEVICE_NAME],
                              const uint32_t *gids, int n, struct br_verbs_capabilities *out);

#endif
