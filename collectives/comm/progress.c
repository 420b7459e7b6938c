/* SPDX-License-Identifier: BSD-3-Clause */
/* Passes of the progress loop, and how a caller makes them that waits (doc/design/progress.md). */
#include "collectives/comm/progress.h"

#include <sched.h>
#include <time.h>

#include "base/clock.h"
#include "base/cpu_affinity.h"
#include "base/process.h"
#include "base/ring.h"
#include "base/time_slice.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/completion.h"
#include "collectives/comm/context.h"
#include "collectives/comm/handles.h"
#include "collectives/comm/operation_pool.h"
#include "collectives/comm/posted.h"
#include "collectives/comm/progress_lock.h"
#include "collectives/engine/engine.h"
#include "collectives/engine/operation.h"
#include "protocol/worker.h"

/* Accesses, and messages without an operation, make a pass when the last one is so old (section
 * 3). */
#define PASS_AFTER (20 * BR_US)
/* So do collectives and messages that were done at once: their system calls cost more, and so does
 * the pass, some 0.6 us over TCP, which is a hundredth of the time then. */
#define SERVE_AFTER (50 * BR_US)
/* Bytes of an access that may wait for the next pass. Measured over TCP: with 32 KiB a call that
 * shares a pass gains nothing any more, with 64 KiB gets lose. */
#define REST_BYTES (16u << 10)
/* Passes of a waiting caller without a look at the clock, which costs as much as half a pass. */
#define PASSES 8
/* Looks for what a caller waits for without an operation, between two passes. */
#define AWAIT_LOOKS 16

/* ---- one pass -------------------------------------------------------------------------------- */

/* Those who could not drive. */
static void wake_waiters(struct br_context *context)
{
    if (!atomic_load(&context->waiters))
        return;
    pthread_mutex_lock(&context->ended_lock);
    pthread_cond_broadcast(&context->ended);
    pthread_mutex_unlock(&context->ended_lock);
}

/* Something has ended: those who wait look. */
static void progress_ended(struct br_context *context)
{
    atomic_fetch_add(&context->events, 1);
    context->ends_due = context->ends_fd >= 0;
    if (context->sleeping_callers)
        br_progress_wake(context);
    wake_waiters(context);
}

void br_progress_let_go(struct braid_comm *comm, struct br_operation *op)
{
    struct br_context *context = comm->context;

    atomic_fetch_sub(&comm->outstanding, 1);
    if (op && op->released)
        br_comm_release_operation(op);
    else if (op)
        atomic_store(&op->state, BR_OPERATION_ENDED); /* from here on op is the caller's */
    progress_ended(context);
}

static int accept_submissions(struct br_context *context, uint64_t now)
{
    int n = 0;

    for (; !br_ring_empty(&context->submissions); n++)
        br_comm_start_operation(br_ring_pop(&context->submissions), now);
    return n;
}

void br_progress_account(struct br_context *context, uint64_t time, uint32_t passes,
                         uint32_t worked)
{
    uint64_t busy = worked == passes ? time : time / passes * worked;

    context->progress.busy += busy;
    context->progress.idle += time - busy;
}

/* Messages that nobody has asked for are events where somebody probes, as they are when they may
 * keep the one from coming that is probed for; so is the end. */
static void note_arrivals(struct br_context *context)
{
    const struct br_worker *w = context->worker;
    uint64_t arrived = w->p2p_messages + w->next_arrival + w->crowded + (w->failed ? 1 : 0) +
                       br_engine_notifications(context->engine);

    if (arrived == context->probed)
        return;
    context->probed = arrived;
    atomic_fetch_add(&context->events, 1);
    if (context->sleeping_callers)
        br_progress_wake(context);
    wake_waiters(context);
}

static void end_operations(struct br_executor *executor)
{
    struct br_operation *op;

    while ((op = br_operation_pop(&executor->ended)))
        br_comm_end_operation(op);
}

int br_progress_once(struct br_context *context, uint64_t now)
{
    int n = br_ring_empty(&context->submissions) ? 0 : accept_submissions(context, now);

    context->now = context->passed = now;
    context->accesses_rest = false;
    context->progress.calls++;
    if (!br_list_empty(&context->posted.waiting))
        br_posted_pass(context, now);
    br_list_for_each_safe (node, &context->executors) {
        struct br_executor *executor = br_container_of(node, struct br_executor, node);

        n += executor->ops->step(executor, now);
        end_operations(executor);
    }
    if (br_posted_end(context))
        progress_ended(context);
    if (!br_list_empty(&context->backlogs))
        n += br_comm_begin_waiting(context, now);
    if (atomic_load_explicit(&context->probes, memory_order_relaxed))
        note_arrivals(context);
    if (context->ends_due)
        br_completion_show(context);
    return n;
}

