/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of GPUs as the engine sees it: a table of what it can ask for, in four groups, copy,
 * reduce, map, flush. CUDA's is gpu/cuda_memory.c. The engine stages (staging.h) and keeps
 * collectives on the GPU (gpu_pipeline.h) by these functions alone.
 *
 * Host memory has no such table, although it is a kind of memory, too: the CPU copies and reduces
 * it where it lies, in quanta (fragment.c), nothing has to be mapped or flushed, and a call through
 * a pointer for each would cost small operations more than what it does.
 *
 * A GPU is named by a number, as br_gpu_of() says: 0 is host memory. All is called under the
 * context's lock and nothing blocks. Errors are negative errno with a message.
 */
#ifndef BR_COLLECTIVES_ENGINE_GPU_MEMORY_H
#define BR_COLLECTIVES_ENGINE_GPU_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <braid/types.h>

#include "gpu/copier.h"  /* struct br_copy, enum br_copy_direction */
#include "gpu/offload.h" /* struct br_offload_source */

struct br_gpu_memory;
struct br_region;

struct br_gpu_memory_ops {
    /* ---- copy. Starts it; one of `to` and `from` is the GPU's memory. */
    int (*copy)(struct br_gpu_memory *memory, int gpu, enum br_copy_direction direction, void *to,
                const void *from, size_t bytes);
    /* The same within the GPU's memory. */
    int (*move)(struct br_gpu_memory *memory, int gpu, void *to, const void *from, size_t bytes);
    /* *copy stands for all that was started in this direction so far. */
    int (*mark)(struct br_gpu_memory *memory, int gpu, enum br_copy_direction direction,
                struct br_copy *copy);
    /* 1: all up to the mark is done; 0: not yet. */
    int (*done)(struct br_gpu_memory *memory, struct br_copy *copy);
    /* Gives up what does not end: the GPU counts as lost. Nothing if *copy is empty. */
    void (*forget)(struct br_gpu_memory *memory, struct br_copy *copy);

    /* ---- reduce. Can the GPU reduce what lies at `at`, n_sources at once? false, too, where it
     * has no kernel for that (gpu/kernels.h). */
    bool (*can_reduce)(const struct br_gpu_memory *memory, int gpu, enum braid_type type,
                       enum braid_reduction reduction, const void *at, uint32_t n_sources);
    /* Can it, and is it faster than on the CPU, `bytes` a source, n_host of n_sources lying in host
     * memory? */
    bool (*reduces_faster)(const struct br_gpu_memory *memory, int gpu, enum braid_type type,
                           enum braid_reduction reduction, size_t bytes, int n_sources, int n_host);
    /* Starts to combine sources, in their order, into pinned host memory at `to`; divisor: of an
     * average, or 0. *mark goes to `reduce_end` when that has ended. 1: it was refused in the
     * middle, and the CPU has to do it when what is under way has ended. */
    int (*reduce)(struct br_gpu_memory *memory, int gpu, enum braid_type type,
                  enum braid_reduction reduction, void *to, const struct br_offload_source *sources,
                  int n_sources, size_t bytes, int divisor, uint64_t *mark);
    void (*reduce_end)(struct br_gpu_memory *memory, int gpu, uint64_t mark);
    /* The same where sources and `to` are all memory of the GPU. */
    int (*reduce_within)(struct br_gpu_memory *memory, int gpu, enum braid_type type,
                         enum braid_reduction reduction, void *to, const void *const *sources,
                         int n_sources, size_t bytes, int divisor);

    /* ---- map. Host memory that copies may use without a detour; false: it stays as it is. */
    bool (*pin)(struct br_gpu_memory *memory, int gpu, void *at, size_t bytes);
    /* false: the GPU is lost and may write there yet, so the memory must stay allocated. */
    bool (*unpin)(struct br_gpu_memory *memory, int gpu, void *at);
    /* Memory of the GPU, for scratch, and the region by which NICs reach it; NULL: there is none
     * now. */
    void *(*scratch_take)(struct br_gpu_memory *memory, int gpu, size_t bytes,
                          struct br_region **region);
    void (*scratch_put)(struct br_gpu_memory *memory, int gpu, void *at, size_t bytes);

    /* ---- flush. What NICs have written into the GPU's memory so far is what the GPU reads. */
    int (*flush)(struct br_gpu_memory *memory, int gpu);
};

/* The first member of what a kind of memory keeps. */
struct br_gpu_memory {
    const struct br_gpu_memory_ops *ops;
};

#endif
