/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all ranks must agree on before they connect; in a BCube, too, which device is on which
 * level, and whether the cables say the same.
 *
 * 1. What must be the same on all ranks is compared before anything is said of the network.
 * 2. In a BCube with real NICs every rank then announces itself on each of them
 *    (bootstrap/discovery.h). All get what all have heard, and judge it alone (bcube/wiring.h): the
 *    same message everywhere, before any data moves.
 * 3. Beacons get lost, and ranks on a busy machine start late. So it goes in rounds, and the first
 *    one without a finding is the last one.
 */
#ifndef BR_COLLECTIVES_COMM_CABLING_CHECK_H
#define BR_COLLECTIVES_COMM_CABLING_CHECK_H

#include <stdint.h>

struct br_devices;
struct br_context;

/*
 * Agrees with all other ranks, and in a BCube gives devices their levels. Collective; the store
 * must be open. Besides the errors of the store: -EPROTO (ranks disagree), -EINVAL, -ENODEV
 * (devices), -ENETUNREACH (a BCube that is wired wrongly: the message says where). Blocks until
 * `until`, ns, at most.
 */
int br_cabling_agree(struct br_context *context, struct br_devices *devices, uint64_t until);

#endif
