/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One reliable link over datagrams. It knows no socket, no clock and no thread: its owner
 * (transport/udp, transport/dpdk, the simulated network of the tests) moves the packets and says
 * what time it is. One thread at a time drives it:
 *
 *     a datagram arrives    br_dgram_parse(); the link is view.header.link; br_dgram_link_input();
 *                           then take events until br_dgram_link_event() says that there are none
 *     frames to send        br_dgram_link_post(); then br_dgram_link_next() until it says that
 * there are none: each call gives one packet, valid until the next call time passes           at
 * br_dgram_link_timer(): br_dgram_link_next(), br_dgram_link_event()
 *
 * The numbered notes are in doc/design/datagram.md.
 */
#ifndef BR_TRANSPORT_DATAGRAM_LINK_H
#define BR_TRANSPORT_DATAGRAM_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/datagram/packet.h"
#include "transport/transport.h"

#define BR_DGRAM_WINDOW 128u       /* frames of a link posted and not yet SENT, at most */
#define BR_DGRAM_NEVER  UINT64_MAX /* of br_dgram_link_timer() */
#define BR_DGRAM_HEAD   (48u + 4u * BR_DGRAM_RANGES) /* bytes of a packet's head, at most */

struct br_dgram_config {
    struct br_slot_table *slots; /* the worker's */
    /* our number of this link: not 0, most of it random, never used again */
    uint64_t id;
    uint32_t message_bytes;   /* payload of a MESSAGE, at most; at most BR_DGRAM_MAX_FRAME */
    uint32_t message_buffers; /* MESSAGEs that we may hold at once, > 0 */
    uint32_t max_packet; /* bytes of a datagram (behind the UDP header) that our NIC carries, at
                            least BR_DGRAM_MIN_PACKET. The path may carry less: set-up finds out */
    uint32_t paths;      /* source ports to spray over, 1 to BR_DGRAM_PATHS */
    /* what we send needs no checksum of payload (the NIC or memory protects it) */
    bool header_only;
    /* an acknowledgement leaves in a call of next() at another time than data, and goes first only
     * when it has waited for long: for who sends a burst at the cost of a packet (internal.h note
     * 5) */
    bool acks_behind;
    /* ns without a sign of life from a peer that owes one, after which the link fails; > 0 */
    uint64_t patience;
    uint64_t target; /* ns of queueing to aim at; 0: a default */
    /* that may be under way, at most: what a peer that does not look for a while can keep for us in
     * its socket or ring; 0: as many as the window allows */
    uint32_t flight_bytes;
};

/* A packet to send: head, then payload. Valid until the next call to the link. */
struct br_dgram_packet {
    uint8_t head[BR_DGRAM_HEAD] __attribute__((aligned(8)));
    uint32_t head_bytes;
    /* the user's memory (readable until SENT, as br_frame says), or zeros; NULL: none */
    const uint8_t *payload;
    uint32_t payload_bytes;
    uint8_t path; /* which source port to use, below config.paths */
    /* nothing leaves behind it now: next() need not be asked before timer() says so */
    bool last;
    struct br_region *region; /* that payload lies in, or NULL: as in br_frame */
};

/* For `braid perf`, logs and tests. */
struct br_dgram_stats {
    uint64_t tx_packets, rx_packets; /* DATA and PING */
    uint64_t tx_acks, rx_acks;
    uint64_t resent_packets; /* parts sent again */
    uint64_t lost_packets;   /* taken for lost */
    uint64_t spurious;       /* of these, acknowledged after all */
    uint64_t timeouts;       /* probes for want of any acknowledgement */
    uint64_t marked_packets; /* with a congestion mark, received */
    uint64_t duplicates;     /* parts received again */
    uint64_t dropped;        /* packets that made no sense now: before set-up, for a full window */
    uint32_t packet_bytes;   /* agreed; 0 before set-up is done */
    uint64_t rtt[BR_DGRAM_PATHS];     /* ns, smoothed */
    uint64_t min_rtt[BR_DGRAM_PATHS]; /* ns, of late */
    double window[BR_DGRAM_PATHS];    /* packets */
};

