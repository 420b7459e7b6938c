/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of a link share; link.h says what a link does. The numbered notes, about
 * exactly-once delivery, loss, order and windows, are in doc/design/datagram.md.
 */
#ifndef BR_TRANSPORT_DATAGRAM_INTERNAL_H
#define BR_TRANSPORT_DATAGRAM_INTERNAL_H

#include "base/list.h"
#include "base/pool.h"
#include "transport/datagram/link.h"
#include "transport/datagram/path.h"

#define BR_DGRAM_RX_FRAMES 256u /* Frames that a receiver keeps. */
static_assert(BR_DGRAM_RX_FRAMES == 2 * BR_DGRAM_WINDOW, "note 2");
#define BR_DGRAM_PROBES 8u /* The most sizes of OPEN that are tried. */

/* What the sender keeps of a packet, in br_dgram_path.sent by number. */
struct br_dgram_sent {
    uint64_t time;  /* When it was sent, ns. */
    uint32_t frame; /* The number of the frame that it carried a part of. */
    uint8_t part;   /* Which part, or BR_DGRAM_NO_PART for a PING. */
    uint8_t state;  /* BR_DGRAM_DONE, BR_DGRAM_FLYING or BR_DGRAM_LOST. */
};
enum {
    BR_DGRAM_DONE,   /* It was acknowledged, or never sent. */
    BR_DGRAM_FLYING, /* It was sent and not acknowledged. */
    BR_DGRAM_LOST    /* It counts as lost. */
};
#define BR_DGRAM_NO_PART 0xffu
/* After so many timeouts in a row a path carries only PINGs, if another path works. */
#define BR_DGRAM_DEAD 3u

/* The packets with numbers first to last have arrived. */
struct br_dgram_run {
    uint64_t first, last;
};

/* One path of a link, in both directions. Times are in ns. */
struct br_dgram_path {
    /* Sending. */
    struct br_dgram_congestion congestion;
    struct br_dgram_sent *sent; /* BR_DGRAM_PACKETS entries, by number modulo that; owned. */
    uint64_t next;              /* The number of the next packet; the first is 1. */
    uint64_t floor;             /* No packet with a lower number is FLYING or LOST. */
    uint32_t in_flight;         /* Packets that are FLYING. */
    uint64_t asked;             /* The number of the last packet that asks; 0 for none. */
    /* The receiver may take its time to acknowledge the packet that was sent last: it does not ask,
     * and it does not end a message. */
    bool unasked;
    uint64_t newest_acked; /* The largest number that was acknowledged; 0 for none. */
    /* When the packet newest_acked was sent, and when its acknowledgement came. */
    uint64_t newest_sent, newest_heard;
    uint64_t reorder;     /* How much later than in order a packet may arrive (note 4). */
    uint64_t loss_at;     /* When the next packet will count as lost, or BR_DGRAM_NEVER. */
    uint64_t quiet_since; /* When a packet was sent or an acknowledgement came last. */
    /* When an acknowledgement came last, or when the first packet without one was sent. */
    uint64_t silent_since;
    unsigned probes; /* Timeouts in a row. */
    bool probe;      /* One packet may leave even if the window is full. */
    bool ping;       /* A PING is to be sent. */

    uint32_t marked_heard; /* br_dgram_ack.marked of the latest acknowledgement. */

    /* Receiving. */
    struct br_dgram_run runs[BR_DGRAM_RANGES]; /* What has arrived, the largest numbers first. */
    unsigned n_runs;
    uint64_t latest, latest_at; /* The number that arrived last, and when. */
    uint32_t marked;            /* Packets received with a congestion mark. */
    unsigned unacked;           /* Packets received since the last ACK was sent. */
    /* For how long after the latest one an ACK is held back, by how far apart packets come, ns;
     * where it is less than ASK_DELAY, that counts. */
    uint64_t ack_wait;
    bool follows; /* The latest one did not ask: another one is to follow. */
    /* When an ACK is to be sent although packets come, or BR_DGRAM_NEVER. */
    uint64_t ack_at;
};

/* A frame that was posted and is not SENT, in br_dgram_link.tx by number. */
struct br_dgram_tx_frame {
    /* In link.messages or link.data_frames while some parts have never been sent, with a cookie in
     * link.done when all have arrived. */
    struct br_list fresh;
    struct br_list again; /* In link.again while `lost` is not 0. */
    uint32_t number;
    bool busy; /* The entry is in use: SENT has not been reported, or would not have been. */
    uint8_t parts, next;  /* The number of parts, and the first part that has never been sent. */
    uint64_t acked, lost; /* A bit for each part that has arrived, and that counts as lost. */
    enum br_frame_kind kind;
    const uint8_t *payload; /* The user's; readable until SENT. */
    struct br_region *region;
    uint32_t length, slot, offset, order; /* As in br_dgram_data. */
    uint64_t cookie;
    uint8_t inline_[BR_FRAME_INLINE];
};

