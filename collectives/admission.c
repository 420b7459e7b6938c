/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which fragment gets a run.
 *
 * 1. In the order (priority, order, fragment), at most `window` runs for one operation, so that the runs
 *    do not all go to the first large operation.
 * 2. Ranks see priorities at different moments, so they may have started different operations, each
 *    waiting for the other's runs to come free. Therefore a run is kept for the oldest operation whenever
 *    it has none. Take the oldest operation that any rank has not finished, and of it the first fragment
 *    that any rank has not finished: on every rank that has not finished it, this operation is the oldest
 *    one, and the fragments before are through; so the fragment has a run or gets the one kept. It ends,
 *    and so does everything in turn.
 *    Over several communicators the same holds, as `order` counts the operations of all of them, and programs
 *    keep one order over all (braid.h).
 * 3. A run owns its steps and its scratch, so it has all it needs from the start or does not start.
 */
#include "collectives/engine_internal.h"

static struct br_operation *of_waiting(struct br_list *node)
{
    return br_container_of(node, struct br_operation, fragments.waiting);
}

void br_admission_add(struct br_engine *engine, struct br_operation *op)
{
    struct br_list *behind = engine->waiting.prev;

    while (behind != &engine->waiting && of_waiting(behind)->priority < op->priority)
        behind = behind->prev;
    br_list_insert_before(behind->next, &op->fragments.waiting);
    engine->may_start = true;
}

static struct br_operation *oldest(const struct br_engine *engine)
{
    if (br_list_empty(&engine->collectives))
        return NULL;
    return br_container_of(engine->collectives.next, struct br_operation, node);
}

void br_admission_oldest(struct br_engine *engine)
{
    const struct br_operation *op = oldest(engine);

    engine->worker->oldest = op ? op->order : 0;
}

/* Note 2. */
static bool may_start(const struct br_engine *engine, const struct br_operation *op)
{
    const struct br_operation *first = oldest(engine);
    bool keep = first->fragments.next < first->fragments.count && !first->fragments.running;

    return op->fragments.running < engine->config.window && engine->n_free > (op == first || !keep ? 0u : 1u);
}

int br_admission_start(struct br_engine *engine)
{
    int n = 0;

    if (!engine->may_start)
        return 0;
    engine->may_start = false; /* a run that ends at once sets it again */
    br_list_for_each_safe (node, &engine->waiting) {
        struct br_operation *op = of_waiting(node);

        while (op->fragments.next < op->fragments.count && may_start(engine, op) && !engine->worker->failed) {
            if (op->fragments.next + 1 == op->fragments.count)
                br_list_remove(node);
            br_run_start(engine, op);
            n++;
        }
    }
    return n;
}
