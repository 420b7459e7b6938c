/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Relaying: in a BCube a peer that is no neighbour, or whose rail is down, is reached through hosts
 * in between.
 *
 * 1. An alternate route is a rail whose link is a route. Routes are a back end of their own inside
 *    the protocol (a br_device with the usual operations), so handshake with proof, credits,
 *    window, ACK, keepalive, fencing and failover work over them end to end as over any other link.
 *    Rejected: relaying transfers (a host in between would need slots and would hold a whole
 *    slice), and relaying in the back ends (each would need it, and they know no ranks).
 * 2. A relayed frame travels from host to host as a MESSAGE of type RELAY over the direct rails:
 *    the path rides in the 48 inline bytes, the inner frame (its header of 64 bytes and its
 *    payload) is the payload. It counts in the window of every rail that it passes and leaves in
 *    the order of priorities, with the local frames. MESSAGE frames of a route are all equally
 *    urgent (the most), because they must stay in order.
 * 3. No deadlock: a frame that has travelled h hops lies in a buffer of class h, and waits only for
 *    one of class h + 1. At the last hop it is consumed at once (the inner link's own credits bound
 *    what it holds). Each class has a few buffers of its own on every rail, the rest is shared.
 *    Rejected: a pool without classes (a ring of hosts, each full of frames for the next one,
 *    stands still) and dropping what finds no buffer (a back end delivers, or its link fails).
 * 4. Hosts in between copy into a buffer of theirs. Rejected: holding the receive buffer of the
 *    back end until the frame has left; when the rail it came over is lost, that memory goes while
 *    the other rail still reads it.
 * 5. Hosts in between know the routes that are open through them. When a rail is lost, they tell
 *    both ends of each (UNREACHABLE, which names the hop), so that the ends need not wait for
 *    silence. What cannot be forwarded is answered in the same way.
 * 6. The larger rank connects, as always; the smaller one, when it has no rail left, connect
 *    requests (KNOCK).
 * 7. A peer without any rail is cut, not yet lost: both sides keep trying, and only after
 *    `peer_timeout` without a word is it lost. When the last rail is lost nobody can confirm the
 *    fence; then connecting anew is the fence: who connects has closed its end before, who accepts
 *    closes its own first (connect.c).
 * 8. Everything here is trusted as far as links with a proof are: routes that do not exist are
 *    dropped and counted; nothing is answered with more than one frame without payload; nothing is
 *    forwarded for unauthenticated peers.
 * 9. Farewell: ranks first part from those whom they reach through others, then from their
 *    neighbours; so nobody in between goes too early.
 * 10. Frames of memory that only devices can touch, of a GPU, are copied at the ends of the route,
 *     by region_copy(), for which the worker waits. That is
 *    for the time when a rail has been lost under transfers which NICs had begun: others are not
 * begun so (br_worker_uses_only). Rejected: copies that nobody waits for. The frame at one end and
 * the buffer of the back end at the other would have to stay meanwhile, to save some 10 us a frame
 * on a way that is twice as long in any case.
 */
#ifndef BR_PROTOCOL_RELAY_RELAY_H
#define BR_PROTOCOL_RELAY_RELAY_H

#include "bcube/route.h"
#include "protocol/internal.h"

#define BR_RELAY_RESERVED    2u    /* buffers of each class, on each rail */
#define BR_RELAY_SHARED      24u   /* buffers of a rail for all classes */
#define BR_RELAY_OWN         192u  /* frames of our own that wait for the first hop or fly */
#define BR_RELAY_CONTROL     32u   /* of these, for those without payload alone */
#define BR_RELAY_LINK_FRAMES 16u   /* of these, of one link at most */
#define BR_RELAY_LINKS       256u  /* routes that end here */
#define BR_RELAY_TRANSITS    1024u /* routes that lead through us */
#define BR_RELAY_LEARNED     32u   /* broken hops that others have named */
#define BR_RELAY_ALTERNATES  4     /* of a peer, at most */
#define BR_RELAY_INNER       ((uint32_t)sizeof(struct br_frame_header))

/* Buffers in use, by class; how many of them are shared ones follows from that. */
struct br_relay_credits {
    uint32_t used[BR_RELAY_HOPS + 1], shared;
};

/* What a direct rail has to do with relaying. */
struct br_relay_rail {
    struct br_relay_credits out, in; /* at the peer; here */
    /* given back, and the peer has not been told; [i]: of class i + 1 */
    uint8_t credits_due[BR_RELAY_HOPS];
};

