/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of runs: steps and scratch.
 *
 * 1. It only grows. A run takes what fits best, so operations of many sizes find what they had the time before.
 * 2. The first use of a page costs much: the kernel clears it, and in a virtual machine the host may have to find it first (64 MiB took
 *    20 to 180 ms). A persistent operation therefore has room reserved when it is made, for as many of its fragments as run at once,
 *    on top of what others have reserved, as all of them may run at once.
 * 3. Reserved room belongs to nobody: any fragment that it fits may take it.
 * 4. What is pinned for a GPU is unpinned at the end alone: that waits for the GPU, which may wait for this very worker (gpu/passage.h,
 *    note 7). Pinned scratch that has become too small is a buffer for messages from then on (stage.h, note 3), and what takes its
 *    place is twice as large at least, so that all that is outgrown is less than what is in use.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "collectives/engine_internal.h"
#include "collectives/stage.h"
#include "collectives/type.h"

#define SCRATCH_STEP (64u << 10)

int br_engine_take_memory(struct br_engine *engine, size_t bytes, uint8_t **memory, struct br_region **region)
{
    void *at = NULL;
    int rc = 0;

    *region = NULL;
    if (engine->config.scratch_alloc)
        rc = engine->config.scratch_alloc(engine->config.scratch_context, bytes, &at, region);
    else if (!(at = aligned_alloc(4096, bytes)))
        rc = br_error(ENOMEM, "rank %d: no memory for %zu bytes of scratch", engine->config.rank, bytes);
    *memory = rc ? NULL : at;
    return rc;
}

void br_engine_free_memory(struct br_engine *engine, uint8_t *memory, struct br_region *region, int pinned)
{
    if (pinned > 0 && !br_copier_unpin(engine->config.copier, pinned, memory))
        return; /* a GPU may write there yet */
    if (engine->config.scratch_free)
        engine->config.scratch_free(engine->config.scratch_context, memory, region);
    else
        free(memory);
}

void br_engine_pin(struct br_engine *engine, void *memory, size_t bytes, int gpu, int *pinned)
{
    if (!*pinned)
        *pinned = br_copier_pin(engine->config.copier, gpu, memory, bytes) ? gpu : BR_NOT_PINNABLE;
}

static void forget_scratch(struct br_run *run)
{
    run->scratch = NULL;
    run->scratch_bytes = 0;
    run->scratch_region = NULL;
    run->scratch_pinned = 0;
}

static void free_scratch(struct br_engine *engine, struct br_run *run)
{
    if (run->scratch)
        br_engine_free_memory(engine, run->scratch, run->scratch_region, run->scratch_pinned);
    forget_scratch(run);
}

/* Note 4. */
static int outgrow_scratch(struct br_engine *engine, struct br_run *run)
{
    int rc = br_stage_keep(engine, &(struct br_stage_buffer){.memory = run->scratch,
                                                             .bytes = run->scratch_bytes,
                                                             .region = run->scratch_region,
                                                             .pinned = run->scratch_pinned});

    if (!rc)
        forget_scratch(run);
    return rc;
}

static size_t rounded(size_t scratch)
{
    return (scratch + SCRATCH_STEP - 1) / SCRATCH_STEP * SCRATCH_STEP;
}

static int grow_scratch(struct br_engine *engine, struct br_run *run, size_t bytes)
{
    int rc = 0;

    if (run->scratch_pinned > 0) {
        if (bytes < 2 * run->scratch_bytes)
            bytes = 2 * run->scratch_bytes;
        rc = outgrow_scratch(engine, run);
    } else {
        free_scratch(engine, run);
    }
    bytes = rounded(bytes);
    if (!rc)
        rc = br_engine_take_memory(engine, bytes, &run->scratch, &run->scratch_region);
    if (!rc)
        run->scratch_bytes = bytes;
    return rc;
}

static int grow_steps(struct br_engine *engine, struct br_run *run, uint32_t count)
{
    free(run->steps);
    run->max_steps = 0;
    run->steps = calloc(count, sizeof *run->steps);
    if (!run->steps)
        return br_error(ENOMEM, "rank %d: no memory for a schedule of %u steps", engine->config.rank, count);
    run->max_steps = count;
    return 0;
}

