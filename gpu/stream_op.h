/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stream operation is what an operation puts into a stream of the program's, so that it begins
 * when the work before it is done, and work behind it waits for its result:
 *
 *     copy of the input to the host | ready := n | wait until done >= n |
 *     copy of the result to the GPU | idle := n
 *
 * The GPU writes `ready` and `idle`, the worker writes `done`, all of them in pinned host memory.
 * No memory is unpinned or freed while a stream operation is not idle, because the driver's calls
 * for that wait for all streams.
 *
 * The numbered notes are in doc/design/gpu_streams.md.
 */
#ifndef BR_GPU_STREAM_OP_H
#define BR_GPU_STREAM_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BR_STREAM_OPS 1024 /* at once, at most */

struct br_stream_op;
struct br_stream_ops;

/* Where host memory comes from; it stays whoever's it is, and is alive until after
 * br_stream_ops_destroy(), and to the end of the process if they are not idle then. Both may block.
 * give_back: only what was never pinned. */
struct br_stream_op_memory {
    void *(*take)(void *context, size_t bytes); /* whole pages; NULL with a message */
    void (*give_back)(void *context, void *memory);
    void *context;
};

struct br_stream_op_plan {
    void *stream;     /* a CUstream, which is a cudaStream_t */
    const void *send; /* copied to the host; NULL: nothing is */
    void *recv;       /* copied from the host; NULL: nothing is */
    size_t bytes;     /* of either */
};

/* -ENOMEM */
int br_stream_ops_create(const struct br_stream_op_memory *memory, struct br_stream_ops **out);
/* All that were begun have been released. Never waits for a GPU that is not through: then all stays
 * pinned (note 7). NULL allowed. */
void br_stream_ops_destroy(struct br_stream_ops *ops);
/* the GPUs are through with all of them */
bool br_stream_ops_idle(const struct br_stream_ops *ops);

/*
 * Puts a passage into the stream and returns at once, but for the first time that so much memory is
 * wanted. Not by two threads at once. Nothing waits in the stream when it fails, with a message:
 * -EOPNOTSUPP: the driver is too old, or the stream is being captured; -EINVAL: no stream that CUDA
 * knows, or no context is current; -ENOMEM; -EAGAIN: BR_STREAM_OPS are under way; those of
 * br_cuda_driver() and of the driver's calls.
 */
int br_stream_op_begin(struct br_stream_ops *ops, const struct br_stream_op_plan *plan,
                       struct br_stream_op **out);
/* The host memory that plan.send is copied to, and plan.recv from; NULL where the plan has
 * neither. */
void *br_stream_op_memory(const struct br_stream_op *op);
bool br_stream_op_arrived(
    const struct br_stream_op *op); /* the work before it is done, the input is there */
/* Lets the stream go on, with what stands in the host memory. It is not the caller's any more. Any
 * thread; never blocks. */
void br_stream_op_release(struct br_stream_op *op);

#endif
