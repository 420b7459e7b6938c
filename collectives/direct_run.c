/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/direct_run.h"

#include "base/error.h"
#include "collectives/engine_internal.h"
#include "collectives/type.h"
#include "gpu/direct.h"
#include "gpu/kernels.h"

/* ---- may it be direct? ------------------------------------------------------------------------ */

/* The region of a buffer that the call has, if it lies on this GPU; NULL: NICs do not reach it. */
static const struct br_region *on_gpu(const struct br_region *region, int lies_on, int gpu)
{
    return lies_on == gpu && region && region->gpu ? region : NULL;
}

/* Both are known to the same devices, which is all that NICs of a GPU differ in. 0: a buffer is not theirs. */
static uint32_t devices_of(const struct br_operation *op, int gpu)
{
    const struct br_region *send = on_gpu(op->send_region, op->send_gpu, gpu),
                           *recv = on_gpu(op->recv_region, op->recv_gpu, gpu);

    if ((op->send_bytes && !send) || (op->recv_bytes && !recv))
        return 0;
    return (send ? send->gpu->devices : UINT32_MAX) & (recv ? recv->gpu->devices : UINT32_MAX);
}

static bool may_combine(const struct br_engine *engine, const struct br_operation *op, int gpu)
{
    return engine->config.offload && op->fragments.plan->schedule->max_sources <= BR_GPU_SOURCES &&
           br_offload_reaches(engine->config.offload, gpu, op->send_gpu ? op->send : op->recv);
}

static bool goes_by(const struct br_engine *engine, const struct br_operation *op, const struct br_step *step,
                    uint32_t devices)
{
    const struct br_schedule *s = op->fragments.plan->schedule;
    size_t elements = br_run_elements(op, op->fragments.next);
    size_t length = br_piece_offset(elements, s->pieces, step->piece + step->span.count) -
                    br_piece_offset(elements, s->pieces, step->piece);
    int peer = br_group_in_job(op->group, (int)step->peer);

    return br_worker_goes_by(engine->worker, peer, devices) &&
           !br_transfer_is_eager(engine->worker, peer, (uint32_t)(length * br_type_size(op->type)));
}

static bool may_be_direct(const struct br_engine *engine, const struct br_operation *op, int gpu)
{
    const struct br_schedule *s = op->fragments.plan->schedule;
    uint32_t devices = gpu ? devices_of(op, gpu) : 0;
    bool reduces = false;

    if (!devices)
        return false;
    for (uint32_t i = 0; i < s->n_steps; i++) {
        const struct br_step *step = &s->steps[i];

        reduces |= step->kind == BR_STEP_REDUCE;
        if (step->kind <= BR_STEP_RECV && !goes_by(engine, op, step, devices))
            return false;
    }
    return !reduces || may_combine(engine, op, gpu);
}

void br_direct_run_begin(struct br_engine *engine, const struct br_operation *op, size_t scratch,
                         struct br_direct_run *direct)
{
    const struct br_engine_workspace *workspace = &engine->config.workspace;
    int gpu = op->send_gpu ? op->send_gpu : op->recv_gpu;

    *direct = (struct br_direct_run){.bytes = scratch};
    if (!may_be_direct(engine, op, gpu))
        return;
    if (scratch && workspace->take)
        direct->memory = workspace->take(workspace->context, gpu, scratch, &direct->region);
    if (!scratch || direct->memory)
        direct->gpu = gpu;
}

void br_direct_run_end(struct br_engine *engine, struct br_direct_run *direct)
{
    const struct br_engine_workspace *workspace = &engine->config.workspace;

    if (direct->memory)
        workspace->put(workspace->context, direct->gpu, direct->memory, direct->bytes);
    *direct = (struct br_direct_run){0};
}

/* ---- steps ------------------------------------------------------------------------------------ */

static void worked(struct br_engine *engine, struct br_batch *batch)
{
    if (!engine->worker->failed)
        br_run_reduced(engine, br_container_of(batch, struct br_run_step, batch));
}

static int combine(struct br_engine *engine, const struct br_run *run, const struct br_step *step)
{
    const struct br_source *sources = &run->schedule->sources[step->first_source];

    for (uint32_t i = 0; i < step->n_sources; i++)
        engine->sources[i] = br_run_place(run, &sources[i].span);
    return br_offload_combine(engine->config.offload, run->direct.gpu, run->op->type, run->op->reduction,
                              br_run_place(run, &step->span), engine->sources, (int)step->n_sources,
                              br_run_step_bytes(run, step),
                              step->flags & BR_STEP_FINAL ? run->op->group->size : 0);
}

void br_direct_run_step(struct br_engine *engine, struct br_run_step *rs)
{
    const struct br_run *run = rs->run;
    const struct br_step *step = &run->schedule->steps[rs - run->steps];
    const struct br_source *source = &run->schedule->sources[step->first_source];
    bool reduces = step->kind == BR_STEP_REDUCE;
    int rc = reduces ? combine(engine, run, step)
                     : br_copier_move(engine->config.copier, run->direct.gpu, br_run_place(run, &step->span),
                                      br_run_place(run, &source->span), br_run_step_bytes(run, step));

    if (rc)
        br_worker_fail(engine->worker, -rc, br_error_words());
    else
        br_stage_go(engine, &rs->batch, run->direct.gpu, reduces ? BR_COPY_REDUCTION : BR_COPY_TO_GPU,
                    worked);
}

bool br_direct_run_arrived(struct br_engine *engine, const struct br_run *run)
{
    int rc = br_direct_flush(run->direct.gpu);

    if (rc && !engine->worker->failed)
        br_worker_fail(engine->worker, -rc, br_error_words());
    return !engine->worker->failed;
}
