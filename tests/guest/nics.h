/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs of real processes whose NICs read and write the memory of a fake GPU themselves: soft-RoCE
 * knows it by ibv_reg_mr(), as where a peer-memory module answers (FAKE_CUDA=peer_memory). When it
 * is registered, the protection that the fake driver's memory has otherwise is put on: a CPU that
 * touches it from then on faults.
 */
#ifndef BR_TESTS_GUEST_NICS_H
#define BR_TESTS_GUEST_NICS_H

#include <stdbool.h>

#include <braid/braid.h>

/* Before each case: the driver with such memory, for the ranks that it starts. */
int nics_setup(void **state);

/* In a rank. Counters of GPUs' memory since *before; 0, or 1 as a failed CHECK(). */
int nics_since(struct braid_comm *comm, const struct braid_stats *before, struct braid_stats *now);

/* Host 0's cable of port 1, "down" or "up": what the shell says. comes_up: the next job wants the
 * port. */
int nics_cable(const char *way);
bool nics_port_comes_up(void);

#endif
