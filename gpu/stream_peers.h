/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduces in streams of the program's that stay on the GPUs of a host: memory of braid's own on
 * the GPU of each rank of a communicator, which the other ranks have mapped (ipc.h), and what an
 * all-reduce puts into the stream (stream_op.h) to combine values there. The memory is divided into
 * slots, which chunks of operations use in turn.
 *
 * The numbered notes are in doc/design/gpu_streams.md, "On the GPUs".
 */
#ifndef BR_GPU_STREAM_PEERS_H
#define BR_GPU_STREAM_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "braid/types.h"
#include "gpu/ipc.h"

#define BR_STREAM_PEERS_SLOTS 4u
/* Up to how many bytes each rank combines all values, and not a piece of them. */
#define BR_STREAM_PEERS_WHOLE_BYTES (4u << 20)

struct br_reducer;
struct br_stream_op;
struct br_stream_ops;
struct br_stream_peers;

/* An all-reduce. Memory is of the GPU's primary context; recv may be send. */
struct br_stream_allreduce {
    const void *send;
    void *recv;
    size_t count, size; /* elements, and the bytes of one */
    enum braid_type type;
    enum braid_reduction reduction; /* there is a kernel (kernels.h) */
};

/*
 * Allocates this rank's memory. gpu: as br_gpu_of() numbers it. context: its primary context.
 * kernels: kept by the caller until br_stream_peers_destroy(). bytes: of the memory, a multiple of
 * BR_STREAM_PEERS_SLOTS * 4096, the same on all n ranks. Returns 0, or a negative errno with a
 * message. Blocks.
 */
int br_stream_peers_create(int gpu, struct CUctx_st *context, const struct br_reducer *kernels,
                           uint32_t n, uint32_t rank, size_t bytes, struct br_stream_peers **out);
/* Unmaps and frees all of it. No stream has an operation of it. lost: a GPU does not answer any
 * more, so that nothing is freed. NULL is allowed. Blocks. */
void br_stream_peers_destroy(struct br_stream_peers *peers, bool lost);

/* Describes this rank's memory to the others. Returns 0, or the errors of br_ipc_note(). */
int br_stream_peers_note(const struct br_stream_peers *peers, struct br_ipc_note *out);
/* Maps the memory of rank `of`, which has sent `note`. Returns 0, or a negative errno with a
 * message. Blocks. */
int br_stream_peers_map(struct br_stream_peers *peers, uint32_t of, const struct br_ipc_note *note);

/* Returns the GPU, as br_gpu_of() numbers it. */
int br_stream_peers_gpu(const struct br_stream_peers *peers);
/* Returns whether an all-reduce is small enough for the stream's queue (note 16); the same on all
 * ranks. */
bool br_stream_peers_fits(const struct br_stream_peers *peers,
                          const struct br_stream_allreduce *allreduce);
/* Returns how many bytes an all-reduce reads from the memory of other ranks. */
size_t br_stream_peers_read(const struct br_stream_peers *peers,
                            const struct br_stream_allreduce *allreduce);

/*
 * Puts an all-reduce into a stream, when the memory of all ranks is mapped. All ranks put the same
 * ones in the same order. The caller tells the other ranks each event (br_stream_op_happened()) and
 * calls br_stream_op_let() for it when it has happened on all ranks; then, or when it has failed,
 * br_stream_op_release(). Returns what br_stream_op_begin() does. *broken: only a part of it stands
 * in the stream, so that the ranks do not agree any more which slots are in use. One thread at a
 * time.
 */
int br_stream_peers_begin(struct br_stream_peers *peers, struct br_stream_ops *ops, void *stream,
                          const struct br_stream_allreduce *allreduce, struct br_stream_op **out,
                          bool *broken);

#endif
