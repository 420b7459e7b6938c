/* SPDX-License-Identifier: BSD-3-Clause */
/* What peers put to and get from in memory of a GPU that NICs do not reach: it goes through a
 * staging buffer, which a request holds from its begin to its end (doc/design/gpu_collectives.md,
 * "Staging"). */
#include <errno.h>
#include <stdlib.h>

#include "collectives/engine/internal.h"
#include "collectives/engine/staging.h"

/* A request that is served. */
struct stage_target {
    struct br_list node; /* in the engine's `targets`, or its free ones */
    struct br_staging staging;
    struct br_target *target; /* NULL: the worker has let go of it */
    struct br_region *owner;  /* its registered region */
};

static struct stage_target *staging_target_take(struct br_engine *engine)
{
    struct br_list *node = br_list_pop_front(&engine->free_targets);
    struct stage_target *st = node ? br_container_of(node, struct stage_target, node) : NULL;

    if (!st && (st = malloc(sizeof *st)))
        engine->late_allocations++;
    if (!st) {
        br_worker_fail(engine->worker, ENOMEM, "no memory to serve a put or get of a GPU's memory");
        return NULL;
    }
    *st = (struct stage_target){0};
    br_list_init(&st->node);
    br_list_init(&st->staging.batch.node);
    br_list_push_back(&engine->targets, &st->node);
    return st;
}

static void staging_target_give_back(struct br_engine *engine, struct stage_target *st)
{
    const struct br_worker_config *w = &engine->worker->config;

    w->region_done(w->region_context, st->owner);
    br_staging_put(engine, &st->staging);
    br_list_remove(&st->node);
    br_list_push_front(&engine->free_targets, &st->node);
}

static void staging_target_copied(struct br_engine *engine, struct br_copy_batch *batch)
{
    struct stage_target *st = br_container_of(batch, struct stage_target, staging.batch);

    if (!st->target) /* note 2 */
        staging_target_give_back(engine, st);
    else
        br_onesided_resume(engine->worker, st->target);
}

/* One that the worker has not let go of is done with soon. */
static void staging_target_copy_failed(struct br_engine *engine, struct br_copy_batch *batch)
{
    struct stage_target *st = br_container_of(batch, struct stage_target, staging.batch);

    if (!st->target)
        staging_target_give_back(engine, st);
}

static void staging_target_copy(struct br_engine *engine, struct stage_target *st,
                                enum br_copy_direction direction)
{
    const struct br_target *t = st->target;
    bool up = direction == BR_COPY_TO_GPU;

    br_staging_copy(engine, t->gpu, direction, up ? t->address : t->memory,
                    up ? t->memory : t->address, t->bytes);
    br_staging_submit(engine, &st->staging.batch, t->gpu, direction, staging_target_copied,
                      staging_target_copy_failed);
}

bool br_staging_target_begin(struct br_engine *engine, struct br_target *t)
{
    struct stage_target *st = staging_target_take(engine);

    if (!st)
        return false;
    st->target = t;
    st->owner = t->owner;
    t->staging = st;
    st->staging.buffer = br_staging_get(engine, t->gpu, t->bytes);
    if (!st->staging.buffer)
        return false;
    t->memory = st->staging.buffer->memory;
    t->region = st->staging.buffer->region;
    if (!t->arrives)
        staging_target_copy(engine, st, BR_COPY_TO_HOST);
    return t->arrives;
}

void br_staging_target_store(struct br_engine *engine, struct br_target *t)
{
    staging_target_copy(engine, t->staging, BR_COPY_TO_GPU);
}

void br_staging_target_done(struct br_engine *engine, struct br_target *t)
{
    struct stage_target *st = t->staging;

    st->target = NULL;
    if (br_list_empty(&st->staging.batch.node))
        staging_target_give_back(engine, st);
}

void br_staging_targets_destroy(struct br_engine *engine)
{
    br_list_for_each_safe (node, &engine->targets) {
        struct stage_target *st = br_container_of(node, struct stage_target, node);

        br_list_remove(&st->staging.batch.node);
        br_staging_put(engine, &st->staging);
        free(st);
    }
    br_list_for_each_safe (node, &engine->free_targets)
        free(br_container_of(node, struct stage_target, node));
}