/* A received message; a buffer of link.pool. */
struct br_dgram_message {
    uint8_t inline_[BR_FRAME_INLINE];
    uint32_t length; /* Bytes of payload. */
    bool whole;      /* All parts have arrived. */
    uint8_t payload[];
};

/* A frame of which a part has arrived, in br_dgram_link.rx by number. */
struct br_dgram_rx_frame {
    struct br_list ready; /* DATA: in link.ready when it is whole and not reported. */
    uint32_t number;
    bool finished; /* All parts have arrived and, for DATA, the event has been taken. */
    /* whole: all parts have arrived. stale: of DATA, a part was not expected any more. */
    bool whole, stale;
    uint8_t kind, parts;                  /* The enum br_frame_kind, and the number of parts. */
    uint32_t order, slot, offset, length; /* As in br_dgram_data. */
    uint64_t got;                         /* A bit for each part that has arrived. */
    struct br_dgram_message *message;     /* MESSAGE, until it is whole; else NULL. */
    uint8_t inline_[BR_FRAME_INLINE];     /* DATA. */
};

enum br_dgram_state {
    BR_DGRAM_OPENING,    /* The connector has sent OPENs. */
    BR_DGRAM_CONFIRMING, /* The connector has chosen a size and sent CONFIRM. */
    BR_DGRAM_ANSWERING,  /* The acceptor waits for CONFIRM. */
    BR_DGRAM_UP,
    BR_DGRAM_FAILED,
};

/* A link. Times are in ns. */
struct br_dgram_link {
    struct br_dgram_config config; /* config.paths is lowered when the peer has fewer. */
    enum br_dgram_state state;
    uint64_t peer; /* The peer's number of the link; 0 while it is not known. */
    /* The size of a packet behind the UDP header, and of a part of a frame in it. */
    uint32_t packet_bytes, part_bytes;
    /* authenticated: br_dgram_link_authenticate() has been called. fresh: CONNECTED or ACCEPTED is
     * to be reported. */
    bool authenticated, fresh;
    bool connector; /* This side has opened the link. */
    int error;      /* BR_DGRAM_FAILED: a negative errno. */
    bool closed_reported;
    char message[160];  /* BR_DGRAM_FAILED: why. */
    bool answer_due;    /* The peer owes an answer to something that was sent. */
    uint64_t data_at;   /* When DATA was sent last; 0 for never. */
    uint64_t ticked_at; /* When br_dgram_loss_tick() was called after the last input; 0: not yet. */
    bool received;      /* A valid packet has come since the last br_dgram_link_next(). */
    /* The time of the last br_dgram_link_next() or br_dgram_link_expire() before which a packet had
     * come, or since when the peer owes an answer. */
    uint64_t received_at;

    /* Set-up (open.c). */
    /* Connector: the sizes to try, largest first. Acceptor: the sizes to answer. */
    uint32_t sizes[BR_DGRAM_PROBES];
    unsigned n_sizes, next_size;
    unsigned volleys;    /* How often OPENs, or CONFIRM, were sent without an answer in time. */
    uint32_t best;       /* The largest size that has come back; 0 for none. */
    uint64_t volley_at;  /* When to send OPENs or CONFIRM again. */
    bool answer_confirm; /* CONFIRMED is to be sent. */

    /* Sending (send.c, loss.c). */
    struct br_dgram_tx_frame *tx;    /* BR_DGRAM_WINDOW entries, by number modulo that; owned. */
    uint32_t next_frame, next_order; /* The numbers of the next frame and the next message. */
    struct br_list again, messages, data_frames, done; /* See br_dgram_tx_frame. */
    uint32_t message_limit; /* Messages with lower numbers may be sent. */
    uint64_t ping_at;       /* When a PING is to be sent. */
    uint64_t answered_at;   /* When an acknowledgement came last, on any path. */
    unsigned next_path;

