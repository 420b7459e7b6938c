/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Zero-copy send of a link: MSG_ZEROCOPY is tried with its first large sends, and taken if that
 * needs less CPU time.
 *
 * The reasons are in doc/design/tcp.md, "Zero-copy send".
 */
#ifndef BR_TRANSPORT_TCP_ZERO_COPY_H
#define BR_TRANSPORT_TCP_ZERO_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/stream.h"
#include "transport/tcp/uring_batch.h"

/* Calls of fewer bytes always copy: there the pages cost more than the copy. */
#define BR_TCP_ZERO_COPY_LEAST (64u << 10)
#define BR_TCP_ZERO_COPY_CALLS 64 /* Whose memory the kernel may read at once, a bit each. */
#define BR_TCP_ZERO_COPY_TRIAL 16 /* Calls of a trial with a copy, and as many without. */

/* What BRAID_TCP_ZERO_COPY says. */
enum br_tcp_zero_copy_way {
    BR_TCP_ZERO_COPY_TRIED, /* `auto`: each link tries it. */
    BR_TCP_ZERO_COPY_OFF,
    BR_TCP_ZERO_COPY_ON, /* Without a trial, also where the kernel copies after all; for tests. */
};

/* What the calls of one kind have cost. */
struct br_tcp_zero_copy_cost {
    uint64_t cpu, bytes; /* ns of the threads that made the calls; bytes that these took. */
    int calls;
};

/* Of a link. */
struct br_tcp_zero_copy {
    enum {
        BR_TCP_ZERO_COPY_UNTRIED,
        BR_TCP_ZERO_COPY_TRIAL_ON,
        BR_TCP_ZERO_COPY_TAKEN,
        BR_TCP_ZERO_COPY_LEFT, /* For good. */
    } state;
    enum br_tcp_zero_copy_way way;
    struct br_tcp_zero_copy_cost copied, uncopied; /* Of the trial. */
    /* The kernel numbers the calls. It may still read the memory of ended..made; the bit of call i
     * (modulo BR_TCP_ZERO_COPY_CALLS) in `out_of_turn` says that i has ended before an earlier one.
     * first[i]: the first frame that has bytes in call i. */
    uint32_t made, ended;
    uint64_t out_of_turn;
    uint32_t first[BR_TCP_ZERO_COPY_CALLS];
};

/* Reads BRAID_TCP_ZERO_COPY. Returns 0, or -EINVAL with a message. */
int br_tcp_zero_copy_read(enum br_tcp_zero_copy_way *out);

/* For a new link. */
static inline void br_tcp_zero_copy_init(struct br_tcp_zero_copy *zero,
                                         enum br_tcp_zero_copy_way way)
{
    zero->way = way;
    zero->state = way == BR_TCP_ZERO_COPY_OFF ? BR_TCP_ZERO_COPY_LEFT : BR_TCP_ZERO_COPY_UNTRIED;
    zero->made = zero->ended = 0;
    zero->out_of_turn = 0;
    zero->copied = zero->uncopied = (struct br_tcp_zero_copy_cost){0};
}

/* May the kernel still read memory of frames that were sent? */
static inline bool br_tcp_zero_copy_pending(const struct br_tcp_zero_copy *zero)
{
    return zero->made != zero->ended;
}

/* Is this call made by br_tcp_zero_copy_send(), and not with a batch? */
static inline bool br_tcp_zero_copy_wants(const struct br_tcp_zero_copy *zero, size_t bytes)
{
    return bytes >= BR_TCP_ZERO_COPY_LEAST && zero->state != BR_TCP_ZERO_COPY_LEFT;
}

/*
 * Makes a send call of a link, with or without a copy, and sets its result. tx: from which the call
 * was gathered; what it is told of the frames is that the kernel still reads them. name: of the
 * link, for the log. Returns the number of system calls.
 */
unsigned br_tcp_zero_copy_send(struct br_tcp_zero_copy *zero, struct br_stream_tx *tx,
                               struct br_tcp_call *call, const char *name);

/* Reads from the socket which calls have ended, and lets go of their frames in tx. Decides, when
 * the trial is over. Returns the number of system calls. */
unsigned br_tcp_zero_copy_read_ends(struct br_tcp_zero_copy *zero, struct br_stream_tx *tx, int fd,
                                    const char *name);

/* Calls [first..last] have ended; copied: the kernel has copied after all. For
 * br_tcp_zero_copy_read_ends() and tests. */
void br_tcp_zero_copy_end(struct br_tcp_zero_copy *zero, struct br_stream_tx *tx, uint32_t first,
                          uint32_t last, bool copied, const char *name);

#endif
