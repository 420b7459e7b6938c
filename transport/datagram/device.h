/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a device of datagram links is beside the way its packets travel: its links, who may open
 * one, what an arriving packet means, what a poll reports and sends. transport/udp and
 * transport/dpdk each add that way as a `struct br_dgram_io`.
 *
 * 1. A poll takes in packets first, then hands out events, then sends: what arrived may allow more
 *    to be sent, and inline bytes of events stand in the link until its next packet goes out
 *    (link.h).
 * 2. A link is looked at only when something has happened to it (`dirty`) or its time has come.
 * 3. Links are made when the peer has proved to be where it says (cookie.h); an unauthenticated
 *    peer's packets cost a look at their header.
 */
#ifndef BR_TRANSPORT_DATAGRAM_DEVICE_H
#define BR_TRANSPORT_DATAGRAM_DEVICE_H

#include "base/pool.h"
#include "base/table.h"
#include "transport/datagram/cookie.h"
#include "transport/datagram/link.h"
#include "transport/transport.h"

/* Where packets come from and go to. */
struct br_dgram_address {
    union br_inet_address address;
    uint8_t hop[6]; /* MAC address of the next hop, for who makes the whole frame; else zeros */
};

enum br_dgram_state {
    BR_DGRAM_OPENING,
    BR_DGRAM_UP,
    BR_DGRAM_FAILED,
};

/* A link of a device. */
struct br_dgram_member {
    struct br_link base;
    /* NULL: to be made by the next poll, which knows what time it is */
    struct br_dgram_link *dgram;
    enum br_dgram_state state;
    uint64_t id; /* our number of it */
    struct br_dgram_address peer;
    bool accepted;      /* made by the peer */
    bool reported;      /* the caller knows of it */
    bool dirty;         /* packets may be ready */
    bool eventful;      /* events may be ready */
    bool authenticated; /* the datagram link knows */
    bool unsettled;     /* its timer is to be read anew */
    int error;          /* FAILED: negative errno */
    int send_error;     /* the latest; positive errno; set by the back end */
    int index;          /* in device->open */
    uint64_t timer;
    uint64_t resolve_began; /* when reach() was asked first */
};

struct br_dgram_device;

/* The way of the packets. All called under the worker's lock; none blocks. */
struct br_dgram_io {
    /* Sends head[0..bytes) and `zeros` zeros behind it at once; if that is not possible, they are
     * lost like any packet. */
    void (*reply)(struct br_dgram_device *device, const struct br_dgram_address *to,
                  const void *head, uint32_t bytes, uint32_t zeros);
    /* Is there room for a packet of `member`? Sends what waits, if that makes some. */
    bool (*can_send)(struct br_dgram_device *device, struct br_dgram_member *member);
    /* Takes the packet; there was room. Its payload is readable until it has left or drop() is
     * called. */
    void (*send)(struct br_dgram_device *device, struct br_dgram_member *member,
                 const struct br_dgram_packet *packet);
    /* No packet of this link leaves any more, nor is its payload read. */
    void (*drop)(struct br_dgram_device *device, struct br_dgram_member *member);
    /* Is it known how to reach member->peer? 0: not yet, ask in the next poll; 1: yes; -errno with
     * words: no. */
    int (*resolve)(struct br_dgram_device *device, struct br_dgram_member *member);
};

/* First member of the device of a back end. */
struct br_dgram_device {
    struct br_device base;
    const struct br_dgram_io *io;
    union br_inet_address address; /* where we receive */
    uint32_t max_packet;           /* bytes behind the UDP header */
    int paths;                     /* source ports */
    bool header_only;              /* as in br_dgram_config */
    bool acks_behind;              /* as in br_dgram_config */
    uint64_t target;               /* as in br_dgram_config */
    uint32_t flight_bytes;         /* as in br_dgram_config */
    uint64_t now; /* of the latest poll; the back end may set it anew before sending, also to a time
                                  before which all has been taken in that has arrived: nothing later
                     is lost yet */
    /* when what is taken in has arrived: `now`, unless the back end knows better */
    uint64_t arrived;
    uint64_t refused; /* the peer's number of the link that was refused last for want of room */
    struct br_dgram_cookies cookies;
    struct br_pool links;
    struct br_dgram_member **open; /* links in use: [0..n_open) */
    int n_open;
    uint32_t first;      /* whose link is looked at first */
    struct br_table ids; /* number of ours -> member */
    struct br_dgram_packet packet;
};

