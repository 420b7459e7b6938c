/* SPDX-License-Identifier: BSD-3-Clause */
/* What the worker takes from the thread of a device. */
#include "transport/threaded/internal.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

/* The thread has not looked for so long: it has to, before anybody may conclude from silence. */
#define BEHIND BR_MS

void br_threaded_lock(struct br_threaded_device *device)
{
    atomic_fetch_add(&device->wanted, 1);
    pthread_mutex_lock(&device->lock);
    atomic_fetch_sub(&device->wanted, 1);
}

void br_threaded_unlock(struct br_threaded_device *device)
{
    pthread_mutex_unlock(&device->lock);
}

void br_threaded_wake(struct br_threaded_device *device, enum br_threaded_sleep depth)
{
    uint64_t one = 1;

    if (atomic_load(&device->sleeping) >= (int)depth &&
        atomic_exchange(&device->sleeping, BR_THREADED_AWAKE) != BR_THREADED_AWAKE)
        (void)!write(device->wake_fd, &one, sizeof one);
}

/* What has been taken is dealt with; the thread hears who is authenticated (note 5). */
static void poll_settle(struct br_threaded_device *device)
{
    uint32_t head = atomic_load_explicit(&device->head, memory_order_relaxed);

    for (uint32_t i = device->n_pending; i-- > 0;) {
        struct br_threaded_link *link = device->pending[i];

        if (!link->base.authenticated)
            continue;
        device->pending[i] = device->pending[--device->n_pending];
        br_threaded_lock(device);
        link->inner->authenticated = true;
        device->unauthenticated--;
        br_threaded_unlock(device);
    }
    if (atomic_load_explicit(&device->handled, memory_order_relaxed) != head) {
        atomic_store(&device->handled, head);
        br_threaded_wake(device, BR_THREADED_BLOCKED);
    }
}

/* Copies what the thread has published. */
static void poll_count(struct br_threaded_device *device)
{
    uint64_t counters[BR_THREADED_COUNTERS], stale, bad;
    struct br_slot_table *slots = device->base.config->slots;

    for (size_t i = 0; i < BR_THREADED_COUNTERS; i++)
        counters[i] = atomic_load_explicit(&device->counters[i], memory_order_relaxed);
    memcpy(&device->base.counters, counters, sizeof device->base.counters);
    stale = atomic_load_explicit(&device->stale_seen, memory_order_relaxed);
    bad = atomic_load_explicit(&device->bad_seen, memory_order_relaxed);
    slots->stale_frames += stale - device->stale_frames;
    slots->bad_frames += bad - device->bad_frames;
    device->stale_frames = stale;
    device->bad_frames = bad;
}

/* Copies what the back end knows of the paths of all links. */
static void poll_facts(struct br_threaded_device *device, uint64_t now)
{
    device->facts_due = now + BR_LINK_FACTS_AGE / 2;
    br_threaded_lock(device);
    for (uint32_t i = 0; i < device->n_open; i++)
        device->open[i]->base.facts = device->open[i]->inner->facts;
    br_threaded_unlock(device);
}

/* One event for the caller, who gets what it points at. */
static void poll_take(struct br_threaded_device *device, const struct br_threaded_event *from,
                      uint8_t inline_[BR_FRAME_INLINE], struct br_event *event)
{
    struct br_threaded_link *link = (struct br_threaded_link *)from->event.link;

    *event = from->event;
    switch (event->kind) {
    case BR_EVENT_ACCEPTED:
        device->pending[device->n_pending++] = link;
        break;
    case BR_EVENT_CLOSED:
        link->error = event->error;
        memcpy(link->base.message, link->inner->message, sizeof link->base.message);
        break;
    case BR_EVENT_DATA:
        event->inline_ = memcpy(inline_, from->inline_, BR_FRAME_INLINE);
        break;
    default:
        break;
    }
}

/* The caller posts again what a link has refused. */
static void poll_found_room(struct br_threaded_device *device)
{
    int made = BR_THREADED_MADE;

    if (atomic_load_explicit(&device->room, memory_order_relaxed) == BR_THREADED_MADE)
        atomic_compare_exchange_strong(&device->room, &made, BR_THREADED_ENOUGH);
}

int br_threaded_poll(struct br_device *base, uint64_t now, struct br_event *events, int max)
{
    struct br_threaded_device *device = (struct br_threaded_device *)base;
    uint32_t head = atomic_load_explicit(&device->head, memory_order_relaxed);
    uint32_t tail;
    uint64_t heard, wakes;
    bool news = false; /* of a link as a whole */
    int n = 0;

    if (device->armed) {
        device->armed = false;
        atomic_store(&device->worker_sleeps, false);
        (void)!read(device->event_fd, &wakes, sizeof wakes);
    }
    poll_settle(device);
    poll_found_room(device);
    heard = atomic_load_explicit(&device->heard, memory_order_relaxed);
    tail = atomic_load_explicit(&device->tail, memory_order_acquire);
    for (; head != tail && n < max && n < BR_THREADED_POLL; head++) {
        const struct br_threaded_event *from = &device->events[head % BR_THREADED_EVENTS];

        if (!from->event.link)
            continue;
        poll_take(device, from, device->inlines[n], &events[n]);
        news = news || from->event.kind <= BR_EVENT_CLOSED;
        n++;
    }
    if (head != atomic_load_explicit(&device->head, memory_order_relaxed)) {
        atomic_store(&device->head, head);
        br_threaded_wake(device, BR_THREADED_BLOCKED);
    }
    poll_count(device);
    if (news || now >= device->facts_due)
        poll_facts(device, now);
    base->behind = head != tail || now > heard + BEHIND;
    if (now > heard + BEHIND)
        br_threaded_wake(device, BR_THREADED_IDLE);
    return n;
}

int br_threaded_arm(struct br_device *base)
{
    struct br_threaded_device *device = (struct br_threaded_device *)base;

    poll_settle(device);
    device->armed = true;
    atomic_store(&device->worker_sleeps, true);
    return atomic_load(&device->tail) !=
                       atomic_load_explicit(&device->head, memory_order_relaxed) ||
                   atomic_load(&device->room) == BR_THREADED_MADE
               ? -EAGAIN
               : device->event_fd;
}
