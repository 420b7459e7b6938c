/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/engine/staging.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "collectives/engine/gpu_memory.h"
#include "collectives/engine/internal.h"

#define LEAST_BUFFER (64u << 10)

void br_staging_init(struct br_engine *engine)
{
    br_list_init(&engine->copying);
    br_list_init(&engine->free_buffers);
    br_list_init(&engine->targets);
    br_list_init(&engine->free_targets);
    br_list_init(&engine->free_reductions);
    for (int i = 0; i < BR_STAGING_REDUCTIONS; i++)
        br_list_push_back(&engine->free_reductions, &engine->reductions[i].batch.node);
}

static void free_buffer(struct br_engine *engine, struct br_staging_buffer *buffer)
{
    br_scratch_release(engine, buffer->memory, buffer->region, buffer->pinned);
    free(buffer);
}

void br_staging_destroy(struct br_engine *engine)
{
    struct br_list *node;

    br_staging_targets_destroy(engine);
    while ((node = br_list_pop_front(&engine->free_buffers)))
        free_buffer(engine, br_container_of(node, struct br_staging_buffer, node));
}

/* ---- copies ---------------------------------------------------------------------------------- */

static void staging_failed(struct br_engine *engine, int rc)
{
    br_worker_fail(engine->worker, -rc, br_error_message());
}

bool br_staging_copy(struct br_engine *engine, int gpu, enum br_copy_direction direction, void *to,
                     const void *from, size_t bytes)
{
    int rc = engine->config.gpu_memory->ops->copy(engine->config.gpu_memory, gpu, direction, to,
                                                  from, bytes);

    if (rc)
        staging_failed(engine, rc);
    return !rc;
}

void br_staging_submit(struct br_engine *engine, struct br_copy_batch *batch, int gpu,
                       enum br_copy_direction direction,
                       void (*then)(struct br_engine *, struct br_copy_batch *),
                       void (*given_up)(struct br_engine *, struct br_copy_batch *))
{
    int rc = engine->config.gpu_memory->ops->mark(engine->config.gpu_memory, gpu, direction,
                                                  &batch->copy);

    batch->direction = direction;
    batch->then = then;
    batch->given_up = given_up;
    br_list_push_back(&engine->copying, &batch->node);
    if (rc) /* with no event it is through at the next look, and finds the worker failed */
        staging_failed(engine, rc);
}

bool br_staging_busy(const struct br_engine *engine)
{
    return !br_list_empty(&engine->copying);
}

/* Note 6. */
static bool staging_timed_out(struct br_engine *engine, uint64_t now)
{
    if (!engine->worker->failed || !br_staging_busy(engine))
        return false;
    if (!engine->copies_until)
        engine->copies_until = now + BR_STAGING_TIMEOUT_NS;
    if (now < engine->copies_until)
        return false;
    br_log_error("copies of a GPU do not end: it counts as lost");
    return true;
}

int br_staging_poll(struct br_engine *engine, uint64_t now)
{
    /* GPUs whose stream of that direction has said "not yet" */
    uint64_t pending[BR_COPY_DIRECTIONS] = {0};
    bool lost = staging_timed_out(engine, now);
    int n = 0;

    br_list_for_each_safe (node, &engine->copying) {
        struct br_copy_batch *batch = br_container_of(node, struct br_copy_batch, node);
        void (*ended)(struct br_engine *, struct br_copy_batch *);
        uint64_t bit = batch->copy.event ? 1ull << (batch->copy.gpu - 1) : 0;
        int rc =
            pending[batch->direction] & bit
                ? 0
                : engine->config.gpu_memory->ops->done(engine->config.gpu_memory, &batch->copy);

        if (rc == 0 && !lost) {
            pending[batch->direction] |= bit;
            continue;
        }
        if (rc < 0)
            staging_failed(engine, rc);
        engine->config.gpu_memory->ops->forget(engine->config.gpu_memory, &batch->copy);
        br_list_remove(&batch->node);
        ended = engine->worker->failed ? batch->given_up : batch->then;
        if (ended)
            ended(engine, batch);
        n++;
    }
    return n;
}

/* ---- buffers --------------------------------------------------------------------------------- */

static struct br_staging_buffer *staging_best_fit(struct br_engine *engine, size_t bytes)
{
    struct br_staging_buffer *best = NULL;

    br_list_for_each (node, &engine->free_buffers) {
        struct br_staging_buffer *buffer = br_container_of(node, struct br_staging_buffer, node);

        if (buffer->bytes >= bytes && (!best || buffer->bytes < best->bytes))
            best = buffer;
    }
    return best;
}

static struct br_staging_buffer *make_buffer(struct br_engine *engine, size_t bytes)
{
    struct br_staging_buffer *buffer = calloc(1, sizeof *buffer);
    size_t room = LEAST_BUFFER;
    int rc;

    while (room < bytes)
        room *= 2;
    rc = buffer ? br_scratch_get(engine, room, &buffer->memory, &buffer->region)
                : br_error(ENOMEM, "rank %d: no memory for a buffer of a GPU's memory",
                           engine->config.rank);
    if (rc) {
        staging_failed(engine, rc);
        free(buffer);
        return NULL;
    }
    buffer->bytes = room;
    br_list_init(&buffer->node);
    engine->late_allocations++;
    return buffer;
}

int br_staging_add_buffer(struct br_engine *engine, const struct br_staging_buffer *memory)
{
    struct br_staging_buffer *buffer = malloc(sizeof *buffer);

    if (!buffer)
        return br_error(ENOMEM, "rank %d: no memory for a buffer of a GPU's memory",
                        engine->config.rank);
    *buffer = *memory;
    br_list_push_back(&engine->free_buffers, &buffer->node);
    return 0;
}

struct br_staging_buffer *br_staging_get(struct br_engine *engine, int gpu, size_t bytes)
{
    struct br_staging_buffer *buffer = staging_best_fit(engine, bytes);

    if (buffer)
        br_list_remove(&buffer->node);
    else
        buffer = make_buffer(engine, bytes);
    if (buffer)
        br_scratch_pin(engine, buffer->memory, buffer->bytes, gpu, &buffer->pinned);
    return buffer;
}

void br_staging_put(struct br_engine *engine, struct br_staging *staged)
{
    if (staged->buffer)
        br_list_push_front(&engine->free_buffers, &staged->buffer->node);
    staged->buffer = NULL;
}
