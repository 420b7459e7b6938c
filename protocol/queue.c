/* SPDX-License-Identifier: BSD-3-Clause */
#include "protocol/queue.h"

void br_queue_init(struct br_queue *queue)
{
    br_list_init(&queue->entries);
    br_list_init(&queue->age);
}

/* What is at `node`, if it has that priority; else NULL. */
static struct br_queued *equal_at(const struct br_queue *queue, const struct br_list *node,
                                  int32_t priority)
{
    struct br_queued *item = br_container_of(node, struct br_queued, node);

    return node != &queue->entries && item->priority == priority ? item : NULL;
}

/* `heir` is the first of its priority in place of `first`. */
static void queue_promote_next(struct br_queued *first, struct br_queued *heir)
{
    heir->priority_served = first->priority_served;
    br_list_insert_before(&first->age, &heir->age);
    br_list_remove(&first->age);
}

void br_queue_insert(struct br_queue *queue, struct br_queued *item, uint64_t now)
{
    struct br_list *behind = queue->entries.prev;
    struct br_queued *next;

    while (behind != &queue->entries &&
           br_queued_before(item, br_container_of(behind, struct br_queued, node)))
        behind = behind->prev;
    br_list_insert_before(behind->next, &item->node);
    item->queue = queue;
    item->served = item->priority_served = now;
    if (equal_at(queue, behind, item->priority))
        return;
    next = equal_at(queue, item->node.next, item->priority);
    if (next)
        queue_promote_next(next, item);
    else
        br_list_push_back(&queue->age, &item->age);
}

void br_queue_remove(struct br_queued *item)
{
    struct br_queued *next =
        br_list_empty(&item->age) ? NULL : equal_at(item->queue, item->node.next, item->priority);

    if (next)
        queue_promote_next(item, next);
    br_list_remove(&item->node);
    br_list_remove(&item->age);
}

void br_queue_served(struct br_queued *item, uint64_t now)
{
    struct br_queued *first = item, *before;

    item->served = now;
    while ((before = equal_at(item->queue, first->node.prev, item->priority)))
        first = before;
    first->priority_served = now;
    br_list_remove(&first->age);
    br_list_push_back(&item->queue->age, &first->age);
}
