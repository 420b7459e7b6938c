/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers and rails. A peer is a remote process; a rail is one link to it together with the link's
 * window, rate and health. How much a rail may carry at a time, and which message may leave, is
 * decided in doc/design/rails.md; the comments below name its sections.
 *
 * All of this belongs to one worker. No function locks or blocks.
 */
#ifndef BR_PROTOCOL_PEER_H
#define BR_PROTOCOL_PEER_H

#include "base/list.h"
#include "protocol/handshake.h"
#include "protocol/message.h"
#include "protocol/queue.h"
#include "protocol/transfer.h"
#include "transport/transport.h"

/* What a peer's queue waits for, as far as it is this rail's (br_stall_note). */
enum br_stall {
    BR_STALL_NONE,
    BR_STALL_WINDOW, /* frames: all of it is in flight */
    BR_STALL_FULL,   /* the back end takes no more */
    BR_STALL_CREDIT, /* messages: the peer has not released earlier ones */
    BR_STALLS,
};

enum br_rail_state {
    BR_RAIL_IDLE,       /* no link; the connecting side tries again at retry_at */
    BR_RAIL_CONNECTING, /* link_connect() is under way */
    BR_RAIL_HANDSHAKE,  /* proofs are exchanged */
    BR_RAIL_UP,
    /* lost: the peer has not yet confirmed that it writes nothing more through it */
    BR_RAIL_FENCING,
};

/* A numbered message that may have to be sent again. */
struct br_retained {
    struct br_message message;
    uint32_t length; /* payload bytes */
    uint8_t *memory; /* in one of the rail's slots; NULL: no payload, or none that is kept */
    uint8_t slot;
};

/* A message of a lost rail that waits to be sent on another one. Made and freed outside the data
 * path. */
struct br_unacked {
    struct br_list node; /* a stream's `resend` */
    struct br_message message;
    uint32_t length;
    uint8_t data[];
};

/* A DATA frame that waits for SENT, or also for the ACK of its bytes if it lasts. */
struct br_flight {
    struct br_list node;          /* the rail's flights */
    struct br_transfer *transfer; /* NULL: a message, nothing to do */
    struct br_rail *rail;
    uint32_t offset, length;
    uint64_t posted; /* ns */
    uint64_t end;    /* it lasts: rail->tx_bytes behind it; else 0 */
    bool sent;       /* it lasts: SENT was reported */
};

/* One pending measurement: a frame whose acknowledgement we asked for. */
struct br_probe {
    uint64_t tx_bytes;  /* rail.tx_bytes right after it */
    uint64_t posted_at; /* ns */
    uint64_t in_flight; /* bytes, with it */
    bool alone;         /* nothing else was in flight */
};
#define BR_PROBES 16u

#define BR_RAIL_TIMEOUTS_MAX 2u

struct br_rail {
    struct br_peer *peer;
    uint8_t index; /* 0..n_rails-1, the same on both sides: what messages call the rail */
    /* of the network that it runs on, for messages; in a BCube the one on which the peer is a
     * neighbour */
    uint8_t level;
    struct br_device *device;
    struct br_address address; /* of the peer's device; used by the connecting side */
    bool connector;            /* we connect (our rank is the larger one) */
    enum br_rail_state state;
    struct br_link *link; /* NULL in IDLE and FENCING */
    struct br_handshake handshake;
    uint8_t reply[BR_HANDSHAKE_BYTES_MAX]; /* handshake message on its way out */
    uint32_t incarnation;                  /* of the present or last connection */
    uint32_t fenced;                       /* the connection that the peer's last RAIL_DOWN named */
    uint32_t lost;                         /* the last connection that was lost */
    uint32_t up;                           /* the last connection that was UP at this end */
    bool doubtful; /* a connection after `up` may have been UP at the other end alone, */
    bool unfenced; /* and the peer has not confirmed that it is fenced */
    /* its link is a route through other hosts (relay.h) */
    bool alternate;
    uint32_t attempts; /* alternate routes: routes tried */
    uint8_t timeouts;  /* alternate routes: attempts that ran out of time since it was up or the
                        * peer was cut, at most BR_RAIL_TIMEOUTS_MAX */
    /* a connection to a peer that is cut off, to see whether it is refused; NULL: none (probe.c) */
    struct br_link *probe;
    uint64_t probe_at;           /* ns; the next one, or the end of this one */
    uint64_t retry_at, deadline; /* next connect; end of CONNECTING and HANDSHAKE */
    uint64_t backoff;            /* ns */
    uint64_t patience;           /* ns of silence after which it counts as lost */
    bool was_up;                 /* at least once, since its links were shut if they were */
    /* No DATA and no numbered message leaves. The link may not be UP at the other end yet, and
     * nothing has come on it (doc/design/links.md, section 2); or it is about to be shut (section
     * 4). On demand only. */
    bool quiet;
    char message[120]; /* why it is not up */

