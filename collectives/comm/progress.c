/* SPDX-License-Identifier: BSD-3-Clause */
/* Who drives progress (doc/design/progress.md). Above transport/, only this file, progress_lock.c,
 * bootstrap.c, comm.c and protocol/bootstrap/ know threads and a clock. */
#include "collectives/comm/progress.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpu_affinity.h"
#include "base/error.h"
#include "base/log.h"
#include "base/process.h"
#include "base/ring.h"
#include "base/thread.h"
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
#include "collectives/shm/executor.h"
#include "protocol/worker.h"

#define NAP (2 * BR_MS) /* of the progress thread while callers drive */
/* Without a caller for so long, what is known of other programs is forgotten (section 5). */
#define QUIET (10 * BR_CONTENTION_WINDOW)
/* of waiting, with a core for each rank: perhaps the one we wait for needs this core. Not sooner,
 * as beside a busy program a yield may cost milliseconds (section 5). */
#define YIELD_AFTER (200 * BR_US)
/* After so long a wait for shared memory the core is given away, for BACK_OFF_NS at a time. */
#define BACK_OFF_AFTER (10 * BR_MS)
#define BACK_OFF_NS    (50 * BR_US)
/* Looks at shared memory between two passes of the progress loop. */
#define LOOK 256
/* Calls that were done at once make a pass when the last one is so old (section 3). */
#define PASS_AFTER (20 * BR_US)
/* Bytes of an access that may wait for the next pass. Measured over TCP: with 32 KiB a call that
 * shares a pass gains nothing any more, with 64 KiB gets lose. */
#define REST_BYTES (16u << 10)
/* Accesses without a look at the clock, which costs half as much as a small one. Each ACCESS_PART
 * bytes of a larger one count as one more. */
#define ACCESSES    64
#define ACCESS_PART 4096u
/* Passes of a waiting caller without a look at the clock, which costs as much as half a pass. */
#define PASSES 8
/* Yields while shared memory is looked at, over all operations, between two passes: most operations
 * end after a yield or two, and a core that has a rank too many holds up all ranks until a pass
 * moves one of them (section 5). */
#define YIELDS       256
#define TIMED_YIELDS 4 /* one of so many is timed; a look at the clock costs a tenth of a yield */
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

/* `passes` passes, of which `worked` have found something to do, have taken this long. Those within
 * check_shm() are not timed: a clock costs as much as a look at the shared segment. */
