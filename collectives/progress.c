/* SPDX-License-Identifier: BSD-3-Clause */
/* Who turns the wheel, and how it waits; the reasons are in comm.h. The only file above transport/ besides
 * protocol/bootstrap/ and rendezvous.c that knows threads and a clock. */
#include "collectives/comm.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "collectives/local.h"

#define NAP         (2 * BR_MS)   /* of the own thread while callers drive */
#define SLEEP_MOST  (250 * BR_MS) /* timers are looked at this often at least */
#define YIELD_AFTER (5 * BR_US)   /* of waiting: perhaps the one we wait for needs this core */
#define LOCAL_NAP   (50 * BR_US)  /* between two looks at the board, when there is nothing else to do */
#define NAP_AFTER   (10 * BR_MS)  /* of waiting for the board: give the core away */
#define LOOK        256           /* looks at the board between two turns for everything else */

/* ---- one turn ---------------------------------------------------------------------------------------------- */

void br_progress_end(struct braid_comm *comm, struct br_operation *op)
{
    br_comm_operation_ended(comm, op);
    atomic_fetch_sub(&comm->outstanding, 1);
    atomic_store(&op->state, BR_OPERATION_ENDED); /* from here on op is the caller's */
    if (comm->sleeping_callers)
        br_progress_wake(comm);
    if (atomic_load(&comm->waiters)) {
        pthread_mutex_lock(&comm->end_lock);
        pthread_cond_broadcast(&comm->ended);
        pthread_mutex_unlock(&comm->end_lock);
    }
}

static int accept_submissions(struct braid_comm *comm, uint64_t now)
{
    struct br_operation *op;
    int n = 0;

    for (; (op = br_ring_pop(&comm->submissions)); n++)
        br_comm_start_operation(comm, op, now);
    return n;
}

static void fail_overdue_local(struct braid_comm *comm, const struct br_operation *op)
{
    char words[200];

    snprintf(words, sizeof words,
             "%s of %zu elements missed its deadline of %llu ms: waits for rank %d (level 0, device shm0)",
             br_collective_name(op->collective), op->count, (unsigned long long)(op->timeout / BR_MS),
             br_local_waits_for(comm->local, op));
    br_worker_fail(comm->worker, ETIMEDOUT, words);
}

/* Deadlines and failure of small local collectives; those of all others are the engine's. */
static void watch_local(struct braid_comm *comm, uint64_t now)
{
    const struct br_operation *overdue = br_local_overdue(comm->local, now);
    struct br_worker *w = comm->worker;

    if (overdue && !w->failed)
        fail_overdue_local(comm, overdue);
    if (w->failed && !w->fail_due)
        br_local_fail(comm->local, w->failed, w->words);
}

static int turn_local(struct braid_comm *comm, uint64_t now)
{
    struct br_operation *op;
    int n = br_local_step(comm->local);

    if (n < 0)
        br_worker_fail(comm->worker, EPROTO, br_error_words());
    watch_local(comm, now);
    while ((op = br_local_ended(comm->local)))
        br_progress_end(comm, op);
    return n < 0 ? 1 : n;
}

int br_progress_turn(struct braid_comm *comm, uint64_t now)
{
    struct br_operation *op;
    int n = accept_submissions(comm, now);

    comm->now = now;
    n += br_worker_poll(comm->worker, now);
    n += br_engine_step(comm->engine, now);
    if (br_worker_pump(comm->worker, now) > 0)
        n += 1 + br_worker_poll(comm->worker, now); /* a back end may send what was posted at its next poll */
    while ((op = br_engine_ended(comm->engine)))
        br_progress_end(comm, op);
    if (comm->local)
        n += turn_local(comm, now);
    return n;
}

/* ---- armed devices ----------------------------------------------------------------------------------------- */

