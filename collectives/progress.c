/* SPDX-License-Identifier: BSD-3-Clause */
/* Who turns the wheel; the reasons are in comm.h. Above transport/, only this file, gate.c, rendezvous.c and protocol/bootstrap/ know
 * threads and a clock. */
#include "collectives/comm.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "collectives/local.h"
#include "collectives/share.h"

#define NAP (2 * BR_MS) /* of the own thread while callers drive */
/* of waiting, with a core for each rank: perhaps the one we wait for needs this core. Not sooner: in Linux 6.18 who yields gives up the
 * rest of its slice for good, and beside a busy program each yield costs milliseconds. */
#define YIELD_AFTER (200 * BR_US)
#define NAP_AFTER   (10 * BR_MS) /* of waiting for the board: give the core away, for BOARD_NAP at a time */
#define BOARD_NAP   (50 * BR_US)
#define LOOK        256 /* looks at the board between two turns for everything else */

/* ---- one turn ---------------------------------------------------------------------------------------------- */

/* Those who could not drive. */
static void wake_waiters(struct br_family *family)
{
    if (!atomic_load(&family->waiters))
        return;
    pthread_mutex_lock(&family->end_lock);
    pthread_cond_broadcast(&family->ended);
    pthread_mutex_unlock(&family->end_lock);
}

void br_progress_end(struct br_operation *op)
{
    struct braid_comm *comm = op->comm;
    struct br_family *family = comm->family;
    bool of_stream = op->passage;

    br_comm_operation_ended(op);
    if (of_stream)
        br_stream_end(op);
    if (op->whole)
        br_share_part_ended(op);
    atomic_fetch_sub(&comm->outstanding, 1);
    if (!of_stream && op->released)
        br_comm_release_operation(op);
    else if (!of_stream)
        atomic_store(&op->state, BR_OPERATION_ENDED); /* from here on op is the caller's */
    atomic_fetch_add(&family->events, 1);
    if (family->sleeping_callers)
        br_gate_wake(family);
    wake_waiters(family);
}

void br_progress_fail(struct br_operation *op)
{
    br_operation_fail(op->comm->family->engine, op);
    br_progress_end(op);
}

/* Of one that was on the board the copies to a GPU may have to come first; then it comes again. */
static void end_staged(struct br_operation *op)
{
    if (!br_stage_board_end(op->comm->family->engine, op) && !br_share_end(op))
        br_progress_end(op);
}

static int accept_submissions(struct br_family *family, uint64_t now)
{
    struct br_operation *op;
    int n = 0;

    for (; (op = br_ring_pop(&family->submissions)); n++)
        br_comm_start_operation(op, now);
    return n;
}

static void fail_overdue_local(const struct br_local *local, const struct br_operation *op)
{
    char words[240], waited[120];

    snprintf(words, sizeof words, "%s of %zu elements missed its deadline of %llu ms: waits for %s",
             br_collective_name(op->collective), op->count, (unsigned long long)(op->timeout / BR_MS),
             br_local_name_waited(local, op, waited, sizeof waited));
    br_worker_fail(op->comm->family->worker, ETIMEDOUT, words);
}

/* A rank that has left the job published all that it was to publish in shared memory before it said so: waiting for more is in vain.
 * op: on the short way; NULL: the head of the queue. */
static void watch_left(struct br_local *local, const struct br_operation *op, struct br_worker *w)
{
    int rank = br_local_lacks(local, op);
    char words[240], name[80];

    if (rank < 0 || w->failed || w->peers[br_group_in_job(local->group, rank)].state != BR_PEER_LEFT ||
        br_local_lacks(local, op) != rank) /* it has published just before it left */
        return;
    if (!op)
        op = br_container_of(local->queue.next, struct br_operation, node);
    snprintf(words, sizeof words, "%s has left the job (braid_finalize), but %s of %zu elements waits for it",
             br_group_name_rank(local->group, rank, name, sizeof name), br_collective_name(op->collective),
             op->count);
    br_worker_fail(w, ECONNRESET, words);
}

/* Deadlines and failure of small local collectives; those of all others are the engine's. */
static void watch_local(struct br_local *local, struct br_worker *w, uint64_t now)
{
    const struct br_operation *overdue = br_local_overdue(local, now);

    if (overdue && !w->failed)
        fail_overdue_local(local, overdue);
    watch_left(local, NULL, w);
    br_local_watch(local, NULL, w, now);
    if (w->failed && !w->fail_due)
        br_local_fail(local, w->failed, w->words);
}

/* A turn has taken this long. Those within ask_board() are not timed: a clock costs as much as a look at the board. */
static void account(struct br_family *family, uint64_t time, bool worked)
{
    *(worked ? &family->progress.busy : &family->progress.idle) += time;
}