/* The caller's array of events, as far as it is filled. */
struct br_dgram_report {
    struct br_event *events;
    int n, max;
};

/* device.c. Prepares base.config, base.caps and what the links need; the rest is the back end's.
 * -errno with a message: to be destroyed all the same, as may be a zeroed one. */
int br_dgram_device_init(struct br_dgram_device *device, const struct br_dgram_io *io,
                         const struct br_device_config *config);
/* Closes all links, which may still send; then frees. */
void br_dgram_device_close_links(struct br_dgram_device *device);
void br_dgram_device_destroy(struct br_dgram_device *device);
/* br_transport_ops */
int br_dgram_device_address(struct br_device *device, struct br_address *out);

/* What callers have wished for since the last poll; `now` is the poll's. */
void br_dgram_device_begin(struct br_dgram_device *device, uint64_t now);
/* Moves events from a link to the report; of one that is not trusted yet, one frame. */
void br_dgram_member_report(struct br_dgram_member *member, struct br_dgram_report *report);
/* Events that are ready. Here, as what waits for a packet asks again and again. */
static inline void br_dgram_device_report(struct br_dgram_device *device,
                                          struct br_dgram_report *report)
{
    for (int k = device->n_open; k-- > 0 && report->n < report->max;)
        if (device->open[k]->eventful)
            br_dgram_member_report(device->open[k], report);
}
static inline bool br_dgram_member_wants(const struct br_dgram_member *member, uint64_t now)
{
    return member->dgram && (member->dirty || member->timer <= now);
}
/* Does a link want to send? */
static inline bool br_dgram_device_wants(const struct br_dgram_device *device)
{
    for (int k = 0; k < device->n_open; k++)
        if (br_dgram_member_wants(device->open[k], device->now))
            return true;
    return false;
}
/* Gives the packets of all links to io->send() while there is room. false: there was not enough.
 * When they have left: settle(). */
bool br_dgram_device_send(struct br_dgram_device *device);
/* When there is no room for packets: who waits in vain hears of it. */
void br_dgram_device_expire(struct br_dgram_device *device);
/* When the links that were asked want to be asked again, and what has ended with waiting. */
void br_dgram_device_drain(struct br_dgram_device *device);
/* Before sleeping. false: a link has something to do now (`no_room`: apart from sending). *first:
 * when the first one will have, or BR_DGRAM_NEVER. */
bool br_dgram_device_idle(const struct br_dgram_device *device, bool no_room, uint64_t *first);

/* input.c: takes in one packet. Returns the link it was for, NULL: none. `marked`: congestion
 * experienced. */
struct br_dgram_member *br_dgram_device_take(struct br_dgram_device *device, const uint8_t *bytes,
                                             uint32_t n, bool marked,
                                             const struct br_dgram_address *from);
/* The link that a packet of ours was sent by, of which the first bytes came back; NULL: none. */
struct br_dgram_member *br_dgram_device_quoted(struct br_dgram_device *device, const void *quote,
                                               uint32_t bytes);

/* member.c; link_connect, link_close, post and message_release of br_transport_ops. */
int br_dgram_member_connect(struct br_device *device, const struct br_address *address,
                            struct br_link **out);
void br_dgram_member_close(struct br_link *link);
int br_dgram_member_post(struct br_link *link, const struct br_frame *frames, int n);
uint64_t br_dgram_member_resent(struct br_link *link);
void br_dgram_member_release(struct br_link *link, void *buffer);
/* Makes the datagram link of one that is to connect, if the peer can be reached. */
void br_dgram_member_begin(struct br_dgram_member *member);
/* A link for the peer that sent this CONFIRM, whose number is good; NULL: there is no room. */
struct br_dgram_member *br_dgram_member_accept(struct br_dgram_device *device,
                                               const struct br_dgram_view *confirm,
                                               const struct br_dgram_address *from);
/* The link is lost: error is negative, `why` in words. CLOSED is reported by the next poll. */
void br_dgram_member_fail(struct br_dgram_member *member, int error, const char *why);

#endif
