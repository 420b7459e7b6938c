/* SPDX-License-Identifier: BSD-3-Clause */
/* The steps by (time, order of insertion): the next ones in a row, and a heap of all others. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "transport/sim/internal.h"

#define HEAP_WAYS  4u
#define HEAP_FIRST 256u
#define CACHE_LINE 64u

static uint32_t heap_place(const struct br_sim_key *key)
{
    return key->order_place & ((1u << BR_SIM_PLACE_BITS) - 1);
}

static bool heap_before(const struct br_sim_key *a, const struct br_sim_key *b)
{
    return a->at != b->at ? a->at < b->at : a->order_place < b->order_place;
}

static int heap_grow(struct br_sim_heap *heap)
{
    uint32_t capacity = heap->capacity ? 2 * heap->capacity : HEAP_FIRST;
    struct br_sim_step *steps = NULL;
    struct br_sim_key *memory = NULL;

    if (capacity <= 1u << BR_SIM_PLACE_BITS)
        memory = aligned_alloc(CACHE_LINE, (capacity + HEAP_WAYS) * sizeof *memory);
    if (memory)
        steps = realloc(heap->steps, capacity * sizeof *steps);
    if (!steps) {
        free(memory);
        return br_error(ENOMEM, "no memory for the simulator's events");
    }
    if (heap->count)
        memcpy(memory + HEAP_WAYS - 1, heap->keys, heap->count * sizeof *memory);
    free(heap->memory);
    heap->memory = memory;
    heap->keys = memory + HEAP_WAYS - 1;
    heap->steps = steps;
    for (uint32_t i = heap->capacity; i < capacity; i++)
        heap->keys[i].order_place = i;
    heap->capacity = capacity;
    return 0;
}

static int heap_insert(struct br_sim_heap *heap, const struct br_sim_step *step, uint64_t order)
{
    struct br_sim_key key = {.at = step->at};
    uint32_t i = heap->count, place;

    if (heap->count == heap->capacity && heap_grow(heap))
        return -ENOMEM;
    place = heap_place(&heap->keys[heap->count++]);
    heap->steps[place] = *step;
    key.order_place = order << BR_SIM_PLACE_BITS | place;
    for (; i && heap_before(&key, &heap->keys[(i - 1) / HEAP_WAYS]); i = (i - 1) / HEAP_WAYS)
        heap->keys[i] = heap->keys[(i - 1) / HEAP_WAYS];
    heap->keys[i] = key;
    return 0;
}

/* The entry that goes up where `i` was taken out; `count` or more: there is none below it. */
static uint32_t heap_least_below(const struct br_sim_heap *heap, uint32_t i)
{
    uint32_t first = HEAP_WAYS * i + 1, least = first;

    for (uint32_t k = first + 1; k < first + HEAP_WAYS && k < heap->count; k++)
        if (heap_before(&heap->keys[k], &heap->keys[least]))
            least = k;
    return least;
}

/* Of a heap that is not empty. */
static struct br_sim_next heap_take(struct br_sim_heap *heap)
{
    struct br_sim_key first = heap->keys[0], last = heap->keys[--heap->count];
    uint32_t i = 0, below, place = heap_place(&first);

    while ((below = heap_least_below(heap, i)) < heap->count &&
           heap_before(&heap->keys[below], &last)) {
        heap->keys[i] = heap->keys[below];
        i = below;
    }
    heap->keys[i] = last;
    heap->keys[heap->count].order_place = place;
    if (heap->count)
        __builtin_prefetch(&heap->steps[heap_place(&heap->keys[0])]);
    return (struct br_sim_next){heap->steps[place], first.order_place >> BR_SIM_PLACE_BITS};
}

static struct br_sim_next *heap_front(struct br_sim_heap *heap, uint32_t i)
{
    return &heap->front[(heap->front_head + i) % BR_SIM_FRONT];
}

int br_sim_heap_push(struct br_sim_heap *heap, const struct br_sim_step *step)
{
    uint32_t i = heap->front_count;
    uint64_t order = heap->order++;

    if (!i || step->at >= heap_front(heap, i - 1)->step.at)
        return heap_insert(heap, step, order);
    if (i == BR_SIM_FRONT) { /* the last of them makes room */
        const struct br_sim_next *last = heap_front(heap, --i);

        if (heap_insert(heap, &last->step, last->order))
            return -ENOMEM;
        heap->front_count--;
    }
    for (; i && step->at < heap_front(heap, i - 1)->step.at; i--)
        *heap_front(heap, i) = *heap_front(heap, i - 1);
    *heap_front(heap, i) = (struct br_sim_next){*step, order};
    heap->front_count++;
    return 0;
}

bool br_sim_heap_pop(struct br_sim_heap *heap, struct br_sim_step *out)
{
    while (heap->count && heap->front_count < BR_SIM_FRONT)
        *heap_front(heap, heap->front_count++) = heap_take(heap);
    if (!heap->front_count)
        return false;
    *out = heap_front(heap, 0)->step;
    heap->front_head++;
    heap->front_count--;
    return true;
}

/* The frame of the i-th of the next steps, or NULL. */
static const struct br_sim_frame *front_frame(struct br_sim_heap *heap, uint32_t i)
{
    return i < heap->front_count ? heap_front(heap, i)->step.frame : NULL;
}

/* The end of the frame's link that hears of the step, or NULL. */
static const struct br_sim_link *front_link(const struct br_sim_step *step)
{
    if (!step->frame || step->kind == BR_SIM_AT_SWITCH)
        return NULL;
    return step->frame->connection->link[step->frame->from ^ (step->kind == BR_SIM_ARRIVE)];
}

void br_sim_heap_fetch(struct br_sim *sim)
{
    /* How many steps before its turn: each thing when what points to it has come. */
    enum { FRAME = 24, CONNECTION = 19, PORTS = 14, OWNER = 9, HOST = 4 };
    struct br_sim_heap *heap = &sim->heap;
    const struct br_sim_frame *frame = front_frame(heap, FRAME);
    const struct br_sim_link *link;

    if (frame)
        br_sim_fetch(frame, sizeof *frame);
    frame = front_frame(heap, CONNECTION);
    if (frame)
        br_sim_fetch(frame->connection, sizeof *frame->connection);
    frame = front_frame(heap, PORTS);
    if (frame) {
        br_sim_fetch(frame->connection->port[0], offsetof(struct br_sim_port, devices));
        br_sim_fetch(frame->connection->port[1], offsetof(struct br_sim_port, devices));
        link = front_link(&heap_front(heap, PORTS)->step);
        if (link) {
            br_sim_fetch(&link->base, CACHE_LINE);
            br_sim_fetch(&link->connection, offsetof(struct br_sim_link, closed) -
                                                offsetof(struct br_sim_link, connection));
        }
    }
    frame = front_frame(heap, OWNER);
    if (frame) {
        br_sim_fetch(frame->connection->port[0]->host, sizeof(struct br_sim_host));
        br_sim_fetch(frame->connection->port[1]->host, sizeof(struct br_sim_host));
        link = front_link(&heap_front(heap, OWNER)->step);
        if (link && link->base.owner)
            br_sim_fetch(link->base.owner, CACHE_LINE);
    }
    frame = front_frame(heap, HOST);
    if (frame && sim->config.soon) {
        link = front_link(&heap_front(heap, HOST)->step);
        if (link)
            sim->config.soon(sim->config.soon_context,
                             frame->connection->port[link->end]->host->number, &link->base);
    }
}
