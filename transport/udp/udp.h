/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The udp back end: transport/datagram/ over sockets.
 *
 * 1. One socket receives all of a device's packets, whoever sends them, and a packet says by a random number which link it
 *    belongs to. More sockets, which only send, give the packets other source ports, so that switches which choose a path by
 *    ports use several (BRAID_UDP_PATHS). Rejected: a connected socket a link, which costs a system call a link and poll.
 * 2. A poll takes in packets first, then hands out events, then sends: what arrived may allow more to be sent, and inline bytes of
 *    events stand in the link until its next packet goes out (datagram/link.h).
 * 3. A link is looked at only when something has happened to it (`dirty`) or its time has come.
 * 4. Links are made when the peer has proved to be where it says (cookie.h); a stranger's packets cost a look at their header.
 * 5. Bad news by ICMP about a link that is up is believed only where waiting would not mend it: nobody listens any more, or the
 *    path carries shorter packets than was agreed. Other news may pass; the link's patience decides.
 */
#ifndef BR_TRANSPORT_UDP_UDP_H
#define BR_TRANSPORT_UDP_UDP_H

#include "base/pool.h"
#include "base/table.h"
#include "transport/datagram/link.h"
#include "transport/transport.h"
#include "transport/udp/cookie.h"
#include "transport/udp/socket.h"
#include "transport/udp/train.h"

enum br_udp_state {
    BR_UDP_OPENING,
    BR_UDP_UP,
    BR_UDP_FAILED,
};

struct br_udp_link {
    struct br_link base;
    struct br_dgram_link *dgram; /* NULL: to be made by the next poll, which knows what time it is */
    enum br_udp_state state;
    uint64_t id; /* our number of it */
    union br_inet_address peer;
    bool accepted;  /* made by the peer */
    bool told;      /* the caller knows of it */
    bool dirty;     /* packets may be ready */
    bool eventful;  /* events may be ready */
    bool trusted;   /* the datagram link knows */
    int error;      /* FAILED: negative errno */
    int send_error; /* the latest; positive errno */
    int place;      /* in device->open */
    uint64_t timer;
};

struct br_udp_device {
    struct br_device base;
    union br_inet_address address;  /* where we receive */
    int fds[BR_DGRAM_PATHS], paths; /* the first receives, too */
    int epoll_fd, timer_fd;
    int out_fd; /* watched for room to send; -1: none */
    bool woken; /* since the latest poll */
    uint32_t max_packet;
    uint64_t now;     /* of the latest poll */
    uint64_t refused; /* the peer's number of the link that was refused last for want of room */
    struct br_udp_cookies cookies;
    struct br_pool links;
    struct br_udp_link **open; /* links in use: [0..n_open) */
    int n_open;
    uint32_t turn;       /* whose link is looked at first */
    struct br_table ids; /* number of ours -> link */
    struct br_dgram_packet packet;
    struct br_udp_outbox *outbox;
    struct br_udp_inbox *inbox;
};

/* link.c; all under the worker's lock, none blocks. */
int br_udp_link_connect(struct br_device *device, const struct br_address *address, struct br_link **out);
void br_udp_link_close(struct br_link *link);
int br_udp_link_post(struct br_link *link, const struct br_frame *frames, int n);
void br_udp_link_release(struct br_link *link, void *buffer);
/* Makes the datagram link of one that is to connect. */
void br_udp_link_begin(struct br_udp_link *link);
/* A link for the peer that sent this CONFIRM, whose number is good; NULL: there is no room. */
struct br_udp_link *br_udp_link_accept(struct br_udp_device *device, const struct br_dgram_view *confirm,
                                       const union br_inet_address *from);
/* The link is lost: error is negative, `why` in words. CLOSED is reported by the next poll. */
void br_udp_link_fail(struct br_udp_link *link, int error, const char *why);

/* arrive.c: takes in one train. */
void br_udp_arrive(struct br_udp_device *device, const struct br_udp_arrival *arrival);
/* What ICMP says about packets that were sent by this socket. */
void br_udp_troubles(struct br_udp_device *device, int fd);

/* poll.c */
int br_udp_poll(struct br_device *device, uint64_t now, struct br_event *events, int max);
int br_udp_wait(struct br_device *device);
void br_udp_wake(struct br_device *device);

#endif
