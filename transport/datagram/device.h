/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device of datagram links, apart from how its packets travel: its links, who may open one, what
 * an arriving packet means, what a poll reports and sends. transport/udp and transport/dpdk add how
 * packets travel as a `struct br_dgram_io`.
 *
 * 1. A poll takes in packets first, then hands out events, then sends: what arrived may allow more
 *    to be sent, and inline bytes of events are in the link until its next packet leaves (link.h).
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
    /* The MAC address of the next hop, for a back end that makes the whole frame; else zeros. */
    uint8_t hop[6];
};

enum br_dgram_state {
    BR_DGRAM_OPENING, /* The link is being made. */
    BR_DGRAM_UP,      /* ACCEPTED or CONNECTED has been reported. */
    BR_DGRAM_FAILED,
};

/* A link of a device. It belongs to the device's pool until br_dgram_member_close(). */
struct br_dgram_member {
    struct br_link base;
    /* NULL until br_dgram_member_begin(), which a poll calls as it has the time. Belongs to this
     * struct. */
    struct br_dgram_link *dgram;
    enum br_dgram_state state;
    uint64_t id; /* This device's number of the link (br_dgram_config.id). */
    struct br_dgram_address peer;
    bool accepted;          /* The peer has made the link. */
    bool reported;          /* The caller knows of the link. */
    bool dirty;             /* br_dgram_link_next() may have a packet. */
    bool eventful;          /* br_dgram_link_event() may have an event. */
    bool authenticated;     /* br_dgram_link_authenticate() has been called. */
    bool unsettled;         /* `timer` has to be read again. */
    int error;              /* BR_DGRAM_FAILED: a negative errno. */
    int send_error;         /* Positive errno of the last packet not sent; set by the back end. */
    int index;              /* In device->open. */
    uint64_t timer;         /* What br_dgram_link_timer() has returned last, ns. */
    uint64_t resolve_began; /* When io->resolve() was called first, ns; 0 before. */
};

struct br_dgram_device;

/* How packets travel; each back end has one. All functions are called under the worker's lock, and
 * none blocks. */
struct br_dgram_io {
    /* Sends one packet, head[0..bytes) and then `zeros` bytes of zero, to `to` at once. Where that
     * is not possible, the packet is lost like any other. Copies head. */
    void (*reply)(struct br_dgram_device *device, const struct br_dgram_address *to,
                  const void *head, uint32_t bytes, uint32_t zeros);
    /* Returns whether there is room for one packet of `member`. Sends packets that wait when that
     * makes room. */
    bool (*can_send)(struct br_dgram_device *device, struct br_dgram_member *member);
    /* Takes a packet, after can_send() has returned true. The packet is valid during the call. Its
     * payload stays readable until the packet has left or drop() is called. */
    void (*send)(struct br_dgram_device *device, struct br_dgram_member *member,
                 const struct br_dgram_packet *packet);
    /* Drops the packets of `member` that have not left. Their payload is not read any more. */
    void (*drop)(struct br_dgram_device *device, struct br_dgram_member *member);
    /* Finds out how to reach member->peer. Returns 1 when that is known, 0 when not yet, so that
     * the next poll calls again, or a negative errno with a message. */
    int (*resolve)(struct br_dgram_device *device, struct br_dgram_member *member);
};

/* The first member of a back end's device. */
struct br_dgram_device {
    struct br_device base;
    const struct br_dgram_io *io;
    union br_inet_address address; /* Where the device receives. */
    uint32_t max_packet;           /* As in br_dgram_config, as the five below. */
    int paths;
    bool header_only;
    bool acks_behind;
    uint64_t target;
    uint32_t flight_bytes;
    /* The time of the latest poll, ns. Before it sends, the back end may set a time before which
     * all that has arrived has been taken in: then no later packet counts as lost. */
    uint64_t now;
    /* When the packets that are taken in have arrived, ns: `now`, unless the back end sets it. */
    uint64_t arrived;
    /* The peer's number of the last link that was refused: max_links were open, or it spoke another
     * version. */
    uint64_t refused;
    struct br_dgram_cookies cookies;
    struct br_pool links;          /* Of struct br_dgram_member, max_links of them. */
    struct br_dgram_member **open; /* The links in use: open[0..n_open). */
    int n_open;
    uint32_t first;      /* Which link br_dgram_device_send() looks at first, modulo n_open. */
    struct br_table ids; /* br_dgram_member.id -> member. */
    struct br_dgram_packet packet; /* For one packet that is being sent. */
};

/* The caller's array of events: events[0..n) are filled in. */
struct br_dgram_report {
    struct br_event *events;
    int n, max;
};

/*
 * All functions are called under the worker's lock, and none blocks; only
 * br_dgram_device_init() and what makes a link allocate.
 */

