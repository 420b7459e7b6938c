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

#define BR_TCP_EVENTS 64 /* of one poll, at most */

enum br_tcp_state {
    BR_TCP_CONNECTING,
    BR_TCP_UP,
    BR_TCP_FAILED, /* the socket is out of epoll; waits for link_close */
};

struct br_tcp_link {
    struct br_link base;
    enum br_tcp_state state;
    int fd;                  /* -1: connecting failed before there was one */
    int index;               /* in device->open */
    int error;               /* FAILED: negative errno */
    bool reported;           /* the caller knows of the state (ACCEPTED, CONNECTED, CLOSED) */
    bool readable, writable; /* as far as we know (note 1) */
    bool hung_up;
    bool starved;        /* all message buffers are held: not read until one is released */
    bool accepted;       /* made by the peer */
    int send_error;      /* note 4; negative errno */
    uint32_t event_poll; /* device->n_polls of the last frame received */
    bool resting;        /* note 3 */
    struct br_stream_rx rx;
    struct br_stream_tx tx;
};

struct br_tcp_device {
    struct br_device base;
    struct br_tcp_socket_options options;
    union br_inet_address address; /* where we listen */
    int listen_fd, epoll_fd;
    bool incoming;      /* somebody may wait to be accepted */
    bool check_sockets; /* epoll is to be asked in the next poll */
    uint32_t n_polls;
    struct br_stream_config stream;
    struct br_pool links;
    struct br_tcp_link **open; /* links in use: [0..n_open) */
    int n_open;
    int first;                           /* of them, in this poll */
    uint8_t (*inlines)[BR_FRAME_INLINE]; /* of the DATA events of this poll */
    struct br_tcp_batch batch;
};

/* link.c; all under the worker's lock, none blocks. */
int br_tcp_link_connect(struct br_device *device, const struct br_address *address,
                        struct br_link **out);
void br_tcp_link_close(struct br_link *link);
int br_tcp_link_post(struct br_link *link, const struct br_frame *frames, int n);
uint64_t br_tcp_link_resent(struct br_link *link); /* TCP segments */
uint64_t br_tcp_link_min_rtt(struct br_link *link);
void br_tcp_link_release(struct br_link *link, void *buffer);
/* Takes one waiting connection. NULL: none waits, or it was refused (*again: there may be more). */
struct br_tcp_link *br_tcp_link_accept(struct br_tcp_device *device, bool *again);
/* The link is lost: error is negative, `why` in words. CLOSED is reported by the next polls. */
void br_tcp_link_fail(struct br_tcp_link *link, int error, const char *why);

/* poll.c */
int br_tcp_poll(struct br_device *device, uint64_t now, struct br_event *events, int max);
int br_tcp_wait(struct br_device *device);

#endif