    /* sending */
    uint64_t tx_bytes;    /* DATA payload posted on this link */
    uint64_t acked_bytes; /* of these known to have arrived */
    /* ns; when that was heard, or when the last frame left before which no ACK was awaited */
    uint64_t acked_at;
    /* bytes that the next ACK may come behind, as the last one said (section 2) */
    uint32_t peer_ack_backlog;
    /* rx_bytes when that ACK came, or when the last frame left before which none was awaited */
    uint64_t ack_rx_bytes;
    /* bytes in front of the wire by the rate, at a time (ns); byte streams only (section 2) */
    uint64_t queued_bytes, queued_at;
    uint64_t ack_asked_bytes; /* tx_bytes at the last frame that asked for an ACK */
    uint32_t window, frame_bytes;
    uint32_t least_window;       /* bytes; see br_rail_config; 0 on other than byte streams */
    uint64_t target_delay, turn; /* ns; turn: see br_rail_config, 0 on other than byte streams */
    /* bytes/s that it delivers while it is full; 0: it was not full for long enough (section 3) */
    uint64_t rate;
    uint64_t delivery_rate; /* bytes/s, as the back end says (br_link_facts); 0: not known */
    uint64_t full_bytes, full_time; /* of which the rate is the quotient; time in ns */
    uint64_t full_at;               /* ns; when it was last measured, or confirmed by answers */
    uint64_t aside;                 /* ns in flight since then without being full */
    /* bytes/s; no frame answered in the last 100 ms of these showed more; 0: none showed a rate */
    uint64_t fastest;
    bool full;     /* the window was used up since the last acknowledgement */
    bool measured; /* that acknowledgement counted for the rate */
    /* bytes delivered in a window as long as the window's delay: largest of the present and the
     * last period, and of the present one alone, which ends at period_end */
    uint64_t volume, volume_now, period_end;
    uint64_t window_at, window_acked; /* ns, acked_bytes: where the running window began */
    bool starting;                    /* slow start (section 1) */
    uint64_t start_window;            /* that it has reached; 0: none */
    uint64_t start_at, start_bytes; /* ns, tx_bytes: where the window began that has to come back */
    /* the peer's `uses` at the last frame: of equally free rails the one that has waited longest
     * takes the next frame */
    uint64_t used;
    bool limited;                    /* the window was used up in this period */
    uint64_t min_rtt, min_rtt_until; /* ns */
    /* transfers of several priorities share the rail: its window is for a shorter delay (section
     * 7) */
    bool shared;
    /* ns; its least. When that was set, ns, and tx_bytes then */
    uint64_t shared_delay, shared_at, shared_from;
    bool solo; /* one frame at a time, until the least round trip has been measured anew */
    struct br_probe probes[BR_PROBES];
    uint32_t probe_head, probe_tail;
    uint32_t sent;                            /* numbered messages posted on this link */
    uint32_t peer_arrived, peer_released;     /* of these, from ACK and EAGER */
    uint32_t sent_bytes, peer_released_bytes; /* their payload, and that of those released */
    /* payload that is not released, from which on no credit is left: BR_CREDIT_BYTES, or what a
     * long path carries in two round trips */
    uint32_t credit_bytes;
    uint32_t pinged; /* `sent` when the peer was asked which of them have arrived (section 5) */
    /* [BR_UNRELEASED], owned: the last ones sent, by number; NULL: never prepared */
    struct br_retained *retained;
    /* behind them: BR_UNRELEASED slots of slot_bytes each for their payload. The first n_free_slots
     * of free_slots are the free ones; the last of them, which was given back last and may be in
     * the cache, is taken first. The messages before slots_back have given theirs back. */
    uint8_t *slots;
    uint32_t slot_bytes;
    /* Payload is kept, as it may have to be sent again. Not of the only rail to a peer whose memory
     * is mapped: it is lost with the peer, and the device copies what it posts. */
    bool keeps;
    /* Payload is kept as far as it has not left: of the only rail to a peer, which is lost with it,
     * of a device that knows. */
    bool spares;
    uint8_t free_slots[BR_UNRELEASED], n_free_slots;
    uint32_t slots_back;
    struct br_list flights;

