/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/engine/executor.h"

#include <stdio.h>

#include "base/error.h"
#include "collectives/engine/operation.h"

void br_executor_submit(struct br_executor *executor, struct br_operation *op, uint64_t now)
{
    int rc;

    while (executor->ops->takes && !executor->ops->takes(executor, op))
        executor = executor->next;
    rc = executor->ops->submit(executor, op, now);
    if (rc)
        br_executor_end(executor, op, rc, br_error_message());
}

void br_executor_end(struct br_executor *executor, struct br_operation *op, int status,
                     const char *text)
{
    op->status = status;
    snprintf(op->message, sizeof op->message, "%s", text);
    br_list_init(&op->node);
    br_list_push_back(&executor->ended, &op->node);
}
