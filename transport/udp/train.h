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
 * 4. What the kernel has no room for waits here.
 */
#ifndef BR_TRANSPORT_UDP_TRAIN_H
#define BR_TRANSPORT_UDP_TRAIN_H

#include <sys/socket.h>

#include "transport/datagram/link.h"
#include "transport/inet.h"

#define BR_UDP_TRAINS        16 /* of one batch, each way */
#define BR_UDP_TRAIN_PACKETS 64 /* what every kernel with UDP_SEGMENT takes */
/* Of several packets: a little less than the length field of IP can say. */
#define BR_UDP_TRAIN_BYTES    65000u
#define BR_UDP_TRAIN_CAPACITY 65536u /* for a single packet, too, however long */

struct br_udp_train {
    const void *link; /* whose packets these are; NULL: dropped */
    const union br_inet_address *to;
    int fd;
    uint32_t packet_bytes; /* of all but the last */
    uint32_t bytes;
    int packets;
    bool full; /* its last packet is shorter */
    struct iovec iov;
    uint8_t content[BR_UDP_TRAIN_CAPACITY] __attribute__((aligned(64)));
};

/* What is to be sent, in order. */
struct br_udp_outbox {
    bool cuts;    /* the kernel can send trains; else each packet is one */
    int first, n; /* trains[first..n) wait to be sent */
    /* positive errno of the latest train that could not be sent; the reader sets it to 0 */
    int error;
    const void *error_link;
    bool news; /* ICMP has said something (br_udp_socket_diagnosis); the reader sets it to false */
    struct br_udp_train trains[BR_UDP_TRAINS];
};

/* cuts: as above. */
void br_udp_outbox_init(struct br_udp_outbox *outbox, bool cuts);
/* No train can be begun. */
static inline bool br_udp_outbox_full(const struct br_udp_outbox *outbox)
{
    return outbox->n == BR_UDP_TRAINS;
}
/* Adds a copy of the packet; the outbox is not full. `to` stays readable until it is sent or
 * dropped. */
void br_udp_outbox_add(struct br_udp_outbox *outbox, const void *link, int fd,
                       const union br_inet_address *to, const struct br_dgram_packet *packet);
/* Sends what can be sent; returns the number of system calls. Afterwards br_udp_outbox_waits(): the
 * kernel has no room. */
unsigned br_udp_outbox_send(struct br_udp_outbox *outbox);
static inline bool br_udp_outbox_waits(const struct br_udp_outbox *outbox)
{
    return outbox->first != outbox->n;
}
/* all trains of this link */
void br_udp_outbox_drop(struct br_udp_outbox *outbox, const void *link);

/* What has been received. */
struct br_udp_inbox {
    bool all;            /* the latest call has received all that was there */
    uint64_t now;        /* of that call */
    uint64_t not_before; /* what is received from now on has not come earlier */
    uint64_t ahead;      /* of our clock, of the one of the kernel's time stamps, modulo 2^64 */
    uint8_t bytes[BR_UDP_TRAINS][65536] __attribute__((aligned(64)));
    uint8_t control[BR_UDP_TRAINS][128] __attribute__((aligned(8)));
    union br_inet_address from[BR_UDP_TRAINS];
    struct iovec iov[BR_UDP_TRAINS];
    struct mmsghdr messages[BR_UDP_TRAINS];
};

/* A train in the inbox. */
struct br_udp_arrival {
    const uint8_t *bytes;
    uint32_t n, packet_bytes; /* n == 0: nothing of use */
    const union br_inet_address *from;
    bool marked; /* congestion experienced */
    uint64_t at; /* when the kernel got it */
};

void br_udp_inbox_init(struct br_udp_inbox *inbox);
/* Receives up to max trains: how many, or -errno. One system call; what an earlier call got is
 * gone. */
int br_udp_inbox_receive(struct br_udp_inbox *inbox, int fd, int max);
/* In order, each once: their times do not go back. */
struct br_udp_arrival br_udp_inbox_at(struct br_udp_inbox *inbox, int i);

#endif