/* device.c. Sets base.config, base.caps and what the links need, in a device that is all zero. The
 * back end sets the rest. config: kept by the caller until the device is destroyed. Returns 0 or a
 * negative errno with a message; the caller has to destroy the device in any case. */
int br_dgram_device_init(struct br_dgram_device *device, const struct br_dgram_io *io,
                         const struct br_device_config *config);
/* Closes all links. Each sends a CLOSE to its peer, so the back end can still send. */
void br_dgram_device_close_links(struct br_dgram_device *device);
/* Frees what br_dgram_device_init() has allocated. Allowed on a device that is all zero. */
void br_dgram_device_destroy(struct br_dgram_device *device);

/* Begins a poll: makes the links that link_connect() has begun and whose peers can be reached, and
 * tells the links which peers have authenticated themselves. now: the time of the poll, ns. */
void br_dgram_device_begin(struct br_dgram_device *device, uint64_t now);
/* Moves events from a link to the report; one frame at most while the peer has not authenticated
 * itself. */
void br_dgram_member_report(struct br_dgram_member *member, struct br_dgram_report *report);
/* Moves the events of all links to the report while there is room. Inline, because who waits for a
 * packet calls it again and again. */
static inline void br_dgram_device_report(struct br_dgram_device *device,
                                          struct br_dgram_report *report)
{
    for (int k = device->n_open; k-- > 0 && report->n < report->max;)
        if (device->open[k]->eventful)
            br_dgram_member_report(device->open[k], report);
}
/* Returns whether a link may have a packet to send at `now`, ns. */
static inline bool br_dgram_member_wants(const struct br_dgram_member *member, uint64_t now)
{
    return member->dgram && (member->dirty || member->timer <= now);
}
/* Returns whether any link may have a packet to send at device->now. */
static inline bool br_dgram_device_wants(const struct br_dgram_device *device)
{
    for (int k = 0; k < device->n_open; k++)
        if (br_dgram_member_wants(device->open[k], device->now))
            return true;
    return false;
}
/* Gives the packets of all links to io->send(). Returns false when there was not enough room. When
 * the packets have left, the caller calls br_dgram_device_drain(). */
bool br_dgram_device_send(struct br_dgram_device *device);
/* Called when there is no room for packets: fails the links from whose peers nothing has come for
 * br_dgram_config.patience. */
void br_dgram_device_expire(struct br_dgram_device *device);
/* Reads the timers of the links that br_dgram_device_send() has looked at. A link whose timer is in
 * the past may have an event. */
void br_dgram_device_drain(struct br_dgram_device *device);
/* Called before sleeping. Returns false when a link has something to do now; with no_room, a packet
 * to send does not count. Else *first is when the first link will have something to do, ns, or
 * BR_DGRAM_NEVER. */
bool br_dgram_device_idle(const struct br_dgram_device *device, bool no_room, uint64_t *first);

/* input.c. Takes in one packet, bytes[0..n), which may hold anything and is not kept. marked: it
 * had the mark "congestion experienced". Returns the link that it was for, or NULL for none. */
struct br_dgram_member *br_dgram_device_take(struct br_dgram_device *device, const uint8_t *bytes,
                                             uint32_t n, bool marked,
                                             const struct br_dgram_address *from);
/* Returns the link that has sent a packet which begins with quote[0..bytes), or NULL for none. For
 * ICMP messages, which quote the packet that they are about. */
struct br_dgram_member *br_dgram_device_quoted(struct br_dgram_device *device, const void *quote,
                                               uint32_t bytes);

/* member.c. link_connect(), link_close(), post() and release() of br_transport_ops. */
int br_dgram_member_connect(struct br_device *device, const struct br_address *address,
                            struct br_link **out);
void br_dgram_member_close(struct br_link *link);
int br_dgram_member_post(struct br_link *link, const struct br_frame *frames, int n);
int br_dgram_member_release(struct br_device *device, struct br_link *link, void *buffer);
/* Makes member->dgram of a link that is to connect, once io->resolve() has returned 1. The link
 * fails when that is not possible. */
void br_dgram_member_begin(struct br_dgram_member *member);
/* Makes a link for the peer that has sent this CONFIRM, whose number br_dgram_cookie_good() has
 * accepted. Returns NULL with a message, and counts a refused link, when there is no room. */
struct br_dgram_member *br_dgram_member_accept(struct br_dgram_device *device,
                                               const struct br_dgram_view *confirm,
                                               const struct br_dgram_address *from);
/* Fails a link, which the next poll reports as CLOSED. error: a negative errno. why: the reason,
 * copied. Without effect on a link that has failed. */
void br_dgram_member_fail(struct br_dgram_member *member, int error, const char *why);

#endif
