/* SPDX-License-Identifier: BSD-3-Clause */
/* The IPv4 address by which a device is reached, and whether neighbours can reach each other with
 * theirs. */
#ifndef BR_COLLECTIVES_COMM_SUBNET_H
#define BR_COLLECTIVES_COMM_SUBNET_H

#include <stdint.h>

#include "bcube/wiring.h"

struct br_subnet {
    uint32_t address, mask; /* host byte order; address 0: no IPv4, or not known */
};

/* The subnet of a device. device: as br_device_config names it; nic: the interface behind it.
 * Blocks briefly. */
struct br_subnet br_subnet_of(const char *device, const char *nic);

/* Checks that neighbours share a subnet, and no address. of: by host and NIC, BR_WIRING_NICS for
 * each host. wiring: after br_wiring_analyse(). Returns 0, or -ENETUNREACH with a message about the
 * first contradiction, which is the same on every rank. Pure. */
int br_subnet_check(const struct br_wiring *wiring, const struct br_subnet *of);

#endif
