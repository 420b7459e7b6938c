/* SPDX-License-Identifier: BSD-3-Clause */
/* The thread of a device. */
#include "transport/threaded/internal.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define BATCH 16 /* frames that are posted at once */

static void thread_wake_worker(struct br_threaded_device *device)
{
    uint64_t one = 1;

    if (atomic_load(&device->worker_sleeps) && atomic_exchange(&device->worker_sleeps, false))
        (void)!write(device->event_fd, &one, sizeof one);
}

/* Gives the inner link what the worker has posted and released. Returns whether there was any. */
static bool forward(struct br_threaded_device *device, struct br_threaded_link *link)
{
    uint32_t accepted = atomic_load_explicit(&link->accepted, memory_order_relaxed),
             posted = atomic_load(&link->posted),
             returned = atomic_load_explicit(&link->returned, memory_order_relaxed),
             released = atomic_load(&link->released);
    const struct br_transport_ops *ops = device->inner->ops;
    bool any = returned != released;

    for (; returned != released; returned++)
        ops->release(device->inner, link->inner,
                     link->buffers[returned % br_threaded_buffers(&device->config)]);
    atomic_store_explicit(&link->returned, returned, memory_order_release);
    link->offered = posted;
    while (accepted != posted) {
        struct br_frame frames[BATCH];
        int n = 0, taken;

        for (; n < BATCH && accepted + (uint32_t)n != posted; n++) {
            const struct br_threaded_post *post =
                &link->posts[(accepted + (uint32_t)n) % BR_THREADED_POSTS];

            frames[n] = post->frame;
            frames[n].inline_ = post->has_inline ? post->inline_ : NULL;
        }
        taken = ops->post(link->inner, frames, n);
        if (taken < 0)
            taken = n; /* it has failed, and CLOSED says so */
        if (!taken)
            break;
        any = true;
        accepted += (uint32_t)taken;
        atomic_store(&link->accepted, accepted);
        if (atomic_load(&device->room) == BR_THREADED_WANTED) {
            atomic_store(&device->room, BR_THREADED_MADE);
            thread_wake_worker(device);
        }
    }
    return any;
}

static bool forward_all(struct br_threaded_device *device)
{
    bool any = false;

    for (uint32_t i = 0; i < device->n_open; i++)
        any |= forward(device, device->open[i]);
    return any;
}

/* What an inner link has refused before the poll, which may have made room without an event. */
static bool forward_refused(struct br_threaded_device *device)
{
    bool any = false;

    for (uint32_t i = 0; i < device->n_open; i++) {
        struct br_threaded_link *link = device->open[i];

        if (atomic_load_explicit(&link->accepted, memory_order_relaxed) != link->offered)
            any |= forward(device, link);
    }
    return any;
}

/* How many events the next poll may report; 0: the thread may not poll now. */
static uint32_t thread_room(struct br_threaded_device *device)
{
    uint32_t tail = atomic_load_explicit(&device->tail, memory_order_relaxed);
    uint32_t room = BR_THREADED_EVENTS - (tail - atomic_load(&device->head));

    if (device->unauthenticated && atomic_load(&device->handled) != tail)
        return 0;
    return room < BR_THREADED_POLL ? room : BR_THREADED_POLL;
}

static void thread_count(struct br_threaded_device *device)
{
    uint64_t counters[BR_THREADED_COUNTERS];

    memcpy(counters, &device->inner->counters, sizeof counters);
    for (size_t i = 0; i < BR_THREADED_COUNTERS; i++)
        atomic_store_explicit(&device->counters[i], counters[i], memory_order_relaxed);
    atomic_store_explicit(&device->stale_seen, device->view->face.stale_frames,
                          memory_order_relaxed);
    atomic_store_explicit(&device->bad_seen, device->view->face.bad_frames, memory_order_relaxed);
}