static int turn_local(struct br_local *local, struct br_worker *w, uint64_t now)
{
    struct br_operation *op;
    int n;

    if (br_list_empty(&local->queue))
        return 0;
    n = br_local_step(local);
    if (n < 0)
        br_worker_fail(w, -n, br_error_words());
    watch_local(local, w, now);
    while ((op = br_local_ended(local)))
        end_staged(op);
    while ((op = br_local_passed(local)))
        br_comm_to_engine(op, now);
    return n < 0 ? 1 : n;
}

/* Of the operations that have yet to come to the engine, or may have: its order. */
static uint64_t oldest_to_come(const struct br_family *family)
{
    uint64_t oldest = br_stream_oldest(family);

    br_list_for_each (node, &family->boards) {
        uint64_t order = br_local_oldest(br_container_of(node, struct br_local, node));

        if (order < oldest)
            oldest = order;
    }
    return oldest;
}

int br_progress_turn(struct br_family *family, uint64_t now)
{
    struct br_operation *op;
    int n = accept_submissions(family, now);

    family->now = now;
    family->progress.turns++;
    if (!br_list_empty(&family->holding))
        n += br_stream_step(family, now);
    br_engine_expect(family->engine, oldest_to_come(family));
    n += br_engine_turn(family->engine, now);
    while ((op = br_engine_ended(family->engine)))
        end_staged(op);
    br_list_for_each (node, &family->boards)
        n += turn_local(br_container_of(node, struct br_local, node), family->worker, now);
    return n;
}

/* ---- what is waited for ------------------------------------------------------------------------------------ */

struct goal {
    struct br_operation *op; /* its end; NULL: any event after `seen` */
    uint64_t seen;
};

static bool is_reached(struct br_family *family, const struct goal *goal)
{
    if (!goal->op)
        return atomic_load(&family->events) != goal->seen;
    return atomic_load_explicit(&goal->op->state, memory_order_acquire) == BR_OPERATION_ENDED;
}

/* ---- the own thread ---------------------------------------------------------------------------------------- */

/* Callers drive: look again after a nap. */
static void nap(void)
{
    struct timespec t = {0, NAP};

    nanosleep(&t, NULL);
}

static void *run(void *argument)
{
    struct br_family *family = argument;
    uint64_t seen = 0, idle_since = 0;

    while (!atomic_load(&family->stop)) {
        uint64_t now;
        bool worked;

        if (atomic_load(&family->callers) > 0 || atomic_load(&family->turns) != seen) {
            seen = atomic_load(&family->turns);
            nap();
            continue;
        }
        br_gate_lock_last(family);
        now = br_clock_now();
        worked = br_progress_turn(family, now) > 0;
        account(family, br_clock_now() - now, worked);
        if (worked)
            idle_since = 0;
        else if (!idle_since)
            idle_since = now;
        else if (now - idle_since > family->settings.spin)
            br_gate_sleep(family, UINT64_MAX);
        br_gate_unlock(family);
        if (family->settings.oversubscribed || (idle_since && now - idle_since > YIELD_AFTER))
            sched_yield();
    }
    return NULL;
}

static int pin(struct br_family *family)
{
    int cpu = family->settings.pin_cpu, rc;
    cpu_set_t set;

    if (cpu < 0)
        return 0;
    CPU_ZERO(&set);
    if (cpu < CPU_SETSIZE)
        CPU_SET((size_t)cpu, &set);
    rc = pthread_setaffinity_np(family->thread, sizeof set, &set);
    return rc ? br_error(rc, "rank %d: the worker thread cannot run on CPU %d (BRAID_PIN_CPU): %s",
                         family->rank, cpu, strerror(rc))
              : 0;
}

int br_progress_start(struct br_family *family)
{
    int rc;

    family->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (family->wake_fd < 0)
        return br_error(errno, "rank %d: eventfd: %s", family->rank, strerror(errno));
    rc = br_thread_start(&family->thread, run, family);
    if (rc) {
        br_progress_stop(family);
        return br_error(rc, "rank %d: cannot start the worker thread: %s", family->rank, strerror(rc));
    }
    family->has_thread = true;
    rc = pin(family);
    if (rc)
        br_progress_stop(family);
    return rc;
}

void br_progress_stop(struct br_family *family)
{
    uint64_t one = 1;

    if (family->has_thread) {
        atomic_store(&family->stop, true);
        if (write(family->wake_fd, &one, sizeof one) < 0)
            br_log_debug("rank %d: the wake-up counter is full", family->rank);
        pthread_join(family->thread, NULL);
        family->has_thread = false;
    }
    if (family->wake_fd >= 0)
        close(family->wake_fd);
    family->wake_fd = -1;
}

