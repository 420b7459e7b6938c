/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of CUDA GPUs for the engine (gpu_memory.h). */
#ifndef BR_COLLECTIVES_GPU_CUDA_MEMORY_H
#define BR_COLLECTIVES_GPU_CUDA_MEMORY_H

#include "collectives/engine/gpu_memory.h"

/* Scratch memory on GPUs that NICs reach. The functions are NULL where there is none. They are
 * called under the worker's lock and do not block. */
struct br_cuda_scratch {
    /* Returns `bytes` of memory on a GPU and sets *region to its region, or returns NULL when there
     * is no room now. */
    void *(*take)(void *context, int gpu, size_t bytes, struct br_region **region);
    /* Takes back what take() has returned. */
    void (*put)(void *context, int gpu, void *memory, size_t bytes);
    void *context; /* The first argument of both. */
};

struct br_cuda_memory {
    struct br_gpu_memory memory;
    struct br_copier *copier;
    struct br_offload *offload; /* NULL when the CPU does all reductions. */
    struct br_cuda_scratch scratch;
};

/* Fills in *memory. copier and offload are kept by the caller as long as *memory is used; *scratch
 * is copied. */
void br_cuda_memory_init(struct br_cuda_memory *memory, struct br_copier *copier,
                         struct br_offload *offload, const struct br_cuda_scratch *scratch);

#endif
