/* SPDX-License-Identifier: BSD-3-Clause */
/* For calls of the driver that may wait for all work of a GPU, an operation in a stream included:
 * keeps operations out of the streams meanwhile. */
#ifndef BR_COLLECTIVES_GPU_STREAM_BLOCK_H
#define BR_COLLECTIVES_GPU_STREAM_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct br_context;

/* Returns true when no operation is in a stream; then none is put there until br_streams_unblock().
 * Does not block. */
bool br_streams_block(struct br_context *context);
/* The same, but waits for that for up to `timeout` ns. In the program's thread, not under the lock
 * (gpu.c). */
bool br_streams_wait_and_block(struct br_context *context, uint64_t timeout);
/* Ends what br_streams_block() has begun by returning true. */
void br_streams_unblock(struct br_context *context);

#endif
