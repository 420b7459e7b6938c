/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/engine/gpu_pipeline.h"

#include "base/error.h"
#include "collectives/engine/blocks.h"
#include "collectives/engine/gpu_memory.h"
#include "collectives/engine/internal.h"
#include "collectives/schedule/type.h"

/* ---- may it be direct? ----------------------------------------------------------------------- */

/* The region of a buffer that the call has, if it lies on this GPU; NULL: NICs do not reach it. */
static const struct br_region *on_gpu(const struct br_region *region, int lies_on, int gpu)
{
    return lies_on == gpu && region && region->gpu ? region : NULL;
}

/* Both are known to the same devices, which is all that NICs of a GPU differ in. 0: a buffer is not
 * theirs. */
static uint32_t gpu_pipeline_devices_of(const struct br_operation *op, int gpu)
{
    const struct br_region *send = on_gpu(op->send_region, op->send_gpu, gpu),
                           *recv = on_gpu(op->recv_region, op->recv_gpu, gpu);

    if ((op->send_bytes && !send) || (op->recv_bytes && !recv))
        return 0;
    return (send ? send->gpu->devices : UINT32_MAX) & (recv ? recv->gpu->devices : UINT32_MAX);
}

static bool gpu_pipeline_may_reduce(const struct br_engine *engine, const struct br_operation *op,
                                    int gpu)
{
    const struct br_gpu_memory *memory = engine->config.gpu_memory;

    return memory->ops->can_reduce(memory, gpu, op->type, op->reduction,
                                   op->send_gpu ? op->send : op->recv,
                                   op->fragments.plan->schedule->max_sources);
}

static bool gpu_pipeline_peer_eligible(const struct br_engine *engine,
                                       const struct br_operation *op, const struct br_step *step,
                                       uint32_t devices)
{
    const struct br_schedule *s = op->fragments.plan->schedule;
    size_t elements = br_fragment_elements(op, op->fragments.next);
    size_t length = br_piece_offset(elements, s->pieces, step->piece + step->span.count) -
                    br_piece_offset(elements, s->pieces, step->piece);
    int peer = br_group_in_job(op->group, (int)step->peer);

    return br_worker_uses_only(engine->worker, peer, devices) &&
           !br_transfer_is_eager(engine->worker, peer, BR_TAG_COLLECTIVE,
                                 (uint32_t)(length * br_type_size(op->type)));
}

static bool gpu_pipeline_eligible(const struct br_engine *engine, const struct br_operation *op,
                                  int gpu)
{
    const struct br_schedule *s = op->fragments.plan->schedule;
    uint32_t devices = gpu ? gpu_pipeline_devices_of(op, gpu) : 0;
    bool reduces = false;

    if (!devices || br_blocks_uneven(op)) /* of blocks of many sizes some are too small */
        return false;
    for (uint32_t i = 0; i < s->n_steps; i++) {
        const struct br_step *step = &s->steps[i];

        reduces |= step->kind == BR_STEP_REDUCE;
        if (step->kind <= BR_STEP_RECV && !gpu_pipeline_peer_eligible(engine, op, step, devices))
            return false;
    }
    return !reduces || gpu_pipeline_may_reduce(engine, op, gpu);
}

void br_gpu_pipeline_begin(struct br_engine *engine, const struct br_operation *op, size_t scratch,
                           struct br_gpu_pipeline *direct)
{
    struct br_gpu_memory *memory = engine->config.gpu_memory;
    int gpu = op->send_gpu ? op->send_gpu : op->recv_gpu;

    *direct = (struct br_gpu_pipeline){.bytes = scratch};
    if (!gpu_pipeline_eligible(engine, op, gpu))
        return;
    if (scratch)
        direct->memory = memory->ops->scratch_take(memory, gpu, scratch, &direct->region);
    if (!scratch || direct->memory)
        direct->gpu = gpu;
}

void br_gpu_pipeline_end(struct br_engine *engine, struct br_gpu_pipeline *direct)
{
    struct br_gpu_memory *memory = engine->config.gpu_memory;

    if (direct->memory)
        memory->ops->scratch_put(memory, direct->gpu, direct->memory, direct->bytes);
    *direct = (struct br_gpu_pipeline){0};
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void gpu_pipeline_step_done(struct br_engine *engine, struct br_copy_batch *batch)
{
    br_fragment_step_reduced(engine, br_container_of(batch, struct br_fragment_step, batch));
}

static int gpu_pipeline_reduce(struct br_engine *engine, const struct br_fragment *fragment,
                               const struct br_step *step)
{
    const struct br_source *sources = &fragment->schedule->sources[step->first_source];

    for (uint32_t i = 0; i < step->n_sources; i++)
        engine->sources[i] = br_fragment_address(fragment, &sources[i].span);
    return engine->config.gpu_memory->ops->reduce_within(
        engine->config.gpu_memory, fragment->pipeline.gpu, fragment->op->type,
        fragment->op->reduction, br_fragment_address(fragment, &step->span), engine->sources,
        (int)step->n_sources, br_fragment_step_bytes(fragment, step),
        step->flags & BR_STEP_FINAL ? fragment->op->group->size : 0);
}

void br_gpu_pipeline_step(struct br_engine *engine, struct br_fragment_step *rs)
{
    const struct br_fragment *fragment = rs->fragment;
    const struct br_step *step = &fragment->schedule->steps[rs - fragment->steps];
    const struct br_source *source = &fragment->schedule->sources[step->first_source];
    bool reduces = step->kind == BR_STEP_REDUCE;
    int rc = reduces ? gpu_pipeline_reduce(engine, fragment, step)
                     : engine->config.gpu_memory->ops->move(
                           engine->config.gpu_memory, fragment->pipeline.gpu,
                           br_fragment_address(fragment, &step->span),
                           br_fragment_address(fragment, &source->span),
                           br_fragment_step_bytes(fragment, step));

    if (rc)
        br_worker_fail(engine->worker, -rc, br_error_message());
    else
        br_staging_submit(engine, &rs->batch, fragment->pipeline.gpu,
                          reduces ? BR_COPY_REDUCTION : BR_COPY_TO_GPU, gpu_pipeline_step_done,
                          NULL);
}

bool br_gpu_pipeline_arrived(struct br_engine *engine, const struct br_fragment *fragment)
{
    int rc =
        engine->config.gpu_memory->ops->flush(engine->config.gpu_memory, fragment->pipeline.gpu);

    if (rc)
        br_worker_fail(engine->worker, -rc, br_error_message());
    return !rc;
}
