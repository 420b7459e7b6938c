/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations on streams of the program's GPUs. */
#ifndef BR_COLLECTIVES_GPU_STREAM_H
#define BR_COLLECTIVES_GPU_STREAM_H

#include <stdbool.h>

struct braid_comm;
struct br_context;
struct br_operation;

/* Creates what puts operations into streams; their host memory is the context's. Returns 0 or
 * -ENOMEM. */
int br_streams_create(struct br_context *context);

/* In the program's thread: submits a collective whose input and output are one block each. When it
 * fails, op is returned to the pool: a negative errno with a message. */
int br_stream_submit(struct br_operation *op, void *stream);

/* Puts an executor that keeps collectives in stream order before the communicator's others. */
void br_stream_order_init(struct braid_comm *comm);

/* For calls that may wait for all work of a GPU, an operation in a stream included. True: no
 * operation stands in a stream, and none is put there until br_streams_unblock(). Never blocks. */
bool br_streams_block(struct br_context *context);
void br_streams_unblock(struct br_context *context);

#endif