/* ---- what is waited for ---------------------------------------------------------------------- */

struct goal {
    struct br_operation *op; /* its end; NULL: that of `handle` */
    /* that it had: with another one somebody else has taken its result. 0 without an operation: any
     * event after `seen` */
    uint64_t handle;
    uint64_t seen;
};

static inline bool is_reached(struct br_context *context, const struct goal *goal)
{
    if (!goal->op && goal->handle)
        return br_operation_has_ended((struct braid_op *)(uintptr_t)goal->handle);
    if (!goal->op)
        return atomic_load(&context->events) != goal->seen;
    return atomic_load_explicit(&goal->op->state, memory_order_acquire) == BR_OPERATION_ENDED ||
           atomic_load_explicit(&goal->op->handle, memory_order_relaxed) != goal->handle;
}

/* ---- callers --------------------------------------------------------------------------------- */

/* With the lock the engine takes the operation at once, unless one of this thread is on its way
 * through the ring still, behind another thread's that is not published yet. Else it goes into the
 * ring, and whoever drives takes it out; we do, when it is full. */
static void hand_in(struct br_operation *op, bool locked, uint64_t now)
{
    struct br_context *context = op->comm->context;

    atomic_store_explicit(&op->state, BR_OPERATION_SUBMITTED, memory_order_relaxed);
    atomic_fetch_add(&op->comm->outstanding, 1);
    if (locked && !br_ring_idle(&context->submissions))
        accept_submissions(context, now);
    if (locked && br_ring_idle(&context->submissions)) {
        br_comm_start_operation(op, now);
        return;
    }
    while (!br_ring_push(&context->submissions, op)) {
        if (!locked)
            br_progress_lock(context);
        accept_submissions(context, br_clock_now());
        if (!locked)
            br_progress_unlock(context);
    }
}

void br_progress_caller_leaves(struct br_context *context)
{
    if (atomic_fetch_sub(&context->callers, 1) == 1)
        br_progress_unpark(context);
}

static bool is_message(const struct br_operation *op)
{
    return op->kind == BR_OPERATION_SEND || op->kind == BR_OPERATION_RECV;
}

/* May it be over without a look at the devices? A message, and what has one on most ranks. */
static bool may_be_short(const struct br_operation *op)
{
    return is_message(op) ||
           (op->kind == BR_OPERATION_COLLECTIVE && br_collective_rooted(op->collective));
}

/* Under the lock, after operations were handed in: ends what is done already. true: that is all
 * there is to do, so that no pass is needed (section 3). */
static bool progress_short(struct br_context *context, uint64_t now)
{
    if (now - context->passed >= SERVE_AFTER || !br_ring_idle(&context->submissions))
        return false;
    context->now = now;
    if (br_engine_is_due(context->engine))
        br_engine_executor_start(context, now);
    if (br_engine_is_due(context->engine))
        return false;
    end_operations(&context->engine_executor);
    if (context->ends_due)
        br_completion_show(context);
    return br_list_empty(&context->untold); /* another thread's `done` is told in a pass */
}

/* Under the lock, which this releases: a pass; and others have their turn, if the last pass was
 * long ago. */
__attribute__((noinline)) static void leave_by_pass(struct br_context *context, uint64_t now)
{
    BR_DISABLE_CANCELLATION;
    bool turn = now - context->passed >= PASS_AFTER, untold;

    br_progress_disarm(context);
    br_progress_once(context, now);
    untold = !br_list_empty(&context->untold);
    br_progress_unlock(context);
    if (untold)
        br_progress_wake(context);
    if (turn && context->settings.oversubscribed)
        sched_yield();
    if (turn || atomic_load(&context->lock_waiters))
        br_progress_let_in(context, turn);
}

void br_progress_leave_timed(struct br_context *context, bool due)
{
    uint64_t now = br_clock_now();

    context->accesses_made = 0;
    if (due || now - context->passed >= PASS_AFTER)
        leave_by_pass(context, now);
    else
        br_progress_leave_now(context);
}

bool br_progress_await(struct br_context *context, const struct br_awaited *awaited, uint64_t most)
{
    uint64_t began = br_clock_now(), now = began;

    br_progress_disarm(context);
    for (uint32_t looks = 1;; looks++) {
        br_worker_look(context->worker, awaited, now);
        if (br_posted_end(context))
            progress_ended(context);
        if (context->ends_due)
            br_completion_show(context);
        if (awaited->came)
            return true;
        if (looks % AWAIT_LOOKS && !br_engine_is_due(context->engine))
            continue;
        now = br_clock_now();
        br_progress_once(context, now);
        if (awaited->came || context->worker->failed || now - began >= most ||
            atomic_load(&context->lock_waiters) || !br_list_empty(&context->untold))
            return awaited->came;
    }
}

