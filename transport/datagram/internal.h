/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the parts of a link share; link.h says what a link does. The numbered notes, about exactly-
 * once delivery, loss, order and windows, are in doc/design/datagram.md.
 */
#ifndef BR_TRANSPORT_DATAGRAM_INTERNAL_H
#define BR_TRANSPORT_DATAGRAM_INTERNAL_H

#include "base/list.h"
#include "base/pool.h"
#include "transport/datagram/link.h"
#include "transport/datagram/path.h"

#define BR_DGRAM_RX_FRAMES 256u
static_assert(BR_DGRAM_RX_FRAMES == 2 * BR_DGRAM_WINDOW, "note 2");
#define BR_DGRAM_PROBES 8u /* sizes of OPEN that are tried, at most */

/* A packet that was sent; by its number in the path's ring. */
struct br_dgram_sent {
    uint64_t time;
    uint32_t frame;
    uint8_t part; /* BR_DGRAM_NO_PART: a PING */
    uint8_t state;
};
enum { BR_DGRAM_DONE, BR_DGRAM_FLYING, BR_DGRAM_LOST };
#define BR_DGRAM_NO_PART 0xffu
/* Timeouts in a row after which a path carries only PINGs, if another one lives. */
#define BR_DGRAM_DEAD 3u

/* Numbers first..last have arrived. */
struct br_dgram_run {
    uint64_t first, last;
};

struct br_dgram_path {
    struct br_dgram_congestion congestion;
    struct br_dgram_sent *sent; /* BR_DGRAM_PACKETS, by number */
    uint64_t next;              /* number of the next packet, from 1 */
    uint64_t floor;             /* no lower number is FLYING or LOST */
    uint32_t in_flight;
    uint64_t newest_acked;              /* number; 0: none */
    uint64_t newest_sent, newest_heard; /* when it was sent and its acknowledgement came */
    uint64_t reorder;                   /* ns that order may be violated (note 4) */
    uint64_t loss_at;                   /* when the next one will count as lost; BR_DGRAM_NEVER */
    uint64_t quiet_since;               /* since the last packet or acknowledgement */
    /* since the last acknowledgement, or the first packet without one */
    uint64_t silent_since;
    unsigned probes; /* timeouts in a row */
    bool probe;      /* one packet may leave whatever the window */
    bool ping;       /* a PING is due */

    uint32_t marked_heard; /* of ACK.marked */

    struct br_dgram_run runs[BR_DGRAM_RANGES]; /* received, from the top down */
    unsigned n_runs;
    uint64_t latest, latest_at;
    uint32_t marked;  /* received with a mark */
    unsigned unacked; /* arrived since the last ACK */
    uint64_t ack_at;  /* BR_DGRAM_NEVER: none is due */
};

struct br_dgram_tx_frame {
    /* in link.messages or link.placed while parts have never been sent; in link.done when all have
     * arrived */
    struct br_list fresh;
    struct br_list again; /* in link.again while `lost` is not 0 */
    uint32_t number;
    bool busy;
    uint8_t parts, next; /* of the content; next one never sent */
    uint64_t acked, lost;
    enum br_frame_kind kind;
    const uint8_t *payload;
    struct br_region *region;
    uint32_t length, slot, offset, order;
    uint64_t cookie;
    uint8_t inline_[BR_FRAME_INLINE];
};

struct br_dgram_message {
    uint8_t inline_[BR_FRAME_INLINE];
    uint32_t length;
    bool whole;
    uint8_t payload[];
};

struct br_dgram_rx_frame {
    struct br_list ready; /* DATA: in link.ready when it is whole and not reported */
    uint32_t number;
    bool finished; /* whole; a DATA one has been reported, too */
    bool whole, stale;
    uint8_t kind, parts;
    uint32_t order, slot, offset, length;
    uint64_t got;
    struct br_dgram_message *message; /* MESSAGE */
    uint8_t inline_[BR_FRAME_INLINE];
};

enum br_dgram_state {
    BR_DGRAM_OPENING,    /* connector: OPENs are out */
    BR_DGRAM_CONFIRMING, /* connector: has chosen a size */
    BR_DGRAM_ANSWERING,  /* acceptor: waits for CONFIRM */
    BR_DGRAM_UP,
    BR_DGRAM_FAILED,
};