/* Under the lock. Arms every device; returns the number of descriptors, or -1: do not sleep. */
static int arm(struct braid_comm *comm, struct pollfd *fds)
{
    int n = 0;

    fds[n++] = (struct pollfd){.fd = comm->wake_fd, .events = POLLIN};
    for (int d = 0; d < comm->worker->n_devices; d++) {
        struct br_device *device = comm->worker->devices[d];
        int fd = device->ops->wait(device);

        comm->sleep_fds = d + 1;
        if (fd < 0)
            return -1;
        fds[n++] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
    return n;
}

/* Under the lock. */
static void disarm(struct braid_comm *comm)
{
    for (; comm->sleep_fds > 0; comm->sleep_fds--) {
        struct br_device *device = comm->worker->devices[comm->sleep_fds - 1];

        device->ops->wake(device);
    }
}

static uint64_t next_timer(struct braid_comm *comm, uint64_t now, uint64_t until)
{
    uint64_t next = now + SLEEP_MOST, timer = br_worker_next_timer(comm->worker),
             deadline = br_engine_next_deadline(comm->engine);

    if (timer < next)
        next = timer;
    if (deadline < next)
        next = deadline;
    if (comm->local && !br_list_empty(&comm->local->queue) && now + LOCAL_NAP < next)
        next = now + LOCAL_NAP; /* the board has no descriptor to wait for */
    return until < next ? until : next;
}

/* ---- the lock ---------------------------------------------------------------------------------------------- */

void br_progress_wake(struct braid_comm *comm)
{
    uint64_t one = 1;

    if (atomic_exchange(&comm->may_wake, false) && write(comm->wake_fd, &one, sizeof one) < 0)
        br_log_debug("rank %d: the wake-up counter is full", comm->rank);
}

/* Whoever sleeps, sleeps in armed devices, whenever the lock is free. */
static void release(struct braid_comm *comm)
{
    struct pollfd fds[BR_MAX_DEVICES + 1];

    if (atomic_load(&comm->sleepers) && !comm->sleep_fds && arm(comm, fds) < 0) {
        disarm(comm);
        br_progress_wake(comm);
    }
    pthread_mutex_unlock(&comm->lock);
}

void br_progress_lock(struct braid_comm *comm)
{
    atomic_fetch_add(&comm->wanted, 1);
    pthread_mutex_lock(&comm->lock);
    atomic_fetch_sub(&comm->wanted, 1);
    disarm(comm);
}

void br_progress_unlock(struct braid_comm *comm)
{
    release(comm);
}

/* Under the lock, by whoever drives for long: those who want the lock for a moment get it. nap: and the core as well, in ns. */
static void let_in(struct braid_comm *comm, uint64_t nap)
{
    struct timespec t = {0, (long)nap};

    if (!nap && !atomic_load(&comm->wanted))
        return;
    release(comm);
    if (nap)
        nanosleep(&t, NULL);
    while (atomic_load(&comm->wanted))
        sched_yield();
    pthread_mutex_lock(&comm->lock);
    disarm(comm);
}

/* ---- sleeping ---------------------------------------------------------------------------------------------- */

static void stop_sleeping(struct braid_comm *comm)
{
    uint64_t count;

    if (atomic_fetch_sub(&comm->sleepers, 1) > 1)
        return; /* the wake-up is for them as well */
    atomic_store(&comm->may_wake, false);
    while (read(comm->wake_fd, &count, sizeof count) > 0)
        ;
}

/* Called under the lock, which is free while the thread sleeps, so that a caller can take over. */
static void sleep_until(struct braid_comm *comm, uint64_t until)
{
    struct pollfd fds[BR_MAX_DEVICES + 1];
    uint64_t now = br_clock_now(), next = next_timer(comm, now, until);
    int n;

    atomic_fetch_add(&comm->sleepers, 1);
    atomic_store(&comm->may_wake, true);
    n = arm(comm, fds);
    if (n > 0 && br_ring_empty(&comm->submissions) && next > now) {
        struct timespec left = {(time_t)((next - now) / BR_SEC), (long)((next - now) % BR_SEC)};

        pthread_mutex_unlock(&comm->lock);
        ppoll(fds, (nfds_t)n, &left, NULL);
        pthread_mutex_lock(&comm->lock);
    }
    stop_sleeping(comm);
    disarm(comm);
}

static bool has_ended(struct br_operation *op)
{
    return atomic_load_explicit(&op->state, memory_order_acquire) == BR_OPERATION_ENDED;
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
    struct braid_comm *comm = argument;
    uint64_t seen = 0, idle_since = 0;

    while (!atomic_load(&comm->stop)) {
        uint64_t now;

        if (atomic_load(&comm->callers) > 0 || atomic_load(&comm->turns) != seen) {
            seen = atomic_load(&comm->turns);
            nap();
            continue;
        }
        pthread_mutex_lock(&comm->lock);
        disarm(comm);
        now = br_clock_now();
        if (br_progress_turn(comm, now) > 0)
            idle_since = 0;
        else if (!idle_since)
            idle_since = now;
        else if (now - idle_since > comm->settings.spin)
            sleep_until(comm, UINT64_MAX);
        release(comm);
        if (comm->settings.oversubscribed || (idle_since && now - idle_since > YIELD_AFTER))
            sched_yield();
    }
    return NULL;
}

static int pin(struct braid_comm *comm)
{
    int cpu = comm->settings.pin_cpu, rc;
    cpu_set_t set;

    if (cpu < 0)
        return 0;
    CPU_ZERO(&set);
    if (cpu < CPU_SETSIZE)
        CPU_SET((size_t)cpu, &set);
    rc = pthread_setaffinity_np(comm->thread, sizeof set, &set);
    return rc ? br_error(rc, "rank %d: the worker thread cannot run on CPU %d (BRAID_PIN_CPU): %s",
                         comm->rank, cpu, strerror(rc))
              : 0;
}

int br_progress_start(struct braid_comm *comm)
{
    int rc;

    comm->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (comm->wake_fd < 0)
        return br_error(errno, "rank %d: eventfd: %s", comm->rank, strerror(errno));
    rc = pthread_create(&comm->thread, NULL, run, comm);
    if (rc) {
        br_progress_stop(comm);
        return br_error(rc, "rank %d: cannot start the worker thread: %s", comm->rank, strerror(rc));
    }
    comm->has_thread = true;
    rc = pin(comm);
    if (rc)
        br_progress_stop(comm);
    return rc;
}

void br_progress_stop(struct braid_comm *comm)
{
    uint64_t one = 1;

    if (comm->has_thread) {
        atomic_store(&comm->stop, true);
        if (write(comm->wake_fd, &one, sizeof one) < 0)
            br_log_debug("rank %d: the wake-up counter is full", comm->rank);
        pthread_join(comm->thread, NULL);
        comm->has_thread = false;
    }
    if (comm->wake_fd >= 0)
        close(comm->wake_fd);
    comm->wake_fd = -1;
}

/* ---- callers ----------------------------------------------------------------------------------------------- */

int br_progress_submit(struct braid_comm *comm, struct br_operation *op, bool wake_up)
{
    atomic_store_explicit(&op->state, BR_OPERATION_SUBMITTED, memory_order_relaxed);
    atomic_fetch_add(&comm->outstanding, 1);
    if (!br_ring_push(&comm->submissions, op)) { /* as large as the pool: cannot be full */
        atomic_fetch_sub(&comm->outstanding, 1);
        return br_error(EAGAIN, "rank %d: the submission ring is full", comm->rank);
    }
    if (!pthread_mutex_trylock(&comm->lock)) {
        uint64_t now = br_clock_now();

        disarm(comm);
        accept_submissions(comm, now);
        if (wake_up)
            br_progress_turn(comm, now);
        release(comm);
    }
    if (wake_up)
        br_progress_wake(comm);
    return 0;
}

/* Somebody else drives: sleep until an operation ends, but look again soon, as the driver may leave. */
static void wait_for_driver(struct braid_comm *comm, struct br_operation *op)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 200000;
    if (until.tv_nsec >= (long)BR_SEC) {
        until.tv_nsec -= (long)BR_SEC;
        until.tv_sec++;
    }
    atomic_fetch_add(&comm->waiters, 1);
    pthread_mutex_lock(&comm->end_lock);
    if (!has_ended(op))
        pthread_cond_timedwait(&comm->ended, &comm->end_lock, &until);
    pthread_mutex_unlock(&comm->end_lock);
    atomic_fetch_sub(&comm->waiters, 1);
}

