/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Passages: what an operation puts into a stream of the program's, so that it begins when the work
 * before it is done, and work after it waits for its result.
 *
 *     copy of the input to the host | ready := turn | wait until done >= turn | copy of the result
 * to the GPU | idle := turn
 *
 * 1. Three words in pinned host memory are all that stream and worker say to each other: the GPU
 *    writes `ready` and `idle` (cuStreamWriteValue32, which orders the copy before it first), the
 *    worker writes `done`, for which the stream waits (cuStreamWaitValue32). They count turns, so
 *    nothing is reset. The worker loads a word; it makes no call of CUDA.
 * 2. The copies are in the program's stream, not in the copier's. The manual says of
 *    cuStreamWaitValue32: "CUDA tasks that are (even indirectly) ordered by this API should also
 *    have that order expressed with CUDA-visible dependencies", else the driver may put them into
 *    one queue of the hardware in the wrong order: a copy of ours behind the very wait that it is
 *    to end. So nothing that a wait needs may be CUDA work that comes later. Here it needs the
 *    network, and copies that were put into streams before. What that costs: the copies of one
 *    operation do not overlap with its own journey, and its host memory is as large as it. It does
 *    not hold of an operation that begins behind another of its communicator that is still staged
 *    (staging.h) and has no stream: the end of that one needs copies of ours that come later, by
 *    streams of ours. Rejected: to wait for it in the call, which stops a program that works, when
 *    another rank waits for what comes after the call. So gpu.h tells the program to wait.
 *    Rejected, each for this reason or the next: our copies from an event of the program's stream
 *    on; our copy stream waiting for that event, which also stops all other copies.
 * 3. No event, no query: while the program sits in cuMemFree(), which waits for the GPU, which
 *    waits for us, no call of ours may wait for what cuMemFree() holds. The price: a kernel that
 *    has failed is not seen before the operation's deadline.
 * 4. Rejected: a host function (cuLaunchHostFunc) that waits for the end. "It must not perform any
 *    synchronization that may depend on outstanding CUDA work not mandated to run earlier", and
 *    host functions of all streams may be one queue: the program's own could stand behind it.
 *    Rejected: an event for the stream to wait for: what it waits for is what was recorded before
 *    the call. So a driver without the two functions (before 11.7) is refused in words. There is no
 *    attribute to ask: that of the same name, CAN_USE_STREAM_MEM_OPS_V1, is of the older functions
 *    and is 0 where these work.
 * 5. Every call of CUDA is made by the calling thread in the stream's own context: so the default
 *    streams, which mean something else in each thread and context, are what the caller means, and
 *    streams of any context will do.
 * 6. Passages and their host memory are kept: one is free again when the GPU has written `idle`. A
 *    passage whose stream took only a part of it is never used again.
 * 7. Nothing is unpinned, and no memory of CUDA freed, while a passage is not idle, neither here
 *    nor in copier.c and scratch.c: cuMemHostUnregister(), cuMemFreeHost() and cuMemFree() wait for
 *    the whole context (github.com/NVIDIA/nccl/issues/48), so for its streams, so for operations
 *    that stand in them, so for other ranks and our own worker. Therefore nothing is before the
 *    end; what has become too small is kept. If GPUs do not come through at the end, because a
 *    kernel hangs, nothing is at all: a GPU may write there yet. Rejected: to unpin when all are
 *    idle; another thread may put the next wait into a stream between look and call.
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
