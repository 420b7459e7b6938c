/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reductions of arrays in a GPU's memory by its kernels (kernels.h), in streams of the caller's.
 *
 * 1. There is one reducer for each worker and GPU; the worker's lock protects it.
 * 2. The results are the bits of br_reduce() on the CPU (collectives/engine/reduce.h), except for
 *    NaNs that a sum, a product or an average yields: CUDA gives one of its own, without a payload.
 * 3. The grid is as large as the GPU runs at once and no larger: threads go on to their next
 *    elements themselves.
 */
#ifndef BR_GPU_REDUCE_H
#define BR_GPU_REDUCE_H

#include "braid/types.h"
#include "gpu/kernels.h"

struct CUstream_st;

/* The compiled kernels, which gpu/image.c embeds where nvcc was found (cmake/cuda.cmake). */
struct br_gpu_image {
    const char *bytes, *end; /* a fat binary as cuModuleLoadData() takes it; NULL: built without */
    /* "sm_80 sm_90, PTX of compute_80"; if built without: what is missing and how to get it */
    const char *architectures;
};

extern const struct br_gpu_image br_gpu_image;

struct br_reducer;

/*
 * Loads the kernels of an image (&br_gpu_image) onto a GPU, given by its ordinal. Takes from
 * milliseconds to seconds, as without machine code for this GPU the driver compiles the PTX, and
 * blocks. The image is borrowed for the call.
 *
 * Returns 0 and the reducer, which the caller destroys; or a negative errno with a message:
 * -EOPNOTSUPP: this build has no kernels, or the driver is older than they are; otherwise the
 * errors of br_cuda_driver() and of the driver's calls.
 */
int br_reducer_create(int device, const struct br_gpu_image *image, struct br_reducer **out);

/* Unloads the kernels. No stream has a reduction of this reducer any more. NULL allowed. */
void br_reducer_destroy(struct br_reducer *reducer);

/* Frees a reducer of a GPU that does not answer any more. Calls nothing of CUDA: what the reducer
 * has on the GPU stays until the process ends. NULL allowed. */
void br_reducer_abandon(struct br_reducer *reducer);

/*
 * Puts a reduction into a stream of this GPU, whose context is current in the calling thread:
 * dst[i] = (...(src[0][i] op src[1][i]) ...) over `bytes` bytes of each array, which are whole
 * elements. dst may be equal to one or more of the sources and must not overlap a source in any
 * other way. Any alignment is allowed; it is fastest where dst is aligned to its elements. The GPU
 * reaches all addresses, and the arrays stay as they are until the stream has done the reduction.
 * divisor: as for br_reduce(): the divisor of BRAID_AVG in the call that completes the value, 0
 * before; with 0 an average makes the sum; at most BR_GPU_DIVISOR. *arrays is copied.
 *
 * Returns 0, or a negative errno with a message; then nothing was put into the stream. -EINVAL:
 * type, reduction, number of sources (1 to BR_GPU_SOURCES) or divisor out of range; otherwise the
 * driver's error.
 */
int br_reducer_submit(const struct br_reducer *reducer, struct CUstream_st *stream,
                      enum braid_type type, enum braid_reduction reduction,
                      const struct br_gpu_reduction *arrays);

#endif
