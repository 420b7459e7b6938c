/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of fragments: steps and scratch. It only grows, and what is pinned for a GPU is
 * unpinned at the end alone. The notes below are those of doc/design/engine.md. */
#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "collectives/engine/blocks.h"
#include "collectives/engine/gpu_memory.h"
#include "collectives/engine/internal.h"
#include "collectives/engine/staging.h"
#include "collectives/schedule/type.h"

#define SCRATCH_STEP (64u << 10)

int br_scratch_get(struct br_engine *engine, size_t bytes, uint8_t **memory,
                   struct br_region **region)
{
    void *at = NULL;
    int rc = 0;

    *region = NULL;
    if (engine->config.scratch_alloc)
        rc = engine->config.scratch_alloc(engine->config.scratch_context, bytes, &at, region);
    else if (!(at = aligned_alloc(4096, bytes)))
        rc = br_error(ENOMEM, "rank %d: no memory for %zu bytes of scratch", engine->config.rank,
                      bytes);
    *memory = rc ? NULL : at;
    return rc;
}

void br_scratch_release(struct br_engine *engine, uint8_t *memory, struct br_region *region,
                        int pinned)
{
    if (pinned > 0 &&
        !engine->config.gpu_memory->ops->unpin(engine->config.gpu_memory, pinned, memory))
        return; /* a GPU may write there yet */
    if (engine->config.scratch_free)
        engine->config.scratch_free(engine->config.scratch_context, memory, region);
    else
        free(memory);
}

void br_scratch_pin(struct br_engine *engine, void *memory, size_t bytes, int gpu, int *pinned)
{
    if (!*pinned)
        *pinned = engine->config.gpu_memory->ops->pin(engine->config.gpu_memory, gpu, memory, bytes)
                      ? gpu
                      : BR_NOT_PINNABLE;
}

static void forget_scratch(struct br_fragment *fragment)
{
    fragment->scratch = NULL;
    fragment->scratch_bytes = 0;
    fragment->scratch_region = NULL;
    fragment->scratch_pinned = 0;
}

static void free_scratch(struct br_engine *engine, struct br_fragment *fragment)
{
    if (fragment->scratch)
        br_scratch_release(engine, fragment->scratch, fragment->scratch_region,
                           fragment->scratch_pinned);
    forget_scratch(fragment);
}

/* Note 4. */
static int outgrow_scratch(struct br_engine *engine, struct br_fragment *fragment)
{
    int rc = br_staging_add_buffer(engine,
                                   &(struct br_staging_buffer){.memory = fragment->scratch,
                                                               .bytes = fragment->scratch_bytes,
                                                               .region = fragment->scratch_region,
                                                               .pinned = fragment->scratch_pinned});

    if (!rc)
        forget_scratch(fragment);
    return rc;
}

static size_t scratch_rounded(size_t scratch)
{
    return (scratch + SCRATCH_STEP - 1) / SCRATCH_STEP * SCRATCH_STEP;
}

static int grow_scratch(struct br_engine *engine, struct br_fragment *fragment, size_t bytes)
{
    int rc = 0;

    if (fragment->scratch_pinned > 0) {
        if (bytes < 2 * fragment->scratch_bytes)
            bytes = 2 * fragment->scratch_bytes;
        rc = outgrow_scratch(engine, fragment);
    } else {
        free_scratch(engine, fragment);
    }
    bytes = scratch_rounded(bytes);
    if (!rc)
        rc = br_scratch_get(engine, bytes, &fragment->scratch, &fragment->scratch_region);
    if (!rc)
        fragment->scratch_bytes = bytes;
    return rc;
}

static int grow_steps(struct br_engine *engine, struct br_fragment *fragment, uint32_t count)
{
    free(fragment->steps);
    fragment->max_steps = 0;
    fragment->steps = calloc(count, sizeof *fragment->steps);
    if (!fragment->steps)
        return br_error(ENOMEM, "rank %d: no memory for a schedule of %u steps",
                        engine->config.rank, count);
    fragment->max_steps = count;
    return 0;
}

/* Makes room for one of op. *grown: how many allocations it took. */
static int grow_fragment(struct br_engine *engine, struct br_fragment *fragment,
                         const struct br_operation *op, size_t scratch, uint64_t *grown)
{
    uint32_t steps = op->fragments.plan->schedule->n_steps;
    int gpu = op->send_gpu ? op->send_gpu : op->recv_gpu, rc = 0;

    if (steps > fragment->max_steps) {
        rc = grow_steps(engine, fragment, steps);
        ++*grown;
    }
    if (!rc && scratch > fragment->scratch_bytes) {
        rc = grow_scratch(engine, fragment, scratch);
        ++*grown;
    }
    if (!rc && gpu && scratch)
        br_scratch_pin(engine, fragment->scratch, fragment->scratch_bytes, gpu,
                       &fragment->scratch_pinned);
    return rc;
}

