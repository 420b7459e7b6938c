/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Relaying: in a BCube a peer that is no neighbour, or whose rail is down, is reached through hosts
 * in between. The design, with what was rejected, is in doc/design/relaying.md; the comments below
 * name its sections.
 *
 * A relay belongs to one worker; everything here is called under the worker's lock and blocks for
 * nothing.
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
    struct br_relay_credits out, in; /* of buffers at the peer, of buffers here */
    /* buffers that are free again and of which the peer has not been told; [i]: of class i + 1 */
    uint8_t credits_due[BR_RELAY_HOPS];
};

/* A relayed frame that waits for its next hop, or flies to it. */
struct br_relay_frame {
    struct br_flight flight; /* first; transfer is NULL. Its address is the cookie */
    struct br_queued queued; /* of the next hop's BR_QUEUE_RELAY */
    struct br_list node;     /* of link->frames while that is open, then of relay->closed_frames */
    /* the rail whose buffer it holds; NULL: that rail is lost, or the frame is our own */
    struct br_rail *from;
    struct br_relay_link *link; /* the link here that posted it; NULL: none, or it is closed */
    uint64_t cookie;            /* for the SENT of the inner frame, or 0 */
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
    struct br_list reporting; /* of relay->reporting, when poll() has an event of it to return */
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

/* A hop that another host has named as broken. */
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
/* Sets w->relay. -ENOMEM with a message. */
int br_relay_create(struct br_worker *w);
void br_relay_destroy(struct br_worker *w);
/* The largest payload of a RELAY. */
uint32_t br_relay_frame_bytes(const struct br_worker_config *config);
/* Writes the address of a link that takes this route from `self`. */
void br_relay_address(struct br_address *out, uint32_t self, const struct br_route *route);
/* Handles the events of all routes that end here; returns how many. */
int br_relay_poll(struct br_worker *w);
void br_relay_link_fail(struct br_relay *relay, struct br_relay_link *link, int error,
                        const char *text);
/* A RELAY has arrived whose path ends here. Its header has been checked, its payload has not. */
void br_relay_deliver(struct br_relay *relay, const struct br_message_relay *header,
                      const struct br_event *event);
/* A frame has left the first hop: the link that posted it gets a SENT. */
void br_relay_report_sent(struct br_relay *relay, struct br_relay_frame *frame);

/* hop.c: from host to host */
/* Is the rank a neighbour whose rail is UP? */
bool br_relay_is_hop(const struct br_relay *relay, uint32_t rank);
/* A frame of our own, the relay's memory; control: without payload. NULL: too many are in use. */
struct br_relay_frame *br_relay_own_frame(struct br_relay *relay, bool control);
/* Gives a frame's memory back. */
void br_relay_put(struct br_relay *relay, struct br_relay_frame *frame);
/* The frame waits for its next hop, as its header says. */
void br_relay_enqueue(struct br_relay *relay, struct br_relay_frame *frame);
/* Sends a frame without payload from path[0], this host, to path[hosts - 1]. false: it cannot
 * leave. */
bool br_relay_send_control(struct br_relay *relay, enum br_relay_kind kind, uint32_t id,
                           const uint16_t *path, int hosts, uint32_t number);
void br_relay_reverse(uint16_t *out, const uint16_t *path, int hosts);
/* A direct rail gets its buffers. -ENOMEM with a message. */
int br_relay_rail_init(struct br_worker *w, struct br_rail *rail);
void br_relay_reclaim(struct br_relay *relay);
void br_relay_expire(struct br_relay *relay);

/* peer.c: which peers get alternate routes, and which routes these take */
/* How many alternate routes a rank gets. */
int br_relay_alternates(const struct br_worker *w, int rank);
/* The hop between these two hosts is broken: routes avoid it for some seconds. */
void br_relay_learn(struct br_relay *relay, uint32_t from, uint32_t to);
/* Rank `from` has asked us to connect to it. */
void br_relay_connect_requested(struct br_relay *relay, uint32_t from);

#endif
