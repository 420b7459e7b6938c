/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations on streams of the program's GPUs. */
#ifndef BR_COLLECTIVES_GPU_STREAM_H
#define BR_COLLECTIVES_GPU_STREAM_H

#include <stdbool.h>
#include <stdint.h>

struct braid_comm;
struct br_context;
struct br_operation;

/* Creates what puts operations into streams; their host memory is the context's. Returns 0 or
 * -ENOMEM. */
int br_streams_create(struct br_context *context);

/* Submits a collective, to be done in a stream of CUDA.
 * Called in the program's thread. Returns 0; or a negative errno with a message, and op has been
 * given back to the pool. */
int br_stream_submit(struct br_operation *op, void *stream);

/* Puts an executor that keeps collectives in stream order before the communicator's others. */
void br_stream_order_init(struct braid_comm *comm);

#endif