void br_fragment_destroy(struct br_engine *engine, struct br_fragment *fragment)
{
    free_scratch(engine, fragment);
    free(fragment->steps);
    fragment->steps = NULL;
}

int br_fragment_grow_sources(struct br_engine *engine, uint32_t count)
{
    const void **sources = realloc(engine->sources, count * sizeof *sources);

    if (!sources)
        return br_error(ENOMEM, "rank %d: no memory for %u sources", engine->config.rank, count);
    engine->sources = sources;
    engine->max_sources = count;
    return 0;
}

/* What the schedule needs for a fragment with blocks of so many elements. */
static size_t schedule_bytes(const struct br_operation *op, size_t elements)
{
    const struct br_schedule *s = op->fragments.plan->schedule;

    return br_piece_max(elements, s->pieces) * br_type_size(op->type) * s->n_scratch;
}

/* What is staged stands behind that. */
static size_t staged_bytes(const struct br_operation *op, size_t elements)
{
    return br_operation_is_staged(op) ? br_staging_fragment_bytes(op, elements) : 0;
}

/* The free run whose scratch fits best; where none is large enough, the one with the least. NULL:
 * there is none. */
static struct br_fragment *best_fitting_fragment(struct br_engine *engine, size_t scratch,
                                                 bool unreserved)
{
    struct br_fragment *best = NULL;

    br_list_for_each (node, &engine->free_fragments) {
        struct br_fragment *fragment = br_container_of(node, struct br_fragment, node);
        bool fits = fragment->scratch_bytes >= scratch;

        if (unreserved && fragment->reserved)
            continue;
        if (!best || (fits && best->scratch_bytes < scratch) ||
            (fits == (best->scratch_bytes >= scratch) &&
             fragment->scratch_bytes < best->scratch_bytes))
            best = fragment;
        if (fragment->scratch_bytes == scratch_rounded(scratch))
            break;
    }
    return best;
}

int br_fragment_get(struct br_engine *engine, const struct br_operation *op,
                    struct br_fragment **fragment)
{
    size_t elements = br_fragment_elements(op, op->fragments.next);
    size_t used = schedule_bytes(op, elements), scratch = used + staged_bytes(op, elements);

    *fragment = br_container_of(engine->free_fragments.next, struct br_fragment, node);
    if ((*fragment)->scratch_bytes != scratch_rounded(scratch)) /* mostly the last one's fits */
        *fragment = best_fitting_fragment(engine, scratch, false);
    br_list_remove(&(*fragment)->node);
    (*fragment)->elements = elements;
    (*fragment)->scratch_used = used;
    engine->n_free--;
    if (br_operation_is_staged(op))
        br_gpu_pipeline_begin(engine, op, used, &(*fragment)->pipeline);
    else if (op->fragments.plan->schedule->n_steps <= (*fragment)->max_steps &&
             scratch <= (*fragment)->scratch_bytes)
        return 0;
    return grow_fragment(engine, *fragment, op, (*fragment)->pipeline.gpu ? 0 : scratch,
                         &engine->late_allocations);
}

int br_fragment_reserve(struct br_engine *engine, const struct br_operation *op)
{
    uint32_t runs = op->fragments.count;
    size_t elements = br_fragment_elements(op, 0); /* no fragment is larger */
    size_t scratch = schedule_bytes(op, elements) + staged_bytes(op, elements);
    uint64_t grown = 0;
    int rc = 0;

    if (runs > br_admission_window(engine, op))
        runs = br_admission_window(engine, op);
    for (struct br_fragment *fragment;
         runs-- > 0 && !rc && (fragment = best_fitting_fragment(engine, scratch, true)) != NULL;) {
        rc = grow_fragment(engine, fragment, op, scratch, &grown);
        fragment->reserved = op;
    }
    return rc;
}

void br_engine_unreserve(struct br_engine *engine, const struct br_operation *op)
{
    for (uint32_t i = 0; i < engine->config.max_fragments; i++)
        if (engine->fragments[i].reserved == op)
            engine->fragments[i].reserved = NULL;
}