/* ---- callers ----------------------------------------------------------------------------------------------- */

/* With the lock the engine takes the operation at once, unless one of this thread is on its way through the ring still, behind another
 * thread's that is not published yet. Else it goes into the ring, and whoever drives takes it out. -EAGAIN with words. */
static int hand_in(struct br_operation *op, bool locked, uint64_t now)
{
    struct br_family *family = op->comm->family;

    atomic_store_explicit(&op->state, BR_OPERATION_SUBMITTED, memory_order_relaxed);
    atomic_fetch_add(&op->comm->outstanding, 1);
    if (locked)
        accept_submissions(family, now);
    if (locked && br_ring_idle(&family->submissions)) {
        br_comm_start_operation(op, now);
    } else if (!br_ring_push(&family->submissions, op)) { /* as large as the pool: cannot be full */
        atomic_fetch_sub(&op->comm->outstanding, 1);
        return br_error(EAGAIN, "rank %d: the submission ring is full", family->rank);
    }
    return 0;
}

int br_progress_submit(struct br_operation *op)
{
    struct br_family *family = op->comm->family;
    bool locked = br_gate_try(family);
    uint64_t now = locked ? br_clock_now() : 0;
    int rc = hand_in(op, locked, now);

    if (locked) {
        br_progress_turn(family, now);
        br_gate_unlock(family);
    }
    br_gate_wake(family);
    return rc;
}

/* Somebody else drives: sleep until an operation ends, but look again soon, as the driver may leave. */
static void wait_for_driver(struct br_family *family, const struct goal *goal)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 200000;
    if (until.tv_nsec >= (long)BR_SEC) {
        until.tv_nsec -= (long)BR_SEC;
        until.tv_sec++;
    }
    atomic_fetch_add(&family->waiters, 1);
    pthread_mutex_lock(&family->end_lock);
    if (!is_reached(family, goal))
        pthread_cond_timedwait(&family->ended, &family->end_lock, &until);
    pthread_mutex_unlock(&family->end_lock);
    atomic_fetch_sub(&family->waiters, 1);
}

/* Under the lock, by a caller that has nothing to do: another rank may need this core, and ours may be free. */
static void make_room(struct br_family *family, uint64_t now)
{
    if (!br_seat_take(&family->settings.seat, now))
        sched_yield();
}

/* Under the lock: turns until the goal is reached or `until` has come, at least once, as who only looks again and again drives, too. Sleeps when
 * it has been idle for longer than a spin. false: another drives now, and the lock is not ours any more. */
static bool drive(struct br_family *family, const struct goal *goal, uint64_t until)
{
    uint64_t now = br_clock_now(), idle_since = now;

    do {
        uint64_t began = now;
        bool worked = br_progress_turn(family, now) > 0;

        now = br_clock_now();
        account(family, now - began, worked);
        if (worked || is_reached(family, goal)) {
            idle_since = now;
        } else if (now - idle_since > family->settings.spin) {
            family->sleeping_callers++;
            br_gate_sleep(family, until);
            family->sleeping_callers--;
            idle_since = now = br_clock_now();
        } else if (family->settings.oversubscribed || now - idle_since > YIELD_AFTER) {
            make_room(family, now);
            now = br_clock_now(); /* what others did meanwhile is no time of the next turn */
        }
        if (!br_gate_keep(family))
            return false;
    } while (!is_reached(family, goal) && now < until);
    return true;
}

/* true: the goal is reached. */
static bool wait_for(struct br_family *family, const struct goal *goal, uint64_t most)
{
    uint64_t until;

    if (is_reached(family, goal))
        return true;
    until = most == UINT64_MAX ? UINT64_MAX : br_clock_now() + most;
    atomic_fetch_add(&family->callers, 1);
    while (!is_reached(family, goal)) {
        if (br_gate_try(family)) {
            if (drive(family, goal, until)) { /* else another drives, and counts */
                atomic_fetch_add(&family->turns, 1);
                br_gate_unlock(family);
            }
        } else {
            wait_for_driver(family, goal);
        }
        if (br_clock_now() >= until)
            break;
    }
    atomic_fetch_sub(&family->callers, 1);
    return is_reached(family, goal);
}

