/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Does a device reach the memory of a GPU? A pattern is copied there, the device copies it
 * to another place of that memory (self_copy.h), and what then stands there is copied back and
 * compared.
 *
 * The memory is allocated once for all devices and freed at the end alone: freeing waits for all
 * that the GPU does.
 */
#ifndef BR_TRANSPORT_GPUDIRECT_CHECK_H
#define BR_TRANSPORT_GPUDIRECT_CHECK_H

#include "gpu/copier.h"
#include "transport/transport.h"

struct br_gpudirect_check;

/* Of a GPU that the copier has opened; the copier is borrowed. Errors with a message. Blocks, like
 * all of this; any thread. */
int br_gpudirect_check_create(struct br_copier *copier, int gpu, struct br_gpudirect_check **out);
void br_gpudirect_check_destroy(struct br_gpudirect_check *check); /* NULL: nothing */

/* Returns 0 when the device reaches the memory, which it knows by its dma-buf, 1 by the peer-memory
 * module, or a negative errno with a message. config: only name, level and gid count. */
int br_gpudirect_check_run(struct br_gpudirect_check *check, const struct br_transport_ops *ops,
                           const struct br_device_config *config);

#endif
