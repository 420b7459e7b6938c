/* SPDX-License-Identifier: BSD-3-Clause */
/* Small collectives of one host, each run by its caller until it has ended
 * (doc/design/progress.md). */
#include "collectives/comm/progress_shm.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/cpu_affinity.h"
#include "base/error.h"
#include "base/process.h"
#include "base/ring.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/completion.h"
#include "collectives/comm/context.h"
#include "collectives/comm/operation_memory.h"
#include "collectives/comm/operation_pool.h"
#include "collectives/comm/progress.h"
#include "collectives/comm/progress_lock.h"
#include "collectives/engine/operation.h"
#include "collectives/shm/executor.h"
#include "collectives/shm/small.h"
#include "protocol/worker.h"

/* After so long a wait for shared memory the core is given away, for BACK_OFF_NS at a time. */
#define BACK_OFF_AFTER (10 * BR_MS)
#define BACK_OFF_NS    (50 * BR_US)
/* Looks at shared memory between two passes of the progress loop. */
#define LOOK 256
/* Yields while shared memory is looked at, over all operations, between two passes: most operations
 * end after a yield or two, and a core that has a rank too many holds up all ranks until a pass
 * moves one of them (section 5). */
#define YIELDS       256
#define TIMED_YIELDS 4 /* one of so many is timed; a look at the clock costs a tenth of a yield */

/* How looking at the shared segment ends for its caller. */
enum ending {
    COMPLETE,
    LEAVES, /* the short way: the operation goes on in the queue */
    FAILED, /* the worker has failed, or the ranks disagree, as br_error_message() says */
};

/* From now on op is outstanding, has a deadline and uses its memory. */
static void progress_count(struct braid_comm *comm, struct br_operation *op, uint64_t now)
{
    op->deadline = now + op->timeout;
    atomic_fetch_add(&comm->outstanding, 1);
    br_comm_use_memory(comm, op);
}

/* An operation of the pool is to take the place of op, whose caller has waited for so long. Until
 * the caller leaves it nobody else is told of its end. false: there is none. */
static bool progress_replace(const struct br_operation *op, struct br_going_on *going_on,
                             uint64_t waited)
{
    struct br_operation *next = going_on ? going_on->make(going_on) : NULL;

    if (!next)
        return false;
    next->done = NULL;
    next->wait = waited < op->wait ? op->wait - waited : 0;
    going_on->op = next;
    return true;
}

/* op, which is outstanding, goes on in the queue: itself, as its caller waits for it there, or
 * `next`, which is the same call. */
static void progress_queue(struct braid_comm *comm, struct br_operation *op,
                           struct br_operation *next)
{
    if (next) {
        next->sequence = op->sequence;
        next->order = op->order;
        next->deadline = op->deadline;
        next->shm_round = op->shm_round;
        next->send_region = op->send_region;
        next->recv_region = op->recv_region;
    } else {
        next = op;
        next->done = NULL; /* the call returns the result */
    }
    next->shm_role = BR_SHM_ROLE_COLLECTIVE;
    atomic_store(&next->state, BR_OPERATION_SUBMITTED);
    br_shm_executor_go_on(comm->shm, next);
}

/* Under the lock, by a caller that looks at a shared segment. */
static void yield_in_round(struct br_context *context)
{
    bool timed = ++context->yields % TIMED_YIELDS == 0;
    /* only of this yield: between two of them the program may have been elsewhere */
    uint64_t began = timed ? br_clock_now() : 0;

    sched_yield();
    if (timed)
        br_progress_yielded(context, began, br_clock_now());
    if (br_cpu_affinity_is_elsewhere(&context->settings.cpu_affinity))
        br_cpu_affinity_take(&context->settings.cpu_affinity, br_clock_now());
}

/* Is a pass due, after so many looks? While op has more to do at once, also behind each piece of a
 * direct read, but between two rounds only if somebody is to be let in: with many ranks a pass,
 * which looks at all of them, takes as long as a round. */
static bool pass_is_due(const struct br_context *context, const struct br_shm_executor *shm,
                        uint32_t looks, bool yield)
{
    if (looks % (yield || shm->reads ? LOOK / 16 : LOOK) == 0 ||
        (yield && context->yields % YIELDS == 0))
        return true;
    return shm->reads &&
           (shm->form == BR_SHM_OFFERS || shm->form == BR_SHM_MAPPED ||
            atomic_load(&context->lock_waiters) || !br_ring_idle(&context->submissions));
}

