/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device with a thread of its own. "Inner" is the device of the back end, and a link of it. "The
 * worker" is whoever calls the functions of br_transport_ops under the worker's lock; "the thread"
 * is the device's.
 *
 * 1. The thread alone polls the inner device, under `lock`. The worker takes that lock only for
 *    what is rare: to connect, close and authenticate a link, and to copy what is known of its
 * path. Frames, released buffers and events cross in rings with one producer and one consumer each.
 * 2. What the worker posts and releases lies in rings of the link, so that one link that takes
 *    nothing does not stop the others.
 * 3. The fence: link_close() takes the lock, so no poll runs, closes the inner link, and strikes
 *    out the events of the link that are still in the ring.
 * 4. Where a payload goes, the thread finds in a view of the worker's slots (slot_view.h).
 * 5. A peer's frames behind the last one of its authentication must not be looked at before the
 *    protocol has set br_link.authenticated. So while the device has a link that is not
 *    authenticated, the thread polls only when the worker has dealt with all events so far, which
 *    it says by its next poll() or arm().
 * 6. Each side that sleeps says so first and then looks once more; the other publishes first and
 *    then looks whether somebody sleeps. All four are sequentially consistent.
 * 7. The thread has no work for long: it sleeps in the descriptor of the inner device and in
 *    `wake_fd`. When it may not poll, because the ring of events is full or because of note 5, in
 *    `wake_fd` alone.
 */
#ifndef BR_TRANSPORT_THREADED_INTERNAL_H
#define BR_TRANSPORT_THREADED_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/pool.h"
#include "transport/slot_view.h"
#include "transport/transport.h"

#define BR_THREADED_POSTS  64u  /* Frames of a link that the inner link has not taken yet. */
#define BR_THREADED_EVENTS 256u /* Events that the worker has not taken yet. */
#define BR_THREADED_POLL   64   /* The most events of one poll. */

#define BR_THREADED_COUNTERS (sizeof(struct br_device_counters) / sizeof(uint64_t))

struct br_threaded_post {
    struct br_frame frame; /* inline_ is not used, and rkey is NULL */
    bool has_inline;
    uint8_t inline_[BR_FRAME_INLINE];
};

/* Positions in rings run freely; the entry is position % entries. */
struct br_threaded_link {
    struct br_link base;
    struct br_link *inner;                  /* its owner is this link */
    uint32_t index;                         /* in device->open; under the lock */
    int error;                              /* the worker's: that of CLOSED, once it was reported */
    _Alignas(64) _Atomic uint32_t posted;   /* written by the worker */
    _Atomic uint32_t released;              /* the same */
    _Alignas(64) _Atomic uint32_t accepted; /* frames that the inner link has; the thread's */
    _Atomic uint32_t returned;              /* buffers that the inner link has back; the same */
    uint32_t offered;                       /* frames that the inner link was offered; the same */
    struct br_threaded_post posts[BR_THREADED_POSTS];
    void *buffers[]; /* [br_threaded_buffers()] released */
};

/* The entries of the ring of released buffers: a power of two, as positions run over. A link of
 * `tcp` fills one message more than message_buffers. */
static inline uint32_t br_threaded_buffers(const struct br_device_config *config)
{
    return 1u << (32 - __builtin_clz(config->message_buffers));
}

struct br_threaded_event {
    struct br_event event;            /* link: NULL when it has been closed meanwhile */
    uint8_t inline_[BR_FRAME_INLINE]; /* DATA */
};

/* Room in the rings of posted frames. */
enum br_threaded_room {
    BR_THREADED_ENOUGH,
    BR_THREADED_WANTED, /* A link has refused frames. */
    BR_THREADED_MADE,   /* The thread has made room since, which no event may say. */
};

/* Whether the thread sleeps. */
enum br_threaded_sleep {
    BR_THREADED_AWAKE,
    BR_THREADED_IDLE,    /* Nothing to do: what is posted wakes it. */
    BR_THREADED_BLOCKED, /* It may not poll: a poll() of the worker wakes it, too. */
};

struct br_threaded_device {
    struct br_device base;
    struct br_device *inner;
    struct br_device_config config; /* of the inner device */
    struct br_slot_view *view;
    pthread_t thread;
    bool started;                      /* the thread runs */
    int wake_fd;                       /* an eventfd that wakes the thread */
    int event_fd;                      /* an eventfd that wakes the worker */
    uint64_t stale_frames, bad_frames; /* the worker's: of the view, at the last poll */

    pthread_mutex_t lock;
    /* under the lock */
    struct br_pool links;           /* of struct br_threaded_link, config->max_links of them */
    struct br_threaded_link **open; /* open[0..n_open) */
    uint32_t n_open;
    uint32_t unauthenticated; /* inner links that are not authenticated */

    /* written by the worker */
    _Alignas(64) _Atomic uint32_t wanted; /* it waits for the lock */
    _Atomic bool stop;
    _Atomic uint32_t head;    /* events before it were taken */
    _Atomic uint32_t handled; /* events before it were dealt with, too (note 5) */
    /* The worker's links whose authentication the inner links do not know of yet. */
    struct br_threaded_link **pending; /* [n_pending] */
    uint32_t n_pending;
    uint64_t facts_due; /* when poll() copies the facts of the inner links again, ns */
    bool armed;
    uint8_t inlines[BR_THREADED_POLL][BR_FRAME_INLINE]; /* br_event.inline_ of DATA */

    /* written by the thread */
    _Alignas(64) _Atomic uint32_t tail;
    _Atomic uint64_t heard; /* when a poll began that found all that had come, ns */
    _Atomic uint64_t counters[BR_THREADED_COUNTERS];
    _Atomic uint64_t stale_seen, bad_seen; /* by the view */
    struct br_event polled[BR_THREADED_POLL];

    _Alignas(64) _Atomic int sleeping;       /* enum br_threaded_sleep */
    _Atomic int room;                        /* enum br_threaded_room */
    _Alignas(64) _Atomic bool worker_sleeps; /* the worker has armed the device */
    struct br_threaded_event events[BR_THREADED_EVENTS];
};

static inline struct br_threaded_device *br_threaded_device_of(const struct br_link *link)
{
    return (struct br_threaded_device *)link->device;
}

/* link.c: functions of br_transport_ops, and what the thread needs of links. */
int br_threaded_connect(struct br_device *device, const struct br_address *address,
                        struct br_link **out);
void br_threaded_close(struct br_link *link);
int br_threaded_post(struct br_link *link, const struct br_frame *frames, int n);
int br_threaded_release(struct br_device *device, struct br_link *link, void *buffer);
/* Makes the link around `inner`. Under the lock. Never NULL when the inner device has max_links. */
struct br_threaded_link *br_threaded_link_make(struct br_threaded_device *device,
                                               struct br_link *inner);

/* poll.c: functions of br_transport_ops, of the worker. */
int br_threaded_poll(struct br_device *device, uint64_t now, struct br_event *events, int max);
int br_threaded_arm(struct br_device *device);
/* Takes and releases the lock of the device; the thread makes way. */
void br_threaded_lock(struct br_threaded_device *device);
void br_threaded_unlock(struct br_threaded_device *device);
/* Wakes the thread if it sleeps at least as deep as `depth`. */
void br_threaded_wake(struct br_threaded_device *device, enum br_threaded_sleep depth);

/* thread.c: what the thread does until device->stop. argument: the device. */
void *br_threaded_run(void *argument);

#endif
