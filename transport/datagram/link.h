/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One reliable link over datagrams. It knows no socket, no clock and no thread: its owner
 * (transport/udp, transport/dpdk, the simulated network of the tests) moves the packets and says
 * what time it is. One thread at a time calls its functions, none of which blocks:
 *
 * - When a datagram arrives: br_dgram_parse(); the link is view.header.link; br_dgram_link_input();
 *   then br_dgram_link_event() until it returns false.
 * - When there are frames to send: br_dgram_link_post(); then br_dgram_link_next() until it returns
 *   false. Each call gives one packet, valid until the next call to the link.
 * - At the time of br_dgram_link_timer(): br_dgram_link_next() and br_dgram_link_event().
 *
 * The numbered notes are in doc/design/datagram.md.
 */
#ifndef BR_TRANSPORT_DATAGRAM_LINK_H
#define BR_TRANSPORT_DATAGRAM_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/datagram/packet.h"
#include "transport/transport.h"

#define BR_DGRAM_WINDOW 128u       /* The most frames of a link that are posted and not SENT. */
#define BR_DGRAM_NEVER  UINT64_MAX /* A time that does not come. */
#define BR_DGRAM_HEAD   (48u + 4u * BR_DGRAM_RANGES) /* The most bytes of a packet's head. */

struct br_dgram_config {
    struct br_slot_table *slots; /* The worker's; kept by the caller until the link is destroyed. */
    /* This side's number of the link: not 0, mostly random, and never used again. */
    uint64_t id;
    uint32_t message_bytes;   /* The most payload bytes of a MESSAGE; up to BR_DGRAM_MAX_FRAME. */
    uint32_t message_buffers; /* The most MESSAGEs that are not released; at least 1. */
    /* The most bytes behind the UDP header of a datagram that the NIC carries, from
     * BR_DGRAM_MIN_PACKET to BR_DGRAM_MAX_PACKET. The set-up of the link finds out what the path
     * carries, which may be less. */
    uint32_t max_packet;
    uint32_t paths; /* The number of source ports to send from, 1 to BR_DGRAM_PATHS. */
    /* The checksum of packets sent does not cover payload, which the NIC or memory protects. */
    bool header_only;
    /* An acknowledgement waits while data leaves, and goes first only when it has waited for long.
     * For owners for whom a burst of packets costs as much as one (internal.h, note 5). */
    bool acks_behind;
    /* The link fails after so many ns in which nothing has come from a peer that owes an answer.
     * At least 1. */
    uint64_t patience;
    uint64_t target; /* The time in queues that congestion control aims at, ns; 0: a default. */
    /* The most bytes under way: what a peer that does not poll for a while keeps in its socket or
     * ring. 0: as many as the congestion window allows. */
    uint32_t flight_bytes;
};

/* A packet to send: head, then payload. Valid until the next call to the link. */
struct br_dgram_packet {
    uint8_t head[BR_DGRAM_HEAD] __attribute__((aligned(8)));
    uint32_t head_bytes;
    /* Memory of the user, readable until SENT (br_frame), or zeros, or NULL for no payload. */
    const uint8_t *payload;
    uint32_t payload_bytes;
    uint8_t path; /* Which source port to send from, below config.paths. */
    /* No packet follows now: br_dgram_link_next() need not be called before
     * br_dgram_link_timer(). */
    bool last;
    struct br_region *region; /* The region that the payload lies in, or NULL when it is in none. */
};

/* What has happened on a link so far. All but resent_packets is for tests. */
struct br_dgram_stats {
    uint64_t tx_packets, rx_packets; /* DATA and PING. */
    uint64_t tx_acks, rx_acks;
    uint64_t resent_packets;      /* Parts of frames that were sent again. */
    uint64_t lost_packets;        /* Packets that counted as lost. */
    uint64_t spurious;            /* Those of them that were acknowledged later. */
    uint64_t timeouts;            /* Times that no acknowledgement came at all. */
    uint64_t duplicates;          /* Parts of frames that were received again. */
    uint64_t dropped;             /* Packets that could not be taken: too early, or without room. */
    uint32_t packet_bytes;        /* The size of a packet that both ends use; 0 until they agree. */
    uint64_t rtt[BR_DGRAM_PATHS]; /* The smoothed round trip, ns. */
    uint64_t min_rtt[BR_DGRAM_PATHS]; /* The least round trip of late, ns. */
    double window[BR_DGRAM_PATHS];    /* The congestion window, packets. */
};

struct br_dgram_link;

