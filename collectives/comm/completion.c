/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 1. `done` is called without the lock, so that it may submit. It is called where a thread drives
 *    progress anyway and holds nothing of the program's but what that called us with: in the
 *    progress thread, and in calls that wait or look (braid_wait(), braid_test()). Never in a call
 *    that only submits: programs hold locks of their own around these.
 * 2. One thread at a time calls them, in order; a second one that finds something to tell leaves it
 *    to the first. So programs need no lock of their own for what only `done` touches, and a `done`
 *    that submits what ends at once does not nest.
 * 3. A waiter is let go after `done` has returned: when braid_wait() returns, nothing of the
 *    program's that `done` uses is needed any more. Rejected: before, because the waiter would have
 *    to find out in some other way whether `done` is still to come.
 * 4. The thread inside `done` sees its operation as ended, and may take the result, which makes a
 *    persistent one startable again. The state BR_OPERATION_TELLING is what shows afterwards that
 *    this has not happened: an operation that was taken has another state by then, whoever has its
 *    place in the pool, because no other is being told.
 * 5. What ends while a thread calls `done` is for the next pass of whoever drives: a chain of
 *    operations each of which submits the next one would keep a thread of the program for good.
 * 6. A call that waits for a while (braid_options.wait_ms) submits without `done` and asks for it
 *    only when it returns a handle: of an end within the call its result tells, as of a blocking
 *    one, and a small collective of one host takes the short way, which has nobody to tell.
 * 7. The descriptor of braid_comm_fd() is an eventfd that is written to once after each pass in
 *    which something has ended, and after each access that ends within its call; and read by the
 *    program before it looks: an end after that look makes it readable again. Rejected: to write
 *    only when the program has asked for the next event (ucp_worker_arm()), which saves a system
 *    call a pass and costs one more rule for programs.
 */
#include "collectives/comm/completion.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/process.h"
#include "collectives/comm/call_group.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/comm/operation_pool.h"
#include "collectives/comm/progress.h"
#include "collectives/comm/progress_lock.h"
#include "collectives/engine/operation.h"

_Thread_local __attribute__((tls_model("initial-exec")))
const struct br_operation *br_completion_own;

void br_completion_add(struct br_operation *op)
{
    br_list_push_back(&op->comm->context->untold, &op->node);
}

bool br_completion_ask(struct br_operation *op, void (*done)(void *context, int result))
{
    struct br_context *context = op->comm->context;
    bool under_way;

    br_progress_lock(context);
    under_way = atomic_load(&op->state) != BR_OPERATION_ENDED;
    if (under_way)
        op->done = done;
    br_progress_unlock(context);
    return under_way;
}

bool br_completion_is_own(const struct br_operation *op)
{
    return br_completion_own == op && atomic_load(&op->state) == BR_OPERATION_TELLING;
}

int br_completion_refuse(const char *name)
{
    if (br_user_reduction_runs)
        return br_error(EDEADLK, "%s: the function of a reduction must not call braid", name);
    return br_error(EDEADLK, "%s: a `done` of braid_options must not wait for anything", name);
}

/* `done` may look at operations of another job, whose `done` is then called within it. */
static void completion_call(struct br_operation *op)
{
    const struct br_operation *outer = br_completion_own;
    struct br_call_group group;

    if (op->status)
        br_error(-op->status, "%s", op->message);
    br_call_group_set_aside(&group);
    br_completion_own = op;
    op->done(op->done_context, op->status);
    br_completion_own = outer;
    br_call_group_restore(&group);
}

bool br_completion_tell(struct br_context *context, bool caller)
{
    const struct br_list *last = context->untold.prev;
    struct br_list *node = NULL;

    if (br_list_empty(&context->untold) || context->telling)
        return false;
    context->telling = true;
    if (caller) /* the progress thread drives meanwhile */
        br_progress_caller_leaves(context);
    while (node != last && (node = br_list_pop_front(&context->untold))) {
        struct br_operation *op = br_container_of(node, struct br_operation, node);
        struct braid_comm *comm = op->comm;

        atomic_store(&op->state, BR_OPERATION_TELLING);
        br_progress_unlock(context);
        completion_call(op);
        br_progress_lock(context);
        br_progress_let_go(comm, atomic_load(&op->state) == BR_OPERATION_TELLING ? op : NULL);
    }
    if (context->ends_due)
        br_completion_show(context);
    if (caller)
        atomic_fetch_add(&context->callers, 1);
    context->telling = false;
    if (!br_list_empty(&context->untold)) /* and this thread may leave */
        br_progress_wake(context);
    return true;
}

/* ---- the descriptor -------------------------------------------------------------------------- */

void br_completion_show_one(struct br_context *context)
{
    BR_DISABLE_CANCELLATION;
    uint64_t one = 1;

    if (write(context->ends_fd, &one, sizeof one) < 0)
        br_log_debug("rank %d: the descriptor of ends is readable as it is", context->rank);
}

void br_completion_show(struct br_context *context)
{
    context->ends_due = false;
    br_completion_show_one(context);
}

/* Readable at first: nobody has been told what has ended before. */
int braid_comm_fd(struct braid_comm *comm)
{
    BR_DISABLE_CANCELLATION;
    int fd, rc = br_comm_check(comm, "braid_comm_fd");

    if (rc)
        return rc;
    br_progress_lock(comm->context);
    if (comm->context->ends_fd < 0)
        comm->context->ends_fd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
    fd = comm->context->ends_fd;
    rc = fd < 0 ? br_error(errno, "braid_comm_fd: eventfd: %s", strerror(errno)) : fd;
    br_progress_unlock(comm->context);
    return rc;
}
