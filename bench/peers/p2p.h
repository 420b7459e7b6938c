/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The measuring loop that the drivers of bench/p2p_peers.sh share: messages and one-sided accesses
 * between two ranks.
 *
 * Latency: of a message half of a round trip of blocking calls, of an access one blocking access by
 * rank 0. Rate: P2P_WINDOW are started, all are waited for, and of messages the receiver answers
 * with an empty one, as osu_mbw_mr does. While rank 0 accesses its memory, rank 1 waits for a
 * message. A figure is that of the fastest of some blocks, which share the time budget: what else
 * runs on the machine makes a block slower, never faster.
 */
#ifndef BENCH_PEERS_P2P_H
#define BENCH_PEERS_P2P_H

#include <stddef.h>

#define P2P_WINDOW 64

/* What a library must offer. Messages go to and come from the other rank. Functions return 0, or
 * nonzero after printing why. */
struct p2p_peer {
    int rank;
    void *(*memory)(size_t bytes); /* for what is sent and received; NULL: there is none */
    int (*expose)(size_t bytes);   /* both ranks: makes rank 1's memory for puts and gets */
    int (*send)(const void *from, size_t bytes);
    int (*recv)(void *into, size_t bytes);
    /* start one of P2P_WINDOW, number i */
    int (*start_send)(int i, const void *from, size_t bytes);
    int (*start_recv)(int i, void *into, size_t bytes);
    int (*wait)(int n); /* for the messages 0 to n-1 */
    /* n accesses by rank 0 to rank 1's memory; they have ended there on return */
    int (*put)(int n, const void *from, size_t bytes);
    int (*get)(int n, void *into, size_t bytes);
};

/* argv: MILLISECONDS SIZE... in bytes, ascending. Rank 0 prints "KIND SIZE US RATE", KIND being
 * message, put or get and RATE in 1/s. Returns the exit code of the process. */
int p2p_measure(const struct p2p_peer *peer, int argc, char **argv);

#endif
