/* SPDX-License-Identifier: BSD-3-Clause */
/* REDUCE steps of fragments on the GPU that their data comes from (staging.h, note 5). */
#include <errno.h>

#include "collectives/engine/gpu_memory.h"
#include "collectives/engine/internal.h"
#include "collectives/engine/staging.h"
#include "gpu/kernels.h"

static int gpu_of(const struct br_operation *op)
{
    return op->send_gpu ? op->send_gpu : op->recv_gpu;
}

/* Where it is on the GPU, and its kernels reach it, and what the host has is a copy of that. */
static bool lies_there(const struct br_fragment *fragment, const struct br_source *source)
{
    return source->given && !fragment->op->foreign &&
           br_staging_fragment_gpu(fragment, source->span.buffer) == gpu_of(fragment->op);
}

/* In the memory of the run, which is pinned. */
static bool staging_reduce_is_ours(const struct br_fragment *fragment, const struct br_span *span)
{
    return span->buffer == BR_SCRATCH || br_staging_fragment_gpu(fragment, span->buffer);
}

bool br_staging_reduce_pays(const struct br_fragment *fragment, const struct br_step *step)
{
    const struct br_source *sources = &fragment->schedule->sources[step->first_source];
    const struct br_gpu_memory *memory = fragment->engine->config.gpu_memory;
    const struct br_operation *op = fragment->op;
    int n_host = 0;

    if (!gpu_of(op) || fragment->scratch_pinned <= 0 ||
        !staging_reduce_is_ours(fragment, &step->span))
        return false;
    for (uint32_t i = 0; i < step->n_sources; i++) {
        if (!staging_reduce_is_ours(fragment, &sources[i].span))
            return false;
        n_host += !lies_there(fragment, &sources[i]);
    }
    return br_fragment_step_bytes(fragment, step) > 0 &&
           memory->ops->reduces_faster(memory, gpu_of(op), op->type, op->reduction,
                                       br_fragment_step_bytes(fragment, step), (int)step->n_sources,
                                       n_host);
}

static struct br_staging_reduction *staging_reduce_end(struct br_engine *engine,
                                                       struct br_copy_batch *batch)
{
    struct br_staging_reduction *reduction =
        br_container_of(batch, struct br_staging_reduction, batch);

    engine->config.gpu_memory->ops->reduce_end(engine->config.gpu_memory, reduction->gpu,
                                               reduction->mark);
    br_list_push_front(&engine->free_reductions, &batch->node);
    return reduction;
}

static void staging_reduce_failed(struct br_engine *engine, struct br_copy_batch *batch)
{
    staging_reduce_end(engine, batch);
}

static void staging_reduce_reduced(struct br_engine *engine, struct br_copy_batch *batch)
{
    const struct br_staging_reduction *reduction = staging_reduce_end(engine, batch);

    if (reduction->refused)
        br_fragment_step_ready(engine, reduction->step);
    else
        br_fragment_step_reduced(engine, reduction->step);
}

/* false: one of them is in a peer's memory. */
static bool find_sources(const struct br_fragment *fragment, const struct br_step *step,
                         struct br_offload_source *out)
{
    const struct br_source *sources = &fragment->schedule->sources[step->first_source];

    for (uint32_t i = 0; i < step->n_sources; i++) {
        bool on_gpu = lies_there(fragment, &sources[i]);

        if (sources[i].recv >= 0 && fragment->steps[sources[i].recv].transfer.mapped)
            return false;
        out[i] =
            (struct br_offload_source){on_gpu ? br_fragment_user_address(fragment, &sources[i].span)
                                              : br_fragment_address(fragment, &sources[i].span),
                                       on_gpu};
    }
    return true;
}

bool br_staging_reduce(struct br_engine *engine, struct br_fragment_step *rs)
{
    const struct br_fragment *fragment = rs->fragment;
    const struct br_step *step = &fragment->schedule->steps[rs - fragment->steps];
    struct br_offload_source sources[BR_GPU_SOURCES];
    struct br_staging_reduction *reduction;
    int gpu = gpu_of(fragment->op), rc;
    uint64_t mark;

    if (rs->done || !br_staging_reduce_pays(fragment, step) ||
        br_list_empty(&engine->free_reductions) || !find_sources(fragment, step, sources))
        return false;
    rc = engine->config.gpu_memory->ops->reduce(
        engine->config.gpu_memory, gpu, fragment->op->type, fragment->op->reduction,
        br_fragment_address(fragment, &step->span), sources, (int)step->n_sources,
        br_fragment_step_bytes(fragment, step),
        step->flags & BR_STEP_FINAL ? fragment->op->group->size : 0, &mark);
    if (rc < 0)
        return false;
    reduction =
        br_container_of(engine->free_reductions.next, struct br_staging_reduction, batch.node);
    br_list_remove(&reduction->batch.node);
    reduction->step = rs;
    reduction->gpu = gpu;
    reduction->mark = mark;
    reduction->refused = rc == 1;
    br_staging_submit(engine, &reduction->batch, gpu, BR_COPY_REDUCTION, staging_reduce_reduced,
                      staging_reduce_failed);
    return true;
}