/* *grown: how many allocations it took. */
static int fit(struct br_engine *engine, struct br_run *run, const struct br_operation *op, size_t scratch,
               uint64_t *grown)
{
    uint32_t steps = op->fragments.plan->schedule->n_steps;
    int gpu = op->send_gpu ? op->send_gpu : op->recv_gpu, rc = 0;

    if (steps > run->max_steps) {
        rc = grow_steps(engine, run, steps);
        ++*grown;
    }
    if (!rc && scratch > run->scratch_bytes) {
        rc = grow_scratch(engine, run, scratch);
        ++*grown;
    }
    if (!rc && gpu && scratch)
        br_engine_pin(engine, run->scratch, run->scratch_bytes, gpu, &run->scratch_pinned);
    return rc;
}

void br_run_destroy(struct br_engine *engine, struct br_run *run)
{
    free_scratch(engine, run);
    free(run->steps);
    run->steps = NULL;
}

int br_run_reserve_sources(struct br_engine *engine, uint32_t count)
{
    const void **sources;

    if (count <= engine->max_sources)
        return 0;
    sources = realloc(engine->sources, count * sizeof *sources);
    if (!sources)
        return br_error(ENOMEM, "rank %d: no memory for %u sources", engine->config.rank, count);
    engine->sources = sources;
    engine->max_sources = count;
    return 0;
}

/* What the schedule needs. */
static size_t schedule_bytes(const struct br_operation *op, uint32_t fragment)
{
    const struct br_schedule *s = op->fragments.plan->schedule;

    return br_piece_room(br_run_elements(op, fragment), s->pieces) * br_type_size(op->type) * s->n_scratch;
}

static size_t scratch_bytes(const struct br_operation *op, uint32_t fragment)
{
    return schedule_bytes(op, fragment) + br_stage_run_bytes(op, br_run_elements(op, fragment));
}

/* The free run whose scratch fits best; where none is large enough, the one with the least. NULL: there is none. Mostly it is
 * the first one, which the operation before had. */
static struct br_run *best_fit(struct br_engine *engine, size_t scratch, bool unreserved)
{
    struct br_run *best = NULL;

    br_list_for_each (node, &engine->free_runs) {
        struct br_run *run = br_container_of(node, struct br_run, node);
        bool fits = run->scratch_bytes >= scratch;

        if (unreserved && run->reserved)
            continue;
        if (!best || (fits && best->scratch_bytes < scratch) ||
            (fits == (best->scratch_bytes >= scratch) && run->scratch_bytes < best->scratch_bytes))
            best = run;
        if (run->scratch_bytes == rounded(scratch))
            break;
    }
    return best;
}

int br_run_take(struct br_engine *engine, const struct br_operation *op, struct br_run **run)
{
    size_t scratch = scratch_bytes(op, op->fragments.next);

    *run = best_fit(engine, scratch, false);
    br_list_remove(&(*run)->node);
    (*run)->scratch_used = schedule_bytes(op, op->fragments.next);
    br_direct_run_begin(engine, op, (*run)->scratch_used, &(*run)->direct);
    engine->n_free--;
    return fit(engine, *run, op, (*run)->direct.gpu ? 0 : scratch, &engine->late_allocations);
}

int br_run_reserve(struct br_engine *engine, const struct br_operation *op)
{
    uint32_t runs = op->fragments.count;
    size_t scratch = scratch_bytes(op, 0); /* no fragment is larger */
    uint64_t grown = 0;
    int rc = 0;

    if (runs > engine->config.window)
        runs = engine->config.window;
    for (struct br_run *run; runs-- > 0 && !rc && (run = best_fit(engine, scratch, true)) != NULL;) {
        rc = fit(engine, run, op, scratch, &grown);
        run->reserved = op;
    }
    return rc;
}

void br_engine_unreserve(struct br_engine *engine, const struct br_operation *op)
{
    for (uint32_t i = 0; i < engine->config.max_runs; i++)
        if (engine->runs[i].reserved == op)
            engine->runs[i].reserved = NULL;
}