bool br_progress_may_rest(const struct br_context *context, uint64_t now)
{
    return now - context->passed < PASS_AFTER && br_ring_idle(&context->submissions) &&
           (!br_list_empty(&context->worker->puts.under_way) ||
            br_engine_follows_access(context->engine));
}

static bool may_rest(const struct br_context *context, const struct br_operation *op, uint64_t now)
{
    return (op->kind == BR_OPERATION_PUT || op->kind == BR_OPERATION_GET) && !op->notifies &&
           op->count <= REST_BYTES && br_progress_may_rest(context, now);
}

void br_progress_leave_resting(struct br_context *context, bool rests, uint64_t now)
{
    if (rests) {
        context->accesses_rest = true;
        br_progress_leave_now(context);
    } else {
        leave_by_pass(context, now);
    }
    if (atomic_load_explicit(&context->may_wake, memory_order_relaxed))
        br_progress_wake(context);
}

void br_progress_submit(struct br_operation *op)
{
    br_progress_submit_all(&op, 1);
}

void br_progress_submit_all(struct br_operation *const *ops, uint32_t n)
{
    struct br_context *context = n ? ops[0]->comm->context : NULL;
    bool locked = n && br_progress_trylock(context);
    uint64_t now = locked ? br_clock_now() : 0;
    bool messages = true, rests;

    if (!n)
        return;
    rests = locked && n == 1 && may_rest(context, ops[0], now);
    if (rests)
        context->accesses_rest = true;
    for (uint32_t i = 0; i < n; i++) {
        messages = messages && is_message(ops[i]); /* before it may be over */
        hand_in(ops[i], locked, now);
    }
    if (locked) {
        if (!rests && (!messages || !progress_short(context, now)))
            br_progress_once(context, now);
        br_progress_unlock(context);
    }
    br_progress_wake(context);
}

/* Somebody else drives: sleep until an operation ends, but look again soon, as the driver may
 * leave. */
static void wait_for_lock_owner(struct br_context *context, const struct goal *goal)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 200000;
    if (until.tv_nsec >= (long)BR_SEC) {
        until.tv_nsec -= (long)BR_SEC;
        until.tv_sec++;
    }
    atomic_fetch_add(&context->waiters, 1);
    pthread_mutex_lock(&context->ended_lock);
    if (!is_reached(context, goal))
        pthread_cond_timedwait(&context->ended, &context->ended_lock, &until);
    pthread_mutex_unlock(&context->ended_lock);
    atomic_fetch_sub(&context->waiters, 1);
}

void br_progress_yielded(struct br_context *context, uint64_t began, uint64_t now)
{
    struct br_contention *contention = &context->settings.contention;

    if (br_contention_yielded(contention, began, now))
        br_contention_judge(contention, began, now, br_clock_process());
    br_time_slice_set(contention->contended);
}

/* Under the lock, by a caller that has nothing to do: another rank may need this core, and ours may
 * be free. Returns the time behind it: what others did meanwhile is no time of the next pass. */
static uint64_t progress_make_room(struct br_context *context, uint64_t now)
{
    uint64_t back;

    if (br_cpu_affinity_take(&context->settings.cpu_affinity, now))
        return br_clock_now();
    sched_yield();
    back = br_clock_now();
    br_progress_yielded(context, now, back);
    return back;
}

/* Under the lock: makes passes until the goal is reached or `until` has come, at least once, as who
 * only looks again and again drives, too. Sleeps when it has been idle for longer than a spin. now:
 * the time. false: another drives now, and the lock is not ours any more. */
static bool progress_loop(struct br_context *context, const struct goal *goal, uint64_t now,
                          uint64_t until)
{
    uint64_t began = now, idle_since = now;
    uint32_t passes = 0, worked = 0;
    bool reached;

    do {
        worked += br_progress_once(context, now) > 0;
        passes++;
        worked += !br_list_empty(&context->untold) && br_completion_tell(context, true);
        reached = is_reached(context, goal);
        if (reached || passes == PASSES || worked || context->settings.oversubscribed) {
            now = br_clock_now();
            br_progress_account(context, now - began, passes, worked < passes ? worked : passes);
            if (worked || reached) {
                idle_since = now;
            } else if (now - idle_since > context->settings.spin) {
                context->sleeping_callers++;
                br_progress_sleep(context, until);
                context->sleeping_callers--;
                idle_since = br_clock_now();
                br_contention_slept(&context->settings.contention, now, idle_since);
                now = idle_since;
            } else if (context->settings.oversubscribed || now - idle_since > BR_YIELD_AFTER) {
                now = progress_make_room(context, now);
            }
            began = now;
            passes = worked = 0;
        }
        if (atomic_load(&context->lock_waiters) && !br_progress_yield_or_leave(context))
            return false;
    } while (!reached && !is_reached(context, goal) && now < until);
    return true;
}

