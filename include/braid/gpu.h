/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations in the order of a CUDA stream. Without a stream, memory of GPUs goes with the calls of
 * braid.h.
 *
 *     backward<<<..., stream>>>(grad);
 *     braid_allreduce_on_stream(comm, grad, grad, n, BRAID_FLOAT32, BRAID_AVG, NULL, stream);
 *     update<<<..., stream>>>(weights, grad);      waits on the GPU for the result
 *     ...
 *     cudaStreamSynchronize(stream);
 *     if (braid_comm_error(comm))                      no result before this is to be trusted
 *         fprintf(stderr, "%s\n", braid_last_error());
 *
 * This header needs no CUDA: a stream is given as void *, a cudaStream_t or a CUstream.
 */
#ifndef BRAID_GPU_H
#define BRAID_GPU_H

#include <braid/braid.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * recv[i] = reduction over ranks of send[i], i in [0, count), on every rank: braid_allreduce() in a
 * stream. Returns at once. It begins when the work that was put into the stream before this call is
 * done; work that is put there after it waits, on the GPU, until recv is written. No thread waits.
 *
 * comm, count, type, reduction, options: as for braid_allreduce(). It is one all-reduce of the
 * communicator, in the order of the calls on this rank; other ranks may take part by
 * braid_allreduce(), with memory of whatever kind. While it waits for its stream, collectives that
 * are submitted behind it on this communicator wait, too, also those without a stream (as with
 * NCCL): streams that shall not wait for each other get a communicator each (braid_comm_split()),
 * and the order over communicators is that of braid.h. Collectives without a stream that are under
 * way on this communicator with memory of a GPU should have ended before the call (braid_wait()):
 * this one begins behind them, and what ends them are copies in streams of braid's that come later
 * than the wait in this one. CUDA does not promise to start such copies: where it puts both streams
 * into one queue of the GPU, all wait until the deadline. send, recv: of `count` elements; equal,
 * or not overlapping; each in memory of any GPU or of the host. They are read and written in the
 * stream's order: host memory, too, must not be touched before the stream has passed the call.
 * options->timeout_ms: the deadline counts from the call, the time that work before it in the
 * stream takes included. options->done: called when braid's part has ended; the stream may not have
 * copied the result to recv yet, which what is behind it in the stream need not know. stream: of
 * any context and GPU of this process. NULL is the legacy default stream; a program whose default
 * streams are those of the threads gives cudaStreamPerThread. Default streams are those of the
 * calling thread's current context. The handle must be one of CUDA's: nothing can check it.
 *
 * Errors. What the call returns: -EOPNOTSUPP (the stream is being captured into a graph: an
 * operation cannot be replayed, end the capture before the call; or the driver is older than that
 * of CUDA 11.7), -EINVAL (an argument; a default stream without a current context), -ENOMEM (host
 * memory cannot be pinned), -ECANCELED (the communicator has failed before), -ENOENT, -ENOSYS,
 * -ENODEV, -EIO (CUDA cannot be used). Nothing has been submitted then, the stream waits for
 * nothing, other ranks wait for this one until their deadline. When it fails later, a lost rank,
 * its deadline because a kernel before it never ends, braid_comm_abort(), the stream goes on: what
 * is in recv is undefined, the communicator has failed, and the error is what braid_comm_error()
 * returns from then on; every later call fails with its message. A kernel that fails is found by
 * the deadline.
 *
 * The stream copies a GPU's memory to pinned host memory and back; that of all operations which are
 * in streams at once is kept for later ones: the first time that so much is wanted the call blocks
 * for as long as it takes to allocate and pin it, or to open the GPU. braid_finalize() waits for
 * operations in streams, and at most one second more for the copies behind them. If these are not
 * through then, a kernel before them hangs: what is pinned stays so, and all memory of
 * braid_alloc() allocated, to the end of the process. Thread-safe; calls of several threads go in
 * turn.
 */
int braid_allreduce_on_stream(struct braid_comm *comm, const void *send, void *recv, size_t count,
                              enum braid_type type, enum braid_reduction reduction,
                              const struct braid_options *options, void *stream);