/* Before the first pass: most operations end without a look at the devices. */
static void begin_waiting(struct braid_comm *comm, struct br_operation *op, uint64_t now)
{
    progress_count(comm, op, now);
    atomic_fetch_add(&comm->context->callers, 1);
    br_progress_disarm(comm->context);
}

/* Serves everything else, and looks at deadlines. waited: by op's caller, ns. */
static void make_pass(struct braid_comm *comm, const struct br_operation *op, uint64_t now,
                      uint64_t waited)
{
    struct br_context *context = comm->context;

    br_progress_once(context, now);
    br_completion_tell(context, true);
    br_shm_executor_watch(comm->shm, op, now);
    if (waited > BACK_OFF_AFTER && !comm->shm->reads) {
        br_progress_yield(context, BACK_OFF_NS);
        br_contention_slept(&context->settings.contention, now, br_clock_now());
    } else {
        br_progress_yield(context, 0);
    }
}

/* Asks the shared segment until op is complete, has been overtaken, or its caller does not wait any
 * longer; now and then everything else is served, and deadlines are looked at. looks: how many were
 * made before, in vain. */
static enum ending check_shm(struct braid_comm *comm, struct br_operation *op,
                             struct br_going_on *going_on, uint32_t looks)
{
    struct br_context *context = comm->context;
    bool yield = context->settings.oversubscribed;
    /* set at the first look: a clock costs as much as the rest of an operation */
    uint64_t started = 0;
    enum ending ending = FAILED;
    uint32_t spins = 0;
    int rc;

    while (!(rc = br_shm_executor_complete(comm->shm, op)) && !context->worker->failed) {
        uint64_t now;

        if (br_shm_executor_is_overtaken(comm->shm)) {
            now = br_clock_now();
            if (!started)
                progress_count(comm, op, now);
            progress_replace(op, going_on, started ? now - started : 0);
            ending = LEAVES;
            break;
        }
        if (yield && !comm->shm->reads) {
            if (comm->shm->published && br_shm_executor_spins(comm->shm, &spins))
                continue;
            spins = 0;
            yield_in_round(context);
        }
        if (!pass_is_due(context, comm->shm, ++looks, yield))
            continue;
        now = br_clock_now();
        if (!started) {
            started = now;
            begin_waiting(comm, op, now);
        }
        yield = context->settings.oversubscribed || now - started > BR_YIELD_AFTER;
        if (yield)
            br_cpu_affinity_take(&context->settings.cpu_affinity, now);
        make_pass(comm, op, now, now - started);
        if (going_on && now - started > op->wait && !context->worker->failed &&
            progress_replace(op, going_on, now - started)) {
            ending = LEAVES;
            break;
        }
    }
    if (rc > 0)
        ending = COMPLETE;
    if (started)
        br_progress_caller_leaves(context);
    if (ending == LEAVES) {
        progress_queue(comm, op, going_on ? going_on->op : NULL);
    } else if (started) {
        br_comm_unuse_memory(comm, op);
        atomic_fetch_sub(&comm->outstanding, 1);
    }
    return ending;
}

/* What most operations end without: goes on after so many looks, of which the last one returned rc.
 * Apart, as it may come to a cancellation point (base/process.h, note 5). */
__attribute__((noinline)) static void go_on_shm(struct braid_comm *comm, struct br_operation *op,
                                                struct br_going_on *going_on, int rc,
                                                uint32_t looks)
{
    BR_DISABLE_CANCELLATION;
    struct br_worker *w = comm->context->worker;

    if (!rc && check_shm(comm, op, going_on, looks) != FAILED)
        return;
    if (!w->failed)
        br_worker_fail(w, EPROTO, br_error_message());
    br_shm_executor_give_up(comm->shm);
    op->status = w->failed;
    snprintf(op->message, sizeof op->message, "%s", w->message);
}

/* Before others are served; 0: where ranks share cores, the core goes to another one first. */
static uint32_t looks_before_pass(const struct br_context *context)
{
    return context->settings.oversubscribed ? 0 : LOOK - 1;
}

static void progress_loop_shm(struct braid_comm *comm, struct br_operation *op,
                              struct br_going_on *going_on)
{
    uint32_t looks = 0, most = looks_before_pass(comm->context);
    int rc = 0;

    while (!rc && looks < most && !comm->shm->reads && !comm->shm->next) {
        rc = br_shm_executor_complete(comm->shm, op);
        looks++;
    }
    if (rc <= 0)
        go_on_shm(comm, op, going_on, rc, looks);
}

