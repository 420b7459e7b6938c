/* SPDX-License-Identifier: BSD-3-Clause */
/* REDUCE steps of fragments on the GPU that their data comes from (stage.h, note 5). */
#include <errno.h>

#include "collectives/engine_internal.h"
#include "collectives/stage.h"
#include "gpu/kernels.h"

static int gpu_of(const struct br_operation *op)
{
    return op->send_gpu ? op->send_gpu : op->recv_gpu;
}

/* Where it is on the GPU, and its kernels reach it, and what the host has is a copy of that. */
static bool lies_there(const struct br_run *run, const struct br_source *source)
{
    return source->given && !run->op->foreign &&
           br_stage_run_gpu(run, source->span.buffer) == gpu_of(run->op);
}

/* In the memory of the run, which is pinned. */
static bool is_ours(const struct br_run *run, const struct br_span *span)
{
    return span->buffer == BR_SCRATCH || br_stage_run_gpu(run, span->buffer);
}

bool br_stage_reduce_pays(const struct br_run *run, const struct br_step *step)
{
    const struct br_source *sources = &run->schedule->sources[step->first_source];
    const struct br_operation *op = run->op;
    int n_host = 0;

    if (!run->engine->config.offload || !gpu_of(op) || run->scratch_pinned <= 0 || !is_ours(run, &step->span))
        return false;
    for (uint32_t i = 0; i < step->n_sources; i++) {
        if (!is_ours(run, &sources[i].span))
            return false;
        n_host += !lies_there(run, &sources[i]);
    }
    return br_run_step_bytes(run, step) > 0 &&
           br_offload_pays(run->engine->config.offload, gpu_of(op), op->type, br_run_step_bytes(run, step),
                           (int)step->n_sources, n_host);
}

static void reduced(struct br_engine *engine, struct br_batch *batch)
{
    struct br_stage_reduction *reduction = br_container_of(batch, struct br_stage_reduction, batch);

    br_offload_end(engine->config.offload, reduction->gpu, reduction->mark);
    br_list_push_front(&engine->free_reductions, &batch->node);
    if (engine->worker->failed)
        return;
    if (reduction->refused)
        br_run_ready(engine, reduction->step);
    else
        br_run_reduced(engine, reduction->step);
}

/* false: one of them is in a peer's memory. */
static bool find_sources(const struct br_run *run, const struct br_step *step, struct br_offload_source *out)
{
    const struct br_source *sources = &run->schedule->sources[step->first_source];

    for (uint32_t i = 0; i < step->n_sources; i++) {
        bool on_gpu = lies_there(run, &sources[i]);

        if (sources[i].recv >= 0 && run->steps[sources[i].recv].transfer.mapped)
            return false;
        out[i] = (struct br_offload_source){
            on_gpu ? br_run_user_place(run, &sources[i].span) : br_run_place(run, &sources[i].span), on_gpu};
    }
    return true;
}

bool br_stage_reduce(struct br_engine *engine, struct br_run_step *rs)
{
    const struct br_run *run = rs->run;
    const struct br_step *step = &run->schedule->steps[rs - run->steps];
    struct br_offload_source sources[BR_GPU_SOURCES];
    struct br_stage_reduction *reduction;
    int gpu = gpu_of(run->op), rc;
    uint64_t mark;

    if (rs->done || !br_stage_reduce_pays(run, step) || br_list_empty(&engine->free_reductions) ||
        !find_sources(run, step, sources))
        return false;
    rc = br_offload_reduce(engine->config.offload, gpu, run->op->type, run->op->reduction,
                           br_run_place(run, &step->span), sources, (int)step->n_sources,
                           br_run_step_bytes(run, step),
                           step->flags & BR_STEP_FINAL ? run->op->group->size : 0, &mark);
    if (rc < 0)
        return false;
    reduction = br_container_of(engine->free_reductions.next, struct br_stage_reduction, batch.node);
    br_list_remove(&reduction->batch.node);
    reduction->step = rs;
    reduction->gpu = gpu;
    reduction->mark = mark;
    reduction->refused = rc == 1;
    br_stage_go(engine, &reduction->batch, gpu, BR_COPY_REDUCTION, reduced);
    return true;
}
