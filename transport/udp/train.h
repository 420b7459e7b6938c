/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Trains: packets of one size (the last may be shorter) to one address that go through the kernel
 * as one.
 *
 * 1. The kernel takes a train as one buffer and cuts it behind the routing (UDP_SEGMENT), and hands
 *    it over uncut where nothing had to cut it (UDP_GRO). Measured once each, on two cores over
 *    veth, packets of 1472 bytes, repeats up to threefold apart: sendmmsg() of single packets 3.3
 *    Gb/s, trains 30 to 39, in one run 13.
 * 2. Rejected after measuring: the same trains through io_uring, 13 Gb/s over veth and 26 on
 *    loopback; with packets of 9000 bytes level with sendmmsg() on loopback (33), slower over veth
 *    (17 against 42).
 * 3. A train is put together here, in one piece. Rejected after measuring (doc/udp.md): two pieces
 *    a packet, its head and the user's memory, which the kernel gathers. With packets of 1472 bytes
 *    that costs more than a copy here and the kernel's out of memory that then is in the cache;
 *    with packets of 8972 bytes the two ways are level.
 * 4. Trains that the kernel has no room for wait here.
 *
 * All functions are called under the lock of the worker that has the device; none blocks.
 */
#ifndef BR_TRANSPORT_UDP_TRAIN_H
#define BR_TRANSPORT_UDP_TRAIN_H

#include <sys/socket.h>

#include "transport/datagram/link.h"
#include "transport/inet.h"

#define BR_UDP_TRAINS        16 /* The most trains of one batch, in each direction. */
#define BR_UDP_TRAIN_PACKETS 64 /* The most packets that every kernel with UDP_SEGMENT takes. */
/* The most bytes of several packets: a little less than the length field of IP can hold. */
#define BR_UDP_TRAIN_BYTES    65000u
#define BR_UDP_TRAIN_CAPACITY 65536u /* Room for a single packet of any length. */

/* A train to send. */
struct br_udp_train {
    const void *link;                /* The link whose packets these are; NULL: dropped. */
    const union br_inet_address *to; /* The receiver's address; kept by the caller. */
    int fd;                          /* The socket to send from. */
    uint32_t packet_bytes;           /* Bytes of each packet but the last. */
    uint32_t bytes;                  /* Bytes of all packets. */
    int packets;
    bool full; /* Its last packet is shorter, so no packet can follow. */
    struct iovec iov;
    uint8_t content[BR_UDP_TRAIN_CAPACITY] __attribute__((aligned(64)));
};

/* Trains to send, in order. */
struct br_udp_outbox {
    bool cuts;    /* The kernel can cut trains; else each packet is a train. */
    int first, n; /* trains[first..n) wait to be sent. */
    /* Positive errno of the latest train that could not be sent, and its link. The reader sets the
     * error to 0. */
    int error;
    const void *error_link;
    /* The kernel has an error to report (br_udp_socket_diagnosis()). The reader sets it to false.
     */
    bool news;
    struct br_udp_train trains[BR_UDP_TRAINS];
};

/* Makes an empty outbox. cuts: br_udp_outbox.cuts. */
void br_udp_outbox_init(struct br_udp_outbox *outbox, bool cuts);
/* Returns whether no packet can be added, as there may be no train for it. */
static inline bool br_udp_outbox_full(const struct br_udp_outbox *outbox)
{
    return outbox->n == BR_UDP_TRAINS;
}
/* Adds a copy of a packet to an outbox that is not full. link: the link that it belongs to, for
 * br_udp_outbox_drop(). fd: the socket to send it from. to: stays readable until the packet is sent
 * or dropped. */
void br_udp_outbox_add(struct br_udp_outbox *outbox, const void *link, int fd,
                       const union br_inet_address *to, const struct br_dgram_packet *packet);
/* Sends trains while the kernel has room. Returns the number of system calls. */
unsigned br_udp_outbox_send(struct br_udp_outbox *outbox);
/* Returns whether trains wait. After br_udp_outbox_send(), the kernel has no room for them. */
static inline bool br_udp_outbox_waits(const struct br_udp_outbox *outbox)
{
    return outbox->first != outbox->n;
}
/* Drops all trains of a link. */
void br_udp_outbox_drop(struct br_udp_outbox *outbox, const void *link);

/* Trains that were received. Times are in ns. */
struct br_udp_inbox {
    bool all;            /* The latest br_udp_inbox_receive() has received all that was there. */
    uint64_t now;        /* The time of that call. */
    uint64_t not_before; /* Trains that are received from now on have not arrived before. */
    /* By how much the clock of the kernel's time stamps is ahead of braid's, modulo 2^64. */
    uint64_t ahead;
    uint8_t bytes[BR_UDP_TRAINS][65536] __attribute__((aligned(64)));
    uint8_t control[BR_UDP_TRAINS][128] __attribute__((aligned(8)));
    union br_inet_address from[BR_UDP_TRAINS];
    struct iovec iov[BR_UDP_TRAINS];
    struct mmsghdr messages[BR_UDP_TRAINS];
};

/* A train in the inbox. */
struct br_udp_arrival {
    const uint8_t *bytes;
    uint32_t n, packet_bytes; /* Bytes of the train, 0 when it is to be ignored; of a packet. */
    const union br_inet_address *from;
    bool marked; /* Its packets have the mark "congestion experienced". */
    uint64_t at; /* When the kernel has received it, ns. */
};

/* Prepares an inbox. */
void br_udp_inbox_init(struct br_udp_inbox *inbox);
/* Receives up to max trains from a socket with one system call. Those of the call before are not
 * valid any more. Returns how many, or a negative errno. */
int br_udp_inbox_receive(struct br_udp_inbox *inbox, int fd, int max);
/* Returns train i of the latest br_udp_inbox_receive(), valid until the next one. Called once for
 * each train, in order, so that their times do not go back. */
struct br_udp_arrival br_udp_inbox_at(struct br_udp_inbox *inbox, int i);

#endif
