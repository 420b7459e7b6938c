/* SPDX-License-Identifier: BSD-3-Clause */
/* The lock of worker and engine, and how those sleep who drive them: notes 4 and 5 of comm.h. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "collectives/comm.h"
#include "collectives/local.h"

#define SLEEP_MOST (250 * BR_MS) /* timers are looked at this often at least */
#define KEEP_TRIES 100           /* who wants the lock for a moment has left it by then */
/* between two looks at what has no descriptor: a board, a device that must be polled */
#define LOOK_NAP (50 * BR_US)

/* ---- armed devices ----------------------------------------------------------------------------------------- */

/* Under the lock. Arms every device; returns the number of descriptors, or -1: do not sleep. *polled: a device has none. */
static int arm(struct br_family *family, struct pollfd *fds, bool *polled)
{
    int n = 0;

    *polled = false;
    fds[n++] = (struct pollfd){.fd = family->wake_fd, .events = POLLIN};
    for (int d = 0; d < family->worker->n_devices; d++) {
        struct br_device *device = family->worker->devices[d];
        int fd = device->ops->wait(device);

        family->sleep_fds = d + 1;
        if (fd == -EOPNOTSUPP) {
            *polled = true;
            continue;
        }
        if (fd < 0)
            return -1;
        fds[n++] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
    return n;
}

void br_gate_disarm(struct br_family *family)
{
    for (; family->sleep_fds > 0; family->sleep_fds--) {
        struct br_device *device = family->worker->devices[family->sleep_fds - 1];

        device->ops->wake(device);
    }
}

/* Does an operation wait on a board? A board has no descriptor to wait for. */
static bool looks_at_boards(const struct br_family *family)
{
    br_list_for_each (node, &family->boards)
        if (!br_list_empty(&br_container_of(node, struct br_local, node)->queue))
            return true;
    return false;
}

static uint64_t next_timer(struct br_family *family, uint64_t now, uint64_t until)
{
    uint64_t next = now + SLEEP_MOST, timer = br_worker_next_timer(family->worker),
             deadline = br_engine_next_deadline(family->engine);

    if (timer < next)
        next = timer;
    if (deadline < next)
        next = deadline;
    timer = br_stream_next_look(family, now);
    if (timer < next)
        next = timer;
    if (now + LOOK_NAP < next && looks_at_boards(family))
        next = now + LOOK_NAP;
    return until < next ? until : next;
}

/* ---- the lock ---------------------------------------------------------------------------------------------- */

void br_gate_wake(struct br_family *family)
{
    uint64_t one = 1;

    if (atomic_exchange(&family->may_wake, false) && write(family->wake_fd, &one, sizeof one) < 0)
        br_log_debug("rank %d: the wake-up counter is full", family->rank);
}

/* Whoever sleeps, sleeps in armed devices, whenever the lock is free. */
void br_gate_unlock(struct br_family *family)
{
    struct pollfd fds[BR_MAX_DEVICES + 1];
    bool polled;

    if (atomic_load(&family->sleepers) && !family->sleep_fds && arm(family, fds, &polled) < 0) {
        br_gate_disarm(family);
        br_gate_wake(family);
    }
    pthread_mutex_unlock(&family->lock);
}

void br_gate_lock(struct br_family *family)
{
    atomic_fetch_add(&family->wanted, 1);
    pthread_mutex_lock(&family->lock);
    atomic_fetch_sub(&family->wanted, 1);
    br_gate_disarm(family);
}

void br_gate_lock_last(struct br_family *family)
{
    pthread_mutex_lock(&family->lock);
    br_gate_disarm(family);
}

bool br_gate_try(struct br_family *family)
{
    if (pthread_mutex_trylock(&family->lock))
        return false;
    br_gate_disarm(family);
    return true;
}

/* Under the lock, which those who want it have while we nap, and until they all have had it. */
static void give(struct br_family *family, uint64_t nap)
{
    struct timespec t = {0, (long)nap};

    br_gate_unlock(family);
    if (nap)
        nanosleep(&t, NULL);
    while (atomic_load(&family->wanted))
        sched_yield();
}

void br_gate_let_in(struct br_family *family, uint64_t nap)
{
    if (!nap && !atomic_load(&family->wanted))
        return;
    give(family, nap);
    br_gate_lock(family);
}

bool br_gate_keep(struct br_family *family)
{
    if (!atomic_load(&family->wanted))
        return true;
    give(family, 0);
    for (int i = 0; i < KEEP_TRIES; i++) {
        if (br_gate_try(family))
            return true;
        sched_yield();
    }
    return false;
}

/* ---- sleeping ---------------------------------------------------------------------------------------------- */

static void stop_sleeping(struct br_family *family)
{
    uint64_t count;

    if (atomic_fetch_sub(&family->sleepers, 1) > 1)
        return; /* the wake-up is for them as well */
    atomic_store(&family->may_wake, false);
    while (read(family->wake_fd, &count, sizeof count) > 0)
        ;
}

void br_gate_sleep(struct br_family *family, uint64_t until)
{
    struct pollfd fds[BR_MAX_DEVICES + 1];
    uint64_t now = br_clock_now(), next = next_timer(family, now, until);
    bool polled;
    int n;

    atomic_fetch_add(&family->sleepers, 1);
    atomic_store(&family->may_wake, true);
    n = arm(family, fds, &polled);
    if (polled && now + LOOK_NAP < next)
        next = now + LOOK_NAP;
    if (n > 0 && br_ring_empty(&family->submissions) && next > now) {
        struct timespec left = {(time_t)((next - now) / BR_SEC), (long)((next - now) % BR_SEC)};

        pthread_mutex_unlock(&family->lock);
        ppoll(fds, (nfds_t)n, &left, NULL);
        br_gate_lock(family); /* wanted: it may be for us, and who was woken, too, and first, spins */
        family->progress.asleep += br_clock_now() - now;
    }
    stop_sleeping(family);
    br_gate_disarm(family);
}