/* A relayed frame that waits for its next hop, or flies to it. */
struct br_relay_frame {
    struct br_flight flight; /* first; transfer is NULL. Its address is the cookie */
    struct br_queued queued; /* of the next hop's BR_QUEUE_RELAY */
    struct br_list node;     /* link->frames while that is open; relay->limbo in the end */
    /* whose buffer it holds; NULL: that rail is lost, or it is our own */
    struct br_rail *from;
    struct br_relay_link *link; /* ours that posted it; NULL: another's, or closed */
    uint64_t cookie;            /* for the SENT of the inner frame */
    /* own: made here; posted: through a link's post(), which gets a SENT for it */
    bool own, posted;
    struct br_message_relay header; /* as it leaves */
    uint32_t length;
    uint8_t bytes[]; /* relay->frame_bytes */
};

enum br_relay_link_state { BR_RELAY_CONNECTING, BR_RELAY_OPENED, BR_RELAY_FAILED };

/* One end of a route. */
struct br_relay_link {
    struct br_link base; /* first */
    enum br_relay_link_state state;
    int error; /* of FAILED, > 0 */
    uint32_t id;
    uint8_t hosts;
    uint16_t path[BR_RELAY_HOSTS]; /* from us to the other end */
    uint32_t tx_messages, rx_messages;
    struct br_list node;      /* of relay->links */
    struct br_list reporting; /* of relay->told, when poll() has something to say of it */
    struct br_list frames;    /* posted and not yet SENT */
    uint32_t n_frames;
    struct br_pool buffers; /* struct br_relay_buffer: received messages that the protocol holds */
};

struct br_relay_buffer {
    uint8_t inline_[BR_FRAME_INLINE];
    uint8_t payload[]; /* config.message_bytes */
};

/* A route that leads through us. */
struct br_relay_transit {
    struct br_list node; /* of relay->transit_list */
    uint32_t id;
    uint8_t hosts, at;             /* we are path[at] */
    uint16_t path[BR_RELAY_HOSTS]; /* from its maker on */
    uint64_t used;                 /* ns */
};

/* Somebody could not reach its neighbour. */
struct br_relay_learned {
    uint16_t from, to;
    uint64_t until; /* ns; 0: free */
};

struct br_relay {
    struct br_device device; /* first; of all alternate routes */
    struct br_device_config config;
    struct br_worker *w;
    uint32_t frame_bytes; /* payload of a RELAY, at most */
    uint32_t hops;        /* of a route, at most */
    struct br_pool frames, transits;
    uint32_t n_own;
    struct br_table ends, through; /* id -> link, id -> transit */
    struct br_list links, reporting, transit_list, closed_frames;
    uint32_t n_links;
    uint16_t next_number;
    struct br_relay_learned learned[BR_RELAY_LEARNED];
};

/* link.c: routes as a back end */
int br_relay_create(struct br_worker *w); /* -ENOMEM with a message */
void br_relay_destroy(struct br_worker *w);
uint32_t br_relay_frame_bytes(const struct br_worker_config *config);
void br_relay_address(struct br_address *out, uint32_t self, const struct br_route *route);
int br_relay_poll(struct br_worker *w);
void br_relay_link_fail(struct br_relay *relay, struct br_relay_link *link, int error,
                        const char *text);
/* A RELAY whose path ends here; checked already, but for the payload. */
void br_relay_deliver(struct br_relay *relay, const struct br_message_relay *header,
                      const struct br_event *event);
void br_relay_report_sent(struct br_relay *relay, struct br_relay_frame *frame);

/* hop.c: from host to host */
/* a neighbour whose rail is up */
bool br_relay_is_hop(const struct br_relay *relay, uint32_t rank);
/* NULL: too many */
struct br_relay_frame *br_relay_own_frame(struct br_relay *relay, bool control);
/* its memory is nobody's any more */
void br_relay_put(struct br_relay *relay, struct br_relay_frame *frame);
void br_relay_enqueue(struct br_relay *relay, struct br_relay_frame *frame);
/* A frame without payload to path[hosts - 1]; path[0] is we. false: it cannot leave. */
bool br_relay_send_control(struct br_relay *relay, enum br_relay_kind kind, uint32_t id,
                           const uint16_t *path, int hosts, uint32_t number);
void br_relay_reverse(uint16_t *out, const uint16_t *path, int hosts);
int br_relay_rail_init(struct br_worker *w, struct br_rail *rail);
void br_relay_reclaim(struct br_relay *relay);
void br_relay_expire(struct br_relay *relay);

/* peer.c: which peers get alternate routes, and which routes these take */
int br_relay_alternates(const struct br_worker *w, int rank);
void br_relay_learn(struct br_relay *relay, uint32_t from, uint32_t to);
void br_relay_connect_requested(struct br_relay *relay, uint32_t from);

#endif
