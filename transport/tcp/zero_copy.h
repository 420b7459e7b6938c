/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Zero-copy send of a link: its first large sends go by turns with a copy and without, through a
 * pipe, and the way without is taken if it mostly needs less CPU time than the copy before it.
 *
 * The reasons are in doc/design/tcp.md, "Zero-copy send".
 */
#ifndef BR_TRANSPORT_TCP_ZERO_COPY_H
#define BR_TRANSPORT_TCP_ZERO_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/tcp/uring_batch.h"

/* Pairs of a trial, a call with a copy and one without, at most: most of them decide. */
#define BR_TCP_ZERO_COPY_PAIRS 16

/* What BRAID_TCP_ZERO_COPY says. */
enum br_tcp_zero_copy_way {
    BR_TCP_ZERO_COPY_TRIED, /* `auto`: each link tries it. */
    BR_TCP_ZERO_COPY_OFF,
    BR_TCP_ZERO_COPY_ON, /* Without a trial; for tests and comparisons. */
};

/* Of a link. */
struct br_tcp_zero_copy {
    enum {
        BR_TCP_ZERO_COPY_UNTRIED,
        BR_TCP_ZERO_COPY_TRIAL_ON,
        BR_TCP_ZERO_COPY_TAKEN,
        BR_TCP_ZERO_COPY_DEARER, /* Until the next trial. */
        BR_TCP_ZERO_COPY_LEFT,   /* For good. */
    } state;
    enum br_tcp_zero_copy_way way;
    /* Of the trial: its calls, the even ones of which copy; ns of CPU time a byte of the last copy;
     * in how many pairs the call without a copy was cheaper than the copy before it, or was not. */
    unsigned calls;
    double copied;
    int cheaper, dearer;
};

/* Of a device: the pipe that its links send pages through, which is empty between two calls, and
 * where pages go that a socket has not taken. Descriptors; -1: not open. */
struct br_tcp_pipe {
    int in, out, null;
};

/* Reads BRAID_TCP_ZERO_COPY. Returns 0, or -EINVAL with a message. */
int br_tcp_zero_copy_read(enum br_tcp_zero_copy_way *out);

/* For a new link. */
static inline void br_tcp_zero_copy_init(struct br_tcp_zero_copy *zero,
                                         enum br_tcp_zero_copy_way way)
{
    *zero = (struct br_tcp_zero_copy){
        .way = way,
        .state = way == BR_TCP_ZERO_COPY_OFF ? BR_TCP_ZERO_COPY_LEFT : BR_TCP_ZERO_COPY_UNTRIED,
    };
}

/* Do large frames leave without a copy, or is that being tried? */
static inline bool br_tcp_zero_copy_lends(const struct br_tcp_zero_copy *zero)
{
    return zero->state < BR_TCP_ZERO_COPY_DEARER;
}

/* Tries again, as what memory of the other end's core costs may have changed: to be called now and
 * then. */
static inline void br_tcp_zero_copy_try_again(struct br_tcp_zero_copy *zero)
{
    if (zero->way == BR_TCP_ZERO_COPY_TRIED && zero->state != BR_TCP_ZERO_COPY_LEFT)
        br_tcp_zero_copy_init(zero, zero->way);
}

/*
 * Makes a send call of one large frame, with or without a copy, and sets its result and whether it
 * was `lent`; not if the way without was left: then a batch makes it. The last part of the call is
 * payload that lasts. pipe: opened when it is first needed. name: of the link, for the log. Returns
 * the number of system calls.
 */
unsigned br_tcp_zero_copy_send(struct br_tcp_zero_copy *zero, struct br_tcp_pipe *pipe,
                               struct br_tcp_call *call, const char *name);

/* The next call of a trial has taken so many ns of CPU time a byte: may end the trial. Pairs are
 * counted, as a single call in which the kernel had something else to do would decide sums. */
void br_tcp_zero_copy_took(struct br_tcp_zero_copy *zero, double cost, const char *name);

void br_tcp_pipe_close(struct br_tcp_pipe *pipe);

#endif
