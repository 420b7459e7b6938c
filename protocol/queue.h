/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The priority queue of a peer: what leaves next.
 *
 * 1. Order: (priority, submission, step of the operation). The head is asked again for every frame,
 *    so something more urgent overtakes at the next frame boundary: that is the preemption, and
 *    nothing else is needed for it.
 * 2. No priority starves: one of which nothing has left for longer than the bound goes first, once,
 *    and then waits for its turn again. Its first entry goes. A second list, of the first entries
 *    in order of their last turn, finds it without a search. Rejected: a turn for each entry that
 *    has waited as long. Of a hundred equal transfers on a slow link each then got a frame in turn,
 *    and all ended together, at the end, instead of one after another. Who serves several queues
 *    asks each for its starved one before it compares their first ones. Rejected: one head, starved
 *    or first. A starved low one then hid the urgent ones behind it from the comparison with other
 *    queues, and lost that comparison itself.
 * 3. A sorted list, filled from the back: entries are few (the engine bounds fragments in flight)
 *    and mostly arrive in order. Rejected: a heap, which needs a capacity, or a bucket a priority,
 *    which needs a bound on priorities.
 */
#ifndef BR_PROTOCOL_QUEUE_H
#define BR_PROTOCOL_QUEUE_H

#include <stdint.h>

#include "base/list.h"

/* Embedded in what is queued. */
struct br_queued {
    struct br_list node, age;
    int32_t priority; /* larger is more urgent */
    uint64_t order;   /* submission order of the operation in this process */
    uint64_t within;  /* of one operation, the one with less goes first */
    uint64_t served;  /* when a frame of it left last, or when it was queued, ns */
    /* of the first of its priority, which alone is in `age`: when a frame of the priority left
     * last, ns */
    uint64_t priority_served;
    struct br_queue *queue; /* set while in one */
};

struct br_queue {
    struct br_list entries, age;
};

void br_queue_init(struct br_queue *queue);
void br_queued_init(struct br_queued *item, int32_t priority, uint64_t order, uint64_t within);
void br_queue_insert(struct br_queue *queue, struct br_queued *item, uint64_t now);
void br_queue_remove(struct br_queued *item); /* safe when not queued */
/* The most urgent entry, or NULL. */
struct br_queued *br_queue_first(const struct br_queue *queue);
/* The first entry of the priority that has waited longest, if that is longer than `bound` ns; else
 * NULL. */
struct br_queued *br_queue_starved(const struct br_queue *queue, uint64_t now, uint64_t bound);
/* A frame of item has left, its last one too: it is still queued. The wait of its priority begins
 * anew. */
void br_queue_served(struct br_queued *item, uint64_t now);

static inline int br_queued_before(const struct br_queued *a, const struct br_queued *b)
{
    if (a->priority != b->priority)
        return a->priority > b->priority;
    return a->order != b->order ? a->order < b->order : a->within < b->within;
}

#endif
