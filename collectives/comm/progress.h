/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress: who drives worker, engine and shared segments, and how a thread waits for an operation.
 * doc/design/progress.md has the rules and the reasons. */
#ifndef BR_COLLECTIVES_COMM_PROGRESS_H
#define BR_COLLECTIVES_COMM_PROGRESS_H

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "collectives/comm/context.h"
#include "collectives/comm/progress_lock.h"

struct braid_op;
struct br_awaited;

/* of waiting, with a core for each rank: perhaps the one we wait for needs this core. Not sooner,
 * as beside a busy program a yield may cost milliseconds (section 5). */
#define BR_YIELD_AFTER (200 * BR_US)

/* Creates the progress thread and the descriptor that wakes it. Returns 0, or a negative errno with
 * a message. */
int br_progress_start(struct br_context *context);

/* Ends the thread and waits for it. */
void br_progress_stop(struct br_context *context);

/* The progress thread waits until no caller drives any more: none does. */
static inline void br_progress_unpark(struct br_context *context)
{
    if (atomic_load(&context->parked) && atomic_exchange(&context->parked, false))
        sem_post(&context->unpark);
}

/* The progress thread goes on at once if it naps: there is something that no caller drives. */
static inline void br_progress_end_nap(struct br_context *context)
{
    if (atomic_load(&context->napping) && atomic_exchange(&context->napping, false))
        sem_post(&context->unpark);
}

/* A thread that counts in context->callers does so no longer: the progress thread hears of the
 * last one. */
void br_progress_caller_leaves(struct br_context *context);

/* One pass of the progress loop. Under the lock. Returns how much was done. */
int br_progress_once(struct br_context *context, uint64_t now);

/* Under the lock: `passes` passes, of which `worked` have found something to do, have taken `time`
 * ns. Passes between looks at a shared segment are not timed: a clock costs as much as a look. */
void br_progress_account(struct br_context *context, uint64_t time, uint32_t passes,
                         uint32_t worked);

/* Under the lock: yields of the core have taken from `began` to `now`, which may say that other
 * programs want it. */
void br_progress_yielded(struct br_context *context, uint64_t began, uint64_t now);

/* The same as br_progress_once(), unless another thread holds the lock. Calls `done` of what has
 * ended. */
void br_progress_try_once(struct br_context *context);

/* An operation of the communicator is over: its result can be taken, or it is given back if nobody
 * will; whoever waits hears of it. op: NULL: it has been given back already. Under the lock. */
void br_progress_let_go(struct braid_comm *comm, struct br_operation *op);

/* Accesses without a look at the clock, which costs half as much as a small one. Each
 * BR_ACCESS_PART bytes of a larger one count as one more. */
#define BR_ACCESSES    64
#define BR_ACCESS_PART 4096u

/* The parts of br_progress_leave(): without a pass, and with a look at the clock. */
static inline void br_progress_leave_now(struct br_context *context)
{
    br_progress_unlock(context);
    if (atomic_load(&context->lock_waiters))
        br_progress_let_in(context, false);
}
void br_progress_leave_timed(struct br_context *context, bool due);

/* Under the lock, which this releases: an access has copied so many bytes, and makes a pass if the
 * last one was long ago, or if one is `due`. Who else wants the lock has it before this returns. */
static inline void br_progress_leave(struct br_context *context, size_t bytes, bool due)
{
    context->accesses_made += 1 + (uint32_t)(bytes / BR_ACCESS_PART);
    if (due || context->accesses_made >= BR_ACCESSES)
        br_progress_leave_timed(context, due);
    else
        br_progress_leave_now(context);
}

/* Under the lock, before it is handed in: may a small put or get wait for the next pass, which
 * others after it may share (section 3)? */
bool br_progress_may_rest(const struct br_context *context, uint64_t now);
/* Under the lock, which this releases: an access was handed to the worker, and rests or makes a
 * pass now. now: the time, ns. */
void br_progress_leave_resting(struct br_context *context, bool rests, uint64_t now);

/* Under the lock: looks for what a rank sends (br_worker_look()) until it has come, which makes
 * this true; or for `most` ns; until another thread wants the lock; or until there is something
 * else to do that needs an operation to wait for. */
bool br_progress_await(struct br_context *context, const struct br_awaited *awaited, uint64_t most);

/* Submits an operation and returns. When the lock is free its first frames leave at once, else
 * whoever drives takes it out of the submission ring. */
void br_progress_submit(struct br_operation *op);
/* The same for n operations of one context, in one turn of the lock. */
void br_progress_submit_all(struct br_operation *const *ops, uint32_t n);

/* Submits an operation and drives until it has ended, or its handle (0: it has none) is another, as
 * br_progress_wait() says; or until `most` ns have passed (UINT64_MAX: there is no limit): false.
 */
bool br_progress_run(struct br_operation *op, uint64_t handle, uint64_t most);

/* Drives until an operation without a handle, which is under way, has ended. */
void br_progress_finish(struct br_operation *op);

/* Drives until the operation of this handle has ended or has another handle, because another thread
 * has taken its result (returns true), or `most` ns have passed (UINT64_MAX: there is no limit). */
bool br_progress_wait(struct br_context *context, struct braid_op *handle, uint64_t most);

/* Drives until *count is zero, for `most` ns at most (UINT64_MAX: there is no limit). */
void br_progress_wait_zero(struct br_context *context, const _Atomic int *count, uint64_t most);

/* Waiting for something that is not an operation: read the event count, check the condition, then
 * wait. wait_event drives until an event has happened since `seen` was read, or `most` ns have
 * passed. Events are an operation that has ended and br_progress_signal(), which any thread may
 * call. */
uint64_t br_progress_event_count(const struct br_context *context);
void br_progress_wait_event(struct br_context *context, uint64_t seen, uint64_t most);
void br_progress_signal(struct br_context *context);

#endif