/* Under the lock: turns until op has ended, `until` has come, or it has been idle for longer than a spin; then sleeps. */
static void drive(struct braid_comm *comm, struct br_operation *op, uint64_t until)
{
    uint64_t now = br_clock_now(), idle_since = now;

    while (!has_ended(op) && now < until) {
        bool worked = br_progress_turn(comm, now) > 0;

        now = br_clock_now();
        if (worked) {
            idle_since = now;
        } else if (now - idle_since > comm->settings.spin) {
            comm->sleeping_callers++;
            sleep_until(comm, until);
            comm->sleeping_callers--;
            idle_since = now = br_clock_now();
        } else if (comm->settings.oversubscribed || now - idle_since > YIELD_AFTER) {
            sched_yield();
        }
        let_in(comm, 0);
    }
}

bool br_progress_wait(struct braid_comm *comm, struct br_operation *op, uint64_t most)
{
    uint64_t until;

    if (has_ended(op))
        return true;
    until = most == UINT64_MAX ? UINT64_MAX : br_clock_now() + most;
    atomic_fetch_add(&comm->callers, 1);
    while (!has_ended(op)) {
        if (!pthread_mutex_trylock(&comm->lock)) {
            disarm(comm);
            drive(comm, op, until);
            atomic_fetch_add(&comm->turns, 1);
            release(comm);
        } else {
            wait_for_driver(comm, op);
        }
        if (br_clock_now() >= until)
            break;
    }
    atomic_fetch_sub(&comm->callers, 1);
    return has_ended(op);
}

