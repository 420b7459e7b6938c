/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/gpu/cuda_memory.h"

#include "base/list.h"

#include "gpu/direct.h"
#include "gpu/kernels.h"

static struct br_cuda_memory *cuda_of(const struct br_gpu_memory *memory)
{
    return br_container_of(memory, struct br_cuda_memory, memory);
}

/* ---- copy ------------------------------------------------------------------------------------ */

static int cuda_copy(struct br_gpu_memory *memory, int gpu, enum br_copy_direction direction,
                     void *to, const void *from, size_t bytes)
{
    return br_copier_copy(cuda_of(memory)->copier, gpu, direction, to, from, bytes);
}

static int cuda_move(struct br_gpu_memory *memory, int gpu, void *to, const void *from,
                     size_t bytes)
{
    return br_copier_move(cuda_of(memory)->copier, gpu, to, from, bytes);
}

static int cuda_mark(struct br_gpu_memory *memory, int gpu, enum br_copy_direction direction,
                     struct br_copy *copy)
{
    return br_copier_mark(cuda_of(memory)->copier, gpu, direction, copy);
}

static int cuda_done(struct br_gpu_memory *memory, struct br_copy *copy)
{
    return br_copier_done(cuda_of(memory)->copier, copy);
}

static void cuda_forget(struct br_gpu_memory *memory, struct br_copy *copy)
{
    br_copier_forget(cuda_of(memory)->copier, copy);
}

/* ---- reduce ---------------------------------------------------------------------------------- */

static bool cuda_can_reduce(const struct br_gpu_memory *memory, int gpu, enum braid_type type,
                            enum braid_reduction reduction, const void *at, uint32_t n_sources)
{
    const struct br_offload *offload = cuda_of(memory)->offload;

    return offload && n_sources <= BR_GPU_SOURCES && br_gpu_has_kernel(type, reduction) &&
           br_offload_reaches(offload, gpu, at);
}

static bool cuda_reduces_faster(const struct br_gpu_memory *memory, int gpu, enum braid_type type,
                                enum braid_reduction reduction, size_t bytes, int n_sources,
                                int n_host)
{
    const struct br_offload *offload = cuda_of(memory)->offload;

    return offload && n_sources <= (int)BR_GPU_SOURCES && br_gpu_has_kernel(type, reduction) &&
           br_offload_is_faster(offload, gpu, type, bytes, n_sources, n_host);
}

static int cuda_reduce(struct br_gpu_memory *memory, int gpu, enum braid_type type,
                       enum braid_reduction reduction, void *to,
                       const struct br_offload_source *sources, int n_sources, size_t bytes,
                       int divisor, uint64_t *mark)
{
    return br_offload_reduce(cuda_of(memory)->offload, gpu, type, reduction, to, sources, n_sources,
                             bytes, divisor, mark);
}

static void cuda_reduce_end(struct br_gpu_memory *memory, int gpu, uint64_t mark)
{
    br_offload_end(cuda_of(memory)->offload, gpu, mark);
}

static int cuda_reduce_within(struct br_gpu_memory *memory, int gpu, enum braid_type type,
                              enum braid_reduction reduction, void *to, const void *const *sources,
                              int n_sources, size_t bytes, int divisor)
{
    return br_offload_combine(cuda_of(memory)->offload, gpu, type, reduction, to, sources,
                              n_sources, bytes, divisor);
}

/* ---- map, flush ------------------------------------------------------------------------------ */

static bool cuda_pin(struct br_gpu_memory *memory, int gpu, void *at, size_t bytes)
{
    return br_copier_pin(cuda_of(memory)->copier, gpu, at, bytes);
}

static bool cuda_unpin(struct br_gpu_memory *memory, int gpu, void *at)
{
    return br_copier_unpin(cuda_of(memory)->copier, gpu, at);
}

static void *cuda_scratch_take(struct br_gpu_memory *memory, int gpu, size_t bytes,
                               struct br_region **region)
{
    const struct br_cuda_scratch *scratch = &cuda_of(memory)->scratch;

    return scratch->take ? scratch->take(scratch->context, gpu, bytes, region) : NULL;
}

static void cuda_scratch_put(struct br_gpu_memory *memory, int gpu, void *at, size_t bytes)
{
    const struct br_cuda_scratch *scratch = &cuda_of(memory)->scratch;

    scratch->put(scratch->context, gpu, at, bytes);
}

static int cuda_flush(struct br_gpu_memory *memory, int gpu)
{
    (void)memory;
    return br_direct_flush(gpu);
}

void br_cuda_memory_init(struct br_cuda_memory *memory, struct br_copier *copier,
                         struct br_offload *offload, const struct br_cuda_scratch *scratch)
{
    static const struct br_gpu_memory_ops ops = {.copy = cuda_copy,
                                                 .move = cuda_move,
                                                 .mark = cuda_mark,
                                                 .done = cuda_done,
                                                 .forget = cuda_forget,
                                                 .can_reduce = cuda_can_reduce,
                                                 .reduces_faster = cuda_reduces_faster,
                                                 .reduce = cuda_reduce,
                                                 .reduce_end = cuda_reduce_end,
                                                 .reduce_within = cuda_reduce_within,
                                                 .pin = cuda_pin,
                                                 .unpin = cuda_unpin,
                                                 .scratch_take = cuda_scratch_take,
                                                 .scratch_put = cuda_scratch_put,
                                                 .flush = cuda_flush};

    *memory = (struct br_cuda_memory){
        .memory.ops = &ops, .copier = copier, .offload = offload, .scratch = *scratch};
}