int br_progress_run(struct br_operation *op)
{
    struct br_family *family = op->comm->family;
    const struct goal goal = {.op = op};
    bool locked = br_gate_try(family);
    int rc = hand_in(op, locked, locked ? br_clock_now() : 0);

    if (locked) {
        atomic_fetch_add(&family->callers, 1);
        if (rc || drive(family, &goal, UINT64_MAX)) { /* else another drives */
            atomic_fetch_add(&family->turns, 1);
            br_gate_unlock(family);
        }
        atomic_fetch_sub(&family->callers, 1);
    }
    if (!rc)
        wait_for(family, &goal, UINT64_MAX); /* its deadline ends it */
    return rc;
}

bool br_progress_wait(struct br_operation *op, uint64_t most)
{
    return wait_for(op->comm->family, &(struct goal){.op = op}, most);
}

uint64_t br_progress_seen(const struct br_family *family)
{
    return atomic_load(&family->events);
}

void br_progress_wait_event(struct br_family *family, uint64_t seen, uint64_t most)
{
    wait_for(family, &(struct goal){.seen = seen}, most);
}

/* Under the lock, so that nobody is between looking at `events` and falling asleep. */
void br_progress_nudge(struct br_family *family)
{
    br_gate_lock(family);
    atomic_fetch_add(&family->events, 1);
    br_gate_unlock(family);
    br_gate_wake(family);
    wake_waiters(family);
}

/* Asks the board until op is complete; now and then everything else gets its turn, and deadlines are looked at. */
static int ask_board(struct braid_comm *comm, struct br_operation *op)
{
    struct br_family *family = comm->family;
    bool yield = family->settings.oversubscribed;
    uint64_t started = 0; /* set at the first look: a clock costs as much as the rest of an operation */
    uint32_t looks = 0;
    int rc;

    while (!(rc = br_local_complete(comm->local, op)) && !family->worker->failed) {
        uint64_t now;

        if (yield)
            sched_yield();
        if (++looks % (yield ? LOOK / 16 : LOOK))
            continue;
        now = br_clock_now();
        if (!started) {
            started = now;
            atomic_fetch_add(&comm->outstanding, 1);
            atomic_fetch_add(&family->callers, 1);
            br_comm_use_memory(comm, op);
            br_gate_disarm(family); /* not before: most operations end without a look at the devices */
        }
        yield = family->settings.oversubscribed || now - started > YIELD_AFTER;
        if (yield)
            br_seat_take(&family->settings.seat, now);
        br_progress_turn(family, now);
        if (now - started >= op->timeout && !family->worker->failed)
            fail_overdue_local(comm->local, op);
        watch_left(comm->local, op, family->worker);
        br_local_watch(comm->local, op, family->worker, now);
        br_gate_let_in(family, now - started > NAP_AFTER ? BOARD_NAP : 0);
    }
    if (started) {
        br_comm_unuse_memory(comm, op);
        atomic_fetch_sub(&family->callers, 1);
        atomic_fetch_sub(&comm->outstanding, 1);
    }
    return rc;
}

static void drive_local(struct braid_comm *comm, struct br_operation *op)
{
    struct br_worker *w = comm->family->worker;
    int rc = ask_board(comm, op);

    if (rc > 0)
        return;
    if (rc < 0)
        br_worker_fail(w, -rc, br_error_words());
    comm->local->busy = false;
    op->status = w->failed;
    snprintf(op->words, sizeof op->words, "%s", w->words);
}

bool br_progress_local(struct braid_comm *comm, struct br_operation *op)
{
    struct br_family *family = comm->family;
    bool taken = false;

    if (!comm->local || !br_local_takes(comm->local, op) || pthread_mutex_trylock(&family->lock))
        return false;
    op->sequence = comm->next_sequence;
    if (!family->worker->failed && br_ring_idle(&family->submissions) && br_list_empty(&comm->held) &&
        br_local_begin(comm->local, op)) {
        taken = true;
        br_comm_next_sequence(comm);
        family->next_order++;
        drive_local(comm, op);
        /* Under the lock nobody else writes it; the own thread sees that somebody drives. */
        atomic_store_explicit(&family->turns, atomic_load_explicit(&family->turns, memory_order_relaxed) + 1,
                              memory_order_relaxed);
        if (op->status)
            comm->failed_operations++;
        else
            comm->operations++;
    }
    br_gate_unlock(family);
    return taken;
}

void br_progress_try(struct br_family *family)
{
    if (!br_gate_try(family))
        return;
    br_progress_turn(family, br_clock_now());
    atomic_fetch_add(&family->turns, 1);
    br_gate_unlock(family);
}

void br_progress_settle(struct br_family *family, const _Atomic int *count, uint64_t most)
{
    uint64_t start = br_clock_now(), now = start;

    for (; atomic_load(count) > 0 && now - start < most; now = br_clock_now()) {
        br_gate_lock(family);
        br_progress_turn(family, now);
        br_gate_unlock(family);
        sched_yield();
    }
}
