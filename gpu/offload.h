/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reductions of a collective on the GPU that its data comes from.
 *
 *     what came, in pinned host memory -> arena | kernel: arena, the user's memory -> arena | arena
 * -> pinned host memory
 *
 * 1. All in one stream, the copier's for this (copier.h): the parts of a reduction need no events
 *    between them, reductions end in the order in which they were asked for, and the copier's marks
 *    say so, with the copier's rules for a GPU that hangs. The two streams of staging go on
 *    meanwhile. Rejected: a stream for each part, with events between them. It would overlap one
 *    reduction's way up with another's way down, for twice as many calls of the driver a reduction,
 *    and what is measured (note 4) would no longer be what is paid.
 * 2. What lies in the GPU's memory unchanged is read there. The result goes back to the host, where
 *    the schedule goes on: what is reduced is mostly what is sent next. Rejected: kernels that read
 *    pinned host memory themselves. It is less code, and the reads over PCIe are of the size that
 *    the kernel's threads make, not the copy engine's. Kernels run in the GPU's primary context and
 *    do not reach memory of another one (cuCtxCreate(), cuMemAlloc()), which copies do: of that,
 *    its copy in host memory goes up like the rest.
 * 3. The arena is a ring in the GPU's memory: room is taken at the head and comes free at the tail.
 *    Where there is none, the caller reduces on the CPU, so that both work when there is much to
 *    do.
 * 4. Opening tries it, with a reduction whose result is compared, and measures it: seconds = start
 *    + per_byte * bytes that are copied. Which way is faster is the caller's to say, who knows the
 *    CPU.
 * 5. Nothing of it is for operations in streams of the program's, whose end may need no CUDA work
 *    that comes later (stream_op.h, note 2).
 *
 * One a worker. All but open() under the worker's lock; on the data path the driver's calls neither
 * block nor allocate: cuMemcpyAsync and cuLaunchKernel. But where the program runs with
 * CUDA_LAUNCH_BLOCKING=1, each launch waits for its end.
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
