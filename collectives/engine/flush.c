/* SPDX-License-Identifier: BSD-3-Clause */
/* A flush ends when every one-sided access of its communicator that was submitted before it, to one
 * rank or to any, has ended: a put ends only when its bytes stand at the target. */
#include "collectives/engine/internal.h"

#include <errno.h>

#include "base/error.h"

/* Does the flush wait for an access? */
static bool flush_waits_for(const struct br_operation *flush, const struct br_operation *op)
{
    return op->kind >= BR_OPERATION_PUT && op->kind != BR_OPERATION_FLUSH &&
           op->group == flush->group && op->order < flush->order &&
           (flush->peer == BRAID_ANY_SOURCE ||
            op->key.rank == (uint32_t)br_group_in_job(flush->group, flush->peer));
}

int br_flush_submit(struct br_engine *engine, struct br_operation *op)
{
    if (op->peer < BRAID_ANY_SOURCE || op->peer >= op->group->size)
        return br_error(EINVAL, "there is no rank %d among %d", op->peer, op->group->size);
    op->parts = (struct br_operation_parts){0};
    br_list_for_each (node, &engine->messages)
        op->parts.count += flush_waits_for(op, br_container_of(node, struct br_operation, node));
    br_list_push_back(&engine->flushes, &op->node);
    if (!op->parts.count)
        br_operation_end(engine, op, 0);
    return 0;
}

void br_flush_ended(struct br_engine *engine, const struct br_operation *op)
{
    br_list_for_each_safe (node, &engine->flushes) {
        struct br_operation *flush = br_container_of(node, struct br_operation, node);

        if (flush_waits_for(flush, op) && !--flush->parts.count)
            br_operation_end(engine, flush, 0);
    }
}
