/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/engine/backlog.h"

#include "collectives/engine/operation.h"

void br_backlog_init(struct br_backlog *backlog)
{
    *backlog = (struct br_backlog){.next_deadline = UINT64_MAX};
    br_list_init(&backlog->waiting);
    br_list_init(&backlog->node);
}

void br_backlog_wait(struct br_backlog *backlog, struct br_operation *op)
{
    if (op->deadline < backlog->next_deadline)
        backlog->next_deadline = op->deadline;
    br_list_init(&op->node);
    br_list_push_back(&backlog->waiting, &op->node);
}

struct br_operation *br_backlog_next(struct br_backlog *backlog)
{
    struct br_list *node;

    if (br_backlog_is_empty(backlog))
        backlog->next_deadline = UINT64_MAX;
    if (br_backlog_is_empty(backlog) || backlog->under_way == BR_BACKLOG_AT_ONCE)
        return NULL;
    node = br_list_pop_front(&backlog->waiting);
    backlog->under_way++;
    return br_container_of(node, struct br_operation, node);
}

struct br_operation *br_backlog_overdue(struct br_backlog *backlog, uint64_t now)
{
    uint64_t next = UINT64_MAX;

    if (now < backlog->next_deadline)
        return NULL;
    br_list_for_each (node, &backlog->waiting) {
        struct br_operation *op = br_container_of(node, struct br_operation, node);

        if (op->deadline <= now)
            return op;
        if (op->deadline < next)
            next = op->deadline;
    }
    backlog->next_deadline = next;
    return NULL;
}