/* op has been overtaken: its caller waits for it like for any other. Apart, as it may come to a
 * cancellation point. */
__attribute__((noinline)) static void progress_wait_overtaken(struct br_operation *op)
{
    BR_DISABLE_CANCELLATION;

    br_progress_finish(op);
}

/* Under the lock: nothing that was called before is still to begin. */
static bool progress_is_next(const struct braid_comm *comm)
{
    const struct br_context *context = comm->context;

    return !context->worker->failed && br_ring_idle(&context->submissions) &&
           br_list_empty(&comm->deferred) && br_backlog_is_empty(&comm->backlog);
}

/* The progress thread sees that somebody drives. Under the lock nobody else writes it. */
static void progress_count_wait(struct br_context *context)
{
    atomic_store_explicit(&context->caller_waits,
                          atomic_load_explicit(&context->caller_waits, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

/* Releases the lock. In a loop of small collectives it is free too shortly for those who wait for
 * it, so they have it before this returns. */
static void progress_leave_shm(struct br_context *context)
{
    bool last;

    if (context->accesses_rest) {
        /* where collectives follow each other in their calls, the progress thread naps and nobody
         * else makes the pass that accesses wait for */
        br_progress_leave(context, 0, true);
    } else {
        br_progress_unlock(context);
    }
    last = atomic_load(&context->last_waits);
    if (last || atomic_load(&context->lock_waiters))
        br_progress_let_in(context, last);
}

/* op has ended on the short way or has left it; then it counts when it ends. Releases the lock. */
static void progress_end_shm(struct braid_comm *comm, struct br_operation *op,
                             const struct br_going_on *going_on)
{
    struct br_context *context = comm->context;
    bool goes_on = going_on && going_on->op, /* as an operation of the pool */
        queued = atomic_load_explicit(&op->state, memory_order_relaxed) != BR_OPERATION_IDLE;

    progress_count_wait(context);
    if (!queued && !goes_on) {
        if (op->status)
            comm->failed_operations++;
        else
            comm->operations++;
    }
    progress_leave_shm(context);
    if (goes_on) { /* the progress thread has not heard of it */
        BR_DISABLE_CANCELLATION;

        br_progress_wake(context);
    }
    if (queued)
        progress_wait_overtaken(op);
}

bool br_progress_shm(struct braid_comm *comm, struct br_operation *op, struct br_going_on *going_on)
{
    struct br_context *context = comm->context;

    if (!comm->shm || !br_shm_executor_takes(comm->shm, op) || !br_mutex_trylock(&context->lock))
        return false;
    op->sequence = comm->next_sequence;
    if (!progress_is_next(comm) ||
        (context->worker->config.trace && br_shm_executor_records(comm->shm, op)) ||
        !br_shm_executor_begin(comm->shm, op)) {
        progress_leave_shm(context);
        return false;
    }
    br_comm_next_sequence(comm);
    op->order = context->next_order++;
    progress_loop_shm(comm, op, going_on);
    progress_end_shm(comm, op, going_on);
    return true;
}

enum br_small br_progress_small(struct braid_comm *comm, const struct br_api_even *call)
{
    struct br_context *context = comm->context;
    struct br_shm_small small;
    uint32_t looks = looks_before_pass(context);

    if (!br_shm_small_takes(comm->shm, call, &small) || !br_mutex_trylock(&context->lock))
        return BR_SMALL_NOT_BEGUN;
    if (!progress_is_next(comm) || !br_shm_small_begin(comm->shm, &small, comm->next_sequence)) {
        progress_leave_shm(context);
        return BR_SMALL_NOT_BEGUN;
    }
    br_comm_next_sequence(comm);
    context->next_order++;
    if (!br_shm_small_complete(comm->shm, &small, looks ? looks : 1))
        return BR_SMALL_BEGUN;
    comm->operations++;
    progress_count_wait(context);
    progress_leave_shm(context);
    return BR_SMALL_COMPLETE;
}

void br_progress_small_go_on(struct braid_comm *comm, struct br_operation *op)
{
    op->sequence = comm->next_sequence - 1;
    op->order = comm->context->next_order - 1;
    br_shm_small_go_on(comm->shm, op);
    go_on_shm(comm, op, NULL, 0, looks_before_pass(comm->context));
    progress_end_shm(comm, op, NULL);
}