    /* receiving */
    uint64_t rx_bytes;
    uint32_t arrived;             /* numbered messages */
    struct br_list unexpected;    /* messages of this link that wait for their transfer (match.c) */
    uint32_t released, announced; /* announced: `released` as last said */
    uint32_t held_bytes;          /* payload of those that have arrived and are not released */
    uint32_t released_bytes, announced_bytes; /* of those released; as last said */
    uint64_t unannounced_since;               /* ns; 0: nothing to announce */
    bool ack_due, ping_due, pong_due;
    uint64_t last_rx, last_ping; /* ns */

    /* buffers for frames on their way through us; NULL: no relaying over it. Owned */
    struct br_relay_rail *relay;
    bool relay_due; /* the peer has to be told of free ones */

    /* statistics over all incarnations */
    uint64_t total_tx, total_rx; /* payload bytes */
    uint64_t tx_frames, rx_frames, tx_messages, rx_messages;
    uint64_t failures, reconnects;
    uint64_t resent_slices, resent_packets; /* resent_packets: of links that are lost */
    enum br_stall stall;
    uint64_t stalled_since, stalled[BR_STALLS]; /* ns; stalled: without the one that lasts */
    uint64_t traced;                            /* ns; end of the last frame in the timeline */
};

enum br_peer_state {
    BR_PEER_WAITED, /* not all rails have been up yet (start-up) */
    BR_PEER_UP,     /* at least one rail */
    BR_PEER_LEFT,   /* said BYE, and all that it has sent before is here */
    BR_PEER_DEAD,   /* the last rail is lost */
};

/* Each kind has a queue of its own, because one may have to wait when another may go: messages that
 * may come before their receive for a credit, data for window. */
enum br_queue_kind {
    BR_QUEUE_MESSAGES, /* READYs, one-sided requests and answers, eager sends that are asked for */
    BR_QUEUE_EAGER,    /* the other eager sends, announcements */
    BR_QUEUE_DATA,     /* sends that have their READY */
    BR_QUEUE_RELAY,    /* frames for ranks behind this peer (relay.h) */
    BR_QUEUES,
};

/* Sequence numbers in which a receiver recognises duplicates: at least 2 * BR_UNRELEASED *
 * BR_MAX_RAILS, for messages on links and messages of lost links. */
#define BR_SEEN 1024u

/* The numbered messages of one kind, in both directions. Point-to-point messages are numbered
 * separately: they may wait for a receive that never comes, and the messages sent meanwhile must
 * not push them out of the BR_SEEN numbers. */
struct br_stream {
    uint32_t sequence; /* of the next message that we send */
    /* no number from here on may be used before it is known what has arrived (section 5) */
    uint32_t end;
    struct br_list resend; /* struct br_unacked: messages of lost rails */
    uint32_t seen_top;     /* one more than the largest sequence seen */
    uint32_t seen_all;     /* all before it are seen, as far as was asked */
    uint64_t seen[BR_SEEN / 64];
};
#define BR_STREAMS 2

/* Tags of a peer's that are remembered (waiting.c); after 100 ms it asks again. */
#define BR_ASKED 64u

/* DONEs that may be due at a time: so many without an allocation, and at most. No more transfers
 * than slots become complete while none can leave; the rest is for what a peer sends again. */
#define BR_DONES     256u
#define BR_DONES_MAX (4 * BR_SLOTS_MAX)

