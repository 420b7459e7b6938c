/* SPDX-License-Identifier: BSD-3-Clause */
/* What the public calls do with an operation that was submitted, or made to be started. */
#include "collectives/comm.h"

#include <errno.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/process.h"

static int check(const struct br_operation *op, const char *name)
{
    return op ? br_comm_check(op->comm, name) : br_error(EINVAL, "%s: no operation", name);
}

int braid_wait(struct braid_op *handle, int timeout_ms)
{
    BR_HOLD_CANCELLATION;
    struct br_operation *op = (struct br_operation *)handle;
    int rc = check(op, "braid_wait");

    if (rc)
        return rc;
    if (atomic_load(&op->state) == BR_OPERATION_IDLE)
        return br_error(EINVAL, "braid_wait: the operation has not been started");
    if (!br_progress_wait(op, timeout_ms < 0 ? UINT64_MAX : (uint64_t)timeout_ms * BR_MS))
        return br_error(ETIMEDOUT, "still running after %d ms", timeout_ms);
    return br_comm_finish_operation(op);
}

int braid_test(struct braid_op *handle, int *done)
{
    BR_HOLD_CANCELLATION;
    struct br_operation *op = (struct br_operation *)handle;
    int rc = check(op, "braid_test");

    if (rc)
        return rc;
    if (!done)
        return br_error(EINVAL, "braid_test: done is NULL");
    if (atomic_load(&op->state) == BR_OPERATION_IDLE)
        return br_error(EINVAL, "braid_test: the operation has not been started");
    br_progress_try(op->comm->family);
    *done = atomic_load(&op->state) == BR_OPERATION_ENDED;
    return *done ? br_comm_finish_operation(op) : 0;
}

int braid_start(struct braid_op *handle)
{
    BR_HOLD_CANCELLATION;
    struct br_operation *op = (struct br_operation *)handle;
    int rc = check(op, "braid_start");

    if (rc)
        return rc;
    if (!op->persistent)
        return br_error(EINVAL, "braid_start: not a persistent operation");
    if (atomic_load(&op->state) != BR_OPERATION_IDLE)
        return br_error(EBUSY, "braid_start: the operation runs; wait for it first");
    return br_progress_submit(op, true);
}

int braid_op_free(struct braid_op *handle)
{
    BR_HOLD_CANCELLATION;
    struct br_operation *op = (struct br_operation *)handle;
    int rc = op ? check(op, "braid_op_free") : 0;

    if (rc || !op)
        return rc;
    if (!op->persistent)
        return br_error(EINVAL,
                        "braid_op_free: only persistent operations are freed by hand; wait for the others");
    if (atomic_load(&op->state) != BR_OPERATION_IDLE)
        return br_error(EBUSY, "braid_op_free: the operation runs; wait for it first");
    br_comm_forget_operation(op);
    return 0;
}