struct br_dgram_link {
    struct br_dgram_config config;
    enum br_dgram_state state;
    uint64_t peer;
    uint32_t packet_bytes, part_bytes;
    bool authenticated, fresh; /* fresh: CONNECTED or ACCEPTED is to be reported */
    bool connector;
    int error;
    bool closed_reported;
    char message[160];
    bool answer_due;    /* something was sent that wants an answer */
    uint64_t data_at;   /* when DATA left last; 0: never */
    uint64_t ticked_at; /* for what is known now, losses have been looked for; 0: never */
    bool received;      /* a valid packet has come since the last next() */
    /* the last next() before which one had come, or since when an answer is owed */
    uint64_t received_at;

    /* Set-up (open.c). */
    uint32_t sizes[BR_DGRAM_PROBES]; /* connector: to try, largest first; acceptor: to answer */
    unsigned n_sizes, next_size;
    unsigned volleys;
    uint32_t best;       /* largest size that has come back */
    uint64_t volley_at;  /* when the next OPENs or CONFIRM leave */
    bool answer_confirm; /* CONFIRMED is due */

    /* Sending (send.c, loss.c). */
    struct br_dgram_tx_frame *tx; /* BR_DGRAM_WINDOW, by number */
    uint32_t next_frame, next_order;
    struct br_list again, messages, data_frames, done;
    uint32_t message_limit; /* messages with lower numbers may leave */
    uint64_t ping_at;
    uint64_t answered_at; /* the last acknowledgement on any path */
    unsigned next_path;

    /* Receiving (receive.c). */
    struct br_dgram_rx_frame *rx; /* BR_DGRAM_RX_FRAMES, by number */
    struct br_list ready;
    struct br_pool pool;               /* of br_dgram_message, message_buffers of them */
    struct br_dgram_message **waiting; /* by message number; not yet delivered */
    /* of waiting: message_buffers or more, a power of two */
    uint32_t waiting_capacity;
    uint32_t delivered;  /* messages */
    uint32_t held;       /* delivered and not released */
    uint32_t limit_sent; /* in the last ACK */
    bool early;          /* a DATA frame came before trust */
    /* the first next() after it: what waited until then was not late; 0: none yet */
    uint64_t early_since;

    struct br_dgram_stats stats;
    /* paths; config.paths are used, perhaps fewer as the peer has not as many */
    uint32_t allocated;
    struct br_dgram_path paths[];
};

/* link.c: the link has failed; the first reason counts. */
void br_dgram_link_fail(struct br_dgram_link *link, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void br_dgram_link_up(struct br_dgram_link *link, uint32_t packet_bytes, uint64_t now);

/* open.c */
void br_dgram_open_begin(struct br_dgram_link *link, uint64_t now);
void br_dgram_open_input(struct br_dgram_link *link, const struct br_dgram_view *view,
                         uint64_t now);
bool br_dgram_open_next(struct br_dgram_link *link, uint64_t now, struct br_dgram_packet *out);
uint64_t br_dgram_open_timer(const struct br_dgram_link *link);
void br_dgram_open_packet(struct br_dgram_link *link, enum br_dgram_kind kind, uint32_t size,
                          struct br_dgram_packet *out);

/* send.c */
bool br_dgram_send_next(struct br_dgram_link *link, uint64_t now, struct br_dgram_packet *out);
uint64_t br_dgram_send_timer(const struct br_dgram_link *link);

/* loss.c */
void br_dgram_loss_ack(struct br_dgram_link *link, const struct br_dgram_ack *ack, uint64_t now);
void br_dgram_loss_tick(struct br_dgram_link *link,
                        uint64_t now); /* what has become lost, or wants a probe */
uint64_t br_dgram_loss_timer(const struct br_dgram_link *link, const struct br_dgram_path *path);

/* receive.c */
void br_dgram_receive_data(struct br_dgram_link *link, const struct br_dgram_view *view,
                           bool marked, uint64_t now);
/* The next acknowledgement that is due; urgent: that cannot wait for data to leave. */
bool br_dgram_receive_ack(struct br_dgram_link *link, bool urgent, uint64_t now,
                          struct br_dgram_packet *out);
void br_dgram_receive_ack_now(
    struct br_dgram_link *link); /* an acknowledgement is due now, if there ever was one */
/* Messages with lower numbers have a buffer. */
uint32_t br_dgram_receive_limit(const struct br_dgram_link *link);

static inline struct br_dgram_sent *br_dgram_sent_at(const struct br_dgram_path *path,
                                                     uint64_t number)
{
    return &path->sent[number % BR_DGRAM_PACKETS];
}

/* Is a before b, in numbers that wrap? */
static inline bool br_dgram_before(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) < 0;
}

#endif
