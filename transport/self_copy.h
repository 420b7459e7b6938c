/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device copies memory by a DATA frame over a link to itself, as it would to a peer: so what it
 * reads and what it writes both cross the way between NIC and memory. It is a device of its own,
 * opened for the copy, so that no lock of a worker is needed and `braid info` can ask.
 */
#ifndef BR_TRANSPORT_SELF_COPY_H
#define BR_TRANSPORT_SELF_COPY_H

#include "transport/transport.h"

/*
 * Copies bytes [from, from + bytes) of a region to offset `to`.
 *
 * config: of the device; only name, level and gid count.
 * region: without keys before and after the call; region->gpu->no_dmabuf says how it was
 * registered. bytes: at most caps.max_frame of the device.
 *
 * Returns 0 when the device says that the bytes have arrived, or a negative errno with a message.
 * Blocks for some milliseconds, or for up to ten seconds when the device does not answer. Any
 * thread.
 */
int br_self_copy(const struct br_transport_ops *ops, const struct br_device_config *config,
                 struct br_region *region, size_t from, size_t to, uint32_t bytes);

#endif
