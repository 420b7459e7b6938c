/* SPDX-License-Identifier: BSD-3-Clause */
/* Which fragment starts next: the most urgent ones, in a window, and always one of the oldest
 * operation. Why, and why ranks cannot wait for each other: doc/design/engine.md, whose numbers the
 * notes below are. */
#include "collectives/engine/internal.h"

#define LITTLE         (256u << 10)
#define PATHS          4u /* bandwidth-delay products that fragments under way may hold */
#define WINDOW         3u
#define WINDOW_STRIPED 9u /* the frames of the slowest rail arrive last */

static struct br_operation *of_waiting(struct br_list *node)
{
    return br_container_of(node, struct br_operation, fragments.waiting);
}

void br_admission_add(struct br_engine *engine, struct br_operation *op)
{
    struct br_list *behind = engine->waiting.prev;

    while (behind != &engine->waiting && (of_waiting(behind)->priority < op->priority ||
                                          (of_waiting(behind)->priority == op->priority &&
                                           of_waiting(behind)->order > op->order)))
        behind = behind->prev;
    br_list_insert_before(behind->next, &op->fragments.waiting);
    engine->may_start = true;
}

static struct br_operation *admission_oldest(const struct br_engine *engine)
{
    struct br_list *first = engine->collectives.next;

    return first == &engine->collectives ? NULL : br_container_of(first, struct br_operation, node);
}

/* Is one that comes later older than op? */
static bool admission_is_to_come(const struct br_engine *engine, const struct br_operation *op)
{
    return engine->expected < op->order;
}

void br_engine_set_oldest(struct br_engine *engine, uint64_t order)
{
    if (engine->expected == order)
        return;
    engine->expected = order;
    engine->may_start = true;
}

uint32_t br_admission_window(const struct br_engine *engine, const struct br_operation *op)
{
    const struct br_topology *topology = op->group->plan_cache.model->topology;
    bool cube = topology && topology->kind == BR_TOPOLOGY_BCUBE && op->collective == BR_ALLREDUCE;

    if (engine->config.window)
        return engine->config.window;
    if (engine->worker->several_rails)
        return WINDOW_STRIPED;
    return cube && op->fragments.count == BR_CUBE_FRAGMENTS ? BR_CUBE_FRAGMENTS : WINDOW;
}

/* On a long path a fragment spends most of its time on the way: bytes of fragments that start
 * beyond the window. All rails are looked at, once in a pass. */
static uint64_t path_bytes(struct br_engine *engine)
{
    if (!engine->path_bytes)
        engine->path_bytes =
            1 + br_worker_path_bytes(engine->worker) *
                    (engine->worker->several_rails ? PATHS * WINDOW_STRIPED / WINDOW : PATHS);
    return engine->path_bytes;
}

/* Note 1. */
static bool admission_has_scratch(struct br_engine *engine, const struct br_operation *op)
{
    size_t bytes = br_fragment_bytes(op, op->fragments.next);
    uint32_t runs = 0;

    if (engine->n_free == engine->config.max_fragments)
        return true;
    for (uint32_t i = 0; i < engine->config.max_fragments; i++) {
        const struct br_fragment *fragment = &engine->fragments[i];

        if (!fragment->op || fragment->op->group != op->group ||
            fragment->op->priority < op->priority)
            continue;
        bytes += br_fragment_bytes(fragment->op, fragment->index);
        runs++;
    }
    return runs < br_admission_window(engine, op) || bytes <= LITTLE ||
           (runs < engine->config.max_fragments / 2 && bytes <= path_bytes(engine));
}

/* One that waits for its view (epochs.h) will. */
static bool admission_needs_fragment(const struct br_operation *op)
{
    const struct br_operation_fragments *f = &op->fragments;

    return !f->running && (!f->plan || f->next < f->count);
}

/* Note 2. */
static bool may_start(struct br_engine *engine, const struct br_operation *op)
{
    const struct br_operation *first = admission_oldest(engine);
    bool keep = admission_is_to_come(engine, first) || admission_needs_fragment(first);

    if (keep && op == first && !admission_is_to_come(engine, first))
        return engine->n_free > 0;
    return engine->n_free > keep && admission_has_scratch(engine, op);
}

int br_admission_start(struct br_engine *engine)
{
    int n = 0;

    engine->may_start = false; /* a run that ends at once sets it again */
    engine->path_bytes = 0;
    br_list_for_each_safe (node, &engine->waiting) {
        struct br_operation *op = of_waiting(node);

        if (!engine->n_free) /* as one that ends says again (fragment_release()) */
            break;
        while (op->fragments.next < op->fragments.count && may_start(engine, op)) {
            if (engine->late_allocations != engine->grown_before) { /* note 3 */
                engine->may_start = true;
                return n;
            }
            if (op->fragments.next + 1 == op->fragments.count)
                br_list_remove(node);
            br_fragment_start(engine, op);
            n++;
        }
    }
    return n;
}
