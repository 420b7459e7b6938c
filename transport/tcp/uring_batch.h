/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A batch of socket calls made at once.
 *
 * 1. Every call has MSG_DONTWAIT and has ended when br_tcp_batch_run() returns: the kernel keeps no
 *    address of user memory, so any thread may make the next batch, and a link can be fenced by
 *    closing its socket. Therefore rejected, although io_uring offers them: multishot receive (also
 *    slower, 60 against 67 Gb/s, because it copies), and requests that stay pending (the completion
 *    interrupts the other core: 25 us a round trip instead of 7). Sends without a copy are no part
 *    of a batch, as each is several calls (zero_copy.h).
 * 2. One or two calls are plain system calls, more go through the ring: measured with 64-byte
 *    receives that find data, 1.4 us plain against 1.6 us for two, 2.1 against 2.0 for three, 5.6
 *    against 4.2 for eight.
 * 3. A missing ring (it is forbidden in many containers, or memory is short) is not an error: plain
 *    calls do the same. It is logged once.
 * 4. A plain send of several parts copies them together when they are small, because sendto() takes
 *    0.2 us less than sendmsg(), which copies the list of the parts and checks it. With 4 KiB the
 *    copy costs what the call saves. Where the parts are many and small it pays for more bytes: 51
 *    requests of 72 bytes in two parts each took 14 to 16 us by sendmsg(), 63 of them 5 to 6 us
 *    from one place.
 *
 * One thread at a time uses a batch. The functions do not block.
 */
#ifndef BR_TRANSPORT_TCP_URING_BATCH_H
#define BR_TRANSPORT_TCP_URING_BATCH_H

#include <liburing.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define BR_TCP_BATCH    32   /* The most calls of one batch. */
#define BR_TCP_IOVECS   128  /* The most iovecs of one send: header and payload of a whole queue. */
#define BR_TCP_FEW      2    /* Up to so many calls are made without the ring. */
#define BR_TCP_LITTLE   2048 /* Up to so many bytes the parts of a send are copied together, */
#define BR_TCP_TOGETHER 8192 /* and up to so many if they are of BR_TCP_PART bytes in the mean. */
#define BR_TCP_PART     128

struct br_tcp_call {
    void *owner; /* For the caller. */
    int fd;
    bool is_send;
    bool peeks;                      /* Receive only: what is received stays in the socket. */
    bool lent;                       /* A send that was made without a copy (zero_copy.h), */
    bool filled;                     /* and whose socket took no more. */
    struct msghdr msg;               /* Send only. */
    struct iovec iov[BR_TCP_IOVECS]; /* A receive uses the first only. */
    size_t bytes;                    /* Bytes to send, or the most to receive. */
    long result;                     /* Bytes sent or received, or a negative errno. */
};

struct br_tcp_batch {
    struct io_uring ring;
    bool ring_on; /* The ring is used. */
    int n;        /* Calls in the batch. */
    struct br_tcp_call calls[BR_TCP_BATCH];
    uint8_t together[BR_TCP_TOGETHER]; /* The parts of a small send (note 4). */
};

/* Makes an empty batch, with a ring if possible. */
void br_tcp_batch_init(struct br_tcp_batch *batch);
/* Frees the ring. Allowed on a batch that is all zero. */
void br_tcp_batch_destroy(struct br_tcp_batch *batch);

/* Returns whether no call can be added. */
static inline bool br_tcp_batch_full(const struct br_tcp_batch *batch)
{
    return batch->n == BR_TCP_BATCH;
}

/* Adds a receive of up to `bytes` to `place`. peeks: they stay in the socket. The batch is not
 * full.
 */
void br_tcp_batch_receive(struct br_tcp_batch *batch, void *owner, int fd, void *place,
                          size_t bytes, bool peeks);
/* Adds a send and returns its call, in which the caller fills in iov[0..msg.msg_iovlen), msg_iovlen
 * and bytes. The batch is not full. */
struct br_tcp_call *br_tcp_batch_send(struct br_tcp_batch *batch, void *owner, int fd);

/* Makes all calls that have no result yet and sets their results. Returns the number of system
 * calls. The caller sets batch->n to 0 before the next batch. */
unsigned br_tcp_batch_run(struct br_tcp_batch *batch);

#endif
