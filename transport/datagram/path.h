/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One path of a link (a source port of the sender, so perhaps a way of its own through the
 * network): how many packets may be on it, and how fast they leave.
 *
 * 1. Each path numbers its own packets and has its own acknowledgements, round trips, losses and
 *    window. So what is slow or lost on one says nothing about another, and a path that carries
 *    nothing any more costs a probe now and then. Rejected: one row of numbers over all paths, in
 *    which a slow path looks like loss on all, and acknowledgements become long.
 * 2. Congestion control is after Swift (SIGCOMM'20), not Timely (SIGCOMM'15): Swift steers by the
 *    delay itself towards a target, Timely by its gradient, whose fixed point is not unique (flows
 *    keep whatever share they have), and which noise of a few us in software time stamps swamps.
 *    Swift's window may be below one packet, which incast needs; Timely has rates only.
 * 3. What differs from Swift. It knows the fabric's base delay and host delay from configuration
 *    and NIC time stamps; we measure the least round trip of the last 5 to 10 s. A newcomer that
 *    meets a standing queue would take it for the base, and then take all. So once a second the
 *    window is a quarter for two round trips, and who sees the delay fall by half does the same at
 *    once: flows that share a queue drain it together (after BBR's probes), and all see its base.
 *    Delay is the least of a round, not of a packet: a process that was not scheduled for a moment
 *    is no congestion. One decision a round: below the target plus one packet, above it less by 0.8
 *    of the excess, at most by half. Windows start doubling. The target is base + queueing * (1/2 +
 *    4 / sqrt(window)), at most 4.5: Swift's flow scaling without a lower end, which makes shares
 *    equal also where bases were measured differently.
 * 4. Loss is no signal by itself, as cables and radio lose without being full, and 1 % of loss must
 *    not cost more than 1 % of rate. Only when more than 6 % of the last packets were lost, the
 *    window is multiplied by 0.7 once a round: a queue shorter than the target. Marks (ECN) shrink
 *    it by half of their share, as DCTCP does.
 * 5. Pacing spreads the window over the round trip at 1.25 of its rate, in bursts of up to a
 *    quarter of a window that the kernel or the NIC takes at once: 32 packets, or what that rate
 *    carries in 50 us, as a sender cannot look more often. (With 32 alone a fast sender left each
 *    time it looked with no more, however late it came.) Below one packet it is what makes the
 *    window.
 * 6. All paths of one link together take the share of one flow: their steps are 1 / paths, and the
 *    target sees their windows' sum.
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
/* the window is never larger */
void br_dgram_congestion_limit(struct br_dgram_congestion *pace, uint32_t packets);
/* An answer came after `answer`, of which the packet and it were `round_trip` on the network. */
void br_dgram_congestion_sample(struct br_dgram_congestion *pace, uint64_t round_trip,
                                uint64_t answer, uint64_t now);
/* Packets have been acknowledged, the newest of them is `newest`; `marked` of them had a mark.
 * `next`: number of the next packet that will be sent. */
void br_dgram_congestion_acked(struct br_dgram_congestion *pace, unsigned packets, unsigned marked,
                               uint64_t newest, uint64_t next);
void br_dgram_congestion_lost(struct br_dgram_congestion *pace);    /* one packet */
void br_dgram_congestion_timeout(struct br_dgram_congestion *pace); /* nothing at all comes back */
void br_dgram_congestion_spurious(
    /* what was taken for lost has arrived: it did not time out */
    struct br_dgram_congestion *pace);
/* Is there room for one more, apart from pacing? */
bool br_dgram_congestion_available(const struct br_dgram_congestion *pace, uint32_t in_flight);
/* May one more leave? Notes that the window limits. */
bool br_dgram_congestion_open(struct br_dgram_congestion *pace, uint32_t in_flight, uint64_t now);
/* one packet has left */
void br_dgram_congestion_left(struct br_dgram_congestion *pace, uint64_t now);
/* without a sign: probe */
uint64_t br_dgram_congestion_rto(const struct br_dgram_congestion *pace);

#endif
