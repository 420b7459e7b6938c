/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small sends to a peer that is behind with reading, where ranks share cores.
 *
 * A send() over loopback delivers its segment to the peer within the call, which is most of what it
 * costs. While the peer waits for a core it cannot read, so small frames which the kernel keeps
 * (MSG_MORE) until it acknowledges the ones before cost less and arrive together.
 *
 * 1. The peer is behind while neither of the last two sends that were not kept is acknowledged: two
 *    segments, so the kernel acknowledges them when the peer has read them, and does not wait for
 *    the timer of delayed ACKs.
 * 2. TCP_NODELAY is set, so the next ACK sends all that is kept. Whether one is to come is asked
 *    behind each kept send: if both segments have been acknowledged meanwhile, the kept bytes are
 *    pushed at once.
 * 3. Should the ACK be late all the same (two segments may become one while the peer's kernel
 *    holds the socket), a poll pushes what has been kept for BR_TCP_KEPT_MOST since the first poll
 *    that has seen it. Whoever arms the device to sleep pushes all of it, and nothing is kept while
 *    it is armed. While the progress thread naps (2 ms) nobody may poll.
 * 4. A rank that has waited since its last small send is no stream of calls: nothing is asked or
 *    kept then, as the peers of a barrier have read.
 */
#ifndef BR_TRANSPORT_TCP_BEHIND_H
#define BR_TRANSPORT_TCP_BEHIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

/* More than a peer that has a core takes to read; the timer of delayed ACKs has 40 ms. */
#define BR_TCP_KEPT_MOST (200 * BR_US)

/* All zero at first. Offsets are counted from the link's first byte. */
struct br_tcp_behind {
    uint64_t written;   /* The end of what the kernel has taken. */
    uint64_t pushed[2]; /* The ends of the last two sends that were not kept. */
    uint64_t since;     /* The first poll since something is kept, ns; 0: none yet. */
    uint32_t poll;      /* The device's number of polls at the last small send. */
    bool is_behind;     /* As found by the last check. */
    bool kept;          /* The kernel may keep bytes. */
};

/* The kernel has taken bytes of a send; kept: which had MSG_MORE. */
static inline void br_tcp_behind_sent(struct br_tcp_behind *behind, size_t bytes, bool kept)
{
    behind->written += bytes;
    if (!kept) {
        behind->pushed[0] = behind->pushed[1];
        behind->pushed[1] = behind->written;
        behind->since = 0;
    }
    behind->kept = kept;
}

/* A small send at once is due: do they follow each other? Not when the rank has waited in between,
 * which takes many polls. polls: the device's number of them. */
static inline bool br_tcp_behind_streams(struct br_tcp_behind *behind, uint32_t polls)
{
    bool streams = polls - behind->poll <= 1;

    behind->poll = polls;
    behind->is_behind = behind->is_behind && streams;
    return streams;
}

/* Behind a small send: asks whether the peer is behind, and pushes what is kept if it is not.
 * Returns the number of system calls. */
unsigned br_tcp_behind_check(struct br_tcp_behind *behind, int fd);
/* Pushes what has been kept for BR_TCP_KEPT_MOST. now: of the poll; UINT64_MAX: whatever is kept.
 * Returns the number of system calls. */
unsigned br_tcp_behind_push(struct br_tcp_behind *behind, int fd, uint64_t now);

#endif
