/* SPDX-License-Identifier: BSD-3-Clause */
/* The lock of a context, and how threads sleep that drive progress: sections 4 and 5 of
 * doc/design/progress.md. */
#include "collectives/comm/progress_lock.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/process.h"
#include "base/ring.h"
#include "collectives/comm/context.h"
#include "collectives/comm/posted.h"
#include "collectives/engine/engine.h"
#include "protocol/worker.h"

#define TRYLOCK_TRIES 100 /* who wants the lock for a moment has left it by then */
/* Yields after which who was woken for the lock has come to run, unless this thread's real-time
 * policy keeps it from the only core. */
#define LET_IN_TRIES 1000
/* between two looks at what has no descriptor: a shared segment, a device that must be polled */
#define POLL_INTERVAL_NS (50 * BR_US)

/* ---- armed devices --------------------------------------------------------------------------- */

/* Under the lock. Arms all devices; returns the number of descriptors, or -1: do not sleep.
 * *polled: a device has none. */
static int progress_lock_arm(struct br_context *context, struct pollfd *fds, bool *polled)
{
    int n = 0;

    *polled = false;
    context->armed = true;
    fds[n++] = (struct pollfd){.fd = context->wake_fd, .events = POLLIN};
    for (int d = 0; d < context->worker->n_devices; d++) {
        struct br_device *device = context->worker->devices[d];
        int fd = device->ops->arm(device);

        if (fd == -EOPNOTSUPP) {
            *polled = true;
            continue;
        }
        if (fd < 0) {
            context->armed = false;
            return -1;
        }
        fds[n++] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
    return n;
}

static uint64_t next_timer(struct br_context *context, uint64_t now, uint64_t until)
{
    uint64_t next = now + BR_SLEEP_MAX;

    br_list_for_each (node, &context->executors) {
        const struct br_executor *e = br_container_of(node, struct br_executor, node);
        uint64_t due = e->ops->due(e, now);

        if (due < next)
            next = due;
    }
    br_list_for_each (node, &context->backlogs) {
        const struct br_backlog *backlog = br_container_of(node, struct br_backlog, node);

        if (backlog->next_deadline < next)
            next = backlog->next_deadline;
    }
    return until < next ? until : next;
}

/* ---- the lock -------------------------------------------------------------------------------- */

void br_progress_wake(struct br_context *context)
{
    uint64_t one = 1;

    if (atomic_exchange(&context->may_wake, false) && write(context->wake_fd, &one, sizeof one) < 0)
        br_log_debug("rank %d: the wake-up counter is full", context->rank);
}

void br_progress_arm(struct br_context *context)
{
    BR_DISABLE_CANCELLATION;
    struct pollfd fds[BR_MAX_DEVICES + 1];
    bool polled;

    if (progress_lock_arm(context, fds, &polled) < 0 || br_worker_timer_is_early(context->worker))
        br_progress_wake(context);
}

void br_progress_lock(struct br_context *context)
{
    atomic_fetch_add(&context->lock_waiters, 1);
    br_mutex_lock(&context->lock);
    atomic_fetch_add(&context->lock_turns, 1);
    atomic_fetch_sub(&context->lock_waiters, 1); /* the last, so that nobody waits for one less */
    br_progress_disarm(context);
}

void br_progress_lock_last(struct br_context *context)
{
    if (!br_mutex_trylock(&context->lock)) {
        atomic_store(&context->last_waits, true);
        br_mutex_lock(&context->lock);
        atomic_store(&context->last_waits, false);
    }
    br_progress_disarm(context);
}

void br_progress_let_in(const struct br_context *context, bool last)
{
    uint32_t waiters = (uint32_t)atomic_load(&context->lock_waiters);
    uint32_t before = atomic_load(&context->lock_turns);

    for (int i = 0; i < LET_IN_TRIES && atomic_load(&context->lock_waiters) &&
                    atomic_load(&context->lock_turns) - before < waiters;
         i++)
        sched_yield();
    for (int i = 0; last && i < TRYLOCK_TRIES && atomic_load(&context->last_waits); i++)
        sched_yield();
}

/* Under the lock, which those who want it have while we nap, and until they all have had it. */
static void progress_lock_release(struct br_context *context, uint64_t nap)
{
    struct timespec t = {0, (long)nap};

    br_progress_unlock(context);
    if (nap)
        nanosleep(&t, NULL);
    br_progress_let_in(context, false);
}

void br_progress_yield(struct br_context *context, uint64_t nap)
{
    if (!nap && !atomic_load(&context->lock_waiters))
        return;
    progress_lock_release(context, nap);
    br_progress_lock(context);
}

bool br_progress_yield_or_leave(struct br_context *context)
{
    progress_lock_release(context, 0);
    for (int i = 0; i < TRYLOCK_TRIES; i++) {
        if (br_progress_trylock(context))
            return true;
        sched_yield();
    }
    return false;
}

/* ---- sleeping -------------------------------------------------------------------------------- */

/* woken: the wake-up counter was not zero. Where it came to that since, the next sleep is short. */
static void stop_sleeping(struct br_context *context, bool woken)
{
    uint64_t count;

    if (atomic_fetch_sub(&context->sleeping_threads, 1) > 1)
        return; /* the wake-up is for them as well */
    atomic_store(&context->may_wake, false);
    if (woken && read(context->wake_fd, &count, sizeof count) < 0)
        br_log_debug("rank %d: another thread has reset the wake-up counter", context->rank);
}

void br_progress_sleep(struct br_context *context, uint64_t until)
{
    struct pollfd fds[BR_MAX_DEVICES + 1];
    uint64_t now = br_clock_now(), next;
    bool polled, woken = false;
    int n;

    if (!br_list_empty(&context->posted.waiting)) { /* nobody makes passes that look after them */
        br_posted_go_on(context, now);
        if (br_engine_is_due(context->engine)) /* one asks for its message in the next pass */
            return;
    }
    next = next_timer(context, now, until);
    atomic_fetch_add(&context->sleeping_threads, 1);
    atomic_store(&context->may_wake, true);
    n = progress_lock_arm(context, fds, &polled);
    if (polled && now + POLL_INTERVAL_NS < next)
        next = now + POLL_INTERVAL_NS;
    if (n > 0 && br_ring_empty(&context->submissions) &&
        (context->telling || br_list_empty(&context->untold)) && next > now) {
        struct timespec left = {(time_t)((next - now) / BR_SEC), (long)((next - now) % BR_SEC)};

        br_mutex_unlock(&context->lock);
        woken = ppoll(fds, (nfds_t)n, &left, NULL) > 0 && fds[0].revents;
        /* wanted: it may be for us, and who was woken, too, and first, spins */
        br_progress_lock(context);
        context->progress.asleep += br_clock_now() - now;
    }
    stop_sleeping(context, woken);
    br_progress_disarm(context);
}
