/* SPDX-License-Identifier: BSD-3-Clause */
/* What the public calls do with an operation that was submitted, or made to be started. */
#include "collectives/comm.h"

#include <errno.h>

#include "base/clock.h"
#include "base/error.h"

int braid_wait(struct braid_op *handle, int timeout_ms)
{
    struct br_operation *op = (struct br_operation *)handle;

    if (!op)
        return br_error(EINVAL, "braid_wait: no operation");
    if (atomic_load(&op->state) == BR_OPERATION_IDLE)
        return br_error(EINVAL, "braid_wait: the operation has not been started");
    if (!br_progress_wait(op, timeout_ms < 0 ? UINT64_MAX : (uint64_t)timeout_ms * BR_MS))
        return br_error(ETIMEDOUT, "still running after %d ms", timeout_ms);
    return br_comm_finish_operation(op);
}

int braid_test(struct braid_op *handle, int *done)
{
    struct br_operation *op = (struct br_operation *)handle;

    if (!op || !done)
        return br_error(EINVAL, "braid_test: an argument is missing");
    if (atomic_load(&op->state) == BR_OPERATION_IDLE)
        return br_error(EINVAL, "braid_test: the operation has not been started");
    br_progress_try(op->comm->family);
    *done = atomic_load(&op->state) == BR_OPERATION_ENDED;
    return *done ? br_comm_finish_operation(op) : 0;
}

int braid_start(struct braid_op *handle)
{
    struct br_operation *op = (struct br_operation *)handle;

    if (!op || !op->persistent)
        return br_error(EINVAL, "braid_start: not a persistent operation");
    if (atomic_load(&op->state) != BR_OPERATION_IDLE)
        return br_error(EBUSY, "braid_start: the operation runs; wait for it first");
    return br_progress_submit(op, true);
}

int braid_op_free(struct braid_op *handle)
{
    struct br_operation *op = (struct br_operation *)handle;

    if (!op)
        return 0;
    if (!op->persistent)
        return br_error(EINVAL,
                        "braid_op_free: only persistent operations are freed by hand; wait for the others");
    if (atomic_load(&op->state) != BR_OPERATION_IDLE)
        return br_error(EBUSY, "braid_op_free: the operation runs; wait for it first");
    br_comm_forget_operation(op);
    return 0;
}
