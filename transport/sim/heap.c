/* SPDX-License-Identifier: BSD-3-Clause */
/* The event heap: a binary heap by (time, order of insertion). */
#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "transport/sim/internal.h"

static bool heap_before(const struct br_sim_step *a, const struct br_sim_step *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

int br_sim_heap_push(struct br_sim_heap *heap, const struct br_sim_step *step)
{
    struct br_sim_step item = *step;
    uint32_t i = heap->count;

    if (heap->count == heap->capacity) {
        uint32_t capacity = heap->capacity ? 2 * heap->capacity : 256;
        struct br_sim_step *steps = realloc(heap->steps, capacity * sizeof *steps);

        if (!steps)
            return br_error(ENOMEM, "no memory for the simulator's events");
        heap->steps = steps;
        heap->capacity = capacity;
    }
    item.order = heap->order++;
    heap->count++;
    for (; i && heap_before(&item, &heap->steps[(i - 1) / 2]); i = (i - 1) / 2)
        heap->steps[i] = heap->steps[(i - 1) / 2];
    heap->steps[i] = item;
    return 0;
}

bool br_sim_heap_pop(struct br_sim_heap *heap, struct br_sim_step *out)
{
    struct br_sim_step last;
    uint32_t i = 0, child;

    if (!heap->count)
        return false;
    *out = heap->steps[0];
    last = heap->steps[--heap->count];
    while ((child = 2 * i + 1) < heap->count) {
        if (child + 1 < heap->count && heap_before(&heap->steps[child + 1], &heap->steps[child]))
            child++;
        if (!heap_before(&heap->steps[child], &last))
            break;
        heap->steps[i] = heap->steps[child];
        i = child;
    }
    heap->steps[i] = last;
    return true;
}
