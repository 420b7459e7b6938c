/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reductions of a collective on the GPU that its data comes from, in one stream:
 *
 *     what came, in pinned host memory -> arena | kernel: arena, the user's memory -> arena |
 *     arena -> pinned host memory
 *
 * There is one for each worker. All functions but open() are called under the worker's lock. On the
 * data path the driver's calls neither block nor allocate, except that with CUDA_LAUNCH_BLOCKING=1
 * each launch waits for its end.
 *
 * The numbered notes are in doc/design/gpu_memory.md.
 */
#ifndef BR_GPU_OFFLOAD_H
#define BR_GPU_OFFLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "braid/types.h"

struct br_copier;
struct br_gpu_image;
struct br_offload;

/* Seconds: of a reduction on the GPU, start + per_byte * bytes copied there and back; of one on the
 * CPU, cpu_per_byte * bytes read or written, which is the caller's. start -INFINITY: always on the
 * GPU. */
struct br_offload_cost {
    double start, per_byte;
    double cpu_per_byte[BRAID_TYPES];
};

struct br_offload_source {
    const void *at;
    bool on_gpu; /* memory of this GPU; else pinned host memory */
};

/* Both are borrowed. -ENOMEM with a message. */
int br_offload_create(struct br_copier *copier, const struct br_gpu_image *image,
                      struct br_offload **out);
/* When nothing is under way any more, but on GPUs that are lost. Before br_copier_destroy(). NULL
 * allowed. */
void br_offload_destroy(struct br_offload *offload);

/*
 * Kernels, arena and the trial of a GPU, as br_gpu_of() names it, which the copier has open; not
 * twice at once for one GPU. Blocks. *cost: as measured, without the CPU's. Nothing is used before
 * br_offload_set(). Errors with a message: -EOPNOTSUPP, as br_reducer_create(); -EIO: the trial has
 * another result than it should; -ETIMEDOUT: it has not ended after a second, and its memory is
 * kept; the driver's.
 */
int br_offload_open(struct br_offload *offload, int gpu, struct br_offload_cost *cost);
void br_offload_set(struct br_offload *offload, int gpu, const struct br_offload_cost *cost);

/* Can its reductions read memory of this GPU? false: not open, or it is of a context of the
 * program's own. Any thread. */
bool br_offload_reaches(const struct br_offload *offload, int gpu, const void *memory);

/* Is a reduction of so many bytes an array faster there? n_host of the n_src sources have to be
 * copied. false: not open. */
bool br_offload_is_faster(const struct br_offload *offload, int gpu, enum braid_type type,
                          size_t bytes, int n_src, int n_host);

/*
 * Asks for dst[i] = (...(src[0][i] op src[1][i]) ...), as br_reduce() does; dst is pinned host
 * memory, and may be one of the sources. Then br_copier_mark() in the direction BR_COPY_REDUCTION,
 * and when that is done, br_offload_end(mark).
 *
 * Returns 0. 1: part of it is under way and the rest was refused: marked and ended as the whole, as
 * it reads the sources and the arena until then, but dst stays as it is. Negative errno: nothing is
 * under way. -EAGAIN, without a message: no room now; anything else, with a message. After 1, and
 * after these, the GPU is not asked any more.
 */
int br_offload_reduce(struct br_offload *offload, int gpu, enum braid_type type,
                      enum braid_reduction reduction, void *dst,
                      const struct br_offload_source *src, int n_src, size_t bytes, int divisor,
                      uint64_t *mark);
void br_offload_end(struct br_offload *offload, int gpu, uint64_t mark);

/* The same where all is memory that this GPU's kernels reach, that of other processes included
 * (ipc.h), dst too; and a copy there. Then br_copier_mark() as above, and nothing behind it.
 * Negative errno with a message: nothing of this is under way. */
int br_offload_combine(struct br_offload *offload, int gpu, enum braid_type type,
                       enum braid_reduction reduction, void *dst, const void *const *src, int n_src,
                       size_t bytes, int divisor);
int br_offload_fetch(struct br_offload *offload, int gpu, void *to, const void *from, size_t bytes);

#endif