/* Makes a link that connects: br_dgram_link_next() gives its OPENs, and the event CONNECTED or
 * CLOSED follows. *config is copied. now: ns. Returns 0, and *out belongs to the caller until
 * br_dgram_link_destroy(); or with a message -EINVAL when the configuration is out of bounds, or
 * -ENOMEM. This function and the next are the only ones that allocate. */
int br_dgram_link_connect(const struct br_dgram_config *config, uint64_t now,
                          struct br_dgram_link **out);
/* Makes a link for a peer's OPEN, which it answers by itself. The event ACCEPTED follows, or CLOSED
 * when the peer sends nothing more. Otherwise like br_dgram_link_connect(). */
int br_dgram_link_accept(const struct br_dgram_config *config, const struct br_dgram_view *open,
                         uint64_t now, struct br_dgram_link **out);
/* Writes a CLOSE for the peer to *out. Returns false when there is no peer yet to send it to. */
bool br_dgram_link_close(struct br_dgram_link *link, struct br_dgram_packet *out);
/* Frees the link; no byte is written to a slot through it any more. Frames without a SENT event may
 * or may not have arrived. NULL is allowed. */
void br_dgram_link_destroy(struct br_dgram_link *link);

/* Returns the peer's number of the link, or 0 while it is not known. */
uint64_t br_dgram_link_peer(const struct br_dgram_link *link);

/* Says that the peer has authenticated itself (br_link.authenticated). Before, DATA frames are
 * dropped without an acknowledgement, and one that keeps coming fails the link. */
void br_dgram_link_authenticate(struct br_dgram_link *link);

/* Takes frames[0..n) for sending, as post() of br_transport_ops does; MESSAGEs leave before DATA.
 * Returns how many it has taken, 0 when there is no room or the link is not up; or a negative errno
 * with a message when the link has failed, or -EMSGSIZE with a message when the first frame is too
 * long. */
int br_dgram_link_post(struct br_dgram_link *link, const struct br_frame *frames, int n);

/*
 * Takes in one packet for this link.
 *
 * view: the packet as br_dgram_parse() has read it, a CLOSE of another version included. Its bytes
 *     are copied to where they go.
 * marked: it had the mark "congestion experienced" (ECN).
 * at: when it arrived at this host, ns, as exactly as is known, such as a time stamp of the kernel
 *     or the NIC. Not before that of an earlier packet, and not after the `now` of a later call.
 *     The time that a packet waits for this call is then no part of its round trip.
 *
 * The owner takes in all packets that have arrived before it calls br_dgram_link_next(), which
 * looks for losses.
 */
void br_dgram_link_input(struct br_dgram_link *link, const struct br_dgram_view *view, bool marked,
                         uint64_t at);

/*
 * Takes the next event; returns false when there is none. SENT means that the bytes are in the
 * peer's memory. MESSAGEs come in order. CLOSED comes last, and br_dgram_link_message() says why.
 * event->link is left as it is.
 *
 * inline_ of a DATA event is valid until a packet is taken in which the peer has sent after it got
 * a packet that this side gave out after the event: that is, until the next poll() of an owner
 * which takes in packets first and gives out packets then.
 */
bool br_dgram_link_event(struct br_dgram_link *link, struct br_event *event);
/* Gives back br_event.buffer of a MESSAGE. The peer may have to be told that there is room, so the
 * caller calls br_dgram_link_next() afterwards. */
void br_dgram_link_release(struct br_dgram_link *link, void *buffer);
/* Returns why the link has failed, or "" while it has not. Valid until the link is destroyed. */
const char *br_dgram_link_message(const struct br_dgram_link *link);

/* Writes the next packet that may leave at `now`, ns, to *out. Returns false when there is none
 * before br_dgram_link_timer() or before something else happens. */
bool br_dgram_link_next(struct br_dgram_link *link, uint64_t now, struct br_dgram_packet *out);
/* Called instead of br_dgram_link_next() where there is no room for a packet, at `now`, ns: fails
 * the link when config.patience has passed. Then br_dgram_link_event() has CLOSED. */
void br_dgram_link_expire(struct br_dgram_link *link, uint64_t now);
/* Returns when to call br_dgram_link_next() and br_dgram_link_event() even if nothing has happened:
 * a time in ns, which may be past, or BR_DGRAM_NEVER. */
uint64_t br_dgram_link_timer(const struct br_dgram_link *link);

/* Returns br_dgram_stats.resent_packets. */
uint64_t br_dgram_link_resent(const struct br_dgram_link *link);
/* Writes what has happened on the link so far to *out. */
void br_dgram_link_stats(const struct br_dgram_link *link, struct br_dgram_stats *out);

#endif