static void progress_account(struct br_context *context, uint64_t time, uint32_t passes,
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
    context->progress.calls++;
    if (!br_list_empty(&context->posted.waiting))
        br_posted_pass(context, now);
    br_list_for_each_safe (node, &context->executors) {
        struct br_executor *executor = br_container_of(node, struct br_executor, node);

        n += executor->ops->step(executor, now);
        end_operations(executor);
    }
    if (!br_list_empty(&context->posted.came) && br_posted_end(context))
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

/* ---- the progress thread --------------------------------------------------------------------- */

static void progress_nap(void)
{
    struct timespec t = {0, NAP};

    nanosleep(&t, NULL);
}

/* Until no caller drives any more. */
static void progress_park(struct br_context *context)
{
    atomic_store(&context->parked, true);
    if ((!atomic_load(&context->callers) || atomic_load(&context->stop)) &&
        atomic_exchange(&context->parked, false))
        return;
    while (sem_wait(&context->unpark) && errno == EINTR)
        ;
}

static void progress_unpark(struct br_context *context)
{
    if (atomic_load(&context->parked) && atomic_exchange(&context->parked, false))
        sem_post(&context->unpark);
}

void br_progress_caller_leaves(struct br_context *context)
{
    if (atomic_fetch_sub(&context->callers, 1) == 1)
        progress_unpark(context);
}

/* Under the lock, at the end of a turn of the progress thread that began at `now`. Where no caller
 * has been for long, the threads that waited here have the slices again that they had. `seen`: of
 * caller_waits, since *quiet_since; that is 0 when it was not yet quiet. */
static void progress_choose_slices(struct br_context *context, uint64_t now, uint64_t seen,
                                   uint64_t *quiet_since)
{
    struct br_contention *contention = &context->settings.contention;

    if (atomic_load(&context->caller_waits) != seen || atomic_load(&context->callers)) {
        *quiet_since = 0;
    } else if (!*quiet_since) {
        *quiet_since = now;
    } else if (contention->contended && now - *quiet_since > QUIET) {
        contention->contended = contention->open = false;
        br_time_slice_restore_all();
    }
    br_time_slice_set(contention->contended);
}

static void *progress_thread_main(void *argument)
{
    struct br_context *context = argument;
    uint64_t seen = 0, idle_since = 0, quiet_since = 0;

    while (!atomic_load(&context->stop)) {
        uint64_t now, waits = atomic_load(&context->caller_waits);
        bool worked;

        if (waits != seen) {
            seen = waits;
            quiet_since = 0;
            progress_nap();
            continue;
        }
        if (atomic_load(&context->callers) > 0) {
            progress_park(context);
            continue;
        }
        br_progress_lock_last(context);
        now = br_clock_now();
        worked = br_progress_once(context, now) > 0;
        progress_account(context, br_clock_now() - now, 1, worked);
        worked = br_completion_tell(context, false) || worked;
        if (worked)
            idle_since = 0;
        else if (!idle_since)
            idle_since = now;
        else if (now - idle_since > context->settings.spin)
            br_progress_sleep(context, UINT64_MAX);
        progress_choose_slices(context, now, seen, &quiet_since);
        br_progress_unlock(context);
        if (context->settings.oversubscribed || (idle_since && now - idle_since > YIELD_AFTER))
            sched_yield();
    }
    return NULL;
}

static int pin_progress_thread(struct br_context *context)
{
    int cpu = context->settings.pin_cpu, rc;
    cpu_set_t set;

    if (cpu < 0)
        return 0;
    CPU_ZERO(&set);
    if (cpu < CPU_SETSIZE)
        CPU_SET((size_t)cpu, &set);
    rc = pthread_setaffinity_np(context->progress_thread, sizeof set, &set);
    return rc ? br_error(rc, "rank %d: the worker thread cannot run on CPU %d (BRAID_PIN_CPU): %s",
                         context->rank, cpu, strerror(rc))
              : 0;
}

int br_progress_start(struct br_context *context)
{
    int rc;

    context->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (context->wake_fd < 0)
        return br_error(errno, "rank %d: eventfd: %s", context->rank, strerror(errno));
    rc = br_thread_start(&context->progress_thread, progress_thread_main, context);
    if (rc) {
        br_progress_stop(context);
        return br_error(rc, "rank %d: cannot start the worker thread: %s", context->rank,
                        strerror(rc));
    }
    context->has_progress_thread = true;
    rc = pin_progress_thread(context);
    if (rc)
        br_progress_stop(context);
    return rc;
}

void br_progress_stop(struct br_context *context)
{
    uint64_t one = 1;

    if (context->has_progress_thread) {
        atomic_store(&context->stop, true);
        progress_unpark(context);
        if (write(context->wake_fd, &one, sizeof one) < 0)
            br_log_debug("rank %d: the wake-up counter is full", context->rank);
        pthread_join(context->progress_thread, NULL);
        context->has_progress_thread = false;
    }
    if (context->wake_fd >= 0)
        close(context->wake_fd);
    context->wake_fd = -1;
    br_time_slice_restore_all(); /* of callers, which go on without this context */
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

static bool is_message(const struct br_operation *op)
{
    return op->kind == BR_OPERATION_SEND || op->kind == BR_OPERATION_RECV;
}

/* Under the lock, after messages were handed in: ends what is done already. true: that is all there
 * is to do, so that no pass is needed (section 3). */
static bool progress_short(struct br_context *context, uint64_t now)
{
    if (now - context->passed >= PASS_AFTER || br_engine_is_due(context->engine) ||
        !br_ring_idle(&context->submissions))
        return false;
    context->now = now;
    end_operations(&context->engine_executor);
    if (context->ends_due)
        br_completion_show(context);
    return true;
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

void br_progress_leave(struct br_context *context, size_t bytes, bool due)
{
    context->accesses_made += 1 + (uint32_t)(bytes / ACCESS_PART);
    if (due || context->accesses_made >= ACCESSES) {
        uint64_t now = br_clock_now();

        context->accesses_made = 0;
        if (due || now - context->passed >= PASS_AFTER) {
            leave_by_pass(context, now);
            return;
        }
    }
    br_progress_unlock(context);
    if (atomic_load(&context->lock_waiters))
        br_progress_let_in(context, false);
}

bool br_progress_await(struct br_context *context, const struct br_awaited *awaited, uint64_t most)
{
    uint64_t began = br_clock_now(), now = began;

    br_progress_disarm(context);
    for (uint32_t looks = 1;; looks++) {
        br_worker_look(context->worker, awaited, now);
        if (!br_list_empty(&context->posted.came) && br_posted_end(context))
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

/* Under the lock, before it is handed in: may a put or a get wait for the next pass, which others
 * after it may share (section 3)? */
static bool may_rest(const struct br_context *context, const struct br_operation *op, uint64_t now)
{
    return (op->kind == BR_OPERATION_PUT || op->kind == BR_OPERATION_GET) && !op->notifies &&
           op->count <= REST_BYTES && now - context->passed < PASS_AFTER &&
           br_ring_idle(&context->submissions) && br_engine_follows_access(context->engine);
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

/* Under the lock: yields have taken from `began` to `now`. */
static void progress_yielded(struct br_context *context, uint64_t began, uint64_t now)
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
    progress_yielded(context, now, back);
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
            progress_account(context, now - began, passes, worked < passes ? worked : passes);
            if (worked || reached) {
                idle_since = now;
            } else if (now - idle_since > context->settings.spin) {
                context->sleeping_callers++;
                br_progress_sleep(context, until);
                context->sleeping_callers--;
                idle_since = br_clock_now();
                br_contention_slept(&context->settings.contention, now, idle_since);
                now = idle_since;
            } else if (context->settings.oversubscribed || now - idle_since > YIELD_AFTER) {
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
    if (locked && is_message(op) && progress_short(context, now) && is_reached(context, &goal)) {
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

/* The caller does not wait any longer: an operation of the pool takes the place of op. */
static bool progress_goes_on(struct braid_comm *comm, struct br_operation *op,
                             struct br_going_on *going_on)
{
    struct br_operation *next = going_on->make(going_on);

    if (!next)
        return false;
    next->sequence = op->sequence;
    next->order = op->order;
    next->deadline = op->deadline;
    next->shm_role = BR_SHM_ROLE_COLLECTIVE;
    br_comm_use_memory(comm, next);
    atomic_fetch_add(&comm->outstanding, 1);
    atomic_store(&next->state, BR_OPERATION_SUBMITTED);
    br_shm_executor_go_on(comm->shm, next);
    going_on->op = next;
    return true;
}

/* Under the lock, by a caller that looks at a shared segment. */
static void yield_in_round(struct br_context *context)
{
    bool timed = ++context->yields % TIMED_YIELDS == 0;
    /* only of this yield: between two of them the program may have been elsewhere */
    uint64_t began = timed ? br_clock_now() : 0;

    sched_yield();
    if (timed)
        progress_yielded(context, began, br_clock_now());
}

/* Asks the shared segment until op is complete, or goes on in the pool; now and then everything
 * else is served, and deadlines are looked at. */
static int check_shm(struct braid_comm *comm, struct br_operation *op, struct br_going_on *going_on)
{
    struct br_context *context = comm->context;
    bool yield = context->settings.oversubscribed;
    /* set at the first look: a clock costs as much as the rest of an operation */
    uint64_t started = 0;
    uint32_t looks = 0;
    int rc;

    while (!(rc = br_shm_executor_complete(comm->shm, op)) && !context->worker->failed) {
        uint64_t now;

        if (yield)
            yield_in_round(context);
        if (++looks % (yield ? LOOK / 16 : LOOK) && !(yield && context->yields % YIELDS == 0))
            continue;
        now = br_clock_now();
        if (!started) {
            started = now;
            op->deadline = now + op->timeout;
            atomic_fetch_add(&comm->outstanding, 1);
            atomic_fetch_add(&context->callers, 1);
            br_comm_use_memory(comm, op);
            /* not before: most operations end without a look at the devices */
            br_progress_disarm(context);
        }
        yield = context->settings.oversubscribed || now - started > YIELD_AFTER;
        if (yield)
            br_cpu_affinity_take(&context->settings.cpu_affinity, now);
        br_progress_once(context, now);
        br_completion_tell(context, true);
        br_shm_executor_watch(comm->shm, op, now);
        if (now - started > BACK_OFF_AFTER) {
            br_progress_yield(context, BACK_OFF_NS);
            br_contention_slept(&context->settings.contention, now, br_clock_now());
        } else {
            br_progress_yield(context, 0);
        }
        if (going_on && now - started > op->wait && !context->worker->failed &&
            progress_goes_on(comm, op, going_on)) {
            rc = 1;
            break;
        }
    }
    if (started) {
        br_comm_unuse_memory(comm, op);
        br_progress_caller_leaves(context);
        atomic_fetch_sub(&comm->outstanding, 1);
    }
    return rc;
}

static void progress_loop_shm(struct braid_comm *comm, struct br_operation *op,
                              struct br_going_on *going_on)
{
    struct br_worker *w = comm->context->worker;
    int rc = check_shm(comm, op, going_on);

    if (rc > 0)
        return;
    if (rc < 0)
        br_worker_fail(w, -rc, br_error_message());
    comm->shm->busy = false;
    op->status = w->failed;
    snprintf(op->message, sizeof op->message, "%s", w->message);
}

/* Under the lock, which this releases: where collectives follow each other in their calls, the
 * progress thread naps and nobody else makes the pass that accesses wait for. */
__attribute__((noinline)) static void leave_with_accesses(struct br_context *context)
{
    context->accesses_rest = false;
    leave_by_pass(context, br_clock_now());
}

bool br_progress_shm(struct braid_comm *comm, struct br_operation *op, struct br_going_on *going_on)
{
    struct br_context *context = comm->context;
    bool taken = false, last;

    if (!comm->shm || !br_shm_executor_takes(comm->shm, op) ||
        pthread_mutex_trylock(&context->lock))
        return false;
    op->sequence = comm->next_sequence;
    if (!context->worker->failed && br_ring_idle(&context->submissions) &&
        br_list_empty(&comm->deferred) && br_backlog_is_empty(&comm->backlog) &&
        br_shm_executor_begin(comm->shm, op)) {
        taken = true;
        br_comm_next_sequence(comm);
        op->order = context->next_order++;
        progress_loop_shm(comm, op, going_on);
        /* Under the lock nobody else writes it; the progress thread sees that somebody drives. */
        atomic_store_explicit(&context->caller_waits,
                              atomic_load_explicit(&context->caller_waits, memory_order_relaxed) +
                                  1,
                              memory_order_relaxed);
        if (going_on && going_on->op)
            ; /* it counts when it has ended */
        else if (op->status)
            comm->failed_operations++;
        else
            comm->operations++;
    }
    if (context->accesses_rest)
        leave_with_accesses(context);
    else
        br_progress_unlock(context);
    /* in a loop of small collectives the lock is free too shortly for those who wait for it */
    last = atomic_load(&context->last_waits);
    if (last || atomic_load(&context->lock_waiters))
        br_progress_let_in(context, last);
    if (taken && going_on && going_on->op) /* the progress thread has not heard of it */
        br_progress_wake(context);
    return taken;
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