/* All zeroes until it gets rails (br_worker_set_peer). */
struct br_peer {
    int rank;
    struct br_list known; /* in the worker's list */
    enum br_peer_state state;
    int n_rails;
    /* Transfers up to this size go in one message without READY. Over shared memory less than is
     * configured, but for point-to-point messages. */
    uint32_t eager_bytes;
    uint32_t eager_p2p;    /* of point-to-point messages: as configured */
    struct br_rail *rails; /* [n_rails] */
    uint8_t rkey_rails;    /* rails whose device needs remote keys, a bit each */
    bool reduces;          /* the device of one of its rails reduces (br_caps) */
    bool shared;           /* its rails are */
    bool stalled;          /* one of its rails waits for something (br_stall) */
    uint64_t uses;         /* frames posted */
    /* READYs for our sends; sum of ns from the submission of the send to its READY */
    uint64_t ready_messages, ready_wait;
    struct br_queue queues[BR_QUEUES]; /* what wants to leave, by br_queue_kind */
    struct br_list moving;             /* sends in MOVING or CONFIRMING */
    /* transfers that wait for their other end, by waits_since (waiting.c) */
    struct br_list waiting;
    struct br_list expecting; /* small receives that only ask for credits, in the same order */
    struct br_list awaited;   /* struct br_awaited: its messages that go to their place at once */
    bool waiting_due;         /* WAITING is due for the first of them, or for `call` */
    /* a WAITING with our arguments of a collective that is due; type 0: none is */
    struct br_message call;
    /* [BR_ASKED], owned: tags for which the peer has asked, and which this rank has not been about
     * to send, the last ones. Nothing is asked for after asked_until, ns */
    uint64_t *asked, asked_until;
    uint32_t n_asked;
    struct br_stream streams[BR_STREAMS]; /* by br_stream_of() */
    /* of its messages that came before their transfer was posted (match.c, note 2) */
    uint32_t early_readys, early_announces;
    uint32_t *dones; /* [n_dones], owned: slots to report, ring */
    uint32_t n_dones, done_head, done_tail;
    uint8_t down_due, fenced_due; /* rails to report in RAIL_DOWN, RAIL_FENCED, a bit each */
    bool renew_due;               /* some of `moving` have to ask (rkey.c) */
    bool bye_due, bye_sent, bye_received;
    /* puts of the peer that have been carried out, and of which it has not been told (onesided.c);
     * type 0: there are none */
    struct br_message put_done;
    uint32_t messages;             /* numbered ones that have arrived */
    uint32_t bye_next[BR_STREAMS]; /* all before these have been sent before its BYE */
    /* LEFT: when to look for transfers that still wait for it (left.c), ns; 0: that is done */
    uint64_t left_check;
    bool abort_sent;
    struct br_list active; /* in one of the worker's lists of peers with something to send */
    bool blocked;          /* in that of the blocked ones */
    uint64_t activation;   /* its number: `active` is in this order */

    /* links on demand (demand.c) */
    bool on_demand;        /* its rails connect when either end first needs them */
    bool heard;            /* something has come from it, WELCOME included */
    bool wanted;           /* we need them */
    uint64_t wanted_since; /* ns; our first attempt; 0: none yet */
    int refusals;          /* attempts in a row that were refused */
    bool in_tree;          /* it hears from us which ranks have left */
    int left_told;         /* how many of w->left it has been told */
    bool left_due;         /* there are more */
    bool left_noted;       /* this rank is in w->left */
    /* of these, such as are long unused (idle.c) */
    uint64_t idle_uses;             /* how much had been exchanged at the last look */
    uint64_t idle_since, idle_look; /* ns; nothing has been exchanged since; the next look */
    uint32_t idle_round;            /* of the last ASK, which the larger rank sends */
    enum br_idle_kind idle_due;     /* to be sent; 0: nothing */
    bool idle_asks;                 /* our ASK has no answer yet */
    bool idle_agreed;               /* both ends are to shut them: what is lost now is no fault */

    /* with relaying */
    int n_alternates;         /* the last ones of rails[] */
    uint8_t alternates;       /* a bit each */
    uint64_t cut_at;          /* no rail is up, and nothing was heard since then, ns; 0: not cut */
    uint64_t request_at;      /* cut: when to ask it again to connect */
    uint64_t requested_until; /* ns; it has asked us to connect */
    /* the last warning that an alternate route is lost, ns; 0: none yet */
    uint64_t alternates_warned;
    uint32_t alternates_quiet; /* alternate routes lost since, without a warning */
};

/* The first rail of the peer that is UP and no alternate route, or NULL. */
static inline struct br_rail *br_peer_direct(const struct br_peer *peer)
{
    for (int i = 0; i < peer->n_rails - peer->n_alternates; i++)
        if (peer->rails[i].state == BR_RAIL_UP)
            return &peer->rails[i];
    return NULL;
}

/* The window of a rail over a byte stream that transfers of several priorities share, in bytes,
 * while neither end comes late (doc/design/rails.md, section 7): what something urgent may find in
 * front of it. rate: bytes a second; min_rtt: the least round trip, ns. Pure. */
uint64_t br_rail_shared_window(double rate, uint64_t min_rtt);

/* 1: point to point, 0: all others. */
static inline int br_stream_of(uint64_t tag)
{
    return br_tag_class(tag) == BR_TAG_P2P;
}

#endif
