/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The udp back end: transport/datagram/ over sockets.
 *
 * 1. One socket receives all of a device's packets, whoever sends them, and a packet says by a
 *    random number which link it belongs to. More sockets, which only send, give the packets other
 *    source ports, so that switches which choose a path by ports use several (BRAID_UDP_PATHS).
 *    Rejected: a connected socket a link, which costs a system call a link and poll.
 * 2. An ICMP error for a link that is up fails the link only where waiting would not help: nothing
 *    listens at the peer any more, or the path carries shorter packets than was agreed. Other
 * errors may pass, and br_dgram_config.patience decides.
 * 3. UDP's own checksum covers every packet, and the NIC or the kernel looks at it, as with TCP. So
 *    braid's own, CRC32C, covers headers only: over all payload it takes an eighth of the time of
 *    both ends. BRAID_UDP_CHECKSUM=crc32c is for users who do not trust 16 bits.
 */
#ifndef BR_TRANSPORT_UDP_UDP_H
#define BR_TRANSPORT_UDP_UDP_H

#include "transport/datagram/device.h"
#include "transport/udp/socket.h"
#include "transport/udp/train.h"

struct br_udp_device {
    struct br_dgram_device dgram;
    int fds[BR_DGRAM_PATHS]; /* A socket for each path; the first one receives, too. */
    int epoll_fd, timer_fd;
    int out_fd;                   /* The socket that epoll watches for room to send, or -1. */
    bool armed;                   /* arm() has been called since the latest poll(). */
    struct br_udp_outbox *outbox; /* Owned. */
    struct br_udp_inbox *inbox;   /* Owned. */
};

/* How packets travel through sockets. */
extern const struct br_dgram_io br_udp_io;

/* poll.c: poll() and arm() of br_transport_ops. */
int br_udp_poll(struct br_device *device, uint64_t now, struct br_event *events, int max);
int br_udp_arm(struct br_device *device);

#endif