/* Asks the board until op is complete; now and then everything else gets its turn, and deadlines are looked at. */
static int ask_board(struct braid_comm *comm, struct br_operation *op)
{
    bool yield = comm->settings.oversubscribed;
    uint64_t started = 0; /* set at the first look: a clock costs as much as the rest of an operation */
    uint32_t looks = 0;
    int rc;

    while (!(rc = br_local_complete(comm->local, op)) && !comm->worker->failed) {
        uint64_t now;

        if (yield)
            sched_yield();
        if (++looks % (yield ? LOOK / 16 : LOOK))
            continue;
        now = br_clock_now();
        if (!started) {
            started = now;
            atomic_fetch_add(&comm->callers, 1);
            br_comm_use_memory(comm, op);
        }
        yield = comm->settings.oversubscribed || now - started > YIELD_AFTER;
        br_progress_turn(comm, now);
        if (now - started >= op->timeout && !comm->worker->failed)
            fail_overdue_local(comm, op);
        let_in(comm, now - started > NAP_AFTER ? LOCAL_NAP : 0);
    }
    if (started) {
        br_comm_unuse_memory(comm, op);
        atomic_fetch_sub(&comm->callers, 1);
    }
    return rc;
}

static void drive_local(struct braid_comm *comm, struct br_operation *op)
{
    int rc = ask_board(comm, op);

    if (rc > 0)
        return;
    if (rc < 0)
        br_worker_fail(comm->worker, -rc, br_error_words());
    comm->local->busy = false;
    op->status = comm->worker->failed;
    snprintf(op->words, sizeof op->words, "%s", comm->worker->words);
}

bool br_progress_local(struct braid_comm *comm, struct br_operation *op)
{
    bool taken = false;

    if (!comm->local || !br_local_takes(comm->local, op) || pthread_mutex_trylock(&comm->lock))
        return false;
    op->sequence = comm->next_sequence;
    if (!comm->worker->failed && br_ring_idle(&comm->submissions) && br_local_begin(comm->local, op)) {
        taken = true;
        comm->next_sequence++;
        comm->next_order++;
        drive_local(comm, op);
        /* Under the lock nobody else writes it; the own thread sees that somebody drives. */
        atomic_store_explicit(&comm->turns, atomic_load_explicit(&comm->turns, memory_order_relaxed) + 1,
                              memory_order_relaxed);
        if (op->status)
            comm->stats.failed_operations++;
        else
            comm->stats.operations++;
    }
    release(comm);
    return taken;
}

void br_progress_try(struct braid_comm *comm)
{
    if (pthread_mutex_trylock(&comm->lock))
        return;
    disarm(comm);
    br_progress_turn(comm, br_clock_now());
    atomic_fetch_add(&comm->turns, 1);
    release(comm);
}

void br_progress_drain(struct braid_comm *comm)
{
    while (atomic_load(&comm->outstanding) > 0) {
        br_progress_lock(comm);
        br_progress_turn(comm, br_clock_now());
        br_progress_unlock(comm);
        sched_yield();
    }
}
