/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The back end tcp: TCP, in batches through io_uring, with edge-triggered epoll for readiness. Any
 * thread may drive a device.
 *
 * The numbered notes are in doc/design/tcp.md.
 */
#ifndef BR_TRANSPORT_TCP_TCP_H
#define BR_TRANSPORT_TCP_TCP_H

#include "base/pool.h"
#include "transport/stream.h"
#include "transport/tcp_socket.h"
#include "transport/tcp/uring_batch.h"
#include "transport/tcp/zero_copy.h"

#define BR_TCP_EVENTS 64    /* The most events of one poll. */
#define BR_TCP_AHEAD  8192u /* Bytes that one call reads ahead, at most (note 6). */

enum br_tcp_state {
    BR_TCP_CONNECTING,
    BR_TCP_UP,
    BR_TCP_FAILED, /* The socket is not in epoll any more; link_close() follows. */
};

struct br_tcp_link {
    struct br_link base;
    enum br_tcp_state state;
    int fd;                  /* -1 when connecting failed before there was a socket. */
    int index;               /* In device->open. */
    int busy;                /* In device->busy; -1: not there. */
    int error;               /* BR_TCP_FAILED: a negative errno. */
    bool watched;            /* It is in epoll (note 2). */
    bool reported;           /* The state was reported: ACCEPTED, CONNECTED or CLOSED. */
    bool readable, writable; /* As far as is known (note 1). */
    bool hung_up;            /* The peer has ended the connection. */
    bool starved;        /* All message buffers are held: nothing is read until one is released. */
    bool accepted;       /* The peer has made the link. */
    int send_error;      /* Note 4; a negative errno. */
    uint32_t event_poll; /* device->n_polls when the last frame was received. */
    bool resting;        /* Note 3. */
    bool bulk;           /* The last frame was longer than what is read ahead (note 6). */
    struct br_stream_rx rx;
    struct br_stream_tx tx;
    /* ahead[ahead_at..ahead_end) has been received and not yet gone where it belongs (note 6). One
     * of device->aheads, of which a few are in use however many links there are; NULL while nothing
     * is there. */
    uint8_t *ahead;
    uint32_t ahead_at, ahead_end;
    uint32_t peeked;     /* The socket still has so many bytes that were received (note 11). */
    uint32_t unanswered; /* Receives of something since the last send. */
    uint32_t unpeeked;   /* So many of them do not peek. */
    uint32_t sent_poll;  /* device->n_polls at the last message to be sent at once or streamed, */
    uint32_t sent_row; /* and how many there were before it without a wait in between (note 10). */
    bool holds;        /* TCP_NODELAY is not set. */
    struct br_tcp_zero_copy zero_copy;
    uint64_t trial_due;            /* ns; of its next trial. */
    uint64_t sent_bytes, lent_end; /* In all; where the last of them ends that were not copied. */
};

struct br_tcp_device {
    struct br_device base;
    struct br_tcp_socket_options options;
    enum br_tcp_zero_copy_way zero_copy; /* Of new links. */
    union br_inet_address address;       /* Where the device listens. */
    int listen_fd, epoll_fd;
    bool incoming;      /* A connection may wait to be accepted. */
    bool check_sockets; /* The next poll calls epoll. */
    bool checked;       /* The last poll has called it. */
    bool holds;         /* A link does. */
    bool unreported;    /* A link has sent frames that are to be reported as SENT. */
    uint32_t n_polls;
    uint32_t watch_poll; /* n_polls when epoll was last needed for the only link (note 2). */
    uint64_t facts_due;  /* When the kernel is asked for the facts of the next link, ns. */
    int facts_next;      /* In `open`: the link that it was asked about last. */
    struct br_stream_config stream;
    struct br_pool links;      /* Of struct br_tcp_link. */
    struct br_pool aheads;     /* Of BR_TCP_AHEAD bytes; as many as links. */
    struct br_tcp_link **open; /* The links in use: open[0..n_open). */
    int n_open;
    /* busy[0..n_busy): those with something to do in a poll (note 7); links without may be there,
     * too. */
    struct br_tcp_link **busy;
    int n_busy;
    int first;                           /* The busy link that this poll looks at first. */
    uint8_t (*inlines)[BR_FRAME_INLINE]; /* br_event.inline_ of the DATA events of this poll. */
    struct br_tcp_batch batch;
    struct br_tcp_pipe pipe;
};

/* link.c: functions of br_transport_ops. All functions are called under the worker's lock; none
 * blocks. */
int br_tcp_link_connect(struct br_device *device, const struct br_address *address,
                        struct br_link **out);
void br_tcp_link_close(struct br_link *link);
int br_tcp_link_post(struct br_link *link, const struct br_frame *frames, int n);
int br_tcp_link_release(struct br_device *device, struct br_link *link, void *buffer);
/* Accepts one connection that waits. Returns its link, or NULL when none waits or it was refused;
 * *again says whether there may be more. */
struct br_tcp_link *br_tcp_link_accept(struct br_tcp_device *device, bool *again);
/* Has epoll tell of a link, at once of what is so already, or no longer. No effect if it is so
 * already. Watching returns 0, or a negative errno: epoll has no room (ENOSPC, ENOMEM). */
int br_tcp_link_watch(struct br_tcp_link *link);
void br_tcp_link_unwatch(struct br_tcp_link *link);
/* Sets br_link.facts to what the kernel knows: resent packets are TCP segments. */
void br_tcp_link_ask(struct br_tcp_link *link);
/* Fails a link, which a later poll reports as CLOSED. error: a negative errno. why: the reason,
 * copied. */
void br_tcp_link_fail(struct br_tcp_link *link, int error, const char *why);
/* Says that a poll may have something to do for a link. */
static inline void br_tcp_link_set_busy(struct br_tcp_device *device, struct br_tcp_link *link)
{
    if (link->busy >= 0)
        return;
    link->busy = device->n_busy;
    device->busy[device->n_busy++] = link;
}
static inline void br_tcp_link_set_idle(struct br_tcp_device *device, struct br_tcp_link *link)
{
    if (link->busy < 0)
        return;
    device->busy[link->busy] = device->busy[--device->n_busy];
    device->busy[link->busy]->busy = link->busy;
    link->busy = -1;
}
/* Gives link->ahead back, if there is one. */
static inline void br_tcp_link_drop_ahead(struct br_tcp_device *device, struct br_tcp_link *link)
{
    if (link->ahead)
        br_pool_put(&device->aheads, link->ahead);
    link->ahead = NULL;
}

/* Has something been posted on a link that its socket may take? */
static inline bool br_tcp_can_send(const struct br_tcp_link *link)
{
    return link->state == BR_TCP_UP && link->writable && !link->send_error &&
           link->tx.sent != link->tx.posted;
}

/* send.c. Sends what is posted on a link, as much as one call and the socket take; the kernel may
 * hold it where sends follow each other (note 10). */
void br_tcp_send_link(struct br_tcp_link *link);
/* The same if nobody has waited since the last one; else nothing, as the next poll sends it. */
void br_tcp_send_streamed(struct br_tcp_link *link);
/* Sends what is posted on all links, as much as the sockets take. */
void br_tcp_send_pending(struct br_tcp_device *device);
/* Ends the holding of links whose sender waits now. */
void br_tcp_send_held(struct br_tcp_device *device);

/* poll.c: functions of br_transport_ops. */
int br_tcp_poll(struct br_device *device, uint64_t now, struct br_event *events, int max);
int br_tcp_arm(struct br_device *device);

#endif
