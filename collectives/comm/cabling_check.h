/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks what all ranks must agree on before they connect; in a BCube also which device is on which
 * level, and whether the cabling agrees with that.
 *
 * 1. What must be the same on all ranks is compared before anything is said of the network.
 * 2. In a BCube with real NICs every rank then announces itself on each of them
 *    (bootstrap/discovery.h). All ranks get what all have heard, and each judges it alone
 *    (bcube/wiring.h): so all report the same error, before any data moves.
 * 3. Announcements get lost, and ranks on a busy machine start late. So the check is repeated in
 *    rounds, and the first round without a finding is the last one.
 */
#ifndef BR_COLLECTIVES_COMM_CABLING_CHECK_H
#define BR_COLLECTIVES_COMM_CABLING_CHECK_H

#include <stdint.h>

struct br_devices;
struct br_context;

/*
 * Agrees with all other ranks, and in a BCube puts devices in the order of their levels.
 * Collective; the store must be open. Blocks until `until` (ns) at most. Returns 0; an error of the
 * store; -EPROTO: ranks disagree; -EINVAL or -ENODEV: devices; -ENETUNREACH: the cabling of a BCube
 * is wrong. Each has a message that says where.
 */
int br_cabling_agree(struct br_context *context, struct br_devices *devices, uint64_t until);

#endif
