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

/* The most packets from the oldest one that is not acknowledged to the newest. */
#define BR_DGRAM_PACKETS 2048u

/* The state of a path's congestion control. Times are in ns, windows in packets. A round ends when
 * a packet is acknowledged that was sent after the round began. */
struct br_dgram_congestion {
    uint64_t smoothed; /* The smoothed round trip on the network; 0 before the first sample. */
    /* The smoothed round trip with the time that the peer takes to answer, and its deviation. */
    uint64_t answer, deviation;
    uint64_t min_rtt; /* The least round trip of this period and the one before. */
    /* The least round trip of this period, and of the one before; UINT64_MAX for none. */
    uint64_t min_rtt_now, min_rtt_before;
    uint64_t period_at;   /* When this period began. */
    uint64_t drain_until; /* Until then the window is small (note 3); 0 when it is not. */
    uint64_t drained_at;  /* When the window was last small. */
    uint64_t queueing;    /* The time in queues that is aimed at besides min_rtt. */
    /* How many packets may be under way, which may be below 1; and a threshold, below which the
     * window doubles in each round. */
    double window, threshold;
    double step;       /* By how many packets the window grows in a round: 1 / paths. */
    double max_window; /* The most for `window`. */
    double before;     /* The window before the timeout in this round; 0 for no timeout. */
    /* The shares of the last packets that were lost, and that had a congestion mark. */
    double loss_rate, mark_rate;
    bool limited;          /* In this round the window has kept a packet from leaving. */
    uint64_t round_ends;   /* The number of the packet whose acknowledgement ends the round. */
    uint64_t round_delay;  /* The least round trip in this round; UINT64_MAX for none. */
    uint64_t round_lost;   /* Packets lost in this round. */
    uint64_t round_marked; /* Packets acknowledged in this round that had a mark. */
    uint64_t leave_at;     /* When the next packet may leave. */
    bool rated;            /* `between` and `credit` are up to date. */
    /* The time from one packet to the next, and how much of it a late sender may make up for in one
     * burst. */
    uint64_t between, credit;
};

/* The functions are called by the thread that has the link. None blocks or allocates, and none
 * fails. now: ns. */

/* Starts a path. queueing: br_dgram_config.target, 0 for a default. paths: of the link. */
void br_dgram_congestion_init(struct br_dgram_congestion *pace, uint64_t queueing, unsigned paths);
/* Limits the window to so many packets, but not to fewer than 2. */
void br_dgram_congestion_limit(struct br_dgram_congestion *pace, uint32_t packets);
/* Reports an answer that came after `answer` ns; packet and answer were on the network for
 * `round_trip` ns of them. */
void br_dgram_congestion_sample(struct br_dgram_congestion *pace, uint64_t round_trip,
                                uint64_t answer, uint64_t now);
/* Reports that so many packets were acknowledged, `marked` of them with a mark. newest: the largest
 * number that was acknowledged. next: the number of the next packet that will be sent. */
void br_dgram_congestion_acked(struct br_dgram_congestion *pace, unsigned packets, unsigned marked,
                               uint64_t newest, uint64_t next);
/* Reports that one packet was lost. */
void br_dgram_congestion_lost(struct br_dgram_congestion *pace);
/* Reports a timeout: no acknowledgement comes any more. */
void br_dgram_congestion_timeout(struct br_dgram_congestion *pace);
/* Reports that a packet which counted as lost has arrived; takes a timeout of this round back. */
void br_dgram_congestion_spurious(struct br_dgram_congestion *pace);
/* Returns whether the window has room for one more packet, apart from pacing. in_flight: the
 * packets under way. */
bool br_dgram_congestion_available(const struct br_dgram_congestion *pace, uint32_t in_flight);
/* Returns whether one more packet may leave now; remembers it when the window is the limit. */
bool br_dgram_congestion_open(struct br_dgram_congestion *pace, uint32_t in_flight, uint64_t now);
/* Reports that one packet has left. */
void br_dgram_congestion_left(struct br_dgram_congestion *pace, uint64_t now);
/* Returns after how many ns without an acknowledgement there is a timeout. */
uint64_t br_dgram_congestion_rto(const struct br_dgram_congestion *pace);

#endif
