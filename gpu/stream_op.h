/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stream operation is what an operation puts into a stream of the program's, so that it begins
 * when the work before it is done, and work behind it waits for its result:
 *
 *     copies to the host | ready := n | wait until done >= n |
 *     copy of the result to the GPU | idle := n
 *
 * An operation that stays on GPUs (stream_peers.h) has work of its own in place of the copies, and
 * several events and waits. The GPU writes `ready` and `idle`, the worker writes `done`, all of
 * them in pinned host memory, where they count events. No memory is unpinned or freed while a
 * stream operation is not idle, because the driver's calls for that wait for all streams.
 *
 * The numbered notes are in doc/design/gpu_streams.md.
 */
#ifndef BR_GPU_STREAM_OP_H
#define BR_GPU_STREAM_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BR_STREAM_OPS_CHUNK 1024 /* Room is made for so many operations at a time. */

struct CUctx_st;
struct br_stream_op;
struct br_stream_ops;

/* Where host memory comes from. The provider owns the memory. It keeps it until after
 * br_stream_ops_destroy(), and until the process ends if the operations are not idle by then. Both
 * functions may block. */
struct br_stream_op_memory {
    /* Returns `bytes` of memory, in whole pages, or NULL with a message. */
    void *(*take)(void *context, size_t bytes);
    /* Takes memory back that take() has returned and that was never pinned. */
    void (*give_back)(void *context, void *memory);
    void *context; /* The first argument of both. */
};

/* What to put into a stream. */
struct br_stream_op_plan {
    void *stream;     /* A CUstream, which is a cudaStream_t. */
    const void *send; /* Memory that is copied to the start of the host memory, or NULL for none. */
    size_t send_bytes; /* Its bytes. */
    void *recv;        /* Memory that is copied to from the host, or NULL for none. */
    size_t recv_bytes; /* Its bytes. */
    size_t recv_at;    /* Where they stand in the host memory: 0, or behind those of `send`. */
    /* The result leaves some of recv as it is: recv is copied to the host as well. */
    bool recv_kept;
    /* NULL: the copies above. Else it puts into the stream what takes their place, with `events`
     * events, by the functions below and calls of its own; the stream's context, which is `owner`,
     * is current. Returns 0, or a negative errno with a message. */
    int (*put)(struct br_stream_op *op, void *stream, void *context);
    void *context; /* The last argument of put. */
    uint32_t events;
    struct CUctx_st *owner;
};

/* An event of an operation that may have been released since; all zero: none. */
struct br_stream_mark {
    const struct br_stream_op *op;
    uint32_t value;
};

/* Prepares for operations in streams. *memory is copied. Returns 0 or -ENOMEM. */
int br_stream_ops_create(const struct br_stream_op_memory *memory, struct br_stream_ops **out);
/* Frees everything. All operations have been released before. Does not wait for a GPU: memory stays
 * pinned when a GPU has not ended them (note 7). NULL is allowed. */
void br_stream_ops_destroy(struct br_stream_ops *ops);
/* Returns whether the GPUs have ended all operations. */
bool br_stream_ops_idle(const struct br_stream_ops *ops);

/*
 * Puts an operation into a stream. Blocks only when more memory is needed than ever before. Called
 * by one thread at a time.
 *
 * Returns 0, and *out is the caller's until br_stream_op_release(). Or returns a negative errno
 * with a message, and the stream does not wait for anything: -EOPNOTSUPP when the driver is too old
 * or the stream is being captured; -EINVAL when CUDA does not know the stream, no context is
 * current or it is not that of the plan; -ENOMEM; or the errors of br_cuda_driver() and of the
 * driver's calls.
 */
int br_stream_op_begin(struct br_stream_ops *ops, const struct br_stream_op_plan *plan,
                       struct br_stream_op **out);
/* Returns the host memory that plan.send is copied to and plan.recv from, or NULL where the plan
 * has neither. It may be used until br_stream_op_release(). */
void *br_stream_op_memory(const struct br_stream_op *op);
/* Returns whether the stream has come to the operation and its input is in the host memory, or the
 * first event has happened. Does not block. */
bool br_stream_op_arrived(const struct br_stream_op *op);
/* Returns how many of the events of plan.put have happened, and how many there are. Neither
 * blocks. */
uint32_t br_stream_op_happened(const struct br_stream_op *op);
uint32_t br_stream_op_events(const struct br_stream_op *op);
/* Lets the stream pass the waits for event `event` and those before: not the last, as by that the
 * operation would be free for another use before br_stream_op_release(). From any thread; does not
 * block. */
void br_stream_op_let(struct br_stream_op *op, uint32_t event);
/* Lets the stream go on, with the result in the host memory. The caller does not use the operation
 * afterwards. May be called from any thread; does not block. */
void br_stream_op_release(struct br_stream_op *op);

/* For plan.put only. All return 0, or a negative errno with a message. put_event: what is before it
 * in the stream is done: the next event, counted from 1. put_wait: what is behind it waits for
 * br_stream_op_let() of this event. put_wait_for: the same of a mark. */
int br_stream_op_put_event(struct br_stream_op *op, void *stream);
int br_stream_op_put_wait(const struct br_stream_op *op, void *stream, uint32_t event);
int br_stream_op_put_wait_for(const struct br_stream_mark *mark, void *stream);
/* Returns an event of this operation as a mark. */
struct br_stream_mark br_stream_op_mark(const struct br_stream_op *op, uint32_t event);

#endif
