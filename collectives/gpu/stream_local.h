/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduces in streams that stay on the GPUs of a host: which ones do, and the memory for them
 * (gpu/stream_peers.h), which the ranks of a communicator agree on in the first such call. The
 * executor that tells their events to the other ranks is gpu_local.c.
 *
 * The numbered notes are in doc/design/gpu_streams.md, "On the GPUs".
 */
#ifndef BR_COLLECTIVES_GPU_STREAM_LOCAL_H
#define BR_COLLECTIVES_GPU_STREAM_LOCAL_H

/* Smaller all-reduces are staged (note 14). */
#define BR_STREAM_LOCAL_MIN_BYTES (1u << 20)

struct braid_comm;
struct br_operation;

/* For a communicator whose ranks are on one host and may share memory of GPUs. Returns 0, or
 * -ENOMEM with a message. */
int br_stream_local_create(struct braid_comm *comm);
/* Frees it; the memory of GPUs is the context's. */
void br_stream_local_destroy(struct braid_comm *comm);

/* Chooses whether an all-reduce stays on the GPUs (op->stays_on_gpu). The first time blocks until
 * all ranks of the communicator have called it, and until operations in streams of this process
 * have ended. Called in the program's thread, not under a lock. Returns 0, or a negative errno with
 * a message. */
int br_stream_local_choose(struct br_operation *op);

/* Puts one that does into its stream, under stream_lock. Returns what br_stream_peers_begin()
 * does. */
int br_stream_local_begin(struct br_operation *op, void *stream);

#endif
