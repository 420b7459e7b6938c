/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of messages and accesses. */
#include "base/error.h"
#include "collectives/engine/gpu_memory.h"
#include "collectives/engine/internal.h"
#include "collectives/engine/staging.h"

static struct br_staging *staged_of(struct br_operation *op, int i)
{
    return &op->parts.staging[i];
}

bool br_staging_part_get(struct br_engine *engine, struct br_operation *op, int i, int gpu)
{
    struct br_staging *s = staged_of(op, i);
    struct br_transfer *t = &op->parts.transfers[i];

    s->owner = op;
    s->user = t->memory;
    s->gpu = gpu;
    s->buffer = br_staging_get(engine, gpu, t->length);
    if (!s->buffer)
        return false;
    t->memory = s->buffer->memory;
    t->region = s->buffer->region;
    return true;
}

void br_staging_part_load(struct br_engine *engine, struct br_operation *op, int i, int gpu,
                          void (*then)(struct br_engine *, struct br_copy_batch *))
{
    struct br_staging *s = staged_of(op, i);
    struct br_transfer *t = &op->parts.transfers[i];

    if (!br_staging_part_get(engine, op, i, gpu))
        return;
    br_staging_copy(engine, gpu, BR_COPY_TO_HOST, t->memory, s->user, t->length);
    br_staging_submit(engine, &s->batch, gpu, BR_COPY_TO_HOST, then, NULL);
}

bool br_staging_part_store(struct br_engine *engine, struct br_operation *op, int i,
                           void (*then)(struct br_engine *, struct br_copy_batch *))
{
    struct br_staging *s = staged_of(op, i);
    struct br_transfer *t = &op->parts.transfers[i];

    if (!s->buffer)
        return false;
    br_staging_copy(engine, s->gpu, BR_COPY_TO_GPU, s->user, t->memory, t->length);
    br_staging_submit(engine, &s->batch, s->gpu, BR_COPY_TO_GPU, then, NULL);
    return true;
}

bool br_staging_part_flush(struct br_engine *engine, const struct br_operation *op,
                           const struct br_transfer *t)
{
    int rc = t->region && t->region->gpu
                 ? engine->config.gpu_memory->ops->flush(engine->config.gpu_memory, op->recv_gpu)
                 : 0;

    if (rc)
        br_worker_fail(engine->worker, -rc, br_error_message());
    return !rc;
}

void br_staging_parts_put(struct br_engine *engine, struct br_operation *op)
{
    for (int i = 0; i < BR_OPERATION_TRANSFERS; i++)
        br_staging_put(engine, staged_of(op, i));
}