/*
 * braid_options.all_on_gpu, of braid_allreduce_on_stream(): 1 promises that all ranks of the
 * communicator make this call in a stream, with send and recv in the memory of one GPU, of its
 * primary context (cudart's) or of a pool. Where they are on one host and can share memory
 * (doc/gpu.md), values of 1 MiB and more are then combined on the GPUs, and no byte passes through
 * host memory. Elsewhere, and where there is no kernel for type and reduction or options->algorithm
 * is given, nothing changes. All ranks have the same bits as without a stream.
 *
 * The first such call of a communicator waits for the other ranks, and until no operation of this
 * process stands in a stream: no kernel before one may wait for what the program does after the
 * call. It allocates memory of the GPU (BRAID_GPU_STREAM_BYTES, 64 MiB), which is kept to the end
 * of the job. It must not be made between braid_group_start() and braid_group_end(). All these
 * calls of a communicator are on one GPU of this rank; where all ranks pass other memory they are
 * staged.
 *
 * Further errors: -EINVAL: the stream is not of the GPU's primary context. If a rank breaks the
 * promise, by host memory, a call without a stream or without the option, the communicator fails
 * with -EPROTO on all ranks. If the driver refuses a part of what is put into the stream, the
 * communicator fails, too.
 */

/*
 * The other collectives in a stream. What braid_allreduce_on_stream() says of the stream, of
 * memory, order, deadlines and errors holds for all of them; buffers, counts and roots are those of
 * the calls of braid.h, in place included, with all of a buffer that the call reads or writes on
 * one GPU or in host memory. Other ranks may take part by the calls without a stream. On a rank
 * that reads or writes nothing (a gather's that is not the root) the stream waits all the same
 * until this rank's part is over. braid_barrier_on_stream(): what is behind it in the stream begins
 * when all ranks have come to it.
 */
int braid_reduce_scatter_on_stream(struct braid_comm *comm, const void *send, void *recv,
                                   size_t count, enum braid_type type,
                                   enum braid_reduction reduction,
                                   const struct braid_options *options, void *stream);
int braid_allgather_on_stream(struct braid_comm *comm, const void *send, void *recv, size_t count,
                              enum braid_type type, const struct braid_options *options,
                              void *stream);
int braid_broadcast_on_stream(struct braid_comm *comm, const void *send, void *recv, size_t count,
                              enum braid_type type, int root, const struct braid_options *options,
                              void *stream);
int braid_reduce_on_stream(struct braid_comm *comm, const void *send, void *recv, size_t count,
                           enum braid_type type, enum braid_reduction reduction, int root,
                           const struct braid_options *options, void *stream);
int braid_alltoall_on_stream(struct braid_comm *comm, const void *send, void *recv, size_t count,
                             enum braid_type type, const struct braid_options *options,
                             void *stream);
int braid_gather_on_stream(struct braid_comm *comm, const void *send, void *recv, size_t count,
                           enum braid_type type, int root, const struct braid_options *options,
                           void *stream);
int braid_scatter_on_stream(struct braid_comm *comm, const void *send, void *recv, size_t count,
                            enum braid_type type, int root, const struct braid_options *options,
                            void *stream);
int braid_scan_on_stream(struct braid_comm *comm, const void *send, void *recv, size_t count,
                         enum braid_type type, enum braid_reduction reduction,
                         const struct braid_options *options, void *stream);
int braid_exscan_on_stream(struct braid_comm *comm, const void *send, void *recv, size_t count,
                           enum braid_type type, enum braid_reduction reduction,
                           const struct braid_options *options, void *stream);
int braid_barrier_on_stream(struct braid_comm *comm, const struct braid_options *options,
                            void *stream);

/* Those with blocks of different sizes (vector.h). Arrays are copied in the call. What lies between
 * blocks of recv in memory of a GPU is copied to the host and back: nobody else may write it before
 * the stream has passed the call. */
int braid_alltoallv_on_stream(struct braid_comm *comm, const void *send, const size_t *send_counts,
                              const size_t *send_displacements, void *recv,
                              const size_t *recv_counts, const size_t *recv_displacements,
                              enum braid_type type, const struct braid_options *options,
                              void *stream);
int braid_allgatherv_on_stream(struct braid_comm *comm, const void *send, size_t send_count,
                               void *recv, const size_t *counts, const size_t *displacements,
                               enum braid_type type, const struct braid_options *options,
                               void *stream);
int braid_reduce_scatterv_on_stream(struct braid_comm *comm, const void *send, const size_t *counts,
                                    const size_t *displacements, void *recv, enum braid_type type,
                                    enum braid_reduction reduction,
                                    const struct braid_options *options, void *stream);
int braid_gatherv_on_stream(struct braid_comm *comm, const void *send, size_t send_count,
                            void *recv, const size_t *counts, const size_t *displacements,
                            enum braid_type type, int root, const struct braid_options *options,
                            void *stream);
int braid_scatterv_on_stream(struct braid_comm *comm, const void *send, const size_t *counts,
                             const size_t *displacements, void *recv, size_t recv_count,
                             enum braid_type type, int root, const struct braid_options *options,
                             void *stream);

#ifdef __cplusplus
}
#endif

#endif
