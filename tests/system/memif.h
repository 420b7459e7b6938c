/* SPDX-License-Identifier: BSD-3-Clause */
/* DPDK's ports for two ranks without any device: both ends of a memif, in shared memory. */
#ifndef BR_TESTS_SYSTEM_MEMIF_H
#define BR_TESTS_SYSTEM_MEMIF_H

#include <stdbool.h>

/* Sets BRAID_DPDK_PORTS. false: this build has no DPDK. */
bool memif_ports(void);
void memif_remove(void);

#endif
