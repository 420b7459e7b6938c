/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A batch of socket calls made at once.
 *
 * 1. Every call has MSG_DONTWAIT and has ended when run() returns: the kernel keeps no address of
 *    user
 * memory, so any thread may make the next batch and a link can be fenced by closing its socket.
 * Therefore rejected, although io_uring offers them: multishot receive (also slower, 60 against 67
 * Gb/s, because it copies), requests that stay pending (the completion interrupts the other core:
 * 25 us a round trip instead
 *    of 7), and zero-copy send (the kernel holds the pages until a notification; on loopback and
 * veth it copies anyway and takes 28 % of the throughput: 48 against 67 Gb/s).
 * 2. One or two calls are plain system calls, more go through the ring: measured with 64-byte
 *    receives that
 * find data, 1.4 us plain against 1.6 us for two, 2.1 against 2.0 for three, 5.6 against 4.2 for
 * eight.
 * 3. No ring (forbidden in many containers, or memory is short) is not an error: plain calls do the
 *    same. It
 * is logged once.
 */
#ifndef BR_TRANSPORT_TCP_URING_BATCH_H
#define BR_TRANSPORT_TCP_URING_BATCH_H

#include <liburing.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define BR_TCP_BATCH  32 /* calls of one batch */
#define BR_TCP_IOVECS 16 /* of one send */
#define BR_TCP_FEW    2  /* as many calls are made without the ring */

struct br_tcp_call {
    void *owner; /* the caller's */
    int fd;
    bool is_send;
    struct msghdr msg;               /* send */
    struct iovec iov[BR_TCP_IOVECS]; /* receive: the first */
    size_t bytes;                    /* asked for */
    long result;                     /* bytes, or -errno */
};

struct br_tcp_batch {
    struct io_uring ring;
    bool ring_on;
    int n;
    struct br_tcp_call calls[BR_TCP_BATCH];
};

void br_tcp_batch_init(struct br_tcp_batch *batch);
void br_tcp_batch_destroy(struct br_tcp_batch *batch); /* safe on a zeroed batch */

static inline bool br_tcp_batch_full(const struct br_tcp_batch *batch)
{
    return batch->n == BR_TCP_BATCH;
}

/* The batch must not be full. */
void br_tcp_batch_receive(struct br_tcp_batch *batch, void *owner, int fd, void *place,
                          size_t bytes);
/* Adds a send whose iovecs the caller fills in: call->iov[0..msg.msg_iovlen), call->bytes. */
struct br_tcp_call *br_tcp_batch_send(struct br_tcp_batch *batch, void *owner, int fd);

/* Makes all calls; each has its result afterwards. Returns how many system calls that took. The
 * caller sets batch->n = 0 before the next batch. */
unsigned br_tcp_batch_run(struct br_tcp_batch *batch);

#endif
