/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reductions of a collective on the GPU that its data comes from, in one stream:
 *
 *     what came, in pinned host memory -> arena | kernel: arena, the user's memory -> arena |
 *     arena -> pinned host memory
 *
 * There is one for each worker. Unless said otherwise, the functions are called under the worker's
 * lock and do not block. On the data path the driver's calls neither block nor allocate, except
 * that with CUDA_LAUNCH_BLOCKING=1 each launch waits for its end.
 *
 * The numbered notes are in doc/design/gpu_memory.md.
 */
#ifndef BR_GPU_OFFLOAD_H
#define BR_GPU_OFFLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "braid/types.h"

struct CUctx_st;
struct br_copier;
struct br_gpu_image;
struct br_offload;
struct br_reducer;

/* What a reduction costs, in seconds: on the GPU, start + per_byte * bytes copied there and back;
 * on the CPU, cpu_per_byte * bytes read or written. A start of -INFINITY makes all reductions go to
 * the GPU. */
struct br_offload_cost {
    double start, per_byte;
    double cpu_per_byte[BRAID_TYPES]; /* By enum braid_type; set by the caller. */
};

/* An array that a reduction reads. */
struct br_offload_source {
    const void *at;
    bool on_gpu; /* It is memory of this GPU; else it is pinned host memory. */
};

/* Makes an offload, with no GPU open. copier, image: kept by the caller until
 * br_offload_destroy(). Returns 0, or -ENOMEM with a message. */
int br_offload_create(struct br_copier *copier, const struct br_gpu_image *image,
                      struct br_offload **out);
/* Frees the offload. Called before br_copier_destroy(), when no reduction is under way except on
 * GPUs that are lost. NULL is allowed. */
void br_offload_destroy(struct br_offload *offload);

/*
 * Loads the kernels of a GPU, allocates its arena and checks one reduction on it.
 *
 * gpu: as br_gpu_of() numbers it; the copier has it open.
 * cost: is set to the measured cost, except for cpu_per_byte.
 *
 * Reductions go to the GPU only after br_offload_set(). Returns 0, or a negative errno with a
 * message: -EOPNOTSUPP as br_reducer_create(); -EIO when the checked reduction has a wrong result;
 * -ETIMEDOUT when it has not ended after a second, in which case its memory is not freed; or an
 * error of the driver. Blocks. May be called from any thread, without the lock, but by one at a
 * time for one GPU.
 */
int br_offload_open(struct br_offload *offload, int gpu, struct br_offload_cost *cost);
/* Makes a GPU that br_offload_open() has opened available, with this cost. */
void br_offload_set(struct br_offload *offload, int gpu, const struct br_offload_cost *cost);

/* Returns whether the reductions of this GPU can read `memory`, which is on it. They cannot when
 * the GPU is not open, or when the memory belongs to a context of the program's own. May be called
 * from any thread. */
bool br_offload_reaches(const struct br_offload *offload, int gpu, const void *memory);

/* Returns the kernels of a GPU, and in *context its primary context, for streams of the program's;
 * NULL when the GPU is not open for reductions. May be called from any thread. */
const struct br_reducer *br_offload_kernels(const struct br_offload *offload, int gpu,
                                            struct CUctx_st **context);

/* Returns whether a reduction is faster on the GPU than on the CPU; false when the GPU is not open.
 * bytes: of each array. n_src: the number of sources, of which n_host have to be copied to the
 * GPU. */
bool br_offload_is_faster(const struct br_offload *offload, int gpu, enum braid_type type,
                          size_t bytes, int n_src, int n_host);

/*
 * Starts to compute dst[i] = (...(src[0][i] op src[1][i]) ...), as br_reduce() does. bytes: of each
 * array. dst: pinned host memory, which may be one of the sources. After a result of 0 or 1 the
 * caller calls br_copier_mark() with BR_COPY_REDUCTION and, when that mark is done,
 * br_offload_end() with *mark.
 *
 * Returns 0; or 1 when only a part could be started: until its end it reads the sources, but dst is
 * not changed; or a negative errno when nothing was started: -EAGAIN, without a message, when there
 * is no room now, or another one with a message. After 1, and after an error other than -EAGAIN,
 * this GPU is not used for reductions any more.
 */
int br_offload_reduce(struct br_offload *offload, int gpu, enum braid_type type,
                      enum braid_reduction reduction, void *dst,
                      const struct br_offload_source *src, int n_src, size_t bytes, int divisor,
                      uint64_t *mark);
/* Frees the room that a reduction has used. mark: what br_offload_reduce() has set. */
void br_offload_end(struct br_offload *offload, int gpu, uint64_t mark);

/* Starts the same reduction where the sources and dst are memory that this GPU's kernels reach,
 * which may be that of other processes (ipc.h). The caller calls br_copier_mark() with
 * BR_COPY_REDUCTION afterwards, but not br_offload_end(). Returns 0, or a negative errno with a
 * message when nothing was started. */
int br_offload_combine(struct br_offload *offload, int gpu, enum braid_type type,
                       enum braid_reduction reduction, void *dst, const void *const *src, int n_src,
                       size_t bytes, int divisor);
/* Starts a copy of `bytes` between two such places of memory; otherwise like
 * br_offload_combine(). */
int br_offload_fetch(struct br_offload *offload, int gpu, void *to, const void *from, size_t bytes);

#endif