struct br_dgram_link;

/* Makes a link that is about to connect: next() gives its OPENs. CONNECTED or CLOSED follows as an
 * event. -EINVAL with a message for a configuration out of bounds; -ENOMEM. The only functions that
 * allocate. *config is copied, config->slots stays the caller's. */
int br_dgram_link_connect(const struct br_dgram_config *config, uint64_t now,
                          struct br_dgram_link **out);
/* Makes a link out of an OPEN. It answers by itself; ACCEPTED follows, or CLOSED when nothing more
 * is heard. */
int br_dgram_link_accept(const struct br_dgram_config *config, const struct br_dgram_view *open,
                         uint64_t now, struct br_dgram_link **out);
/* Writes the CLOSE that tells the peer; false: there is nobody to tell. */
bool br_dgram_link_close(struct br_dgram_link *link, struct br_dgram_packet *out);
/* The fence. Frames that were not SENT may or may not have arrived. NULL is allowed. */
void br_dgram_link_destroy(struct br_dgram_link *link);

/* Returns the peer's number of the link; 0: not known yet. */
uint64_t br_dgram_link_peer(const struct br_dgram_link *link);

/* The protocol trusts the peer now (br_link.authenticated). Before, a DATA frame that is not merely
 * early fails the link. */
void br_dgram_link_authenticate(struct br_dgram_link *link);

/* As post() of the contract: takes frames[0..n) in this order, returns how many (0: full), or
 * -errno with a message when the link has failed. -EMSGSIZE with a message: a frame is too long.
 * MESSAGEs go ahead of DATA frames. Allowed once CONNECTED or ACCEPTED. */
int br_dgram_link_post(struct br_dgram_link *link, const struct br_frame *frames, int n);

/*
 * One packet has arrived: parsed, and addressed to this link. `marked`: with the mark "congestion
 * experienced" (ECN). `at`: when it arrived at this host, as exactly as is known (a kernel's or a
 * NIC's time stamp); never later than `now` of a later call, and in order. What a packet then waits
 * to be looked at is no part of its round trip. The payload goes to its place at once; the bytes
 * are not needed afterwards. Give in all that has arrived before next(), which looks for losses.
 */
void br_dgram_link_input(struct br_dgram_link *link, const struct br_dgram_view *view, bool marked,
                         uint64_t at);

/*
 * Takes the next event: ACCEPTED, CONNECTED, SENT (its bytes stand at the peer), MESSAGE (in
 * order), DATA, CLOSED (last; `error`, words by br_dgram_link_message). event->link is not
 * touched. inline_ of a DATA event is valid while no packet is taken in that the peer sent after
 * having heard of a packet given out after this: that is, until the next poll() of an owner that
 * takes in packets first and gives out packets then. false: none.
 */
bool br_dgram_link_event(struct br_dgram_link *link, struct br_event *event);
/* Buffer of a MESSAGE event. May make an acknowledgement due (room for more messages): call
 * next(). */
void br_dgram_link_release(struct br_dgram_link *link, void *buffer);
/* why it failed; "" while it has not */
const char *br_dgram_link_message(const struct br_dgram_link *link);

/* The next packet that may leave now; false: none before br_dgram_link_timer(), or before something
 * else happens. */
bool br_dgram_link_next(struct br_dgram_link *link, uint64_t now, struct br_dgram_packet *out);
/* Instead of next(), where there is no room for a packet: the patience ends all the same. Then
 * event(). */
void br_dgram_link_expire(struct br_dgram_link *link, uint64_t now);
/* When to call next() and event() again though nothing has happened: a time, also a past one; or
 * BR_DGRAM_NEVER. */
uint64_t br_dgram_link_timer(const struct br_dgram_link *link);

void br_dgram_link_stats(const struct br_dgram_link *link, struct br_dgram_stats *out);

#endif