/* Hands n events of `polled` to the worker. */
static void thread_report(struct br_threaded_device *device, int n)
{
    uint32_t tail = atomic_load_explicit(&device->tail, memory_order_relaxed);

    for (int i = 0; i < n; i++, tail++) {
        struct br_threaded_event *to = &device->events[tail % BR_THREADED_EVENTS];
        struct br_link *inner = device->polled[i].link;

        to->event = device->polled[i];
        to->event.link = to->event.kind == BR_EVENT_ACCEPTED
                             ? &br_threaded_link_make(device, inner)->base
                             : inner->owner;
        if (to->event.kind == BR_EVENT_DATA)
            memcpy(to->inline_, device->polled[i].inline_, BR_FRAME_INLINE);
    }
    atomic_store(&device->tail, tail);
    thread_wake_worker(device);
}

/* What a peer sends after it has got something from here by another device comes later than the
 * reading of that something here, which ThreadSanitizer cannot see: no lock orders two devices. */
static void order_by_network(void)
{
#ifdef __SANITIZE_THREAD__
    static _Atomic uint32_t network;

    atomic_fetch_add(&network, 1);
#endif
}

/* Under the lock. Returns whether there was anything to do. */
static bool step(struct br_threaded_device *device, uint64_t now)
{
    bool any = forward_all(device);
    uint32_t room = thread_room(device);
    int n;

    if (!room)
        return any;
    n = device->inner->ops->poll(device->inner, now, device->polled, (int)room);
    order_by_network();
    br_slot_view_settle(device->view);
    thread_count(device);
    if (n)
        thread_report(device, n);
    if (n < (int)room)
        atomic_store_explicit(&device->heard, now, memory_order_relaxed);
    any |= forward_refused(device);
    return any || n;
}

/* Has the worker asked for something since it was forwarded? Not what an inner link has refused:
 * that link has no room before the next poll. */
static bool is_asked(struct br_threaded_device *device)
{
    for (uint32_t i = 0; i < device->n_open; i++) {
        struct br_threaded_link *link = device->open[i];

        if (atomic_load(&link->posted) != link->offered ||
            atomic_load(&link->released) != atomic_load(&link->returned))
            return true;
    }
    return false;
}

/* Under the lock: makes ready to sleep in `wake_fd` and in *fd, the inner device's descriptor; that
 * is -1 when the thread may not poll. Returns false when there is something to do. */
static bool prepare(struct br_threaded_device *device, int *fd)
{
    bool blocked = !thread_room(device);

    *fd = -1;
    atomic_store(&device->sleeping, blocked ? BR_THREADED_BLOCKED : BR_THREADED_IDLE);
    if (!atomic_load(&device->stop) && blocked == !thread_room(device) && !is_asked(device)) {
        if (!blocked)
            *fd = device->inner->ops->arm(device->inner);
        if (blocked || *fd >= 0)
            return true;
    }
    atomic_store(&device->sleeping, BR_THREADED_AWAKE);
    return false;
}

/* fd: of prepare(). */
static void thread_sleep(struct br_threaded_device *device, int fd)
{
    struct pollfd fds[] = {{.fd = device->wake_fd, .events = POLLIN},
                           {.fd = fd, .events = POLLIN}}; /* poll() skips one that is negative */
    uint64_t wakes;

    (void)!poll(fds, 2, -1);
    atomic_store(&device->sleeping, BR_THREADED_AWAKE);
    if (fds[0].revents)
        (void)!read(device->wake_fd, &wakes, sizeof wakes);
}

void *br_threaded_run(void *argument)
{
    struct br_threaded_device *device = argument;
    uint64_t worked = br_clock_now();

    while (!atomic_load(&device->stop)) {
        uint64_t now;
        bool any, sleeps = false;
        int fd;

        while (atomic_load(&device->wanted))
            sched_yield();
        pthread_mutex_lock(&device->lock);
        now = br_clock_now();
        any = step(device, now);
        if (any)
            worked = now;
        else if (now >= worked + device->config.thread_spin)
            sleeps = prepare(device, &fd);
        pthread_mutex_unlock(&device->lock);
        if (sleeps)
            thread_sleep(device, fd);
        else if (!any)
            sched_yield();
    }
    return NULL;
}
