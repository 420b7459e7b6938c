/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue of a peer, sorted by priority, submission and step of the operation: what leaves next.
 * No priority starves. doc/design/priorities.md says how, and what was rejected.
 *
 * A queue belongs to one worker. It owns no entry: the caller embeds struct br_queued in what it
 * queues and keeps that alive while it is queued. No function fails or allocates.
 */
#ifndef BR_PROTOCOL_QUEUE_H
#define BR_PROTOCOL_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

/* Embedded in what is queued. */
struct br_queued {
    struct br_list node, age;
    int32_t priority; /* larger is more urgent */
    uint64_t order;   /* submission order of the operation in this process */
    uint64_t within;  /* of one operation, the one with less goes first */
    uint64_t served;  /* when a frame of it left last, or when it was queued, ns */
    /* Only of the first entry of its priority, which alone is in `age`: when a frame of that
     * priority left last, ns. */
    uint64_t priority_served;
    struct br_queue *queue; /* set while in one */
};

struct br_queue {
    struct br_list entries, age;
};

void br_queue_init(struct br_queue *queue);
static inline void br_queued_init(struct br_queued *item, int32_t priority, uint64_t order,
                                  uint64_t within)
{
    br_list_init(&item->node);
    br_list_init(&item->age);
    item->priority = priority;
    item->order = order;
    item->within = within;
    item->served = 0;
}
/* item is in no queue. now: ns; the item's wait begins. */
void br_queue_insert(struct br_queue *queue, struct br_queued *item, uint64_t now);
void br_queue_remove(struct br_queued *item); /* allowed when it is not queued */
/* The most urgent entry, or NULL. */
static inline struct br_queued *br_queue_first(const struct br_queue *queue)
{
    return br_list_empty(&queue->entries)
               ? NULL
               : br_container_of(queue->entries.next, struct br_queued, node);
}
/* The first entry of the priority that has waited longest, if it has waited longer than `bound` ns;
 * else NULL. */
static inline struct br_queued *br_queue_starved(const struct br_queue *queue, uint64_t now,
                                                 uint64_t bound)
{
    struct br_queued *oldest = br_container_of(queue->age.next, struct br_queued, age);
    bool waits = !br_list_empty(&queue->age) && now > oldest->priority_served;

    return waits && now - oldest->priority_served > bound ? oldest : NULL;
}
/* A frame of item has left, possibly its last one: the wait of its priority begins anew. The item
 * is still queued. */
void br_queue_served(struct br_queued *item, uint64_t now);

static inline int br_queued_before(const struct br_queued *a, const struct br_queued *b)
{
    if (a->priority != b->priority)
        return a->priority > b->priority;
    return a->order != b->order ? a->order < b->order : a->within < b->within;
}

#endif