    /* Receiving (receive.c). */
    struct br_dgram_rx_frame *rx; /* BR_DGRAM_RX_FRAMES entries, by number modulo that; owned. */
    struct br_list ready;         /* See br_dgram_rx_frame. */
    struct br_pool pool;          /* Of struct br_dgram_message: config.message_buffers of them. */
    /* Messages that have not been delivered, by number modulo waiting_capacity. */
    struct br_dgram_message **waiting;
    uint32_t waiting_capacity; /* A power of two, at least config.message_buffers. */
    uint32_t delivered;        /* Messages that were reported. */
    uint32_t held;             /* Messages that were reported and are not released. */
    uint32_t limit_sent;       /* br_dgram_ack.messages of the last ACK sent. */
    bool early;                /* A DATA frame has come before the peer was authenticated. */
    /* The first br_dgram_link_next() after `early` was set, or 0. What had come by then may have
     * waited for this host, so the time that is allowed begins here. */
    uint64_t early_since;

    struct br_dgram_stats stats;
    uint32_t allocated; /* Entries of `paths`; the first config.paths are used. */
    struct br_dgram_path paths[];
};

/* All functions are called by the thread that has the link (link.h). None blocks or allocates. now:
 * ns. */

/* link.c. Fails a link, unless it has failed already. error: a positive errno. format: why. */
void br_dgram_link_fail(struct br_dgram_link *link, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Ends the set-up of a link: both ends use packets of `packet_bytes`. */
void br_dgram_link_up(struct br_dgram_link *link, uint32_t packet_bytes, uint64_t now);

/* open.c. Begins the set-up at the connector. */
void br_dgram_open_begin(struct br_dgram_link *link, uint64_t now);
/* Takes in an OPEN, OPENED, CONFIRM or CONFIRMED. */
void br_dgram_open_input(struct br_dgram_link *link, const struct br_dgram_view *view,
                         uint64_t now);
/* Writes the next set-up packet that may leave now to *out. Returns false when there is none. */
bool br_dgram_open_next(struct br_dgram_link *link, uint64_t now, struct br_dgram_packet *out);
/* Returns when br_dgram_open_next() has to be called again, ns. */
uint64_t br_dgram_open_timer(const struct br_dgram_link *link);
/* Writes a packet of a set-up kind or a CLOSE to *out. size: br_dgram_open.size, to which OPEN and
 * OPENED are padded. */
void br_dgram_open_packet(struct br_dgram_link *link, enum br_dgram_kind kind, uint32_t size,
                          struct br_dgram_packet *out);

/* send.c. Writes the next DATA or PING that may leave now to *out. Returns false when there is
 * none. */
bool br_dgram_send_next(struct br_dgram_link *link, uint64_t now, struct br_dgram_packet *out);
/* Returns when br_dgram_send_next() has to be called again, ns, or BR_DGRAM_NEVER. */
uint64_t br_dgram_send_timer(const struct br_dgram_link *link);

/* loss.c. Takes in an ACK. */
void br_dgram_loss_ack(struct br_dgram_link *link, const struct br_dgram_ack *ack, uint64_t now);
/* Looks for packets that are lost by now and for paths on which nothing comes back. Fails the link
 * when config.patience has passed. */
void br_dgram_loss_tick(struct br_dgram_link *link, uint64_t now);
/* Returns when br_dgram_loss_tick() has to look at this path again, ns, or BR_DGRAM_NEVER. */
uint64_t br_dgram_loss_timer(const struct br_dgram_link *link, const struct br_dgram_path *path);

/* receive.c. Takes in a DATA or a PING. marked: it had a congestion mark. */
void br_dgram_receive_data(struct br_dgram_link *link, const struct br_dgram_view *view,
                           bool marked, uint64_t now);
/* Writes the next ACK that is due to *out. Returns false when there is none. urgent: with
 * config.acks_behind, only one that has waited for long. */
bool br_dgram_receive_ack(struct br_dgram_link *link, bool urgent, uint64_t now,
                          struct br_dgram_packet *out);
/* Returns when br_dgram_receive_ack() has to look at this path again, ns, or BR_DGRAM_NEVER. */
uint64_t br_dgram_receive_timer(const struct br_dgram_path *path);
/* Makes an ACK due now on a path on which something has arrived; nothing when there is none. */
void br_dgram_receive_ack_now(struct br_dgram_link *link);
/* Returns the limit for the peer: messages with lower numbers have a buffer. */
uint32_t br_dgram_receive_limit(const struct br_dgram_link *link);

/* Returns the entry of a packet that was sent. */
static inline struct br_dgram_sent *br_dgram_sent_at(const struct br_dgram_path *path,
                                                     uint64_t number)
{
    return &path->sent[number % BR_DGRAM_PACKETS];
}

/* Returns whether a comes before b; both are numbers modulo 2^32. */
static inline bool br_dgram_before(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) < 0;
}

#endif
