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
#include "base/numa.h"
#include "collectives/local.h"

#define NAP        (2 * BR_MS)   /* of the own thread while callers drive */
#define SLEEP_MOST (250 * BR_MS) /* timers are looked at this often at least */
#define YIELD_AFTER (5 * BR_US)  /* of waiting: perhaps the one we wait for needs this core */
#define LOCAL_NAP  (50 * BR_US)  /* between two looks at the board, when there is nothing else to do */
#define LOOK       256           /* looks at the board between two turns for everything else */

/* ---- one turn ---------------------------------------------------------------------------------------------- */

void br_progress_end(struct braid_comm *comm, struct br_operation *op)
{
    br_comm_operation_ended(comm, op);
    atomic_fetch_sub(&comm->outstanding, 1);
    atomic_store_explicit(&op->state, BR_OPERATION_ENDED, memory_order_release); /* from here on op is the caller's */
    if (atomic_load(&comm->callers) > 1) {
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

/* Deadlines and failure of small local collectives; those of all others are the engine's. */
static void watch_local(struct braid_comm *comm, uint64_t now)
{
    struct br_worker *w = comm->worker;

    if (!w->failed && br_local_next_deadline(comm->local) <= now)
        br_worker_fail(w, ETIMEDOUT, "a small collective within the host missed its deadline: not every rank has called it");
    if (w->failed && !w->fail_due)
        br_local_fail(comm->local, w->failed, w->words);
}

static int turn_local(struct braid_comm *comm, uint64_t now)
{
    struct br_operation *op;
    int n = br_local_step(comm->local, now);

    watch_local(comm, now);
    while ((op = br_local_ended(comm->local)))
        br_progress_end(comm, op);
    return n;
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

/* ---- sleeping ---------------------------------------------------------------------------------------------- */

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

static void take_lock(struct braid_comm *comm)
{
    pthread_mutex_lock(&comm->lock);
    disarm(comm);
}

/* Called under the lock, which is free while the thread sleeps, so that a caller can take over. */
static void sleep_until(struct braid_comm *comm, uint64_t until)
{
    struct pollfd fds[BR_MAX_DEVICES + 1];
    uint64_t now = br_clock_now(), next = next_timer(comm, now, until), count;
    int n;

    atomic_store(&comm->thread_sleeps, true);
    n = arm(comm, fds);
    if (n > 0 && br_ring_empty(&comm->submissions) && next > now) {
        struct timespec left = {(time_t)((next - now) / BR_SEC), (long)((next - now) % BR_SEC)};

        pthread_mutex_unlock(&comm->lock);
        ppoll(fds, (nfds_t)n, &left, NULL);
        pthread_mutex_lock(&comm->lock);
        if (fds[0].revents && read(comm->wake_fd, &count, sizeof count) < 0)
            br_log_debug("rank %d: an empty wake-up", comm->rank);
    }
    atomic_store(&comm->thread_sleeps, false);
    disarm(comm);
}

static bool has_ended(struct br_operation *op)
{
    return atomic_load_explicit(&op->state, memory_order_acquire) == BR_OPERATION_ENDED;
}

static void wake_thread(struct braid_comm *comm)
{
    uint64_t one = 1;

    if (atomic_exchange(&comm->thread_sleeps, false) && write(comm->wake_fd, &one, sizeof one) < 0)
        br_log_debug("rank %d: the wake-up counter is full", comm->rank);
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
        take_lock(comm);
        now = br_clock_now();
        if (br_progress_turn(comm, now) > 0)
            idle_since = 0;
        else if (!idle_since)
            idle_since = now;
        else if (now - idle_since > comm->settings.spin)
            sleep_until(comm, UINT64_MAX);
        pthread_mutex_unlock(&comm->lock);
        if (comm->settings.oversubscribed)
            sched_yield();
    }
    return NULL;
}

int br_progress_start(struct braid_comm *comm)
{
    int rc;

    comm->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (comm->wake_fd < 0)
        return br_error(errno, "rank %d: eventfd: %s", comm->rank, strerror(errno));
    rc = pthread_create(&comm->thread, NULL, run, comm);
    if (rc)
        return br_error(rc, "rank %d: cannot start the worker thread: %s", comm->rank, strerror(rc));
    comm->has_thread = true;
    return 0;
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

int br_progress_submit(struct braid_comm *comm, struct br_operation *op, bool wake)
{
    atomic_store_explicit(&op->state, BR_OPERATION_SUBMITTED, memory_order_relaxed);
    atomic_fetch_add(&comm->outstanding, 1);
    if (pthread_mutex_trylock(&comm->lock)) {
        if (!br_ring_push(&comm->submissions, op)) { /* as large as the pool: cannot be full */
            atomic_fetch_sub(&comm->outstanding, 1);
            return br_error(EAGAIN, "rank %d: the submission ring is full", comm->rank);
        }
    } else {
        uint64_t now = br_clock_now();

        disarm(comm);
        accept_submissions(comm, now); /* those of other threads were first */
        br_comm_start_operation(comm, op, now);
        if (wake)
            br_progress_turn(comm, now);
        pthread_mutex_unlock(&comm->lock);
    }
    if (wake)
        wake_thread(comm);
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
    pthread_mutex_lock(&comm->end_lock);
    if (!has_ended(op))
        pthread_cond_timedwait(&comm->ended, &comm->end_lock, &until);
    pthread_mutex_unlock(&comm->end_lock);
}

/* Under the lock: turns until op has ended, `until` has come, or it has been idle for longer than a spin; then sleeps. */
static void drive(struct braid_comm *comm, struct br_operation *op, uint64_t until)
{
    uint64_t now = br_clock_now(), idle_since = now;

    while (!has_ended(op) && now < until) {
        if (br_progress_turn(comm, now) > 0) {
            idle_since = now = br_clock_now();
            continue;
        }
        now = br_clock_now();
        if (comm->settings.oversubscribed || now - idle_since > YIELD_AFTER)
            sched_yield();
        if (now - idle_since > comm->settings.spin) {
            sleep_until(comm, until);
            idle_since = now = br_clock_now();
        }
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
            pthread_mutex_unlock(&comm->lock);
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
static void drive_local(struct braid_comm *comm, struct br_operation *op)
{
    bool yield = comm->settings.oversubscribed;
    uint64_t started = 0; /* set at the first look: a clock costs as much as the rest of an operation */
    uint32_t looks = 0;

    while (!br_local_complete(comm->local, op)) {
        uint64_t now;
        int rank;

        if (yield)
            sched_yield();
        if (++looks % (yield ? LOOK / 16 : LOOK))
            continue;
        now = br_clock_now();
        if (!started)
            started = now;
        yield = comm->settings.oversubscribed || now - started > YIELD_AFTER;
        br_progress_turn(comm, now);
        if (comm->worker->failed) {
            op->status = comm->worker->failed;
            snprintf(op->words, sizeof op->words, "%s", comm->worker->words);
            return;
        }
        if (now - started < op->timeout)
            continue;
        rank = br_local_waits_for(comm->local, op);
        snprintf(op->words, sizeof op->words, "%s of %zu elements missed its deadline of %llu ms; waits for rank %d (level 0, "
                 "device shm0)", br_collective_name(op->collective), op->count,
                 (unsigned long long)(op->timeout / BR_MS), rank);
        br_worker_fail(comm->worker, ETIMEDOUT, op->words);
        op->status = -ETIMEDOUT;
        return;
    }
}

bool br_progress_local(struct braid_comm *comm, struct br_operation *op)
{
    bool taken = false;

    if (!comm->local || !br_local_takes(comm->local, op) || pthread_mutex_trylock(&comm->lock))
        return false;
    if (!comm->worker->failed && br_ring_empty(&comm->submissions) && br_local_begin(comm->local, op)) {
        taken = true;
        comm->next_sequence++;
        comm->next_order++;
        drive_local(comm, op);
        /* Under the lock nobody else writes it; the own thread sees that somebody drives. */
        atomic_store_explicit(&comm->turns, atomic_load_explicit(&comm->turns, memory_order_relaxed) + 1, memory_order_relaxed);
        if (op->status)
            comm->stats.failed_operations++;
        else
            comm->stats.operations++;
    }
    pthread_mutex_unlock(&comm->lock);
    return taken;
}

void br_progress_try(struct braid_comm *comm)
{
    if (pthread_mutex_trylock(&comm->lock))
        return;
    disarm(comm);
    br_progress_turn(comm, br_clock_now());
    atomic_fetch_add(&comm->turns, 1);
    pthread_mutex_unlock(&comm->lock);
}

void br_progress_drain(struct braid_comm *comm)
{
    while (atomic_load(&comm->outstanding) > 0) {
        take_lock(comm);
        br_progress_turn(comm, br_clock_now());
        pthread_mutex_unlock(&comm->lock);
        sched_yield();
    }
}
