/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reductions of arrays in a GPU's memory by its kernels (kernels.h), on a stream of our own: asked
 * for and looked at, never waited for.
 *
 * 1. One reducer a worker and GPU, under the worker's lock. The stream is a non-blocking one, so it
 *    waits for none of the application's. It is made by the first br_reducer_reduce(): who gives
 *    streams of his own (br_reducer_submit()) needs none.
 * 2. Reductions run in the order in which they were asked for, so one mark, the ticket, says that
 *    all up to it are done.
 * 3. The results are the bits of br_reduce() on the CPU (collectives/engine/reduce.h), but for NaNs
 *    that a sum, a product or an average yields: CUDA gives one of its own, without a payload.
 * 4. The grid is as large as the GPU runs at once and no larger: threads go on to their next
 *    elements themselves.
 */
#ifndef BR_GPU_REDUCE_H
#define BR_GPU_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "braid/types.h"
#include "gpu/image.h"
#include "gpu/kernels.h"

#define BR_REDUCER_TICKETS 64 /* reductions under way at once */

struct br_reducer;
struct CUstream_st;

/*
 * Loads the kernels, &br_gpu_image, onto a GPU, by its ordinal; takes from milliseconds to seconds
 * (without machine code for this GPU the driver compiles the PTX) and blocks. With a message:
 * -EOPNOTSUPP: this build has no kernels, or the driver is older than they are; the errors of
 * br_cuda_driver() and of the driver's calls.
 */
int br_reducer_create(int device, const struct br_gpu_image *image, struct br_reducer **out);
/* Waits for what is under way. NULL allowed. */
void br_reducer_destroy(struct br_reducer *reducer);
/* Of a GPU that does not answer any more: calls nothing of CUDA, what it has there stays to the end
 * of the process. NULL allowed. */
void br_reducer_abandon(struct br_reducer *reducer);

/*
 * Asks for dst[i] = (...(src[0][i] op src[1][i]) ...) over `bytes` bytes of each array: whole
 * elements. dst may be equal to one or more of the sources and must not overlap one in any other
 * way. Any alignment; fastest where dst is aligned to its elements. All are addresses that the GPU
 * reaches, and belong to the reducer until it is done. divisor: as br_reduce()'s: of BRAID_AVG in
 * the call that completes the value, 0 before.
 *
 * Returns 0 and the ticket. Negative errno with a message: -EINVAL: type, reduction, n_src (1 to
 * BR_GPU_SOURCES) or divisor out of range, and -EAGAIN: BR_REDUCER_TICKETS are under way, ask
 * br_reducer_done(): nothing was asked for. Else the driver's: the arrays may still be in use,
 * until br_reducer_destroy() has returned.
 */
int br_reducer_reduce(struct br_reducer *reducer, enum braid_type type,
                      enum braid_reduction reduction, void *dst, const void *const *src, int n_src,
                      size_t bytes, int divisor, uint64_t *ticket);

/* The same in a stream of the caller's on this GPU, whose context is current, and without a ticket.
 * Of an average whose divisor is 0 it makes the sum. Negative errno with a message: -EINVAL as
 * above, else the driver's: then it has not been put into the stream. */
int br_reducer_submit(const struct br_reducer *reducer, struct CUstream_st *stream,
                      enum braid_type type, enum braid_reduction reduction,
                      const struct br_gpu_reduction *arrays);

/* 1: done, and all that was asked for before, too; 0: not yet; negative errno with a message: the
 * GPU failed, and none that was under way has a result. That lasts: a CUDA context does not outlive
 * such an error. */
int br_reducer_done(struct br_reducer *reducer, uint64_t ticket);

#endif
