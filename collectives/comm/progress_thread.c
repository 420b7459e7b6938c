/* SPDX-License-Identifier: BSD-3-Clause */
/* The progress thread, which drives while no caller does (doc/design/progress.md). */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/time_slice.h"
#include "collectives/comm/completion.h"
#include "collectives/comm/context.h"
#include "collectives/comm/progress.h"
#include "collectives/comm/progress_lock.h"

#define NAP (2 * BR_MS) /* of the progress thread while callers drive */
/* The same while an operation stands in a stream: callers need not wait for that, so nobody else
 * may be looking whether the stream has come to it. */
#define STREAM_NAP (100 * BR_US)
/* Without a caller for so long, what is known of other programs is forgotten (section 5). */
#define QUIET (10 * BR_CONTENTION_WINDOW)

static void progress_wait_post(struct br_context *context)
{
    while (sem_wait(&context->unpark) && errno == EINTR)
        ;
}

/* For a nap, or until br_progress_end_nap(). */
static void progress_nap(struct br_context *context)
{
    uint64_t end = br_clock_now();
    struct timespec until;
    bool ended = false;

    atomic_store(&context->napping, true);
    end += atomic_load(&context->in_streams) ? STREAM_NAP : NAP;
    until = (struct timespec){(time_t)(end / BR_SEC), (long)(end % BR_SEC)};
    if (!atomic_load(&context->stop))
        do
            ended = !sem_clockwait(&context->unpark, CLOCK_MONOTONIC, &until);
        while (!ended && errno == EINTR);
    if (!ended && !atomic_exchange(&context->napping, false))
        progress_wait_post(context); /* of whoever has ended it just now */
}

/* Until no caller drives any more. */
static void progress_park(struct br_context *context)
{
    atomic_store(&context->parked, true);
    if ((!atomic_load(&context->callers) || atomic_load(&context->stop)) &&
        atomic_exchange(&context->parked, false))
        return;
    progress_wait_post(context);
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
            progress_nap(context);
            if (!atomic_load(&context->in_streams))
                continue; /* else callers may go on without a pass, by the shared segment */
        }
        if (atomic_load(&context->callers) > 0) {
            progress_park(context);
            continue;
        }
        br_progress_lock_last(context);
        now = br_clock_now();
        worked = br_progress_once(context, now) > 0;
        br_progress_account(context, br_clock_now() - now, 1, worked);
        worked = br_completion_tell(context, false) || worked;
        if (worked)
            idle_since = 0;
        else if (!idle_since)
            idle_since = now;
        else if (now - idle_since > context->settings.spin)
            br_progress_sleep(context, UINT64_MAX);
        progress_choose_slices(context, now, seen, &quiet_since);
        br_progress_unlock(context);
        if (context->settings.oversubscribed || (idle_since && now - idle_since > BR_YIELD_AFTER))
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
        br_progress_unpark(context);
        br_progress_end_nap(context);
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
