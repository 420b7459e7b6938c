/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of CUDA GPUs for the engine (gpu_memory.h). */
#ifndef BR_COLLECTIVES_GPU_CUDA_MEMORY_H
#define BR_COLLECTIVES_GPU_CUDA_MEMORY_H

#include "collectives/engine/gpu_memory.h"

/* Scratch on GPUs that NICs reach. take: and its region; NULL: there is none now. Functions NULL:
 * there never is. */
struct br_cuda_scratch {
    void *(*take)(void *context, int gpu, size_t bytes, struct br_region **region);
    void (*put)(void *context, int gpu, void *memory, size_t bytes);
    void *context;
};

struct br_cuda_memory {
    struct br_gpu_memory memory;
    struct br_copier *copier;
    struct br_offload *offload; /* NULL: all reductions are the CPU's */
    struct br_cuda_scratch scratch;
};

/* All is borrowed. */
void br_cuda_memory_init(struct br_cuda_memory *memory, struct br_copier *copier,
                         struct br_offload *offload, const struct br_cuda_scratch *scratch);

#endif
