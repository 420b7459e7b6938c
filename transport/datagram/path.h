/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One path of a link (a source port of the sender, so perhaps a route of its own through the
 * network): how many packets may be on it, and how fast they leave. Congestion control is after
 * Swift (SIGCOMM'20).
 *
 * The numbered notes, about the differences from Swift, loss, pacing and several paths, are in
 * doc/design/datagram.md.
 */
#ifndef BR_TRANSPORT_DATAGRAM_PATH_H
#define BR_TRANSPORT_DATAGRAM_PATH_H

#include <stdbool.h>
#include <stdint.h>

/* Numbers of a path from the oldest that matters to the newest, at most. */
#define BR_DGRAM_PACKETS 2048u

/* How a path is doing; times in ns, windows in packets. */
struct br_dgram_congestion {
    uint64_t smoothed;          /* round trip on the network; 0 before the first sample */
    uint64_t answer, deviation; /* round trip with what the peer takes to answer */
    uint64_t min_rtt;           /* of late: of the two below */
    /* of this turn, and of the one before; UINT64_MAX: none */
    uint64_t min_rtt_now, min_rtt_before;
    uint64_t period_at;          /* when this turn began */
    uint64_t drain_until;        /* 0: not draining (note 3) */
    uint64_t drained_at;         /* when that ended last */
    uint64_t queueing;           /* what is aimed at besides the least round trip */
    double window, threshold;    /* below threshold the window doubles a round */
    double step;                 /* packets a round */
    double max_window;           /* window */
    double before;               /* a timeout: the window; 0: no timeout in this round */
    double loss_rate, mark_rate; /* shares of late */
    bool limited;                /* the window has kept something back in this round */
    uint64_t round_ends;         /* packet number whose acknowledgement ends the round */
    uint64_t round_delay;        /* least round trip in it; UINT64_MAX: none */
    uint64_t round_lost;         /* packets lost in it */
    uint64_t round_marked;       /* acknowledged in it with a mark */
    uint64_t leave_at;           /* when the next packet may leave */
    bool rated;                  /* the two below follow from the rest as it is now */
    /* ns from one packet to the next, and that may be made up for at once */
    uint64_t between, credit;
};

void br_dgram_congestion_init(struct br_dgram_congestion *pace, uint64_t queueing, unsigned paths);
/* Bounds the window. */
void br_dgram_congestion_limit(struct br_dgram_congestion *pace, uint32_t packets);
/* Reports an answer that came after `answer` ns; packet and answer were on the network for
 * `round_trip` ns of them. */
void br_dgram_congestion_sample(struct br_dgram_congestion *pace, uint64_t round_trip,
                                uint64_t answer, uint64_t now);
/* Reports that packets were acknowledged, `marked` of them with a mark; `newest` is the newest of
 * them. next: the number of the next packet that will be sent. */
void br_dgram_congestion_acked(struct br_dgram_congestion *pace, unsigned packets, unsigned marked,
                               uint64_t newest, uint64_t next);
/* Reports that one packet was lost. */
void br_dgram_congestion_lost(struct br_dgram_congestion *pace);
/* Reports a timeout: nothing comes back at all. */
void br_dgram_congestion_timeout(struct br_dgram_congestion *pace);
/* Reports that the timeout was none: what was taken for lost has arrived. */
void br_dgram_congestion_spurious(struct br_dgram_congestion *pace);
/* Returns whether the window has room for one more packet, apart from pacing. */
bool br_dgram_congestion_available(const struct br_dgram_congestion *pace, uint32_t in_flight);
/* Returns whether one more packet may leave now; remembers it when the window is the limit. */
bool br_dgram_congestion_open(struct br_dgram_congestion *pace, uint32_t in_flight, uint64_t now);
/* Reports that one packet has left. */
void br_dgram_congestion_left(struct br_dgram_congestion *pace, uint64_t now);
/* Returns after how many ns without a sign of the peer a probe is sent. */
uint64_t br_dgram_congestion_rto(const struct br_dgram_congestion *pace);

#endif
