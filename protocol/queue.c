/* SPDX-License-Identifier: BSD-3-Clause */
#include "protocol/queue.h"

void br_queue_init(struct br_queue *queue)
{
    br_list_init(&queue->place);
    br_list_init(&queue->age);
}

void br_queued_init(struct br_queued *item, int32_t priority, uint64_t order, uint64_t within)
{
    br_list_init(&item->place);
    br_list_init(&item->age);
    item->priority = priority;
    item->order = order;
    item->within = within;
    item->served = 0;
}

void br_queue_insert(struct br_queue *queue, struct br_queued *item, uint64_t now)
{
    struct br_list *behind = queue->place.prev;

    while (behind != &queue->place &&
           br_queued_before(item, br_container_of(behind, struct br_queued, place)))
        behind = behind->prev;
    br_list_insert_before(behind->next, &item->place);
    br_list_push_back(&queue->age, &item->age);
    item->served = now;
}

void br_queue_remove(struct br_queued *item)
{
    br_list_remove(&item->place);
    br_list_remove(&item->age);
}

struct br_queued *br_queue_head(const struct br_queue *queue, uint64_t now, uint64_t starvation)
{
    struct br_queued *oldest;

    if (br_list_empty(&queue->place))
        return NULL;
    oldest = br_container_of(queue->age.next, struct br_queued, age);
    if (now > oldest->served && now - oldest->served > starvation)
        return oldest;
    return br_container_of(queue->place.next, struct br_queued, place);
}

void br_queue_served(struct br_queue *queue, struct br_queued *item, uint64_t now)
{
    item->served = now;
    br_list_remove(&item->age);
    br_list_push_back(&queue->age, &item->age);
}