/* true: the goal is reached. */
static bool progress_wait_for(struct br_context *context, const struct goal *goal, uint64_t most)
{
    uint64_t now, until;

    if (is_reached(context, goal))
        return true;
    now = br_clock_now();
    until = most == UINT64_MAX ? UINT64_MAX : now + most;
    atomic_fetch_add(&context->callers, 1);
    for (; !is_reached(context, goal); now = br_clock_now()) {
        if (br_progress_trylock(context)) {
            if (progress_loop(context, goal, now, until)) { /* else another drives, and counts */
                atomic_fetch_add(&context->caller_waits, 1);
                br_progress_unlock(context);
            }
        } else {
            wait_for_lock_owner(context, goal);
        }
        if (until != UINT64_MAX && br_clock_now() >= until)
            break;
    }
    br_progress_caller_leaves(context);
    return is_reached(context, goal);
}

bool br_progress_run(struct br_operation *op, uint64_t handle, uint64_t most)
{
    struct br_context *context = op->comm->context;
    const struct goal goal = {.op = op, .handle = handle};
    bool locked = br_progress_trylock(context);
    uint64_t now = locked || most != UINT64_MAX ? br_clock_now() : 0;
    uint64_t until = most == UINT64_MAX ? UINT64_MAX : now + most;

    hand_in(op, locked, now);
    if (locked && may_be_short(op) && progress_short(context, now) && is_reached(context, &goal)) {
        atomic_fetch_add(&context->caller_waits, 1);
        br_progress_unlock(context);
        return true;
    }
    if (locked) {
        atomic_fetch_add(&context->callers, 1);
        if (progress_loop(context, &goal, now, until)) { /* else another drives */
            atomic_fetch_add(&context->caller_waits, 1);
            br_progress_unlock(context);
        }
        br_progress_caller_leaves(context);
    }
    if (most == UINT64_MAX)
        return progress_wait_for(context, &goal, UINT64_MAX); /* its deadline ends it */
    now = br_clock_now();
    if (progress_wait_for(context, &goal, now < until ? until - now : 0))
        return true;
    br_progress_wake(context); /* the progress thread has not heard of it */
    return false;
}

void br_progress_finish(struct br_operation *op)
{
    progress_wait_for(op->comm->context, &(struct goal){.op = op}, UINT64_MAX);
}

bool br_progress_wait(struct br_context *context, struct braid_op *handle, uint64_t most)
{
    const struct goal goal = {.op = br_operation_of(handle), .handle = (uintptr_t)handle};

    return progress_wait_for(context, &goal, most);
}

uint64_t br_progress_event_count(const struct br_context *context)
{
    return atomic_load(&context->events);
}

void br_progress_wait_event(struct br_context *context, uint64_t seen, uint64_t most)
{
    progress_wait_for(context, &(struct goal){.seen = seen}, most);
}

/* Under the lock, so that nobody is between looking at `events` and falling asleep. */
void br_progress_signal(struct br_context *context)
{
    br_progress_lock(context);
    atomic_fetch_add(&context->events, 1);
    br_progress_unlock(context);
    br_progress_wake(context);
    wake_waiters(context);
}

void br_progress_try_once(struct br_context *context)
{
    if (!br_progress_trylock(context))
        return;
    br_progress_once(context, br_clock_now());
    br_completion_tell(context, false);
    /* Who has a descriptor sleeps in it between such looks, and the progress thread must go on. */
    if (context->ends_fd < 0)
        atomic_fetch_add(&context->caller_waits, 1);
    br_progress_unlock(context);
}

void br_progress_wait_zero(struct br_context *context, const _Atomic int *count, uint64_t most)
{
    uint64_t start = br_clock_now(), now = start;

    for (; atomic_load(count) > 0 && now - start < most; now = br_clock_now()) {
        br_progress_lock(context);
        br_progress_once(context, now);
        br_completion_tell(context, false);
        br_progress_unlock(context);
        sched_yield();
    }
}
