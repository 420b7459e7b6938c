/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations on the shared segment: the whole of the user's memory, a few KiB, in one buffer: [what
 * is read | what is written]. */
#include "collectives/engine/internal.h"
#include "collectives/engine/staging.h"

static void staging_shm_give_back(struct br_engine *engine, struct br_operation *op)
{
    op->send = op->shm_staging.send;
    op->recv = op->shm_staging.recv;
    br_staging_put(engine, &op->shm_staging);
}

static void staging_shm_load_failed(struct br_engine *engine, struct br_copy_batch *batch)
{
    struct br_operation *op = br_container_of(batch, struct br_operation, shm_staging.batch);

    op->shm_staging.lost = true;
    if (!op->shm_staging.has_ended)
        return;
    staging_shm_give_back(engine, op);
    br_list_push_back(engine->config.ended, &op->node);
}

static bool staging_shm_copies(const struct br_operation *op)
{
    return !br_list_empty(&op->shm_staging.batch.node);
}

bool br_staging_shm_begin(struct br_engine *engine, struct br_operation *op)
{
    struct br_staging *s = &op->shm_staging;
    size_t behind =
        (op->send_bytes + BR_STAGING_ALIGNMENT - 1) / BR_STAGING_ALIGNMENT * BR_STAGING_ALIGNMENT;

    s->send = op->send;
    s->recv = op->recv;
    s->has_ended = s->lost = false;
    br_list_init(&s->batch.node);
    s->buffer =
        br_staging_get(engine, op->send_gpu ? op->send_gpu : op->recv_gpu, behind + op->recv_bytes);
    if (!s->buffer)
        return false;
    if (op->recv_gpu && op->recv_bytes)
        op->recv = s->buffer->memory + behind;
    if (!op->send_gpu || !op->send_bytes)
        return true;
    op->send = s->buffer->memory;
    br_staging_copy(engine, op->send_gpu, BR_COPY_TO_HOST, s->buffer->memory, s->send,
                    op->send_bytes);
    br_staging_submit(engine, &s->batch, op->send_gpu, BR_COPY_TO_HOST, NULL,
                      staging_shm_load_failed);
    return true;
}

bool br_staging_shm_ready(const struct br_operation *op)
{
    return !op->shm_staging.buffer || (!staging_shm_copies(op) && !op->shm_staging.lost);
}

int br_staging_shm_gpu(const struct br_operation *op)
{
    bool has_one = op->shm_staging.buffer || op->shm_role == BR_SHM_ROLE_GPU_LOCAL;

    return has_one && op->shm_staging.batch.copy.event ? op->shm_staging.batch.copy.gpu : 0;
}

static void staging_shm_stored(struct br_engine *engine, struct br_copy_batch *batch)
{
    struct br_operation *op = br_container_of(batch, struct br_operation, shm_staging.batch);

    staging_shm_give_back(engine, op);
    br_list_remove(&op->node);
    br_list_push_back(engine->config.ended, &op->node);
}

static void staging_shm_store_failed(struct br_engine *engine, struct br_copy_batch *batch)
{
    struct br_operation *op = br_container_of(batch, struct br_operation, shm_staging.batch);

    if (!op->status)
        br_operation_fail(engine, op);
    staging_shm_stored(engine, batch);
}

static void staging_shm_store(struct br_engine *engine, struct br_operation *op)
{
    struct br_staging *s = &op->shm_staging;

    br_list_push_back(&engine->storing, &op->node);
    br_deadline_expect(engine, op);
    br_staging_copy(engine, op->recv_gpu, BR_COPY_TO_GPU, s->recv, op->recv, op->recv_bytes);
    br_staging_submit(engine, &s->batch, op->recv_gpu, BR_COPY_TO_GPU, staging_shm_stored,
                      staging_shm_store_failed);
}

bool br_staging_shm_end(struct br_engine *engine, struct br_operation *op)
{
    bool copies = staging_shm_copies(op);

    if (!copies && (op->status || !op->recv_gpu || !op->recv_bytes)) {
        staging_shm_give_back(engine, op);
        return false;
    }
    op->shm_staging.has_ended = true;
    br_list_init(&op->node);
    if (!copies)
        staging_shm_store(engine, op);
    return true;
}
